"""The frontier of two scores over all trees: pairs of points of the two sides of every root."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.policies.base import Frontier, RisingValue
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.fronts import SideFronts, root_fronts, stump_front
from pacbandits.policies.trees.histograms import Histograms, PairSums, each, sum_one
from pacbandits.policies.trees.leaves import SmallestLeaf
from pacbandits.policies.trees.limits import TreeLimits
from pacbandits.policies.trees.near import Sides, large_trees
from pacbandits.policies.trees.pairs import Couples, cut_first, front_beyond_ties, keep_pairs, largest_above, scan_pairs
from pacbandits.policies.trees.search import ALL_BELOW, ALL_SPLITS
from pacbandits.policies.trees.tree import Node, TreePolicy, branch

# Gains this small, relative to the sum of all |scores|, are rounding. A tree gathers seven: leaves, sides, root.
FRONT_TIE_SHARE = 1e-13
# In how many lots roots are shared out, whatever the number of cores, so that results do not depend on it.
ROOT_LOTS = 16


class TreeFront(NamedTuple):
    """A frontier of trees.

    first (m,): of its points, falling.
    second (m,): of its points, rising.
    origin (m, 7): the root's split (−1: none), then the split and the two actions of the left and of the right side.
    exact: whether every point is attained.
    sides: the frontiers it was made from, where the trees have roots.
    """

    first: FloatArray
    second: FloatArray
    origin: IntArray
    exact: bool
    sides: Sides | None = None

    def frontier(self, bins: Bins, *, n_actions: int) -> Frontier:
        """The same as a frontier of policies."""
        sides = self.sides

        def policy(origin: IntArray) -> TreePolicy:
            return TreePolicy(root=tree_of(origin, bins), n_actions=n_actions)

        def search(value: RisingValue, most: int) -> list[TreePolicy]:
            return [] if sides is None else [policy(origin) for origin in large_trees(sides, value, most=most)]

        return Frontier(
            self.first,
            self.second,
            exact=self.exact,
            build=lambda index: policy(self.origin[index]),
            search=None if sides is None else search,
        )


class PairFront(NamedTuple):
    """The frontier of pairs of a left and a right point.

    first (m,): of its points, falling.
    second (m,): of its points, rising.
    lefts (m,): the left point of each pair.
    rights (m,): the right point of each pair.
    exact: whether every point is attained by its pair.
    """

    first: FloatArray
    second: FloatArray
    lefts: IntArray
    rights: IntArray
    exact: bool


def tree_of(origin: IntArray, bins: Bins) -> Node:
    """The tree of an origin (7,)."""
    root, *sides = (int(x) for x in origin)
    left, right = (
        one if split < 0 else branch(bins.test(split), one, two) for split, one, two in (sides[:3], sides[3:])
    )
    return left if root < 0 else branch(bins.test(root), left, right)


def best_front(
    bins: Bins,
    codes: Codes,
    first: FloatArray,
    second: FloatArray,
    *,
    depth: int,
    limits: TreeLimits,
    leaf: SmallestLeaf | None = None,
) -> TreeFront:
    """The frontier of Σ first and Σ second, both (n, A), over all trees of at most the given depth.

    leaf: what each leaf must hold; None where any will do.
    """
    both = np.concatenate((first, second), axis=1)
    ties = FRONT_TIE_SHARE * float(np.abs(first).sum()), FRONT_TIE_SHARE * float(np.abs(second).sum())
    if leaf is not None and not leaf.roots.any():
        depth = 0
    if depth < 2 or bins.n_splits == 0:
        none = Bins(()) if depth == 0 else bins
        roots = ALL_SPLITS if leaf is None or depth == 0 else leaf.roots
        sums = sum_one(codes[:, : len(none.features)], both, none.layout.starts)
        return front_by_bins(none, sums, both.sum(axis=0), ties=ties, allowed=roots)
    histograms = Histograms(codes, both, bins.layout, kept_bytes=limits.kept_bytes)
    return front_by_pairs(bins, histograms, ties=ties, limits=limits, leaf=leaf)


def front_by_bins(
    bins: Bins, sums: FloatArray, total: FloatArray, *, ties: tuple[float, float], allowed: BoolArray
) -> TreeFront:
    """The frontier over trees of depth 1 or less, by the sums (all bins, 2A) of both scores, and of all (2A,)."""
    f, s, stump = stump_front(sums, total, bins.layout, ties, allowed)
    origin = np.full((len(f), 7), -1, dtype=np.int64)
    origin[:, 1:4] = stump
    return TreeFront(f, s, origin, exact=True)


def front_by_pairs(
    bins: Bins, pairs: PairSums, *, ties: tuple[float, float], limits: TreeLimits, leaf: SmallestLeaf | None
) -> TreeFront:
    """The frontier over trees of depth 2 or less, by the sums of both scores (2A) in the bins of any two features."""
    cap = limits.points_of_a_side(bins.n_splits)
    found: dict[int, SideFronts] = {}

    def sides_of(j: int) -> None:
        allowed = ALL_BELOW if leaf is None else leaf.below(j)
        found[j] = root_fronts(pairs.of(j), j, bins.layout, ties, cap, allowed)

    each(sides_of, count=len(bins.features))
    parts = [found[j] for j in range(len(bins.features))]
    whole = all(part.exact for part in parts)  # no side was thinned
    edges: IntArray = np.concatenate((np.zeros(1, dtype=np.int64), *(part.lengths for part in parts))).cumsum()
    first, second, stumps = (np.concatenate([part[k] for part in parts]) for k in (1, 2, 3))
    sides = Sides(Couples(edges, first, second), stumps)
    f, s, lefts, rights, exact = front_of_pairs(sides.fronts, ties=ties, limits=limits)
    roots = np.searchsorted(sides.fronts.edges, lefts, side="right") // 2
    origin = np.column_stack((roots, sides.stumps[lefts], sides.stumps[rights]))
    return TreeFront(f, s, origin, exact=exact and whole, sides=sides)


def front_of_pairs(couples: Couples, *, ties: tuple[float, float], limits: TreeLimits) -> PairFront:
    """The frontier over all roots, each a couple of sides.

    One pass over all pairs finds the best second in each interval of first, another keeps the pairs it does not
    dominate. Should they be too many, the corners (largest first, largest second) of the intervals dominate every tree,
    each overstating first by at most 1/(intervals − 1) of its range.
    """
    count = limits.intervals
    n_roots = len(couples.edges) // 2
    lots = min(ROOT_LOTS, n_roots)
    roots = [n_roots * lot // lots for lot in range(lots + 1)]
    intervals = cut_first(couples, count)
    scans = [(np.full((count, 3), -np.inf), np.zeros((count, 2), dtype=np.int64)) for _ in range(lots)]
    each(
        lambda lot: scan_pairs(couples, intervals, *scans[lot], roots[lot], roots[lot + 1]),
        count=lots,
        what="pairing, lot",
    )
    tops, pairs = scans[0]
    for more, theirs in scans[1:]:
        better = (more[:, 0] > tops[:, 0]) | ((more[:, 0] == tops[:, 0]) & (more[:, 1] > tops[:, 1]))
        tops[better, :2] = more[better, :2]
        pairs[better] = theirs[better]
        np.maximum(tops[:, 2], more[:, 2], out=tops[:, 2])
    above = np.empty(count)
    largest_above(tops, above)
    kept: dict[int, tuple[FloatArray, FloatArray, IntArray, IntArray]] = {}

    def keep(lot: int) -> None:
        kept[lot] = keep_pairs(couples, intervals, tops, above, limits.survivors, roots[lot], roots[lot + 1])

    each(keep, count=lots, what="pairing, lot")
    parts = [kept[lot] for lot in range(lots)]
    exact = True
    if sum(len(part[0]) for part in parts) > limits.survivors:
        stands = np.flatnonzero(tops[:, 0] > above)
        exact = bool((tops[stands, 1] == tops[stands, 2]).all())
        parts = [(tops[stands, 2], tops[stands, 0], pairs[stands, 0], pairs[stands, 1])]
    f, s = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    lefts, rights = np.concatenate([part[2] for part in parts]), np.concatenate([part[3] for part in parts])
    chosen = front_beyond_ties(f, s, *ties)
    return PairFront(f[chosen], s[chosen], lefts[chosen], rights[chosen], exact)
