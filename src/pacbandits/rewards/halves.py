"""Which rows of a log models are judged by: halves and samples that are the same everywhere and always."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.records import Log
from pacbandits.records.units import number_units


def scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers without the patterns that they came in, the same everywhere and always (splitmix64)."""
    bits = numbers * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


def coins(n: int) -> BoolArray:
    """n coins, the same everywhere and always, as what is chosen by them must be checked by others.

    They are the top bits of scrambled row numbers, as rows may come in patterns.
    """
    return (scrambled(np.arange(1, n + 1, dtype=np.uint64)) >> np.uint64(63)).astype(np.bool_)


def half_of(log: Log) -> BoolArray:
    """About half of the rows (n,) of a log: of each unit all or none."""
    return coins(len(log)) if log.units is None else coins(log.n_units)[number_units(log.units)]


def some_rows(n: int, *, most: int) -> IntArray:
    """All of n rows or, of more than `most`, so many without a pattern; the same everywhere and always."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.argsort(scrambled(np.arange(1, n + 1, dtype=np.uint64)), kind="stable")[:most])
