"""The design for all pairs of policies, as elimination needs it, on an explicit table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.allocation import allocate, check_floor, fill_row
from pacbandits.arrays import BoolArray, FloatArray, IntArray, check_shape, floats, integers, read_only
from pacbandits.checks import positive, settle, whole_number
from pacbandits.compiled import kernel, over_cores
from pacbandits.design.weights import SUM_ROUNDING, relative_gap, solve_weights
from pacbandits.errors import InputError
from pacbandits.policies.base import check_n_actions, compact
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy

# Designs for pairs of policies, without a reference: a sparse weighting of pairs.


# Contexts are processed in blocks, so that their masses stay in cache.
_CONTEXTS_A_BLOCK = 256


@dataclass(frozen=True, eq=False)
class PairDesign:
    """A sampler that plays `a` with probability `p(a|c) ∝ √x`, where x is the weight of pairs that disagree over `a`.

        x_{c,a} = Σ_{(π,π')} κ_{π,π'} · 1{exactly one of π(c), π'(c) is a}

    A context on which every pair agrees is played uniformly.

    support: the policies, at least one.
    pairs (m, 2): rows of the support.
    weights (m,): κ ≥ 0, of any scale.
    floor: the minimum propensity, at most 1/A.
    """

    support: tuple[Policy, ...]
    pairs: IntArray
    weights: FloatArray
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not self.support:
            raise InputError("a pair design has no policies; give at least one, for its number of actions")
        n_actions = self.n_actions
        if any(policy.n_actions != n_actions for policy in self.support):
            raise InputError("the policies of a pair design must all have the same number of actions")
        weights = floats(self.weights, name="pair weights", shape=(None,))
        if weights.size and weights.min() < 0:
            raise InputError(f"pair weights must not be negative, got {weights.min()}")
        pairs = integers(self.pairs, name="pairs", shape=(len(weights), 2), below=len(self.support))
        settle(self, pairs=pairs, weights=weights, floor=check_floor(self.floor, n_actions=n_actions))

    @property
    def n_actions(self) -> int:
        return self.support[0].n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A) on any contexts."""
        actions = np.empty((len(self.support), len(contexts)), dtype=np.min_scalar_type(self.n_actions - 1))
        for row, policy in zip(actions, self.support, strict=True):
            row[:] = policy(contexts)
        mass = pair_mass(actions, pairs=self.pairs, weights=self.weights, n_actions=self.n_actions)
        return allocate(mass, floor=self.floor)[0]


def pair_mass(actions: np.ndarray[Any, Any], *, pairs: IntArray, weights: FloatArray, n_actions: int) -> FloatArray:
    """Return the masses x (N, A) of weighted pairs (m, 2) of rows of a table of actions (K, N)."""
    mass = np.zeros((actions.shape[1], n_actions))
    table, chosen, kappa = read_only(actions), read_only(pairs), read_only(weights)
    over_cores(lambda a, b: _add_pairs(table, chosen, kappa, mass, a, b), count=len(mass))
    return mass


@kernel
def _add_pairs(
    actions: np.ndarray[Any, Any], pairs: IntArray, weights: FloatArray, mass: FloatArray, start: int, stop: int
) -> None:
    for first in range(start, stop, _CONTEXTS_A_BLOCK):
        last = min(first + _CONTEXTS_A_BLOCK, stop)
        for m in range(pairs.shape[0]):
            w = weights[m]
            if w > 0.0:
                i, j = pairs[m, 0], pairs[m, 1]
                for c in range(first, last):
                    x, y = actions[i, c], actions[j, c]
                    if x != y:
                        mass[c, x] += w
                        mass[c, y] += w


# Quantities of pairs of policies: V, the probability that they differ, and the dual of a pool of pairs. The notation
# is explained below.


# Contexts are evaluated in blocks; sums are added block by block, in order, for any number of cores.
_DUAL_CONTEXTS_A_BLOCK = 32
# Rows of pairs are cut finely, as the first policies have longer rows than the last.
_PIECES_A_CORE = 16


@dataclass(frozen=True, eq=False)
class PairObjective:
    """The fixed part of a pool of pairs' dual; `solve_weights` takes it with pairs in place of actions.

    table (K, N): the policies' actions.
    weights (N,): ν, all positive.
    n_actions: A.
    floor: the minimum propensity.
    """

    table: np.ndarray[Any, Any]
    weights: FloatArray
    n_actions: int
    floor: float = 0.0

    def evaluate(self, pairs: IntArray, kappa: FloatArray) -> tuple[float, FloatArray]:
        """Return G(κ), and V(π, π'; p(κ)) (m,) for pairs (m, 2) and kappa (m,)."""
        n_blocks = -(-self.table.shape[1] // _DUAL_CONTEXTS_A_BLOCK)
        values = np.empty((n_blocks, len(pairs)))
        totals = np.empty(n_blocks)
        parts = _PairParts(read_only(self.table), read_only(self.weights), self.n_actions, self.floor)
        over_cores(lambda a, b: _evaluate(parts, pairs, kappa, values, totals, a, b), count=n_blocks)
        return float(totals.sum()), values.sum(axis=0)

    def propensities(self, pairs: IntArray, kappa: FloatArray) -> FloatArray:
        """Return p(κ), the best propensities (N, A) for a weighting of pairs."""
        mass = pair_mass(self.table, pairs=pairs, weights=kappa, n_actions=self.n_actions)
        return allocate(mass, floor=self.floor)[0]

    def worst(self, propensities: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return, for every policy, the later one of largest V with it, and that V: V (K,), pairs (K, 2)."""
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
    """Return V(π, π'; p) (K, K) for a table (K, N), propensities (N, A) and context weights (N,), all unchecked."""
    out = np.zeros((len(table), len(table)))
    rows, costs = read_only(table), _costs(propensities, weights)
    over_cores(lambda a, b: _all_pairs(rows, costs, out, a, b), count=len(table), chunks_per_core=_PIECES_A_CORE)
    return out


def all_disagreements(table: np.ndarray[Any, Any], *, weights: FloatArray) -> FloatArray:
    """Return P(π ≠ π') (K, K) for a table (K, N) and context weights (N,), both unchecked."""
    out = np.zeros((len(table), len(table)))
    rows, nu = read_only(table), read_only(weights)
    over_cores(lambda a, b: _all_apart(rows, nu, out, a, b), count=len(table), chunks_per_core=_PIECES_A_CORE)
    return out


def _costs(propensities: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ν/p (N, A): infinite if p is zero, zero if ν is."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(weights[:, None] > 0, weights[:, None] / propensities, 0.0)


@kernel
def _variance(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], costs: FloatArray) -> float:
    """Return V of two policies with actions (N,)."""
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
    """The fields of `PairObjective` that kernels read; explained there."""

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
    """Write for blocks start … stop−1: values[b, m] = V's part of every pair, totals[b] = G's part."""
    table, n_actions = parts.table, parts.n_actions
    n_pairs, n_contexts = pairs.shape[0], table.shape[1]
    mass = np.empty((_DUAL_CONTEXTS_A_BLOCK, n_actions))
    p = np.empty(n_actions)
    for b in range(start, stop):
        first = b * _DUAL_CONTEXTS_A_BLOCK
        size = min(_DUAL_CONTEXTS_A_BLOCK, n_contexts - first)
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


# The design for all pairs of policies, as elimination needs it, on an explicit table.
#
#     ρ(Π) = min_p max_{π,π'} V(π, π'; p),   V(π, π'; p) = Σ_c ν_c (1/p(π(c)|c) + 1/p(π'(c)|c)) 1{π(c) ≠ π'(c)}
#     dual:  max_λ G(λ),   G(λ) = min_p Σ λ_{π,π'} V(π, π'; p),   λ in the simplex of pairs
#
# A table of K policies has K²/2 pairs, of which few matter: a pool of pairs is solved by `solve_weights`, all pairs are
# evaluated at the design found, those with the largest V join, and so on. The pool's value is a lower end (fewer pairs,
# smaller maximum), the largest V of all pairs at the design an upper one. As in `pacbandits.design.columns`, the pool
# is solved with a probability floor κ/A even if the caller asks for none, so that no pair outside it has an infinite V;
# κ falls with the gap. Both ends stay rigorous: `p = (1 − κ)p₀ + κ/A` inflates no variance by more than 1/(1 − κ), so
# the optimum without that floor is at least 1 − κ times the one with it, and the upper end belongs to the design
# returned.


_MAX_NEW_PAIRS_A_ROUND = 400
# The pool is solved to a share of the remaining relative gap, with a floor κ of half of that.
_FIRST_PRECISION = 0.1
_PRECISION_SHARE_OF_GAP = 0.4
# A pair starts a round with at least this share of the largest weight, so that it can recover.
_MIN_START_WEIGHT_SHARE = 1e-12
# At the end, weights below a share of the largest are dropped: the largest share here that keeps the bracket.
_PRUNED_WEIGHT_SHARES = (1e-2, 1e-3, 1e-4)


@dataclass(frozen=True, eq=False)
class PairSolution:
    """A design over pairs and a bracket on the optimum: lower ≤ min_p max_{π,π'} V(π, π'; p) ≤ upper.

    propensities (N, A): p, which attains `upper` over all pairs.
    pairs (m, 2): rows of the table.
    weights (m,): λ of the pairs, from which p is made.
    floor: the minimum propensity of p.
    lower: the lower end.
    upper: the upper end.
    iterations: evaluations of the objective on the pool.
    note: set if the requested gap was not reached, or in a special case.
    """

    propensities: FloatArray
    pairs: IntArray
    weights: FloatArray
    floor: float
    lower: float
    upper: float
    iterations: int
    note: str = ""

    @property
    def gap(self) -> float:
        """Return upper/lower − 1."""
        return relative_gap(self.lower, self.upper)


def pair_variances(actions: ArrayLike, *, propensities: ArrayLike, weights: ArrayLike) -> FloatArray:
    """Return V(π, π'; p) of every pair: (K, K), for actions (K, N), propensities (N, A) and context weights ν (N,).

    Infinite if two policies differ on a context that can occur and one of their actions has probability 0 there.
    """
    p = floats(propensities, name="propensities", shape=(None, None))
    if p.size and p.min() < 0:
        raise InputError(f"propensities must not be negative, got {p.min()}")
    table, nu = _table(actions, n_actions=p.shape[1]), _weights(weights)
    check_shape(p, name="propensities", shape=(table.shape[1], None))
    check_shape(nu, name="context weights", shape=(table.shape[1],))
    return all_variances(table, propensities=p, weights=nu)


def pair_disagreements(actions: ArrayLike, *, n_actions: int, weights: ArrayLike) -> FloatArray:
    """Return P(π ≠ π') of every pair: (K, K), for actions (K, N) and context weights ν (N,)."""
    table, nu = _table(actions, n_actions=n_actions), _weights(weights)
    check_shape(nu, name="context weights", shape=(table.shape[1],))
    return all_disagreements(table, weights=nu)


def solve_pairs(
    actions: ArrayLike,
    *,
    n_actions: int,
    weights: ArrayLike,
    tolerance: float = 1e-3,
    floor: float = 0.0,
    max_rounds: int = 200,
) -> PairSolution:
    """Return the best design for all pairs of rows of a table (K, N), to a relative gap of `tolerance`.

    weights (N,): ν, the weights of the contexts. floor: the minimum propensity.
    """
    n_actions, max_rounds = check_n_actions(n_actions), whole_number(max_rounds, name="max_rounds", least=1)
    tolerance, floor = positive(tolerance, name="tolerance"), check_floor(floor, n_actions=n_actions)
    table, nu = _table(actions, n_actions=n_actions), _weights(weights)
    check_shape(nu, name="context weights", shape=(table.shape[1],))
    telling = (nu > 0) & (table != table[0]).any(axis=0)
    rows = _distinct(table, telling)
    if len(rows) == 1:
        note = "every policy acts alike: there is nothing to learn"
        uniform = np.full((table.shape[1], n_actions), 1.0 / n_actions)
        return PairSolution(uniform, np.empty((0, 2), dtype=np.int64), np.empty(0), floor, 0.0, 0.0, 0, note=note)
    objective = PairObjective(np.ascontiguousarray(table[np.ix_(rows, telling)]), nu[telling], n_actions, floor)
    found = _sift(objective, tolerance=tolerance, max_rounds=max_rounds)
    pairs = rows[found.pairs]
    mass = pair_mass(table, pairs=pairs, weights=found.weights, n_actions=n_actions)
    return replace(found, propensities=allocate(mass, floor=found.floor)[0], pairs=pairs)


def pair_design(policies: Sequence[Policy], solution: PairSolution) -> PairDesign:
    """Return the solution as a design for any context, given the policies of its table's rows.

    On the contexts of the table its propensities are those of the solution.
    """
    rows, pairs = np.unique(solution.pairs, return_inverse=True)
    support = tuple(policies[int(i)] for i in rows) or (policies[0],)
    return PairDesign(support, pairs.reshape(-1, 2), solution.weights, floor=solution.floor)


def _sift(objective: PairObjective, *, tolerance: float, max_rounds: int) -> PairSolution:
    """Return the solution on the objective's table, which holds distinct policies."""
    n_policies, n_contexts = objective.table.shape
    n_actions = objective.n_actions
    uniform = np.full((n_contexts, n_actions), 1.0 / n_actions)
    values, candidates = objective.worst(uniform)
    pairs = candidates[_largest(values, above=0.0)]
    weights = np.ones(len(pairs))
    best = PairSolution(uniform, pairs[:0], weights[:0], objective.floor, 0.0, _end(values), 0)
    precision = _FIRST_PRECISION
    for _ in range(max_rounds):
        kappa = max(precision / 2, tolerance / 10)
        soft, discount = _soften(objective, min(kappa, 0.5))
        solved = solve_weights(soft, pairs, np.ones(len(pairs)), tolerance=precision, start=weights)
        weights = solved.weights
        bare = objective.evaluate(pairs, weights)[0] * (1.0 - SUM_ROUNDING)
        lower = max(best.lower, solved.lower * discount, bare)
        best = replace(best, lower=lower, iterations=best.iterations + solved.evaluations)
        p = soft.propensities(pairs, weights)
        values, candidates = objective.worst(p)
        if _end(values) < best.upper:
            best = replace(best, propensities=p, pairs=pairs, weights=weights, floor=soft.floor, upper=_end(values))
        if best.gap <= tolerance:
            return _prune(objective, best, tolerance=tolerance)
        fresh = candidates[_largest(values, above=lower)]
        fresh = fresh[~np.isin(fresh @ [n_policies, 1], pairs @ [n_policies, 1])]
        weights = np.maximum(weights, _MIN_START_WEIGHT_SHARE * weights.max())
        if len(fresh) > 0:
            precision = _PRECISION_SHARE_OF_GAP * max(min(best.gap, 1.0), tolerance)
            pairs = np.concatenate([pairs, fresh])
            weights = np.concatenate([weights, np.full(len(fresh), 0.1 / len(fresh))])
        elif precision > tolerance / 1000:
            precision /= 4  # no new pair: the pool itself must be solved more precisely
        else:
            return replace(best, note="the pool of pairs could not be solved more precisely")
    return replace(best, note=f"stopped after {max_rounds} rounds")


def _prune(objective: PairObjective, solution: PairSolution, *, tolerance: float) -> PairSolution:
    """Return the solution with fewer pairs, if its bracket stays within `tolerance`; the upper end is re-evaluated."""
    if len(solution.pairs) == 0:  # uniform exploration is as good
        return solution
    soft = replace(objective, floor=solution.floor)
    for share in _PRUNED_WEIGHT_SHARES:
        kept = solution.weights > share * solution.weights.max()
        pairs, weights = solution.pairs[kept], solution.weights[kept]
        upper = _end(objective.worst(soft.propensities(pairs, weights))[0])
        if relative_gap(solution.lower, upper) <= tolerance:
            return replace(solution, pairs=pairs, weights=weights, upper=upper)
    return solution


def _soften(objective: PairObjective, share: float) -> tuple[PairObjective, float]:
    """Return the objective with at least that share of uniform exploration, and the factor for its lower bound."""
    floor = share / objective.n_actions
    if objective.floor >= floor:
        return objective, 1.0
    return replace(objective, floor=floor), 1.0 - share


def _end(values: FloatArray) -> float:
    return float(values.max()) * (1.0 + SUM_ROUNDING)


def _largest(values: FloatArray, *, above: float) -> IntArray:
    order = np.argsort(-values, kind="stable")[:_MAX_NEW_PAIRS_A_ROUND]
    return order[values[order] > above]


def _table(actions: ArrayLike, *, n_actions: int) -> np.ndarray[Any, Any]:
    table = integers(actions, name="actions", shape=(None, None), below=n_actions)
    if 0 in table.shape:
        raise InputError(f"actions has shape {table.shape}; at least one policy and one context are needed")
    return np.ascontiguousarray(table, dtype=compact(n_actions))


def _weights(weights: ArrayLike) -> FloatArray:
    nu = floats(weights, name="context weights", shape=(None,))
    if nu.size and nu.min() < 0:
        raise InputError(f"context weights must not be negative, got {nu.min()}")
    return nu


def _distinct(table: np.ndarray[Any, Any], telling: BoolArray) -> IntArray:
    """Return the first row of each set of policies that act alike on the contexts that can distinguish policies."""
    if not telling.any():
        return np.zeros(1, dtype=np.int64)
    return np.sort(np.unique(table[:, telling], axis=0, return_index=True)[1])
