"""The ratio form on a table of policies: objective, solver, and solutions with few policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from pacbandits.allocation import allocate, fill_row
from pacbandits.arrays import FloatArray, IntArray, read_only
from pacbandits.compiled import kernel, over_cores
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Design

# The variance functional on a table of policies: masses, propensities, costs and values in one pass.
#
# Legend: K policies, N contexts, A actions; κ weights of policies; q reference; ν context weights; σ² noise variance;
# s the variance of a policy that no exploration changes, zeros unless given.
#
#     V_π(p; q) = Σ_c (ν_c (σ²_{c,π(c)}/p(π(c)|c) + σ²_{c,q(c)}/p(q(c)|c)) + s_{c,π(c)}) 1{π(c) ≠ q(c)}
#     x_{c,a}   = σ²_{c,a} Σ_π κ_π 1{exactly one of π(c), q(c) is a}
#     G(κ)      = min_p Σ_π κ_π V_π(p; q) = Σ_c ν_c Σ_a x_{c,a}/p(a|c) + Σ_π κ_π Σ_c s_{c,π(c)} 1{π(c) ≠ q(c)}
#
# where the best p is the closed form in `pacbandits.allocation`,
#
# and by the envelope theorem ∂G/∂κ_π = V_π(p(κ); q).


# Contexts are processed in blocks of this many, so that their masses and costs stay in cache; sums are added block by
# block, in order, for any number of cores.
_CONTEXTS_A_BLOCK = 256


class _ObjectiveParts(NamedTuple):
    """The fields of an `Objective` that kernels read; see there."""

    reference: IntArray
    weights: FloatArray
    noise: FloatArray
    floor: float
    spread: FloatArray


@kernel
def _evaluate(
    parts: _ObjectiveParts,
    actions: np.ndarray[Any, Any],
    kappa: FloatArray,
    values: FloatArray,
    totals: FloatArray,
    start: int,
    stop: int,
) -> None:
    """For blocks start … stop−1: values[b, k] = V_π's part, totals[b] = G's part."""
    weights, noise = parts.weights, parts.noise
    n_policies, n_contexts = actions.shape
    n_actions = noise.shape[1]
    mass = np.empty((_CONTEXTS_A_BLOCK, n_actions))
    p = np.empty(n_actions)
    for b in range(start, stop):
        first = b * _CONTEXTS_A_BLOCK
        size = min(_CONTEXTS_A_BLOCK, n_contexts - first)
        mass[:] = 0.0
        for k in range(n_policies):
            w = kappa[k]
            if w > 0.0:
                for i in range(size):
                    mass[i, actions[k, first + i]] += w
        total = 0.0
        for i in range(size):
            c = first + i
            q = parts.reference[c]
            disagree = 0.0
            for a in range(n_actions):
                if a != q:
                    disagree += mass[i, a]
                    total += mass[i, a] * parts.spread[c, a]
                    mass[i, a] *= noise[c, a]
            mass[i, q] = disagree * noise[c, q]
            total += weights[c] * fill_row(mass[i], parts.floor, p)
            fill_costs(p, noise[c], parts.spread[c], weights[c], q, mass[i])
        totals[b] = total
        for k in range(n_policies):
            value = 0.0
            for i in range(size):
                value += mass[i, actions[k, first + i]]
            values[b, k] = value


@kernel
def fill_costs(p: FloatArray, noise: FloatArray, spread: FloatArray, weight: float, q: int, out: FloatArray) -> None:
    """out[a] = ν (σ²_a/p_a + σ²_q/p_q) + s_a for a ≠ q, 0 for q; infinite where an action with noise has p = 0."""
    for a in range(p.shape[0]):
        out[a] = 0.0
    if weight > 0.0:
        at_q = noise[q] / p[q] if p[q] > 0.0 else (np.inf if noise[q] > 0.0 else 0.0)
        for a in range(p.shape[0]):
            if a != q:
                at_a = noise[a] / p[a] if p[a] > 0.0 else (np.inf if noise[a] > 0.0 else 0.0)
                out[a] = weight * (at_a + at_q) + spread[a]


@kernel
def _all_costs(parts: _ObjectiveParts, p: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    for c in range(start, stop):
        fill_costs(p[c], parts.noise[c], parts.spread[c], parts.weights[c], parts.reference[c], out[c])


@kernel
def _add_mass(
    actions: np.ndarray[Any, Any], kappa: FloatArray, reference: IntArray, mass: FloatArray, start: int, stop: int
) -> None:
    for k in range(actions.shape[0]):
        w = kappa[k]
        if w > 0.0:
            for c in range(start, stop):
                mass[c, actions[k, c]] += w
    for c in range(start, stop):
        q = reference[c]
        mass[c, q] = 0.0
        mass[c, q] = mass[c].sum()


@dataclass(frozen=True, eq=False)
class Objective:
    """The data of the design problem that do not change while it is solved.

    reference (N,): q's actions.
    weights (N,): ν.
    noise (N, A): σ², ones for the unweighted ρ.
    floor: the minimum probability of every action.
    spread (N, A): s, ν multiplied in; None for none.
    """

    reference: IntArray
    weights: FloatArray
    noise: FloatArray
    floor: float = 0.0
    spread: FloatArray | None = None

    @property
    def n_actions(self) -> int:
        return self.noise.shape[1]

    def evaluate(self, actions: np.ndarray[Any, Any], kappa: FloatArray) -> tuple[float, FloatArray]:
        """Return G(κ), and V_π(p(κ); q) (K,) of every policy of the table, for actions (K, N), kappa (K,)."""
        n_blocks = -(-actions.shape[1] // _CONTEXTS_A_BLOCK)
        values = np.empty((n_blocks, actions.shape[0]))
        totals = np.empty(n_blocks)
        parts, table = self._parts, read_only(actions)
        over_cores(lambda a, b: _evaluate(parts, table, kappa, values, totals, a, b), count=n_blocks)
        return float(totals.sum()), values.sum(axis=0)

    def propensities(self, actions: np.ndarray[Any, Any], kappa: FloatArray) -> FloatArray:
        """Return p(κ), the best propensities (N, A) for a weighting of the table's policies."""
        mass = np.zeros_like(self.noise)
        table, reference = read_only(actions), read_only(self.reference)
        over_cores(lambda a, b: _add_mass(table, kappa, reference, mass, a, b), count=len(reference))
        return allocate(mass * self.noise, floor=self.floor)[0]

    def costs(self, propensities: FloatArray) -> FloatArray:
        """Return scores (N, A) whose sum over π's actions is V_π(p; q)."""
        out = np.empty_like(self.noise)
        parts = self._parts
        over_cores(lambda a, b: _all_costs(parts, propensities, out, a, b), count=len(self.reference))
        return out

    @property
    def _parts(self) -> _ObjectiveParts:
        spread = np.zeros_like(self.noise) if self.spread is None else self.spread
        # Kernels are compiled once, for writeable arrays.
        reference = np.require(self.reference, requirements=("C", "W"))
        weights = np.require(self.weights, requirements=("C", "W"))
        return _ObjectiveParts(reference, weights, self.noise, self.floor, spread)


