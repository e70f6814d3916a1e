"""Factors of matrices that are positive definite, but for rounding or for features that leave it open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from pacbandits.arrays import FloatArray

Factor = TypeVar("Factor")

_FIRST_SHARE = 1e-15  # of the trace, which is added to the diagonal first: about what rounding takes away
_MAX_TRIES = 20  # each adds ten times as much: the last far more than the matrix itself


def factored(factor: Callable[[FloatArray], Factor], matrix: FloatArray) -> Factor:
    """The factor of a matrix (m, m); of one that is not positive definite, with the least added that makes it so.

    factor: makes it, or raises LinAlgError. What is added to the diagonal pulls what is fitted toward 0.
    """
    added = 0.0
    for _ in range(_MAX_TRIES):
        try:
            return factor(matrix + added * np.eye(len(matrix)) if added else matrix)
        except np.linalg.LinAlgError:
            added = max(10.0 * added, _FIRST_SHARE * float(np.trace(matrix)), np.finfo(np.float64).tiny)
    return factor(matrix + added * np.eye(len(matrix)))


def with_positive_values(matrix: FloatArray) -> FloatArray:
    """The symmetric matrix (m, m) whose eigenvalues are those of this one without their signs."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.abs(values)) @ vectors.T, dtype=np.float64)
