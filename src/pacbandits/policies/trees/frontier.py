"""The frontier of two scores over all trees, from pairs of points of the two sides of every root."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.policies.base import Frontier, RisingValue
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.histograms import (
    ALL_BELOW,
    ALL_SPLITS,
    TREE_TIE_SHARE,
    Histograms,
    PairSums,
    SmallestLeaf,
    TreeLimits,
    each,
    sum_one,
)
from pacbandits.policies.trees.side_fronts import (
    Couples,
    SideFronts,
    cut_first,
    front_beyond_ties,
    keep_pairs,
    largest_above,
    root_fronts,
    scan_pairs,
    stump_front,
)
from pacbandits.policies.trees.tree_policy import Node, TreePolicy, branch

# Good trees from the whole class, for callers that need many different trees.


MOST_POINTS_OF_A_SIDE = 128
MOST_TREES_OF_A_ROOT = 20


class Sides(NamedTuple):
    """The frontiers of the two sides of every root.

    fronts: a couple for each root.
    stumps (m, 3): the split (−1: none) and the two actions of each point.
    """

    fronts: Couples
    stumps: IntArray


def large_trees(sides: Sides, value: RisingValue, *, most: int) -> IntArray:
    """Return the origins (k, 7) of up to `most` trees with a large `value`, the largest first, a few for each root.

    Each point of one side is paired with its best partner on the other, so that trees of one root differ on a side.
    """
    n_roots = len(sides.fronts.edges) // 2
    values = np.full((n_roots, MOST_TREES_OF_A_ROOT), -np.inf)
    pairs = np.zeros((n_roots, MOST_TREES_OF_A_ROOT, 2), dtype=np.int64)

    def try_roots(start: int, stop: int) -> None:
        for root in range(start, stop):
            found, chosen = _large_pairs(sides, root, value)
            values[root, : len(found)] = found
            pairs[root, : len(found)] = chosen

    over_cores(try_roots, count=n_roots)
    order = np.argsort(-values.ravel(), kind="stable")[:most]
    order = order[np.isfinite(values.ravel()[order])]
    left, right = pairs.reshape(-1, 2)[order].T
    return np.column_stack((order // MOST_TREES_OF_A_ROOT, sides.stumps[left], sides.stumps[right]))


def _large_pairs(sides: Sides, root: int, value: RisingValue) -> tuple[FloatArray, IntArray]:
    """Return the largest values (k,) of a root's trees, and their pairs of points (k, 2)."""
    edges, first, second = sides.fronts
    left, right = (_some(edges[2 * root + side], edges[2 * root + side + 1]) for side in (0, 1))
    if len(left) == 0:  # the root is not allowed
        return np.empty(0), np.empty((0, 2), dtype=np.int64)
    table = value(first[left][:, None] + first[right], second[left][:, None] + second[right])
    rows, columns = np.arange(len(left)), np.arange(len(right))
    i = np.concatenate([rows, table.argmax(axis=0)])
    j = np.concatenate([table.argmax(axis=1), columns])
    flat = np.unique(i * len(right) + j)
    top = flat[np.argsort(-table.ravel()[flat], kind="stable")[:MOST_TREES_OF_A_ROOT]]
    return table.ravel()[top], np.column_stack((left[top // len(right)], right[top % len(right)]))


def _some(start: int, stop: int) -> IntArray:
    """Return a range of indices, or MOST_POINTS_OF_A_SIDE of it, ends included."""
    if stop - start <= MOST_POINTS_OF_A_SIDE:
        return np.arange(start, stop)
    return start + np.round(np.linspace(0, stop - start - 1, MOST_POINTS_OF_A_SIDE)).astype(np.int64)


# Gains this small, relative to the sum of all |scores|, are rounding. A tree accumulates seven: leaves, sides, root.
FRONT_TIE_SHARE = 1e-13
# The number of lots of roots; it does not depend on the number of cores, so that results do not either.
ROOT_LOTS = 16


class TreeFront(NamedTuple):
    """A frontier of trees.

    first (m,): first scores of its points, decreasing.
    second (m,): second scores of its points, increasing.
    origin (m, 7): the root's split (−1: none), then the split and the two actions of the left and of the right side.
    exact: whether every point is attained.
    sides: the frontiers it was made from, if the trees have roots.
    """

    first: FloatArray
    second: FloatArray
    origin: IntArray
    exact: bool
    sides: Sides | None = None

    def frontier(self, bins: Bins, *, n_actions: int) -> Frontier:
        """Return the same as a frontier of policies."""
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

    first (m,): first scores of its points, decreasing.
    second (m,): second scores of its points, increasing.
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
    """Return the tree of an origin (7,)."""
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
    """Return the frontier of Σ first and Σ second, both (n, A), over all trees of at most the given depth.

    leaf: the minimum share of each leaf; None without one.
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
    """Return the frontier over trees of depth at most 1, by sums of both scores (all bins, 2A) and totals (2A,)."""
    f, s, stump = stump_front(sums, total, bins.layout, ties, allowed)
    origin = np.full((len(f), 7), -1, dtype=np.int64)
    origin[:, 1:4] = stump
    return TreeFront(f, s, origin, exact=True)


def front_by_pairs(
    bins: Bins, pairs: PairSums, *, ties: tuple[float, float], limits: TreeLimits, leaf: SmallestLeaf | None
) -> TreeFront:
    """Return the frontier over trees of depth at most 2, by sums of both scores (2A) over pairs of features."""
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
    """Return the frontier over all roots, each a couple of sides.

    One pass over all pairs finds the best second in each interval of first, another keeps the pairs not dominated by
    it. If too many remain, the corners (largest first, largest second) of the intervals dominate every tree, each
    overstating first by at most 1/(intervals − 1) of its range.
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


# The two-score constrained argmax over trees of depth 0, 1 and 2, exactly: the first score is maximised subject to a
# lower bound on the second.
#
# Below a root the two sides are independent, and only points of their frontiers can be optimal: as the second of the
# left point rises, the best partner on the right moves the other way. So a root takes as many steps as it has points,
# not pairs of points, and nothing has to be thinned or rounded.


NO_THINNING = 1 << 62  # points of a side


@kernel
def best_pair(fronts: SideFronts, least: float, tie: float) -> tuple[float, IntArray]:
    """Return the largest sum of first under a root of a feature with a sum of second ≥ `least`, and its origin (7,).

    −∞ if there is none. Roots are counted from the first of the feature; a later one must gain more than `tie`.
    """
    lengths, first, second = fronts.lengths, fronts.first, fronts.second
    best = -np.inf
    origin = np.full(7, -1, dtype=np.int64)
    begin = 0
    for root in range(lengths.shape[0] // 2):
        middle = begin + lengths[2 * root]
        end = middle + lengths[2 * root + 1]
        partner = end
        for i in range(begin, middle):
            while partner > middle and second[i] + second[partner - 1] >= least:
                partner -= 1
            if partner < end and first[i] + first[partner] > best + tie:
                best = first[i] + first[partner]
                origin[0] = root
                for c in range(3):
                    origin[1 + c], origin[4 + c] = fronts.stumps[i, c], fronts.stumps[partner, c]
        begin = end
    return best, origin


def best_within(
    bins: Bins,
    codes: Codes,
    first: FloatArray,
    second: FloatArray,
    *,
    least: float,
    depth: int,
    limits: TreeLimits,
    leaf: SmallestLeaf | None,
) -> Node | None:
    """Return the tree of largest Σ first among those with Σ second ≥ least, both (n, A); None if there is none.

    Ties (to rounding) go to the fewest tests, then to the first.
    """
    both = np.concatenate((first, second), axis=1)
    ties = FRONT_TIE_SHARE * float(np.abs(first).sum()), FRONT_TIE_SHARE * float(np.abs(second).sum())
    tie = TREE_TIE_SHARE * float(np.abs(first).sum())
    roots = ALL_SPLITS if leaf is None else leaf.roots
    best, found = -np.inf, np.full(7, -1, dtype=np.int64)
    for shallow in range(min(depth, 1) + 1):
        some, allowed = (bins, roots) if shallow else (Bins(()), ALL_SPLITS)
        sums = sum_one(np.ascontiguousarray(codes[:, : len(some.features)]), both, some.layout.starts)
        f, s, stumps = stump_front(sums, both.sum(axis=0), some.layout, ties, allowed)
        enough = np.flatnonzero(s >= least)
        if enough.size > 0 and f[enough[0]] > best + tie:
            best, found[1:4] = f[enough[0]], stumps[enough[0]]
    if depth == 2 and bins.n_splits > 0:
        histograms = Histograms(codes, both, bins.layout, kept_bytes=limits.kept_bytes)
        pairs: dict[int, tuple[float, IntArray]] = {}

        def try_feature(j: int) -> None:
            below = ALL_BELOW if leaf is None else leaf.below(j)
            fronts = root_fronts(histograms.of(j), j, bins.layout, ties, NO_THINNING, below)
            pairs[j] = best_pair(fronts, least, tie)

        each(try_feature, count=len(bins.features))
        for j in range(len(bins.features)):
            if pairs[j][0] > best + tie:
                best, found = pairs[j]
                found[0] += bins.layout.split_starts[j]
    return None if best == -np.inf else tree_of(found, bins)
