"""What is evaluated on pairs of policies: their V and how often they differ, and the dual of a pool of them.

Notation and formulas are those of `pacbandits.paper.design.pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacbandits.allocation import allocate, fill_row
from pacbandits.arrays import FloatArray, IntArray, read_only
from pacbandits.compiled import kernel, over_cores
from pacbandits.paper.design.pair_design import pair_mass

# Contexts are evaluated in blocks; sums are added up block by block, in order, whatever the cores.
_CONTEXTS_A_BLOCK = 32
# Rows of pairs are cut finely, as those of the first policies are longer than those of the last.
_PIECES_A_CORE = 16


@dataclass(frozen=True, eq=False)
class PairObjective:
    """What does not change while a pool of pairs is solved; `solve_weights` takes it with pairs in place of actions.

    table (K, N): the policies' actions.
    weights (N,): ν, all positive.
    n_actions: A.
    floor: the least probability of every action.
    """

    table: np.ndarray[Any, Any]
    weights: FloatArray
    n_actions: int
    floor: float = 0.0

    def evaluate(self, pairs: IntArray, kappa: FloatArray) -> tuple[float, FloatArray]:
        """G(κ), and V(π, π'; p(κ)) for every pair given: a number and (m,), for pairs (m, 2) and kappa (m,)."""
        n_blocks = -(-self.table.shape[1] // _CONTEXTS_A_BLOCK)
        values = np.empty((n_blocks, len(pairs)))
        totals = np.empty(n_blocks)
        parts = _PairParts(read_only(self.table), read_only(self.weights), self.n_actions, self.floor)
        over_cores(lambda a, b: _evaluate(parts, pairs, kappa, values, totals, a, b), count=n_blocks)
        return float(totals.sum()), values.sum(axis=0)

    def propensities(self, pairs: IntArray, kappa: FloatArray) -> FloatArray:
        """p(κ), the best propensities (N, A) for a weighting of pairs."""
        mass = pair_mass(self.table, pairs=pairs, weights=kappa, n_actions=self.n_actions)
        return allocate(mass, floor=self.floor)[0]

    def worst(self, propensities: FloatArray) -> tuple[FloatArray, IntArray]:
        """For every policy, which of the later ones it is told from worst, and V of that pair: V (K,), pairs (K, 2)."""
        values = np.zeros(len(self.table))
        partners = np.arange(len(self.table))
        table, costs = read_only(self.table), _costs(propensities, self.weights)
        over_cores(
            lambda a, b: _worst_partners(table, costs, values, partners, a, b),
            count=len(self.table),
            chunks_per_core=_PIECES_A_CORE,
        )
        return values, np.stack([np.arange(len(self.table)), partners], axis=1)


def all_variances(table: np.ndarray[Any, Any], *, propensities: FloatArray, weights: FloatArray) -> FloatArray:
    """V(π, π'; p) (K, K) for a table (K, N), propensities (N, A) and context weights (N,), none of them checked."""
    out = np.zeros((len(table), len(table)))
    rows, costs = read_only(table), _costs(propensities, weights)
    over_cores(lambda a, b: _all_pairs(rows, costs, out, a, b), count=len(table), chunks_per_core=_PIECES_A_CORE)
    return out


def all_disagreements(table: np.ndarray[Any, Any], *, weights: FloatArray) -> FloatArray:
    """P(π ≠ π') (K, K) for a table (K, N) and context weights (N,), none of them checked."""
    out = np.zeros((len(table), len(table)))
    rows, nu = read_only(table), read_only(weights)
    over_cores(lambda a, b: _all_apart(rows, nu, out, a, b), count=len(table), chunks_per_core=_PIECES_A_CORE)
    return out


def _costs(propensities: FloatArray, weights: FloatArray) -> FloatArray:
    """ν/p (N, A): infinite where p is zero, zero where ν is."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(weights[:, None] > 0, weights[:, None] / propensities, 0.0)


@kernel
def _variance(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], costs: FloatArray) -> float:
    """V of two policies with actions (N,)."""
    total = 0.0
    for c in range(one.shape[0]):
        x, y = one[c], other[c]
        if x != y:
            total += costs[c, x] + costs[c, y]
    return total


@kernel
def _all_pairs(actions: np.ndarray[Any, Any], costs: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    # The later policy in the outer loop: the actions of the earlier ones of a piece stay in cache.
    for j in range(start + 1, actions.shape[0]):
        for i in range(start, min(stop, j)):
            out[i, j] = _variance(actions[i], actions[j], costs)
            out[j, i] = out[i, j]


@kernel
def _all_apart(actions: np.ndarray[Any, Any], weights: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    for j in range(start + 1, actions.shape[0]):
        for i in range(start, min(stop, j)):
            total = 0.0
            for c in range(actions.shape[1]):
                if actions[i, c] != actions[j, c]:
                    total += weights[c]
            out[i, j] = total
            out[j, i] = total


@kernel
def _worst_partners(
    actions: np.ndarray[Any, Any],
    costs: FloatArray,
    values: FloatArray,
    partners: IntArray,
    start: int,
    stop: int,
) -> None:
    for j in range(start + 1, actions.shape[0]):
        for i in range(start, min(stop, j)):
            value = _variance(actions[i], actions[j], costs)
            if value > values[i]:
                values[i] = value
                partners[i] = j


class _PairParts(NamedTuple):
    """What kernels read of a `PairObjective`; its fields are explained there."""

    table: np.ndarray[Any, Any]
    weights: FloatArray
    n_actions: int
    floor: float


@kernel
def _evaluate(
    parts: _PairParts,
    pairs: IntArray,
    kappa: FloatArray,
    values: FloatArray,
    totals: FloatArray,
    start: int,
    stop: int,
) -> None:
    """For blocks start … stop−1: values[b, m] = V's part of every pair, totals[b] = G's part."""
    table, n_actions = parts.table, parts.n_actions
    n_pairs, n_contexts = pairs.shape[0], table.shape[1]
    mass = np.empty((_CONTEXTS_A_BLOCK, n_actions))
    p = np.empty(n_actions)
    for b in range(start, stop):
        first = b * _CONTEXTS_A_BLOCK
        size = min(_CONTEXTS_A_BLOCK, n_contexts - first)
        mass[:] = 0.0
        for m in range(n_pairs):
            w = kappa[m]
            if w > 0.0:
                i, j = pairs[m, 0], pairs[m, 1]
                for c in range(size):
                    x, y = table[i, first + c], table[j, first + c]
                    if x != y:
                        mass[c, x] += w
                        mass[c, y] += w
        total = 0.0
        for c in range(size):
            nu = parts.weights[first + c]
            total += nu * fill_row(mass[c], parts.floor, p)
            for a in range(n_actions):
                mass[c, a] = nu / p[a] if p[a] > 0.0 else np.inf
        totals[b] = total
        for m in range(n_pairs):
            i, j = pairs[m, 0], pairs[m, 1]
            value = 0.0
            for c in range(size):
                x, y = table[i, first + c], table[j, first + c]
                if x != y:
                    value += mass[c, x] + mass[c, y]
            values[b, m] = value
