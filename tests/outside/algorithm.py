"""An algorithm from outside the package: uniform exploration, then the policy of the largest estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import pacbandits as pb


@dataclass(frozen=True)
class ExploreThenCommit:
    """Play rounds of `samples` with every action equally likely, then take the best policy; nothing is promised."""

    name: ClassVar[str] = "explore-then-commit"

    samples: int
    rounds: int = 2

    def start(self, policies: Any, contexts: Any) -> pb.State:
        anything = policies.argmax(contexts, np.zeros((len(contexts), policies.n_actions)))
        return pb.State(policies, contexts, anything)

    def design(self, state: pb.State, *, progress: Any = None) -> pb.Plan | None:
        if state.finished:
            return None
        return pb.Plan(state.round_number + 1, 1.0, pb.Design.uniform(state.policy), self.samples)

    def absorb(self, state: pb.State, plan: pb.Plan, log: pb.Log) -> pb.State:
        seen = log if state.log is None else state.log.followed_by(log)
        scores = np.zeros((len(seen), seen.n_actions))
        scores[np.arange(len(seen)), seen.actions] = seen.repeats * seen.rewards / seen.played_propensities
        best = state.policies.argmax(seen.contexts, scores)
        return state.after(plan, log, policy=best, finished=plan.round_number == self.rounds, log=seen)

    def result(self, state: pb.State) -> pb.Answer:
        return pb.Answer(state.policy, state.finished, "none: the estimate may be wrong")
