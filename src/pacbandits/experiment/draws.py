"""Draws that belong to rows: the same seed gives the same ones, whoever asks and in whatever batches."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pacbandits.arrays import FloatArray

ROWS_DRAWN_AT_ONCE = 1024
HOLDOUT, ACTION = 0, 1  # what the two draws of a row are for


@lru_cache(maxsize=16)
def _block(seed: int, number: int) -> FloatArray:
    out = np.random.default_rng([seed, number]).random((ROWS_DRAWN_AT_ONCE, 2))
    out.setflags(write=False)
    return out


def draws(seed: int, *, first: int, count: int) -> FloatArray:
    """Two draws in [0, 1) for each of the rows from the first on (count, 2)."""
    blocks = range(first // ROWS_DRAWN_AT_ONCE, (first + count - 1) // ROWS_DRAWN_AT_ONCE + 1) if count else range(0)
    parts = [_block(seed, number) for number in blocks]
    if not parts:
        return np.empty((0, 2))
    start = first - blocks[0] * ROWS_DRAWN_AT_ONCE
    return np.concatenate(parts)[start : start + count]
