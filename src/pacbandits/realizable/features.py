"""Coordinates of features in which uniform exploration has the identity as its information."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, floats, probabilities
from pacbandits.errors import InputError

# Information matrices, and lengths of vectors in them.


def information_of(phi: FloatArray, weights: FloatArray, propensities: FloatArray) -> FloatArray:
    """Return A(p) = Σ ν p φφᵀ (r, r), for φ (N, A, r), ν (N,) and p (N, A)."""
    flat = phi.reshape(-1, phi.shape[2])
    return (flat * (weights[:, None] * propensities).reshape(-1, 1)).T @ flat


def pseudo_inverse(matrix: FloatArray) -> FloatArray:
    """Return the pseudo-inverse of a symmetric matrix (r, r), which may be singular."""
    return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)


def squared_lengths(vectors: FloatArray, form: FloatArray) -> FloatArray:
    """Return xᵀQx (m,) for vectors (m, r) and Q (r, r)."""
    return np.maximum(((vectors @ form) * vectors).sum(axis=1), 0.0)


# The two steps to coordinates in which uniform exploration has the identity as its information.
#
#     1. the span of the features: their singular vectors, after dividing each feature by its largest entry
#     2. within that span the triangle R with `RᵀR = E_ν mean_a xxᵀ`, so that x R⁻¹ is white
#
# Two records use them. `Coordinates` serve a design, whose value does not depend on coordinates: they follow features
# to the precision of doubles, may divide by noise, and drop directions known without noise. The `Span` of a certificate
# rejects features that least squares could not distinguish, and maps back, as the certificate is stated in the original
# features. Verification has its own steps (`realizable.verify`), to be independent of these.


def largest_entries(rows: FloatArray) -> FloatArray:
    """Return the largest absolute entry of each column (d,), or 1 if a column is zero: the divisors of columns."""
    scales = np.abs(rows).max(axis=0, initial=0.0)
    scales[scales == 0] = 1.0
    return scales


def singular_vectors(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return right singular vectors (d, q) of rows (m, d) that are not all zero, and singular values, largest first."""
    _, values, vectors = np.linalg.svd(np.linalg.qr(rows, mode="r"))
    return vectors[: len(values)].T, values


def whiten(
    points: FloatArray, weights: FloatArray, *, min_diagonal_share: float, trouble: str
) -> tuple[FloatArray, FloatArray]:
    """Return R (r, r), and its inverse, for points x (n·A, r) of n contexts with these weights (n,).

    min_diagonal_share: the smallest allowed diagonal entry of R, as a share of the largest.
    trouble: the error message for a smaller one.
    """
    n_actions = len(points) // len(weights)
    weighted = points * np.sqrt(np.repeat(weights, n_actions) / n_actions)[:, None]
    triangle = np.asarray(np.linalg.qr(weighted, mode="r"), dtype=np.float64)
    diagonal = np.abs(np.diagonal(triangle))
    if len(diagonal) and not diagonal.min() > min_diagonal_share * diagonal.max():
        raise InputError(
            f"some features occur with so little probability that {trouble}; give those contexts more weight, or none"
        )
    return triangle, np.asarray(np.linalg.inv(triangle), dtype=np.float64)


# The span of the features, in the coordinates of a certificate.


# Singular values of the features, each scaled by its largest entry, as shares of the largest: up to the first they are
# rounding errors, and up to the second too small to compute with.
_MAX_ROUNDING_SHARE, _MAX_COLLINEAR_SHARE = 1e-13, 1e-9
_MAX_FEATURE = 1e100


@dataclass(frozen=True, eq=False)
class Span:
    """Coordinates Bᵀφ for the span of the features.

    basis (d, r): B.
    back (r, d): `φ = backᵀ Bᵀφ` for the features of the span.
    scales (d,): the largest entry of each feature.
    """

    basis: FloatArray
    back: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, phi: FloatArray, weights: FloatArray) -> Span:
        """Return the span of φ (N, A, d) over contexts that occur, with `E_ν mean_a (Bᵀφ)(Bᵀφ)ᵀ` the identity."""
        flat = phi.reshape(-1, phi.shape[2])
        if not flat.any():
            raise InputError("the features are zero everywhere, so nothing can be learnt; give other features")
        scales = largest_entries(flat)
        if scales.max() > _MAX_FEATURE:
            raise InputError(f"features as large as {scales.max():.3g} cannot be computed with; give other units")
        vectors, values = singular_vectors(flat / scales)
        rank = int((values > _MAX_COLLINEAR_SHARE * values[0]).sum())
        if (values[rank:] > _MAX_ROUNDING_SHARE * values[0]).any():
            raise InputError(
                "some features are so nearly collinear that least squares cannot tell them apart; centre them "
                "(subtract their means), or leave one out"
            )
        vectors, values = vectors[:, :rank], values[:rank]
        first = vectors / values / scales[:, None]
        triangle, inverse = whiten(
            flat @ first,
            weights,
            min_diagonal_share=_MAX_COLLINEAR_SHARE,
            trouble="least squares cannot tell them apart",
        )
        return cls(first @ inverse, triangle @ (values[:, None] * vectors.T * scales), scales)

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    def coordinates(self, phi: FloatArray) -> FloatArray:
        """Return Bᵀφ (…, r)."""
        return phi @ self.basis

    def spelled_out(self, form: FloatArray) -> FloatArray:
        """Return a quadratic form (r, r) on coordinates as one (d, d) on features."""
        return self.back.T @ form @ self.back

    def parameter(self, own: FloatArray) -> FloatArray:
        """Return θ (d,) that gives every feature of the span the value that `own` (r,) gives its coordinates."""
        return self.basis @ own


