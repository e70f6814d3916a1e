"""The base of two baselines that play weights of policies, found by coordinate descent after every round."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.balance import centred_scores
from pacbandits.rivals.base import Budgeted, Play, RivalState
from pacbandits.rivals.coordinate_descent import Constraint, PolicyWeights, solve
from pacbandits.rivals.samplers import PolicyMixture
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan


@dataclass(frozen=True)
class WeightedPolicies(Budgeted):
    """A baseline that plays weights of policies; it defines the constraint on the weights."""

    @abstractmethod
    def constraint(self, policies: PolicyClass, samples: float) -> Constraint:
        """Return the constraint on the weights after this many interactions."""

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> PolicyWeights:
        """Return no weights on any policy."""
        known = contexts.tallied()
        best = policies.argmax(known, np.zeros((len(known), policies.n_actions)))
        return PolicyWeights.nothing(best, n_contexts=len(known))

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> PolicyWeights:
        """Return the weights of the next round, starting from the last; losses are estimated by centred rewards."""
        constraint = self.constraint(state.policies, seen.samples)
        centred = replace(seen, scores=centred_scores(seen))
        return solve(state.policies, centred, constraint=constraint, start=state.memory)

    def play(self, state: RivalState) -> Play:
        """Return the weights, with the best policy for the rest, and a minimum propensity."""
        constraint = self.constraint(state.policies, state.samples)
        policies, weights = state.memory.mixture()
        figures = {"least": constraint.floor, "weight": float(weights[:-1].sum()), "drawn": len(policies)}
        return Play(PolicyMixture(policies, weights, floor=constraint.floor), details=figures)

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of largest value, by centred rewards weighted by 1/p."""
        return memory.best, memory.oracle_calls
