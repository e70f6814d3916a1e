"""Decision trees on a CUDA device: sums over rows, actions, and the best tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.engines.cuda.aggregations import SmallTree, add_by_part, leaves_of, root_values
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.engine import Parts, Stretch, Wanted
from pacbandits.engines.cuda.pair_sums import Arranged, add_pair_sums, arrange, code_stride, mirror
from pacbandits.policies.trees.bins import MOST_BINS, Bins
from pacbandits.policies.trees.histograms import ALL_SPLITS, TREE_TIE_SHARE, side_totals
from pacbandits.policies.trees.search import best_stump, both_sides
from pacbandits.policies.trees.tree_policy import Node, TreeSplit, branch, leaves
from pacbandits.records.log import Log


def wanted_codes(bins: Bins) -> Wanted:
    """Return the request for the bin codes of rows."""

    def make(_: int, block: Log) -> Parts:
        codes = bins.encode(block.contexts)
        padded = np.zeros((len(codes), code_stride(codes.shape[1])), dtype=np.uint8)
        padded[:, : codes.shape[1]] = codes
        return {"codes": padded}

    return Wanted("codes", bins, make)


def codes_on_card(stretch: Stretch, bins: Bins) -> Any:
    """Return the codes (n, d or more) of the rows of a stretch, on the device."""
    return stretch.get(wanted_codes(bins))[0]["codes"]


def add_tree_sums(stretch: Stretch, bins: Bins, scores: Any, sums: Any, *, depth: int, at: int = 0) -> None:
    """Add the scores (n, W) of a stretch's rows, int64 on the device, to the sums that determine trees of a depth.

    sums: (all bins, all bins, W'), (all bins, W') or (1, W') for depth 2, 1 and 0; from column `at` on. Both halves of
    the symmetric sums are filled.
    """
    starts, width = bins.layout.starts, int(scores.shape[1])
    if depth == 0:
        sums[0, at : at + width] += scores.sum(axis=0)
        return
    codes = codes_on_card(stretch, bins)
    if depth == 1:
        for j in range(len(bins.features)):
            add_by_part(codes[:, j], scores, sums[int(starts[j]) : int(starts[j + 1])], at=at)
        return
    arranged = stretch.made("orders", bins, lambda: arrange(codes, starts))
    add_pair_sums(arranged, scores, sums, at=at)
    mirror(sums, starts)


def actions_on_card(codes: Any, bins: Bins, roots: Sequence[Node]) -> Any | None:
    """Return the actions (trees, n) of trees on rows on the device; None if `small_tree` rejects one."""
    trees = [small_tree(root, bins) for root in roots]
    return None if any(tree is None for tree in trees) else leaves_of(codes, [tree for tree in trees if tree])


def small_tree(root: Node, bins: Bins) -> SmallTree | None:
    """Return a tree in terms of bins; None if it is deeper than 2 or has a test that is not in the bins."""
    features, lefts, ends = [0, 0, 0], np.ones((3, MOST_BINS), dtype=np.bool_), list[int]()

    def ask(place: int, node: Node) -> tuple[Node, Node] | None:
        """Record the bins that a node sends left; return its left and right outcomes, None for an unknown test."""
        if not isinstance(node, TreeSplit):
            return node, node
        split = bins.places.get(node.test)
        if split is None:
            return None
        left = bins.sent_left(split)
        features[place], lefts[place] = bins.locate(split)[0], False
        lefts[place, : len(left)] = left
        return node.then, node.otherwise

    sides = ask(0, root)
    for place, side in enumerate(sides or (), start=1):
        for end in ask(place, side) or ():
            if isinstance(end, TreeSplit):
                return None
            ends.append(end)
    if len(ends) < 4:
        return None
    return SmallTree((features[0], features[1], features[2]), lefts, (ends[0], ends[1], ends[2], ends[3]))


def numbered(root: Node) -> Node:
    """Return the tree with each leaf's action replaced by its number, left to right from 0."""

    def number(node: Node, first: int) -> Node:
        if not isinstance(node, TreeSplit):
            return first
        return TreeSplit(node.test, number(node.then, first), number(node.otherwise, first + len(leaves(node.then))))

    return number(root, 0)


def best_tree_on_card(bins: Bins, arranged: Arranged, scores: Any) -> Node:
    """Return the best tree of depth at most 2 for scores (n, A), int64 on the device; ties go to the simplest, first.

    It is the tree of `best_tree`, with the same comparison of values.
    """
    cp, layout, d = cupy(), bins.layout, len(bins.features)
    if bins.n_splits == 0:
        return int(np.argmax(cp.asnumpy(scores.sum(axis=0))))
    count = int(layout.starts[-1])
    sums = cp.zeros((count, count, int(scores.shape[1])), dtype=cp.int64)
    add_pair_sums(arranged, scores, sums)
    mirror(sums, layout.starts)
    values = cp.asnumpy(
        root_values(
            sums,
            starts=layout.starts,
            split_starts=layout.split_starts,
            run_bins=layout.run_bins,
            run_splits=layout.run_splits,
            adding=layout.adding,
        )
    ).astype(np.float64)

    def of(feature: int) -> FloatArray:
        first, last = int(layout.starts[feature]), int(layout.starts[feature + 1])
        return np.asarray(cp.asnumpy(sums[first:last]), dtype=np.float64)

    def stump(side: FloatArray, feature: int) -> tuple[float, Node]:
        total = side_totals(side, int(layout.starts[feature]), int(layout.starts[feature + 1]))
        value, split, left, right = best_stump(side, total, layout, tie, ALL_SPLITS)
        return value, left if split < 0 else branch(bins.test(split), left, right)

    block = of(0)
    tie = TREE_TIE_SHARE * float(np.abs(block).sum()) / d
    value, tree = stump(block.sum(axis=0), 0)
    if values.max() <= value + tie:
        return tree
    root = int(np.argmax(values >= values.max() - tie))
    j = bins.locate(root)[0]
    then, otherwise = (stump(side, j)[1] for side in both_sides(of(j), bins.sent_left(root)))
    return branch(bins.test(root), then, otherwise)
