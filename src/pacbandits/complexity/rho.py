"""The instance complexity ρ_{Π,ε}, its noise-weighted form ρ_σ, and the same quantities for uniform exploration.

    ρ_{Π,ε} = min_p max_π V_π(p; π*) / max(Δ(π), ε)²                  (paper, eq. `rho_star_combinatorial`)

ρ_σ replaces 1/p by σ²/p in V. As every policy that differs from π* has Δ ≥ Δ_pol, ε may be replaced by
Δ_ε = max(ε, Δ_pol) without changing the value; that keeps every step of the computation finite when ε = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray, optimize
from pacbandits.compiled import kernel
from pacbandits.complexity.gaps import TIED_GAP, Gaps, disagreement_scores, table_gaps
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
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import TablePolicy, sum_scores
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Policy

# The trivial class: in closed form at ε = 0, and for ε > 0 by a relaxation that is nearly exact for many contexts.
#
# **ε = 0.** Single-context deviations decide, because (a₁ + a₂)/(b₁ + b₂)² ≤ max(a₁/b₁², a₂/b₂²). With gaps Δ_a of the
# actions of a context and p_* = p(π*(c)|c), minimising t subject to `σ²_a/p_a + σ²_*/p_* ≤ tΔ_a²` and Σp = 1 gives,
# with w = 1/(t p_*),
#
#     t = min_w  1/w + Σ_{a ≠ π*(c)} σ²_a / (Δ_a² − σ²_* w)          (convex in w on 0 < w < min_a Δ_a²/σ²_*)
#
# and ρ_{Π,0} = max_c t_c/ν_c. The paper's sums run over all a (corrections, row 16); ours over a ≠ π*(c).
#
# **ε > 0.** For any slope s ≥ 0, V_π ≤ sΔ_π + B with `B = Σ_c ν_c max_a (σ²_a/p_a + σ²_*/p_* − sΔ_a)₊`, so
# ρ ≤ (sε + B)/ε². The right-hand side is jointly convex in p and s, and splits into contexts for given s. Its minimiser
# loses at most what one context can add; the policies that attain B are the ones a lower end needs.


# Beyond this many entries in the table of single-context deviations, the design is not written out.
_MAX_DESIGN_TABLE_ENTRIES = 20_000_000
# Lower bound on divisors.
_MIN_DIVISOR = 1e-150


def require_distinct(policies: PolicyClass, contexts: Contexts) -> IntArray:
    """Return the ids (n,) of contexts with one row each; raise InputError if an id occurs twice."""
    ids = contexts.require_ids(below=policies.n_contexts)
    if len(np.unique(ids)) != len(ids):
        raise InputError("the population lists a context id twice; merge its rows and add up their weights")
    return ids


@dataclass(frozen=True, eq=False)
class SingleDeviations:
    """The policies that differ from π* on one context: n contexts that can occur, A − 1 actions on each.

    policies: the trivial class.
    best: π*.
    ids (n,): of the contexts.
    actions (n, A − 1): those other than π*(c).
    weights (n,): ν.
    gaps (n, A − 1): Δ_{c,a} of the actions.
    noise (n, A − 1): σ² of the actions.
    best_noise (n,): σ² of π*(c).
    """

    policies: PolicyClass
    best: Policy
    ids: IntArray
    actions: IntArray
    weights: FloatArray
    gaps: FloatArray
    noise: FloatArray
    best_noise: FloatArray

    @classmethod
    def of(cls, policies: PolicyClass, contexts: Contexts, gaps: Gaps, noise: FloatArray | None) -> SingleDeviations:
        ids = require_distinct(policies, contexts)
        variances = np.ones_like(gaps.scores) if noise is None else noise
        rows: IntArray = np.flatnonzero(contexts.weights > 0)
        best = gaps.best_actions[rows]
        every = np.arange(policies.n_actions - 1)
        actions = every + (every >= best[:, None])
        weights = contexts.weights[rows]
        return cls(
            policies=policies,
            best=gaps.best,
            ids=ids[rows],
            actions=actions,
            weights=weights,
            gaps=np.maximum(gaps.scores[rows[:, None], actions] / weights[:, None], 0.0),
            noise=variances[rows[:, None], actions],
            best_noise=variances[rows, best],
        )

    def design(self, propensities: FloatArray) -> Design | None:
        """Return the design with the given propensities (n, A − 1) of the other actions, on policies that deviate once.

        κ = p²/σ², as p ∝ √x. An action without noise needs no probability, but may need more of π*(c) than the others:
        the one of smallest gap gets the missing κ. None if the design would be too large to write out.
        """
        if self.actions.size * self.policies.n_contexts > _MAX_DESIGN_TABLE_ENTRIES:
            return None
        base = self.best(Contexts.finite(self.policies.n_contexts))
        support: list[Policy] = []
        weights: list[float] = []
        noisy: BoolArray = self.noise > 0
        kappa = np.divide(propensities**2, self.noise, out=np.zeros_like(propensities), where=noisy)
        silent = np.where(noisy, np.inf, self.gaps)
        for i in np.flatnonzero(~noisy.all(axis=1) & (self.best_noise > 0)):
            of_best = max(1.0 - float(propensities[i].sum()), 0.0)
            kappa[i, silent[i].argmin()] = max(of_best**2 / float(self.best_noise[i]) - float(kappa[i].sum()), 0.0)
        for i, k in np.argwhere(kappa > 0):
            table = base.copy()
            table[self.ids[i]] = self.actions[i, k]
            support.append(TablePolicy(table, n_actions=self.policies.n_actions, name="trivial"))
            weights.append(float(kappa[i, k]))
        return Design(tuple(support), np.array(weights), self.best)


def solve_trivial(
    policies: PolicyClass, contexts: Contexts, gaps: Gaps, *, noise: FloatArray | None = None
) -> Solution:
    """Return ρ_{Π,0} of the trivial class (ρ_σ with `noise` (N, A)) and its design of single-context deviations."""
    here = SingleDeviations.of(policies, contexts, gaps, noise)
    if policies.n_actions == 1:
        return Solution(Design((), np.empty(0), gaps.best), 0.0, 0.0, 2e-12, 0, 0, note="there is one action only")
    value, propensities = _solve_level(here.gaps**2, here.noise, here.best_noise)
    rho = float((value / here.weights).max())
    design = here.design(propensities)
    note = "" if design is not None else "the design is not written out: it has a policy for every context and action"
    # Bisection finds the root to the last digits of a double; the value, at a minimum, is more precise still.
    design = design or Design((), np.empty(0), gaps.best)
    return Solution(design, rho * (1 - 1e-12), rho, 2e-12, iterations=0, oracle_calls=0, note=note)


def relax_trivial(
    policies: PolicyClass, contexts: Contexts, gaps: Gaps, *, epsilon: float, noise: FloatArray | None = None
) -> tuple[Design | None, float, tuple[Policy, ...]]:
    """For ε > 0, return a design, its upper end for ρ_{Π,ε}, and policies that make the lower end nearly as large."""
    here = SingleDeviations.of(policies, contexts, gaps, noise)

    def bound(log_slope: float) -> float:
        slope = float(np.exp(log_slope))
        levels, _ = _levels(here, slope)
        return (slope * epsilon + float(here.weights @ levels)) / epsilon**2

    # Relevant slopes lie between 0 and the steepest that any context can need: 4·A/ε is beyond it.
    top = np.log(
        16.0 * policies.n_actions * max(float(here.noise.max()), float(here.best_noise.max()), 1e-12) / epsilon
    )
    found = optimize.minimize_scalar(bound, bounds=(top - 20.0, top), method="bounded", options={"xatol": 1e-5})
    slope = float(np.exp(found.x))
    levels, propensities = _levels(here, slope)
    upper = (slope * epsilon + float(here.weights @ levels)) / epsilon**2 * (1 + 1e-9)
    return here.design(propensities), upper, _worst_policies(here, levels, propensities)


def _levels(here: SingleDeviations, slope: float) -> tuple[FloatArray, FloatArray]:
    """Return `min_p max_a (σ²_a/p_a + σ²_*/p_* − sΔ_a)₊` of every context (n,), and its propensities (n, A − 1)."""
    levels, shares = np.empty(len(here.gaps)), np.empty_like(here.gaps)
    _level_rows(slope * here.gaps, here.noise, here.best_noise, levels, shares)
    return levels, shares


def _solve_level(limits: FloatArray, noise: FloatArray, best_noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the smallest total probability (n,) with `σ²_a/p_a + σ²_*/p_* ≤ L_a`, and its shares (n, A − 1)."""
    totals, shares = np.empty(len(limits)), np.empty_like(limits)
    _total_rows(limits, noise, best_noise, totals, shares)
    return totals, shares


