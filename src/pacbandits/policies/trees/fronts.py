"""Frontiers of two scores over the trees of depth 0 and 1, whole and on either side of every root."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Layout
from pacbandits.policies.trees.pairs import (
    Couples,
    cut_first,
    front_beyond_ties,
    grow,
    keep_pairs,
    largest_above,
    scan_pairs,
)
from pacbandits.policies.trees.sides import bin_moved, next_left, side_totals

# Intervals of first for the trees of one side.
SIDE_INTERVALS = 1024


class SideFronts(NamedTuple):
    """Frontiers of both sides of every split of a feature, one after the other: left, right, left, right, ….

    lengths (2 splits,): how many points each has.
    first (m,): of their points.
    second (m,): of their points.
    stumps (m, 3): split (−1: none) and the two actions of each point.
    exact: whether none was thinned.
    """

    lengths: IntArray
    first: FloatArray
    second: FloatArray
    stumps: IntArray
    exact: bool


@kernel
def sort_leaf(values: FloatArray, order: IntArray) -> None:
    """Sort the actions in `order` (A,) by falling first, then falling second, then rising action; values (2A,).

    Insertion sort: neighbouring splits order actions nearly alike, and `order` comes from the split before.
    """
    n = order.shape[0]
    for i in range(1, n):
        a = order[i]
        f, s = values[a], values[n + a]
        p = i
        while p > 0:
            b = order[p - 1]
            g = values[b]
            if g > f or (g == f and (values[n + b] > s or (values[n + b] == s and b < a))):
                break
            order[p] = b
            p -= 1
        order[p] = a


@kernel
def add_leaf(
    values: FloatArray,
    order: IntArray,
    tie: float,
    first: FloatArray,
    second: FloatArray,
    action: IntArray,
    begin: int,
) -> int:
    """Append the frontier of a leaf over its actions at `begin`; return where it ends."""
    n = order.shape[0]
    sort_leaf(values, order)
    best = -np.inf
    for i in range(n):
        a = order[i]
        if values[n + a] > best + tie:
            best = values[n + a]
            first[begin], second[begin], action[begin] = values[a], best, a
            begin += 1
    return begin


@kernel
def leaf_fronts(
    sums: FloatArray, total: FloatArray, layout: Layout, tie: float, allowed: BoolArray
) -> tuple[Couples, IntArray]:
    """Frontiers over actions of the two leaves of every split, and the action of each point.

    First of all comes the leaf without a split, coupled with the point (0, 0), so that the simplest tree comes first.
    Frontiers of a split that is not allowed are empty.
    """
    run_bins, run_splits, adding = layout.run_bins, layout.run_splits, layout.adding
    n_actions: int = total.shape[0] // 2
    n_splits = run_splits[-1]
    size = (2 * n_splits + 1) * n_actions + 1
    first, second = np.empty(size), np.empty(size)
    action = np.empty(size, dtype=np.int64)
    edges = np.zeros(2 * n_splits + 3, dtype=np.int64)
    order_left: IntArray = np.arange(n_actions)
    order_right: IntArray = np.arange(n_actions)
    left, right = np.empty(2 * n_actions), np.empty(2 * n_actions)
    # A number that the compiler knows would have callees compiled once more, for that number.
    end = add_leaf(total, order_left, tie, first, second, action, edges[0])
    edges[1] = end
    first[end], second[end], action[end] = 0.0, 0.0, 0
    end += 1
    edges[2] = end
    at = 2
    for r in range(adding.shape[0]):
        left[:] = 0.0
        for t in range(run_splits[r + 1] - run_splits[r]):
            for a in range(2 * n_actions):
                left[a] = sums[run_bins[r] + t, a] + (left[a] if adding[r] else 0.0)
                right[a] = total[a] - left[a]
            if allowed.shape[0] > 0 and not allowed[run_splits[r] + t]:
                edges[at + 1] = edges[at + 2] = end
                at += 2
                continue
            end = add_leaf(left, order_left, tie, first, second, action, end)
            edges[at + 1] = end
            end = add_leaf(right, order_right, tie, first, second, action, end)
            edges[at + 2] = end
            at += 2
    return Couples(edges, first, second), action


@kernel
def stump_front(
    sums: FloatArray, total: FloatArray, layout: Layout, ties: tuple[float, float], allowed: BoolArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The exact frontier of trees of depth 0 and 1: first, second, origin (m, 3) = split (−1: none), actions.

    sums (all bins, 2A) and total (2A,): columns of the first score, then of the second. allowed
    (S, or more): which splits are; empty where all are.
    """
    leaves, action = leaf_fronts(sums, total, layout, ties[1], allowed)
    tops = np.full((SIDE_INTERVALS, 3), -np.inf)
    # No argument is a number that the compiler knows: callees would be compiled once more, for that number.
    intervals = cut_first(leaves, tops.shape[0])
    pairs = np.empty((SIDE_INTERVALS, 2), dtype=np.int64)
    above = np.empty(SIDE_INTERVALS)
    begin, n = leaves.edges[0], leaves.edges.shape[0] // 2
    scan_pairs(leaves, intervals, tops, pairs, begin, n)
    largest_above(tops, above)
    fs, ss, lefts, rights = keep_pairs(leaves, intervals, tops, above, action.shape[0] ** 2, begin, n)
    keep = front_beyond_ties(fs, ss, ties[0], ties[1])
    origin = np.empty((keep.shape[0], 3), dtype=np.int64)
    for i in range(keep.shape[0]):
        left, right = lefts[keep[i]], rights[keep[i]]
        split = np.searchsorted(leaves.edges, left, side="right") // 2 - 1
        origin[i, 0], origin[i, 1] = split, action[left]
        origin[i, 2] = action[right] if split >= 0 else action[left]
    return fs[keep], ss[keep], origin


