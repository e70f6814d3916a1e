"""The best tree of depth 2 below every root, found on the card."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.modules import function


def root_values(
    sums: Any,
    *,
    starts: IntArray,
    split_starts: IntArray,
    run_bins: IntArray,
    run_splits: IntArray,
    adding: BoolArray,
) -> Any:
    """The value (S,), int64, of the best tree of depth 2 below every split of a layout.

    sums (all bins, all bins, W): int64, whole; the rest as in a layout of trees.
    """
    cp = cupy()
    splits = np.arange(int(run_splits[-1]))
    runs = np.searchsorted(run_splits, splits, side="right") - 1
    last = run_bins[runs] + splits - run_splits[runs]
    first = np.where(adding[runs], run_bins[runs], last)
    features = np.searchsorted(split_starts, splits, side="right") - 1
    out = cp.empty(len(splits), dtype=cp.int64)
    given = [cp.asarray(x.astype(np.int32)) for x in (first, last, run_bins, np.diff(run_splits), adding)]
    more = [cp.asarray(x.astype(np.int32)) for x in (starts, features)]
    function("roots", "root_values", WIDTH=int(sums.shape[2]))(
        (len(splits),), (256,), (sums, np.int32(sums.shape[0]), *given, np.int32(len(adding)), *more, out)
    )
    return out
