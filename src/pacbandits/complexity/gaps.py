"""Gaps: the distance of each policy's value from the best, and the smallest of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts, Policy

# Values are sums of up to 10⁵ products of doubles: differences up to this are rounding, not gaps.
TIED_GAP = 1e-12


@runtime_checkable
class Truth(Protocol):
    """The truth of a problem, which theory uses and no algorithm may: true means and noise.

    population: the N contexts with their probabilities.
    mean_rewards (N, A): r(c, a).
    noise_variance (N, A): σ²(c, a).
    """

    @property
    def population(self) -> Contexts: ...
    @property
    def mean_rewards(self) -> FloatArray: ...
    @property
    def noise_variance(self) -> FloatArray: ...


def check_truth(truth: object) -> Truth:
    """Return the truth of a problem; raise InputError if this is not one."""
    return instance(truth, Truth, name="truth", remedy="a Problem is one, as load_problem gives")


@dataclass(frozen=True, eq=False)
class Gaps:
    """The best policy and the gaps of the others.

    best: π*, one of the best.
    best_actions (N,): its actions.
    best_value: V(π*).
    scores (N, A): ν_c (r(c, π*(c)) − r(c, a)), whose sum over π's actions is Δ(π).
    minimum: Δ_pol, over policies that differ from π* where contexts can occur: zero for a tie, infinite when none
        differs, None when the class cannot compute it.
    uniform: Δ_uniform, the smallest r(c, π*(c)) − r(c, a) over contexts that can occur and a ≠ π*(c): infinite with one
        action, negative when π* is not best everywhere.
    """

    best: Policy
    best_actions: IntArray
    best_value: float
    scores: FloatArray
    minimum: float | None
    uniform: float

    @property
    def tied(self) -> bool:
        """Whether another policy is as good as the best one."""
        return self.minimum is not None and self.minimum <= TIED_GAP

    def floor(self, epsilon: float) -> float:
        """Return Δ_ε = max(ε, Δ_pol) ≤ max(Δ, ε) of policies that differ; ε if Δ_pol is unknown, 0 or infinite."""
        if self.minimum is None or self.minimum == np.inf or self.tied:
            return epsilon
        return max(epsilon, self.minimum)


def measure_gaps(truth: Truth, policies: PolicyClass) -> Gaps:
    """Return the gaps of a class on a problem. The class's argmax must be exact."""
    if not policies.exact:
        raise InputError("the argmax of this policy class is not exact, so its best policy is not known for sure")
    contexts, rewards = truth.population, truth.mean_rewards
    if rewards.shape != (len(contexts), policies.n_actions):
        raise InputError(
            f"mean_rewards has shape {rewards.shape}, but there are {len(contexts)} contexts "
            f"and the policies have {policies.n_actions} actions"
        )
    worth = contexts.weights[:, None] * rewards
    best = policies.argmax(contexts, worth)
    actions = best(contexts)
    rows = np.arange(len(contexts))
    scores = worth[rows, actions][:, None] - worth
    return Gaps(
        best=best,
        best_actions=actions,
        best_value=float(worth[rows, actions].sum()),
        scores=scores,
        minimum=_least_gap(policies, contexts, actions, scores),
        uniform=_uniform_gap(contexts, rewards, actions),
    )


def disagreement_scores(contexts: Contexts, actions: IntArray, *, n_actions: int) -> FloatArray:
    """Return scores (N, A) whose sum over π's actions is P(π(c) ≠ π*(c))."""
    scores = np.repeat(contexts.weights[:, None], n_actions, axis=1)
    scores[np.arange(len(contexts)), actions] = 0.0
    return scores


def table_gaps(actions: np.ndarray[Any, Any], contexts: Contexts, gaps: Gaps) -> tuple[FloatArray, FloatArray]:
    """Return Δ(π) and P(π ≠ π*) of every row of a table of actions (K, N): two (K,)."""
    differ = disagreement_scores(contexts, gaps.best_actions, n_actions=gaps.scores.shape[1])
    return np.maximum(sum_scores(actions, gaps.scores), 0.0), sum_scores(actions, differ)


def _least_gap(policies: PolicyClass, contexts: Contexts, best: IntArray, scores: FloatArray) -> float | None:
    differ = disagreement_scores(contexts, best, n_actions=policies.n_actions)
    possible = differ > 0
    if not possible.any():
        return np.inf
    if policies.holds_every_map:
        # The cheapest deviation is on one context (of the set; several rows may be the same context).
        ids = contexts.require_ids(below=policies.n_contexts)
        worth = np.zeros((policies.n_contexts, policies.n_actions))
        mass = np.zeros_like(worth)
        np.add.at(worth, ids, scores)
        np.add.at(mass, ids, differ)
        return float(max(worth[mass > 0].min(), 0.0))
    if policies.lists_policies:
        table = np.asarray(policies.actions(contexts))
        away = sum_scores(table, differ) > 0
        return float(max(sum_scores(table, scores)[away].min(), 0.0)) if away.any() else np.inf
    if policies.has_frontier:
        # On the frontier of (disagreement, −gap) the policy of smallest gap that differs at all comes last: only
        # policies of smaller gap could dominate it, and those do not differ. Its gap is summed anew, free of rounding.
        frontier = policies.frontier(contexts, differ, -scores)
        if not frontier.exact:
            return None
        away = np.flatnonzero(frontier.first > contexts.weights[contexts.weights > 0].min() / 2)
        if away.size == 0:
            return np.inf
        actions = frontier.policy(int(away[-1]))(contexts)
        return float(max(scores[np.arange(len(contexts)), actions].sum(), 0.0))
    return None


def _uniform_gap(contexts: Contexts, rewards: FloatArray, best: IntArray) -> float:
    rows = np.arange(len(contexts))
    gaps = rewards[rows, best][:, None] - rewards
    gaps[rows, best] = np.inf
    return float(gaps[contexts.weights > 0].min())


# Reward laws that a theorem distinguishes: Bernoulli, Gaussian, other.


class Law(Enum):
    """A family of reward distributions, one for each mean; a lower bound is a theorem about one of them.

    GAUSSIAN: normal, of a variance that does not depend on the mean.
    BERNOULLI: 1 with the mean as its probability, else 0.
    OTHER: neither; the divergence between two means is not known here.
    """

    GAUSSIAN = "Gaussian"
    BERNOULLI = "Bernoulli"
    OTHER = "other"


@runtime_checkable
class LawfulNoise(Protocol):
    """Noise with a known law."""

    @property
    def law(self) -> Law: ...


@runtime_checkable
class NoisyTruth(Protocol):
    """A truth with its noise as an object."""

    @property
    def noise(self) -> object: ...


def law_of(truth: Truth) -> Law:
    """Return the law of a truth's rewards; Gaussian if the truth gives variances alone."""
    if not isinstance(truth, NoisyTruth):
        return Law.GAUSSIAN
    return truth.noise.law if isinstance(truth.noise, LawfulNoise) else Law.OTHER


def has_unit_noise(truth: Truth) -> bool:
    """Whether rewards are Gaussian of variance 1 wherever a context can occur: the paper's noise."""
    occurs = truth.population.weights > 0
    return law_of(truth) is Law.GAUSSIAN and bool(np.allclose(truth.noise_variance[occurs], 1.0, rtol=0, atol=1e-12))
