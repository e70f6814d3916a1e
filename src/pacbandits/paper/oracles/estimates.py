"""What the steps of CODA and FW-GD are given: estimates of every policy, and γ of some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_scores
from pacbandits.records import Contexts, Policy


@dataclass(frozen=True, eq=False)
class Estimates:
    """What a round knows of every policy, as scores on contexts, one row each.

    gaps (n, A): their sum over π's actions is Δ̂_π.
    costs (n, A): not negative; their sum over π's actions is V_π(p; q).
    confidence: L = log(1/δ_l).
    samples: n of the round.
    """

    gaps: FloatArray
    costs: FloatArray
    confidence: float
    samples: float

    def checked(self, policies: PolicyClass, contexts: Contexts) -> Estimates:
        """The same with finite arrays of the right shape and positive numbers, or a sentence."""
        gaps = check_scores(self.gaps, contexts=contexts, n_actions=policies.n_actions, name="gaps")
        costs = check_scores(self.costs, contexts=contexts, n_actions=policies.n_actions, name="costs")
        if costs.min() < 0:
            raise InputError(f"costs are parts of a variance and must not be negative, got {costs.min():.6g}")
        check_positive(confidence=self.confidence, samples=self.samples)
        return replace(self, gaps=gaps, costs=costs)


@dataclass(frozen=True, eq=False)
class SupportGammas:
    """γ_π as printed: one for each policy of the support, and a common one for all others.

    support: m policies.
    gammas (m,): their γ.
    common_gamma: γ of every other policy.
    support_gaps (m,): Δ̂_π of the support, where those were estimated with other γ than the gaps of all; else None.
    """

    support: Sequence[Policy]
    gammas: ArrayLike
    common_gamma: float
    support_gaps: ArrayLike | None = None

    def checked_gammas(self) -> FloatArray:
        """γ (m,) of the support, or a sentence when one of them or the common one is not positive."""
        gammas = floats(self.gammas, name="gammas", shape=(len(self.support),))
        check_positive(common_gamma=self.common_gamma, gammas=gammas)
        return gammas

    def checked_gaps(self, otherwise: FloatArray) -> FloatArray:
        """Δ̂ (m,) of the support; what is given for `otherwise` where they have no estimate of their own."""
        if self.support_gaps is None:
            return otherwise
        return floats(self.support_gaps, name="support_gaps", shape=(len(self.support),))


def check_positive(**values: ArrayLike) -> None:
    """Raise unless every value (or entry of one) is positive and finite."""
    for name, value in values.items():
        array = np.asarray(value)
        bad = array[~((array > 0) & (array < np.inf))]
        if bad.size:
            raise InputError(f"{name} must be positive and finite, got {bad[0]}")
