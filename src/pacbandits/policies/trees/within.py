"""The best tree that keeps a limit: the constrained argmax (C-AMO) over trees of depth 0, 1 and 2, exactly.

Of two scores the first is to be large and the second is to reach a limit. Below a root the two sides are free of each
other, and only points of their frontiers can be best: those of the left are gone through by rising second, and the best
partner on the right moves the other way. So a root takes as many steps as it has points, not as it has pairs of them,
and nothing has to be thinned or rounded.
"""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.frontier import FRONT_TIE_SHARE, tree_of
from pacbandits.policies.trees.fronts import SideFronts, root_fronts, stump_front
from pacbandits.policies.trees.histograms import Histograms, each, sum_one
from pacbandits.policies.trees.leaves import SmallestLeaf
from pacbandits.policies.trees.limits import TreeLimits
from pacbandits.policies.trees.search import ALL_BELOW, ALL_SPLITS, TREE_TIE_SHARE
from pacbandits.policies.trees.tree import Node

NO_THINNING = 1 << 62  # points of a side


@kernel
def best_pair(fronts: SideFronts, least: float, tie: float) -> tuple[float, IntArray]:
    """The largest sum of first under a root of a feature with a sum of second of `least` or more, and its origin (7,).

    −∞ where there is none. Roots are counted from the first of the feature, and a later one must gain more than `tie`.
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
    """The tree of largest Σ first among those with Σ second ≥ least, both (n, A); None where there is none.

    Of equals (to rounding) the one of fewest tests, then the first.
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
