"""Search for the best tree: exact at depth 0, 1 and 2, heuristic for deeper trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Bins, Codes, Layout
from pacbandits.policies.trees.histograms import (
    ALL_BELOW,
    ALL_SPLITS,
    TREE_TIE_SHARE,
    Histograms,
    PairSums,
    SmallestLeaf,
    TreeLimits,
    bin_moved,
    each,
    next_left,
    side_totals,
    sum_one,
    sum_two,
)
from pacbandits.policies.trees.tree_policy import Node, TreeSplit, branch, leaves


@kernel
def best_stump(
    sums: FloatArray, total: FloatArray, layout: Layout, tie: float, allowed: BoolArray
) -> tuple[float, int, int, int]:
    """Return the best tree of depth 0 or 1: its value, its split (−1: none) and the actions left and right of it.

        max_{k,t} [ max_a L_{kt}(a) + max_a (total(a) − L_{kt}(a)) ],   L_{kt} = sums left of split t of
        feature k

    sums (all bins, A), total (A,). A split must gain more than `tie` over the best so far. allowed (S, or more): the
    splits that are allowed; empty if all are.
    """
    run_bins, run_splits, adding = layout.run_bins, layout.run_splits, layout.adding
    n_actions = total.shape[0]
    left_action = 0
    for a in range(1, n_actions):
        if total[a] > total[left_action] + tie:
            left_action = a
    right_action = left_action
    value = total[left_action]
    split = -1
    left = np.empty(n_actions)
    for r in range(adding.shape[0]):
        left[:] = 0.0
        for t in range(run_splits[r + 1] - run_splits[r]):
            b = run_bins[r] + t
            best_left, best_right = -np.inf, -np.inf
            for a in range(n_actions):
                here = sums[b, a]
                if adding[r]:
                    here += left[a]
                left[a] = here
                best_left = max(best_left, here)
                best_right = max(best_right, total[a] - here)
            if best_left + best_right > value + tie:
                if allowed.shape[0] > 0 and not allowed[run_splits[r] + t]:
                    continue
                value = best_left + best_right
                split = run_splits[r] + t
                left_action, right_action = -1, -1
                for a in range(n_actions):
                    if left_action < 0 and left[a] >= best_left - tie:
                        left_action = a
                    if right_action < 0 and total[a] - left[a] >= best_right - tie:
                        right_action = a
    return value, split, left_action, right_action


@kernel
def both_sides(block: FloatArray, sent_left: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return sums (all bins, W) left and right of a split that sends these bins left; block (own bins, all bins, W)."""
    left, right = np.zeros(block.shape[1:]), np.zeros(block.shape[1:])
    for b in range(block.shape[0]):
        if sent_left[b]:
            left += block[b]
        else:
            right += block[b]
    return left, right


@kernel
def root_values(block: FloatArray, j: int, layout: Layout, tie: float, allowed: BoolArray, out: FloatArray) -> None:
    """Write to `out`, at each split of feature j, the value of the best tree of depth 2 with that root.

    block (bins of j, all bins, A): the sums by the bins of j and of every feature. allowed: `SmallestLeaf.below` of
    feature j; empty if all trees are allowed. A root that is not allowed has value −∞.
    """
    starts, split_starts = layout.starts, layout.split_starts
    whole = np.zeros((block.shape[1], block.shape[2]))
    for b in range(block.shape[0]):
        whole += block[b]
    left = np.zeros_like(whole)
    ok_left = ok_right = np.empty(0, dtype=np.bool_)
    for split in range(split_starts[j], split_starts[j + 1]):
        moved, adding = bin_moved(layout, j, split)
        next_left(left, block, moved, adding)
        if allowed.shape[0] > 0:
            ok_left, ok_right = allowed[split - split_starts[j], 0], allowed[split - split_starts[j], 1]
            if not ok_left[-1]:
                out[split] = -np.inf
                continue
        right = whole - left
        total_left = side_totals(left, starts[j], starts[j + 1])
        total_right = side_totals(right, starts[j], starts[j + 1])
        value = best_stump(left, total_left, layout, tie, ok_left)[0]
        value += best_stump(right, total_right, layout, tie, ok_right)[0]
        out[split] = value


def best_tree(
    bins: Bins,
    codes: Codes,
    scores: FloatArray,
    *,
    depth: int,
    kept_bytes: int = TreeLimits.kept_bytes,
    leaf: SmallestLeaf | None = None,
) -> Node:
    """Return the best tree of at most the given depth for scores (n, A); ties go to the simplest, then the first.

    leaf: the minimum share of each leaf; None without one.
    """
    layout = bins.layout
    tie = TREE_TIE_SHARE * float(np.abs(scores).sum())
    if depth == 0 or bins.n_splits == 0:
        total = scores.sum(axis=0)
        return int(np.argmax(total >= total.max() - tie))
    if depth == 1:
        roots = ALL_SPLITS if leaf is None else leaf.roots
        sums = sum_one(codes, scores, layout.starts)
        return best_by_bins(bins, sums, scores.sum(axis=0), tie=tie, allowed=roots)[1]
    histograms = Histograms(codes, scores, layout, kept_bytes=kept_bytes)
    return best_by_pairs(bins, histograms, tie=tie, leaf=leaf)


