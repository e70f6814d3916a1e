"""The ratio form on tables of very many policies, and solutions with few of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.design.enumerated import SUM_ROUNDING, Weighting, relative_gap, solve_weights
from pacbandits.design.objective import Objective
from pacbandits.policies.finite import sum_scores

# Tables of more policies than this are sifted, beginning with so many of them.
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
    """The same as `solve_weights` for tables of very many policies, of which few will matter.

    A few are solved, all are evaluated at the design found, those served worst join, and so on. The lower end is that
    of the few, the upper one that of all.
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
        upper = float((urgency * variances).max()) * (1.0 + SUM_ROUNDING)
        if upper <= allowed:
            return Weighting(weights, solved.lower, upper, solved.evaluations)
    return solved
