"""The best tree of depth 0, 1 or 2 for given scores, exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Bins, Codes, Layout
from pacbandits.policies.trees.histograms import Histograms, PairSums, each, sum_one
from pacbandits.policies.trees.leaves import SmallestLeaf
from pacbandits.policies.trees.limits import TreeLimits
from pacbandits.policies.trees.sides import bin_moved, next_left, side_totals
from pacbandits.policies.trees.tree import Node, branch

# Values this close, relative to the sum of all |scores|, are taken for equal: sums differ by as much in rounding.
TREE_TIE_SHARE = 1e-12
# Where no split is ruled out: of a side, and below each root.
ALL_SPLITS: BoolArray = np.empty(0, dtype=np.bool_)
ALL_BELOW: BoolArray = np.empty((0, 0, 0), dtype=np.bool_)


@kernel
def best_stump(
    sums: FloatArray, total: FloatArray, layout: Layout, tie: float, allowed: BoolArray
) -> tuple[float, int, int, int]:
    """The best tree of depth 0 or 1: its value, its split (−1: none) and the actions left and right of it.

        max_{k,t} [ max_a L_{kt}(a) + max_a (total(a) − L_{kt}(a)) ],   L_{kt} = sums left of split t of
        feature k

    sums (all bins, A), total (A,). A split must gain more than `tie` over what came before it. allowed (S, or more):
    which splits are; empty where all are.
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
    """Sums (all bins, W) left and right of a split that sends these bins left; block (bins of it, all bins, W)."""
    left, right = np.zeros(block.shape[1:]), np.zeros(block.shape[1:])
    for b in range(block.shape[0]):
        if sent_left[b]:
            left += block[b]
        else:
            right += block[b]
    return left, right


@kernel
def root_values(block: FloatArray, j: int, layout: Layout, tie: float, allowed: BoolArray, out: FloatArray) -> None:
    """The value of the best tree of depth 2 whose root is a split of feature j, into the split's place in out.

    block (bins of j, all bins, A): the sums by the bins of j and of every feature. allowed: what `SmallestLeaf.below`
    says of feature j; empty where all trees are. A root that is not is worth −∞.
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
    """The best tree of at most the given depth for scores (n, A); of equals the simplest, then the first.

    leaf: what each leaf must hold; None where any will do.
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
    """The best tree of depth 2 or less by the sums of scores in the bins of any two features; of equals as above.

    tie: what a tree must gain over another to be better.
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
    """The best tree of depth 1 or less, and its value, by the sums (all bins, A) of scores in each bin, and of all."""
    value, split, left, right = best_stump(sums, total, bins.layout, tie, allowed)
    return value, left if split < 0 else branch(bins.test(split), left, right)
