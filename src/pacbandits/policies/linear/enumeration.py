"""Enumeration of linear policies: the directions of the grid, and the arrangement for two coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.linear.policy import DistinctRows, Table, act_all

# The grid {−L, …, L}^d of parameters and its directions: parallel parameters give the same policy, so one is enough.


TABLE_ENTRIES_AT_A_TIME = 2**24


@lru_cache
def count_directions(dimension: int, levels: int) -> int:
    """Return the number of parameters of the grid without a common divisor, including zero: |Π|, exactly.

    1 + Σ_{k ≤ L} μ(k) ((2⌊L/k⌋ + 1)^d − 1),   μ the Möbius function
    """
    # Equal ⌊L/k⌋ are grouped, as a power takes long with many features.
    together: dict[int, int] = {}
    for k, mu in enumerate(_moebius(levels), start=1):
        together[levels // k] = together.get(levels // k, 0) + mu
    return 1 + sum(mu * ((2 * most + 1) ** dimension - 1) for most, mu in together.items() if mu)


def _moebius(most: int) -> list[int]:
    """Return μ(1), …, μ(most), from Σ_{k | n} μ(k) = 0 for n > 1."""
    mu = [1] + [0] * (most - 1)
    for k in range(1, most + 1):
        if mu[k - 1]:
            for multiple in range(2 * k, most + 1, k):
                mu[multiple - 1] -= mu[k - 1]
    return mu


@lru_cache(maxsize=4)
def directions(dimension: int, levels: int) -> Table:
    """Return these parameters (G, d) as int16, sorted so that neighbours share their first coordinates."""
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
    """Return the parameter (d,) divided by its greatest common divisor."""
    return parameter // (np.gcd.reduce(parameter) or 1)


def simplest(parameters: Table) -> int:
    """Return the index of the parameter (K, d) with the smallest Σ|θ_j|; ties go to the lexicographically largest."""
    size = np.abs(parameters).sum(axis=1)
    small = np.flatnonzero(size == size.min())
    return int(small[np.lexsort([-column for column in parameters[small].T[::-1]])[0]])


def values_of(
    rows: DistinctRows, parameters: Table, *scores: FloatArray, entries_at_a_time: int = TABLE_ENTRIES_AT_A_TIME
) -> list[FloatArray]:
    """Return `Σ_i scores[i, π(c_i)]` (K,) of each policy θ (K, d), for each of several scores (m, A).

    The table of actions, which may be too large for memory, is made in parts.
    """
    out = [np.empty(len(parameters)) for _ in scores]
    step = max(1, entries_at_a_time // len(rows))
    for start in range(0, len(parameters), step):
        part = slice(start, start + step)
        table = act_all(rows, parameters[part])
        for values, score in zip(out, scores, strict=True):
            values[part] = sum_scores(table, score)
    return out


# Two coefficients: the directions of θ, in order of angle, at which each context changes its action.
#
# The directions at which a context takes action a form a convex cone, with ties to the lowest action: if two directions
# less than half a turn apart take it, all between them do. So changes are found by bisection, with the policy's own
# arithmetic. Where rounding could decide (two actions whose φ are almost equal), every direction is evaluated.


# Directions of levels L are at least 1/2L² apart; two actions whose φ differ by more than this (relative to φ)
# differ in score by more than rounding, at all directions but where they cross.
_ALIKE_SHARE = 1e-8


@dataclass(frozen=True, eq=False)
class Turns:
    """Runs of directions in which a row keeps its action: row i has runs offsets[i] to offsets[i + 1].

    offsets (m + 1,): the first run of each row.
    starts (R,): the first direction of each run, in the order of `around`.
    actions (R,): the action of each run.
    around (G − 1,): the indices of the nonzero directions in the list of all, by angle.
    zero: the index of the zero direction.
    """

    offsets: IntArray
    starts: IntArray
    actions: IntArray
    around: IntArray
    zero: int

    @classmethod
    def of(cls, rows: DistinctRows, listed: Table) -> Turns:
        """Compute the runs of the listed directions (G, 2), which must be all directions of a grid."""
        whole = listed.astype(np.float64)
        angles = np.arctan2(whole[:, 1], whole[:, 0])
        angles[angles < 0] += 2 * np.pi
        zero = int(np.flatnonzero(~listed.any(axis=1))[0])
        order = np.argsort(angles, kind="stable")
        around = order[order != zero]
        thetas = whole[around]
        found = [_turn(phi, thetas, _ALIKE_SHARE) for _, phi in rows.blocks()]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([counts for counts, _, _ in found]))])
        starts, actions = (np.concatenate([one[j] for one in found]) for j in (1, 2))
        return cls(offsets, starts, actions, around, zero)

    def values(self, scores: FloatArray) -> FloatArray:
        """Return `Σ_i scores[i, π(c_i)]` (G,) of every listed direction, for scores (m, A)."""
        out = np.empty(len(self.around) + 1)
        out[self.around] = np.cumsum(_changes(self.offsets, self.starts, self.actions, scores, len(self.around)))
        out[self.zero] = scores[:, 0].sum()
        return out


@kernel
def _action(phi: FloatArray, i: int, theta: FloatArray) -> int:
    best, top = 0, -np.inf
    for a in range(phi.shape[1]):
        score = phi[i, a, 0] * theta[0] + phi[i, a, 1] * theta[1]
        if score > top:
            best, top = a, score
    return best


@kernel
def _delicate(phi: FloatArray, i: int, alike: float) -> bool:
    """Return whether two actions have different φ that are so close that rounding may decide between them."""
    size = np.abs(phi[i]).max()
    for a in range(phi.shape[1]):
        for b in range(a):
            gap = max(abs(phi[i, a, 0] - phi[i, b, 0]), abs(phi[i, a, 1] - phi[i, b, 1]))
            if 0.0 < gap <= alike * size:
                return True
    return False


@kernel
def _doubled(array: IntArray) -> IntArray:
    out = np.empty(2 * array.shape[0], dtype=np.int64)
    for i in range(array.shape[0]):  # a slice would take seconds to compile
        out[i] = array[i]
    return out


@kernel
def _turn(phi: FloatArray, thetas: FloatArray, alike: float) -> tuple[IntArray, IntArray, IntArray]:
    """Return the number of runs of each row, their starts and their actions; thetas in quarters of equal length."""
    m, total = phi.shape[0], thetas.shape[0]
    counts = np.zeros(m, dtype=np.int64)
    starts, actions = np.empty(8 * m + 8, dtype=np.int64), np.empty(8 * m + 8, dtype=np.int64)
    used = 0
    ends, taken = np.empty(64, dtype=np.int64), np.empty(64, dtype=np.int64)
    for i in range(m):
        delicate = _delicate(phi, i, alike)
        last = -1
        for quarter in range(4):
            low, high = quarter * (total // 4), (quarter + 1) * (total // 4)
            here = _action(phi, i, thetas[low])
            depth = 1
            ends[0], taken[0] = high, _action(phi, i, thetas[high % total])
            while True:
                # Everything from low to the last of `ends` may still change; `here` is the action at low.
                top = depth - 1
                if ends[top] - low > 1 and (delicate or taken[top] != here):
                    middle = (low + ends[top]) // 2
                    ends[depth], taken[depth] = middle, _action(phi, i, thetas[middle])
                    depth += 1
                    continue
                if here != last:
                    if used == starts.shape[0]:
                        starts, actions = _doubled(starts), _doubled(actions)
                    starts[used], actions[used] = low, here
                    counts[i] += 1
                    used += 1
                    last = here
                low, here = ends[top], taken[top]
                depth -= 1
                if depth == 0:
                    break
    return counts, starts[:used].copy(), actions[:used].copy()


@kernel
def _changes(offsets: IntArray, starts: IntArray, actions: IntArray, scores: FloatArray, total: int) -> FloatArray:
    """Return the change in value at each direction from the previous one; the first from 0."""
    out = np.zeros(total)
    for i in range(offsets.shape[0] - 1):
        before = 0.0
        for r in range(offsets[i], offsets[i + 1]):
            now = scores[i, actions[r]]
            out[starts[r]] += now - before
            before = now
    return out
