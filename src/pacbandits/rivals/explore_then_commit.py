"""Explore-then-commit: explore uniformly for a share of the budget, then play the empirically best policy.

    n₀ = min(T, c T^{2/3} (A log(|Π|/δ))^{1/3})   for a budget of T interactions
    play any action, all alike, n₀ times
    then play the policy of largest estimated value Σ (r − b) 1{π(c) = a}/p(a|c), whatever comes

**Source.** Folklore, of the kind that Robbins, "Some aspects of the sequential design of experiments", 1952, began;
with a class of policies it is what Langford and Zhang, "The epoch-greedy algorithm for contextual multi-armed bandits",
NIPS 2007, start from where the horizon is known. After n₀ interactions the policy chosen is worse than the best by
about √(A log(|Π|/δ)/n₀), which is lost T times, and n₀ makes that as much as exploration loses. Rewards are centred by
their mean b (`balance`).

**Tuning.** `explore` is c; 1 is what balances the two. A c so large that n₀ = T plays at random throughout.

**Guarantees.** Regret of order T^{2/3} (A log|Π|)^{1/3}; nothing of the policy that is learnt. Once it has committed it
plays one action a context with certainty, so that the log of that part says nothing of other policies: nothing more is
learnt, and nothing more can be certified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.checks import positive, settle
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Chosen, likeliest
from pacbandits.rivals.balance import best_by_centred_scores
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Budgeted, Growth, Play, RivalState
from pacbandits.rivals.samplers import PolicyMixture, even
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

Explore = Annotated[float, About("exploration: c of c T^(2/3) (A log(|Π|/δ))^(1/3) interactions", above=0)]


@dataclass(frozen=True)
class ExploreThenCommit(Budgeted):
    """Explore uniformly for a share of the budget, then play the empirically best policy.

    explore: c, how much is explored.
    """

    name: ClassVar[str] = "explore-then-commit"
    profile: ClassVar[Profile] = Profile(
        name="explore-then-commit",
        source="folklore: even play for a share of the budget, then the policy that looked best, for good",
        classes="any",
        assumes="nothing of rewards but independence",
        guarantees="regret of order T^(2/3) (A log|Π|)^(1/3); nothing of the answer",
        samples="its budget",
        proves=False,
    )

    explore: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, explore=positive(self.explore, name="explore"))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        explore: Explore = 1.0,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> ExploreThenCommit:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), explore=explore, budget=budget, growth=growth)

    def exploration(self, policies: PolicyClass) -> int:
        """n₀, the number of exploring interactions."""
        size = policies.n_actions * (policies.log_size + math.log(1.0 / self.delta))
        wanted = self.explore * self.budget ** (2.0 / 3.0) * size ** (1.0 / 3.0)
        return math.ceil(min(float(self.budget), wanted))

    def design(self, state: RivalState, *, progress: Progress | None = None) -> Plan | None:
        """Return the plan of the next round, which ends where exploration does."""
        plan = super().design(state, progress=progress)
        left = self.exploration(state.policies) - state.samples
        return plan if plan is None or left <= 0 else replace(plan, samples=min(plan.samples, left))

    def play(self, state: RivalState) -> Play:
        """Return uniform exploration, and after it the empirically best policy."""
        if state.samples < self.exploration(state.policies):
            return Play(even(state.policies.n_actions), details={"explored": 1.0})
        return Play(PolicyMixture((likeliest(state.policy),), np.ones(1)), details={"explored": 0.0})

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of largest value, by centred rewards weighted by 1/p, from exploration alone."""
        if state.samples >= self.exploration(state.policies):
            return state.policy, 0
        return best_by_centred_scores(state.policies, seen)