@kernel
def thin(first: FloatArray, second: FloatArray, cap: int) -> IntArray:
    """Ends of runs of neighbours of a frontier, at most `cap` runs, to be merged into their corners.

    A run spans at most 2/(cap − 1) of the frontier's range, first and second added: the corner (largest
    first, largest second) overstates neither score by more.
    """
    n = first.shape[0]
    wide = first[0] - first[n - 1]
    high = second[n - 1] - second[0]
    longest = 2.0 / (cap - 1)
    ends = np.empty(n, dtype=np.int64)
    count = 0
    begin = 0
    for i in range(1, n + 1):
        if i == n or (first[begin] - first[i]) / wide + (second[i] - second[begin]) / high > longest:
            ends[count] = i
            count += 1
            begin = i
    return ends[:count]


@kernel
def root_fronts(
    block: FloatArray, j: int, layout: Layout, ties: tuple[float, float], cap: int, allowed: BoolArray
) -> SideFronts:
    """The frontiers of feature j; one of more than `cap` points is thinned. block (bins of j, all bins, 2A).

    allowed: what `SmallestLeaf.below` says of feature j; empty where all trees are. Frontiers of a root that is not are
    empty.
    """
    starts, split_starts = layout.starts, layout.split_starts
    n_splits = split_starts[j + 1] - split_starts[j]
    lengths = np.empty(2 * n_splits, dtype=np.int64)
    size = 4096
    end = 0
    first, second, origin = np.empty(size), np.empty(size), np.empty(3 * size, dtype=np.int64)
    exact = True
    whole = np.zeros((block.shape[1], block.shape[2]))
    for b in range(block.shape[0]):
        whole += block[b]
    left = np.zeros_like(whole)
    ok = np.empty(0, dtype=np.bool_)
    for s in range(2 * n_splits):
        if s % 2 == 0:
            moved, adding = bin_moved(layout, j, split_starts[j] + s // 2)
            next_left(left, block, moved, adding)
        if allowed.shape[0] > 0:
            ok = allowed[s // 2, s % 2]
            if not ok[-1]:
                lengths[s] = 0
                continue
        side = left if s % 2 == 0 else whole - left
        total = side_totals(side, starts[j], starts[j + 1])
        f, g, o = stump_front(side, total, layout, ties, ok)
        n = f.shape[0]
        if n > cap:
            exact = False
            ends = thin(f, g, cap)
            n = ends.shape[0]
            begin = 0
            for i in range(n):
                f[i], g[i] = f[begin], g[ends[i] - 1]
                for c in range(3):
                    o[i, c] = o[(begin + ends[i]) // 2, c]
                begin = ends[i]
        while end + n > size:
            size *= 2
            first, second, origin = grow(first, size), grow(second, size), grow(origin, 3 * size)
        for i in range(n):  # slices would take seconds to compile
            first[end + i], second[end + i] = f[i], g[i]
            for c in range(3):
                origin[3 * (end + i) + c] = o[i, c]
        lengths[s] = n
        end += n
    stumps = origin[: 3 * end].copy().reshape((end, 3))
    return SideFronts(lengths, first[:end].copy(), second[:end].copy(), stumps, exact)