# The ratio form on an explicit table of policies, by accelerated multiplicative updates.
#
#     max_λ G(λ),   G(λ) = min_p Σ_π λ_π u_π V_π(p; q),   λ in the simplex,   u_π = 1/d(Δ_π)²
#
# The update `λ_π ← λ_π u_π V_π / G` has no parameter, keeps λ in the simplex (Σ λ_π u_π V_π = G by homogeneity) and
# climbs like an EM step; a squared extrapolation in log λ (SQUAREM; Varadhan and Roland 2008) takes several steps at
# once, and is kept only when G does not fall. Every λ gives both ends of a bracket: G(λ) ≤ optimum ≤ max_π u_π
# V_π(p(λ)).


# One extrapolation lowers no weight by more than this factor against the plain step. A policy of almost zero weight
# would need many plain steps to recover.
_MIN_SHRINK_FACTOR = 1e-3
_MIN_WEIGHT = 1e-280
# Relative rounding of sums of positive terms in doubles; both ends of a bracket are moved outward by it.
SUM_ROUNDING = 1e-12
# After this many evaluations in which the gap did not halve, weight is moved between two policies.
_EVALUATIONS_TO_HALVE_GAP = 100
_EVALUATIONS_A_TRANSFER = 30


class Evaluates(Protocol):
    """An objective for `solve_weights`: G(κ), and its gradient (K,), for weights κ (K,) of a table's rows."""

    def evaluate(self, actions: np.ndarray[Any, Any], kappa: FloatArray, /) -> tuple[float, FloatArray]: ...


@dataclass(frozen=True, eq=False)
class Weighting:
    """A weighting λ of a table's policies, and a bracket on the optimum.

    weights (K,): the λ whose design attains `upper` on the table.
    lower: a lower bound on the optimum.
    upper: an upper bound on the optimum.
    evaluations: the number of evaluations of the objective.
    """

    weights: FloatArray
    lower: float
    upper: float
    evaluations: int

    @property
    def gap(self) -> float:
        """upper/lower − 1."""
        return relative_gap(self.lower, self.upper)


def relative_gap(lower: float, upper: float) -> float:
    """upper/lower − 1; zero when the ends are equal (also when both are zero or infinite)."""
    if lower == upper:
        return 0.0
    return upper / lower - 1.0 if lower > 0 else np.inf


