"""How a deep tree is grown: three tests ahead, and then tests are moved while that gains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.roots import leading, values_of_roots
from pacbandits.policies.trees.search import TREE_TIE_SHARE, best_tree
from pacbandits.policies.trees.tree import Branch, Node, branch, leaves


@dataclass(frozen=True)
class Effort:
    """How hard the search for a deep tree tries.

    root_sums: how many sums are compared in search of the root of a tree of depth 3 (a tenth of a second for the
        default); they say how many roots are tried, and in deeper trees under how many roots whole trees are grown.
    node_sums: how many are compared at each of the many nodes of a deeper tree.
    least_roots: how many roots are tried in any case.
    least_grown: under how many roots a tree of depth 4 is grown to the end at the least. With each level more it is a
        quarter of them, and never less than one.
    most_grown: and at the most.
    """

    root_sums: int = 13_000_000
    node_sums: int = 1_500_000
    least_roots: int = 16
    least_grown: int = 2
    most_grown: int = 8

    def roots_tried(self, depth: int, *, sums: int) -> int:
        """How many roots are tried with exact trees of depth 2 below; sums: compared on either side of a root."""
        affordable = self.root_sums if depth == 3 else self.node_sums
        return max(self.least_roots, affordable // sums)

    def trees_grown(self, depth: int, at: int, *, sums: int) -> int:
        """Under how many roots of a node trees are grown, in a tree of one depth where another is left.

        One at depth 3, where the best has been seen already.
        """
        if at == 3:
            return 1
        affordable = max(self.least_grown, self.root_sums // (self.roots_tried(depth, sums=sums) * sums))
        return max(1, min(affordable, self.most_grown) >> 2 * (depth - 4))


@dataclass(frozen=True, eq=False)
class DeepSearch:
    """The search for a tree that is large on given scores.

    bins: what trees may test.
    codes (n, d): the bins of the rows.
    scores (n, A): of the rows.
    depth: of the tree at the most; 3 or more.
    effort: how hard to try.
    """

    bins: Bins
    codes: Codes
    scores: FloatArray
    depth: int
    effort: Effort

    @cached_property
    def tie(self) -> float:
        return TREE_TIE_SHARE * float(np.abs(self.scores).sum())

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
        return self.effort.roots_tried(self.depth, sums=self.sums)

    def tries(self, depth: int) -> int:
        """Under how many roots of a node trees are grown."""
        return self.effort.trees_grown(self.depth, depth, sums=self.sums)

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
        missed = max([0.0, *(self._values_of_roots(rows, width=self.bins.n_splits) - found)])
        return missed if missed > self.tie else 0.0

    def grown(self, rows: IntArray, depth: int) -> Node:
        """A tree for these rows: below each of the roots that lead at depth 3, two more grown likewise."""
        best = self.shallow(rows, depth)
        perfect = self.value(best, rows) >= float(self.ceilings[rows].sum()) - self.tie
        if depth <= 2 or perfect or self.bins.n_splits == 0:
            return best
        values = self._values_of_roots(rows, width=self.width)
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
        left = self.goes_left(self.bins.places[node.test], rows)
        then = self.refined(node.then, rows[left], depth - 1)
        return branch(node.test, then, self.refined(node.otherwise, rows[~left], depth - 1))

    def settled(self, node: Node, rows: IntArray, depth: int) -> Node:
        """The tree improved until no part of it can be: no test, and no subtree of depth 2 that ends at leaves."""
        while True:
            if depth <= 2 or isinstance(node, int):
                node = self.better(self.shallow(rows, depth), node, rows)
            if depth <= 2 or isinstance(node, int):
                return node
            left = self.goes_left(self.bins.places[node.test], rows)
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
        left = self.goes_left(self.bins.places[node.test], rows)
        return branch(node.test, self.pruned(node.then, rows[left]), self.pruned(node.otherwise, rows[~left]))

    def shallow(self, rows: IntArray, depth: int) -> Node:
        """The best tree of at most the given depth, or of depth 2 if that is less."""
        return best_tree(self.bins, self.codes[rows], self.scores[rows], depth=min(depth, 2))

    def goes_left(self, split: int, rows: IntArray) -> BoolArray:
        """Which of the rows pass the test of a split."""
        return self.bins.sent_left(split)[self.codes[rows, self.bins.locate(split)[0]]]

    def picked(self, node: Node, rows: IntArray) -> FloatArray:
        """The score of each of the rows under the tree's action."""
        if isinstance(node, int):
            return self.scores[rows, node]
        left = self.goes_left(self.bins.places[node.test], rows)
        out = np.empty(len(rows))
        out[left], out[~left] = self.picked(node.then, rows[left]), self.picked(node.otherwise, rows[~left])
        return out

    def value(self, node: Node, rows: IntArray) -> float:
        """The sum of what the tree scores on the rows."""
        return float(self.picked(node, rows).sum())

    def better(self, new: Node, old: Node, rows: IntArray) -> Node:
        """The new tree if it gains more than rounding on the old one."""
        return new if self.value(new, rows) > self.value(old, rows) + self.tie else old

    def _values_of_roots(self, rows: IntArray, *, width: int) -> FloatArray:
        """The value (S,) of the best tree of depth 3 for these rows under each of the roots that are tried."""
        return values_of_roots(self.bins, self.codes[rows], self.scores[rows], width=width, tie=self.tie)
