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

from pacbandits.arrays import FloatArray

# One extrapolation lowers no weight by more than this factor against the plain step. A policy sent to nothing would
# need many plain steps to come back.
_MIN_SHRINK_FACTOR = 1e-3
_MIN_WEIGHT = 1e-280
# Sums of positive terms in doubles are right to about this much, relative to their size; both ends of a bracket are
# moved outward by it.
SUM_ROUNDING = 1e-12
# After so many evaluations in which the gap did not halve, weight is moved between two policies.
_EVALUATIONS_TO_HALVE_GAP = 100
_EVALUATIONS_A_TRANSFER = 30


class Evaluates(Protocol):
    """What `solve_weights` asks of an objective: G(κ), and its gradient (K,), for weights κ (K,) of a table's rows."""

    def evaluate(self, actions: np.ndarray[Any, Any], kappa: FloatArray, /) -> tuple[float, FloatArray]: ...


@dataclass(frozen=True, eq=False)
class Weighting:
    """A weighting λ of a table's policies, and the bracket on the optimum it took part in proving.

    weights (K,): the λ whose design attains `upper` on the table.
    lower: the optimum is no smaller.
    upper: the optimum is no larger.
    evaluations: how often the objective was evaluated.
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
