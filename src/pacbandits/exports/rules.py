"""Export of a policy as rules in JSON, as JSON Logic, as conditions of feature flags, and as a JavaScript function."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from pacbandits.checks import text, texts
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.policies.decisions import (
    AskingPolicy,
    Condition,
    DecidingPolicy,
    Decision,
    IdAmong,
    Indicator,
    Inputs,
    LabelIs,
    LargestScore,
    NumberAtMost,
    NumberMissing,
    RuleList,
    Standardised,
    Term,
)
from pacbandits.records import Chosen, Mixture, Policy, check_chosen, parts_of
from pacbandits.records.column_types import DatePart, date_parts
from pacbandits.records.contexts import ID_COLUMN
from pacbandits.schema import Json

# Shared by all exports: the decision of a policy and the names of its actions.


Action = str | int  # in an export: its name, or its number


def decision_of(policy: Policy) -> Decision:
    """Return the decision of a policy; raise InputError for a policy that has none."""
    if isinstance(policy, DecidingPolicy):
        return policy.decision()
    kind = plain(getattr(policy, "kind", type(policy).__name__))
    raise InputError(
        f"a policy of kind '{kind}' cannot be written out so that it acts the same everywhere; use `pacbandits apply`, "
        "or call the policy on contexts"
    )


def written_actions(chosen: Chosen, actions: Sequence[str] | None) -> tuple[Action, ...]:
    """Return the name of each action if there are names, else its number."""
    if actions is None:
        return tuple(range(chosen.n_actions))
    names = texts(actions, name="actions")
    if len(names) != chosen.n_actions:
        there, given = count_of(chosen.n_actions, "action"), count_of(len(names), "name")
        raise InputError(f"the policy has {there}, and actions were given {given}; give one for each")
    return names


def inputs_of(chosen: Chosen) -> Inputs | None:
    """Return the inputs of a policy, or of all policies of a mixture policy; None if one of them declares none."""
    out = Inputs()
    for policy in parts_of(chosen):
        asked = policy.inputs() if isinstance(policy, AskingPolicy) else None
        if asked is None:
            return None
        out |= asked
    return out


def made_of_dates(chosen: Chosen, dates: Sequence[str]) -> dict[str, DatePart]:
    """Return the features of a policy that are made of these date columns, with the column and part of each."""
    asked = inputs_of(chosen)
    known = texts(dates, name="dates")
    return {} if asked is None else date_parts((*asked.numbers, *asked.labels), known)


def to_rules(policy: Chosen, *, actions: Sequence[str] | None = None, dates: Sequence[str] = ()) -> Json:
    """Return a policy as JSON rules: the first rule whose conditions all hold decides, otherwise the "else".

    A condition has a `feature` and one of: `at_most` a number, `is` a label, `is_missing`, or `among` ids of contexts.
    It fails for a missing value, unless it has `or_missing`. "else" is null if contexts without a rule have no action.
    A mixture policy has rule lists under "mixture", each with its `probability` and `below`: the first whose `below` is
    above a draw from [0, 1) is taken. Features made of date columns are listed under "made", each with the column and
    its part: the `weekday` (Mon, …, Sun), the `day` (counted from 1970-01-01), the `hour` (13.5 is half past one), or
    the `age`, the number of days `before` another column.

    policy: a tree, a table of up to 1,000 contexts, or a mixture of these.
    actions: the names of the actions, in the order of their numbers; by default the numbers.
    dates: the columns of dates and times that features were made of, as named in a certificate.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20.0], [40.0]], names=["age"])
    >>> policy = pb.Trees.learn(people, n_actions=2, depth=1).argmax(people, [[1.0, 0.0], [0.0, 1.0]])
    >>> pb.to_rules(policy, actions=["plain", "discount"])
    {'rules': [{'if': [{'feature': 'age', 'at_most': 30.0}], 'then': 'plain'}], 'else': 'discount'}

    Raises:
        InputError: If the policy is not a list of rules.
    """
    check_chosen(policy)
    names = written_actions(policy, actions)
    made = made_of_dates(policy, dates)
    beside = {"made": {name: _made(one) for name, one in made.items()}} if made else {}
    if not isinstance(policy, Mixture):
        return _rules(policy, names) | beside
    parts = zip(policy.policies, policy.weights, policy.bounds, strict=True)
    return {"mixture": [{"probability": p, "below": bound, **_rules(one, names)} for one, p, bound in parts]} | beside


def _made(part: DatePart) -> Json:
    return {"of": part.column, "part": part.part} | ({"before": part.time} if part.time else {})


def _rules(policy: Policy, names: Sequence[Action]) -> Json:
    decision = rule_list_of(policy)
    rules = [{"if": [_condition(one) for one in r.conditions], "then": names[r.action]} for r in decision.rules]
    return {"rules": rules, "else": _default(decision, names)}


def rule_list_of(policy: Policy) -> RuleList:
    """Return the rules of a policy; raise InputError for one that has none."""
    decision = decision_of(policy)
    if isinstance(decision, RuleList):
        return decision
    raise InputError(
        "a linear policy is no list of rules but a sum for each action; use its form in SQL, Python or JavaScript, or "
        "`pacbandits apply`"
    )


def _condition(condition: Condition) -> Json:
    match condition:
        case NumberAtMost(feature, most, or_missing):
            said: Json = {"feature": feature, "at_most": float(most)}
        case NumberMissing(feature):
            return {"feature": feature, "is_missing": True}
        case LabelIs(feature, label, or_missing):
            said = {"feature": feature, "is": label}
        case IdAmong(ids):
            return {"feature": ID_COLUMN, "among": list(ids)}
    return said | ({"or_missing": True} if or_missing else {})


# JSON Logic (https://jsonlogic.com) and flags. Both compare as JavaScript does, where null <= 1 is true: a comparison
# stands behind a test that the number is there.


FlagSystem = Literal["growthbook", "flagd"]
FLAG_SYSTEMS: tuple[FlagSystem, ...] = get_args(FlagSystem)


def to_json_logic(policy: Chosen, *, actions: Sequence[str] | None = None, draw: str | None = None) -> object:
    """Return a policy as an expression of JSON Logic, which gives the action of the data it is applied to.

    The data has the features of the policy by name: numbers as numbers, labels as text, null or nothing for a missing
    value, and the features made of date columns as `to_rules` describes them. The result is null for a context without
    an action and for a draw outside [0, 1).

    policy: a tree, a table of up to 1,000 contexts, or a mixture of these.
    actions: the names of the actions, in the order of their numbers; by default the numbers.
    draw: for a mixture policy, the name in the data of a draw from [0, 1).

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20.0], [40.0]], names=["age"])
    >>> policy = pb.Trees.learn(people, n_actions=2, depth=1).argmax(people, [[1.0, 0.0], [0.0, 1.0]])
    >>> pb.to_json_logic(policy, actions=["plain", "discount"])
    {'if': [{'and': [{'!': [{'missing': ['age']}]}, {'<=': [{'var': 'age'}, 30.0]}]}, 'plain', 'discount']}

    Raises:
        InputError: If the policy is not a list of rules, or JSON Logic would read a feature's name as a path.
    """
    check_chosen(policy)
    names = written_actions(policy, actions)
    decisions = [rule_list_of(one) for one in parts_of(policy)]
    _check_paths(decisions)
    if not isinstance(policy, Mixture):
        return _logic(decisions[0], names)
    name = _checked_name(draw, decisions)
    drawn, out = {"var": name}, list[object]()
    out += [{"or": [{"missing": [name]}, {"<": [drawn, 0.0]}]}, None]
    for decision, bound in zip(decisions, policy.bounds, strict=True):
        out += [{"<": [drawn, bound]}, _logic(decision, names)]
    return {"if": [*out, None]}


def _logic(decision: RuleList, names: Sequence[Action]) -> object:
    otherwise = _default(decision, names)
    branches = [part for r in decision.rules for part in (_every("and", map(_test, r.conditions)), names[r.action])]
    return {"if": [*branches, otherwise]} if branches else otherwise


def _every(word: str, parts: Iterable[object]) -> object:
    """Return the conjunction of conditions; a condition that stands alone as it is."""
    listed = list(parts)
    return listed[0] if len(listed) == 1 else {word: listed}


def _test(condition: Condition) -> object:
    """Return a condition in JSON Logic, in which "missing" is also true of empty text, as for numbers in Python."""
    match condition:
        case NumberAtMost(feature, most, or_missing):
            gone, small = {"missing": [feature]}, {"<=": [{"var": feature}, float(most)]}
            return {"or": [gone, small]} if or_missing else {"and": [{"!": [gone]}, small]}
        case NumberMissing(feature):
            return {"missing": [feature]}
        case LabelIs(feature, label, or_missing):
            same = {"===": [{"var": feature}, label]}
            return {"or": [same, {"===": [{"var": feature}, None]}]} if or_missing else same
        case IdAmong(ids):
            return {"in": [{"var": ID_COLUMN}, list(ids)]}


def to_flags(
    policy: Chosen,
    *,
    actions: Sequence[str] | None = None,
    draw: str | None = None,
    name: str = "policy",
    system: str = "growthbook",
) -> Json:
    """Return a policy as the definition of a feature flag whose value is the action.

    Attributes have the names of the features, as the data of `to_json_logic`. With `growthbook`, the flag has one rule
    with a targeting condition for each rule of the policy, and the last action as its default. With `flagd`, the
    provider of OpenFeature, the actions are variants and the targeting is JSON Logic.

    policy: a tree, a table of up to 1,000 contexts, or a mixture of these; flagd: trees only.
    actions: the names of the actions, in the order of their numbers; by default the numbers.
    draw: for a mixture policy, the attribute with a draw from [0, 1).
    name: of the flag.
    system: `growthbook` or `flagd`.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20.0], [40.0]], names=["age"])
    >>> policy = pb.Trees.learn(people, n_actions=2, depth=1).argmax(people, [[1.0, 0.0], [0.0, 1.0]])
    >>> pb.to_flags(policy, actions=["plain", "discount"], name="email")["email"]["rules"]
    [{'condition': {'age': {'$type': 'number', '$lte': 30.0}}, 'force': 'plain'}]

    Raises:
        InputError: If the policy is not a list of rules, or the system cannot hold it exactly.
    """
    check_chosen(policy)
    if text(system, name="system") not in FLAG_SYSTEMS:
        raise InputError(f"the system of flags '{plain(system)}' is not known here{nearest(system, FLAG_SYSTEMS)}")
    if not text(name, name="name"):
        raise InputError("the name of the flag is empty; choose another")
    names = written_actions(policy, actions)
    decisions = [rule_list_of(one) for one in parts_of(policy)]
    _check_paths(decisions)
    if system == "flagd":
        return _flagd(policy, decisions, names, name)
    if not isinstance(policy, Mixture):
        return {name: {"defaultValue": _default(decisions[0], names), "rules": _flag_rules(decisions[0], names)}}
    drawn_as, rules = _checked_name(draw, decisions), list[Json]()
    for decision, bound in zip(decisions, policy.bounds, strict=True):
        drawn: Json = {drawn_as: {"$type": "number", "$gte": 0.0, "$lt": bound}}
        rules += _flag_rules(decision, names, drawn)
        rules.append({"condition": drawn, "force": _default(decision, names)})
    return {name: {"defaultValue": None, "rules": rules}}


def _default(decision: RuleList, names: Sequence[Action]) -> Action | None:
    return None if decision.otherwise is None else names[decision.otherwise]


def _flag_rules(decision: RuleList, names: Sequence[Action], *also: Json) -> list[Json]:
    return [
        {"condition": _every("$and", [*also, *map(_target, rule.conditions)]), "force": names[rule.action]}
        for rule in decision.rules
    ]


def _target(condition: Condition) -> Json:
    """Return a condition as GrowthBook's targeting conditions, in which $exists is false of null, too."""
    match condition:
        case NumberAtMost(feature, most, or_missing):
            said: Json = {feature: {"$type": "number", "$lte": float(most)}}
        case NumberMissing(feature):
            return {feature: {"$exists": False}}
        case LabelIs(feature, label, or_missing):
            said = {feature: {"$eq": label}}
        case IdAmong(ids):
            return {ID_COLUMN: {"$in": list(ids)}}
    return {"$or": [said, {feature: {"$exists": False}}]} if or_missing else said


