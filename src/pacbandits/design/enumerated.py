"""The ratio form on an explicit table of policies, by accelerated multiplicative updates.

    max_λ G(λ),   G(λ) = min_p Σ_π λ_π u_π V_π(p; q),   λ in the simplex,   u_π = 1/d(Δ_π)²

The update `λ_π ← λ_π u_π V_π / G` has no parameter, keeps λ in the simplex (Σ λ_π u_π V_π = G by homogeneity) and
climbs like an EM step; a squared extrapolation in log λ (SQUAREM; Varadhan and Roland 2008) takes several steps at
once, and is kept only when G does not fall. Every λ gives both ends of a bracket: G(λ) ≤ optimum ≤ max_π u_π V_π(p(λ)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.design.objective import Objective
from pacbandits.policies.finite import sum_scores

# One extrapolation lowers no weight by more than this factor against the plain step. A policy sent to nothing would
# need many plain steps to come back.
_LEAST_SHRINK = 1e-3
_LEAST_WEIGHT = 1e-280
# Sums of positive terms in doubles are right to about this much; both ends of a bracket are moved outward by it.
ROUNDING = 1e-12
# After this many evaluations without much progress, weight is moved between two policies, by a search of so many.
_PATIENCE = 100
_TRANSFERS = 30
# Tables of more policies than this are sifted.
_SIFTED = 4000


class Evaluates(Protocol):
    """What `solve_weights` asks of an objective: G(κ), and its gradient (K,), for weights κ (K,) of a table's rows."""

    def evaluate(self, actions: np.ndarray[Any, Any], kappa: FloatArray, /) -> tuple[float, FloatArray]: ...


@dataclass(frozen=True, eq=False)
class Weighting:
    """A weighting λ (K,) of a table's policies, and the bracket on the optimum it took part in proving.

    lower ≤ optimum ≤ upper; `weights` is the λ whose design attains `upper` on the table.
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

    `start` (K,): positive weights to begin from, of any scale.
    """
    climb = _Climb(objective, actions, urgency)
    state = climb.at(np.ones(len(urgency)) if start is None else start)
    reach = 4.0  # how far an extrapolation may go; grows while it succeeds
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
        leap = np.maximum(leap, np.log(two) + np.log(_LEAST_SHRINK))
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


def sift_weights(
    objective: Objective,
    actions: np.ndarray[Any, Any],
    urgency: FloatArray,
    *,
    tolerance: float = 1e-3,
    max_evaluations: int = 3000,
) -> Weighting:
    """The same as `solve_weights` for tables of very many policies, of which few will matter.

    A few are solved, all are evaluated at the design found, those served worst join, and so on. The lower end is that
    of the few, the upper one that of all.
    """
    size = len(urgency)
    if size <= _SIFTED:
        return solve_weights(objective, actions, urgency, tolerance=tolerance, max_evaluations=max_evaluations)

    def pulls(propensities: FloatArray) -> FloatArray:
        return urgency * sum_scores(actions, objective.costs(propensities))

    n_actions = objective.n_actions
    active = _largest(pulls(np.full(objective.noise.shape, 1.0 / n_actions)), _SIFTED // 2)
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
        if pull.max() * (1.0 + ROUNDING) < upper:
            upper = float(pull.max()) * (1.0 + ROUNDING)
            best = np.zeros(size)
            best[active] = solved.weights
        if relative_gap(lower, upper) <= tolerance:
            break
        pull[active] = 0.0
        fresh = _largest(pull, _SIFTED // 4)
        fresh = fresh[pull[fresh] > lower]
        if len(fresh) == 0:  # what is missing is precision on the few, and those are as precise as they get
            break
        active = np.concatenate([active, fresh])
        start = np.concatenate([np.maximum(solved.weights, 1e-12), np.full(len(fresh), 0.1 / len(fresh))])
    return Weighting(best, lower, upper, evaluations)


def _largest(values: FloatArray, count: int) -> IntArray:
    return np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))


def prune(
    objective: Objective, actions: np.ndarray[Any, Any], urgency: FloatArray, *, solved: Weighting, tolerance: float
) -> Weighting:
    """The same solution with as few policies as keep its bracket within `tolerance`.

    Weights below a cut are set to zero, the highest cut that does no harm; `upper` is evaluated anew, as a small weight
    may be all that covers a rare context.
    """
    allowed = max(solved.upper, solved.lower * (1.0 + tolerance))
    for cut in (1e-3, 1e-4, 1e-6, 1e-9, 1e-12):
        weights = np.where(solved.weights > cut * solved.weights.max(), solved.weights, 0.0)
        _, variances = objective.evaluate(actions, weights * urgency)
        upper = float((urgency * variances).max()) * (1.0 + ROUNDING)
        if upper <= allowed:
            return Weighting(weights, solved.lower, upper, solved.evaluations)
    return solved


@dataclass(frozen=True, eq=False)
class _State:
    weights: FloatArray
    value: float
    pull: FloatArray  # u_π V_π, the gradient of G


def _step(state: _State) -> FloatArray:
    new = np.maximum(state.weights * (state.pull / state.value), _LEAST_WEIGHT)
    return new / new.sum()


def _transfer(climb: _Climb, state: _State) -> _State:
    """Move weight from the policy served best to the one served worst, as much as raises G (bisection on the slope).

    Near-copies, told apart only on contexts of tiny weight, have nearly equal pulls: plain steps shift weight between
    them by that small difference at a time.
    """
    to = int(state.pull.argmax())
    donors = state.weights > 1e-9 * state.weights.max()
    donors[to] = False
    if not donors.any():
        return state
    giver = int(np.where(donors, state.pull, np.inf).argmin())
    low, high = np.log(state.weights[giver]) - 40.0, np.log(state.weights[giver]) - 1e-6
    before = state.weights
    for _ in range(_TRANSFERS):
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
    """Evaluates weightings and remembers the best bracket seen."""

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
        weights = np.maximum(weights / weights.sum(), _LEAST_WEIGHT)
        value, variances = self.objective.evaluate(self.actions, weights * self.urgency)
        pull = self.urgency * variances
        self.evaluations += 1
        self.lower = max(self.lower, value * (1.0 - ROUNDING))
        if pull.max() * (1.0 + ROUNDING) < self.upper:
            self.upper = float(pull.max()) * (1.0 + ROUNDING)
            self.best = weights
        return _State(weights, value, pull)

    def stalled(self) -> bool:
        """Whether the gap has not halved in the last _PATIENCE evaluations."""
        gap = relative_gap(self.lower, self.upper)
        if gap <= self.halved / 2:
            self.halved, self.since = gap, self.evaluations
        if self.evaluations - self.since < _PATIENCE:
            return False
        self.since = self.evaluations
        return True

    def done(self, tolerance: float) -> bool:
        return relative_gap(self.lower, self.upper) <= tolerance