@kernel
def _least_total(limits: FloatArray, rise: float, noise: FloatArray, best_noise: float, shares: FloatArray) -> float:
    """min_w 1/w + Σ_a σ²_a/(L_a + rise − σ²_* w) over w = 1/p_*, by bisection on the derivative; fills `shares`."""
    low = 0.0
    high = (limits.min() + rise) / (best_noise if best_noise > 0.0 else 1.0)
    for _ in range(100):
        middle = (low + high) / 2
        slope = 0.0
        for a in range(limits.shape[0]):
            left = max(limits[a] + rise - best_noise * middle, _MIN_DIVISOR)
            slope += noise[a] * best_noise / left**2
        if slope * middle**2 < 1.0:
            low = middle
        else:
            high = middle
    # Without noise the best action needs no probability, and w may be arbitrarily large.
    total = 1.0 / max(low, _MIN_DIVISOR) if best_noise > 0.0 else 0.0
    for a in range(limits.shape[0]):
        shares[a] = noise[a] / max(limits[a] + rise - best_noise * low, _MIN_DIVISOR)
        total += shares[a]
    for a in range(limits.shape[0]):
        shares[a] /= max(total, _MIN_DIVISOR)
    return total


@kernel
def _total_rows(
    limits: FloatArray, noise: FloatArray, best_noise: FloatArray, totals: FloatArray, shares: FloatArray
) -> None:
    for i in range(limits.shape[0]):
        totals[i] = _least_total(limits[i], 0.0, noise[i], best_noise[i], shares[i])


