"""A policy class from outside the package: one action up to a threshold of one feature, another above it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import pacbandits as pb


@dataclass(frozen=True)
class Step:
    """`low` where the feature is at most the threshold, else `high`."""

    feature: str
    threshold: float
    low: int
    high: int
    n_actions: int

    def __call__(self, contexts: pb.Contexts) -> np.ndarray:
        values = contexts.features[:, contexts.names.index(self.feature)]
        return np.where(values <= self.threshold, self.low, self.high)

    def describe(self) -> str:
        return f"action {self.low} if {self.feature} ≤ {self.threshold:g}, else action {self.high}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "step", **vars(self)}


@dataclass(frozen=True)
class Steps:
    """All steps of one feature at some thresholds."""

    feature: str
    thresholds: tuple[float, ...]
    n_actions: int

    exact = True

    @property
    def log_size(self) -> float:
        return math.log(len(self.thresholds) * self.n_actions**2)

    def argmax(self, contexts: pb.Contexts, scores: np.ndarray) -> Step:
        values = contexts.features[:, contexts.names.index(self.feature)]
        found: list[tuple[float, Step]] = []
        for threshold in self.thresholds:
            below = values <= threshold
            sums = scores[below].sum(axis=0), scores[~below].sum(axis=0)
            low, high = (int(part.argmax()) for part in sums)
            step = Step(self.feature, threshold, low, high, self.n_actions)
            found.append((float(sums[0][low] + sums[1][high]), step))
        return max(found, key=lambda one: one[0])[1]

    def has(self, policy: object) -> bool:
        return isinstance(policy, Step) and (policy.feature, policy.n_actions) == (self.feature, self.n_actions)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "steps", **vars(self), "thresholds": list(self.thresholds)}

    def policy_from_json(self, value: dict[str, Any]) -> Step:
        return Step(**{name: value[name] for name in ("feature", "threshold", "low", "high", "n_actions")})


class SilentSteps(Steps):
    """The same, but it cannot be written down."""

    to_json = None
    policy_from_json = None


def all_steps(policies: Steps) -> list[Step]:
    """Every policy of the class."""
    pairs = itertools.product(policies.thresholds, range(policies.n_actions), range(policies.n_actions))
    return [Step(policies.feature, t, low, high, policies.n_actions) for t, low, high in pairs]