def _flagd(policy: Chosen, decisions: Sequence[RuleList], names: Sequence[Action], name: str) -> Json:
    decision = decisions[0]
    if isinstance(policy, Mixture) or decision.otherwise is None:
        raise InputError(
            "flagd gives its default where no rule has an action, and this policy is a mixture or a table, which has "
            "no default; use --json-logic, --javascript, or --flag-system growthbook"
        )
    variants = {str(one): one for one in names}
    targeting = _logic(decision, tuple(variants))
    rest = {"targeting": targeting} if decision.rules else {}
    flag = {"state": "ENABLED", "variants": variants, "defaultVariant": str(names[decision.otherwise])}
    return {"flags": {name: {**flag, **rest}}}


def _check_paths(decisions: Sequence[RuleList]) -> None:
    """Raise InputError for a feature whose name rule engines take for a path or an operator."""
    for name in _features(decisions):
        if not name or "." in name or name.startswith("$"):
            raise InputError(
                f"the feature '{plain(name)}' has a name that rule engines read as a path or an operator; rename the "
                "column (no dot, no leading $) and certify again, or use --javascript"
            )


def _features(decisions: Sequence[RuleList]) -> set[str]:
    conditions = (one for decision in decisions for rule in decision.rules for one in rule.conditions)
    return {ID_COLUMN if isinstance(one, IdAmong) else one.feature for one in conditions}


