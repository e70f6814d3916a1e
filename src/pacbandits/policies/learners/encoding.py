"""Contexts as the numbers that an estimator is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError
from pacbandits.records import Contexts
from pacbandits.records.missing import present_numbers

Encode = Callable[[Contexts], FloatArray]
ColumnMeanings = tuple[tuple[str, str | None], ...]  # of each column the feature, and the label that it stands for


@runtime_checkable
class MeaningfulEncoder(Protocol):
    """An encoder that says what its columns are.

    column_meanings (d',): the feature of each column, and the label that it stands for; None for a number.
    """

    @property
    def column_meanings(self) -> ColumnMeanings: ...

    def __call__(self, contexts: Contexts) -> FloatArray: ...


@dataclass(frozen=True)
class OneHot:
    """Numbers as they are, and for a category one column a label: 1 where it has that label, else 0.

    names (d,): the features, which are found by name on any contexts.
    labels (d,): of the categories, None for a number. A label not among them is 0 in every column.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def learn(cls, contexts: Contexts) -> OneHot:
        """The features and labels that these contexts have."""
        if contexts.n_features == 0:
            raise InputError(
                "the contexts have no features, so an estimator has nothing to learn from; use Finite or Trivial, or "
                "give contexts with features, or an encode of your own"
            )
        return cls(contexts.names, contexts.categories)

    @property
    def column_meanings(self) -> ColumnMeanings:
        return tuple(
            (name, label)
            for name, labels in zip(self.names, self.labels, strict=True)
            for label in ((None,) if labels is None else labels)
        )

    def __call__(self, contexts: Contexts) -> FloatArray:
        """The columns (n, d')."""
        out = np.empty((len(contexts), len(self.column_meanings)))
        for k, (name, label) in enumerate(self.column_meanings):
            column = contexts.column_of(name, categorical=label is not None)
            values = contexts.features[:, column]
            if label is None:
                out[:, k] = present_numbers(contexts, column, by="an estimator")
            else:
                theirs = contexts.categories[column] or ()
                out[:, k] = values == theirs.index(label) if label in theirs else 0.0
        return out


def encoded(encode: Encode, contexts: Contexts) -> FloatArray:
    """What `encode` makes of contexts: finite, one row a context, at least one column; or a sentence."""
    columns = floats(encode(contexts), name="what encode returns", shape=(len(contexts), None))
    if columns.shape[1] == 0:
        raise InputError("encode returns no columns, so an estimator has nothing to learn from; return at least one")
    return columns
