"""Export of a policy as a list of rules in JSON."""

from __future__ import annotations

from collections.abc import Sequence

from pacbandits.checks import texts
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.decisions import (
    Condition,
    DecidingPolicy,
    Decision,
    IdAmong,
    LabelIs,
    NumberAtMost,
    NumberMissing,
    RuleList,
    inputs_of,
)
from pacbandits.records import Chosen, Mixture, Policy, check_chosen
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


def made_of_dates(chosen: Chosen, dates: Sequence[str]) -> dict[str, DatePart]:
    """Return the features of a policy that are made of these date columns, with the column and part of each."""
    asked = inputs_of(chosen)
    known = texts(dates, name="dates")
    return {} if asked is None else date_parts((*asked.numbers, *asked.labels), known)


def to_rules(policy: Chosen, *, actions: Sequence[str] | None = None, dates: Sequence[str] = ()) -> Json:
    """Return a policy as JSON rules: the first rule whose conditions all hold decides, otherwise the "else".

    A condition has a `feature` and one of: `at_most` a number, `is` a label, `is_missing`, or `among` ids of contexts.
    It fails for a missing value, unless it has `or_missing`. "else" is null if contexts without a rule have no action.
    A mixture policy has rule lists under "lottery", each with its `probability` and `below`: the first whose `below` is
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
    return {"lottery": [{"probability": p, "below": bound, **_rules(one, names)} for one, p, bound in parts]} | beside


def _made(part: DatePart) -> Json:
    return {"of": part.column, "part": part.part} | ({"before": part.time} if part.time else {})


def _rules(policy: Policy, names: Sequence[Action]) -> Json:
    decision = decision_of(policy)
    if not isinstance(decision, RuleList):
        raise InputError(
            "a linear policy is no list of rules but a sum for each action; use its form in SQL or Python, or "
            "`pacbandits apply`"
        )
    rules = [{"if": [_condition(one) for one in r.conditions], "then": names[r.action]} for r in decision.rules]
    return {"rules": rules, "else": None if decision.otherwise is None else names[decision.otherwise]}


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
