"""Sums of scores by the bins of one and of two features, which determine the best tree; minimum leaf shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import number
from pacbandits.compiled import kernel, over_cores
from pacbandits.policies.trees.bins import Codes, KnownContexts, Layout
from pacbandits.policies.trees.tree_policy import Node
from pacbandits.progress import count_aloud
from pacbandits.schema import Fields

# Values this close, relative to the sum of all |scores|, count as equal: sums differ by as much in rounding.
TREE_TIE_SHARE = 1e-12
# Masks for "every split is allowed": on a side, and below each root.
ALL_SPLITS: BoolArray = np.empty(0, dtype=np.bool_)
ALL_BELOW: BoolArray = np.empty((0, 0, 0), dtype=np.bool_)

# The two sides of a root, from one split to the next.


@kernel
def side_totals(side: FloatArray, first: int, last: int) -> FloatArray:
    """Return the total (W,) of a side's scores, from its sums over the bins of one feature."""
    total = np.zeros(side.shape[1])
    for b in range(first, last):
        for a in range(side.shape[1]):
            total[a] += side[b, a]
    return total


@kernel
def bin_moved(layout: Layout, j: int, split: int) -> tuple[int, bool]:
    """Return the bin of feature j that a split adds to the left, and whether bins of the previous split stay."""
    r: int = layout.run_starts[j]
    while split >= layout.run_splits[r + 1]:
        r += 1
    further = split - layout.run_splits[r]
    return layout.run_bins[r] - layout.starts[j] + further, bool(layout.adding[r]) and further > 0


@kernel
def next_left(left: FloatArray, block: FloatArray, moved: int, adding: bool) -> None:
    """Update `left` (all bins, W) to the next split of a root feature: add the moved bin, or replace by it."""
    for b in range(left.shape[0]):
        for a in range(left.shape[1]):
            left[b, a] = block[moved, b, a] + (left[b, a] if adding else 0.0)


# Memory and time limits of the exact search, beyond which sums are recomputed or frontiers rounded outward.


