"""AdaCB (Foster et al. 2021): inverse gap weighting among the actions that may be the best, at a rate that adapts.

    after t interactions of T, with m = ⌈log₂ t⌉ of M = ⌈log₂ T⌉ and ℓ = log(2|F|T²/δ):
        f̂ = the regression of all interactions,   β = c · 16(M − m + 1)ℓ
        F_t = the functions within β of f̂ in squared error on what was seen
        A(x) = the actions that some function of F_t has for the best at x
        q = the share of contexts that came with |A(x)| > 1,   ν = 64 log(4M/δ)/n,   n = t/2
        λ = (q + ν) / √(q′ + ν′),  q′ and ν′ those of the round before
        γ = g λ √(A n / ℓ)
        play p(a) = 1/(|A(x)| + γ(ŷ_b − ŷ_a)) for every action a of A(x) but the best of them, b, which gets the rest

**Source.** Foster, Rakhlin, Simchi-Levi and Xu, "Instance-dependent complexity of contextual bandits and reinforcement
learning: a disagreement-based perspective", COLT 2021, Algorithm 1 with its first option, policy disagreement. Epochs
double there, n is the length of the last one, and q′ and ν′ are those of the epoch before; here a round is shorter, m
and n are those of the epoch in which it would lie, and λ is somewhat larger. Constants are meant to be the paper's, not
checked against its text. F is ridge regression's: |F| is taken by d log(1 + T/d), F_t is its ellipsoid, and A(x) the
actions whose largest prediction in it, cut to [0, 1], is not below the smallest of another, which are all of A(x) and
maybe more. No function is refitted for that, as theirs are by calls of a regression oracle.

**Tuning.** `confidence` is c, 1 as published, at which no action is ruled out for very long; `gamma` is g, 1 as
published.

**Guarantees.** Regret of order √(A t log|F|) if the regression can be right, and of order log t/Δ where a gap Δ between
actions and small disagreement allow; nothing of the policy that is learnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.checks import positive, settle
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Budgeted, Growth, Play, RivalState
from pacbandits.rivals.inverse_gaps import inverse_gaps, linear_entropy
from pacbandits.rivals.regression import ContextCoordinates, Regression, best_by_regression, fit_ridge
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

Confidence = Annotated[float, About("c of the radius β = c · 16(M − m + 1) log(2|F|T²/δ)", above=0)]
Gamma = Annotated[float, About("g, which multiplies the learning rate γ", above=0)]


@dataclass(frozen=True, eq=False)
class ConfidenceSet:
    """The functions within a radius of the fitted one.

    model: f̂.
    radius: β, in squared error.
    """

    model: Regression
    radius: float

    def candidates(self, contexts: Contexts) -> tuple[FloatArray, BoolArray]:
        """Return predictions (n, A) clipped to [0, 1], and which actions (n, A) may be the best."""
        means = self.model.predict(contexts)
        width = math.sqrt(self.radius) * self.model.widths(contexts)
        lower, upper = np.clip(means - width, 0.0, 1.0), np.clip(means + width, 0.0, 1.0)
        return np.clip(means, 0.0, 1.0), upper >= lower.max(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class CandidateGaps:
    """A sampler by inverse gap weighting among the actions that may be the best.

    functions: that say which these are.
    gamma: γ.
    n_actions: how many actions there are.
    """

    functions: ConfidenceSet
    gamma: float
    n_actions: int

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        means, candidates = self.functions.candidates(contexts)
        return inverse_gaps(means, gamma=self.gamma, candidates=candidates)


@dataclass(frozen=True, eq=False)
class Disagreement:
    """The memory of AdaCB between rounds.

    coordinates: of contexts.
    functions: those that may be right.
    share: q + ν, where they disagree.
    before: that of the round before.
    """

    coordinates: ContextCoordinates
    functions: ConfidenceSet
    share: float = 1.0
    before: float = 1.0


@dataclass(frozen=True)
class AdaCb(Budgeted):
    """AdaCB: play the actions that may still be the best, with probabilities that fall with their predicted gap.

    confidence: c, which multiplies the radius of the set of functions that may be right.
    gamma: g, which multiplies the learning rate γ.
    """

    name: ClassVar[str] = "adacb"
    profile: ClassVar[Profile] = Profile(
        name="adacb",
        source="Foster et al. 2021: inverse gap weighting among the actions that may be the best, at an adaptive rate",
        classes="any; explores without one",
        assumes="the regression can be right",
        guarantees="regret of order √(A t d log t), and less where there is a gap; nothing of the answer",
        samples="its budget",
        proves=False,
    )

    confidence: float = field(default=1.0, kw_only=True)
    gamma: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, confidence=positive(self.confidence, name="confidence"), gamma=positive(self.gamma, name="gamma"))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        confidence: Confidence = 1.0,
        gamma: Gamma = 1.0,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> AdaCb:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), confidence=confidence, gamma=gamma, budget=budget, growth=growth)

    @property
    def epochs(self) -> int:
        """M, the number of epochs."""
        return max(math.ceil(math.log2(self.budget)), 1)

    def entropy(self, dimension: int) -> float:
        """Return ℓ = log(2|F|T²/δ) for d parameters."""
        return linear_entropy(dimension, self.budget) + math.log(2.0 / self.delta) + 2.0 * math.log(self.budget)

    def squared_error(self, dimension: int, samples: float) -> float:
        """Return β after this many interactions."""
        epoch = min(max(math.ceil(math.log2(max(samples, 1.0))), 1), self.epochs)
        return self.confidence * 16.0 * (self.epochs - epoch + 1) * self.entropy(dimension)

    def rate(self, dimension: int, samples: float, *, n_actions: int, disagreement: Disagreement) -> float:
        """Return γ after this many interactions."""
        scale = disagreement.share / math.sqrt(disagreement.before)
        return self.gamma * scale * math.sqrt(n_actions * (samples / 2.0) / self.entropy(dimension))

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> Disagreement:
        """Return the first memory: any function may be right, and they disagree everywhere."""
        coordinates = ContextCoordinates.of(contexts)
        nothing = Seen.nothing(contexts, n_actions=policies.n_actions)
        return Disagreement(coordinates, self._functions(nothing, coordinates))

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> Disagreement:
        """Return the functions that are consistent with the data, and the share of contexts where they disagree."""
        before = state.memory
        functions = self._functions(seen, before.coordinates)
        _, candidates = functions.candidates(seen.contexts)
        disagree = float(seen.counts @ (candidates.sum(axis=1) > 1)) / seen.samples
        smoothing = 64.0 * math.log(4.0 * self.epochs / self.delta) / (seen.samples / 2.0)
        return Disagreement(before.coordinates, functions, disagree + smoothing, before.share)

    def play(self, state: RivalState) -> Play:
        """Return inverse gap weighting among the candidates."""
        kept, n_actions = state.memory, state.policies.n_actions
        dimension = kept.functions.model.dimension
        rate = self.rate(dimension, state.samples, n_actions=n_actions, disagreement=kept)
        return Play(
            CandidateGaps(kept.functions, rate, n_actions),
            details={"gamma": rate, "disagreement": kept.share},
        )

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy with the largest predicted value."""
        return best_by_regression(state.policies, seen, coordinates=memory.coordinates)

    def _functions(self, seen: Seen, coordinates: ContextCoordinates) -> ConfidenceSet:
        model = fit_ridge(seen, coordinates=coordinates)
        return ConfidenceSet(model, self.squared_error(model.dimension, seen.samples))
