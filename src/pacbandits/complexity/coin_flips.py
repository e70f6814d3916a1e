"""How far coin flips are from an instance with another answer: the lower bound for Bernoulli rewards.

An algorithm that is right with probability 1 − δ on every Bernoulli instance satisfies, for every instance r' on which
another policy π beats π* by more than ε (Kaufmann, Cappé and Garivier 2016, Lemma 1; the proof of Theorem
`linear_lower_bound`),

    E τ · Σ_c ν_c Σ_a p(a|c) kl(r(c, a), r'(c, a)) ≥ log(1/2.4δ),      p(a|c) = E T_{c,a}/(ν_c E τ).

So for any alternatives r'_k and any weights λ_k of them that sum to 1, whatever p is,

    E τ ≥ log(1/2.4δ)/D(λ),      D(λ) = Σ_c ν_c max_a Σ_k λ_k kl(r(c, a), r'_k(c, a)).

Which alternatives and weights are taken decides only how good the bound is, never whether it holds. Here: for each of
some policies π the nearest instance on which it leads π* by ε, seen from a design; then the best weights by a linear
programme, whose own design is where the next alternatives are seen from.

The nearest instance raises the actions of π and lowers those of π* where the two differ: with a multiplier μ,
p (x − r)/(x(1 − x)) = ±μ, a quadratic equation in x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.special

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.complexity.gaps import Gaps, Truth
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Design

optimize: Any = scipy.optimize  # they ship no complete types
sparse: Any = scipy.sparse
special: Any = scipy.special

# Of the table of rivals, policies × contexts: all of a class up to the first, never more than the second.
_MAX_LISTED_ENTRIES = 10_000
_MAX_ENTRIES = 200_000
# Of a linear programme, alternatives × contexts × actions.
_MAX_PROGRAMME_ENTRIES = 200_000
_MAX_ROUNDS = 6
_TOLERANCE = 0.01  # of the divergence, relative
_LEAST_PROGRESS = 0.005  # of a round, relative
_BISECTIONS = 40
_EVEN_SHARE = 0.05  # of the first design, so that no action is out of sight


def least_coin_divergence(
    truth: Truth, policies: PolicyClass, gaps: Gaps, *, epsilon: float, designs: tuple[Design, ...]
) -> float | None:
    """An upper end of `max_p min_{r'} Σ_c ν_c Σ_a p(a|c) kl(r, r')`, over r' on which a policy leads π* by ε.

    designs: what says which policies to look at, beside those of a short list, and where to begin. For ε > 0 it wants
    π* to be the only policy within ε. None where no policy to look at is known; infinite where all act like π*.
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
    """Contexts that can occur, and where each of K rivals differs from π* there.

    rows (n,): which contexts of the population.
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
        differs = (here != gaps.best_actions[occurs]).any(axis=0)  # the rest tells nothing of the rivals
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
        """kl(r, r'_k) (K, n, A) of the nearest instances, seen from a design (n, A), on which the rivals lead by ε."""
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
    """The x ≥ r with x − r = m x(1 − x), for means r in [0, 1] and strengths m > 0."""
    root = np.sqrt((1.0 - strength) ** 2 + 4.0 * strength * means)
    with np.errstate(divide="ignore", invalid="ignore"):
        small = 2.0 * means / ((1.0 - strength) + root)
        large = ((strength - 1.0) + root) / (2.0 * strength)
    return np.clip(np.where(strength < 1.0, small, large), means, 1.0)


def lower_means(means: FloatArray, strength: FloatArray) -> FloatArray:
    """The x ≤ r with r − x = m x(1 − x)."""
    return 1.0 - raise_means(1.0 - means, strength)


def kl_of_flips(first: FloatArray, second: FloatArray) -> FloatArray:
    """kl(x, y) = x log(x/y) + (1 − x) log((1 − x)/(1 − y)), in nats."""
    return special.rel_entr(first, second) + special.rel_entr(1.0 - first, 1.0 - second)


def _rivals(truth: Truth, policies: PolicyClass, gaps: Gaps, designs: tuple[Design, ...]) -> IntArray:
    """Policies (K, N) that differ from π*: all of a short list, else the supports of the designs."""
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
    """The mean of the designs (N, A), with a little of everything."""
    n_actions = truth.mean_rewards.shape[1]
    even = np.full(truth.mean_rewards.shape, 1.0 / n_actions)
    if not designs:
        return even
    noise = truth.noise_variance
    mean = np.mean([design.propensities(truth.population, noise=noise) for design in designs], axis=0)
    return (1.0 - _EVEN_SHARE) * mean + _EVEN_SHARE * even


def _search(flips: _CoinFlips, propensities: FloatArray) -> float:
    """The least D(λ) found from a first design (n, A).

    Each round adds the alternatives nearest as seen from a design half-way between the best one so far and the one that
    the linear programme likes, which alone would leave actions out altogether. It ends where the least divergence that
    a design reaches is within a share of D, or a round gains next to nothing.
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
    """The λ (K,) of least D(λ) for divergences (K, n, A), and the design (n, A) that is best against it.

    minimise Σ_c ν_c y_c subject to y_c ≥ Σ_k λ_k d_k(c, a), Σ λ = 1; the design is read off the multipliers.
    """
    k, n, n_actions = divergences.shape
    even: FloatArray = np.full((n, n_actions), 1.0 / n_actions)
    alike: FloatArray = np.full((k,), 1.0 / k)
    if k == 1:
        return alike, even
    # Scaled to the size of one: solvers have absolute tolerances.
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
