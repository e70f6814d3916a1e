"""Ascent on the grid itself: one coefficient at a time is set to the best of its 2L + 1 values, until none improves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.base import at_stake
from pacbandits.policies.linear.acting import DistinctRows

# Scores of actions this close, relative to the largest there could be, are taken for equal: they are where coefficients
# are, but the ascent adds them up in different orders. And so are values, relative to all that is at stake.
_CLIMB_TIE_SHARE = 1e-12
_MOST_SWEEPS = 30


@dataclass(frozen=True, eq=False)
class BlockSlope:
    """Blocks of coefficients, one an action.

    x (u, m): the columns of the rows.
    inverse (u, m): 1/x, 0 where x is.
    actions (k,): of each block.
    """

    x: FloatArray
    inverse: FloatArray
    actions: IntArray

    @property
    def cost(self) -> float:
        """What it takes to look at all coefficients once, for each row."""
        return climbing_work(len(self.x) * len(self.actions), in_blocks=True)

    def climb(self, parameter: IntArray, scores: FloatArray, *, levels: int) -> tuple[IntArray, float]:
        """Where the ascent from θ (d,) ends, and its value; scores (m, A)."""
        matrix = np.array(parameter, dtype=np.int64).reshape(len(self.x), -1)
        least = _CLIMB_TIE_SHARE * at_stake(scores)
        value = _climb_blocks(self.x, self.inverse, self.actions, matrix, scores, levels, least, _MOST_SWEEPS)
        return matrix.reshape(-1), value


@dataclass(frozen=True, eq=False)
class PhiSlope:
    """φ of any form.

    phi (d, m, A): spelled out.
    """

    phi: FloatArray

    @property
    def cost(self) -> float:
        """What it takes to look at all coefficients once, for each row."""
        return climbing_work(self.phi.shape[0], n_actions=self.phi.shape[2])

    def climb(self, parameter: IntArray, scores: FloatArray, *, levels: int) -> tuple[IntArray, float]:
        """Where the ascent from θ (d,) ends, and its value; scores (m, A)."""
        theta = np.array(parameter, dtype=np.int64)
        return theta, _climb_phi(self.phi, theta, scores, levels, _CLIMB_TIE_SHARE * at_stake(scores), _MOST_SWEEPS)


Slope = BlockSlope | PhiSlope


def climbing_work(dimension: int, *, n_actions: int = 1, in_blocks: bool = False) -> float:
    """What it takes to look at all coefficients once, for each row; a block of them moves one action alone."""
    return float(dimension) if in_blocks else dimension * max(1.0, 0.8 * n_actions)


def slope_of(rows: DistinctRows) -> Slope:
    """Rows laid out for the ascent."""
    blocks = rows.features.blocks()
    if blocks is None:
        return PhiSlope(np.ascontiguousarray(rows.features.spelled().transpose(2, 0, 1)))
    columns, actions = blocks
    x = np.ascontiguousarray(columns.T)
    inverse = np.divide(1.0, x, out=np.zeros_like(x), where=np.abs(x) > 1e-100)
    return BlockSlope(x, inverse, actions)


@kernel
def _value(sums: FloatArray, slack: FloatArray, scores: FloatArray) -> float:
    """Of the policy with linear scores `sums` (m, A)."""
    total = 0.0
    for i in range(scores.shape[0]):
        best = 0
        for a in range(1, scores.shape[1]):
            if sums[i, a] > sums[i, best] + slack[i]:
                best = a
        total += scores[i, best]
    return total


@kernel
def _climb_blocks(
    x: FloatArray,
    inverse: FloatArray,
    block_actions: IntArray,
    matrix: IntArray,
    scores: FloatArray,
    levels: int,
    least: float,
    sweeps: int,
) -> float:
    """x (u, m), matrix (u, k) of coefficients, changed in place; a change must gain more than `least`.

    While the coefficients of one action change, the best of the others stays what it is on every row.
    """
    m, n_actions = scores.shape
    columns, blocks = matrix.shape
    sums = np.zeros((n_actions, m))
    slack = np.zeros(m)
    for u in range(columns):
        for i in range(m):
            slack[i] += _CLIMB_TIE_SHARE * levels * abs(x[u, i])
    for k in range(blocks):
        for u in range(columns):
            if matrix[u, k] != 0:
                for i in range(m):
                    sums[block_actions[k], i] += x[u, i] * matrix[u, k]
    needed, gain, share, top = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    best, place = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.uint32)
    past = 2.0 * levels + 1.0
    values = np.empty(2 * levels + 2)
    idle = 0
    for _ in range(sweeps):
        for k in range(blocks):
            a = block_actions[k]
            first = 1 if a == 0 and n_actions > 1 else 0
            for i in range(m):  # slices would take seconds to compile
                top[i], best[i] = sums[first, i], first
            for b in range(first + 1, n_actions):
                if b != a:
                    for i in range(m):
                        if sums[b, i] > top[i] + slack[i]:
                            top[i] = sums[b, i]
                            best[i] = b
            for i in range(m):
                # Action a is taken where its sum exceeds this.
                needed[i] = top[i] - slack[i] if a < best[i] else top[i] + slack[i]
                gain[i] = scores[i, a] - scores[i, best[i]]
            for u in range(columns):
                own = matrix[u, k]
                values[:] = 0.0
                for i in range(m):
                    # From the t at which the sum is as needed the action is taken, or (x < 0) no longer taken.
                    cross = (needed[i] - sums[a, i]) * inverse[u, i] + (own + levels + 1)
                    cross = cross if cross > 0.0 else 0.0
                    place[i] = np.uint32(cross if cross < past else past)
                    share[i] = gain[i] if inverse[u, i] > 0.0 else -gain[i] if inverse[u, i] < 0.0 else 0.0
                for i in range(m):
                    values[place[i]] += share[i]
                for t in range(1, 2 * levels + 1):
                    values[t] += values[t - 1]
                to = own + levels
                for t in range(2 * levels + 1):
                    if values[t] > values[to] + least:
                        to = t
                idle += 1
                if to != own + levels:
                    matrix[u, k] = to - levels
                    for i in range(m):
                        sums[a, i] += x[u, i] * (to - levels - own)
                    idle = 0
                if idle >= columns * blocks:
                    return _value(sums.T, slack, scores)
    return _value(sums.T, slack, scores)


@kernel
def _climb_phi(phi: FloatArray, theta: IntArray, scores: FloatArray, levels: int, least: float, sweeps: int) -> float:
    """phi (d, m, A), theta (d,) changed in place."""
    d, m, n_actions = phi.shape
    sums = np.zeros((m, n_actions))
    slack = np.zeros(m)
    for j in range(d):
        for i in range(m):
            size = 0.0
            for a in range(n_actions):
                sums[i, a] += phi[j, i, a] * theta[j]
                size = max(size, abs(phi[j, i, a]))
            slack[i] += _CLIMB_TIE_SHARE * levels * size
    values = np.empty(2 * levels + 2)
    ends, taken = np.empty(32, dtype=np.int64), np.empty(32, dtype=np.int64)
    idle = 0
    for _ in range(sweeps):
        for j in range(d):
            own = theta[j]
            values[:] = 0.0
            for i in range(m):
                # An action is taken for neighbouring t: halving finds where it changes, if it does.
                low, here = -levels, _taken(sums[i], phi[j, i], -levels - own, slack[i])
                ends[0], taken[0] = levels, _taken(sums[i], phi[j, i], levels - own, slack[i])
                depth = 1
                while depth > 0:
                    high, there = ends[depth - 1], taken[depth - 1]
                    if here != there and high - low > 1:
                        middle = (low + high) // 2
                        ends[depth], taken[depth] = middle, _taken(sums[i], phi[j, i], middle - own, slack[i])
                        depth += 1
                    else:
                        if here != there:
                            values[high + levels] += scores[i, there] - scores[i, here]
                        low, here = high, there
                        depth -= 1
            for t in range(1, 2 * levels + 1):
                values[t] += values[t - 1]
            to = own + levels
            for t in range(2 * levels + 1):
                if values[t] > values[to] + least:
                    to = t
            idle += 1
            if to != own + levels:
                theta[j] = to - levels
                for i in range(m):
                    for a in range(n_actions):
                        sums[i, a] += phi[j, i, a] * (to - levels - own)
                idle = 0
            if idle >= d:
                return _value(sums, slack, scores)
    return _value(sums, slack, scores)


@kernel
def _taken(sums: FloatArray, phi: FloatArray, step: int, slack: float) -> int:
    """The action of one row when a coefficient has moved by `step`; sums, phi (A,)."""
    best, top = 0, sums[0] + phi[0] * step
    for a in range(1, sums.shape[0]):
        score = sums[a] + phi[a] * step
        if score > top + slack:
            best, top = a, score
    return best
