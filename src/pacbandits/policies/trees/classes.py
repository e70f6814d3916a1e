"""The policy classes of decision trees: exact to depth 2, by search beyond, and by sums over rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

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
from pacbandits.policies.trees.histograms import STRETCH_ROWS, SmallestLeaf, TreeLimits, mirror
from pacbandits.policies.trees.search import (
    ALL_SPLITS,
    TREE_TIE_SHARE,
    DeepSearch,
    Effort,
    best_by_bins,
    best_by_pairs,
    best_tree,
)
from pacbandits.policies.trees.tree_policy import Node, TreePolicy, leaf_numbers, leaves, simplest_tree
from pacbandits.records import Contexts, Policy

# What a search for trees takes: rows added up by pairs of features, and pairs of splits looked at.
#
# Legend: n rows, d features, B bins and S splits of all features together, A actions.
#
#     argmax      n d²/2 additions to the sums of two features' bins, A scores each (d² when they are made twice),
#                 S² pairs of a root and a split below it, A actions compared in each
#     frontier    the same for 2A scores, and the frontiers of S² pairs of leaves
#
# The speeds below were measured on one core of 2024 (benchmarks/estimates.py measures them again).


SECONDS_PER_CALL = 2e-3  # of anything, however small
SECONDS_PER_ROW_AND_PAIR = 4e-9  # of features, before the first score is added
SECONDS_PER_ADDITION = 0.6e-9
SECONDS_PER_SPLIT_PAIR = 20e-9
SECONDS_PER_COMPARISON = 8e-9  # of an action, at a pair of splits
SECONDS_PER_FRONTIER_STEP = 80e-9  # of an action, at a pair of splits
SECONDS_PER_PAIR_OF_POINTS = 1e-8  # of the two sides of a root
BYTES_PER_FRONTIER_POINT = 80.0  # twice: in parts, and then as a whole
BYTES_PER_NUMBER = 8.0
SHARED_FRONTIER_BYTES = 2e7


@dataclass(frozen=True)
class TreeSizes:
    """What the work depends on.

    n_features: d.
    n_bins: B.
    most_bins: of one feature.
    n_splits: S.
    n_actions: A.
    kept_bytes: up to which joint sums are kept.
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
        """Whether the joint sums of so many scores are kept, so that each pair of features is added up once."""
        return self.n_bins**2 * width * BYTES_PER_NUMBER <= self.kept_bytes

    def adding(self, n_rows: float, pairs: float, width: int) -> float:
        """Seconds of one core for adding up so many scores of so many rows by pairs of features."""
        return n_rows * pairs * (SECONDS_PER_ROW_AND_PAIR + width * SECONDS_PER_ADDITION)

    def summing(self, n_rows: float, width: int) -> float:
        """The same for all pairs, once or (where sums are not kept) twice."""
        pairs = self.n_features * (self.n_features + 1) / 2 if self.keeps(width) else self.n_features**2
        return self.adding(n_rows, pairs, width)

    @property
    def scanning(self) -> float:
        """Seconds of one core for looking at all pairs of splits."""
        return self.n_splits**2 * (SECONDS_PER_SPLIT_PAIR + self.n_actions * SECONDS_PER_COMPARISON)

    def sums_bytes(self, n_rows: int, width: int) -> float:
        """Scores, codes and the sums that are held at once: all, or those of one feature a core."""
        rows = n_rows * (2 * width * BYTES_PER_NUMBER + self.n_features)
        a_core = (self.most_bins + 3) * self.n_bins * width * BYTES_PER_NUMBER
        kept = self.n_bins**2 * width * BYTES_PER_NUMBER + cores() * 3 * self.n_bins * width * BYTES_PER_NUMBER
        return rows + (kept if self.keeps(width) else cores() * a_core)


def argmax_cost(sizes: TreeSizes, n_rows: int, *, depth: int) -> SearchCost:
    """The exact search for the best tree of depth 0, 1 or 2."""
    seconds = SECONDS_PER_CALL + _shallow(sizes, n_rows, depth) / (cores() if depth == 2 else 1)
    bytes_ = sizes.sums_bytes(n_rows, sizes.n_actions) if depth == 2 else n_rows * sizes.n_actions * BYTES_PER_NUMBER
    return SearchCost(seconds, bytes_)


def frontier_cost(sizes: TreeSizes, n_rows: int, *, depth: int, limits: TreeLimits) -> SearchCost:
    """The frontier of two scores over all trees of depth 0, 1 or 2."""
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
    """The search for a good tree of depth 3 or more; it follows `DeepSearch.best`."""
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
    """Seconds of one core for the best tree of depth 0, 1 or 2."""
    if depth == 0:
        return n_rows * sizes.n_actions * SECONDS_PER_ADDITION
    if depth == 1:
        looking = sizes.n_splits * sizes.n_actions * SECONDS_PER_COMPARISON
        return sizes.adding(n_rows, sizes.n_features, sizes.n_actions) + looking
    return sizes.summing(n_rows, sizes.n_actions) + sizes.scanning


