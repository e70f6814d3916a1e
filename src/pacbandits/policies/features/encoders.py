"""How the features of contexts become the columns of a linear model: numbers standardised, labels as 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError
from pacbandits.records import Contexts

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
        own = contexts.features[:, contexts.column_of(self.feature, categorical=False)]
        return [(own - self.centre) / self.spread]

    @property
    def names(self) -> tuple[str, ...]:
        """What each column is."""
        return (self.feature,)

    @property
    def factors(self) -> tuple[str, ...]:
        """How each column is written where it is a factor in a sum."""
        return self.names

    def describe(self) -> str:
        return f"{self.feature} is (its value − {self.centre:.6g})/{self.spread:.6g}"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "centre": self.centre, "spread": self.spread}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Number:
        numbers = floats([value["centre"], value["spread"]], name="centre and spread", shape=(2,))
        if numbers[1] <= 0:
            raise InputError(f"the spread of feature '{value['feature']}' must be positive, got {numbers[1]}")
        return cls(str(value["feature"]), float(numbers[0]), float(numbers[1]))


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
        codes = [labels.index(label) if label in labels else -1 for label in self.labels[1:]]
        return [(own == code).astype(np.float64) for code in codes]

    @property
    def names(self) -> tuple[str, ...]:
        """What each column is."""
        return tuple(f"{self.feature} is {label}" for label in self.labels[1:])

    @property
    def factors(self) -> tuple[str, ...]:
        """How each column is written where it is a factor in a sum."""
        return tuple(f"[{name}]" for name in self.names)

    def describe(self) -> str:
        return f"[{self.feature} is …] is 1 or 0"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "labels": list(self.labels)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Category:
        return cls(str(value["feature"]), tuple(str(label) for label in value["labels"]))


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
        if np.abs(column).max(initial=0.0) > _LARGEST_SQUARABLE_VALUE:
            beyond = f"beyond {_LARGEST_SQUARABLE_VALUE:g}"
            raise InputError(f"feature '{name}' has values {beyond}, whose spread is no number; rescale it")
        centre = float(contexts.weights @ column)
        spread = float(np.sqrt(contexts.weights @ (column - centre) ** 2))
        if spread > 1e-12 * (1.0 + abs(centre)):
            out.append(Number(name, centre, spread))
    return tuple(out)


def encoder_from_json(value: dict[str, Any]) -> Encoder:
    """The encoder that `to_json` described."""
    return Category.from_json(value) if "labels" in value else Number.from_json(value)
