"""Export of a policy as the source of a self-contained Python function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from keyword import iskeyword

from pacbandits.checks import text
from pacbandits.errors import InputError, plain
from pacbandits.exports.rules import Action, decision_of, made_of_dates, written_actions
from pacbandits.policies.decisions import (
    Condition,
    Decision,
    IdAmong,
    Indicator,
    LabelIs,
    LargestScore,
    NumberAtMost,
    NumberMissing,
    RuleList,
    Standardised,
    Term,
)
from pacbandits.records import Chosen, Mixture, check_chosen, parts_of
from pacbandits.records.column_types import DatePart
from pacbandits.records.contexts import ID_COLUMN

_INDENT = "    "
_ROW = "row maps the name of each feature to its value."
_NUMBER = '''\
    def number(name):
        """A number of the row; what is missing is no number, and passes no test."""
        return float("nan") if row[name] is None or row[name] == "" else float(row[name])
'''
_PRESENT = '''\
    def present(name):
        """A number of the row, which must be there."""
        value = float(row[name])
        if value != value:
            raise ValueError("no number in " + repr(name))
        return value
'''
_CLOCK = '''\
    def clock(name):
        """A date or time of the row, or None; text is read as in a table, in which offsets are brought to UTC."""
        from datetime import date, datetime, time, timezone

        value = row[name]
        if value is None or value != value:
            return None
        if isinstance(value, (date, time)):
            return value
        text = str(value)
        if ":" in text[:3]:
            return time.fromisoformat(text)
        value = datetime.fromisoformat(text)
        return value if value.tzinfo is None else value.astimezone(timezone.utc)

    def weekday(name):
        """The weekday of a date of the row: Mon, Tue, Wed, Thu, Fri, Sat or Sun."""
        value = clock(name)
        return None if value is None else ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[value.weekday()]

    def day(name):
        """The day of a date of the row, counted from 1970-01-01."""
        value = clock(name)
        return None if value is None else float(value.toordinal() - 719163)

    def age(name, time):
        """The number of days, by the calendar, that a date of the row is before another, the time of the decision."""
        return None if day(name) is None or day(time) is None else day(time) - day(name)

    def hour(name):
        """The hour of a time of the row: 13.5 is half past one. A date alone is its midnight."""
        value = clock(name)
        if value is None:
            return None
        seconds = (getattr(value, "hour", 0) * 60 + getattr(value, "minute", 0)) * 60 + getattr(value, "second", 0)
        return (seconds * 1000000 + getattr(value, "microsecond", 0)) / 3600000000.0
'''
_DRAWN = """\
    if draw is None:
        from random import random

        draw = random()
    if not 0 <= draw < 1:
        raise ValueError("the draw must be in [0, 1), got " + repr(draw))
