"""Frontiers of two scores over trees of depth 0 and 1 on either side of every root, and kernels for their sums."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.trees.bins import Layout
from pacbandits.policies.trees.histograms import bin_moved, next_left, side_totals

# Kernels for the frontier of sums of two points, one of each frontier of a couple, over many couples.


Numbers = TypeVar("Numbers", FloatArray, IntArray)

# Points of a right frontier that are compared as a block with the known frontier.
BLOCK_POINTS = 16


class Couples(NamedTuple):
    """Frontiers in couples, one after the other: left, right, left, right, ….

    edges (2 couples + 1,): the first point of each frontier.
    first (m,): first scores of the points, decreasing along each frontier.
    second (m,): second scores of the points, increasing along each frontier.
    """

    edges: IntArray
    first: FloatArray
    second: FloatArray


class ScoreIntervals(NamedTuple):
    """Equal intervals of the first score.

    low: the lower end of the lowest interval.
    scale: the number of intervals in a unit; 0 if there is only one.
    """

    low: float
    scale: float


@kernel
def front_beyond_ties(first: FloatArray, second: FloatArray, tie_first: float, tie_second: float) -> IntArray:
    """Return the indices of the frontier, by decreasing first; points that gain at most a tie are dropped."""
    order = np.argsort(-first, kind="mergesort")
    count = 0
    best, anchor = -np.inf, np.inf
    for i in range(order.shape[0]):
        p = order[i]
        if second[p] > best + tie_second:
            best = second[p]
            if anchor - first[p] <= tie_first:
                order[count - 1] = p
            else:
                anchor = first[p]
                order[count] = p
                count += 1
    return order[:count]


@kernel
def grow(array: Numbers, size: int) -> Numbers:
    """Return a longer copy, for when `array` is full."""
    out = np.empty(size, dtype=array.dtype)
    for i in range(array.shape[0]):  # a slice would take seconds to compile
        out[i] = array[i]
    return out  # pyright: ignore[reportReturnType]


@kernel
def largest_above(tops: FloatArray, above: FloatArray) -> None:
    """Set above[k] to the largest second of any interval higher than k."""
    best = -np.inf
    for k in range(above.shape[0] - 1, -1, -1):
        above[k] = best
        best = max(best, tops[k, 0])


@kernel
def cut_first(couples: Couples, intervals: int) -> ScoreIntervals:
    """Return intervals of first, from the first of the pair with the largest second to the largest first."""
    edges, first, second = couples
    top = low = high = -np.inf
    for r in range(edges.shape[0] // 2):
        a, b, c = edges[2 * r], edges[2 * r + 1], edges[2 * r + 2]
        if b == c:  # the root or split is not allowed
            continue
        high = max(high, float(first[a] + first[b]))
        if second[b - 1] + second[c - 1] > top:
            top = second[b - 1] + second[c - 1]
            low = float(first[b - 1] + first[c - 1])
    scale = (intervals - 1) / (high - low) if high > low else 0.0
    # A range too narrow to divide is one interval.
    return ScoreIntervals(low, scale if scale < np.inf else 0.0)


@kernel
def scan_pairs(
    couples: Couples, intervals: ScoreIntervals, tops: FloatArray, pairs: IntArray, start: int, stop: int
) -> None:
    """Assign the pairs of the couples start … stop − 1 to intervals of first.

    tops (intervals, 3): the largest second, the first of the pair that has it, the largest first. pairs (intervals, 2):
    the pair with the largest second; ties go to the larger first, then to the earlier.
    """
    edges, first, second = couples
    low, scale = intervals
    above = np.full(tops.shape[0], -np.inf)
    tried = 0
    for r in range(start, stop):
        end = edges[2 * r + 2]
        for i in range(edges[2 * r], edges[2 * r + 1]):
            for begin in range(edges[2 * r + 1], end, BLOCK_POINTS):
                # The corner of a block dominates its points; earlier couples may dominate even the corner.
                last = min(begin + BLOCK_POINTS, end)
                k = max(0, int((first[i] + first[begin] - low) * scale))
                if second[i] + second[last - 1] <= above[k]:
                    continue
                tried += last - begin
                for j in range(begin, last):
                    f = first[i] + first[j]
                    s = second[i] + second[j]
                    k = max(0, int((f - low) * scale))
                    if f > tops[k, 2]:
                        tops[k, 2] = f
                    if s >= tops[k, 0] and (s > tops[k, 0] or f > tops[k, 1]):
                        tops[k, 0], tops[k, 1] = s, f
                        pairs[k, 0], pairs[k, 1] = i, j
        if tried > tops.shape[0]:
            largest_above(tops, above)
            tried = 0


@kernel
def keep_pairs(
    couples: Couples, intervals: ScoreIntervals, tops: FloatArray, above: FloatArray, most: int, start: int, stop: int
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Return the pairs not dominated by a higher interval or the best pair of their own; stops once beyond `most`.

    Returns first, second, and the left and the right point of each.
    """
    edges, first, second = couples
    low, scale = intervals
    size = 1024
    found = 0
    fs, ss = np.empty(size), np.empty(size)
    lefts, rights = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for r in range(start, stop):
        end = edges[2 * r + 2]
        for i in range(edges[2 * r], edges[2 * r + 1]):
            for begin in range(edges[2 * r + 1], end, BLOCK_POINTS):
                last = min(begin + BLOCK_POINTS, end)
                k = max(0, int((first[i] + first[begin] - low) * scale))
                if second[i] + second[last - 1] <= above[k] or found > most:
                    continue
                if found + BLOCK_POINTS > size:
                    size *= 2
                    fs, ss = grow(fs, size), grow(ss, size)
                    lefts, rights = grow(lefts, size), grow(rights, size)
                for j in range(begin, last):
                    f = first[i] + first[j]
                    s = second[i] + second[j]
                    k = max(0, int((f - low) * scale))
                    # Written in any case, and kept if `found` advances: this avoids an unpredictable branch.
                    fs[found], ss[found] = f, s
                    lefts[found], rights[found] = i, j
                    found += (s > above[k]) & ((f > tops[k, 1]) | (s == tops[k, 0]))
    return fs[:found], ss[:found], lefts[:found], rights[:found]


