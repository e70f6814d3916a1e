"""RAGE for given features, with elimination and without (the paper's Algorithms `elimination` and `naive`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.confidence import (
    RAGE_FREE_BEST_GAP,
    RAGE_FREE_FACTOR,
    RAGE_FREE_SLOPE,
    elimination_samples,
    ratio_samples,
    round_epsilon,
)
from pacbandits.errors import InputError
from pacbandits.paper.given_features import FeatureRage, FeatureState, apart, first_of_each
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log
from pacbandits.trials.protocol import Plan, Profile, check_played

# Elimination Contextual RAGE for given features (the paper's Algorithm `elimination`, Theorem `contextual_rage`).
#
#     for l = 1, 2, …:
#         p, ρ(Π_l) = min_p max_{π,π' ∈ Π_l} ‖φ_π − φ_π'‖²_{A(p)⁻¹}
#         n_l = ⌈4 s² ε_l⁻² ρ(Π_l) log(1/δ_l)⌉                                       (corrections, row 2)
#         lead(π, π') = Cat{⟨φ_π − φ_π', A(p)⁻¹ φ(c_i, a_i) r_i⟩}, or 0 where n_l < 4 log(1/δ_l)
#         Π_{l+1} = Π_l without every π' that some π leads by more than ε_l
#         stop with the policy least led, when led by no more than ε − ε_l
#
# Rounds end as in `rage` (corrections, row 26). The proof is in docs/realizable.md.


# All pairs of policies are compared, each on every row of the log: fewer than if policies differ in few cells.
MAX_COMPARED_POLICIES = 1_000


@dataclass(frozen=True, eq=False)
class AliveState(FeatureState):
    """The state of RAGE with elimination: the policies that are not eliminated.

    alive: the indices of Π_l, one for each φ_π.
    """

    alive: IntArray = field(kw_only=True)


@dataclass(frozen=True)
class RageFeatures(FeatureRage):
    """Elimination Contextual RAGE, assuming rewards that are linear in given features."""

    name: ClassVar[str] = "rage-features"
    profile: ClassVar[Profile] = Profile(
        name="rage-features",
        source="Elimination Contextual RAGE for rewards linear in given features φ, not one-hot ones alone",
        classes="classes that can be listed, up to 1,000 policies (all pairs are compared), contexts with features",
        assumes="realizability: mean rewards are linear in φ; they lie in [0, 1]; a bound on E[r²]; contexts known",
        guarantees="(ε, δ)-PAC if rewards are linear",
        samples="n_l = 4 s² ε_l⁻² max ‖φ_π − φ_π'‖²_{A⁻¹} log(1/δ_l), Catoni's mean for every pair",
    )

    def start(self, policies: PolicyClass, contexts: Contexts) -> AliveState:
        listing, population = self.locate(policies, contexts)
        assert population.points is not None
        alive = first_of_each(population.points)
        if len(alive) > MAX_COMPARED_POLICIES:
            raise InputError(
                f"{self.name} compares all pairs of policies, and {len(alive)} are too many "
                f"(at most {MAX_COMPARED_POLICIES}); use rage-free-features or linear-rage"
            )
        alone = not apart(population.points, reference=population.points[0]).any()
        return AliveState(
            listing,
            contexts,
            listing.policy(int(alive[0])),
            finished=bool(alone or self.any_will_do),
            listing=listing,
            population=population,
            alive=alive,
        )

    def design(self, state: AliveState, *, progress: Progress | None = None) -> Plan | None:
        if state.finished:
            return None
        number = state.round_number + 1
        directions, _ = _pairs(state.points[state.alive])
        design = self.solve(state.population, directions, np.ones(len(directions)))
        samples = elimination_samples(
            design.value,
            epsilon=round_epsilon(number),
            confidence=self.confidence(state.listing, number),
            second_moment=self.rewards.second_moment,
            scale=self.scale,
        )
        details = {"rho": design.value, "policies": len(state.alive)}
        return self.plan(state, sampler=design.sampler, samples=samples, details=details)

    def absorb(self, state: AliveState, plan: Plan, log: Log) -> AliveState:
        check_played(state, plan, log, rewards=self.rewards)
        alive = state.alive
        directions, (first, second) = _pairs(state.points[alive])
        leads = np.zeros((len(alive), len(alive)))
        leads[first, second] = self.estimate(state, plan, log, directions=directions)
        leads -= leads.T
        beaten = leads.max(axis=0)  # the largest lead over each, at least 0
        best = int(beaten.argmin())
        stays = beaten <= max(plan.epsilon, beaten[best])
        left = alive[stays]
        alone = not apart(state.points[left], reference=state.points[alive[best]]).any()
        late = self.fine_enough(plan.round_number - 1)
        return state.after(
            plan,
            log,
            policy=state.listing.policy(int(alive[best])),
            finished=bool(alone or late or beaten[best] + plan.epsilon <= self.epsilon),
            details={"dropped": int((~stays).sum())},
            alive=left,
        )


def _pairs(points: FloatArray) -> tuple[FloatArray, tuple[IntArray, IntArray]]:
    """Return φ_π − φ_π' (K(K − 1)/2, r) for all pairs of points (K, r), and their indices."""
    first, second = np.triu_indices(len(points), k=1)
    return points[first] - points[second], (first, second)


# Non-elimination Contextual RAGE for given features (the paper's Algorithm `naive`).
#
#     π̂_0 arbitrary, Δ̂_0 ≡ 0                                                       (corrections, row 17)
#     for l = 1, 2, …, ⌈log₂(1/ε)⌉, with q = π̂_{l−1}:
#         n_l = 1568 s² log(1/δ_l) min_p max_π ‖φ_π − φ_q‖²_{A(p)⁻¹}/(ε_l + Δ̂_{l−1}(π)/4)²   (corrections, row 7)
#         Δ̂_l(π, q) = Cat{⟨φ_q − φ_π, A(p)⁻¹ φ(c_i, a_i) r_i⟩}, or 0 where n_l < 4 log(1/δ_l)  (corrections, row 3)
#         π̂_l = argmin_π Δ̂_l(π, q)                                                  (corrections, row 4)
#         Δ̂_l(π) = Δ̂_l(π, q) − Δ̂_l(π̂_l, q) ≥ 0                                      (corrections, row 14)
#         stop with π̂_l also when Δ̂_l(π) > (√2/7) ε_l for every π of another φ_π: no best policy has that much
#
# The proof is in docs/realizable.md.


@dataclass(frozen=True, eq=False)
class FeatureGapState(FeatureState):
    """The state of RAGE without elimination: estimated gaps of every policy.

    best: the index of `policy`, which is π̂_{l−1}.
    gaps (|Π|,): Δ̂_{l−1} ≥ 0 against it.
    """

    best: int = field(kw_only=True)
    gaps: FloatArray = field(kw_only=True)


@dataclass(frozen=True)
class RageFreeFeatures(FeatureRage):
    """Non-elimination Contextual RAGE, assuming rewards that are linear in given features."""

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
