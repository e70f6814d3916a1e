"""The frontier of two scores over all trees: pairs of points of the two sides of every root."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.fronts import root_fronts, stump_front
from pacbandits.policies.trees.histograms import Histograms, each, sum_one
from pacbandits.policies.trees.near import Sides
from pacbandits.policies.trees.pairs import climb, keep_pairs, scan_pairs, settle, span
from pacbandits.policies.trees.tree import Node, branch

# Gains this small, relative to the sum of all |scores|, are rounding. A tree gathers seven: leaves, sides,
# root.
TIE = 1e-13
# Sides are thinned when all roots together would have more pairs than this (a second of work).
PAIRS = 100_000_000
# Intervals of first: enough that hardly more pairs than the frontier's own survive the scan, few enough for
# the cache.
INTERVALS = 1 << 14
# Beyond this many survivors (scores that mirror each other) the corners of the intervals become the frontier.
SURVIVORS = 2_000_000
# Roots are shared out in this many lots, whatever the number of cores, so that results do not depend on it.
LOTS = 16


class TreeFront(NamedTuple):
    """A frontier of trees: points, where each comes from, and whether each is attained.

    origin (m, 7): the root's split (−1: none), then the split and the two actions of the left and of the
    right side. sides: the frontiers it was made from, where the trees have roots.
    """

    first: FloatArray
    second: FloatArray
    origin: IntArray
    exact: bool
    sides: Sides | None = None


def tree_of(origin: IntArray, bins: Bins) -> Node:
    """The tree of an origin (7,)."""
    root, *sides = (int(x) for x in origin)
    left, right = (_stump(bins, *side) for side in (sides[:3], sides[3:]))
    return left if root < 0 else branch(bins.test(root), left, right)


def _stump(bins: Bins, split: int, left: int, right: int) -> Node:
    return left if split < 0 else branch(bins.test(split), left, right)


def best_front(bins: Bins, codes: Codes, first: FloatArray, second: FloatArray, *, depth: int) -> TreeFront:
    """The frontier of Σ first and Σ second, both (n, A), over all trees of at most the given depth."""
    layout = bins.layout
    both = np.concatenate((first, second), axis=1)
    ties = TIE * float(np.abs(first).sum()), TIE * float(np.abs(second).sum())
    if depth < 2 or bins.n_splits == 0:
        none = Bins(()) if depth == 0 else bins
        sums = sum_one(codes[:, : len(none.features)], both, none.layout.starts)
        f, s, stump = stump_front(sums, both.sum(axis=0), *none.layout, *ties)
        origin = np.full((len(f), 7), -1, dtype=np.int64)
        origin[:, 1:4] = stump
        return TreeFront(f, s, origin, exact=True)

    histograms = Histograms(codes, both, layout)
    cap = most_points(bins.n_splits)
    found: dict[int, tuple[IntArray, FloatArray, FloatArray, IntArray, bool]] = {}

    def sides_of(j: int) -> None:
        found[j] = root_fronts(histograms.of(j), j, *layout, *ties, cap)

    each(sides_of, count=len(bins.features))
    parts = [found[j] for j in range(len(bins.features))]
    stumps = np.concatenate([part[3] for part in parts])
    edges: IntArray = np.concatenate((np.zeros(1, dtype=np.int64), *(part[0] for part in parts))).cumsum()
    sides = Sides(
        edges, np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts]), stumps
    )
    f, s, lefts, rights, exact = front_of_pairs(edges, sides.first, sides.second, ties=ties)
    roots = np.searchsorted(edges, lefts, side="right") // 2
    origin = np.column_stack((roots, stumps[lefts], stumps[rights]))
    return TreeFront(f, s, origin, exact=exact and all(part[4] for part in parts), sides=sides)


def most_points(n_roots: int) -> int:
    """How many points a side may have before it is thinned."""
    return max(64, math.isqrt(PAIRS // n_roots))


def front_of_pairs(
    edges: IntArray, first: FloatArray, second: FloatArray, *, ties: tuple[float, float]
) -> tuple[FloatArray, FloatArray, IntArray, IntArray, bool]:
    """The frontier over all roots: first, second, the left and the right point of each, and whether each is
    attained.

    One pass over all pairs finds the best second in each interval of first, another keeps the pairs it does
    not dominate. Should they be too many, the corners (largest first, largest second) of the intervals
    dominate every tree, each overstating first by at most 1/(INTERVALS − 1) of its range.
    """
    n_roots = len(edges) // 2
    lots = min(LOTS, n_roots)
    roots = [n_roots * lot // lots for lot in range(lots + 1)]
    low, scale = span(edges, first, second, INTERVALS)
    scans = [(np.full((INTERVALS, 3), -np.inf), np.zeros((INTERVALS, 2), dtype=np.int64)) for _ in range(lots)]

    def scan(lot: int) -> None:
        scan_pairs(edges, first, second, low, scale, *scans[lot], roots[lot], roots[lot + 1])

    each(scan, count=lots)
    tops, pairs = merge(scans)
    above = np.empty(INTERVALS)
    climb(tops, above)
    kept: dict[int, tuple[FloatArray, FloatArray, IntArray, IntArray]] = {}

    def keep(lot: int) -> None:
        kept[lot] = keep_pairs(edges, first, second, low, scale, tops, above, SURVIVORS, roots[lot], roots[lot + 1])

    each(keep, count=lots)
    parts = [kept[lot] for lot in range(lots)]
    exact = True
    if sum(len(part[0]) for part in parts) > SURVIVORS:
        stands = np.flatnonzero(tops[:, 0] > above)
        exact = bool((tops[stands, 1] == tops[stands, 2]).all())
        parts = [(tops[stands, 2], tops[stands, 0], pairs[stands, 0], pairs[stands, 1])]
    f, s = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    lefts, rights = np.concatenate([part[2] for part in parts]), np.concatenate([part[3] for part in parts])
    chosen = settle(f, s, *ties)
    return f[chosen], s[chosen], lefts[chosen], rights[chosen], exact


def merge(scans: list[tuple[FloatArray, IntArray]]) -> tuple[FloatArray, IntArray]:
    """One scan of all roots from scans of some each, in order."""
    tops, pairs = scans[0]
    for more, theirs in scans[1:]:
        better = (more[:, 0] > tops[:, 0]) | ((more[:, 0] == tops[:, 0]) & (more[:, 1] > tops[:, 1]))
        tops[better, :2] = more[better, :2]
        pairs[better] = theirs[better]
        np.maximum(tops[:, 2], more[:, 2], out=tops[:, 2])
    return tops, pairs
