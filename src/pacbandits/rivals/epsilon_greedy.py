"""ε-greedy (Auer, Cesa-Bianchi and Fischer 2002): the empirically best policy, mixed with uniform exploration.

    after t interactions:
        with probability  ε_t = min(1, c A / (d² t))   play any action, all alike
        else                                           play what the policy of largest estimated value would

**Source.** Auer, Cesa-Bianchi and Fischer, "Finite-time analysis of the multiarmed bandit problem", Machine Learning
2002, Theorem 3, for A arms without contexts: d is a lower bound on the gap between the best arm and the next, and arms
are judged by their mean rewards. With contexts and a class of policies, policies are judged by weighted rewards in the
place of means, all rounds weighted as one (`balance`): with weights 1/p, which grow like t, estimates would not settle.

**Tuning.** `explore` is c and `gap` is d. The theorem wants c > 5 and a d that nobody knows; the paper's experiments
(not checked against the text) have c about 0.1, and so has the default, at the d that is true. A default d of 0.1 is a
choice of ours. A class of many policies needs log|Π| times as much as arms do.

**Guarantees.** For arms, regret of order (A/d²) log t where c and d are as the theorem wants; nothing of the policy
that is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.checks import number, positive, settle
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log, likeliest
from pacbandits.rivals.balance import Balance
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Budgeted, Growth, Play, RivalState
from pacbandits.rivals.samplers import PolicyMixture
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

DEFAULT_EXPLORE = 0.1
DEFAULT_GAP = 0.1

Explore = Annotated[float, About("exploration: c of the share c A/(d² t)", above=0)]
Gap = Annotated[float, About("d of the share c A/(d² t): the least gap between the best and another", above=0, most=1)]


@dataclass(frozen=True)
class EpsilonGreedy(Budgeted):
    """Explore at random with a probability that falls like 1/t, else act on the best policy so far.

    explore: c, how much is explored.
    gap: d, the least gap that is hoped for.
    """

    name: ClassVar[str] = "epsilon-greedy"
    profile: ClassVar[Profile] = Profile(
        name="epsilon-greedy",
        source="Auer, Cesa-Bianchi and Fischer 2002: exploration for a share c A/(d² t), else the best policy so far",
        classes="any",
        assumes="nothing of rewards but independence; a gap d of the best policy",
        guarantees="for arms regret of order (A/d²) log t; nothing of the answer",
        samples="its budget",
        proves=False,
    )

    explore: float = field(default=DEFAULT_EXPLORE, kw_only=True)
    gap: float = field(default=DEFAULT_GAP, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, explore=positive(self.explore, name="explore"), gap=number(self.gap, name="gap", above=0, most=1))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        explore: Explore = DEFAULT_EXPLORE,
        gap: Gap = DEFAULT_GAP,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> EpsilonGreedy:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), explore=explore, gap=gap, budget=budget, growth=growth)

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> Balance:
        """Return the balance before the first round."""
        return Balance.nothing(contexts, n_actions=policies.n_actions)

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> Balance:
        """Return the balance after the round."""
        return state.memory.with_round(plan, seen)

    def play(self, state: RivalState) -> Play:
        """Return the best policy so far, mixed with uniform exploration."""
        n_actions = state.policies.n_actions
        share = min(1.0, self.explore * n_actions / (self.gap**2 * max(state.samples, 1)))
        mixture = PolicyMixture((likeliest(state.policy),), np.ones(1), floor=share / n_actions)
        return Play(mixture, details={"explored": share})

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of largest estimated value."""
        return state.policies.argmax(seen.contexts, memory.scores(seen)), 1
