"""What a search through oracles is given and hands back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_scores
from pacbandits.records import Contexts, Policy


@dataclass(frozen=True, eq=False)
class Choice:
    """A policy, the value it attains, what no policy can beat, and the oracle calls it took to know.

    bound: the value itself where the search is exact. Bounds rest on the oracle's being exact, and hold to rounding.
    """

    policy: Policy
    value: float
    bound: float
    calls: int


def check_parts(
    policies: PolicyClass, contexts: Contexts, *, gaps: FloatArray, costs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gaps and costs as finite (n, A) arrays, costs not negative, or a sentence."""
    gaps = check_scores(gaps, contexts=contexts, n_actions=policies.n_actions, name="gaps")
    costs = check_scores(costs, contexts=contexts, n_actions=policies.n_actions, name="costs")
    if costs.min() < 0:
        raise InputError(f"costs are parts of a variance and must not be negative, got {costs.min():.6g}")
    return gaps, costs


def check_positive(**values: ArrayLike) -> None:
    """Raise unless every value (or entry of one) is positive and finite."""
    for name, value in values.items():
        array = np.asarray(value)
        bad = array[~((array > 0) & (array < np.inf))]
        if bad.size:
            raise InputError(f"{name} must be positive and finite, got {bad[0]}")