@dataclass(frozen=True)
class TreeLimits:
    """Limits of the search for trees of depth 2; none changes the argmax, and a rounded frontier is flagged.

    kept_bytes: larger joint sums are recomputed for each root feature: twice the additions, little memory.
    pairs: sides of roots are thinned if all roots together would have more pairs of points (a second of work).
    side_points: no side is thinned to fewer points.
    intervals: the number of intervals of the first score: enough that few pairs beyond the frontier's own survive the
        scan, few enough for the cache.
    survivors: if more pairs survive (scores that mirror each other), the intervals' corners become the frontier.
    """

    kept_bytes: int = 1 << 30
    pairs: int = 100_000_000
    side_points: int = 64
    intervals: int = 1 << 14
    survivors: int = 2_000_000

    def points_of_a_side(self, n_splits: int) -> int:
        """Return the maximum number of points of a side of a root, given the number of splits."""
        return max(self.side_points, math.isqrt(self.pairs // n_splits))


# Rows that are sorted and summed together: a few megabytes of scores and codes.
STRETCH_ROWS = 1 << 14


@kernel
def sum_one(codes: Codes, scores: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums (all bins, W) of the scores (n, W) in each bin of each feature."""
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
    """Add to out (bins of j, all bins, W) the scores (n, W) by the bins of feature j and of each feature k ≥ least.

    Rows are processed in stretches, sorted by the bin of j within each, so that both the rows and the sums being
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
    """Fill the sums of feature j against all earlier features from the other half of the symmetric `sums`."""
    for b in range(starts[j], starts[j + 1]):
        for c in range(starts[j]):
            for a in range(sums.shape[2]):
                sums[b, c, a] = sums[c, b, a]


class PairSums(Protocol):
    """Sums of scores by the bins of two features."""

    def of(self, feature: int) -> FloatArray:
        """Return the sums (bins of the feature, all bins, W)."""
        ...


class Histograms:
    """Sums of scores (n, W) by the bins of two features, one root feature at a time.

    They are cached, and each pair of features is summed once, if they take at most `kept_bytes`.
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
        """Return the sums (bins of the feature, all bins, W)."""
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
    """Call `task(i)` for every i < count on all cores, one i at a time, as features differ in their work."""
    done = count_aloud(what, count)

    def run(start: int, stop: int) -> None:
        for i in range(start, stop):
            task(i)
            done()

    over_cores(run, count=count, chunks_per_core=max(count, 1))


# Minimum leaf share: trees whose leaves each hold at least a given share of the known contexts.


SHARE_ROUNDING = 1e-9  # tolerance for rounding


@dataclass(frozen=True, eq=False)
class SmallestLeaf:
    """The minimum share of known contexts in every leaf of a tree.

    share: the minimum share.
    known: the known contexts, by the bins of the trees.
    """

    share: float
    known: KnownContexts

    def __post_init__(self) -> None:
        number(self.share, name="leaf, the share that every leaf must hold,", above=0.0, most=1.0)

    @property
    def least(self) -> float:
        """The minimum share, less rounding."""
        return self.share - SHARE_ROUNDING

    @cached_property
    def roots(self) -> BoolArray:
        """The mask (S,) of splits that leave at least the minimum share on both sides."""
        known, layout = self.known, self.known.bins.layout
        if known.bins.n_splits == 0:
            return np.empty(0, dtype=np.bool_)
        return both_large(sum_one(known.codes, known.weights[:, None], layout.starts), layout, self.least)

    def below(self, j: int) -> BoolArray:
        """Return which splits (splits of j, 2, S + 1) are allowed on the left and right of each split of feature j.

        The last entry of each row says whether the split of feature j itself is allowed.
        """
        return large_below(self._histograms.of(j), j, self.known.bins.layout, self.least)

    def holds(self, root: Node) -> bool:
        """Return whether every leaf of a tree is large enough."""
        known = self.known.contexts

        def fits(node: Node, here: BoolArray) -> bool:
            if isinstance(node, int):
                return float(self.known.weights[here].sum()) >= self.least
            passed = node.test(known)
            return fits(node.then, here & passed) and fits(node.otherwise, here & ~passed)

        return fits(root, np.ones(len(known), dtype=np.bool_))

    def describe(self) -> str:
        """Describe the minimum share."""
        return f"each leaf with {100 * self.share:g} % or more of {self.known.n:,} known contexts"

    def to_json(self) -> dict[str, Any]:
        return {"share": self.share, "known": self.known.to_json()}

    @classmethod
    def from_json(cls, given: Fields) -> SmallestLeaf:
        """Read a minimum share from the output of `to_json`."""
        given.check_known(("share", "known"))
        return cls(given.number("share"), KnownContexts.from_json(given.fields("known", of="known contexts")))

    @cached_property
    def _histograms(self) -> Histograms:
        return Histograms(self.known.codes, self.known.weights[:, None], self.known.bins.layout)


@kernel
def both_large(sums: FloatArray, layout: Layout, least: float) -> BoolArray:
    """Return which splits (S,) leave at least `least` on both sides; sums (all bins, 1)."""
    run_bins, run_splits, adding = layout.run_bins, layout.run_splits, layout.adding
    total = side_totals(sums, layout.starts[0], layout.starts[1])[0]
    out = np.empty(run_splits[-1], dtype=np.bool_)
    for r in range(adding.shape[0]):
        left = 0.0
        for t in range(run_splits[r + 1] - run_splits[r]):
            left = sums[run_bins[r] + t, 0] + (left if adding[r] else 0.0)
            out[run_splits[r] + t] = left >= least and total - left >= least
    return out


@kernel
def large_below(block: FloatArray, j: int, layout: Layout, least: float) -> BoolArray:
    """Return the splits allowed on both sides of each split of feature j (splits of j, 2, S + 1), see `below`.

    block (bins of j, all bins, 1): sums by the bins of j and of every feature.
    """
    first, last = layout.split_starts[j], layout.split_starts[j + 1]
    n_splits = layout.run_splits[-1]
    out = np.empty((last - first, 2, n_splits + 1), dtype=np.bool_)
    whole = np.zeros((block.shape[1], block.shape[2]))
    for b in range(block.shape[0]):
        whole += block[b]
    left = np.zeros_like(whole)
    for s in range(last - first):
        moved, adding = bin_moved(layout, j, first + s)
        next_left(left, block, moved, adding)
        right = whole - left
        total_left = side_totals(left, layout.starts[j], layout.starts[j + 1])[0]
        total_right = side_totals(right, layout.starts[j], layout.starts[j + 1])[0]
        large_left, large_right = both_large(left, layout, least), both_large(right, layout, least)
        for t in range(n_splits):  # a slice would take seconds to compile
            out[s, 0, t], out[s, 1, t] = large_left[t], large_right[t]
        out[s, 0, n_splits] = out[s, 1, n_splits] = total_left >= least and total_right >= least
    return out
