"""Sample-complexity bounds, with every δ, union bound and constant of the theory page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray, optimize, sparse, special
from pacbandits.complexity.gaps import Gaps, Truth
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Design

# The divergence of Bernoulli rewards from an instance with another answer, for the lower bound.
#
# An algorithm that is right with probability 1 − δ on every Bernoulli instance satisfies, for every instance r' on
# which another policy π beats π* by more than ε (Kaufmann, Cappé and Garivier 2016, Lemma 1; the proof of Theorem
# `linear_lower_bound`),
#
#     E τ · Σ_c ν_c Σ_a p(a|c) kl(r(c, a), r'(c, a)) ≥ log(1/2.4δ),      p(a|c) = E T_{c,a}/(ν_c E τ).
#
# So for any alternatives r'_k and any weights λ_k that sum to 1, for every p,
#
#     E τ ≥ log(1/2.4δ)/D(λ),      D(λ) = Σ_c ν_c max_a Σ_k λ_k kl(r(c, a), r'_k(c, a)).
#
# The choice of alternatives and weights affects only how tight the bound is, never its validity. Here: for some
# policies π, the nearest instance on which π leads π* by ε, measured under a design; then the best weights by a linear
# programme, whose own design measures the next alternatives.
#
# The nearest instance raises the actions of π and lowers those of π* where the two differ: with a multiplier μ,
# p (x − r)/(x(1 − x)) = ±μ, a quadratic equation in x.


# Size limits of the table of rivals, policies × contexts: whole classes up to the first, never more than the second.
_MAX_LISTED_ENTRIES = 10_000
_MAX_ENTRIES = 200_000
# Size limit of a linear programme: alternatives × contexts × actions.
_MAX_PROGRAMME_ENTRIES = 200_000
_MAX_ROUNDS = 6
_TOLERANCE = 0.01  # of the divergence, relative
_LEAST_PROGRESS = 0.005  # of a round, relative
_BISECTIONS = 40
_EVEN_SHARE = 0.05  # share of uniform exploration in the first design, so that no action has probability 0


def least_coin_divergence(
    truth: Truth, policies: PolicyClass, gaps: Gaps, *, epsilon: float, designs: tuple[Design, ...]
) -> float | None:
    """Return an upper bound on `max_p min_{r'} Σ_c ν_c Σ_a p(a|c) kl(r, r')`, over r' on which a policy leads π* by ε.

    designs: their supports are the rivals to consider, unless the class is a short list; the search starts from their
    mean. For ε > 0, π* must be the only policy within ε. None if no rival is known; infinite if all act like π*.
    """
    if gaps.minimum == np.inf:
        return np.inf
    if epsilon == 0 and gaps.tied:
        return 0.0
    table = _rivals(truth, policies, gaps, designs)
    if len(table) == 0:
        return None
    flips = _CoinFlips.of(truth, gaps, table, epsilon)
    return _search(flips, _first_design(truth, designs)[flips.rows])


@dataclass(frozen=True, eq=False)
class _CoinFlips:
    """Contexts that can occur and on which some of K rivals differ from π*.

    rows (n,): their rows in the population.
    weights (n,): ν.
    means (n, A): r.
    best (n,): π*.
    table (K, n): the rivals.
    epsilon: the lead a rival must have.
    """

    rows: IntArray
    weights: FloatArray
    means: FloatArray
    best: IntArray
    table: IntArray
    epsilon: float

    @classmethod
    def of(cls, truth: Truth, gaps: Gaps, table: IntArray, epsilon: float) -> _CoinFlips:
        occurs = np.flatnonzero(truth.population.weights > 0)
        here = table[:, occurs]
        differs = (here != gaps.best_actions[occurs]).any(axis=0)  # other contexts do not matter to the rivals
        rows = occurs[differs]
        return cls(
            rows,
            truth.population.weights[rows],
            np.clip(truth.mean_rewards[rows], 0.0, 1.0),
            gaps.best_actions[rows],
            here[:, differs],
            epsilon,
        )

    def divergences(self, propensities: FloatArray) -> FloatArray:
        """Return kl(r, r'_k) (K, n, A) of the nearest instances under a design (n, A) on which the rivals lead by ε."""
        rows = np.arange(len(self.weights))
        differ = self.table != self.best
        up, down = self.means[rows, self.table], np.broadcast_to(self.means[rows, self.best], self.table.shape)
        p_up = propensities[rows, self.table]
        p_down = np.broadcast_to(propensities[rows, self.best], self.table.shape)
        low, high = np.full(len(self.table), -40.0), np.full(len(self.table), 40.0)  # of log μ
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            factor = np.exp(middle)[:, None]
            lead = raise_means(up, factor / p_up) - lower_means(down, factor / p_down)
            enough = (lead * differ) @ self.weights >= self.epsilon
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        factor = np.exp(high)[:, None]
        out = np.zeros((len(self.table), *self.means.shape))
        which = np.arange(len(self.table))[:, None]
        out[which, rows, self.table] = np.where(differ, kl_of_flips(up, raise_means(up, factor / p_up)), 0.0)
        out[which, rows, np.broadcast_to(self.best, self.table.shape)] += np.where(
            differ, kl_of_flips(down, lower_means(down, factor / p_down)), 0.0
        )
        return out


def raise_means(means: FloatArray, strength: FloatArray) -> FloatArray:
    """Return the x ≥ r with x − r = m x(1 − x), for means r in [0, 1] and strengths m > 0."""
    root = np.sqrt((1.0 - strength) ** 2 + 4.0 * strength * means)
    with np.errstate(divide="ignore", invalid="ignore"):
        small = 2.0 * means / ((1.0 - strength) + root)
        large = ((strength - 1.0) + root) / (2.0 * strength)
    return np.clip(np.where(strength < 1.0, small, large), means, 1.0)


def lower_means(means: FloatArray, strength: FloatArray) -> FloatArray:
    """Return the x ≤ r with r − x = m x(1 − x)."""
    return 1.0 - raise_means(1.0 - means, strength)


def kl_of_flips(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return kl(x, y) = x log(x/y) + (1 − x) log((1 − x)/(1 − y)), in nats."""
    return special.rel_entr(first, second) + special.rel_entr(1.0 - first, 1.0 - second)


def _rivals(truth: Truth, policies: PolicyClass, gaps: Gaps, designs: tuple[Design, ...]) -> IntArray:
    """Return policies (K, N) that differ from π*: all of a short list, else the supports of the designs."""
    contexts = truth.population
    if policies.lists_policies and len(policies) * len(contexts) <= _MAX_LISTED_ENTRIES:
        table = np.asarray(policies.actions(contexts), dtype=np.int64)
    else:
        most = max(_MAX_ENTRIES // len(contexts), 1)
        heaviest = [
            design.support[int(i)] for design in designs for i in np.argsort(-design.weights, kind="stable")[:most]
        ]
        if not heaviest:
            return np.empty((0, len(contexts)), dtype=np.int64)
        table = np.array([policy(contexts) for policy in heaviest], dtype=np.int64)
    table = np.unique(table, axis=0)
    differs = ((table != gaps.best_actions) & (contexts.weights > 0)).any(axis=1)
    return table[differs]


def _first_design(truth: Truth, designs: tuple[Design, ...]) -> FloatArray:
    """Return the mean of the designs (N, A), mixed with a little uniform exploration."""
    n_actions = truth.mean_rewards.shape[1]
    even = np.full(truth.mean_rewards.shape, 1.0 / n_actions)
    if not designs:
        return even
    noise = truth.noise_variance
    mean = np.mean([design.propensities(truth.population, noise=noise) for design in designs], axis=0)
    return (1.0 - _EVEN_SHARE) * mean + _EVEN_SHARE * even


def _search(flips: _CoinFlips, propensities: FloatArray) -> float:
    """Return the smallest D(λ) found from a first design (n, A).

    Each round adds the nearest alternatives under a design halfway between the best one so far and the linear
    programme's, which alone would give some actions probability 0. It ends when the smallest divergence that a design
    reaches is within `_TOLERANCE` of D, or a round gains almost nothing.
    """
    size = max(_MAX_PROGRAMME_ENTRIES // flips.means.size, 1)
    kept = np.empty((0, *flips.means.shape))
    best, inside, reached, trial = np.inf, propensities, 0.0, propensities
    for _ in range(_MAX_ROUNDS):
        found = flips.divergences(trial)
        values = np.einsum("kna,na,n->k", found, trial, flips.weights)
        if values.min() > reached:
            inside, reached = trial, float(values.min())
        kept = np.concatenate([kept, found[np.argsort(values, kind="stable")[:size]]])[-size:]
        shares, liked = _best_weights(flips.weights, kept)
        before, best = best, min(best, float(flips.weights @ np.einsum("k,kna->na", shares, kept).max(axis=1)))
        if best <= reached * (1.0 + _TOLERANCE) or best >= before * (1.0 - _LEAST_PROGRESS):
            break
        kept = kept[shares > 0]
        trial = (inside + liked) / 2
    return best


def _best_weights(weights: FloatArray, divergences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the λ (K,) of smallest D(λ) for divergences (K, n, A), and the design (n, A) that is best against it.

    minimise Σ_c ν_c y_c subject to y_c ≥ Σ_k λ_k d_k(c, a), Σ λ = 1; the design follows from the multipliers.
    """
    k, n, n_actions = divergences.shape
    even: FloatArray = np.full((n, n_actions), 1.0 / n_actions)
    alike: FloatArray = np.full((k,), 1.0 / k)
    if k == 1:
        return alike, even
    # Scaled to about 1, as solvers have absolute tolerances.
    scale = float(np.einsum("kna,n->k", divergences, weights).min()) or 1.0
    rows = divergences.reshape(k, n * n_actions).T / scale
    heights = -sparse.kron(sparse.eye(n), np.ones((n_actions, 1)))
    found = optimize.linprog(
        np.concatenate([np.zeros(k), weights]),
        A_ub=sparse.hstack([sparse.csr_matrix(rows), heights]),
        b_ub=np.zeros(n * n_actions),
        A_eq=np.concatenate([np.ones(k), np.zeros(n)])[None, :],
        b_eq=[1.0],
        bounds=(0, None),
        method="highs-ipm",
    )
    if found.x is None:
        return alike, even
    shares: FloatArray = np.maximum(np.asarray(found.x[:k], dtype=np.float64), 0.0)
    design = np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64).reshape(n, n_actions), 0.0)
    total = design.sum(axis=1, keepdims=True)
    return shares / float(shares.sum()), np.where(total > 0, design / np.where(total > 0, total, 1.0), even)