def best_by_pairs(bins: Bins, pairs: PairSums, *, tie: float, leaf: SmallestLeaf | None) -> Node:
    """Return the best tree of depth at most 2 by sums over the bins of pairs of features; ties as in `best_tree`.

    tie: the gain that makes a tree better than another.
    """
    layout, roots = bins.layout, ALL_SPLITS if leaf is None else leaf.roots
    below: Callable[[int], BoolArray] = (lambda j: ALL_BELOW) if leaf is None else leaf.below

    def stump(sums: FloatArray, total: FloatArray, allowed: BoolArray) -> tuple[float, Node]:
        return best_by_bins(bins, sums, total, tie=tie, allowed=allowed)

    values = np.empty(bins.n_splits)
    each(lambda j: root_values(pairs.of(j), j, layout, tie, below(j), values), count=len(bins.features))
    whole = pairs.of(0).sum(axis=0)
    value, tree = stump(whole, side_totals(whole, 0, int(layout.starts[1])), roots)
    if values.max() <= value + tie:
        return tree
    root = int(np.argmax(values >= values.max() - tie))
    j, place = bins.locate(root)
    oks = (ALL_SPLITS, ALL_SPLITS) if leaf is None else below(j)[place]
    first, last = layout.starts[j], layout.starts[j + 1]
    left, right = both_sides(pairs.of(j), bins.sent_left(root))
    then, otherwise = (
        stump(side, side_totals(side, first, last), ok)[1] for side, ok in zip((left, right), oks, strict=True)
    )
    return branch(bins.test(root), then, otherwise)


def best_by_bins(
    bins: Bins, sums: FloatArray, total: FloatArray, *, tie: float, allowed: BoolArray
) -> tuple[float, Node]:
    """Return the value and the best tree of depth at most 1, by sums of scores (all bins, A) and their total (A,)."""
    value, split, left, right = best_stump(sums, total, bins.layout, tie, allowed)
    return value, left if split < 0 else branch(bins.test(split), left, right)


# Roots of deep trees: the value of the best tree of depth 3 under each root, and a shortlist of roots.


class SortedRows(NamedTuple):
    """Rows sorted by the bins of one feature.

    feature: the feature.
    codes (n, d): the bins of the rows.
    scores (n, A): the scores of the rows.
    edges (bins + 1,): the first row of each bin of the feature.
    """

    feature: int
    codes: Codes
    scores: FloatArray
    edges: IntArray

    @classmethod
    def by(cls, feature: int, codes: Codes, scores: FloatArray, *, n_bins: int) -> SortedRows:
        """Sort rows by the bins of a feature."""
        order = np.argsort(codes[:, feature], kind="stable")
        counts = np.bincount(codes[:, feature], minlength=n_bins)
        edges = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        return cls(feature, codes[order], scores[order], edges)


@kernel
def best_below(
    rows: SortedRows, k: int, whole: FloatArray, wanted: BoolArray, layout: Layout, tie: float, out: FloatArray
) -> None:
    """Compute the best tree of depth 2 with root feature k, on either side of each split of the rows' own feature.

    whole (bins of k, all bins, A): the sums over all rows. wanted (S,): the splits to evaluate. The values are written
    to out (2, d, S), left and right, except for splits that are not wanted or do not divide the rows.
    """
    j, codes, scores, edges = rows
    starts, split_starts = layout.starts, layout.split_starts
    values = np.empty(split_starts[-1])
    free = np.empty((0, 0, 0), dtype=np.bool_)
    first, last = split_starts[k], split_starts[k + 1]
    left = np.zeros_like(whole)
    size = 0
    for split in range(split_starts[j], split_starts[j + 1]):
        moved, adding = bin_moved(layout, j, split)
        begin, end = edges[moved], edges[moved + 1]
        if not adding:
            left[:] = 0.0
            size = 0
        # starts[0] is 0; passing a literal would compile the kernel again for that constant.
        sum_two(codes[begin:end], scores[begin:end], starts, k, starts[0], left)
        size += end - begin
        if not wanted[split] or size == 0 or size == codes.shape[0]:
            continue
        root_values(left, k, layout, tie, free, values)
        out[0, k, split] = values[first:last].max()
        root_values(whole - left, k, layout, tie, free, values)
        out[1, k, split] = values[first:last].max()


