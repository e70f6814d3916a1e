"""Units: returning users, whose rows are weighted.

Rows of one unit are not independent of each other, units are. So each of the m visits of a unit counts 1/m, and what is
counted in all are units.
"""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.fields import Fields

UNIT_COLUMN = "unit"  # of our own files, which say so, as others may have a feature of this name


def unit_column(about: Fields) -> str | None:
    """The column that tells whose row it is, as far as a file says so beside its columns."""
    return about.text("unit") if "unit" in about else None


def check_repeats(repeats: IntArray) -> None:
    """Raise unless rows may have units; repeats (n,): how often each occurred."""
    if repeats.max() > 1:
        raise InputError(
            f"row {int(repeats.argmax())} counts {repeats.max():,} interactions, so that nothing tells whose they are; "
            "where rows have units, each stands for one interaction: leave out repeats, or the unit"
        )


def number_units(units: IntArray) -> IntArray:
    """The number (n,) of each row's unit, from 0 in the order of first rows."""
    _, first, which = np.unique(units, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first, kind="stable")] = np.arange(len(first))
    return numbers[which]


def visit_weights(units: IntArray) -> FloatArray:
    """1/m (n,) for each of the m rows of a unit."""
    _, which, visits = np.unique(units, return_inverse=True, return_counts=True)
    return 1.0 / visits[which]


def joined_units(mine: IntArray | None, theirs: IntArray | None) -> IntArray | None:
    """The units of two logs, one after the other, whose codes mean the same in both."""
    if mine is None and theirs is None:
        return None
    if mine is None or theirs is None:
        raise InputError("one of the two logs tells whose rows are whose, and the other does not")
    return np.concatenate([mine, theirs])
