"""Roots of deep trees: what the best tree of depth 3 under each of them is worth, and which to look at first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Bins, Codes, Layout
from pacbandits.policies.trees.histograms import Histograms, each, sum_two
from pacbandits.policies.trees.search import ALL_BELOW, root_values
from pacbandits.policies.trees.sides import bin_moved


class SortedRows(NamedTuple):
    """Rows sorted by the bins of one feature.

    feature: which.
    codes (n, d): the bins of the rows.
    scores (n, A): of the rows.
    edges (bins + 1,): where each bin of the feature begins.
    """

    feature: int
    codes: Codes
    scores: FloatArray
    edges: IntArray

    @classmethod
    def by(cls, feature: int, codes: Codes, scores: FloatArray, *, n_bins: int) -> SortedRows:
        """Rows of any order, sorted."""
        order = np.argsort(codes[:, feature], kind="stable")
        counts = np.bincount(codes[:, feature], minlength=n_bins)
        edges = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        return cls(feature, codes[order], scores[order], edges)


@kernel
def best_below(
    rows: SortedRows, k: int, whole: FloatArray, wanted: BoolArray, layout: Layout, tie: float, out: FloatArray
) -> None:
    """The value of the best tree of depth 2 that first tests feature k, on either side of each split of the rows' own.

    whole (bins of k, all bins, A): the sums over all rows. wanted (S,): of which splits. The values go to
    out (2, d, S): left and right, but for splits that are not wanted or do not part the rows.
    """
    j, codes, scores, edges = rows
    starts, split_starts = layout.starts, layout.split_starts
    values = np.empty(split_starts[-1])
    free = np.empty((0, 0, 0), dtype=np.bool_)
    first, last = split_starts[k], split_starts[k + 1]
    left = np.zeros_like(whole)
    size = 0
    for split in range(split_starts[j], split_starts[j + 1]):
        moved, adding = bin_moved(layout, j, split)
        begin, end = edges[moved], edges[moved + 1]
        if not adding:
            left[:] = 0.0
            size = 0
        # starts[0] is 0; a number that the compiler knows would have this compiled once more, for that number.
        sum_two(codes[begin:end], scores[begin:end], starts, k, starts[0], left)
        size += end - begin
        if not wanted[split] or size == 0 or size == codes.shape[0]:
            continue
        root_values(left, k, layout, tie, free, values)
        out[0, k, split] = values[first:last].max()
        root_values(whole - left, k, layout, tie, free, values)
        out[1, k, split] = values[first:last].max()


def values_of_roots(bins: Bins, codes: Codes, scores: FloatArray, *, width: int, tie: float) -> FloatArray:
    """The value (S,) of the best tree of depth 3 under each root that parts the rows; −∞ for those not tried.

    At most `width` roots are tried, those that promise most at depth 2.
    """
    layout, n_features = bins.layout, len(bins.features)
    histograms = Histograms(codes, scores, layout)
    wanted = np.ones(bins.n_splits, dtype=np.bool_)
    if width < len(wanted):
        near = np.empty(len(wanted))
        each(lambda j: root_values(histograms.of(j), j, layout, tie, ALL_BELOW, near), count=n_features)
        wanted[:] = False
        wanted[shortlist(near, layout, most=width, tie=tie)] = True
    sides = np.full((2, n_features, len(wanted)), -np.inf)

    def try_feature(j: int) -> None:
        rows = SortedRows.by(j, codes, scores, n_bins=int(layout.starts[j + 1] - layout.starts[j]))
        what = f"below feature {j + 1} of {n_features}, feature"
        each(lambda k: best_below(rows, k, histograms.of(k), wanted, layout, tie, sides), count=n_features, what=what)

    for j in range(n_features):
        if wanted[layout.split_starts[j] : layout.split_starts[j + 1]].any():
            try_feature(j)
    return sides.max(axis=1, initial=-np.inf).sum(axis=0)


def shortlist(values: FloatArray, layout: Layout, *, most: int, tie: float) -> list[int]:
    """Up to `most` roots of large value (S,), first those that lead their neighbours, whose values are much alike."""
    starts, adding = layout.run_splits, layout.adding
    peaks = np.ones(len(values), dtype=np.bool_)
    for r in np.flatnonzero(adding & (np.diff(starts) > 0)):
        of_run = values[starts[r] : starts[r + 1]]
        rises = np.concatenate([[True], of_run[1:] > of_run[:-1], [False]])
        peaks[starts[r] : starts[r + 1]] = rises[:-1] & ~rises[1:]
    first = leading(np.where(peaks, values, -np.inf), most=most, tie=tie)
    return first + leading(np.where(peaks, -np.inf, values), most=most - len(first), tie=tie)


def leading(values: FloatArray, *, most: int, tie: float) -> list[int]:
    """The places of up to `most` of the largest values that are finite; of values a tie apart the first comes first."""
    left = values.copy()
    found: list[int] = []
    while len(found) < min(most, len(values)) and left.max() > -np.inf:
        found.append(int(np.argmax(left >= left.max() - tie)))
        left[found[-1]] = -np.inf
    return found
