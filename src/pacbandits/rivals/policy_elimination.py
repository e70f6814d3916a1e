"""PolicyElimination (Dudík et al. 2011): keep the policies that may be the best, and explore all of them.

    after t interactions, with survivors Π_t and δ_t = δ/(4|Π|t²):
        μ = min(1/(2A), √(log(1/δ_t) / (2At)))
        P = a distribution over Π_t with   E_x[1/((1 − Aμ)P(π(x)|x) + μ)] ≤ 2A   for every π in Π_t
        play p(a|x) = (1 − Aμ)P(a|x) + μ
        η(π) = the estimated value of π, rewards weighted by 1/p;   b = c · 2√(2A log(1/δ_t) / t)
        drop every π with η(π) < max η − 2b, the maximum over survivors
    stop once 2b ≤ ε, or all survivors act alike; answer with the survivor of largest η, and until then with that of
    largest value by centred rewards

**Source.** Dudík, Hsu, Kale, Karampatziakis, Langford, Reyzin and Zhang, "Efficient optimal learning for contextual
bandits", UAI 2011, Algorithm 1, which knows the distribution of contexts, and never stops; policies are listed. P is
found by P(π) ← P(π)V(π)/Σ P V, V(π) the left side of the constraint, from the last P. That is expectation maximisation
for E_x Σ_a log((1 − Aμ)P(a|x) + μ), at whose maximum V(π) ≤ A for every π, so that 2A is soon reached. Answers before
it stops are ours, by rewards less their mean (`balance`), which are right sooner; what is proven is of η as published.

**Why the answer is right.** The constraint bounds the variance of each term of η(π) by 2A, and μ its size, so that by
Freedman's inequality |η(π) − V(π)| ≤ b for all survivors at all times except with probability δ. Then the best policy
is never dropped, and the survivor of largest η is within 2b of it. Rounds of many interactions change nothing: what is
played is fixed before each, with a μ no smaller than the last interaction's.

**Tuning.** `radius` is c; 1 is as published, and below that nothing is proven.

**Guarantees.** (ε, δ)-PAC; and regret of order √(A t log(t|Π|/δ)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.checks import positive, settle
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.balance import centred_scores
from pacbandits.rivals.base import DEFAULT_GROWTH, Growth, Play, Rival, RivalState, check_listed
from pacbandits.rivals.coordinate_descent import action_weights
from pacbandits.rivals.samplers import floored
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting, check_sampled_contexts

MOST_POLICIES = 100_000

Radius = Annotated[float, About("c of the radius c · 2√(2A log(4|Π|t²/δ)/t); below 1 nothing is proven", above=0)]


@dataclass(frozen=True, eq=False)
class ListedMixture:
    """A mixture of the listed policies, with a minimum propensity.

    policies: the list.
    weights (|Π|,): which sum to 1.
    floor: μ, at most 1/A.
    """

    policies: PolicyClass
    weights: FloatArray
    floor: float

    @property
    def n_actions(self) -> int:
        return self.policies.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """(1 − Aμ) Σ_π w_π 1{π(c) = a} + μ as (n, A)."""
        some = np.flatnonzero(self.weights)
        table = np.asarray(self.policies.actions(contexts))[some]
        return floored(action_weights(table, self.weights[some], n_actions=self.n_actions), self.floor)


@dataclass(frozen=True, eq=False)
class Survivors:
    """The surviving policies, and the mixture over them.

    alive (|Π|,): whether a policy may still be the best.
    weights (|Π|,): P, 0 for those that may not.
    leader: the number of the one to answer with.
    settled: whether all that are left act alike on the contexts that may come.
    """

    alive: BoolArray
    weights: FloatArray
    leader: int
    settled: bool


@dataclass(frozen=True)
class PolicyElimination(Rival):
    """Keep the policies that may be the best and explore all of them, until those left are good enough.

    radius: c, which multiplies the radius by which policies are dropped.
    sampled_contexts: how many contexts were drawn to stand for their distribution; None when it is known.
    """

    name: ClassVar[str] = "policy-elimination"
    profile: ClassVar[Profile] = Profile(
        name="policy-elimination",
        source="Dudík et al. 2011: policies that may be the best, played so that each of them is explored",
        classes="listed",
        assumes="the distribution of contexts is known; rewards in [0, 1]",
        guarantees="(ε, δ)-PAC; regret of order √(A t log(t|Π|/δ))",
        samples="32 A log(4|Π|t²/δ)/ε² at the most",
    )

    radius: float = field(default=1.0, kw_only=True)
    sampled_contexts: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, radius=positive(self.radius, name="radius"))
        settle(self, sampled_contexts=check_sampled_contexts(self.sampled_contexts))
        if not self.rewards.in_unit:
            raise InputError(
                f"{self.name} needs rewards in [0, 1], and these are not known to be; use coda, or noise=bernoulli "
                "where a problem has that option"
            )

    @classmethod
    def made_for(cls, setting: Setting, *, radius: Radius = 1.0, growth: Growth = DEFAULT_GROWTH) -> PolicyElimination:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), radius=radius, growth=growth, sampled_contexts=setting.sampled_contexts)

    def confidence(self, policies: PolicyClass, samples: float) -> float:
        """Return log(1/δ_t) = log(4|Π|t²/δ)."""
        return math.log(4.0 / self.delta) + policies.log_size + 2.0 * math.log(max(samples, 1.0))

    def floor(self, policies: PolicyClass, samples: float) -> float:
        """Return μ after this many interactions."""
        n_actions = policies.n_actions
        size = self.confidence(policies, samples)
        return min(1.0 / (2.0 * n_actions), math.sqrt(size / (2.0 * n_actions * max(samples, 1.0))))

    def bound(self, policies: PolicyClass, samples: float) -> float:
        """Return b after this many interactions."""
        size = self.confidence(policies, samples)
        return self.radius * 2.0 * math.sqrt(2.0 * policies.n_actions * size / max(samples, 1.0))

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> Survivors:
        """All of them, drawn alike: at first any distribution will do, as 1/μ = 2A."""
        listed = check_listed(policies, name=self.name, most=MOST_POLICIES)
        listed.actions(contexts)  # raises where contexts are not the class's
        count = len(listed)
        return Survivors(np.ones(count, dtype=np.bool_), np.full(count, 1.0 / count), 0, False)

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> Survivors:
        """Return the policies that are not too far behind, and a distribution over them."""
        policies, before = _listed(state.policies), state.memory
        table = np.asarray(policies.actions(seen.contexts))
        values = np.where(before.alive, sum_scores(table, seen.scores) / seen.samples, -np.inf)
        alive = values >= values.max() - 2.0 * self.bound(policies, seen.samples)
        left, weights = table[alive], np.zeros(len(alive))
        weights[alive] = explored(
            left,
            shares=seen.contexts.weights,
            floor=self.floor(policies, seen.samples),
            start=before.weights[alive],
            n_actions=policies.n_actions,
        )
        come = left[:, seen.contexts.weights > 0]
        if 2.0 * self.bound(policies, seen.samples) > self.epsilon:  # else the proof is of the largest η
            values = np.where(alive, sum_scores(table, centred_scores(seen)), -np.inf)
        return Survivors(alive, weights, int(np.argmax(values)), bool((come == come[0]).all()))

    def play(self, state: RivalState) -> Play:
        """Return the mixture of survivors, with a minimum propensity."""
        survivors, floor = state.memory, self.floor(state.policies, state.samples)
        sampler = ListedMixture(_listed(state.policies), survivors.weights, floor)
        return Play(sampler, details={"survivors": int(survivors.alive.sum()), "least": floor})

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the survivor of largest estimated value."""
        return _listed(state.policies).policy(memory.leader), 0

    def proven(self, state: RivalState, seen: Seen, memory: Any) -> bool:
        """Return whether all survivors are good enough."""
        return memory.settled or 2.0 * self.bound(state.policies, seen.samples) <= self.epsilon

    def promise(self, state: RivalState) -> str:
        """Return the guarantee and its assumptions."""
        if not state.finished:
            return f"none: {int(state.memory.alive.sum()):,} policies may still be the best"
        if self.radius < 1:
            return f"none: the radius was multiplied by {self.radius:g}, and the proof needs 1"
        words = (
            f"except with probability {self.delta:g} the policy is within {self.epsilon:g} of the best of its class; "
            f"assumes that interactions are independent, that {self.rewards.describe()}, and that "
        )
        if self.sampled_contexts is None:
            return words + "the distribution of contexts is known"
        return words + f"{self.sampled_contexts:,} contexts that were drawn stand well enough for their distribution"


def explored(
    actions: np.ndarray[Any, Any], *, shares: FloatArray, floor: float, start: FloatArray, n_actions: int
) -> FloatArray:
    """Return a distribution (m,) over policies with actions (m, n) under which each has E_x[1/p(π(x)|x)] ≤ 2A.

    shares (n,): probabilities of the contexts. start (m,): weights, all above 0, with which the search begins.
    """
    weights = start / start.sum()
    while True:
        played = floored(action_weights(actions, weights, n_actions=n_actions), floor)
        variances = sum_scores(actions, shares[:, None] / played)
        if variances.max() <= 2.0 * n_actions:
            return weights
        weights = weights * variances
        weights /= weights.sum()


def _listed(policies: PolicyClass) -> PolicyClass:
    assert policies.lists_policies
    return policies
