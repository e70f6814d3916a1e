"""GD: the minimum of h(λ, γ, n) over γ for a fixed weighting λ (paper, Algorithm `GD`; notation in `saddle`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.paper.design.saddle import SaddleProblem, SaddleTable, fill_propensities, fill_variances


class Stopping(NamedTuple):
    """When gradient descent on γ stops: both bounds hold, or the steps are used up.

    precision: of the value Σ λ (A + B), an upper bound on its distance to the minimum.
    residual: the longest step in log γ.
    max_steps: how many steps are made at the most.
    """

    precision: float
    residual: float
    max_steps: int


@kernel
def settle(
    table: SaddleTable,
    lam: FloatArray,
    log_gamma: FloatArray,
    budget: float,
    stopping: Stopping,
    p: FloatArray,
    variances: FloatArray,
) -> tuple[float, float, int]:
    """Gradient descent on log γ, in place, for the policies of a table, of weights λ and budget L/n; see `descend`.

    Returns the value Σ λ (A + B), a bound on its distance to the minimum, and steps made. Everything is without b.
    """
    n_rows = table.actions.shape[0]
    kappa = np.empty(n_rows)
    toward = np.zeros(n_rows)
    steps = 0
    while True:
        for k in range(n_rows):
            kappa[k] = lam[k] * np.exp(log_gamma[k])
        fill_propensities(table, kappa, 0.0, p)
        fill_variances(table, p, variances)
        value, excess, longest = 0.0, 0.0, 0.0
        for k in range(n_rows):
            # Left alone: a copy of q (V = 0), and a policy without weight on an action without probability.
            toward[k] = 0.0
            if 0.0 < variances[k] < np.inf:
                toward[k] = 0.5 * np.log(budget / variances[k]) - log_gamma[k]
            if lam[k] > 0.0 and variances[k] > 0.0:
                up, down = kappa[k] * variances[k], lam[k] * budget / np.exp(log_gamma[k])
                value += up + down
                excess += max(-2.0 * up * toward[k] - up + down, 0.0)
                longest = max(longest, abs(toward[k]))
        if (excess <= stopping.precision and longest <= stopping.residual) or steps >= stopping.max_steps:
            return value, excess, steps
        for k in range(n_rows):
            log_gamma[k] += toward[k]
        steps += 1


@dataclass(frozen=True, eq=False)
class Descent:
    """What gradient descent on γ found for a weighting λ.

    gamma (K,): on the descended support the iterate, elsewhere its minimiser √(L/(nV)).
    propensities (N, A): p(λ ⊙ γ).
    value: h there.
    excess: value − excess ≤ min_γ h ≤ value.
    support: the policies whose γ was descended.
    steps: gradient steps.
    """

    gamma: FloatArray
    propensities: FloatArray
    value: float
    excess: float
    support: IntArray
    steps: int


def descend(
    problem: SaddleProblem,
    weights: FloatArray,
    *,
    samples: float,
    precision: float,
    residual: float = 1e-3,
    clip: float = 0.0,
    start: FloatArray | None = None,
    max_steps: int = 200,
) -> Descent:
    """Minimise h(λ̃, γ, n) over γ to `precision`, λ̃ being λ (K,) with weights below `clip` set to zero (paper, GD).

    The paper fears that h is not convex in γ. In log γ it is: x_{c,a} is a sum of exponentials, so √(x x') is
    log-convex. With A = γV^η(p(λ ⊙ γ)) and B = L/(γn), its gradient is bλ(A − B), its Hessian at most diag(bλ(A + B)),
    and the step, scaled by that curvature, is ½ log(B/A) for each policy: it minimises the upper bound of h that has p
    fixed, so h never rises. Two bounds can be computed, and both must hold for the descent to stop:

    - of the value, from the convexity of the part without B:
      h(λ, γ, n) − min_γ h ≤ b Σ_π λ_π (A_π log(A_π/B_π) − A_π + B_π) ≤ `precision`;
    - of the iterate: the step halves distances in max_π |log γ_π − log γ'_π| (factors within e^±d on γ become e^±d/2
      on √x, e^±d on p and V, e^±d/2 on √V), so the minimum is unique, the error halves with every step whatever λ, n
      and η, and max_π |log γ_π − log γ*_π| ≤ 2 max_π |step_π| ≤ 2 `residual`.

    `start` (K,): γ to begin from, by default the minimisers at the uniform design.
    """
    support = np.flatnonzero((weights > 0) & (weights >= clip))
    if start is None:
        start = problem.best_gamma(problem.uniform(), samples=samples)
    log_gamma = np.log(np.where(np.isfinite(start), start, 1.0))[support]
    p, variances = problem.uniform(), np.empty(len(support))
    value, excess, steps = settle(
        problem.table(support),
        weights[support],
        log_gamma,
        problem.confidence / samples,
        Stopping(precision / problem.width_weight, residual, max_steps),
        p,
        variances,
    )
    gamma = problem.best_gamma(p, samples=samples)
    gamma[support] = np.where(variances > 0, np.exp(log_gamma), np.inf)
    return Descent(
        gamma=gamma,
        propensities=p,
        value=float(problem.width_weight * value - problem.gap_weight * (weights[support] @ problem.gaps[support])),
        excess=float(problem.width_weight * excess),
        support=support,
        steps=steps,
    )