@kernel
def _level_rows(
    limits: FloatArray, noise: FloatArray, best_noise: FloatArray, levels: FloatArray, shares: FloatArray
) -> None:
    for i in range(limits.shape[0]):
        low = 0.0
        high = 4.0 * (np.sqrt(noise[i]).sum() + np.sqrt(best_noise[i])) ** 2 + _MIN_DIVISOR
        for _ in range(60):
            middle = (low + high) / 2
            if _least_total(limits[i], middle, noise[i], best_noise[i], shares[i]) > 1.0:
                low = middle
            else:
                high = middle
        _least_total(limits[i], high, noise[i], best_noise[i], shares[i])
        levels[i] = high


def _worst_policies(
    here: SingleDeviations, levels: FloatArray, propensities: FloatArray, *, count: int = 400
) -> tuple[Policy, ...]:
    """Return policies that deviate wherever the level is positive, with worst-case action frequencies m ∝ p²/σ².

    Systematic sampling: in each context the actions are spread evenly over the policies, in a shuffled order.
    """
    rng = np.random.default_rng(0)  # part of the solver, not of any experiment
    base = here.best(Contexts.finite(here.policies.n_contexts))
    tables = np.repeat(base[None, :], count, axis=0)
    for i in np.flatnonzero(levels > 1e-9 * max(float(levels.max()), _MIN_DIVISOR)):
        share = np.where(here.noise[i] > 0, propensities[i] ** 2 / np.maximum(here.noise[i], _MIN_DIVISOR), 0.0)
        if share.sum() > 0:
            dealt = np.searchsorted(np.cumsum(share / share.sum()), (np.arange(count) + 0.5) / count)
            tables[:, here.ids[i]] = rng.permutation(here.actions[i, np.minimum(dealt, len(share) - 1)])
    return tuple(TablePolicy(table, n_actions=here.policies.n_actions, name="trivial") for table in tables)


# Up to this size, column generation alone suffices for the trivial class, and its relaxation is loose.
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
    """Return a bracket on ρ_{Π,ε} and the design that attains its upper end; with `noise` (N, A), on ρ_σ."""
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
    """Return a bracket on `min_p max_π V_π(p; π*)/(Δ(π) + ε)²`, the complexity in the lower bound for ε > 0.

    When π* is the only ε-optimal policy, an instance on which some π beats it by more than ε must move the difference
    of the two from −Δ(π) to ε (see `lower_bounds.lower_bound`).
    """
    task = _task(policies, contexts, gaps, Shifted(epsilon, slope=1.0), noise)
    return solve_design(task, tolerance=tolerance)


def measure_uniform_rho(
    policies: PolicyClass, contexts: Contexts, gaps: Gaps, *, epsilon: float, noise: FloatArray | None = None
) -> tuple[float, float]:
    """Return a bracket on `max_π V_π(p; π*)/max(Δ(π), ε)²` at p = 1/A, the complexity of uniform exploration.

    The ends are equal if the class prices exactly (and then free of the rounding margin of upper ends).
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


# Disagreement coefficients, and the bounds on ρ that follow from them (Corollary `disagree_coeff`).
#
#     C_pol(ε₀) = sup_{ε ≥ ε₀} P(∃π: π(c) ≠ π*(c), P(π ≠ π*) ≤ ε)/ε
#     C_csc(ε₀) = sup_{ε ≥ ε₀} P(∃π: π(c) ≠ π*(c), Δ(π) ≤ ε)/ε
#
# A context joins the region of disagreement at the smallest radius of a policy that differs on it, so both suprema are
# attained at those radii (or at ε₀).


@dataclass(frozen=True, eq=False)
class DisagreementRegion:
    """The radii at which each context joins the region of disagreement.

    policy_radius (N,): the smallest P(π ≠ π*) of a policy that differs there; infinite where none does.
    cost_radius (N,): the smallest Δ(π) of a policy that differs there; infinite where none does.
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
    """Return the radii of every context; None for classes that would need a search per context."""
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