"""


def to_python(
    policy: Chosen, *, actions: Sequence[str] | None = None, name: str = "choose", dates: Sequence[str] = ()
) -> str:
    """Return the source of a function `choose(row)` that returns the policy's action and needs no package.

    A row maps the name of each feature to its value: a number (or text that spells one), or a label. If a value is
    None, a tree's test on it fails, unless the test accepts missing values, as in SQL; linear scores and unknown
    context ids raise an error. The function of a mixture policy is `choose(row, draw=None)`: the draw is a number in
    [0, 1), and random() if it is None.

    policy: a tree, a table of up to 1,000 contexts, a linear policy, or a mixture of these.
    actions: the names of the actions, in the order of their numbers; by default the numbers.
    name: the name of the function.
    dates: the columns of dates and times that features were made of, as named in a certificate. A row has such a
        column as a date, a datetime, a time or text in ISO form, and the function computes the features from it.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20.0], [40.0]], names=["age"])
    >>> policy = pb.Trees.learn(people, n_actions=2, depth=1).argmax(people, [[1.0, 0.0], [0.0, 1.0]])
    >>> names = {}
    >>> exec(pb.to_python(policy, actions=["plain", "discount"]), names)
    >>> names["choose"]({"age": 25})
    'plain'

    Raises:
        InputError: If the policy has no exact form in Python, or the name is not a valid function name.
    """
    check_chosen(policy)
    names = written_actions(policy, actions)
    if not text(name, name="name").isidentifier() or iskeyword(name):
        raise InputError(f"the name '{plain(name)}' is none that a function can have; use letters and underscores")
    decisions = [decision_of(one) for one in parts_of(policy)]
    made = made_of_dates(policy, dates)
    helpers = [_NUMBER] * any(map(_tests_numbers, decisions)) + [_PRESENT] * any(map(_adds_numbers, decisions))
    if not isinstance(policy, Mixture):
        head, body = f"def {name}(row):\n{_docstring('')}", _body(decisions[0], names, _INDENT)
    else:
        drawn = "draw is a number in [0, 1), drawn here if it is None."
        head = f"def {name}(row, draw=None):\n{_docstring(drawn)}{_DRAWN}"
        body = "".join(
            f"{_INDENT}if draw < {bound!r}:\n{_body(decision, names, 2 * _INDENT)}"
            for decision, bound in zip(decisions, policy.bounds, strict=True)
        )
    if made:
        helpers = [_CLOCK, *helpers, _row_with(made)]
    return "\n".join([head, *helpers, body]) if helpers else head + body


def _row_with(made: Mapping[str, DatePart]) -> str:
    """Return lines that add the features made of dates to the row."""
    return "".join(
        [
            f"{_INDENT}row = {{\n{2 * _INDENT}**row,\n",
            *(f"{2 * _INDENT}{name!r}: {one.part}({_listed(one.columns)}),\n" for name, one in made.items()),
            f"{_INDENT}}}\n",
        ]
    )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns))


def _docstring(more: str) -> str:
    return f'{_INDENT}"""The action of a certified policy: {" ".join([_ROW, more]).strip()}"""\n'


def _body(decision: Decision, names: Sequence[Action], indent: str) -> str:
    """Return lines that end by returning the action or raising an error."""
    if isinstance(decision, LargestScore):
        return _scores(decision, names, indent)
    return _rules(decision, names, indent)


def _rules(decision: RuleList, names: Sequence[Action], indent: str) -> str:
    out = [
        f"{indent}if {' and '.join(_condition(one) for one in rule.conditions)}:\n"
        f"{indent}{_INDENT}return {names[rule.action]!r}\n"
        for rule in decision.rules
    ]
    if decision.otherwise is not None:
        return "".join([*out, f"{indent}return {names[decision.otherwise]!r}\n"])
    unknown = f'raise LookupError("no action is known for " + repr(row[{ID_COLUMN!r}]))'
    return "".join([*out, f"{indent}{unknown}\n"])


def _condition(condition: Condition) -> str:
    match condition:
        case NumberAtMost(feature, most, or_missing):
            asked = f"number({feature!r})"
            return f"not {asked} > {float(most)!r}" if or_missing else f"{asked} <= {float(most)!r}"
        case NumberMissing(feature):
            return f"number({feature!r}) != number({feature!r})"
        case LabelIs(feature, label, or_missing):
            return f"row[{feature!r}] in ({label!r}, None)" if or_missing else f"row[{feature!r}] == {label!r}"
        case IdAmong(ids):
            return f"number({ID_COLUMN!r}) in {{{', '.join(map(str, ids))}}}"


def _scores(decision: LargestScore, names: Sequence[Action], indent: str) -> str:
    lines = [f"{indent}scores = [\n"]
    lines += [f"{indent}{_INDENT}{' + '.join(['0.0', *map(_term, terms)])},\n" for terms in decision.scores]
    lines += [f"{indent}]\n", f"{indent}return {list(names)!r}[scores.index(max(scores))]\n"]
    return "".join(lines)


def _term(term: Term) -> str:
    match term.column:
        case None:
            return f"({term.constant!r})"
        case Indicator(feature, label):
            return f"({term.constant!r} if row[{feature!r}] == {label!r} else 0.0)"
        case Standardised(feature, centre, spread):
            column = f"(present({feature!r}) - ({centre!r})) / {spread!r}"
            return f"{column} * {' * '.join(f'({one!r})' for one in term.factors)}"


def _tests_numbers(decision: Decision) -> bool:
    if isinstance(decision, LargestScore):
        return False
    asking = (NumberAtMost, NumberMissing, IdAmong)
    return any(isinstance(one, asking) for rule in decision.rules for one in rule.conditions)


def _adds_numbers(decision: Decision) -> bool:
    if isinstance(decision, RuleList):
        return False
    return any(isinstance(term.column, Standardised) for terms in decision.scores for term in terms)
