"""What a log says of a linear reward: information and moments, a round at a time, in the span of the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.errors import FloatArray, InputError, IntArray
from pacbandits.policies.features import FeatureMap
from pacbandits.records import Contexts, Log

_RANK = 1e-9  # of the largest singular value of the features, scaled: below, a direction counts as absent
_SINGULAR = 1e-10  # of the largest eigenvalue of a round's information


@dataclass(frozen=True, eq=False)
class Span:
    """Coordinates Bᵀφ for the space that features span: basis B (d, r), and back (r, d) with `φ = backᵀ Bᵀφ` there."""

    basis: FloatArray
    back: FloatArray

    @classmethod
    def of(cls, phi: FloatArray, weights: FloatArray) -> Span:
        """The span of φ (N, A, d) over contexts that occur, with `E_ν mean_a (Bᵀφ)(Bᵀφ)ᵀ` the identity."""
        _, n_actions, d = phi.shape
        flat = (phi * np.sqrt(weights / n_actions)[:, None, None]).reshape(-1, d)
        sizes = np.linalg.norm(flat, axis=0)
        if not sizes.any():
            raise InputError("the features are zero everywhere, so nothing can be learnt; give other features")
        used = sizes > _RANK * sizes.max()
        _, values, rows = np.linalg.svd(np.linalg.qr(flat[:, used] / sizes[used], mode="r"))
        rank = int((values > _RANK * values[0]).sum())
        basis, back = np.zeros((d, rank)), np.zeros((rank, d))
        basis[used] = rows[:rank].T / values[:rank] / sizes[used][:, None]
        back[:, used] = values[:rank, None] * rows[:rank] * sizes[used]
        return cls(basis, back)

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
    phi = played_features(log.contexts, log.actions, features)
    own = span.coordinates(phi)
    missed = np.abs(phi - own @ span.back).max(initial=0.0)
    if missed > 1e-6 * max(1.0, float(np.abs(phi).max(initial=0.0))):
        raise InputError(
            "the log has features outside the span of those of the given contexts; give contexts that stand for the log"
        )
    weighted = own * log.repeats[:, None]
    return weighted.T @ own, weighted.T @ log.rewards, log.samples


def played_features(contexts: Contexts, actions: IntArray, features: FeatureMap) -> FloatArray:
    """φ(c, a) (n, d) of the action played."""
    first, which = contexts.distinct()
    return features(contexts.take(first))[which, actions]