def values_of_roots(bins: Bins, codes: Codes, scores: FloatArray, *, width: int, tie: float) -> FloatArray:
    """Return the value (S,) of the best tree of depth 3 under each root that divides the rows; −∞ for those not tried.

    At most `width` roots are tried, chosen by their value at depth 2.
    """
    layout, n_features = bins.layout, len(bins.features)
    histograms = Histograms(codes, scores, layout)
    wanted = np.ones(bins.n_splits, dtype=np.bool_)
    if width < len(wanted):
        near = np.empty(len(wanted))
        each(lambda j: root_values(histograms.of(j), j, layout, tie, ALL_BELOW, near), count=n_features)
        wanted[:] = False
        wanted[shortlist(near, layout, most=width, tie=tie)] = True
    sides = np.full((2, n_features, len(wanted)), -np.inf)

    def try_feature(j: int) -> None:
        rows = SortedRows.by(j, codes, scores, n_bins=int(layout.starts[j + 1] - layout.starts[j]))
        what = f"below feature {j + 1} of {n_features}, feature"
        each(lambda k: best_below(rows, k, histograms.of(k), wanted, layout, tie, sides), count=n_features, what=what)

    for j in range(n_features):
        if wanted[layout.split_starts[j] : layout.split_starts[j + 1]].any():
            try_feature(j)
    return sides.max(axis=1, initial=-np.inf).sum(axis=0)


def shortlist(values: FloatArray, layout: Layout, *, most: int, tie: float) -> list[int]:
    """Return up to `most` roots of large value (S,), local maxima first, as neighbouring thresholds are much alike."""
    starts, adding = layout.run_splits, layout.adding
    peaks = np.ones(len(values), dtype=np.bool_)
    for r in np.flatnonzero(adding & (np.diff(starts) > 0)):
        of_run = values[starts[r] : starts[r + 1]]
        rises = np.concatenate([[True], of_run[1:] > of_run[:-1], [False]])
        peaks[starts[r] : starts[r + 1]] = rises[:-1] & ~rises[1:]
    first = leading(np.where(peaks, values, -np.inf), most=most, tie=tie)
    return first + leading(np.where(peaks, -np.inf, values), most=most - len(first), tie=tie)


def leading(values: FloatArray, *, most: int, tie: float) -> list[int]:
    """Return the indices of up to `most` of the largest finite values; within a tie the first comes first."""
    left = values.copy()
    found: list[int] = []
    while len(found) < min(most, len(values)) and left.max() > -np.inf:
        found.append(int(np.argmax(left >= left.max() - tie)))
        left[found[-1]] = -np.inf
    return found


# Growth of a deep tree: a lookahead of three tests, then local improvement of tests.


