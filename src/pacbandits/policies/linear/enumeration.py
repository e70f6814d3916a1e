"""Enumerate linear policies: the directions of the grid, and the arrangement for two coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.linear.policy import DistinctRows, Table, act_all

# The grid {−L, …, L}^d of parameters, and its directions: parallel parameters act alike, so one of each is enough.


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


# Two coefficients: as the direction of θ turns once around, when does each context change its action?
#
# The directions at which a context takes action a form a convex cone, ties to the lowest action included: two
# directions less than half a turn apart that both have it take it everywhere between. So changes are found by halving,
# with the policy's own arithmetic. Where rounding could decide (two actions whose φ differ by almost nothing), every
# direction is looked at.


# Directions of levels L lie 1/2L² apart at the least; two actions whose φ differ by more than this (relative to φ)
# differ in score by more than rounding, at all directions but where they cross.
_ALIKE_SHARE = 1e-8


@dataclass(frozen=True, eq=False)
class Turns:
    """Runs of directions in which a row keeps its action: row i has runs offsets[i] to offsets[i + 1].

    offsets (m + 1,): the first run of each row.
    starts (R,): the first direction of each run, in the order of `around`.
    actions (R,): of each run.
    around (G − 1,): the places of the directions in the list of all, by angle, but for zero.
    zero: the place of zero.
    """

    offsets: IntArray
    starts: IntArray
    actions: IntArray
    around: IntArray
    zero: int

    @classmethod
    def of(cls, rows: DistinctRows, listed: Table) -> Turns:
        """Of the listed directions (G, 2), all that a grid has."""
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
        """`Σ_i scores[i, π(c_i)]` (G,) of every direction listed, for scores (m, A)."""
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
    """Whether two actions have φ that differ, but by so little that rounding may decide between them."""
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
    """How many runs each row has, where they start, and their actions; thetas in quarters of equal length."""
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
                # All from low to the last of `ends` may still change; `here` is the action at low.
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
    """By how much the value changes at each direction, from that before it; the first from nothing."""
    out = np.zeros(total)
    for i in range(offsets.shape[0] - 1):
        before = 0.0
        for r in range(offsets[i], offsets[i + 1]):
            now = scores[i, actions[r]]
            out[starts[r]] += now - before
            before = now
    return out
