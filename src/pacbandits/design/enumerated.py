"""The ratio form on an explicit table of policies, by accelerated multiplicative updates.

    max_λ G(λ),   G(λ) = min_p Σ_π λ_π u_π V_π(p; q),   λ in the simplex,   u_π = 1/d(Δ_π)²

The update `λ_π ← λ_π u_π V_π / G` has no parameter, keeps λ in the simplex (Σ λ_π u_π V_π = G by homogeneity) and
climbs like an EM step; a squared extrapolation in log λ (SQUAREM; Varadhan and Roland 2008) takes several steps at
once, and is kept only when G does not fall. Every λ gives both ends of a bracket: G(λ) ≤ optimum ≤ max_π u_π V_π(p(λ)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.design.objective import Objective
from pacbandits.errors import FloatArray

# One extrapolation lowers no weight by more than this factor against the plain step. A policy sent to nothing would
# need many plain steps to come back.
_LEAST_SHRINK = 1e-3
_LEAST_WEIGHT = 1e-280
# Sums of positive terms in doubles are right to about this much; both ends of a bracket are moved outward by it.
ROUNDING = 1e-12


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
    objective: Objective,
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
    return Weighting(climb.best, climb.lower, climb.upper, climb.evaluations)


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


def _norm(vector: FloatArray, weights: FloatArray) -> float:
    return float(np.sum(weights * vector**2))


class _Climb:
    """Evaluates weightings and remembers the best bracket seen."""

    def __init__(self, objective: Objective, actions: np.ndarray[Any, Any], urgency: FloatArray) -> None:
        self.objective = objective
        self.actions = actions
        self.urgency = urgency
        self.lower = 0.0
        self.upper = np.inf
        self.best = np.full(len(urgency), 1.0 / len(urgency))
        self.evaluations = 0

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

    def done(self, tolerance: float) -> bool:
        return relative_gap(self.lower, self.upper) <= tolerance
