"""The instance complexity ρ_{Π,ε}, its noise-weighted form ρ_σ, and what uniform exploration costs instead.

    ρ_{Π,ε} = min_p max_π V_π(p; π*) / max(Δ(π), ε)²                  (paper, eq. `rho_star_combinatorial`)

ρ_σ replaces 1/p by σ²/p in V. As every policy that differs from π* has Δ ≥ Δ_pol, ε may be replaced by
Δ_ε = max(ε, Δ_pol) without changing the value; that keeps every step of the computation finite when ε = 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.complexity.gaps import TIED_GAP, Gaps, disagreement_scores
from pacbandits.complexity.trivial import relax_trivial, solve_trivial
from pacbandits.confidence import check_epsilon
from pacbandits.design import (
    Clipped,
    DesignTask,
    GapScale,
    Shifted,
    Solution,
    price_by_frontier,
    price_propensities,
    solve_by_pricing,
    solve_design,
)
from pacbandits.design.solve import ORACLE_TOLERANCE
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design

# Up to so many, the trivial class is small enough for column generation alone, and its relaxation loose.
_MAX_CONTEXTS_WITHOUT_RELAXATION = 30


def measure_rho(
    policies: PolicyClass,
    contexts: Contexts,
    gaps: Gaps,
    *,
    epsilon: float,
    noise: FloatArray | None = None,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """A bracket on ρ_{Π,ε} and the design that attains its upper end; with `noise` (N, A), on ρ_σ."""
    epsilon = check_epsilon(epsilon)
    if epsilon == 0 and gaps.tied:
        return _tied(policies, contexts, gaps, noise)
    if policies.holds_every_map and epsilon <= (gaps.minimum or 0.0):
        return solve_trivial(policies, contexts, gaps, noise=noise)
    task = _task(policies, contexts, gaps, Clipped(gaps.floor(epsilon)), noise)
    if policies.holds_every_map and _gains_by_relaxation(policies):
        design, upper, seeds = relax_trivial(policies, contexts, gaps, epsilon=gaps.floor(epsilon), noise=noise)
        return solve_by_pricing(
            task,
            pricing=price_by_frontier(policies),
            tolerance=ORACLE_TOLERANCE if tolerance is None else tolerance,
            seeds=seeds,
            known=None if design is None else (design, upper),
            progress=progress,
        )
    return solve_design(task, tolerance=tolerance, progress=progress)


def measure_lower_rho(
    policies: PolicyClass,
    contexts: Contexts,
    gaps: Gaps,
    *,
    epsilon: float,
    noise: FloatArray | None = None,
    tolerance: float | None = None,
) -> Solution:
    """A bracket on `min_p max_π V_π(p; π*)/(Δ(π) + ε)²`, which stands in the lower bound for ε > 0.

    When π* is the only ε-optimal policy, an instance on which some π beats it by more than ε must move the difference
    of the two from −Δ(π) to ε (see `bounds.lower_bound`).
    """
    task = _task(policies, contexts, gaps, Shifted(epsilon, slope=1.0), noise)
    return solve_design(task, tolerance=tolerance)


def measure_uniform_rho(
    policies: PolicyClass, contexts: Contexts, gaps: Gaps, *, epsilon: float, noise: FloatArray | None = None
) -> tuple[float, float]:
    """`max_π V_π(p; π*)/max(Δ(π), ε)²` at p = 1/A, what a plain randomised trial has to resolve: its two ends.

    They are equal where the class prices exactly (and then free of the rounding that upper ends allow for).
    """
    if epsilon == 0 and gaps.tied:
        return np.inf, np.inf
    task = _task(policies, contexts, gaps, Clipped(gaps.floor(epsilon)), noise)
    price = price_propensities(task, np.full(gaps.scores.shape, 1.0 / policies.n_actions))
    exact = price.upper <= price.attained * (1 + 1e-6)
    return price.attained, price.attained if exact else price.upper


def _gains_by_relaxation(policies: PolicyClass) -> bool:
    return policies.n_contexts > _MAX_CONTEXTS_WITHOUT_RELAXATION and policies.n_actions > 1


def _task(
    policies: PolicyClass, contexts: Contexts, gaps: Gaps, scale: GapScale, noise: FloatArray | None
) -> DesignTask:
    return DesignTask(policies, contexts, reference=gaps.best, gaps=gaps.scores, scale=scale, noise=noise)


def _tied(policies: PolicyClass, contexts: Contexts, gaps: Gaps, noise: FloatArray | None) -> Solution:
    design = Design((), np.empty(0), gaps.best)
    solution = Solution(design, np.inf, np.inf, 0.0, iterations=0, oracle_calls=0)
    if _noisy_tie(policies, contexts, gaps, noise):
        return replace(
            solution, note="infinite: two policies tie for the best (to 1e-12), and ε = 0 asks to tell them apart"
        )
    return replace(solution, lower=0.0, note="unknown: two policies tie for the best, perhaps where rewards are sure")


def _noisy_tie(policies: PolicyClass, contexts: Contexts, gaps: Gaps, noise: FloatArray | None) -> bool:
    """Whether a policy ties with π* and is known to differ from it where one of the two has noise."""
    if noise is None:
        return True
    rows = np.arange(len(contexts))
    spread = noise + noise[rows, gaps.best_actions][:, None]
    possible = disagreement_scores(contexts, gaps.best_actions, n_actions=policies.n_actions) > 0
    noisy = possible & (spread > 0)
    if np.array_equal(noisy, possible):
        return True
    if policies.holds_every_map:
        return bool((noisy & (gaps.scores <= TIED_GAP)).any())
    if policies.lists_policies:
        table = np.asarray(policies.actions(contexts))
        ties = sum_scores(table, gaps.scores) <= TIED_GAP
        return bool((ties & (sum_scores(table, noisy.astype(np.float64)) > 0)).any())
    return False
