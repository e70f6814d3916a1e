"""The base of baselines that assume linear rewards: one fit per round, the noise they assume, and their answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from pacbandits.checks import shown
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.base import Budgeted, RivalState
from pacbandits.rivals.regression import ContextCoordinates, Regression, best_by_regression, fit_ridge
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan

RadiusRule = Literal["constant", "theory"]


@dataclass(frozen=True)
class Fitted(Budgeted):
    """A baseline that keeps a ridge regression of all observations, with λ = 1, and answers by it."""

    @property
    def noise(self) -> float:
        """R², the assumed sub-Gaussian proxy of the noise: if it is unknown, the bound on E[r²]."""
        return self.rewards.second_moment if self.rewards.proxy is None else self.rewards.proxy

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> Regression:
        """Return the fit to no observations."""
        return _fit(Seen.nothing(contexts, n_actions=policies.n_actions), contexts)

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> Regression:
        """Return the fit to all observations."""
        return _fit(seen, state.contexts)

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of the class with the largest predicted value."""
        return best_by_regression(state.policies, seen, coordinates=ContextCoordinates.of(state.contexts))


def _fit(seen: Seen, contexts: Contexts) -> Regression:
    """Return the fit, with features centred and scaled as those of the contexts known in advance."""
    return fit_ridge(seen, coordinates=ContextCoordinates.of(contexts))


def check_radius(radius: object) -> RadiusRule:
    """Return the radius rule; raise InputError unless it is known."""
    if radius not in get_args(RadiusRule):
        raise InputError(f"radius must be constant or theory, got {shown(radius)}")
    return cast(RadiusRule, radius)