def solve_weights(
    objective: Evaluates,
    actions: np.ndarray[Any, Any],
    urgency: FloatArray,
    *,
    tolerance: float = 1e-3,
    max_evaluations: int = 3000,
    start: FloatArray | None = None,
) -> Weighting:
    """Solve the ratio form on the table `actions` (K, N) with u = `urgency` (K,), to a relative gap of `tolerance`.

    `start` (K,): positive initial weights, of any scale.
    """
    climb = _Climb(objective, actions, urgency)
    state = climb.at(np.ones(len(urgency)) if start is None else start)
    reach = 4.0  # limit of an extrapolation; grows while it succeeds
    while not climb.done(tolerance) and climb.evaluations < max_evaluations:
        one = climb.at(_step(state))
        if climb.done(tolerance):
            break
        two = _step(one)
        toward = np.log(one.weights) - np.log(state.weights)
        bend = np.log(two) - np.log(one.weights) - toward
        length = np.sqrt(_norm(toward, one.weights) / max(_norm(bend, one.weights), 1e-300))
        length = float(np.clip(length, 1.0, reach))
        leap = np.log(state.weights) + 2.0 * length * toward + length**2 * bend
        leap = np.maximum(leap, np.log(two) + np.log(_MIN_SHRINK_FACTOR))
        far = climb.at(np.exp(leap - leap.max()))
        if far.value >= one.value:
            state = far
            reach = reach * 4.0 if length == reach else reach
        else:
            reach = max(2.0, min(reach, length) / 4.0)
            state = climb.at(two)
        if climb.stalled():
            state = _transfer(climb, state)
    return Weighting(climb.best, climb.lower, climb.upper, climb.evaluations)


@dataclass(frozen=True, eq=False)
class _State:
    """A weighting, evaluated.

    weights (K,): λ.
    value: G(λ).
    pull (K,): u_π V_π, the gradient of G.
    """

    weights: FloatArray
    value: float
    pull: FloatArray


def _step(state: _State) -> FloatArray:
    new = np.maximum(state.weights * (state.pull / state.value), _MIN_WEIGHT)
    return new / new.sum()


def _transfer(climb: _Climb, state: _State) -> _State:
    """Move weight from the policy of smallest pull to the one of largest, as much as raises G (bisection on the slope).

    Near-copies, which differ only on contexts of tiny weight, have nearly equal pulls: plain steps shift weight
    between them by that small difference at a time.
    """
    to = int(state.pull.argmax())
    donors = state.weights > 1e-9 * state.weights.max()
    donors[to] = False
    if not donors.any():
        return state
    giver = int(np.where(donors, state.pull, np.inf).argmin())
    low, high = np.log(state.weights[giver]) - 40.0, np.log(state.weights[giver]) - 1e-6
    before = state.weights
    for _ in range(_EVALUATIONS_A_TRANSFER):
        middle = (low + high) / 2
        moved = before.copy()
        moved[giver] -= np.exp(middle)
        moved[to] += np.exp(middle)
        tried = climb.at(moved)
        if tried.pull[to] > tried.pull[giver]:
            low = middle
            state = tried if tried.value >= state.value else state
        else:
            high = middle
    return state


def _norm(vector: FloatArray, weights: FloatArray) -> float:
    return float(np.sum(weights * vector**2))


class _Climb:
    """Evaluates weightings and keeps the best bracket."""

    def __init__(self, objective: Evaluates, actions: np.ndarray[Any, Any], urgency: FloatArray) -> None:
        self.objective = objective
        self.actions = actions
        self.urgency = urgency
        self.lower = 0.0
        self.upper = np.inf
        self.best = np.full(len(urgency), 1.0 / len(urgency))
        self.evaluations = 0
        self.halved = np.inf
        self.since = 0

    def at(self, weights: FloatArray) -> _State:
        weights = np.maximum(weights / weights.sum(), _MIN_WEIGHT)
        value, variances = self.objective.evaluate(self.actions, weights * self.urgency)
        pull = self.urgency * variances
        self.evaluations += 1
        self.lower = max(self.lower, value * (1.0 - SUM_ROUNDING))
        if pull.max() * (1.0 + SUM_ROUNDING) < self.upper:
            self.upper = float(pull.max()) * (1.0 + SUM_ROUNDING)
            self.best = weights
        return _State(weights, value, pull)

    def stalled(self) -> bool:
        """Whether the gap has not halved in the last _EVALUATIONS_TO_HALVE_GAP evaluations."""
        gap = relative_gap(self.lower, self.upper)
        if gap <= self.halved / 2:
            self.halved, self.since = gap, self.evaluations
        if self.evaluations - self.since < _EVALUATIONS_TO_HALVE_GAP:
            return False
        self.since = self.evaluations
        return True

    def done(self, tolerance: float) -> bool:
        return relative_gap(self.lower, self.upper) <= tolerance


