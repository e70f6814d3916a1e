"""Epoch-greedy (Langford and Zhang 2007): alternate random exploration with the best policy learnt so far.

    in round k, after t interactions:
        with probability  s_t = min(1, c (A log(|Π|/δ) / t)^{1/3})   play any action, all alike
        else                                                         play what the best policy so far would

**Source.** Langford and Zhang, "The epoch-greedy algorithm for contextual multi-armed bandits", NIPS 2007. Theirs takes
one step of exploration and then ⌊1/ε(n)⌋ steps of exploitation, for a bound ε(n) on the error after n steps of
exploration; with the bound of a class of size |Π|, ε(n) = √(A log(|Π|/δ)/n), exploration is a share t^{−1/3} of all.
Here the share is a probability, so that each interaction has propensities that are known; and all interactions are
learnt from, weighted by 1/p and centred (`balance`), not those of exploration alone.

**Tuning.** `explore` is c; 1 is what the bound asks for.

**Guarantees.** Regret of order t^{2/3} (A log|Π|)^{1/3}; nothing of the policy that is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.checks import positive, settle
from pacbandits.options import About
from pacbandits.records import Chosen, likeliest
from pacbandits.rivals.balance import best_by_centred_scores
from pacbandits.rivals.base import (
    DEFAULT_BUDGET,
    DEFAULT_GROWTH,
    Budget,
    Budgeted,
    Growth,
    Play,
    RivalState,
)
from pacbandits.rivals.samplers import PolicyMixture
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Profile, Setting

Explore = Annotated[float, About("exploration: c of the share c (A log(|Π|/δ)/t)^(1/3)", above=0)]


@dataclass(frozen=True)
class EpochGreedy(Budgeted):
    """Explore at random with a probability that falls like t^{−1/3}, else act on the best policy so far.

    explore: c, how much is explored.
    """

    name: ClassVar[str] = "epoch-greedy"
    profile: ClassVar[Profile] = Profile(
        name="epoch-greedy",
        source="Langford and Zhang 2007: exploration for a share t^(-1/3) of all, else the best policy so far",
        classes="any",
        assumes="nothing of rewards but independence",
        guarantees="regret of order t^(2/3) (A log|Π|)^(1/3); nothing of the answer",
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
    ) -> EpochGreedy:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), explore=explore, budget=budget, growth=growth)

    def play(self, state: RivalState) -> Play:
        """Return the best policy so far, mixed with uniform exploration."""
        n_actions = state.policies.n_actions
        size = state.policies.log_size + np.log(1.0 / self.delta)
        share = min(1.0, self.explore * (n_actions * size / max(state.samples, 1)) ** (1.0 / 3.0))
        mixture = PolicyMixture((likeliest(state.policy),), np.ones(1), floor=share / n_actions)
        return Play(mixture, details={"explored": share})

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of largest value, by centred rewards weighted by 1/p."""
        return best_by_centred_scores(state.policies, seen)
