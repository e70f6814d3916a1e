"""The best tree of depth 0, 1 or 2 for given scores, exactly."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
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
    starts, split_starts, ordered = layout
    n_actions = total.shape[0]
    left_action = 0
    for a in range(1, n_actions):
        if total[a] > total[left_action] + tie:
            left_action = a
    right_action = left_action
    value = total[left_action]
    split = -1
    left = np.empty(n_actions)
    for k in range(ordered.shape[0]):
        left[:] = 0.0
        for t in range(split_starts[k + 1] - split_starts[k]):
            b = starts[k] + t
            best_left, best_right = -np.inf, -np.inf
            for a in range(n_actions):
                here = sums[b, a]
                if ordered[k]:
                    here += left[a]
                left[a] = here
                best_left = max(best_left, here)
                best_right = max(best_right, total[a] - here)
            if best_left + best_right > value + tie:
                value = best_left + best_right
                split = split_starts[k] + t
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
def next_left(left: FloatArray, block: FloatArray, s: int, ordered: bool) -> None:
    """Move `left` (all bins, W) to split s of a root feature: add the next bin, or take it alone."""
    for b in range(left.shape[0]):
        for a in range(left.shape[1]):
            left[b, a] = block[s, b, a] + (left[b, a] if ordered else 0.0)


@kernel
def both_sides(block: FloatArray, s: int, ordered: bool) -> tuple[FloatArray, FloatArray]:
    """Sums (all bins, W) left and right of split s of a root feature; block (bins of it, all bins, W)."""
    left, right = np.zeros(block.shape[1:]), np.zeros(block.shape[1:])
    for b in range(block.shape[0]):
        if b == s or (ordered and b < s):
            left += block[b]
        else:
            right += block[b]
    return left, right


@kernel
def root_values(block: FloatArray, j: int, layout: Layout, tie: float, out: FloatArray) -> None:
    """The value of the best tree of depth 2 whose root is split s of feature j, into out[split_starts[j] + s].

    block (bins of j, all bins, A): the sums by the bins of j and of every feature.
    """
    starts, split_starts, ordered = layout
    whole = np.zeros((block.shape[1], block.shape[2]))
    for b in range(block.shape[0]):
        whole += block[b]
    left = np.zeros_like(whole)
    for s in range(split_starts[j + 1] - split_starts[j]):
        next_left(left, block, s, ordered[j])
        right = whole - left
        total_left = side_totals(left, starts[j], starts[j + 1])
        total_right = side_totals(right, starts[j], starts[j + 1])
        value = best_stump(left, total_left, layout, tie)[0]
        value += best_stump(right, total_right, layout, tie)[0]
        out[split_starts[j] + s] = value


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
    j, s = bins.locate(root)
    first, last = layout.starts[j], layout.starts[j + 1]
    left, right = both_sides(histograms.of(j), s, bool(layout.ordered[j]))
    then, otherwise = (stump(side, side_totals(side, first, last))[1] for side in (left, right))
    return branch(bins.test(root), then, otherwise)