def _checked_name(draw: str | None, decisions: Sequence[RuleList]) -> str:
    if draw is None or not text(draw, name="draw").strip():
        raise InputError("the policy is a mixture; name its draw, a number from [0, 1) in the data (--draw NAME)")
    if "." in draw or draw.startswith("$") or draw in _features(decisions):
        raise InputError(f"the draw '{plain(draw)}' is a feature of the policy or no plain name; choose another name")
    return draw


# JavaScript: one function that reads the policy as data. The arithmetic is that of Python, in doubles.


_JAVASCRIPT = r"""  const made = new Map(policy.made.map(([name, column, wanted]) => [name, [column, wanted]]));
  return (row, draw) => {
    // Numbers may be text; null, "" and NaN are missing. A value that is not there at all is an error.
    const refuse = (words, name) => {
      throw new TypeError(words + " " + JSON.stringify(name));
    };
    const has = (name) => Object.prototype.hasOwnProperty.call(row, name);
    const value = (name) => (has(name) ? row[name] : refuse("the row lacks", name));
    const isMissing = (given) => given === null || given === undefined || given !== given;
    const number = (name) => {
      const given = made.has(name) ? part(...made.get(name)) : value(name);
      if (isMissing(given) || given === "") return NaN;
      if (["number", "bigint", "boolean"].includes(typeof given)) return Number(given);
      if (typeof given === "string" && /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(given)) return Number(given);
      if (typeof given === "string" && /^\s*[+-]?nan\s*$/i.test(given)) return NaN;
      const endless = typeof given === "string" && /^\s*([+-]?)inf(inity)?\s*$/i.exec(given);
      if (endless) return endless[1] === "-" ? -Infinity : Infinity;
      return refuse("no number in", name);
    };
    const present = (name) => {
      const given = number(name);
      if (given !== given) refuse("no number in", name);
      return given;
    };
    const label = (name) => (made.has(name) ? part(...made.get(name)) : value(name));
    // A part of a date or time: a Date is read in UTC, and so is text with an offset; other text as it is.
    const part = (column, wanted) => {
      let given = value(column);
      if (isMissing(given)) return null;
      if (given instanceof Date) given = given.toISOString();
      const time = String.raw`(\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?(Z|[+-]\d\d:?\d\d)?`;
      const clock = /^..:/.test(given) && new RegExp("^()()()" + time + "$").exec(given);
      const whole = clock || new RegExp(String.raw`^(\d{4})-(\d\d)-(\d\d)(?:[T ]` + time + ")?$").exec(given);
      if (!whole || (clock && wanted !== "hour")) refuse("no date in", column);
      const [year, month, day, hour, minute, second] = whole.slice(1, 7).map((digits) => Number(digits || 0));
      const moment = new Date(0);
      if (!clock) moment.setUTCFullYear(year, month - 1, day);
      const exists = clock || (year > 0 && moment.getUTCMonth() === month - 1 && moment.getUTCDate() === day);
      if (!exists || hour > 23 || minute > 59 || second > 59) refuse("no date in", column);
      moment.setUTCHours(hour, minute, second);
      const zone = clock ? null : /^([+-])([01]\d|2[0-3]):?([0-5]\d)$/.exec(whole[8] || "");
      if (!zone && !clock && /\d/.test(whole[8])) refuse("no date in", column);
      if (zone) moment.setTime(moment.getTime() - (zone[1] + "1") * (60 * zone[2] + 1 * zone[3]) * 60000);
      if (wanted === "weekday") return ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][moment.getUTCDay()];
      const days = Math.floor(moment.getTime() / 86400000);
      if (wanted === "day") return days;
      const micros = Number((whole[7] || "").slice(0, 6).padEnd(6, "0"));
      return ((moment.getTime() - days * 86400000) * 1000 + micros) / 3600000000;
    };
    const holds = (test) => {
      if (test.among) return test.among.includes(number(test.feature));
      if (test.is_missing) return isMissing(number(test.feature));
      if ("at_most" in test) {
        const given = number(test.feature);
        return test.or_missing ? !(given > test.at_most) : given <= test.at_most;
      }
      const given = label(test.feature);
      return given === test.is || (test.or_missing === true && isMissing(given));
    };
    const term = (one) => {
      if (!("feature" in one)) return one.constant;
      if ("is" in one) return label(one.feature) === one.is ? one.constant : 0;
      const standard = (present(one.feature) - one.centre) / one.spread;
      return one.factors.reduce((product, factor) => product * factor, standard);
    };
    if (draw === undefined || draw === null) draw = policy.parts.length > 1 ? Math.random() : 0;
    if (!(draw >= 0 && draw < 1)) throw new RangeError("the draw must be in [0, 1), got " + draw);
    const chosen = policy.parts.find((one) => draw < one.below);
    if (chosen.scores) {
      const scores = chosen.scores.map((terms) => terms.reduce((sum, one) => sum + term(one), 0));
      return policy.actions[scores.reduce((best, score, i) => (score > scores[best] ? i : best), 0)];
    }
    const rule = chosen.rules.find((one) => one.if.every(holds));
    const action = rule ? rule.then : chosen.else;
    if (action === null) throw new RangeError("no action is known for this row");
    return policy.actions[action];
  };
})();

if (typeof module !== "undefined") module.exports = { choose };
"""


