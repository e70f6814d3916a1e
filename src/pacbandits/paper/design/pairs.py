"""The design that tells every pair of policies apart, as elimination needs it, on an explicit table.

    ρ(Π) = min_p max_{π,π'} V(π, π'; p),   V(π, π'; p) = Σ_c ν_c (1/p(π(c)|c) + 1/p(π'(c)|c)) 1{π(c) ≠ π'(c)}
    dual:  max_λ G(λ),   G(λ) = min_p Σ λ_{π,π'} V(π, π'; p),   λ in the simplex of pairs

A table of K policies has K²/2 pairs, of which few matter: a pool of pairs is solved by `solve_weights`, all pairs are
evaluated at the design found, those served worst join, and so on. The pool's value is a lower end (fewer pairs, smaller
maximum), the largest V of all pairs at the design an upper one. As in `pacbandits.design.columns`, the pool is solved
with a probability floor κ/A even where the caller asks for none, so that no pair outside it looks infinitely bad; κ
falls with the gap. Both ends stay rigorous: `p = (1 − κ)p₀ + κ/A` inflates no variance by more than 1/(1 − κ), so the
optimum without that floor is at least 1 − κ times the one with it, and the upper end belongs to the design returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.allocation import allocate, check_floor
from pacbandits.arrays import BoolArray, FloatArray, IntArray, check_shape, floats, integers
from pacbandits.checks import positive, whole_number
from pacbandits.design.enumerated import SUM_ROUNDING, relative_gap, solve_weights
from pacbandits.errors import InputError
from pacbandits.paper.design.pair_design import PairDesign, pair_mass
from pacbandits.paper.design.pair_objective import PairObjective, all_disagreements, all_variances
from pacbandits.policies.base import check_n_actions, compact
from pacbandits.records import Policy

_MAX_NEW_PAIRS_A_ROUND = 400
# The pool is solved to a relative gap that is a share of the one that is left, with a floor κ of half of that.
_FIRST_PRECISION = 0.1
_PRECISION_SHARE_OF_GAP = 0.4
# No pair starts a round with less of the largest weight than this, so that it can come back.
_MIN_START_WEIGHT_SHARE = 1e-12
# In the end, weights below such a share of the largest are left out: the largest share that keeps the bracket.
_PRUNED_WEIGHT_SHARES = (1e-2, 1e-3, 1e-4)


@dataclass(frozen=True, eq=False)
class PairSolution:
    """A design over pairs and a bracket on the optimum: lower ≤ min_p max_{π,π'} V(π, π'; p) ≤ upper.

    propensities (N, A): p, which attains `upper` over all pairs.
    pairs (m, 2): rows of the table.
    weights (m,): λ of the pairs, from which p is made.
    floor: the least probability with which p is made.
    lower: the lower end.
    upper: the upper end.
    iterations: evaluations of the objective on the pool.
    note: a word when the requested gap was not reached, or on a special case.
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
        """upper/lower − 1."""
        return relative_gap(self.lower, self.upper)


def pair_variances(actions: ArrayLike, *, propensities: ArrayLike, weights: ArrayLike) -> FloatArray:
    """V(π, π'; p) of every pair: (K, K), for actions (K, N), propensities (N, A) and context weights ν (N,).

    Infinite where two policies differ on a context that can occur and one of their actions has no probability.
    """
    p = floats(propensities, name="propensities", shape=(None, None))
    if p.size and p.min() < 0:
        raise InputError(f"propensities must not be negative, got {p.min()}")
    table, nu = _table(actions, n_actions=p.shape[1]), _weights(weights)
    check_shape(p, name="propensities", shape=(table.shape[1], None))
    check_shape(nu, name="context weights", shape=(table.shape[1],))
    return all_variances(table, propensities=p, weights=nu)


def pair_disagreements(actions: ArrayLike, *, n_actions: int, weights: ArrayLike) -> FloatArray:
    """P(π ≠ π') of every pair: (K, K), for actions (K, N) and context weights ν (N,)."""
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
    """The best design for all pairs of rows of a table (K, N), to a relative gap of `tolerance`.

    weights (N,): ν, the weights of the contexts. floor: the least probability of every action.
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
    """The solution as a design for any context, given the policies of its table's rows.

    On the contexts of the table its propensities are those of the solution.
    """
    rows, pairs = np.unique(solution.pairs, return_inverse=True)
    support = tuple(policies[int(i)] for i in rows) or (policies[0],)
    return PairDesign(support, pairs.reshape(-1, 2), solution.weights, floor=solution.floor)


def _sift(objective: PairObjective, *, tolerance: float, max_rounds: int) -> PairSolution:
    """The solution on the objective's table, of distinct policies."""
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
            precision /= 4  # nothing new: the pool itself must be solved more precisely
        else:
            return replace(best, note="the pool of pairs could not be solved more precisely")
    return replace(best, note=f"stopped after {max_rounds} rounds")


def _prune(objective: PairObjective, solution: PairSolution, *, tolerance: float) -> PairSolution:
    """The same solution with as few pairs as keep its bracket within `tolerance`; the upper end is evaluated anew."""
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
    """The objective with at least that share of uniform exploration, and what its optimum must be multiplied by."""
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
    """The first row of each set of policies that act alike on the contexts that can tell policies apart."""
    if not telling.any():
        return np.zeros(1, dtype=np.int64)
    return np.sort(np.unique(table[:, telling], axis=0, return_index=True)[1])
