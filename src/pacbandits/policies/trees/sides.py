"""The two sides of a root, split after split: what a search for trees walks along."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Layout


@kernel
def side_totals(side: FloatArray, first: int, last: int) -> FloatArray:
    """The sum (W,) of a side's scores, from its sums over the bins of one feature."""
    total = np.zeros(side.shape[1])
    for b in range(first, last):
        for a in range(side.shape[1]):
            total[a] += side[b, a]
    return total


@kernel
def bin_moved(layout: Layout, j: int, split: int) -> tuple[int, bool]:
    """Which bin of feature j a split sends left besides those of the split before, and whether these stay there."""
    r: int = layout.run_starts[j]
    while split >= layout.run_splits[r + 1]:
        r += 1
    further = split - layout.run_splits[r]
    return layout.run_bins[r] - layout.starts[j] + further, bool(layout.adding[r]) and further > 0


@kernel
def next_left(left: FloatArray, block: FloatArray, moved: int, adding: bool) -> None:
    """Move `left` (all bins, W) to the next split of a root feature: add the bin that it moves, or take it alone."""
    for b in range(left.shape[0]):
        for a in range(left.shape[1]):
            left[b, a] = block[moved, b, a] + (left[b, a] if adding else 0.0)