def to_javascript(policy: Chosen, *, actions: Sequence[str] | None = None, dates: Sequence[str] = ()) -> str:
    """Return the source of a JavaScript file with a function `choose(row, draw)` that returns the policy's action.

    It needs no package: `require` or `import` it in Node, or load it as a script in a page. A row maps the name of each
    feature to its value, as for `to_python`: null is missing, and a feature that the row lacks is an error. The draw of
    a mixture policy is a number in [0, 1), and Math.random() if there is none. A date column is text in ISO form, or a
    Date, which is read in UTC.

    policy: a tree, a table of up to 1,000 contexts, a linear policy, or a mixture of these.
    actions: the names of the actions, in the order of their numbers; by default the numbers.
    dates: the columns of dates and times that features were made of, as named in a certificate.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20.0], [40.0]], names=["age"])
    >>> policy = pb.Trees.learn(people, n_actions=2, depth=1).argmax(people, [[1.0, 0.0], [0.0, 1.0]])
    >>> print(pb.to_javascript(policy, actions=["plain", "discount"]).splitlines()[2][:50])
      const policy = {"actions": ["plain", "discount"]

    Raises:
        InputError: If the policy has no exact form in JavaScript.
    """
    check_chosen(policy)
    names = written_actions(policy, actions)
    bounds = policy.bounds if isinstance(policy, Mixture) else (1.0,)
    made = [[name, one.column, one.part] for name, one in made_of_dates(policy, dates).items()]
    parts = [
        {"below": bound, **_as_data(decision_of(one))} for one, bound in zip(parts_of(policy), bounds, strict=True)
    ]
    # Infinity is a number in JavaScript, and a "<" in a name must not end a script in a page.
    data = json.dumps({"actions": names, "made": made, "parts": parts}).replace("<", "\\u003c")
    head = "// choose(row, draw): the action of a certified policy. A row maps the name of each feature to its value."
    return f"{head}\nconst choose = (() => {{\n  const policy = {data};\n{_JAVASCRIPT}"


def _as_data(decision: Decision) -> Json:
    """Return a decision as JSON, with actions by number."""
    if isinstance(decision, LargestScore):
        return {"scores": [[_term(term) for term in terms] for terms in decision.scores]}
    rules = [{"if": [_condition(one) for one in rule.conditions], "then": rule.action} for rule in decision.rules]
    return {"rules": rules, "else": decision.otherwise}


def _term(term: Term) -> Json:
    match term.column:
        case None:
            return {"constant": term.constant}
        case Indicator(feature, label):
            return {"feature": feature, "is": label, "constant": term.constant}
        case Standardised(feature, centre, spread):
            return {"feature": feature, "centre": centre, "spread": spread, "factors": list(term.factors)}
