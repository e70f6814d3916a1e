"""Policy classes that count the calls made to their oracles."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.base import EnumeratedClass, Frontier, FrontierClass, PolicyClass
from pacbandits.records import Contexts, Policy


class Counting:
    """A policy class that counts the calls made to its oracles."""

    def __init__(self, policies: PolicyClass) -> None:
        self.policies = policies
        self.calls = 0

    @property
    def n_actions(self) -> int:
        return self.policies.n_actions

    @property
    def log_size(self) -> float:
        return self.policies.log_size

    @property
    def exact(self) -> bool:
        return self.policies.exact

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        self.calls += 1
        return self.policies.argmax(contexts, scores)


class CountingFrontier(Counting):
    """The same around a class with a frontier, whose calls count too."""

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        self.calls += 1
        return cast(FrontierClass, self.policies).frontier(contexts, first, second)


class CountingEnumerated(Counting):
    """The same around a class that can be listed; looking at the list is no call."""

    def __len__(self) -> int:
        return len(cast(EnumeratedClass, self.policies))

    def policy(self, index: int) -> Policy:
        return cast(EnumeratedClass, self.policies).policy(index)

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        return cast(EnumeratedClass, self.policies).actions(contexts)


class CountingEnumeratedFrontier(CountingFrontier, CountingEnumerated):
    """The same around a class that has both."""


def counting(policies: PolicyClass) -> Counting:
    """The class wrapped so that its calls are counted; it offers a frontier and a list exactly where it did before."""
    if isinstance(policies, EnumeratedClass):
        kind = CountingEnumeratedFrontier if isinstance(policies, FrontierClass) else CountingEnumerated
    else:
        kind = CountingFrontier if isinstance(policies, FrontierClass) else Counting
    return kind(policies)
