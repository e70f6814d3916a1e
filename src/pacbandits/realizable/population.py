"""The contexts that a certificate for linear rewards speaks of, and what is to be compared on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.features import FeatureMap
from pacbandits.realizable.span import Span
from pacbandits.records import Contexts


@dataclass(frozen=True, eq=False)
class Population:
    """The contexts that can occur and what is to be compared on them, in the coordinates of the span.

    contexts: N of them.
    features: φ.
    span: of the features.
    phi (N, A, r): φ, in its coordinates.
    points (|Π|, r): φ_π of a listed class, None for all policies.
    """

    contexts: Contexts
    features: FeatureMap
    span: Span
    phi: FloatArray
    points: FloatArray | None

    @classmethod
    def of(cls, policies: PolicyClass, contexts: Contexts, features: FeatureMap) -> Population:
        """For a class that can be listed, its policies; for any other, all policies."""
        here = contexts.only(contexts.weights > 0)
        phi = features(here)
        span = Span.of(phi, here.weights)
        own = span.coordinates(phi)
        points = None
        if policies.lists_policies:
            points = mean_features(own, here.weights, np.asarray(policies.actions(here)))
        return cls(here, features, span, own, points)

    @property
    def rows(self) -> IntArray:
        return np.arange(len(self.phi))

    def mean(self, actions: IntArray) -> FloatArray:
        """φ_π (r,) of the policy that takes these actions (N,)."""
        return self.contexts.weights @ self.phi[self.rows, actions]


def mean_features(phi: FloatArray, weights: FloatArray, actions: np.ndarray[Any, Any]) -> FloatArray:
    """φ_π = Σ_c ν_c φ(c, π(c)) (K, d) for every row of a table of actions (K, N)."""
    rows = np.arange(len(phi))
    return np.stack([weights @ phi[rows, own] for own in actions])
