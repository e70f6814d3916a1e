"""The two steps to coordinates in which uniform exploration has the identity for its information.

    1. what features span: the singular vectors of the features, each divided by its largest entry
    2. within that span the triangle R with `RᵀR = E_ν mean_a xxᵀ`, so that x R⁻¹ is white

Two records are built on them. `Coordinates` serve a design, whose value does not depend on coordinates: they follow
features as far as doubles can, may divide by noise, and drop what is known without it. The `Span` of a certificate
refuses features that least squares could not tell apart, and knows the way back, as what it certifies is spelled out
in the features that were given. Verification has its own steps (`realizable.verify`), to be independent of these.
"""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError


def largest_entries(rows: FloatArray) -> FloatArray:
    """The largest absolute entry of each column (d,), and 1 where a column is zero: what to divide columns by."""
    scales = np.abs(rows).max(axis=0, initial=0.0)
    scales[scales == 0] = 1.0
    return scales


def singular_vectors(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Right singular vectors (d, q) of rows (m, d) that are not all zero, and singular values (q,), largest first."""
    _, values, vectors = np.linalg.svd(np.linalg.qr(rows, mode="r"))
    return vectors[: len(values)].T, values


def whiten(
    points: FloatArray, weights: FloatArray, *, min_diagonal_share: float, trouble: str
) -> tuple[FloatArray, FloatArray]:
    """R (r, r), and its inverse, for points x (n·A, r) of n contexts with these weights (n,).

    min_diagonal_share: how small a diagonal entry of R may be, as a share of the largest.
    trouble: what a smaller one means, in words.
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
