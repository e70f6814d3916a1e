"""What a policy does, as plain data that other languages can say, and what it must be told of a context.

A policy that can be written down elsewhere brings a `decision`, in one of two forms: rules of which the first that
holds decides, or linear scores of which the largest does. Who writes SQL, Python or JSON knows these two forms, and no
kind of policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.records import Chosen, Contexts, parts_of


@dataclass(frozen=True)
class NumberAtMost:
    """Whether a number is at most a threshold.

    feature: the name of the number.
    most: the largest number that passes.
    or_missing: whether a missing value passes, too.
    """

    feature: str
    most: float
    or_missing: bool = False


@dataclass(frozen=True)
class LabelIs:
    """Whether a category has a given label.

    feature: the name of the category.
    label: the one that passes.
    or_missing: whether a missing value passes, too.
    """

    feature: str
    label: str
    or_missing: bool = False


@dataclass(frozen=True)
class IdAmong:
    """Whether a context of a finite set is one of these.

    ids: their numbers.
    """

    ids: tuple[int, ...]


@dataclass(frozen=True)
class NumberMissing:
    """Whether a number is missing.

    feature: its name.
    """

    feature: str


Condition = NumberAtMost | NumberMissing | LabelIs | IdAmong


@dataclass(frozen=True)
class DecisionRule:
    """An action for contexts of which all conditions hold.

    conditions: what must hold.
    action: what is then taken.
    """

    conditions: tuple[Condition, ...]
    action: int


@dataclass(frozen=True)
class RuleList:
    """Rules in order: the first whose conditions all hold decides.

    rules: in order.
    otherwise: the action where none of them holds; None where nothing is known of such a context.
    """

    rules: tuple[DecisionRule, ...]
    otherwise: int | None


@dataclass(frozen=True)
class Standardised:
    """A number, `(value − centre)/spread`.

    feature: its name.
    centre: what is subtracted.
    spread: what the rest is divided by.
    """

    feature: str
    centre: float
    spread: float


@dataclass(frozen=True)
class Indicator:
    """1 where a category has a given label, 0 elsewhere.

    feature: the name of the category.
    label: the one that counts.
    """

    feature: str
    label: str


@dataclass(frozen=True)
class Term:
    """A part of a score, `(column · feature) · theta` in this order of operations.

    column: what is known of the context; None for 1.
    feature: of the action.
    theta: the coefficient.
    """

    column: Standardised | Indicator | None
    feature: float
    theta: float

    @property
    def constant(self) -> float:
        """What it adds where its column is 1."""
        return (1.0 * self.feature) * self.theta

    @property
    def factors(self) -> tuple[float, ...]:
        """What the column is multiplied by, in order; a 1 makes no difference and is left out."""
        return (self.theta,) if self.feature == 1.0 else (self.feature, self.theta)


@dataclass(frozen=True)
class LargestScore:
    """The action of largest score, of equals the first. Terms are added to 0 one after the other.

    scores: the terms of each action.
    """

    scores: tuple[tuple[Term, ...], ...]


Decision = RuleList | LargestScore


@runtime_checkable
class DecidingPolicy(Protocol):
    """A policy that can be written down in another language."""

    def decision(self) -> Decision:
        """What it does, to the last bit; a sentence (InputError) for one that is too large or of no such form."""
        ...


@dataclass(frozen=True)
class Inputs:
    """What a policy must be told of a context.

    numbers: features that are numbers, by name.
    labels: features that are labels, by name.
    ids: whether it must know which element of a finite set the context is.
    phi: whether it must know φ, the features of context and action together.
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
    """A policy, or a feature map, that says what it must be told of a context."""

    def inputs(self) -> Inputs | None:
        """What it asks for, if that is known; nothing else of a context makes a difference."""
        ...


def inputs_of(chosen: Chosen) -> Inputs | None:
    """What a policy or all policies of a lottery ask for; None where one of them does not say."""
    out = Inputs()
    for policy in parts_of(chosen):
        asked = policy.inputs() if isinstance(policy, AskingPolicy) else None
        if asked is None:
            return None
        out |= asked
    return out


def inputs_of_conditions(conditions: Iterable[Condition]) -> Inputs:
    """What must be known to decide whether conditions hold."""
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


# Somebody else's policy: what a column of the table says that it would do.


@dataclass(frozen=True)
class ColumnPolicy:
    """Do what a column says.

    feature: the column, of the names of actions; or of their numbers, where they have no names.
    actions (A,): what the actions are called.
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
                    f"column '{plain(self.feature)}' says '{plain(word)}', which is no action"
                    f"{nearest(word, self.actions)}"
                )
        return np.array([place[word] for word in said], dtype=np.int64)[codes]

    def describe(self) -> str:
        return f"what the column '{plain(self.feature)}' says"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "feature": self.feature, "actions": list(self.actions)}
