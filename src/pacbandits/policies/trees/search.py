"""The best tree of depth 0, 1 or 2 for given scores, exactly."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Bins, Codes, Layout
from pacbandits.policies.trees.histograms import Histograms, each, sum_one
from pacbandits.policies.trees.limits import TreeLimits
from pacbandits.policies.trees.tree import Node, branch

# Values this close, relative to the sum of all |scores|, are taken for equal: sums differ by as much in rounding.
TREE_TIE_SHARE = 1e-12


@kernel
def best_stump(sums: FloatArray, total: FloatArray, layout: Layout, tie: float) -> tuple[float, int, int, int]:
    """The best tree of depth 0 or 1: its value, its split (−1: none) and the actions left and right of it.

        max_{k,t} [ max_a L_{kt}(a) + max_a (total(a) − L_{kt}(a)) ],   L_{kt} = sums left of split t of
        feature k

    sums (all bins, A), total (A,). A split must gain more than `tie` over what came before it.
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
def side_totals(side: FloatArray, first: int, last: int) -> FloatArray:
    """The sum (W,) of a side's scores, from its sums over the bins of one feature."""
    total = np.zeros(side.shape[1])
    for b in range(first, last):
        for a in range(side.shape[1]):
            total[a] += side[b, a]
    return total


@kernel
def bin_moved(layout: Layout, j: int, split: int) -> tuple[int, bool]:
    """Which bin of feature j a split sends left besides those of the split before, and whether these stay there."""
    r: int = layout.run_starts[j]
    while split >= layout.run_splits[r + 1]:
        r += 1
    further = split - layout.run_splits[r]
    return layout.run_bins[r] - layout.starts[j] + further, bool(layout.adding[r]) and further > 0


@kernel
def next_left(left: FloatArray, block: FloatArray, moved: int, adding: bool) -> None:
    """Move `left` (all bins, W) to the next split of a root feature: add the bin that it moves, or take it alone."""
    for b in range(left.shape[0]):
        for a in range(left.shape[1]):
            left[b, a] = block[moved, b, a] + (left[b, a] if adding else 0.0)


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
def root_values(block: FloatArray, j: int, layout: Layout, tie: float, out: FloatArray) -> None:
    """The value of the best tree of depth 2 whose root is a split of feature j, into the split's place in out.

    block (bins of j, all bins, A): the sums by the bins of j and of every feature.
    """
    starts, split_starts = layout.starts, layout.split_starts
    whole = np.zeros((block.shape[1], block.shape[2]))
    for b in range(block.shape[0]):
        whole += block[b]
    left = np.zeros_like(whole)
    for split in range(split_starts[j], split_starts[j + 1]):
        moved, adding = bin_moved(layout, j, split)
        next_left(left, block, moved, adding)
        right = whole - left
        total_left = side_totals(left, starts[j], starts[j + 1])
        total_right = side_totals(right, starts[j], starts[j + 1])
        value = best_stump(left, total_left, layout, tie)[0]
        value += best_stump(right, total_right, layout, tie)[0]
        out[split] = value


def best_tree(
    bins: Bins, codes: Codes, scores: FloatArray, *, depth: int, kept_bytes: int = TreeLimits.kept_bytes
) -> Node:
    """The best tree of at most the given depth for scores (n, A); of equals the simplest, then the first."""
    layout = bins.layout
    tie = TREE_TIE_SHARE * float(np.abs(scores).sum())
    if depth == 0 or bins.n_splits == 0:
        total = scores.sum(axis=0)
        return int(np.argmax(total >= total.max() - tie))

    def stump(sums: FloatArray, total: FloatArray) -> tuple[float, Node]:
        value, split, left, right = best_stump(sums, total, layout, tie)
        return value, left if split < 0 else branch(bins.test(split), left, right)

    if depth == 1:
        return stump(sum_one(codes, scores, layout.starts), scores.sum(axis=0))[1]

    histograms = Histograms(codes, scores, layout, kept_bytes=kept_bytes)
    values = np.empty(bins.n_splits)
    each(lambda j: root_values(histograms.of(j), j, layout, tie, values), count=len(bins.features))
    value, tree = stump(histograms.of(0).sum(axis=0), scores.sum(axis=0))
    if values.max() <= value + tie:
        return tree
    root = int(np.argmax(values >= values.max() - tie))
    j, _ = bins.locate(root)
    first, last = layout.starts[j], layout.starts[j + 1]
    left, right = both_sides(histograms.of(j), bins.sent_left(root))
    then, otherwise = (stump(side, side_totals(side, first, last))[1] for side in (left, right))
    return branch(bins.test(root), then, otherwise)
