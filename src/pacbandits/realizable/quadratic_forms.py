"""Information matrices and the lengths they give to vectors."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray


def information_of(phi: FloatArray, weights: FloatArray, propensities: FloatArray) -> FloatArray:
    """A(p) = Σ ν p φφᵀ (r, r), for φ (N, A, r), ν (N,) and p (N, A)."""
    flat = phi.reshape(-1, phi.shape[2])
    return (flat * (weights[:, None] * propensities).reshape(-1, 1)).T @ flat


def pseudo_inverse(matrix: FloatArray) -> FloatArray:
    """Of a symmetric matrix (r, r), which may be singular."""
    return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)


def squared_lengths(vectors: FloatArray, form: FloatArray) -> FloatArray:
    """xᵀQx (m,) for vectors (m, r) and Q (r, r)."""
    return np.maximum(((vectors @ form) * vectors).sum(axis=1), 0.0)