# Sample-complexity bounds: formulas only.
#
# The lower bounds are theorems with their constants. The upper bounds of the paper hold up to an absolute constant that
# it does not state; they are evaluated with constant 1.


def least_divergence(delta: float) -> float:
    """Return log(1/(2.4δ)) ≤ kl(1 − δ, δ) (Kaufmann, Cappé and Garivier 2016), or 0 if it is negative."""
    return max(-math.log(2.4) - math.log(delta), 0.0)


def lower_bound(rho_sigma: float, *, delta: float) -> float:
    """`E τ ≥ 2 ρ_σ log(1/2.4δ)` for Gaussian noise of variance σ²(c, a) (Theorem `lower_bound`; corrections, row 13).

    Between an instance and the nearest one on which π beats π*, the divergence of n samples under the design p is
    n Δ(π)²/(2 V_π(p)); so n ≥ 2 log(1/2.4δ) max_π V_π/Δ(π)². For ε > 0 it holds when π* is the only ε-optimal policy,
    with (Δ(π) + ε)² instead of Δ(π)².

    With a tie at ε = 0 it is ∞ for δ < 1/2.4, which is right for δ < 1/2: if E τ were finite, sufficiently near
    instances, on which one or the other is the only best policy, could not be distinguished, and both would have to be
    the answer with probability 1 − δ.

    It is about algorithms that are right for all means: one that relies on means within [0, 1] need not be right on
    the nearest instance, if that leaves [0, 1].
    """
    return _times(2.0 * rho_sigma, least_divergence(delta))