# The result of a design solver.


@dataclass(frozen=True, eq=False)
class Solution:
    """A design and a bracket on the optimum: lower ≤ min_p max_π V_π(p; q)/d(Δ_π)² ≤ upper.

    design: attains `upper`, over the whole class.
    lower: the lower end.
    upper: the upper end.
    tolerance: the requested relative gap.
    iterations: evaluations of the objective on a table of policies.
    oracle_calls: calls to the class.
    note: why the requested gap was not reached, or a special case.
    """

    design: Design
    lower: float
    upper: float
    tolerance: float
    iterations: int
    oracle_calls: int
    note: str = ""

    @property
    def gap(self) -> float:
        """upper/lower − 1."""
        return relative_gap(self.lower, self.upper)

    @property
    def converged(self) -> bool:
        """Whether the requested relative gap was reached."""
        return bool(self.gap <= self.tolerance) or self.lower == np.inf


# The ratio form on tables of very many policies, and solutions with few of them.


# Tables of more policies than this are sifted, starting with the second number of them.
_MAX_UNSIFTED_POLICIES = 4000
_FIRST_SIFTED_POLICIES = 2000
_JOINING_POLICIES_A_ROUND = 1000


def sift_weights(
    objective: Objective,
    actions: np.ndarray[Any, Any],
    urgency: FloatArray,
    *,
    tolerance: float = 1e-3,
    max_evaluations: int = 3000,
) -> Weighting:
    """Solve the same problem as `solve_weights` for tables of very many policies, of which few matter.

    A few are solved, all are evaluated under the design found, those of largest cost join, and so on. The lower end is
    that of the few, the upper one that of all.
    """
    size = len(urgency)
    if size <= _MAX_UNSIFTED_POLICIES:
        return solve_weights(objective, actions, urgency, tolerance=tolerance, max_evaluations=max_evaluations)

    def pulls(propensities: FloatArray) -> FloatArray:
        return urgency * sum_scores(actions, objective.costs(propensities))

    n_actions = objective.n_actions
    active = _largest(pulls(np.full(objective.noise.shape, 1.0 / n_actions)), _FIRST_SIFTED_POLICIES)
    start = np.ones(len(active))
    lower, upper, evaluations = 0.0, np.inf, 0
    best = np.full(size, 1.0 / size)
    while evaluations < max_evaluations:
        few, few_urgency = np.ascontiguousarray(actions[active]), urgency[active]
        left = max_evaluations - evaluations
        solved = solve_weights(objective, few, few_urgency, tolerance=tolerance / 3, max_evaluations=left, start=start)
        evaluations += solved.evaluations
        lower = max(lower, solved.lower)
        pull = pulls(objective.propensities(few, solved.weights * few_urgency))
        if pull.max() * (1.0 + SUM_ROUNDING) < upper:
            upper = float(pull.max()) * (1.0 + SUM_ROUNDING)
            best = np.zeros(size)
            best[active] = solved.weights
        if relative_gap(lower, upper) <= tolerance:
            break
        pull[active] = 0.0
        fresh = _largest(pull, _JOINING_POLICIES_A_ROUND)
        fresh = fresh[pull[fresh] > lower]
        if len(fresh) == 0:  # the few are already solved as precisely as possible
            break
        active = np.concatenate([active, fresh])
        start = np.concatenate([np.maximum(solved.weights, 1e-12), np.full(len(fresh), 0.1 / len(fresh))])
    return Weighting(best, lower, upper, evaluations)


def _largest(values: FloatArray, count: int) -> IntArray:
    return np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))


def prune(
    objective: Objective, actions: np.ndarray[Any, Any], urgency: FloatArray, *, solved: Weighting, tolerance: float
) -> Weighting:
    """Return the same solution with as few policies as keep its bracket within `tolerance`.

    Weights below a cut are set to zero, for the largest cut that keeps the bracket; `upper` is evaluated anew, as a
    small weight may be all that covers a rare context.
    """
    allowed = max(solved.upper, solved.lower * (1.0 + tolerance))
    for cut in (1e-3, 1e-4, 1e-6, 1e-9, 1e-12):
        weights = np.where(solved.weights > cut * solved.weights.max(), solved.weights, 0.0)
        _, variances = objective.evaluate(actions, weights * urgency)
        upper = float((urgency * variances).max()) * (1.0 + SUM_ROUNDING)
        if upper <= allowed:
            return Weighting(weights, solved.lower, upper, solved.evaluations)
    return solved
