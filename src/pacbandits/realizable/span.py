"""The space that features span, in the coordinates of a certificate."""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError
from pacbandits.realizable.whitening import largest_entries, singular_vectors, whiten

# Singular values of the features, each scaled by its largest entry, as shares of the largest: up to the first they are
# rounding, and up to the second too small to compute with.
_MAX_ROUNDING_SHARE, _MAX_COLLINEAR_SHARE = 1e-13, 1e-9
_MAX_FEATURE = 1e100


@dataclass(frozen=True, eq=False)
class Span:
    """Coordinates Bᵀφ for the space that features span.

    basis (d, r): B.
    back (r, d): `φ = backᵀ Bᵀφ` for the features of the span.
    scales (d,): the largest entry of each feature.
    """

    basis: FloatArray
    back: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, phi: FloatArray, weights: FloatArray) -> Span:
        """The span of φ (N, A, d) over contexts that occur, with `E_ν mean_a (Bᵀφ)(Bᵀφ)ᵀ` the identity."""
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
        """Bᵀφ (…, r)."""
        return phi @ self.basis

    def spelled_out(self, form: FloatArray) -> FloatArray:
        """A quadratic form (r, r) on coordinates as one (d, d) on features."""
        return self.back.T @ form @ self.back

    def parameter(self, own: FloatArray) -> FloatArray:
        """θ (d,) that gives every feature of the span the value that `own` (r,) gives its coordinates."""
        return self.basis @ own