def coin_lower_bound(divergence: float, *, delta: float) -> float:
    """`E τ ≥ log(1/2.4δ)/D` for Bernoulli rewards; D: an upper bound on the divergence per sample."""
    least = least_divergence(delta)
    if least == 0:
        return 0.0
    return least / divergence if divergence > 0 else np.inf


def paper_lower_bound(rho: float, *, delta: float) -> float:
    """`E τ ≥ ρ_{Π,0} log(1/2.4δ)`, Theorem `lower_bound` as printed: Gaussian noise of variance 1, and ε = 0.

    For other noise it is not a theorem: rewards in [0, 1] have variance at most 1/4, and fewer samples can suffice.
    """
    return _times(rho, least_divergence(delta))


def upper_bound(rho: float, *, log_size: float, delta: float, gap_floor: float) -> float:
    """`ρ_{Π,ε} log(|Π| log₂(1/Δ_ε)/δ) log₂(1/Δ_ε)`, Theorem `sample_complexity`, with constant 1.

    The number of rounds log₂(1/Δ_ε) is taken to be at least one.
    """
    if rho == 0:
        return 0.0  # nothing to learn, and so no gap either
    if gap_floor <= 0:
        return np.inf
    rounds = max(-math.log2(gap_floor), 1.0)
    return _times(rho, (log_size + math.log(rounds) - math.log(delta)) * rounds)


