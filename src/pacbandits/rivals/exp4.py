"""EXP4 (Auer, Cesa-Bianchi, Freund and Schapire 2002): exponential weights over policies, by their estimated rewards.

    after t interactions, with b the mean reward and Ŷ_π = Σ (r − b) 1{π(c) = a}/p(a|c), what policy π would have earned
    more than b, as estimated:
        γ = min(1, c √(A log|Π| / ((e − 1) t))),   η = ρ min(1, √(A log|Π| / ((e − 1) t))) / A
        w_π = exp(η Ŷ_π), made to sum to 1
        play  p(a|c) = (1 − γ) Σ_π w_π 1{π(c) = a} + γ/A

**Source.** Auer, Cesa-Bianchi, Freund and Schapire, "The nonstochastic multiarmed bandit problem", SIAM Journal on
Computing 2002, Section 7. There γ is fixed from the horizon and w_π grows by the factor exp(γŷ/A) an interaction; here
t stands for the horizon, as far as it has come, so that nobody needs to know it, and weights follow from all that was
earned at the rate of now. Policies are experts that advise one action each. Weights change between rounds. Rewards
less their mean are ours (`balance`): weights follow the better policies with far less noise, and the proof, by
exp(x) ≤ 1 + x + (e − 2)x² for x ≤ 1, is as good for rewards less any number in [0, 1] that is fixed beforehand.

**Tuning.** `explore` is c and `rate` is ρ, both 1 as published; the proof wants ρ ≤ c. Lattimore and Szepesvári,
"Bandit algorithms", 2020, Theorem 18.1, do without exploration at the rate √(2 log|Π|/(At)), which is ρ = 1.85, for
losses in the place of rewards; with rewards less their mean a small c and a ρ of 2 or 3 come near to that.

**Guarantees.** The paper's: expected regret of at most 2.63 √(A log|Π| t) at a horizon t that is known, even against
rewards that an adversary chose, as long as they lie in [0, 1]. It is not proven for what differs here: t for the
horizon, rounds, a mean that moves. Nothing of the policy that is learnt; the paper names none, and here it is that of
largest Ŷ, and so of largest weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, read_only
from pacbandits.checks import positive, settle
from pacbandits.compiled import kernel
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.balance import best_by_centred_scores, mean_reward
from pacbandits.rivals.base import (
    DEFAULT_BUDGET,
    DEFAULT_GROWTH,
    Budget,
    Budgeted,
    Growth,
    Play,
    RivalState,
    check_listed,
)
from pacbandits.rivals.samplers import floored
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

MOST_POLICIES = 200_000
NEGLIGIBLE = 1e-15  # weight, against the largest; such a policy is left out of the mixture

Explore = Annotated[float, About("exploration: multiplies the share γ; 1 as published", above=0)]
Rate = Annotated[float, About("multiplies the learning rate; 1 as published", above=0)]


@dataclass(frozen=True, eq=False)
class ExpertMixture:
    """A mixture of the listed policies, with a minimum propensity.

    policies: the class.
    weights (|Π|,): of its policies, which sum to 1.
    floor: the smallest probability, at most 1/A.
    """

    policies: PolicyClass
    weights: FloatArray
    floor: float

    @property
    def n_actions(self) -> int:
        return self.policies.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        out = np.zeros((len(contexts), self.n_actions))
        _add_weights(read_only(self.policies.actions(contexts)), read_only(self.weights), out)
        return floored(out, self.floor)


@kernel
def _add_weights(actions: np.ndarray[Any, Any], weights: FloatArray, out: FloatArray) -> None:
    """Add the weight (K,) of each policy to its actions (K, n) in `out` (n, A)."""
    for k in range(actions.shape[0]):
        if weights[k] > 0.0:
            for c in range(actions.shape[1]):
                out[c, actions[k, c]] += weights[k]


def exponential_weights(totals: FloatArray, *, rate: float) -> FloatArray:
    """Return `exp(η Ŷ)` of totals (K,), normalised to sum to 1; the largest total is subtracted first."""
    weights = np.exp(rate * (totals - totals.max()))
    weights[weights < NEGLIGIBLE] = 0.0
    return weights / weights.sum()


@dataclass(frozen=True)
class Exp4(Budgeted):
    """EXP4: a mixture of all policies, with weights that grow with their estimated rewards.

    explore: c, which multiplies the share of exploration.
    rate: ρ, which multiplies the learning rate.
    """

    name: ClassVar[str] = "exp4"
    profile: ClassVar[Profile] = Profile(
        name="exp4",
        source="Auer, Cesa-Bianchi, Freund and Schapire 2002: exponential weights of policies by what they would earn",
        classes=f"lists of up to {MOST_POLICIES:,} policies",
        assumes="rewards in [0, 1], even an adversary's",
        guarantees="regret of order √(A log|Π| t); nothing of the answer",
        samples="its budget",
        proves=False,
    )

    explore: float = field(default=1.0, kw_only=True)
    rate: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, explore=positive(self.explore, name="explore"), rate=positive(self.rate, name="rate"))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        explore: Explore = 1.0,
        rate: Rate = 1.0,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> Exp4:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), explore=explore, rate=rate, budget=budget, growth=growth)

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> FloatArray:
        """Return zeros: sums of each policy's rewards and of its weights 1/p."""
        return np.zeros((2, len(check_listed(policies, name=self.name, most=MOST_POLICIES))))

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> FloatArray:
        """Return the sums of r/p and of 1/p over the rows on which each policy agrees with the action, (2, |Π|)."""
        policies = _listed(state.policies)
        if seen.contexts.ids is not None:
            actions = policies.actions(seen.contexts)
            return np.stack([sum_scores(actions, each) for each in (seen.scores, seen.inverses)])
        # Without ids every row is a context of its own, and those of earlier rounds have been counted.
        new = np.arange(len(state.seen.contexts), len(seen.contexts))
        actions = policies.actions(seen.contexts.take(new))
        return state.memory + np.stack([sum_scores(actions, each[new]) for each in (seen.scores, seen.inverses)])

    def play(self, state: RivalState) -> Play:
        """Return the mixture of policies by their weights, mixed with uniform exploration."""
        n_actions, policies = state.policies.n_actions, _listed(state.policies)
        published = math.sqrt(n_actions * policies.log_size / ((math.e - 1.0) * max(state.samples, 1)))
        share, rate = min(1.0, self.explore * published), self.rate * min(1.0, published) / n_actions
        earned, inverses = state.memory
        weights = exponential_weights(earned - mean_reward(state.seen) * inverses, rate=rate)
        return Play(
            ExpertMixture(policies, weights, share / n_actions),
            details={"explored": share, "largest_weight": float(weights.max())},
        )

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of largest value, by centred rewards weighted by 1/p."""
        return best_by_centred_scores(state.policies, seen)


def _listed(policies: PolicyClass) -> PolicyClass:
    return check_listed(policies, name=Exp4.name, most=MOST_POLICIES)
