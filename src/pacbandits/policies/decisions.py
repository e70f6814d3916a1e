"""Decisions of policies as plain data for export to other languages, and the inputs that a policy needs.

An exportable policy has a `decision` in one of two forms: a rule list, of which the first matching rule decides, or
linear scores, of which the largest decides. Exporters to SQL, Python or JSON handle these two forms, and no kind of
policy in particular.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.errors import InputError, nearest, plain

if TYPE_CHECKING:
    from pacbandits.records.contexts import Contexts


@dataclass(frozen=True)
class NumberAtMost:
    """The condition that a number is at most a threshold.

    feature: the name of the number.
    most: the largest number that passes.
    or_missing: whether a missing value passes too.
    """

    feature: str
    most: float
    or_missing: bool = False


@dataclass(frozen=True)
class LabelIs:
    """The condition that a category has a given label.

    feature: the name of the category.
    label: the label that passes.
    or_missing: whether a missing value passes too.
    """

    feature: str
    label: str
    or_missing: bool = False


@dataclass(frozen=True)
class IdAmong:
    """The condition that the id of a context is one of these.

    ids: the ids that pass.
    """

    ids: tuple[int, ...]


@dataclass(frozen=True)
class NumberMissing:
    """The condition that a number is missing.

    feature: the name of the number.
    """

    feature: str


Condition = NumberAtMost | NumberMissing | LabelIs | IdAmong


@dataclass(frozen=True)
class DecisionRule:
    """An action for contexts that satisfy all conditions.

    conditions: the conditions, all of which must hold.
    action: the action taken if they hold.
    """

    conditions: tuple[Condition, ...]
    action: int


@dataclass(frozen=True)
class RuleList:
    """An ordered list of rules: the first rule whose conditions all hold decides.

    rules: the rules in order.
    otherwise: the action if no rule matches; None if it is undefined for such a context.
    """

    rules: tuple[DecisionRule, ...]
    otherwise: int | None


@dataclass(frozen=True)
class Standardised:
    """A standardised number, `(value − centre)/spread`.

    feature: the name of the number.
    centre: subtracted from the value.
    spread: divides the difference.
    """

    feature: str
    centre: float
    spread: float


@dataclass(frozen=True)
class Indicator:
    """An indicator: 1 if a category has the given label, else 0.

    feature: the name of the category.
    label: the label coded as 1.
    """

    feature: str
    label: str


@dataclass(frozen=True)
class Term:
    """A term of a score, `(column · feature) · theta` in this order of operations.

    column: the column of the context; None for the constant 1.
    feature: the action's feature.
    theta: the coefficient.
    """

    column: Standardised | Indicator | None
    feature: float
    theta: float

    @property
    def constant(self) -> float:
        """The value of the term where its column is 1."""
        return (1.0 * self.feature) * self.theta

    @property
    def factors(self) -> tuple[float, ...]:
        """The factors that multiply the column, in order; a feature of 1 is omitted."""
        return (self.theta,) if self.feature == 1.0 else (self.feature, self.theta)


@dataclass(frozen=True)
class LargestScore:
    """The action of largest score; ties go to the first. Terms are added to 0 one after the other.

    scores: the terms of each action.
    """

    scores: tuple[tuple[Term, ...], ...]


Decision = RuleList | LargestScore


@runtime_checkable
class DecidingPolicy(Protocol):
    """A policy that can be exported to another language."""

    def decision(self) -> Decision:
        """Return the exact decision, to the last bit; raise InputError if it is too large or has no such form."""
        ...


@dataclass(frozen=True)
class Inputs:
    """The features of a context that a policy needs.

    numbers: names of numeric features.
    labels: names of categorical features.
    ids: whether it needs the id of the context in a finite set.
    phi: whether it needs φ, the features of context and action together.
    """

    numbers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ids: bool = False
    phi: bool = False

    def __or__(self, other: Inputs) -> Inputs:
        return Inputs(
            tuple(dict.fromkeys((*self.numbers, *other.numbers))),
            tuple(dict.fromkeys((*self.labels, *other.labels))),
            self.ids or other.ids,
            self.phi or other.phi,
        )


@runtime_checkable
class AskingPolicy(Protocol):
    """A policy, or a feature map, that declares the inputs it needs."""

    def inputs(self) -> Inputs | None:
        """Return the inputs it depends on, and on nothing else of a context; None if unknown."""
        ...


def inputs_of_conditions(conditions: Iterable[Condition]) -> Inputs:
    """Return the inputs needed to evaluate conditions."""
    out = Inputs()
    for one in conditions:
        match one:
            case NumberAtMost() | NumberMissing():
                out |= Inputs(numbers=(one.feature,))
            case LabelIs():
                out |= Inputs(labels=(one.feature,))
            case IdAmong():
                out |= Inputs(ids=True)
    return out


# An external policy, given by a column that names its action in each row.


COLUMN = "column:"  # before the column's name, where a policy is asked for
ALWAYS = "always:"  # before the name of the action that everybody gets


@dataclass(frozen=True)
class ColumnPolicy:
    """A policy that takes the action named in a column.

    feature: the column of action names, or of action numbers if actions have no names.
    actions (A,): the names of the actions.
    """

    feature: str
    actions: tuple[str, ...]

    kind = "column"

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    def __call__(self, contexts: Contexts) -> IntArray:
        if self.feature not in contexts.names:
            raise InputError(f"there is no column '{plain(self.feature)}'{nearest(self.feature, contexts.names)}")
        column = contexts.names.index(self.feature)
        values, labels = contexts.features[:, column], contexts.categories[column]
        said = [f"{number:g}" for number in np.unique(values)] if labels is None else list(labels)
        codes = np.unique(values, return_inverse=True)[1] if labels is None else values.astype(np.int64)
        place = {name: action for action, name in enumerate(self.actions)}
        for word in said:
            if word not in place:
                raise InputError(
                    f"column '{plain(self.feature)}' contains '{plain(word)}', which is not an "
                    f"action{nearest(word, self.actions)}"
                )
        return np.array([place[word] for word in said], dtype=np.int64)[codes]

    def describe(self) -> str:
        return f"what the column '{plain(self.feature)}' says"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "feature": self.feature, "actions": list(self.actions)}
