"""How the features of contexts become the columns of a linear model: numbers standardised, labels as 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields
from pacbandits.policies.decisions import Indicator, Inputs, Standardised
from pacbandits.records import Contexts
from pacbandits.records.missing import present_numbers

MAX_LABELS_NEVER_MET = 1_000  # of a category: each is a column of zeros
_LARGEST_SQUARABLE_VALUE = 1e150


@dataclass(frozen=True)
class Number:
    """A number, centred and divided by its spread as both were on some contexts before.

    feature: its name.
    centre: what is subtracted.
    spread: what the rest is divided by.
    """

    feature: str
    centre: float
    spread: float

    def columns(self, contexts: Contexts) -> list[FloatArray]:
        own = present_numbers(contexts, contexts.column_of(self.feature, categorical=False), by="a linear model")
        return [(own - self.centre) / self.spread]

    @property
    def names(self) -> tuple[str, ...]:
        """What each column is."""
        return (plain(self.feature),)

    @property
    def factors(self) -> tuple[str, ...]:
        """How each column is written where it is a factor in a sum."""
        return self.names

    @property
    def plain_columns(self) -> tuple[Standardised, ...]:
        """Each column for other languages."""
        return (Standardised(self.feature, self.centre, self.spread),)

    def inputs(self) -> Inputs:
        """The number."""
        return Inputs(numbers=(self.feature,))

    def describe(self) -> str:
        return f"{plain(self.feature)} is (its value − {self.centre:.6g})/{self.spread:.6g}"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "centre": self.centre, "spread": self.spread}

    @classmethod
    def from_json(cls, given: Fields) -> Number:
        given.check_known(("feature", "centre", "spread"))
        largest = _LARGEST_SQUARABLE_VALUE
        centre = given.number("centre", least=-largest, most=largest)
        return cls(given.text("feature"), centre, given.number("spread", least=1.0 / largest, most=largest))


@dataclass(frozen=True)
class Category:
    """A 0/1 column for every label but the first; a label that is none of these counts as the first.

    feature: its name.
    labels: those that were seen.
    """

    feature: str
    labels: tuple[str, ...]

    def columns(self, contexts: Contexts) -> list[FloatArray]:
        column = contexts.column_of(self.feature, categorical=True)
        own, labels = contexts.features[:, column], contexts.categories[column] or ()
        if len(self.labels) > len(labels) + MAX_LABELS_NEVER_MET:
            raise InputError(
                f"{len(self.labels):,} labels of '{plain(self.feature)}' are spoken of, but the contexts have "
                f"{len(labels):,}; use contexts like those that were learnt from"
            )
        codes = [labels.index(label) if label in labels else -1 for label in self.labels[1:]]
        return [(own == code).astype(np.float64) for code in codes]

    @property
    def names(self) -> tuple[str, ...]:
        """What each column is."""
        return tuple(f"{plain(self.feature)} is {plain(label)}" for label in self.labels[1:])

    @property
    def factors(self) -> tuple[str, ...]:
        """How each column is written where it is a factor in a sum."""
        return tuple(f"[{name}]" for name in self.names)

    @property
    def plain_columns(self) -> tuple[Indicator, ...]:
        """Each column for other languages."""
        return tuple(Indicator(self.feature, label) for label in self.labels[1:])

    def inputs(self) -> Inputs:
        """The label."""
        return Inputs(labels=(self.feature,))

    def describe(self) -> str:
        return f"[{plain(self.feature)} is …] is 1 or 0"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "labels": list(self.labels)}

    @classmethod
    def from_json(cls, given: Fields) -> Category:
        given.check_known(("feature", "labels"))
        return cls(given.text("feature"), given.texts("labels"))


Encoder = Number | Category


def learn_encoders(contexts: Contexts) -> tuple[Encoder, ...]:
    """How the features of these contexts become columns; features that never vary are left out."""
    out: list[Encoder] = []
    for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
        column = contexts.features[:, j]
        if labels is not None:
            present = tuple(label for code, label in enumerate(labels) if (column == code).any())
            out.extend([Category(name, present)] if len(present) > 1 else [])
            continue
        present_numbers(contexts, j, by="a linear model")
        if np.abs(column).max(initial=0.0) > _LARGEST_SQUARABLE_VALUE:
            beyond = f"beyond {_LARGEST_SQUARABLE_VALUE:g}"
            raise InputError(f"feature '{name}' has values {beyond}, whose spread is no number; rescale it")
        centre = float(contexts.weights @ column)
        spread = float(np.sqrt(contexts.weights @ (column - centre) ** 2))
        if spread > 1e-12 * (1.0 + abs(centre)):
            out.append(Number(name, centre, spread))
    return tuple(out)


def encoder_from_json(value: object) -> Encoder:
    """The encoder that `to_json` described."""
    given = Fields.read(value, of="encoder")
    return Category.from_json(given) if "labels" in given else Number.from_json(given)