def minimax_bound(*, n_actions: int, log_size: float, delta: float, epsilon: float) -> float:
    """`|A| (log|Π| + log(1/δ)) log(1/ε)/ε²`, second part of Theorem `upper_informal`, with constant 1.

    log(1/ε) is taken to be at least log 2: one round.
    """
    if epsilon == 0:
        return np.inf
    rounds = max(-math.log(epsilon), math.log(2.0))
    return n_actions * (log_size - math.log(delta)) * rounds / epsilon**2


def confidence_price(rho_sigma: float, *, delta: float) -> float:
    """`2 ρ_{σ,ε} log(1/2.4δ)`: the cost of confidence alone. The lower bound when ε = 0; for ε > 0 a yardstick."""
    return _times(2.0 * rho_sigma, least_divergence(delta))


def union_price(rho_sigma: float, *, log_size: float, delta: float) -> float:
    """`2 ρ_{σ,ε} log(|Π|/δ)`: the cost of a full union bound. A yardstick, not a bound."""
    return _times(2.0 * rho_sigma, log_size - math.log(delta))


def least_regret(m: int, *, gap: float, divergence: float, delta: float) -> float:
    """`m Δ log(1/2.4δ)/D`: the least regret on the hard instance of an algorithm that is sure of the best policy.

    In each of the m contexts the wrong action, which loses Δ, is played at least log(1/2.4δ)/D times on average, D the
    divergence of its rewards from ones worth 2Δ more (proof of Theorem `inefficient-low-regret`).
    """
    return m * gap * least_divergence(delta) / divergence


def low_regret_bound(m: int, *, gap: float, delta: float, divergence: float | None = None) -> float:
    """Return the samples of any algorithm of minimax regret √(α|A| E τ), α = log m, on the hard instance.

        E τ ≥ (m Δ log(1/2.4δ)/D)²/(2α) = m² Δ⁻² log²(1/2.4δ)/(8α)

    D is `divergence`, as in `least_regret`; by default 2Δ², that of Gaussian rewards of variance 1.

    Theorem `inefficient-low-regret` has 4α: its last line loses the |A| = 2 under the root (corrections, row 19).
    """
    shown = 2.0 * gap**2 if divergence is None else divergence
    return least_regret(m, gap=gap, divergence=shown, delta=delta) ** 2 / (2.0 * math.log(m))


def trivial_sum(gaps: FloatArray, weights: FloatArray) -> float:
    """`max_c (1/ν_c) Σ_a Δ_{c,a}⁻²` over contexts that can occur, for gaps (N, A) whose best action has gap 0.

    The sum of the trivial-class bounds. The best action enters with the smallest gap of the others (corrections, row
    16), as otherwise the sum is infinite; it is infinite all the same if another action ties.
    """
    matter: BoolArray = weights > 0
    ordered = np.sort(gaps[matter], axis=1)
    if ordered.shape[1] == 1:
        return 0.0
    ordered[:, 0] = ordered[:, 1]
    with np.errstate(divide="ignore"):
        return float(((ordered**-2.0).sum(axis=1) / weights[matter]).max())


def trivial_upper_bound(
    trivial: float, *, n_contexts: int, n_actions: int, epsilon: float, delta: float, gap_floor: float
) -> float:
    """`min{|A|ε⁻², max_c Σ_a Δ⁻²/ν_c} (|C| log|A| + log(1/δ)) log(1/Δ_ε)`: Corollary `trivial_upper`, constant 1."""
    if trivial == 0:
        return 0.0
    if gap_floor <= 0:
        return np.inf
    worst = n_actions / epsilon**2 if epsilon > 0 else np.inf
    rounds = max(-math.log(gap_floor), math.log(2.0))
    return _times(min(worst, trivial), (n_contexts * math.log(n_actions) - math.log(delta)) * rounds)


def trivial_lower_bound(trivial: float, *, delta: float) -> float:
    """`E τ ≥ max_c (1/ν_c) Σ_a Δ_{c,a}⁻² log(1/2.4δ)`, ε = 0, unit Gaussian noise (Theorem `trivial-class-lower`)."""
    return _times(trivial, least_divergence(delta))


def trivial_minimax_bound(*, n_contexts: int, n_actions: int, epsilon: float, delta: float) -> float:
    """`|A| (|C| + log(1/δ))/ε²`: some instance of the trivial class needs this many (Theorem `trivial-class-lower`).

    Order only: the proof's constants are far below the 1 of the statement (corrections, row 23).
    """
    return np.inf if epsilon == 0 else n_actions * (n_contexts - math.log(delta)) / epsilon**2


def _times(a: float, b: float) -> float:
    """Return a·b with 0·∞ = 0."""
    return 0.0 if a == 0 or b == 0 else a * b
