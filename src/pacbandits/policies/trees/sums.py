"""Decision trees searched by sums of scores over rows, made anywhere and in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.compiled import kernel
from pacbandits.policies.base import Frontier, PolicyClass
from pacbandits.policies.summing import IntSums, Summation
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.frontier import FRONT_TIE_SHARE, TreeFront, front_by_bins, front_by_pairs
from pacbandits.policies.trees.histograms import STRETCH_ROWS, mirror
from pacbandits.policies.trees.search import ALL_SPLITS, TREE_TIE_SHARE, best_by_bins, best_by_pairs
from pacbandits.policies.trees.tree import Node, TreePolicy
from pacbandits.records import Contexts, Policy

if TYPE_CHECKING:
    from pacbandits.policies.trees.oracle import Trees

NO_BINS = Bins(())


@kernel
def add_pairs(codes: Codes, scores: IntSums, starts: IntSums, order: IntSums, out: IntSums) -> None:
    """Add to out (all bins, all bins, W) the scores (n, W) by the bins of any two features j ≤ k.

    Rows are taken a stretch at a time, and in it bin by bin of j, so that the rows and the sums being added to stay in
    cache. order (as many as a stretch has rows): to work with.
    """
    n, width = scores.shape
    n_features = codes.shape[1]
    for begin in range(0, n, STRETCH_ROWS):
        end = min(begin + STRETCH_ROWS, n)
        for j in range(n_features):
            first = starts[j]
            edges = np.zeros(starts[j + 1] - first + 1, dtype=np.int64)
            for r in range(begin, end):
                edges[codes[r, j] + 1] += 1
            for b in range(edges.shape[0] - 1):
                edges[b + 1] += edges[b]
            place = edges.copy()
            for r in range(begin, end):
                b = codes[r, j]
                order[place[b]] = r
                place[b] += 1
            for b in range(edges.shape[0] - 1):
                slab = out[first + b]
                for i in range(edges[b], edges[b + 1]):
                    r = order[i]
                    row = scores[r]
                    for k in range(j, n_features):
                        cell = slab[starts[k] + codes[r, k]]
                        for a in range(width):
                            cell[a] += row[a]


@kernel
def add_bins(codes: Codes, scores: IntSums, starts: IntSums, out: IntSums) -> None:
    """Add to out (all bins, W) the scores (n, W) by the bins of each feature."""
    for r in range(scores.shape[0]):
        for k in range(codes.shape[1]):
            b = starts[k] + codes[r, k]
            for a in range(scores.shape[1]):
                out[b, a] += scores[r, a]


class SummingTrees(Summation):
    """Sums by the bins of any two features (of one, for trees of depth 1): all that the search for a tree needs."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        alone = trees.bins.n_splits == 0 or (trees.leaf is not None and not trees.leaf.roots.any())
        self.depth = 0 if alone else trees.depth
        self.bins = self.coded_bins = trees.bins if self.depth else NO_BINS
        self.policies = TreesBySums(self)
        self.contexts = Contexts.of(np.zeros((1, 0)))  # none are needed: what contexts there are lies in the sums

    def zeros(self, width: int) -> IntSums:
        bins = int(self.bins.layout.starts[-1])
        shapes = {0: (1, width), 1: (bins, width), 2: (bins, bins, width)}
        return np.zeros(shapes[self.depth], dtype=np.int64)

    def add(self, contexts: Contexts, scores: IntSums, sums: IntSums) -> None:
        self.add_coded(self.trees.bins.encode(contexts), scores, sums)

    def add_coded(self, codes: Codes, scores: IntSums, sums: IntSums) -> None:
        """The same for rows whose bins (n, d) are known."""
        starts = self.bins.layout.starts
        if self.depth == 0:
            sums[0] += scores.sum(axis=0)
        elif self.depth == 1:
            add_bins(codes, scores, starts, sums)
        else:
            add_pairs(codes, scores, starts, np.empty(STRETCH_ROWS, dtype=np.int64), sums)

    def finish(self, sums: IntSums) -> FloatArray:
        out = sums.astype(np.float64)
        if self.depth == 2:
            for j in range(len(self.bins.features)):
                mirror(out, self.bins.layout.starts, j)
        return out

    def totals(self, sums: FloatArray) -> FloatArray:
        if self.depth == 0:
            return sums[0]
        last = int(self.bins.layout.starts[1])  # every row is in one bin of the first feature
        return sums[:last].sum(axis=0) if self.depth == 1 else sums[np.arange(last), np.arange(last)].sum(axis=0)


