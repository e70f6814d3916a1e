"""Coordinates for linear features in which uniform exploration has the identity for its information.

Features may be collinear, span only a part of R^d, or differ in size by many powers of ten. Values ‖x‖²_{A⁻¹} do not
depend on coordinates, so they are computed where A is well conditioned: A(p) is at least as large as the share of
uniform exploration in p, times the identity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, floats, probabilities
from pacbandits.errors import InputError
from pacbandits.realizable.whitening import largest_entries, singular_vectors, whiten

# Singular values up to this share of the largest are rounding: the features do not span that direction.
_MAX_ROUNDING_SHARE = 1e-10
# A direction whose information has a root below this share of the largest cannot be resolved by doubles.
_MIN_RESOLVED_SHARE = 1e-14
# Noise variances up to this share of the largest count as none.
MAX_NOISELESS_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Features φ(c, a)/σ(c, a) of the n contexts that can occur, of N, in r coordinates.

    points (n·A, r): the features.
    weights (n,): ν.
    rows (N,): which contexts can occur.
    change (d, r): takes vectors of R^d to these coordinates.
    span (d, q): orthonormal, what features span; q ≥ r, as what rewards without noise teach at once is left out of r.
    scales (d,): the sizes by which coordinates of R^d are divided before.
    n_actions: A.
    """

    points: FloatArray
    weights: FloatArray
    rows: BoolArray
    change: FloatArray
    span: FloatArray
    scales: FloatArray
    n_actions: int

    @property
    def rank(self) -> int:
        return self.change.shape[1]

    @property
    def dimension(self) -> int:
        return self.change.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """(N, A)."""
        return len(self.rows), self.n_actions

    def move(self, vectors: FloatArray) -> FloatArray:
        """Vectors (K, d) of the features' span in these coordinates, (K, r)."""
        scaled = vectors / self.scales
        outside = np.abs(scaled - (scaled @ self.span) @ self.span.T).max(axis=1, initial=0.0)
        bad = outside > 1e-7 * np.maximum(np.abs(scaled).max(axis=1, initial=0.0), 1.0)
        if bad.any():
            raise InputError(
                f"direction {int(bad.argmax())} is not in the span of the features that can occur; "
                "no rewards can tell of it"
            )
        return vectors @ self.change

    def information(self, propensities: FloatArray) -> FloatArray:
        """A(p) (r, r), for p (n, A)."""
        mass = (propensities * self.weights[:, None]).reshape(-1, 1)
        return self.points.T @ (self.points * mass)

    def gains(self, matrix: FloatArray) -> FloatArray:
        """φᵀGφ/σ² as (n, A), for G (r, r) symmetric and without negative eigenvalues."""
        values, vectors = np.linalg.eigh(matrix)
        roots = self.points @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        return np.einsum("ij,ij->i", roots, roots).reshape(-1, self.n_actions)

    def uniform(self) -> FloatArray:
        """Uniform propensities (n, A)."""
        return np.full((len(self.weights), self.n_actions), 1.0 / self.n_actions)

    def spread(self, propensities: FloatArray) -> FloatArray:
        """Propensities (n, A) on all N contexts; uniform on those that cannot occur."""
        out = np.full(self.shape, 1.0 / self.n_actions)
        out[self.rows] = propensities
        return out

    def gather(self, propensities: FloatArray) -> FloatArray:
        """Propensities (N, A) on the contexts that can occur."""
        return propensities[self.rows]


def change_coordinates(features: ArrayLike, weights: ArrayLike, *, noise: ArrayLike | None = None) -> Coordinates:
    """Coordinates for features (N, A, d), contexts of weights (N,), and noise variances (N, A), ones by default.

    A reward without noise tells ⟨φ, θ⟩ once and for all, with as little probability as one likes: such directions are
    divided out, which gives the infimum over designs exactly.
    """
    phi = floats(features, name="features", shape=(None, None, None))
    n, n_actions, d = phi.shape
    if n_actions == 0:
        raise InputError(f"features have shape {phi.shape}; at least one action is needed")
    nu = probabilities(weights, name="context weights", size=n)
    rows: BoolArray = nu > 0
    flat = phi[rows].reshape(int(rows.sum()) * n_actions, d)
    scales = largest_entries(flat)
    span, sizes = row_span(flat / scales)
    change = span / (scales[:, None] * sizes)
    points = flat @ change
    if noise is not None:
        points, change = _weigh(points, change, _variances(noise, shape=(n, n_actions))[rows].reshape(-1))
    _, inverse = whiten(points, nu[rows], min_diagonal_share=_MIN_RESOLVED_SHARE, trouble="doubles cannot resolve them")
    return Coordinates(
        points=np.ascontiguousarray(points @ inverse),
        weights=nu[rows],
        rows=rows,
        change=change @ inverse,
        span=span,
        scales=scales,
        n_actions=n_actions,
    )


def row_span(flat: FloatArray) -> tuple[FloatArray, FloatArray]:
    """An orthonormal basis (d, q) of the span of the rows, and the singular values (q,)."""
    if not flat.any():
        return np.empty((flat.shape[1], 0)), np.empty(0)
    vectors, sizes = singular_vectors(flat)
    q = int((sizes > _MAX_ROUNDING_SHARE * sizes[0]).sum())
    return vectors[:, :q], sizes[:q]


def _variances(noise: ArrayLike, *, shape: tuple[int, int]) -> FloatArray:
    variances = floats(noise, name="noise variances", shape=shape)
    if variances.min(initial=0.0) < 0:
        raise InputError(f"noise variances must not be negative, got {variances.min():.6g}")
    return variances


def _weigh(points: FloatArray, change: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points φ/σ (m, r), without the directions that rewards without noise teach, and the change (d, r) to match."""
    sure = variances <= MAX_NOISELESS_SHARE * variances.max(initial=0.0)
    if sure.any() and points.shape[1]:
        known, _ = row_span(points[sure])
        rest = np.linalg.svd(known)[0][:, known.shape[1] :] if known.shape[1] else np.eye(points.shape[1])
        points, change = points @ rest, change @ rest
        points[sure] = 0.0
    return points / np.sqrt(np.where(sure, 1.0, variances))[:, None], change
