"""Decision trees of depth 3 to 8: a search that looks three tests ahead and then moves tests while that gains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.errors import InputError
from pacbandits.policies.base import check_scores
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.histograms import Histograms, each, sum_two
from pacbandits.policies.trees.oracle import Trees
from pacbandits.policies.trees.search import TIE, best_tree, root_values
from pacbandits.policies.trees.tree import Branch, Node, Test, TreePolicy, branch, leaves
from pacbandits.records import Contexts, Policy

DEPTHS = range(3, 9)
# Sums to compare in search of the root of a tree of depth 3 (a tenth of a second); they say how many roots are tried,
# and in deeper trees under how many roots whole trees are grown.
EFFORT = 13_000_000
# Sums to compare at each of the many nodes of a deeper tree.
EFFORT_OF_MANY = 1_500_000
# Roots tried in any case.
FEWEST = 16
# Roots under which a tree of depth 4 is grown to the end. With each level more it is a quarter of them, at least one.
LEAST_GROWN, MOST_GROWN = 2, 8


class DeepTrees:
    """All decision trees of at most the given depth (3 to 8) that test binned features, with an action a leaf.

        log|Π| = (2^depth − 1) log S + 2^depth log A

    where S counts the tests. A tree of fewer tests acts as the full one whose missing tests have the same outcome on
    both sides, so it is counted. The argmax is a search that may miss the best tree, hence `exact` is false and there
    is no frontier: what rests on either holds only if the search was right. Up to depth 2, `Trees` is exact.
    """

    exact = False

    def __init__(self, bins: Bins, *, n_actions: int, depth: int = 3) -> None:
        if n_actions < 1:
            raise InputError(f"n_actions must be 1 or more, got {n_actions}")
        if depth not in DEPTHS:
            least, most = DEPTHS[0], DEPTHS[-1]
            raise InputError(f"depth must be from {least} to {most}, got {depth}; use Trees for depth 0, 1 or 2")
        self.bins = bins
        self.n_actions = n_actions
        self.depth = depth
        self._places = {bins.test(split): split for split in range(bins.n_splits)}
        # Column generation asks about the same contexts again and again.
        self._codes: WeakKeyDictionary[Contexts, Codes] = WeakKeyDictionary()

    @classmethod
    def learn(cls, contexts: Contexts, *, n_actions: int, depth: int = 3, bins: int = 32) -> DeepTrees:
        """Trees that cut numbers at the quantiles of these contexts, into at most `bins` bins each."""
        return cls(Bins.learn(contexts, bins=bins), n_actions=n_actions, depth=depth)

    @property
    def log_size(self) -> float:
        splits, actions = self.bins.n_splits, math.log(self.n_actions)
        if splits == 0:
            return actions
        return (2**self.depth - 1) * math.log(splits) + 2**self.depth * actions

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.bins.names

    def describe(self) -> str:
        """The kind of trees in words."""
        return f"trees of depth {self.depth}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "trees", "n_actions": self.n_actions, "depth": self.depth, "features": self.bins.to_json()}

    def has(self, policy: Policy) -> bool:
        """Whether this is a tree no deeper than these, with tests and actions that are among theirs."""
        if not isinstance(policy, TreePolicy):
            return False
        shallow = Trees(self.bins, n_actions=self.n_actions, depth=2)

        def fits(node: Node, depth: int) -> bool:
            if depth == shallow.depth or isinstance(node, int):
                return shallow.has(TreePolicy(node, policy.n_actions))
            asks = shallow.has(TreePolicy(Branch(node.test, 0, 0), policy.n_actions))
            return asks and fits(node.then, depth - 1) and fits(node.otherwise, depth - 1)

        return fits(policy.root, self.depth)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """A good tree, never worse than the best of depth 2; of equals (to rounding) the simpler, then the first.

        At depth 3 it is the best of all trees when the tests are few enough (EFFORT) to try each at the root.
        """
        return TreePolicy(root=self._search(contexts, scores).best(), n_actions=self.n_actions)

    def shortfall(self, contexts: Contexts, scores: FloatArray) -> float:
        """How much more (0 when none) the best tree of depth 3 scores than the one `argmax` finds.

        Every test is tried at the root with exact trees of depth 2 below: work that grows with the square of S.
        """
        if self.depth != DEPTHS[0]:
            raise InputError(f"the best tree can be had at depth {DEPTHS[0]}, but these have depth {self.depth}")
        return self._search(contexts, scores).shortfall()

    def _search(self, contexts: Contexts, scores: FloatArray) -> Search:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        codes = self._codes.get(contexts)
        if codes is None:
            codes = self._codes[contexts] = self.bins.encode(contexts)
        # Where all actions score the same, no tree does better than another.
        rows = np.flatnonzero(checked.max(axis=1) > checked.min(axis=1))
        return Search(self.bins, self._places, codes[rows], np.ascontiguousarray(checked[rows]), self.depth)


@kernel
def best_below(
    codes: Codes,
    scores: FloatArray,
    edges: IntArray,
    whole: FloatArray,
    wanted: BoolArray,
    j: int,
    k: int,
    starts: IntArray,
    split_starts: IntArray,
    ordered: BoolArray,
    tie: float,
    lefts: FloatArray,
    rights: FloatArray,
) -> None:
    """The value of the best tree of depth 2 that first tests feature k, on either side of each split of feature j.

    codes (n, d) and scores (n, A) lie sorted by the bins of j, each of which begins at its edge. whole (bins of k, all
    bins, A): the sums over all rows. The values go to lefts and rights (d, S), but for splits that are not wanted or do
    not part the rows.
    """
    values = np.empty(split_starts[-1])
    first, last = split_starts[k], split_starts[k + 1]
    left = np.zeros_like(whole)
    for s in range(split_starts[j + 1] - split_starts[j]):
        split = split_starts[j] + s
        begin, end = edges[s], edges[s + 1]
        if not ordered[j]:
            left[:] = 0.0
        sum_two(codes[begin:end], scores[begin:end], starts, k, 0, left)
        size = end if ordered[j] else end - begin
        if not wanted[split] or size == 0 or size == codes.shape[0]:
            continue
        root_values(left, k, starts, split_starts, ordered, tie, values)
        lefts[k, split] = values[first:last].max()
        root_values(whole - left, k, starts, split_starts, ordered, tie, values)
        rights[k, split] = values[first:last].max()


@dataclass(frozen=True, eq=False)
class Search:
    """The search for a tree of at most the given depth (3 or more) that is large on scores (n, A) with codes (n, d).

    places: where each test stands in the list of all splits.
    """

    bins: Bins
    places: Mapping[Test, int]
    codes: Codes
    scores: FloatArray
    depth: int

    @cached_property
    def tie(self) -> float:
        return TIE * float(np.abs(self.scores).sum())

    @cached_property
    def ceilings(self) -> FloatArray:
        """What no action of a row (n,) exceeds."""
        return self.scores.max(axis=1)

    @cached_property
    def sums(self) -> int:
        """How many sums are compared on either side of a root, to find the best tree of depth 2 there."""
        return max(1, self.bins.n_splits * int(self.bins.layout.starts[-1]) * self.scores.shape[1])

    @cached_property
    def width(self) -> int:
        """How many roots are tried with exact trees of depth 2 below."""
        return max(FEWEST, (EFFORT if self.depth == 3 else EFFORT_OF_MANY) // self.sums)

    def tries(self, depth: int) -> int:
        """Under how many roots of a node trees are grown: one at depth 3, where the best has been seen already."""
        if depth == 3:
            return 1
        affordable = max(LEAST_GROWN, EFFORT // (self.width * self.sums))
        return max(1, min(affordable, MOST_GROWN) >> 2 * (self.depth - 4))

    @property
    def complete(self) -> bool:
        """Whether all trees are looked at: those of depth 3, when their roots are few enough."""
        return self.depth == 3 and self.width >= self.bins.n_splits

    def best(self) -> Node:
        """The better of two trees: one grown from the root, and the exact tree of depth 2 with its leaves grown on."""
        rows = np.arange(len(self.codes))
        shallow = self.shallow(rows, 2)
        tree = self.better(self.grown(rows, self.depth), shallow, rows)
        if not self.complete and isinstance(shallow, Branch):
            other = self.settled(self.refined(shallow, rows, self.depth), rows, self.depth)
            tree = self.better(other, tree, rows)
        return self.pruned(tree, rows)

    def shortfall(self) -> float:
        """How far the value of `best` is below that of the best tree of depth 3."""
        rows = np.arange(len(self.codes))
        found = self.value(self.best(), rows)
        missed = max([0.0, *(self.values_of_roots(rows, width=self.bins.n_splits) - found)])
        return missed if missed > self.tie else 0.0

    def grown(self, rows: IntArray, depth: int) -> Node:
        """A tree for these rows: below each of the roots that lead at depth 3, two more grown likewise."""
        best = self.shallow(rows, depth)
        perfect = self.value(best, rows) >= float(self.ceilings[rows].sum()) - self.tie
        if depth <= 2 or perfect or self.bins.n_splits == 0:
            return best
        values = self.values_of_roots(rows, width=self.width)
        for root in leading(values, most=self.tries(depth), tie=self.tie):
            left = self.goes_left(root, rows)
            then, otherwise = (self.grown(side, depth - 1) for side in (rows[left], rows[~left]))
            best = self.better(branch(self.bins.test(root), then, otherwise), best, rows)
        moved = self.retested(best, rows)
        return best if moved is best else self.settled(moved, rows, depth)

    def refined(self, node: Node, rows: IntArray, depth: int) -> Node:
        """The tree with its leaves grown on, as far as the depth allows."""
        if isinstance(node, int):
            return self.grown(rows, depth)
        left = self.goes_left(self.places[node.test], rows)
        then = self.refined(node.then, rows[left], depth - 1)
        return branch(node.test, then, self.refined(node.otherwise, rows[~left], depth - 1))

    def settled(self, node: Node, rows: IntArray, depth: int) -> Node:
        """The tree improved until no part of it can be: no test, and no subtree of depth 2 that ends at leaves."""
        while True:
            if depth <= 2 or isinstance(node, int):
                node = self.better(self.shallow(rows, depth), node, rows)
            if depth <= 2 or isinstance(node, int):
                return node
            left = self.goes_left(self.places[node.test], rows)
            then = self.settled(node.then, rows[left], depth - 1)
            old = branch(node.test, then, self.settled(node.otherwise, rows[~left], depth - 1))
            node = self.retested(old, rows)
            if node is old:
                return node

    def retested(self, node: Node, rows: IntArray) -> Node:
        """The tree with the best test for the two subtrees below its root, or one of them alone, if that gains.

        The subtrees are the two actions of a tree of depth 1, whose scores are what they make of each row.
        """
        if isinstance(node, int):
            return node
        subtrees = node.then, node.otherwise
        scores = np.column_stack([self.picked(subtree, rows) for subtree in subtrees])
        stump = best_tree(self.bins, self.codes[rows], scores, depth=1)
        parts = [subtrees[i] for i in leaves(stump)]
        return self.better(parts[0] if isinstance(stump, int) else Branch(stump.test, *parts), node, rows)

    def pruned(self, node: Node, rows: IntArray) -> Node:
        """The tree without the tests on which nothing depends for these rows."""
        if isinstance(node, int):
            return node
        enough = self.value(node, rows) - self.tie
        for part in (node.then, node.otherwise):
            if self.value(part, rows) >= enough:
                return self.pruned(part, rows)
        left = self.goes_left(self.places[node.test], rows)
        return branch(node.test, self.pruned(node.then, rows[left]), self.pruned(node.otherwise, rows[~left]))

    def shallow(self, rows: IntArray, depth: int) -> Node:
        """The best tree of at most the given depth, or of depth 2 if that is less."""
        return best_tree(self.bins, self.codes[rows], self.scores[rows], depth=min(depth, 2))

    def values_of_roots(self, rows: IntArray, *, width: int) -> FloatArray:
        """The value (S,) of the best tree of depth 3 under each root that parts the rows; −∞ for those not tried.

        At most `width` roots are tried, those that promise most at depth 2.
        """
        layout, n_features = self.bins.layout, len(self.bins.features)
        codes, scores = self.codes[rows], self.scores[rows]
        histograms = Histograms(codes, scores, layout)
        wanted = np.ones(self.bins.n_splits, dtype=np.bool_)
        if width < len(wanted):
            near = np.empty(len(wanted))
            each(lambda j: root_values(histograms.of(j), j, *layout, self.tie, near), count=n_features)
            wanted[:] = False
            wanted[self.shortlist(near, most=width)] = True
        sides = np.full((2, n_features, len(wanted)), -np.inf)

        def try_feature(j: int) -> None:
            order = np.argsort(codes[:, j], kind="stable")
            counts = np.bincount(codes[:, j], minlength=int(layout.starts[j + 1] - layout.starts[j]))
            edges = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
            given = codes[order], scores[order], edges
            each(
                lambda k: best_below(*given, histograms.of(k), wanted, j, k, *layout, self.tie, *sides),
                count=n_features,
            )

        for j in range(n_features):
            if wanted[layout.split_starts[j] : layout.split_starts[j + 1]].any():
                try_feature(j)
        return sides.max(axis=1, initial=-np.inf).sum(axis=0)

    def shortlist(self, values: FloatArray, *, most: int) -> list[int]:
        """Up to `most` roots of large value, first those that lead their neighbours, whose values are much alike."""
        starts, ordered = self.bins.layout.split_starts, self.bins.layout.ordered
        peaks = np.ones(len(values), dtype=np.bool_)
        for j in np.flatnonzero(ordered):
            of_feature = values[starts[j] : starts[j + 1]]
            rises = np.concatenate([[True], of_feature[1:] > of_feature[:-1], [False]])
            peaks[starts[j] : starts[j + 1]] = rises[:-1] & ~rises[1:]
        first = leading(np.where(peaks, values, -np.inf), most=most, tie=self.tie)
        return first + leading(np.where(peaks, -np.inf, values), most=most - len(first), tie=self.tie)

    def goes_left(self, split: int, rows: IntArray) -> BoolArray:
        """Which of the rows pass the test of a split."""
        j, s = self.bins.locate(split)
        return self.codes[rows, j] <= s if self.bins.layout.ordered[j] else self.codes[rows, j] == s

    def picked(self, node: Node, rows: IntArray) -> FloatArray:
        """The score of each of the rows under the tree's action."""
        if isinstance(node, int):
            return self.scores[rows, node]
        left = self.goes_left(self.places[node.test], rows)
        out = np.empty(len(rows))
        out[left], out[~left] = self.picked(node.then, rows[left]), self.picked(node.otherwise, rows[~left])
        return out

    def value(self, node: Node, rows: IntArray) -> float:
        """The sum of what the tree scores on the rows."""
        return float(self.picked(node, rows).sum())

    def better(self, new: Node, old: Node, rows: IntArray) -> Node:
        """The new tree if it gains more than rounding on the old one."""
        return new if self.value(new, rows) > self.value(old, rows) + self.tie else old


def leading(values: FloatArray, *, most: int, tie: float) -> list[int]:
    """The places of up to `most` of the largest values that are finite; of values a tie apart the first comes first."""
    left = values.copy()
    found: list[int] = []
    while len(found) < min(most, len(values)) and left.max() > -np.inf:
        found.append(int(np.argmax(left >= left.max() - tie)))
        left[found[-1]] = -np.inf
    return found