class _Pairs:
    """Sums (all bins, all bins, W), one root feature at a time."""

    def __init__(self, sums: FloatArray, bins: Bins) -> None:
        self._sums, self._starts = sums, bins.layout.starts

    def of(self, feature: int) -> FloatArray:
        return self._sums[self._starts[feature] : self._starts[feature + 1]]


class TreesBySums(PolicyClass):
    """Trees asked with sums in the place of scores."""

    def __init__(self, summing: SummingTrees) -> None:
        self._summing, self._trees = summing, summing.trees
        self.n_actions, self.log_size, self.exact = self._trees.n_actions, self._trees.log_size, self._trees.exact

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """The best tree, by sums of scores; of equals as for `Trees.argmax`."""
        bins, depth, leaf = self._summing.bins, self._summing.depth, self._trees.leaf
        tie, total = TREE_TIE_SHARE * self._size(scores), self._summing.totals(scores)
        if depth == 0:
            return self._policy(int(np.argmax(total >= total.max() - tie)))
        if depth == 1:
            allowed = ALL_SPLITS if leaf is None else leaf.roots
            return self._policy(best_by_bins(bins, scores, total, tie=tie, allowed=allowed)[1])
        return self._policy(best_by_pairs(bins, _Pairs(scores, bins), tie=tie, leaf=leaf))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The frontier of two scores, by sums of them."""
        bins, depth, leaf = self._summing.bins, self._summing.depth, self._trees.leaf
        both = np.ascontiguousarray(np.concatenate((first, second), axis=-1))
        ties = FRONT_TIE_SHARE * self._size(first), FRONT_TIE_SHARE * self._size(second)
        if depth < 2:
            allowed = ALL_SPLITS if leaf is None or depth == 0 else leaf.roots
            sums = both if depth else both[:0]
            front: TreeFront = front_by_bins(bins, sums, self._summing.totals(both), ties=ties, allowed=allowed)
        else:
            front = front_by_pairs(bins, _Pairs(both, bins), ties=ties, limits=self._trees.limits, leaf=leaf)
        return front.frontier(bins, n_actions=self.n_actions)

    def attained(self, contexts: Contexts, scores: FloatArray, policy: Policy) -> float:
        """What the scores of all rows sum to for a tree of the class."""
        assert isinstance(policy, TreePolicy)
        root = policy.root
        if isinstance(root, int):
            return float(self._summing.totals(scores)[root])
        bins, layout = self._summing.bins, self._summing.bins.layout
        split = bins.places[root.test]
        j, left = bins.locate(split)[0], bins.sent_left(split)
        if self._summing.depth == 1:
            own = scores[layout.starts[j] : layout.starts[j + 1]]
            return float(own[left, root.then].sum() + own[~left, root.otherwise].sum())  # pyright: ignore
        block = scores[layout.starts[j] : layout.starts[j + 1]]
        sides = zip((block[left].sum(axis=0), block[~left].sum(axis=0)), (root.then, root.otherwise), strict=True)
        return sum(self._side(sums, node, j) for sums, node in sides)

    def _side(self, sums: FloatArray, node: Node, j: int) -> float:
        """What one side of a root on feature j attains; sums (all bins, A): of the rows there."""
        bins, starts = self._summing.bins, self._summing.bins.layout.starts
        if isinstance(node, int):
            return float(sums[starts[j] : starts[j + 1], node].sum())
        split = bins.places[node.test]
        k, left = bins.locate(split)[0], bins.sent_left(split)
        own = sums[starts[k] : starts[k + 1]]
        return float(own[left, node.then].sum() + own[~left, node.otherwise].sum())  # pyright: ignore

    def _size(self, scores: FloatArray) -> float:
        """About what all scores come to without their signs."""
        if self._summing.depth == 0:
            return float(np.abs(scores).sum())
        part = scores[: int(self._summing.bins.layout.starts[1])]
        return float(np.abs(part).sum()) / (len(self._summing.bins.features) if self._summing.depth == 2 else 1)

    def _policy(self, root: Node) -> TreePolicy:
        return TreePolicy(root=root, n_actions=self.n_actions)