# Frontiers of two scores over the trees of depth 0 and 1, whole and on each side of every root.


# Intervals of first for the trees of one side.
SIDE_INTERVALS = 1024


class SideFronts(NamedTuple):
    """Frontiers of both sides of every split of a feature, one after the other: left, right, left, right, ….

    lengths (2 splits,): the number of points of each.
    first (m,): first scores of the points.
    second (m,): second scores of the points.
    stumps (m, 3): the split (−1: none) and the two actions of each point.
    exact: whether none was thinned.
    """

    lengths: IntArray
    first: FloatArray
    second: FloatArray
    stumps: IntArray
    exact: bool


@kernel
def sort_leaf(values: FloatArray, order: IntArray) -> None:
    """Sort the actions in `order` (A,) by decreasing first, then decreasing second, then action; values (2A,).

    Insertion sort: neighbouring splits order actions similarly, and `order` comes from the previous split.
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
    """Return the frontiers over actions of the two leaves of every split, and the action of each point.

    The leaf without a split comes first, coupled with the point (0, 0), so that the simplest tree comes first.
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
    # Passing a literal would compile the callee again for that constant.
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
    """Return the exact frontier of trees of depth 0 and 1: first, second, origin (m, 3) = split (−1: none), actions.

    sums (all bins, 2A) and total (2A,): columns of the first score, then of the second. allowed (S, or more): the
    splits that are allowed; empty if all are.
    """
    leaves, action = leaf_fronts(sums, total, layout, ties[1], allowed)
    tops = np.full((SIDE_INTERVALS, 3), -np.inf)
    # No argument is a literal, which would compile the callees again for that constant.
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
    """Return the ends of runs of neighbouring points of a frontier, at most `cap` runs, to be merged into corners.

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
    """Return the frontiers of both sides of the splits of feature j; those of more than `cap` points are thinned.

    block (bins of j, all bins, 2A). allowed: `SmallestLeaf.below` of feature j; empty if all trees are allowed. A root
    that is not allowed has empty frontiers.
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
