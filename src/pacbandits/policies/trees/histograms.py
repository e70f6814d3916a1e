"""Sums of scores by the bins of one feature and of two: all that the search for a tree needs of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.policies.trees.bins import Codes, Layout
from pacbandits.policies.trees.limits import TreeLimits
from pacbandits.progress import count_aloud

# Rows that are sorted and added up together: a few megabytes of scores and codes.
STRETCH_ROWS = 1 << 14


@kernel
def sum_one(codes: Codes, scores: FloatArray, starts: IntArray) -> FloatArray:
    """Sums (all bins, W) of the scores (n, W) in each bin of each feature."""
    n, width = scores.shape
    out = np.zeros((starts[-1], width))
    for r in range(n):
        for k in range(codes.shape[1]):
            b = starts[k] + codes[r, k]
            for a in range(width):
                out[b, a] += scores[r, a]
    return out


@kernel
def sum_two(codes: Codes, scores: FloatArray, starts: IntArray, j: int, least: int, out: FloatArray) -> None:
    """Add to out (bins of j, all bins, W) the scores (n, W) by the bins of feature j and of any k ≥ least.

    Rows are taken a stretch at a time, and in it bin by bin of j, so that both the rows and the sums being
    added to (all bins × W) stay in cache. Rows that share a sum keep their order, so that it does not depend
    on which of its two features came first.
    """
    n, width = scores.shape
    n_bins = out.shape[0]
    order = np.empty(min(STRETCH_ROWS, n), dtype=np.int64)
    for begin in range(0, n, STRETCH_ROWS):
        end = min(begin + STRETCH_ROWS, n)
        edges = np.zeros(n_bins + 1, dtype=np.int64)
        for r in range(begin, end):
            edges[codes[r, j] + 1] += 1
        for b in range(n_bins):
            edges[b + 1] += edges[b]
        place = edges.copy()
        for r in range(begin, end):
            b = codes[r, j]
            order[place[b]] = r
            place[b] += 1
        for b in range(n_bins):
            for i in range(edges[b], edges[b + 1]):
                r = order[i]
                for k in range(least, codes.shape[1]):
                    c = starts[k] + codes[r, k]
                    for a in range(width):
                        out[b, c, a] += scores[r, a]


@kernel
def mirror(sums: FloatArray, starts: IntArray, j: int) -> None:
    """Fill the bins of feature j against those of all features before it from the other half of `sums`."""
    for b in range(starts[j], starts[j + 1]):
        for c in range(starts[j]):
            for a in range(sums.shape[2]):
                sums[b, c, a] = sums[c, b, a]


class PairSums(Protocol):
    """Sums of scores by the bins of two features."""

    def of(self, feature: int) -> FloatArray:
        """Sums (bins of the feature, all bins, W)."""
        ...


class Histograms:
    """Sums of scores (n, W) by the bins of two features, one root feature at a time.

    They are kept, and each pair of features added up once, while they take at most `kept_bytes`.
    """

    def __init__(
        self, codes: Codes, scores: FloatArray, layout: Layout, *, kept_bytes: int = TreeLimits.kept_bytes
    ) -> None:
        self.codes, self.scores, self.layout = codes, scores, layout
        self.n_features = codes.shape[1]
        n_bins, width = int(layout.starts[-1]), scores.shape[1]
        self.kept: FloatArray | None = None
        if n_bins * n_bins * width * 8 <= kept_bytes:
            kept = self.kept = np.zeros((n_bins, n_bins, width))
            self._over_features(lambda j: self._add(j, least=j, out=self._slab(kept, j)))
            self._over_features(lambda j: mirror(kept, layout.starts, j))

    def of(self, feature: int) -> FloatArray:
        """Sums (bins of the feature, all bins, W)."""
        if self.kept is not None:
            return self._slab(self.kept, feature)
        starts = self.layout.starts
        out = np.zeros((int(starts[feature + 1] - starts[feature]), int(starts[-1]), self.scores.shape[1]))
        self._add(feature, least=0, out=out)
        return out

    def _slab(self, sums: FloatArray, feature: int) -> FloatArray:
        return sums[self.layout.starts[feature] : self.layout.starts[feature + 1]]

    def _add(self, feature: int, *, least: int, out: FloatArray) -> None:
        sum_two(self.codes, self.scores, self.layout.starts, feature, least, out)

    def _over_features(self, task: Callable[[int], None]) -> None:
        each(task, count=self.n_features, what="adding up, feature")


def each(task: Callable[[int], None], *, count: int, what: str = "feature") -> None:
    """Call `task(i)` for every i < count, all cores at once, one by one: features differ in their work."""
    done = count_aloud(what, count)

    def run(start: int, stop: int) -> None:
        for i in range(start, stop):
            task(i)
            done()

    over_cores(run, count=count, chunks_per_core=max(count, 1))
