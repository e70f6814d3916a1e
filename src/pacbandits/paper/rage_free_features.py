"""Non-elimination Contextual RAGE for given features (the paper's Algorithm `naive`).

    π̂_0 arbitrary, Δ̂_0 ≡ 0                                                       (corrections, row 17)
    for l = 1, 2, …, ⌈log₂(1/ε)⌉, with q = π̂_{l−1}:
        n_l = 1568 s² log(1/δ_l) min_p max_π ‖φ_π − φ_q‖²_{A(p)⁻¹}/(ε_l + Δ̂_{l−1}(π)/4)²   (corrections, row 7)
        Δ̂_l(π, q) = Cat{⟨φ_q − φ_π, A(p)⁻¹ φ(c_i, a_i) r_i⟩}, or 0 where n_l < 4 log(1/δ_l)  (corrections, row 3)
        π̂_l = argmin_π Δ̂_l(π, q)                                                  (corrections, row 4)
        Δ̂_l(π) = Δ̂_l(π, q) − Δ̂_l(π̂_l, q) ≥ 0                                      (corrections, row 14)
        stop with π̂_l also when Δ̂_l(π) > (√2/7) ε_l for every π of another φ_π: no best policy has that much

The proof is in docs/realizable.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.confidence import RAGE_FREE_BEST_GAP, RAGE_FREE_FACTOR, RAGE_FREE_SLOPE, ratio_samples, round_epsilon
from pacbandits.paper.given_features import FeatureRage, FeatureState, apart
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log
from pacbandits.trials.protocol import Plan, Profile, check_played


@dataclass(frozen=True, eq=False)
class FeatureGapState(FeatureState):
    """Estimated gaps of every policy.

    best: the index of `policy`, which is π̂_{l−1}.
    gaps (|Π|,): Δ̂_{l−1} ≥ 0 against it.
    """

    best: int = field(kw_only=True)
    gaps: FloatArray = field(kw_only=True)


@dataclass(frozen=True)
class RageFreeFeatures(FeatureRage):
    """Non-elimination Contextual RAGE for rewards that are linear in given features, which is assumed."""

    name: ClassVar[str] = "rage-free-features"
    profile: ClassVar[Profile] = Profile(
        name="rage-free-features",
        source="Non-elimination Contextual RAGE for rewards linear in given features φ, not one-hot ones alone",
        classes="classes that can be listed, contexts with features",
        assumes="realizability: mean rewards are linear in φ; they lie in [0, 1]; a bound on E[r²]; contexts known",
        guarantees="(ε, δ)-PAC if rewards are linear",
        samples="n_l = 1568 s² log(1/δ_l) min_p max_π ‖φ_π − φ_q‖²_{A⁻¹}/(ε_l + Δ̂/4)², Catoni's mean",
    )

    def start(self, policies: PolicyClass, contexts: Contexts) -> FeatureGapState:
        listing, population = self.locate(policies, contexts)
        assert population.points is not None
        alone = not apart(population.points, reference=population.points[0]).any()
        return FeatureGapState(
            listing,
            contexts,
            listing.policy(0),
            finished=bool(alone or self.any_will_do),
            listing=listing,
            population=population,
            best=0,
            gaps=np.zeros(len(listing)),
        )

    def design(self, state: FeatureGapState, *, progress: Progress | None = None) -> Plan | None:
        if state.finished:
            return None
        number = state.round_number + 1
        accuracies = round_epsilon(number) + RAGE_FREE_SLOPE * state.gaps
        design = self.solve(state.population, state.points - state.points[state.best], accuracies)
        samples = ratio_samples(
            design.value,
            factor=RAGE_FREE_FACTOR,
            confidence=self.confidence(state.listing, number),
            second_moment=self.rewards.second_moment,
            scale=self.scale,
        )
        return self.plan(state, sampler=design.sampler, samples=samples, details={"ratio": design.value})

    def absorb(self, state: FeatureGapState, plan: Plan, log: Log) -> FeatureGapState:
        check_played(state, plan, log, rewards=self.rewards)
        gaps = self.estimate(state, plan, log, directions=state.points[state.best] - state.points)
        best = int(gaps.argmin())
        gaps = gaps - gaps[best]
        near = state.points[gaps <= RAGE_FREE_BEST_GAP * plan.epsilon]
        alone = not apart(near, reference=state.points[best]).any()
        return state.after(
            plan,
            log,
            policy=state.listing.policy(best),
            finished=bool(alone or self.fine_enough(plan.round_number)),
            best=best,
            gaps=gaps,
        )
