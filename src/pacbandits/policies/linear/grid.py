"""The grid {−L, …, L}^d of parameters, and its directions: parallel parameters act alike, so one of each is enough."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.linear.acting import DistinctRows, Table, act_all

TABLE_ENTRIES_AT_A_TIME = 2**24


@lru_cache
def count_directions(dimension: int, levels: int) -> int:
    """How many parameters of the grid have no common divisor, zero among them: |Π|, exactly.

    1 + Σ_{k ≤ L} μ(k) ((2⌊L/k⌋ + 1)^d − 1),   μ the Möbius function
    """
    # Of equal ⌊L/k⌋ at once: with many features a power takes long.
    together: dict[int, int] = {}
    for k, mu in enumerate(_moebius(levels), start=1):
        together[levels // k] = together.get(levels // k, 0) + mu
    return 1 + sum(mu * ((2 * most + 1) ** dimension - 1) for most, mu in together.items() if mu)


def _moebius(most: int) -> list[int]:
    """μ(1), …, μ(most), from Σ_{k | n} μ(k) = 0 for n > 1."""
    mu = [1] + [0] * (most - 1)
    for k in range(1, most + 1):
        if mu[k - 1]:
            for multiple in range(2 * k, most + 1, k):
                mu[multiple - 1] -= mu[k - 1]
    return mu


@lru_cache(maxsize=4)
def directions(dimension: int, levels: int) -> Table:
    """These parameters (G, d), those that share their first coordinates side by side; in short integers."""
    values = np.arange(-levels, levels + 1, dtype=np.int16)
    grid = np.zeros((1, 0), dtype=np.int16)
    for _ in range(dimension):
        grid = np.column_stack([np.repeat(grid, len(values), axis=0), np.tile(values, len(grid))])
    own = np.gcd.reduce(grid, axis=1) == 1
    own |= ~grid.any(axis=1)
    out = grid[own]
    out.setflags(write=False)
    return out


def primitive(parameter: IntArray) -> IntArray:
    """The parameter (d,) divided by the largest divisor that its numbers share."""
    return parameter // (np.gcd.reduce(parameter) or 1)


def simplest(parameters: Table) -> int:
    """Of parameters (K, d), which has the fewest and smallest coefficients, and of those the first positive ones."""
    size = np.abs(parameters).sum(axis=1)
    small = np.flatnonzero(size == size.min())
    return int(small[np.lexsort([-column for column in parameters[small].T[::-1]])[0]])


def values_of(
    rows: DistinctRows, parameters: Table, *scores: FloatArray, entries_at_a_time: int = TABLE_ENTRIES_AT_A_TIME
) -> list[FloatArray]:
    """`Σ_i scores[i, π(c_i)]` (K,) of each policy θ (K, d), for each of several scores (m, A).

    Without a table of what all of them do, which may be too large: a part of it at a time.
    """
    out = [np.empty(len(parameters)) for _ in scores]
    step = max(1, entries_at_a_time // len(rows))
    for start in range(0, len(parameters), step):
        part = slice(start, start + step)
        table = act_all(rows, parameters[part])
        for values, score in zip(out, scores, strict=True):
            values[part] = sum_scores(table, score)
    return out