# What all classes of decision trees on binned features share.


class BinnedTrees(PolicyClass):
    """All decision trees of at most the given depth that test binned features, with an action a leaf.

        log|Π| = (2^depth − 1) log S + 2^depth log A

    where S counts the tests (feature and threshold, or feature and label). A tree of fewer tests acts as the full one
    whose missing tests have the same outcome on both sides, so it is counted.
    """

    kind = "trees"

    def __init__(self, bins: Bins, *, n_actions: int, depth: int) -> None:
        self.bins = instance(bins, Bins, name="bins", remedy="make them by Bins.learn(contexts)")
        self.n_actions = check_n_actions(n_actions)
        self.depth = whole_number(depth, name="depth")
        self.feature_names = bins.names
        self.log_size = math.log(self.n_actions)
        if self.depth > 0 and bins.n_splits > 0:
            self.log_size = (2**self.depth - 1) * math.log(bins.n_splits) + 2**self.depth * self.log_size
        self._codes: PerContexts[Codes] = PerContexts()

    def describe(self) -> str:
        """The kind of trees in words."""
        return f"trees of depth {self.depth}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Every feature with its cuts or labels, and how many of these part the contexts."""
        return tuple(feature.describe(contexts) for feature in self.bins.features)

    @property
    def size_words(self) -> str:
        """How many features, bins and actions there are."""
        sizes = self._sizes()
        bins = f" × {sizes.most_bins} bins" if sizes.n_splits else ""
        return f"depth-{self.depth} trees over {sizes.n_features:,} features{bins} × {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """What would make searches lighter."""
        return "take fewer features, bins or actions, or less depth"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_actions": self.n_actions, "depth": self.depth, "features": self.bins.to_json()}

    def has(self, policy: Policy) -> bool:
        """Whether this is a tree no deeper than these, with tests and actions that are among theirs."""
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
        """The tree of fewest leaves that loses at most so many standard errors against a tree."""
        if not isinstance(policy, TreePolicy):
            return policy
        root = simplest_tree(policy.root, contexts, losses, squares, standard_errors=standard_errors)
        return replace(policy, root=root)

    def parts(self, policy: Policy, contexts: Contexts) -> IntArray:
        """The leaf (n,) of a tree that each context comes to, from 0: a simpler tree made of it acts alike there."""
        return leaf_numbers(policy.root, contexts) if isinstance(policy, TreePolicy) else np.zeros(0, dtype=np.int64)

    def _sizes(self) -> TreeSizes:
        return TreeSizes.of(self.bins, n_actions=self.n_actions)

    def _encode(self, contexts: Contexts) -> Codes:
        return self._codes.get(contexts, self.bins.encode)


# Decision trees searched by sums of scores over rows, made anywhere and in any order.


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


# The policy class of shallow decision trees.


class Trees(BinnedTrees):
    """All decision trees of at most the given depth (0, 1 or 2) that test binned features, with an action a leaf.

        log|Π| = 3 log S + 4 log A  at depth 2,  log S + 2 log A  at depth 1,  log A  at depth 0

    where S counts the tests (feature and threshold, or feature and label). Argmax and frontier are exact over all of
    them; a frontier of very many points is rounded outward and says so. limits: from where on. leaf: what every leaf
    must hold, by which there are fewer trees and log|Π| is a bound.
    """

    exact = True

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
        if self.depth not in (0, 1, 2):
            raise InputError(f"depth must be 0, 1 or 2, got {self.depth}; DeepTrees go deeper")
        self.limits = TreeLimits() if limits is None else instance(limits, TreeLimits, name="limits")
        self.leaf = None if leaf is None else instance(leaf, SmallestLeaf, name="leaf")
        if self.leaf is not None and self.leaf.known.bins != self.bins:
            raise InputError("the known contexts of the smallest leaf must be told apart by the bins of the trees")

    @classmethod
    def learn(
        cls, contexts: Contexts, *, n_actions: int, depth: int = 2, bins: int = 32, smallest_leaf: float = 0.0
    ) -> Trees:
        """Trees that cut numbers at the quantiles of these contexts, into at most `bins` bins each.

        smallest_leaf: the share of these contexts that every leaf holds at the least.

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
        """The best tree; of equals (to rounding) the shallowest, then that of the first tests and actions."""
        scores = self._checked(contexts, scores, name="scores")
        codes, most = self._encode(contexts), self.limits.kept_bytes
        tree = best_tree(self.bins, codes, scores, depth=self.depth, kept_bytes=most, leaf=self.leaf)
        return TreePolicy(root=tree, n_actions=self.n_actions)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of two scores over all trees, to rounding of about 1e-12 of their sums."""
        first = self._checked(contexts, first, name="first scores")
        second = self._checked(contexts, second, name="second scores")
        codes = self._encode(contexts)
        front = best_front(self.bins, codes, first, second, depth=self.depth, limits=self.limits, leaf=self.leaf)
        return front.frontier(self.bins, n_actions=self.n_actions)

    def argmax_within(
        self, contexts: Contexts, scores: FloatArray, *, known: Contexts, costs: FloatArray, most: float
    ) -> TreePolicy | None:
        """The best tree among those that cost at most so much on known contexts, for scores (n, A) and costs (m, A).

        None where all cost more; of equals as for `argmax`.
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

    def narrowed(self, kept: tuple[int, ...]) -> Trees:
        """The trees that take these actions alone, which are numbered from 0."""
        return Trees(self.bins, n_actions=len(kept), depth=self.depth, limits=self.limits, leaf=self.leaf)

    def summing(self) -> SummingTrees:
        """How rows are added up for these trees, where they are not all in memory."""
        return SummingTrees(self)

    def know(self, contexts: Contexts) -> KnownContexts:
        """Contexts as far as trees tell them apart."""
        return KnownContexts.of(contexts, self.bins)

    def has(self, policy: Policy) -> bool:
        """Whether this is a tree no deeper than these, with tests and actions of theirs, and leaves large enough."""
        return super().has(policy) and (self.leaf is None or self.leaf.holds(cast(TreePolicy, policy).root))

    def describe(self) -> str:
        """The kind of trees in words."""
        return super().describe() + ("" if self.leaf is None else f", {self.leaf.describe()}")

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | ({} if self.leaf is None else {"leaf": self.leaf.to_json()})

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""
        return argmax_cost(self._sizes(), n_rows, depth=self.depth)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        """What a frontier takes on so many contexts."""
        return frontier_cost(self._sizes(), n_rows, depth=self.depth, limits=self.limits)

    def _sizes(self) -> TreeSizes:
        return TreeSizes.of(self.bins, n_actions=self.n_actions, kept_bytes=self.limits.kept_bytes)

    def _checked(self, contexts: Contexts, scores: FloatArray, *, name: str) -> FloatArray:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        # Kernels are compiled once, for arrays that are contiguous and writeable; others are copied.
        return np.require(checked, requirements=("C", "W"))


