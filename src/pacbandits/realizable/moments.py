"""The moments of a log for linear rewards, and the contexts of a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.features import FeatureMap
from pacbandits.realizable.features import Span
from pacbandits.records import Contexts, Log

# Information and moments of a log, by round, in the span of the features.


# If the smallest eigenvalue of the information is at most this share of the largest, a direction is unseen.
_MAX_SINGULAR_SHARE = 1e-10


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of K rounds.

    information (K, r, r): Σ φφᵀ.
    totals (K, r): Σ φ r.
    samples (K,): interactions.
    """

    information: FloatArray
    totals: FloatArray
    samples: IntArray

    @classmethod
    def of(cls, log: Log, features: FeatureMap, span: Span) -> Moments:
        """Return the moments of a log, its rounds in the order of their numbers."""
        numbers = np.unique(log.rounds)
        parts = [_moments(log.only(log.rounds == number), features, span) for number in numbers]
        return cls(np.stack([p[0] for p in parts]), np.stack([p[1] for p in parts]), np.array([p[2] for p in parts]))

    def followed_by(self, later: Moments) -> Moments:
        """Return these rounds followed by the other's."""
        return Moments(
            np.concatenate([self.information, later.information]),
            np.concatenate([self.totals, later.totals]),
            np.concatenate([self.samples, later.samples]),
        )

    def after(self, rounds: int) -> Moments:
        """Return the moments without the first rounds."""
        return Moments(self.information[rounds:], self.totals[rounds:], self.samples[rounds:])

    @property
    def singular(self) -> bool:
        """Whether all rounds together leave some direction of the span unseen."""
        values = np.linalg.eigvalsh(self.information.sum(axis=0))
        return len(self.samples) == 0 or bool(values[0] <= _MAX_SINGULAR_SHARE * max(values[-1], 1e-300))

    def estimate(self) -> FloatArray:
        """Return the least-squares estimate over all rounds (r,); of minimum norm if the information is singular."""
        inverse = np.asarray(np.linalg.pinv(self.information.sum(axis=0), rcond=_MAX_SINGULAR_SHARE), dtype=np.float64)
        return inverse @ self.totals.sum(axis=0)

    def each_round(self) -> tuple[FloatArray, FloatArray]:
        """Return estimates (K, r) and inverse information (K, r, r) of the rounds that see every direction."""
        values = np.linalg.eigvalsh(self.information)
        whole = values[:, 0] > _MAX_SINGULAR_SHARE * np.maximum(values[:, -1], 1e-300)
        inverse = np.asarray(np.linalg.inv(self.information[whole]), dtype=np.float64)
        return np.einsum("kij,kj->ki", inverse, self.totals[whole]), inverse


def played_coordinates(log: Log, features: FeatureMap, span: Span) -> FloatArray:
    """Return φ(c_i, a_i) of the rows of a log, in the coordinates of the span (n, r); raise if it lies outside."""
    phi = features.played(log.contexts, log.actions)
    own = span.coordinates(phi)
    missed = np.abs(phi - own @ span.back).max(axis=0, initial=0.0)
    if (missed > 1e-6 * np.maximum(span.scales, np.abs(phi).max(axis=0, initial=0.0))).any():
        raise InputError(
            "the log has features outside the span of those of the given contexts; give contexts that stand for the log"
        )
    return own


def _moments(log: Log, features: FeatureMap, span: Span) -> tuple[FloatArray, FloatArray, int]:
    own = played_coordinates(log, features, span)
    weighted = own * log.repeats[:, None]
    return weighted.T @ own, weighted.T @ log.rewards, log.samples


# The contexts of a certificate for linear rewards, and the policies that are compared on them.


@dataclass(frozen=True, eq=False)
class Population:
    """The contexts that can occur and the policies that are compared, in the coordinates of the span.

    contexts: N of them.
    features: φ.
    span: of the features.
    phi (N, A, r): φ, in its coordinates.
    points (|Π|, r): φ_π of a listed class; None for all policies.
    """

    contexts: Contexts
    features: FeatureMap
    span: Span
    phi: FloatArray
    points: FloatArray | None

    @classmethod
    def of(cls, policies: PolicyClass, contexts: Contexts, features: FeatureMap) -> Population:
        """Return the population with the policies of a class that can be listed; for any other, with all policies."""
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
        """Return φ_π (r,) of the policy with these actions (N,)."""
        return self.contexts.weights @ self.phi[self.rows, actions]


def mean_features(phi: FloatArray, weights: FloatArray, actions: np.ndarray[Any, Any]) -> FloatArray:
    """Return φ_π = Σ_c ν_c φ(c, π(c)) (K, d) for every row of a table of actions (K, N)."""
    rows = np.arange(len(phi))
    return np.stack([weights @ phi[rows, own] for own in actions])
