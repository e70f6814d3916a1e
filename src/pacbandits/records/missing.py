"""Values that are missing: of a number NaN, of a category a label of its own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.errors import InputError, plain

MISSING = "missing"


class Featured(Protocol):
    """What has named features (n, d)."""

    @property
    def features(self) -> FloatArray: ...

    @property
    def names(self) -> tuple[str, ...]: ...


def missing_label(labels: Collection[str]) -> str:
    """What a missing label is called: "missing", in as many brackets as no real label has."""
    name = MISSING
    while name in labels:
        name = f"({name})"
    return name


def label_missing(
    features: FloatArray, categories: tuple[tuple[str, ...] | None, ...]
) -> tuple[FloatArray, tuple[tuple[str, ...] | None, ...]]:
    """Features (n, d) and their categories, where codes that are missing have become a label after the others."""
    if not np.isnan(features).any():
        return features, categories
    out, named = features.copy(), list(categories)
    for j, labels in enumerate(categories):
        missing = np.isnan(features[:, j])
        if labels is not None and missing.any():
            out[missing, j] = len(labels)
            named[j] = (*labels, missing_label(labels))
    out.setflags(write=False)
    return out, tuple(named)


def present_numbers(contexts: Featured, column: int, *, by: str) -> FloatArray:
    """The numbers (n,) of a column, all of which must be there; by: who cannot do without them."""
    values = contexts.features[:, column]
    missing = np.isnan(values)
    if missing.any():
        name, row = plain(contexts.names[column]), int(missing.argmax())
        raise InputError(
            f"feature '{name}' of row {row} is missing, and {by} cannot do without it; fill it, leave the feature out, "
            "or use trees"
        )
    return values


def unlike(one: FloatArray, other: FloatArray) -> BoolArray:
    """Which rows (n,) of two tables (n, d) differ; what is missing in both does not."""
    return np.asarray(((one != other) & ~(np.isnan(one) & np.isnan(other))).any(axis=1), dtype=np.bool_)


def comparable(features: FloatArray) -> FloatArray:
    """Features (n, d) for who asks which rows are the same: the missing as 0, told from it by columns beside."""
    missing = np.isnan(features)
    some = missing.any(axis=0)
    if not some.any():
        return features
    return np.column_stack([np.where(missing, 0.0, features), missing[:, some]])
