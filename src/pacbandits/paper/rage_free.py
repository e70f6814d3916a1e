"""Non-elimination Contextual RAGE (the paper's Algorithm `naive`): gaps instead of a set of survivors.

    π̂_0 arbitrary, Δ̂_0 ≡ 0                                                       (corrections, row 17)
    for l = 1, 2, …, ⌈log₂(1/ε)⌉, with q = π̂_{l−1}:
        n_l = least n with min_p max_π −Δ̂_{l−1}(π)/4 + 28 √(2 s² V_π(p; q) log(1/δ_l)/n) ≤ ε_l
            = 1568 s² log(1/δ_l) min_p max_π V_π/(ε_l + Δ̂_{l−1}(π)/4)²              (corrections, row 7)
        Δ̂_l(π, q) = Cat{r_i/p_i (1{q(c_i) = a_i} − 1{π(c_i) = a_i})}                (corrections, row 3)
        π̂_l = argmin_π Δ̂_l(π, q)                                                  (corrections, row 4)
        Δ̂_l(π) = Δ̂_l(π, q) − Δ̂_l(π̂_l, q) ≥ 0                                      (corrections, row 14)
        stop with π̂_l also when Δ̂_l(π) > (√2/7) ε_l for every π that acts unlike it: no best policy has that much

Gaps are clipped to ± P(π ≠ q), which the truth never exceeds, so that a round may be as short as the formula says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.confidence import (
    RAGE_FREE_BEST_GAP,
    RAGE_FREE_FACTOR,
    RAGE_FREE_SLOPE,
    catoni_scale,
    ratio_samples,
    round_epsilon,
)
from pacbandits.design import Shifted, solve_listed
from pacbandits.paper.estimators import Cells, catoni_gaps
from pacbandits.paper.rounds import PaperAlgorithm, all_alike, disagreements, listed, stands_alone, variances
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log, Policy
from pacbandits.trials.protocol import Plan, Profile, State, check_played


@dataclass(frozen=True, eq=False)
class GapState(State):
    """The state of algorithms with estimated gaps of every policy.

    listing: Π as a list.
    gaps (|Π|,): Δ̂_{l−1} ≥ 0 against `policy`, which is π̂_{l−1}.
    """

    policy: Policy
    listing: PolicyClass = field(kw_only=True)
    gaps: FloatArray = field(kw_only=True)


def start_without_gaps(listing: PolicyClass, contexts: Contexts, *, any_will_do: bool) -> GapState:
    """Return the state with Δ̂_0 ≡ 0 against the first policy of the list; finished if all act alike or any will do."""
    finished = any_will_do or all_alike(np.asarray(listing.actions(contexts)), contexts)
    return GapState(
        listing, contexts, listing.policy(0), finished=finished, listing=listing, gaps=np.zeros(len(listing))
    )


@dataclass(frozen=True)
class RageFree(PaperAlgorithm):
    """Non-elimination Contextual RAGE."""

    name: ClassVar[str] = "rage-free"
    profile: ClassVar[Profile] = Profile(
        name="rage-free",
        source="Non-elimination Contextual RAGE: gaps of all policies against the best so far",
        classes="classes that can be listed",
        assumes="mean rewards in [0, 1], a bound on E[r²], the distribution of contexts",
        guarantees="(ε, δ)-PAC",
        samples="n_l = 1568 s² log(1/δ_l) min_p max_π V/(ε_l + Δ̂/4)², Catoni's mean",
    )

    def start(self, policies: PolicyClass, contexts: Contexts) -> GapState:
        listing = listed(policies, algorithm=self.name)
        return start_without_gaps(listing, contexts, any_will_do=self.any_will_do)

    def design(self, state: GapState, *, progress: Progress | None = None) -> Plan | None:
        number = state.round_number + 1
        if state.finished:
            return None
        solution = solve_listed(
            state.listing,
            state.contexts,
            reference=state.policy,
            accuracy=Shifted(round_epsilon(number), RAGE_FREE_SLOPE)(state.gaps),
            floor=self.floor / state.listing.n_actions,
            tolerance=self.precision,
        )
        samples = ratio_samples(
            solution.upper,
            factor=RAGE_FREE_FACTOR,
            confidence=self.confidence(state.listing, number),
            second_moment=self.rewards.second_moment,
            scale=self.scale,
        )
        return self.plan(state, sampler=solution.design, samples=samples, details={"ratio": solution.upper})

    def absorb(self, state: GapState, plan: Plan, log: Log) -> GapState:
        check_played(state, plan, log, rewards=self.rewards)
        gaps = self._estimate(state, plan, log, reference=state.policy)
        best = int(gaps.argmin())
        gaps = gaps - gaps[best]
        alone = stands_alone(
            best, gaps, listing=state.listing, contexts=state.contexts, most=RAGE_FREE_BEST_GAP * plan.epsilon
        )
        return state.after(
            plan,
            log,
            policy=state.listing.policy(best),
            finished=alone or self.fine_enough(plan.round_number),
            gaps=gaps,
        )

    def _estimate(self, state: GapState, plan: Plan, log: Log, *, reference: Policy) -> FloatArray:
        """Return Δ̂_l(π, q) (|Π|,)."""
        cells = Cells.of(log)
        table, own = np.ascontiguousarray(state.listing.actions(state.contexts)), reference(state.contexts)
        spread = variances(table, reference=own, contexts=state.contexts, sampler=plan.sampler)
        gaps = catoni_gaps(
            cells,
            np.ascontiguousarray(state.listing.actions(cells.contexts)),
            reference=reference(cells.contexts),
            alpha=catoni_scale(
                self.rewards.second_moment * spread,
                samples=log.samples,
                confidence=self.confidence(state.listing, plan.round_number),
            ),
        )
        most = disagreements(table, reference=own, contexts=state.contexts)
        return np.clip(gaps, -most, most)