@dataclass(frozen=True)
class Effort:
    """The effort of the search for a deep tree.

    root_sums: sums compared to find the root of a tree of depth 3 (a tenth of a second for the default); they
        determine how many roots are tried, and in deeper trees under how many roots whole trees are grown.
    node_sums: sums compared at each of the many nodes of a deeper tree.
    least_roots: the minimum number of roots tried.
    least_grown: the minimum number of roots under which a tree of depth 4 is grown fully. Each further level divides
        it by four, down to one.
    most_grown: the maximum number of such roots.
    """

    root_sums: int = 13_000_000
    node_sums: int = 1_500_000
    least_roots: int = 16
    least_grown: int = 2
    most_grown: int = 8

    def roots_tried(self, depth: int, *, sums: int) -> int:
        """Return how many roots are tried with exact trees of depth 2 below; sums: compared on each side of a root."""
        affordable = self.root_sums if depth == 3 else self.node_sums
        return max(self.least_roots, affordable // sums)

    def trees_grown(self, depth: int, at: int, *, sums: int) -> int:
        """Return under how many roots of a node trees are grown, in a tree of depth `depth` with `at` levels left.

        One at depth 3, where the best root is already known.
        """
        if at == 3:
            return 1
        affordable = max(self.least_grown, self.root_sums // (self.roots_tried(depth, sums=sums) * sums))
        return max(1, min(affordable, self.most_grown) >> 2 * (depth - 4))


@dataclass(frozen=True, eq=False)
class DeepSearch:
    """The search for a tree of large value on given scores.

    bins: the tests that trees may use.
    codes (n, d): the bins of the rows.
    scores (n, A): the scores of the rows.
    depth: the maximum depth of the tree, 3 or more.
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
        """The largest score (n,) of each row."""
        return self.scores.max(axis=1)

    @cached_property
    def sums(self) -> int:
        """The number of sums compared on either side of a root to find the best tree of depth 2 there."""
        return max(1, self.bins.n_splits * int(self.bins.layout.starts[-1]) * self.scores.shape[1])

    @cached_property
    def width(self) -> int:
        """The number of roots tried with exact trees of depth 2 below."""
        return self.effort.roots_tried(self.depth, sums=self.sums)

    def tries(self, depth: int) -> int:
        """Return under how many roots of a node trees are grown."""
        return self.effort.trees_grown(self.depth, depth, sums=self.sums)

    @property
    def complete(self) -> bool:
        """Whether all trees are covered: at depth 3, with few enough roots."""
        return self.depth == 3 and self.width >= self.bins.n_splits

    def best(self) -> Node:
        """Return the better of two trees: one grown from the root, and the best of depth 2 with its leaves grown."""
        rows = np.arange(len(self.codes))
        shallow = self.shallow(rows, 2)
        tree = self.better(self.grown(rows, self.depth), shallow, rows)
        if not self.complete and isinstance(shallow, TreeSplit):
            other = self.settled(self.refined(shallow, rows, self.depth), rows, self.depth)
            tree = self.better(other, tree, rows)
        return self.pruned(tree, rows)

    def shortfall(self) -> float:
        """Return the value of the best tree of depth 3 minus that of `best`; 0 up to rounding."""
        rows = np.arange(len(self.codes))
        found = self.value(self.best(), rows)
        missed = max([0.0, *(self._values_of_roots(rows, width=self.bins.n_splits) - found)])
        return missed if missed > self.tie else 0.0

    def grown(self, rows: IntArray, depth: int) -> Node:
        """Return a tree for these rows: below each of the leading roots at depth 3, two subtrees grown the same way."""
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
        """Return the tree with its leaves grown to the given depth."""
        if isinstance(node, int):
            return self.grown(rows, depth)
        left = self.goes_left(self.bins.places[node.test], rows)
        then = self.refined(node.then, rows[left], depth - 1)
        return branch(node.test, then, self.refined(node.otherwise, rows[~left], depth - 1))

    def settled(self, node: Node, rows: IntArray, depth: int) -> Node:
        """Return the tree improved until no test and no subtree of depth 2 at the leaves can be improved."""
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
        """Return the tree with the best test for the two subtrees of its root, or one subtree alone, if that gains.

        The subtrees act as the two actions of a tree of depth 1, scored by their value on each row.
        """
        if isinstance(node, int):
            return node
        subtrees = node.then, node.otherwise
        scores = np.column_stack([self.picked(subtree, rows) for subtree in subtrees])
        stump = best_tree(self.bins, self.codes[rows], scores, depth=1)
        parts = [subtrees[i] for i in leaves(stump)]
        return self.better(parts[0] if isinstance(stump, int) else TreeSplit(stump.test, *parts), node, rows)

    def pruned(self, node: Node, rows: IntArray) -> Node:
        """Return the tree without the tests that make no difference on these rows."""
        if isinstance(node, int):
            return node
        enough = self.value(node, rows) - self.tie
        for part in (node.then, node.otherwise):
            if self.value(part, rows) >= enough:
                return self.pruned(part, rows)
        left = self.goes_left(self.bins.places[node.test], rows)
        return branch(node.test, self.pruned(node.then, rows[left]), self.pruned(node.otherwise, rows[~left]))

    def shallow(self, rows: IntArray, depth: int) -> Node:
        """Return the best tree of depth at most min(depth, 2)."""
        return best_tree(self.bins, self.codes[rows], self.scores[rows], depth=min(depth, 2))

    def goes_left(self, split: int, rows: IntArray) -> BoolArray:
        """Return which of the rows pass the test of a split."""
        return self.bins.sent_left(split)[self.codes[rows, self.bins.locate(split)[0]]]

    def picked(self, node: Node, rows: IntArray) -> FloatArray:
        """Return the score of each row under the tree's action."""
        if isinstance(node, int):
            return self.scores[rows, node]
        left = self.goes_left(self.bins.places[node.test], rows)
        out = np.empty(len(rows))
        out[left], out[~left] = self.picked(node.then, rows[left]), self.picked(node.otherwise, rows[~left])
        return out

    def value(self, node: Node, rows: IntArray) -> float:
        """Return the total score of the tree on the rows."""
        return float(self.picked(node, rows).sum())

    def better(self, new: Node, old: Node, rows: IntArray) -> Node:
        """Return the new tree if it gains more than rounding over the old one, else the old one."""
        return new if self.value(new, rows) > self.value(old, rows) + self.tie else old

    def _values_of_roots(self, rows: IntArray, *, width: int) -> FloatArray:
        """Return the value (S,) of the best tree of depth 3 for these rows under each root that is tried."""
        return values_of_roots(self.bins, self.codes[rows], self.scores[rows], width=width, tie=self.tie)