# Coordinates of features for designs, in which uniform exploration has the identity as its information.
#
# Features may be collinear, span only a part of R^d, or differ in size by many powers of ten. Values ‖x‖²_{A⁻¹} do not
# depend on coordinates, so they are computed where A is well conditioned: A(p) is at least as large as the share of
# uniform exploration in p, times the identity.


# Singular values up to this share of the largest are rounding errors: the features do not span that direction.
_MAX_RANK_ROUNDING = 1e-10
# A direction whose information has a root below this share of the largest cannot be resolved by doubles.
_MIN_RESOLVED_SHARE = 1e-14
# Noise variances up to this share of the largest count as zero.
MAX_NOISELESS_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Features φ(c, a)/σ(c, a) of the n contexts that can occur, of N, in r coordinates.

    points (n·A, r): the features.
    weights (n,): ν.
    rows (N,): which contexts can occur.
    change (d, r): takes vectors of R^d to these coordinates.
    span (d, q): an orthonormal basis of the features' span; q ≥ r, as directions learned without noise are not in r.
    scales (d,): the divisors of the coordinates of R^d.
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
        """Return vectors (K, d) of the features' span in these coordinates, (K, r)."""
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
        """Return A(p) (r, r), for p (n, A)."""
        mass = (propensities * self.weights[:, None]).reshape(-1, 1)
        return self.points.T @ (self.points * mass)

    def gains(self, matrix: FloatArray) -> FloatArray:
        """Return φᵀGφ/σ² as (n, A), for G (r, r) symmetric and positive semidefinite."""
        values, vectors = np.linalg.eigh(matrix)
        roots = self.points @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        return np.einsum("ij,ij->i", roots, roots).reshape(-1, self.n_actions)

    def uniform(self) -> FloatArray:
        """Return uniform propensities (n, A)."""
        return np.full((len(self.weights), self.n_actions), 1.0 / self.n_actions)

    def spread(self, propensities: FloatArray) -> FloatArray:
        """Return propensities (n, A) extended to all N contexts; uniform on those that cannot occur."""
        out = np.full(self.shape, 1.0 / self.n_actions)
        out[self.rows] = propensities
        return out

    def gather(self, propensities: FloatArray) -> FloatArray:
        """Return propensities (N, A) restricted to the contexts that can occur."""
        return propensities[self.rows]


def change_coordinates(features: ArrayLike, weights: ArrayLike, *, noise: ArrayLike | None = None) -> Coordinates:
    """Return coordinates for features (N, A, d), context weights (N,), and noise variances (N, A), by default ones.

    A reward without noise determines ⟨φ, θ⟩ at once, at any positive probability: such directions are divided out,
    which gives the infimum over designs exactly.
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
    """Return an orthonormal basis (d, q) of the span of the rows, and the singular values (q,)."""
    if not flat.any():
        return np.empty((flat.shape[1], 0)), np.empty(0)
    vectors, sizes = singular_vectors(flat)
    q = int((sizes > _MAX_RANK_ROUNDING * sizes[0]).sum())
    return vectors[:, :q], sizes[:q]


def _variances(noise: ArrayLike, *, shape: tuple[int, int]) -> FloatArray:
    variances = floats(noise, name="noise variances", shape=shape)
    if variances.min(initial=0.0) < 0:
        raise InputError(f"noise variances must not be negative, got {variances.min():.6g}")
    return variances


def _weigh(points: FloatArray, change: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points φ/σ (m, r), without the directions that noiseless rewards determine, and the change (d, r)."""
    sure = variances <= MAX_NOISELESS_SHARE * variances.max(initial=0.0)
    if sure.any() and points.shape[1]:
        known, _ = row_span(points[sure])
        rest = np.linalg.svd(known)[0][:, known.shape[1] :] if known.shape[1] else np.eye(points.shape[1])
        points, change = points @ rest, change @ rest
        points[sure] = 0.0
    return points / np.sqrt(np.where(sure, 1.0, variances))[:, None], change
