"""What a log says of a linear reward: information and moments, a round at a time, in the span of the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.policies.features import FeatureMap
from pacbandits.records import Log

# Of the largest singular value of the features, each scaled by its largest entry: what rounding explains, and what is
# too small to compute with.
_ABSENT, _NEAR = 1e-13, 1e-9
_LARGEST = 1e100
_SINGULAR = 1e-10  # of the largest eigenvalue of a round's information


@dataclass(frozen=True, eq=False)
class Span:
    """Coordinates Bᵀφ for the space that features span: basis B (d, r), and back (r, d) with `φ = backᵀ Bᵀφ` there.

    scales (d,): the largest entry of each feature.
    """

    basis: FloatArray
    back: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, phi: FloatArray, weights: FloatArray) -> Span:
        """The span of φ (N, A, d) over contexts that occur, with `E_ν mean_a (Bᵀφ)(Bᵀφ)ᵀ` the identity."""
        _, n_actions, d = phi.shape
        flat = phi.reshape(-1, d)
        scales = np.abs(flat).max(axis=0, initial=0.0)
        if not scales.any():
            raise InputError("the features are zero everywhere, so nothing can be learnt; give other features")
        if scales.max() > _LARGEST:
            raise InputError(f"features as large as {scales.max():.3g} cannot be computed with; give other units")
        scales[scales == 0] = 1.0
        _, values, rows = np.linalg.svd(np.linalg.qr(flat / scales, mode="r"))
        near = (values > _ABSENT * values[0]) & (values <= _NEAR * values[0])
        if near.any():
            raise InputError(
                "some features are so nearly collinear that least squares cannot tell them apart; centre them "
                "(subtract their means), or leave one out"
            )
        values = values[values > _NEAR * values[0]]
        rows = rows[: len(values)]
        first = rows.T / values / scales[:, None]
        triangle = np.linalg.qr((flat @ first) * np.sqrt(np.repeat(weights, n_actions) / n_actions)[:, None], mode="r")
        sizes = np.abs(np.diagonal(triangle))
        if sizes.min() <= _NEAR * sizes.max():
            raise InputError(
                "some features occur with so little probability that least squares cannot tell them apart; give those "
                "contexts more weight, or none"
            )
        inverse = np.asarray(np.linalg.inv(triangle), dtype=np.float64)
        return cls(first @ inverse, triangle @ (values[:, None] * rows * scales), scales)

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    def coordinates(self, phi: FloatArray) -> FloatArray:
        """Bᵀφ (…, r)."""
        return phi @ self.basis

    def spelled_out(self, form: FloatArray) -> FloatArray:
        """A quadratic form (r, r) on coordinates as one (d, d) on features."""
        return self.back.T @ form @ self.back

    def parameter(self, own: FloatArray) -> FloatArray:
        """θ (d,) that gives every feature of the span the value that `own` (r,) gives its coordinates."""
        return self.basis @ own


@dataclass(frozen=True, eq=False)
class Moments:
    """information (K, r, r): Σ φφᵀ of each round. totals (K, r): Σ φ r. samples (K,)."""

    information: FloatArray
    totals: FloatArray
    samples: IntArray

    @classmethod
    def of(cls, log: Log, features: FeatureMap, span: Span) -> Moments:
        """The moments of a log, its rounds in the order of their numbers."""
        numbers = np.unique(log.rounds)
        parts = [_moments(log.only(log.rounds == number), features, span) for number in numbers]
        return cls(np.stack([p[0] for p in parts]), np.stack([p[1] for p in parts]), np.array([p[2] for p in parts]))

    def followed_by(self, later: Moments) -> Moments:
        """These rounds and then the other's."""
        return Moments(
            np.concatenate([self.information, later.information]),
            np.concatenate([self.totals, later.totals]),
            np.concatenate([self.samples, later.samples]),
        )

    def after(self, rounds: int) -> Moments:
        """Without the first rounds."""
        return Moments(self.information[rounds:], self.totals[rounds:], self.samples[rounds:])

    @property
    def singular(self) -> bool:
        """Whether all rounds together leave some direction of the span unseen."""
        values = np.linalg.eigvalsh(self.information.sum(axis=0))
        return len(self.samples) == 0 or bool(values[0] <= _SINGULAR * max(values[-1], 1e-300))

    def estimate(self) -> FloatArray:
        """Least squares over all rounds (r,); of least length where the information is singular."""
        inverse = np.asarray(np.linalg.pinv(self.information.sum(axis=0), rcond=_SINGULAR), dtype=np.float64)
        return inverse @ self.totals.sum(axis=0)

    def each_round(self) -> tuple[FloatArray, FloatArray]:
        """Estimates (K, r) and inverse information (K, r, r) of the rounds that see every direction."""
        values = np.linalg.eigvalsh(self.information)
        whole = values[:, 0] > _SINGULAR * np.maximum(values[:, -1], 1e-300)
        inverse = np.asarray(np.linalg.inv(self.information[whole]), dtype=np.float64)
        return np.einsum("kij,kj->ki", inverse, self.totals[whole]), inverse


def _moments(log: Log, features: FeatureMap, span: Span) -> tuple[FloatArray, FloatArray, int]:
    phi = features.played(log.contexts, log.actions)
    own = span.coordinates(phi)
    missed = np.abs(phi - own @ span.back).max(axis=0, initial=0.0)
    if (missed > 1e-6 * np.maximum(span.scales, np.abs(phi).max(axis=0, initial=0.0))).any():
        raise InputError(
            "the log has features outside the span of those of the given contexts; give contexts that stand for the log"
        )
    weighted = own * log.repeats[:, None]
    return weighted.T @ own, weighted.T @ log.rewards, log.samples