# Decision trees of depth 3 to 8: a search that looks three tests ahead and then moves tests while that gains.


SEARCHED_DEPTHS = range(3, 9)


class DeepTrees(BinnedTrees):
    """All decision trees of at most the given depth (3 to 8) that test binned features, with an action a leaf.

        log|Π| = (2^depth − 1) log S + 2^depth log A

    where S counts the tests. The argmax is a search that may miss the best tree, hence `exact` is false and there is no
    frontier: what rests on either holds only if the search was right. Up to depth 2, `Trees` is exact. effort: how hard
    the search tries.
    """

    exact = False

    def __init__(self, bins: Bins, *, n_actions: int, depth: int = 3, effort: Effort | None = None) -> None:
        super().__init__(bins, n_actions=n_actions, depth=depth)
        if self.depth not in SEARCHED_DEPTHS:
            least, most = SEARCHED_DEPTHS[0], SEARCHED_DEPTHS[-1]
            raise InputError(f"depth must be from {least} to {most}, got {self.depth}; use Trees for depth 0, 1 or 2")
        self.effort = Effort() if effort is None else instance(effort, Effort, name="effort")

    @classmethod
    def learn(
        cls, contexts: Contexts, *, n_actions: int, depth: int = 3, bins: int = 32, effort: Effort | None = None
    ) -> DeepTrees:
        """Trees that cut numbers at the quantiles of these contexts, into at most `bins` bins each."""
        return cls(Bins.learn(contexts, bins=bins), n_actions=n_actions, depth=depth, effort=effort)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """A good tree, never worse than the best of depth 2; of equals (to rounding) the simpler, then the first.

        At depth 3 it is the best of all trees when the tests are few enough (`effort`) to try each at the root.
        """
        return TreePolicy(root=self._search(contexts, scores).best(), n_actions=self.n_actions)

    def narrowed(self, kept: tuple[int, ...]) -> DeepTrees:
        """The trees that take these actions alone, which are numbered from 0."""
        return DeepTrees(self.bins, n_actions=len(kept), depth=self.depth, effort=self.effort)

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""
        return deep_cost(self._sizes(), n_rows, depth=self.depth, effort=self.effort)

    def shortfall(self, contexts: Contexts, scores: FloatArray) -> float:
        """How much more (0 when none) the best tree of depth 3 scores than the one `argmax` finds.

        Every test is tried at the root with exact trees of depth 2 below: work that grows with the square of S.
        """
        if self.depth != SEARCHED_DEPTHS[0]:
            raise InputError(
                f"the best tree can be had at depth {SEARCHED_DEPTHS[0]}, but these have depth {self.depth}"
            )
        return self._search(contexts, scores).shortfall()

    def _search(self, contexts: Contexts, scores: FloatArray) -> DeepSearch:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        codes = self._encode(contexts)
        # Where all actions score the same, no tree does better than another.
        rows = np.flatnonzero(checked.max(axis=1) > checked.min(axis=1))
        return DeepSearch(self.bins, codes[rows], np.ascontiguousarray(checked[rows]), self.depth, self.effort)
