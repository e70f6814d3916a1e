"""Disagreement coefficients and what they say of ρ (Corollary `disagree_coeff`).

    C_pol(ε₀) = sup_{ε ≥ ε₀} P(∃π: π(c) ≠ π*(c), P(π ≠ π*) ≤ ε)/ε
    C_csc(ε₀) = sup_{ε ≥ ε₀} P(∃π: π(c) ≠ π*(c), Δ(π) ≤ ε)/ε

A context joins the region of disagreement at the least radius of a policy that differs on it, so both suprema are taken
at those radii (or at ε₀).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.complexity.gaps import TIED_GAP, Gaps, table_gaps
from pacbandits.complexity.trivial import require_distinct
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts


@dataclass(frozen=True, eq=False)
class DisagreementRegion:
    """When each context joins the region of disagreement.

    policy_radius (N,): the least P(π ≠ π*) of a policy that differs there; infinite where none does.
    cost_radius (N,): the least Δ(π) of a policy that differs there; infinite where none does.
    weights (N,): ν.
    """

    policy_radius: FloatArray
    cost_radius: FloatArray
    weights: FloatArray

    def policy(self, epsilon: float) -> float:
        """C_pol(ε₀)."""
        return _coefficient(self.policy_radius, self.weights, epsilon)

    def cost_sensitive(self, epsilon: float) -> float:
        """C_csc(ε₀)."""
        return _coefficient(self.cost_radius, self.weights, epsilon)

    def policy_bound(self, *, n_actions: int, epsilon: float, uniform_gap: float) -> float | None:
        """`2|A|/(ε Δ_uniform) · C_pol(ε/Δ_uniform) ≥ ρ_{Π,ε}`; None unless ε > 0 and 0 < Δ_uniform < ∞."""
        if not (epsilon > 0 and 0 < uniform_gap < np.inf):
            return None
        return 2.0 * n_actions / (epsilon * uniform_gap) * self.policy(epsilon / uniform_gap)

    def cost_sensitive_bound(self, *, n_actions: int, epsilon: float) -> float | None:
        """`2|A|/ε · C_csc(ε) ≥ ρ_{Π,ε}`; None unless ε > 0."""
        return 2.0 * n_actions / epsilon * self.cost_sensitive(epsilon) if epsilon > 0 else None


def measure_disagreement(policies: PolicyClass, contexts: Contexts, gaps: Gaps) -> DisagreementRegion | None:
    """The radii of every context; None for classes that would need a search a context."""
    if policies.holds_every_map:
        require_distinct(policies, contexts)
        others = np.ones(gaps.scores.shape, dtype=bool)
        others[np.arange(len(contexts)), gaps.best_actions] = False
        cost = np.where(others, gaps.scores, np.inf).min(axis=1)
        radius = contexts.weights.copy() if policies.n_actions > 1 else np.full(len(contexts), np.inf)
        return DisagreementRegion(radius, np.where(cost <= TIED_GAP, 0.0, cost), contexts.weights)
    if policies.lists_policies:
        table = np.asarray(policies.actions(contexts))
        cost, radius = table_gaps(table, contexts, gaps)
        return DisagreementRegion(
            _least_where_differs(table, gaps.best_actions, radius),
            _least_where_differs(table, gaps.best_actions, np.where(cost <= TIED_GAP, 0.0, cost)),
            contexts.weights,
        )
    return None


@kernel
def _least_where_differs(actions: np.ndarray[Any, Any], best: IntArray, radius: FloatArray) -> FloatArray:
    out = np.full(actions.shape[1], np.inf)
    for k in range(actions.shape[0]):
        for c in range(actions.shape[1]):
            if actions[k, c] != best[c] and radius[k] < out[c]:
                out[c] = radius[k]
    return out


def _coefficient(radius: FloatArray, weights: FloatArray, epsilon: float) -> float:
    can = (weights > 0) & np.isfinite(radius)
    if not can.any():
        return 0.0
    order = np.argsort(radius[can], kind="stable")
    at = np.maximum(radius[can][order], epsilon)
    mass = np.cumsum(weights[can][order])
    if at[0] <= 0:
        return np.inf
    return float((mass / at).max())
