"""The policy classes of decision trees: exact to depth 2, by search beyond, and searched by sums over rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance, number, whole_number
from pacbandits.compiled import cores, kernel
from pacbandits.errors import InputError
from pacbandits.policies.base import Frontier, PerContexts, PolicyClass, SearchCost, check_n_actions, check_scores
from pacbandits.policies.summation import IntSums, Summation
from pacbandits.policies.trees.bins import Bins, Codes, KnownContexts
from pacbandits.policies.trees.frontier import (
    FRONT_TIE_SHARE,
    TreeFront,
    best_front,
    best_within,
    front_by_bins,
    front_by_pairs,
)
from pacbandits.policies.trees.histograms import (
    ALL_SPLITS,
    STRETCH_ROWS,
    TREE_TIE_SHARE,
    SmallestLeaf,
    TreeLimits,
    mirror,
)
from pacbandits.policies.trees.search import (
    DeepSearch,
    Effort,
    best_by_bins,
    best_by_pairs,
    best_tree,
)
from pacbandits.policies.trees.tree_policy import Node, TreePolicy, leaf_numbers, leaves, simplest_tree
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy

# Search costs of trees: rows summed by pairs of features, and pairs of splits evaluated.
#
# Legend: n rows, d features, B bins and S splits of all features together, A actions.
#
#     argmax      n d²/2 additions to the sums of two features' bins, A scores each (d² when they are made twice),
#                 S² pairs of a root and a split below it, A actions compared in each
#     frontier    the same for 2A scores, and the frontiers of S² pairs of leaves
#
# The speeds below were measured on one core of 2024 (benchmarks/estimates.py measures them again).


SECONDS_PER_CALL = 2e-3  # overhead of any call
SECONDS_PER_ROW_AND_PAIR = 4e-9  # per row and pair of features, before the first score is added
SECONDS_PER_ADDITION = 0.6e-9
SECONDS_PER_SPLIT_PAIR = 20e-9
SECONDS_PER_COMPARISON = 8e-9  # per action, at a pair of splits
SECONDS_PER_FRONTIER_STEP = 80e-9  # per action, at a pair of splits
SECONDS_PER_PAIR_OF_POINTS = 1e-8  # of the two sides of a root
BYTES_PER_FRONTIER_POINT = 80.0  # twice: in parts, then as a whole
BYTES_PER_NUMBER = 8.0
SHARED_FRONTIER_BYTES = 2e7


@dataclass(frozen=True)
class TreeSizes:
    """The sizes that search costs depend on.

    n_features: d.
    n_bins: B.
    most_bins: the largest number of bins of one feature.
    n_splits: S.
    n_actions: A.
    kept_bytes: the largest joint sums that are cached.
    """

    n_features: int
    n_bins: int
    most_bins: int
    n_splits: int
    n_actions: int
    kept_bytes: int = TreeLimits.kept_bytes

    @classmethod
    def of(cls, bins: Bins, *, n_actions: int, kept_bytes: int = TreeLimits.kept_bytes) -> TreeSizes:
        counts = [feature.n_bins for feature in bins.features]
        return cls(len(counts), sum(counts), max(counts, default=0), bins.n_splits, n_actions, kept_bytes)

    def keeps(self, width: int) -> bool:
        """Return whether the joint sums of `width` scores are cached, so that each pair of features is summed once."""
        return self.n_bins**2 * width * BYTES_PER_NUMBER <= self.kept_bytes

    def adding(self, n_rows: float, pairs: float, width: int) -> float:
        """Return the seconds on one core to sum `width` scores of n_rows rows for this many pairs of features."""
        return n_rows * pairs * (SECONDS_PER_ROW_AND_PAIR + width * SECONDS_PER_ADDITION)

    def summing(self, n_rows: float, width: int) -> float:
        """Return the seconds on one core to sum all pairs of features, once or (if sums are not cached) twice."""
        pairs = self.n_features * (self.n_features + 1) / 2 if self.keeps(width) else self.n_features**2
        return self.adding(n_rows, pairs, width)

    @property
    def scanning(self) -> float:
        """Seconds on one core to evaluate all pairs of splits."""
        return self.n_splits**2 * (SECONDS_PER_SPLIT_PAIR + self.n_actions * SECONDS_PER_COMPARISON)

    def sums_bytes(self, n_rows: int, width: int) -> float:
        """Return the memory for scores, codes and the sums held at once: all, or those of one feature for each core."""
        rows = n_rows * (2 * width * BYTES_PER_NUMBER + self.n_features)
        a_core = (self.most_bins + 3) * self.n_bins * width * BYTES_PER_NUMBER
        kept = self.n_bins**2 * width * BYTES_PER_NUMBER + cores() * 3 * self.n_bins * width * BYTES_PER_NUMBER
        return rows + (kept if self.keeps(width) else cores() * a_core)


def argmax_cost(sizes: TreeSizes, n_rows: int, *, depth: int) -> SearchCost:
    """Return the cost of the exact search for the best tree of depth 0, 1 or 2."""
    seconds = SECONDS_PER_CALL + _shallow(sizes, n_rows, depth) / (cores() if depth == 2 else 1)
    bytes_ = sizes.sums_bytes(n_rows, sizes.n_actions) if depth == 2 else n_rows * sizes.n_actions * BYTES_PER_NUMBER
    return SearchCost(seconds, bytes_)


def frontier_cost(sizes: TreeSizes, n_rows: int, *, depth: int, limits: TreeLimits) -> SearchCost:
    """Return the cost of the frontier of two scores over all trees of depth 0, 1 or 2."""
    width = 2 * sizes.n_actions
    if depth < 2 or sizes.n_splits == 0:
        seconds = sizes.adding(n_rows, sizes.n_features, width) + sizes.n_splits * width * SECONDS_PER_FRONTIER_STEP
        return SearchCost(SECONDS_PER_CALL + seconds, n_rows * 2 * width * BYTES_PER_NUMBER)
    steps = sizes.n_splits**2 * sizes.n_actions * SECONDS_PER_FRONTIER_STEP
    most_points = limits.points_of_a_side(sizes.n_splits)
    points = min(most_points, sizes.n_splits * sizes.n_actions)
    pairing = sizes.n_splits * (points / 4) ** 2 * SECONDS_PER_PAIR_OF_POINTS
    held = 2 * sizes.n_splits * points * BYTES_PER_FRONTIER_POINT + SHARED_FRONTIER_BYTES
    seconds = SECONDS_PER_CALL + (sizes.summing(n_rows, width) + steps + pairing) / cores()
    return SearchCost(seconds, sizes.sums_bytes(n_rows, width) + held)


def deep_cost(sizes: TreeSizes, n_rows: int, *, depth: int, effort: Effort) -> SearchCost:
    """Return the cost of the search for a good tree of depth 3 or more; mirrors `DeepSearch.best`."""
    sums = max(1, sizes.n_splits * sizes.n_bins * sizes.n_actions)
    tried = min(effort.roots_tried(depth, sums=sums), sizes.n_splits)
    twice = 1 if sizes.keeps(sizes.n_actions) else 2

    def grow(rows: float, left: int) -> float:
        if left <= 2:
            return _shallow(sizes, rows, left) + SECONDS_PER_CALL
        for_each = sizes.adding(rows, sizes.n_features**2, sizes.n_actions) * twice + SECONDS_PER_CALL
        roots = _shallow(sizes, rows, 2) + min(sizes.n_features, tried) * for_each + 2 * tried * sizes.scanning
        below = 2 * effort.trees_grown(depth, left, sums=sums) * grow(rows / 2, left - 1)
        return _shallow(sizes, rows, 2) + SECONDS_PER_CALL + roots + below

    seconds = grow(n_rows, 2) + grow(n_rows, depth)
    if depth > 3 or tried < sizes.n_splits:
        seconds += 4 * grow(n_rows / 4, depth - 2)
    sides = 2.0 * sizes.n_features * sizes.n_splits * BYTES_PER_NUMBER
    rows_bytes = depth * n_rows * (sizes.n_actions * BYTES_PER_NUMBER + sizes.n_features)
    return SearchCost(seconds / cores(), sizes.sums_bytes(n_rows, sizes.n_actions) + sides + rows_bytes)


def _shallow(sizes: TreeSizes, n_rows: float, depth: int) -> float:
    """Return the seconds on one core to find the best tree of depth 0, 1 or 2."""
    if depth == 0:
        return n_rows * sizes.n_actions * SECONDS_PER_ADDITION
    if depth == 1:
        looking = sizes.n_splits * sizes.n_actions * SECONDS_PER_COMPARISON
        return sizes.adding(n_rows, sizes.n_features, sizes.n_actions) + looking
    return sizes.summing(n_rows, sizes.n_actions) + sizes.scanning


# The base class of decision trees on binned features.


class BinnedTrees(PolicyClass):
    """The class of all decision trees of at most the given depth that test binned features, with an action a leaf.

        log|Π| = (2^depth − 1) log S + 2^depth log A

    where S is the number of tests (feature and threshold, or feature and label). A tree with fewer tests equals a full
    tree whose superfluous tests have the same outcome on both sides, so it is counted.
    """

    kind = "trees"
    depths: ClassVar[range]
    other_depths: ClassVar[str]  # where trees of other depths are found

    def __init__(self, bins: Bins, *, n_actions: int, depth: int) -> None:
        self.bins = instance(bins, Bins, name="bins", remedy="make them by Bins.learn(contexts)")
        self.n_actions = check_n_actions(n_actions)
        self.depth = whole_number(depth, name="depth")
        if self.depth not in self.depths:  # before 2^depth is computed
            least, most = self.depths[0], self.depths[-1]
            raise InputError(f"depth must be from {least} to {most}, got {self.depth}; {self.other_depths}")
        self.feature_names = bins.names
        self.log_size = math.log(self.n_actions)
        if self.depth > 0 and bins.n_splits > 0:
            self.log_size = (2**self.depth - 1) * math.log(bins.n_splits) + 2**self.depth * self.log_size
        self._codes: PerContexts[Codes] = PerContexts()

    def describe(self) -> str:
        """Return the kind of trees in words."""
        return f"trees of depth {self.depth}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Return every feature with its thresholds or labels, and how many of these divide the contexts."""
        return tuple(feature.describe(contexts) for feature in self.bins.features)

    @property
    def size_words(self) -> str:
        """The numbers of features, bins and actions, in words."""
        sizes = self._sizes()
        bins = f" × {sizes.most_bins} bins" if sizes.n_splits else ""
        return f"depth-{self.depth} trees over {sizes.n_features:,} features{bins} × {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """Advice on how to reduce search costs."""
        return "take fewer features, bins or actions, or less depth"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_actions": self.n_actions, "depth": self.depth, "features": self.bins.to_json()}

    def has(self, policy: Policy) -> bool:
        """Return whether a policy is a tree of at most this depth, with tests and actions of the class."""
        if not isinstance(policy, TreePolicy) or max(leaves(policy.root)) >= self.n_actions:
            return False

        def fits(node: Node, depth: int) -> bool:
            if isinstance(node, int):
                return True
            below = depth > 0 and node.test in self.bins.places
            return below and fits(node.then, depth - 1) and fits(node.otherwise, depth - 1)

        return fits(policy.root, self.depth)

    def simplest(
        self, policy: Policy, contexts: Contexts, losses: FloatArray, squares: FloatArray, *, standard_errors: float
    ) -> Policy:
        """Return the tree with fewest leaves that loses at most `standard_errors` standard errors against a tree."""
        if not isinstance(policy, TreePolicy):
            return policy
        root = simplest_tree(policy.root, contexts, losses, squares, standard_errors=standard_errors)
        return replace(policy, root=root)

    def parts(self, policy: Policy, contexts: Contexts) -> IntArray:
        """Return the leaf (n,) of each context in a tree, from 0; a simplified tree is constant on each leaf."""
        return leaf_numbers(policy.root, contexts) if isinstance(policy, TreePolicy) else np.zeros(0, dtype=np.int64)

    def _sizes(self) -> TreeSizes:
        return TreeSizes.of(self.bins, n_actions=self.n_actions)

    def _encode(self, contexts: Contexts) -> Codes:
        return self._codes.get(contexts, self.bins.encode)


# Decision trees searched by sums of scores over rows; sums can be made anywhere and in any order.


NO_BINS = Bins(())


@kernel
def add_pairs(codes: Codes, scores: IntSums, starts: IntSums, order: IntSums, out: IntSums) -> None:
    """Add to out (all bins, all bins, W) the scores (n, W) by the bins of each pair of features j ≤ k.

    Rows are processed in stretches, sorted by the bin of j within each, so that the rows and the sums being added to
    stay in cache. order (as many as a stretch has rows): work space.
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
    """Sums by the bins of each pair of features (of one, at depth 1), which determine the best tree."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        alone = trees.bins.n_splits == 0 or (trees.leaf is not None and not trees.leaf.roots.any())
        self.depth = 0 if alone else trees.depth
        self.bins = self.coded_bins = trees.bins if self.depth else NO_BINS
        self.policies = TreesBySums(self)
        self.contexts = Contexts.of(np.zeros((1, 0)))  # a placeholder: the sums contain what is needed of the contexts

    def zeros(self, width: int) -> IntSums:
        bins = int(self.bins.layout.starts[-1])
        shapes = {0: (1, width), 1: (bins, width), 2: (bins, bins, width)}
        return np.zeros(shapes[self.depth], dtype=np.int64)

    def add(self, contexts: Contexts, scores: IntSums, sums: IntSums) -> None:
        self.add_coded(self.trees.bins.encode(contexts), scores, sums)

    def add_coded(self, codes: Codes, scores: IntSums, sums: IntSums) -> None:
        """Add the scores (n, W) of rows, given by their bins (n, d), to the sums in place."""
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
    """The class of trees with sums instead of scores as input."""

    def __init__(self, summing: SummingTrees) -> None:
        self._summing, self._trees = summing, summing.trees
        self.n_actions, self.log_size, self.exact = self._trees.n_actions, self._trees.log_size, self._trees.exact

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """Return the best tree by sums of scores; ties as in `Trees.argmax`."""
        bins, depth, leaf = self._summing.bins, self._summing.depth, self._trees.leaf
        tie, total = TREE_TIE_SHARE * self._size(scores), self._summing.totals(scores)
        if depth == 0:
            return self._policy(int(np.argmax(total >= total.max() - tie)))
        if depth == 1:
            allowed = ALL_SPLITS if leaf is None else leaf.roots
            return self._policy(best_by_bins(bins, scores, total, tie=tie, allowed=allowed)[1])
        return self._policy(best_by_pairs(bins, _Pairs(scores, bins), tie=tie, leaf=leaf))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """Return the frontier of two scores by their sums."""
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
        """Return the total score of a tree of the class over all rows."""
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
        """Return the score of one side of a root on feature j; sums (all bins, A): of the rows there."""
        bins, starts = self._summing.bins, self._summing.bins.layout.starts
        if isinstance(node, int):
            return float(sums[starts[j] : starts[j + 1], node].sum())
        split = bins.places[node.test]
        k, left = bins.locate(split)[0], bins.sent_left(split)
        own = sums[starts[k] : starts[k + 1]]
        return float(own[left, node.then].sum() + own[~left, node.otherwise].sum())  # pyright: ignore

    def _size(self, scores: FloatArray) -> float:
        """Return the approximate sum of all |scores|."""
        if self._summing.depth == 0:
            return float(np.abs(scores).sum())
        part = scores[: int(self._summing.bins.layout.starts[1])]
        return float(np.abs(part).sum()) / (len(self._summing.bins.features) if self._summing.depth == 2 else 1)

    def _policy(self, root: Node) -> TreePolicy:
        return TreePolicy(root=root, n_actions=self.n_actions)


# Decision trees of depth 0, 1 and 2.


class Trees(BinnedTrees):
    """The class of all decision trees of depth at most 0, 1 or 2 that test binned features, with an action a leaf.

        log|Π| = 3 log S + 4 log A  at depth 2,  log S + 2 log A  at depth 1,  log A  at depth 0

    where S is the number of tests (feature and threshold, or feature and label). Argmax and frontier are exact over all
    of them; a frontier of very many points is rounded outward and flagged. limits: sizes above which it is rounded.
    leaf: the minimum share of each leaf, which leaves fewer trees, so that log|Π| is an upper bound.
    """

    exact = True
    depths = range(3)
    other_depths = "DeepTrees go deeper"

    def __init__(
        self,
        bins: Bins,
        *,
        n_actions: int,
        depth: int = 2,
        limits: TreeLimits | None = None,
        leaf: SmallestLeaf | None = None,
    ) -> None:
        super().__init__(bins, n_actions=n_actions, depth=depth)
        self.limits = TreeLimits() if limits is None else instance(limits, TreeLimits, name="limits")
        self.leaf = None if leaf is None else instance(leaf, SmallestLeaf, name="leaf")
        if self.leaf is not None and self.leaf.known.bins != self.bins:
            raise InputError("the known contexts of the smallest leaf must be told apart by the bins of the trees")

    @classmethod
    def learn(
        cls, contexts: Contexts, *, n_actions: int, depth: int = 2, bins: int = 32, smallest_leaf: float = 0.0
    ) -> Trees:
        """Return trees that split numbers at the quantiles of these contexts, into at most `bins` bins each.

        smallest_leaf: the minimum share of these contexts in every leaf.

        >>> import pacbandits as pb
        >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
        >>> policies = pb.Trees.learn(people, n_actions=2, depth=1)
        >>> print(policies.argmax(people, [[1, 0], [1, 0], [0, 1], [0, 1]]).describe())  # the best for these scores
        if age ≤ 35: action 0
        else: action 1
        """
        cut = Bins.learn(contexts, bins=bins)
        share = number(smallest_leaf, name="smallest_leaf", least=0.0, most=1.0)
        leaf = SmallestLeaf(share, KnownContexts.of(contexts, cut)) if share > 0 else None
        return cls(cut, n_actions=n_actions, depth=depth, leaf=leaf)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """Return the best tree; ties (to rounding) go to the shallowest, then to the first tests and actions."""
        scores = self._checked(contexts, scores, name="scores")
        codes, most = self._encode(contexts), self.limits.kept_bytes
        tree = best_tree(self.bins, codes, scores, depth=self.depth, kept_bytes=most, leaf=self.leaf)
        return TreePolicy(root=tree, n_actions=self.n_actions)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """Return the Pareto frontier of two scores over all trees, to rounding of about 1e-12 of their sums."""
        first = self._checked(contexts, first, name="first scores")
        second = self._checked(contexts, second, name="second scores")
        codes = self._encode(contexts)
        front = best_front(self.bins, codes, first, second, depth=self.depth, limits=self.limits, leaf=self.leaf)
        return front.frontier(self.bins, n_actions=self.n_actions)

    def argmax_within(
        self, contexts: Contexts, scores: FloatArray, *, known: Contexts, costs: FloatArray, most: float
    ) -> TreePolicy | None:
        """Return the best tree of cost at most `most` on known contexts, for scores (n, A) and costs (m, A).

        None if every tree costs more; ties as in `argmax`.
        """
        scores, costs = self._checked(contexts, scores, name="scores"), self._checked(known, costs, name="costs")
        tree = best_within(
            self.bins,
            np.concatenate((self._encode(contexts), self._encode(known))),
            np.concatenate((scores, np.zeros_like(costs))),
            np.concatenate((np.zeros_like(scores), -costs)),
            least=-most,
            depth=self.depth,
            limits=self.limits,
            leaf=self.leaf,
        )
        return None if tree is None else TreePolicy(root=tree, n_actions=self.n_actions)

    def simpler(self) -> tuple[Trees, ...]:
        """Return the trees with fewer questions: of depth 0, which are single actions, and so on."""
        return tuple(
            Trees(self.bins, n_actions=self.n_actions, depth=depth, limits=self.limits, leaf=self.leaf)
            for depth in range(self.depth)
        )

    def narrowed(self, kept: tuple[int, ...]) -> Trees:
        """Return the trees that take only these actions, renumbered from 0."""
        return Trees(self.bins, n_actions=len(kept), depth=self.depth, limits=self.limits, leaf=self.leaf)

    def summing(self) -> SummingTrees:
        """Return the summation of rows for these trees, for rows that are not all in memory."""
        return SummingTrees(self)

    def know(self, contexts: Contexts) -> KnownContexts:
        """Return the contexts as trees distinguish them, by bins."""
        return KnownContexts.of(contexts, self.bins)

    def has(self, policy: Policy) -> bool:
        """Return whether a policy is a tree of the class: its depth, tests and actions, and the size of its leaves."""
        return super().has(policy) and (self.leaf is None or self.leaf.holds(cast(TreePolicy, policy).root))

    def describe(self) -> str:
        """Return the kind of trees in words."""
        return super().describe() + ("" if self.leaf is None else f", {self.leaf.describe()}")

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | ({} if self.leaf is None else {"leaf": self.leaf.to_json()})

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of an argmax on n_rows contexts."""
        return argmax_cost(self._sizes(), n_rows, depth=self.depth)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of a frontier on n_rows contexts."""
        return frontier_cost(self._sizes(), n_rows, depth=self.depth, limits=self.limits)

    def _sizes(self) -> TreeSizes:
        return TreeSizes.of(self.bins, n_actions=self.n_actions, kept_bytes=self.limits.kept_bytes)

    def _checked(self, contexts: Contexts, scores: FloatArray, *, name: str) -> FloatArray:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        # Kernels are compiled once, for contiguous writeable arrays; others are copied.
        return np.require(checked, requirements=("C", "W"))


# Decision trees of depth 3 to 8: a search with a lookahead of three tests, then local improvement.


SEARCHED_DEPTHS = range(3, 9)


def single_actions(n_actions: int) -> Trees:
    """Return the class of policies that give everybody the same action."""
    return Trees(NO_BINS, n_actions=n_actions, depth=0)


class DeepTrees(BinnedTrees):
    """The class of all decision trees of at most the given depth (3 to 8) that test binned features.

        log|Π| = (2^depth − 1) log S + 2^depth log A

    where S is the number of tests. The argmax is a search that may miss the best tree, hence `exact` is false and there
    is no frontier: guarantees hold only if the search found the best tree. Up to depth 2, `Trees` is exact. effort: how
    hard the search tries.
    """

    exact = False
    depths = SEARCHED_DEPTHS
    other_depths = "use Trees for depth 0, 1 or 2"

    def __init__(self, bins: Bins, *, n_actions: int, depth: int = 3, effort: Effort | None = None) -> None:
        super().__init__(bins, n_actions=n_actions, depth=depth)
        self.effort = Effort() if effort is None else instance(effort, Effort, name="effort")

    @classmethod
    def learn(
        cls, contexts: Contexts, *, n_actions: int, depth: int = 3, bins: int = 32, effort: Effort | None = None
    ) -> DeepTrees:
        """Return trees that split numbers at the quantiles of these contexts, into at most `bins` bins each."""
        return cls(Bins.learn(contexts, bins=bins), n_actions=n_actions, depth=depth, effort=effort)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """Return a good tree, never worse than the best of depth 2; ties (to rounding) go to the simpler, then first.

        At depth 3 it is the best of all trees if there are few enough tests (`effort`) to try each at the root.
        """
        return TreePolicy(root=self._search(contexts, scores).best(), n_actions=self.n_actions)

    def simpler(self) -> tuple[BinnedTrees, ...]:
        """Return the trees with fewer questions: of depth 0, which are single actions, and so on."""
        shallow = tuple(Trees(self.bins, n_actions=self.n_actions, depth=depth) for depth in range(min(self.depth, 3)))
        return (
            *shallow,
            *(
                DeepTrees(self.bins, n_actions=self.n_actions, depth=depth, effort=self.effort)
                for depth in range(3, self.depth)
            ),
        )

    def narrowed(self, kept: tuple[int, ...]) -> DeepTrees:
        """Return the trees that take only these actions, renumbered from 0."""
        return DeepTrees(self.bins, n_actions=len(kept), depth=self.depth, effort=self.effort)

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of an argmax on n_rows contexts."""
        return deep_cost(self._sizes(), n_rows, depth=self.depth, effort=self.effort)

    def shortfall(self, contexts: Contexts, scores: FloatArray) -> float:
        """Return how much more (0 if none) the best tree of depth 3 scores than the tree of `argmax`.

        Every test is tried at the root with exact trees of depth 2 below: the work grows with the square of S.
        """
        if self.depth != SEARCHED_DEPTHS[0]:
            raise InputError(
                f"the best tree can be had at depth {SEARCHED_DEPTHS[0]}, but these have depth {self.depth}"
            )
        return self._search(contexts, scores).shortfall()

    def _search(self, contexts: Contexts, scores: FloatArray) -> DeepSearch:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        codes = self._encode(contexts)
        # Rows where all actions score the same do not affect the choice.
        rows = np.flatnonzero(checked.max(axis=1) > checked.min(axis=1))
        return DeepSearch(self.bins, codes[rows], np.ascontiguousarray(checked[rows]), self.depth, self.effort)
