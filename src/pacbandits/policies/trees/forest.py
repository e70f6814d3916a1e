"""Many weighted trees asked about the same rows, however many they are.

A tree of depth 2 has four leaves, and whether a row comes to one of them depends on the bins of two features: that of
the root and that of the test below. So the weight of all trees that take an action on a row is a sum over pairs of
features of what stands in a table for the row's two bins: the histograms by which trees are found, read the other way
round. Tables are made once, and a row takes as long for a thousand trees as for fifty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.errors import InputError
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.tree import Node, Test, TreePolicy
from pacbandits.records import Policy

ROWS_AT_ONCE = 2048  # whose sums stay in cache while all pairs of features are gone through


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of depth 2 or less, each with a weight that is a whole number.

    starts (d + 1,): the first bin of each feature among all bins.
    pairs (P, 2): the pairs of features j ≤ k that leaves depend on.
    table (all bins, all bins, A): for such a pair, the weight of the leaves at each action that two bins lead to; on
        the diagonal of a feature what depends on it alone.
    always (A,): the weight of trees that ask nothing.
    """

    starts: IntArray
    pairs: IntArray
    table: IntArray
    always: IntArray

    @classmethod
    def of(cls, trees: Sequence[Policy], weights: IntArray, bins: Bins, *, n_actions: int) -> Forest:
        """The forest of trees whose tests are among those of the bins, with weights (K,)."""
        starts = bins.layout.starts
        table = np.zeros((int(starts[-1]), int(starts[-1]), n_actions), dtype=np.int64)
        always = np.zeros(n_actions, dtype=np.int64)
        used: set[tuple[int, int]] = set()
        for tree, weight in zip(trees, weights, strict=True):
            if not isinstance(tree, TreePolicy):
                raise InputError(f"a forest is made of decision trees, got {type(tree).__name__}")
            if isinstance(tree.root, int):
                always[tree.root] += weight
                continue
            j, left = _asked(bins, tree.root.test)
            for here, node in ((left, tree.root.then), (~left, tree.root.otherwise)):
                used.add(_add_side(table, bins, j, here, node, int(weight)))
        pairs = np.array(sorted(used), dtype=np.int64).reshape(-1, 2)
        return cls(starts, pairs, table, always)

    def add_weights(self, codes: Codes, out: IntArray) -> None:
        """Add to out (n, A) the weight of the trees that take each action on each row of codes (n, d)."""
        out += self.always
        _look_up(codes, self.starts, self.pairs, self.table, out)


def _asked(bins: Bins, test: Test) -> tuple[int, BoolArray]:
    """The feature of a test, and which of its bins pass."""
    split = bins.places[test]
    return bins.locate(split)[0], bins.sent_left(split)


def _add_side(table: IntArray, bins: Bins, j: int, here: BoolArray, node: Node, weight: int) -> tuple[int, int]:
    """Add one side of a root on feature j, where the root's bins are `here`; return the pair of features it lies in."""
    starts = bins.layout.starts
    k, passing = (j, np.ones_like(here)) if isinstance(node, int) else _asked(bins, node.test)
    outcomes = (node, node) if isinstance(node, int) else (node.then, node.otherwise)
    for below, leaf in zip((passing, ~passing), outcomes, strict=True):
        if not isinstance(leaf, int):
            raise InputError("a forest is made of trees of depth 2 or less")
        if j == k:
            both = starts[j] + np.flatnonzero(here & below)
            table[both, both, leaf] += weight
        else:
            mine, theirs = starts[j] + np.flatnonzero(here), starts[k] + np.flatnonzero(below)
            first, second = (mine, theirs) if j < k else (theirs, mine)
            table[first[:, None], second, leaf] += weight
    return min(j, k), max(j, k)


@kernel
def _look_up(codes: Codes, starts: IntArray, pairs: IntArray, table: IntArray, out: IntArray) -> None:
    n, n_actions = out.shape
    for begin in range(0, n, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, n)
        for p in range(pairs.shape[0]):
            j, k = pairs[p]
            for r in range(begin, end):
                row = table[starts[j] + codes[r, j], starts[k] + codes[r, k]]
                for a in range(n_actions):
                    out[r, a] += row[a]
