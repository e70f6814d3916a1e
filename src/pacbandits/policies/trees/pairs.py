"""Kernels for the frontier of sums: a point of one frontier plus a point of another, over many couples."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel

Numbers = TypeVar("Numbers", FloatArray, IntArray)

# Points of a right frontier that are tried together against what is already known to be on the frontier.
BLOCK_POINTS = 16


class Couples(NamedTuple):
    """Frontiers in couples, one after the other: left, right, left, right, ….

    edges (2 couples + 1,): where each frontier begins among the points.
    first (m,): of the points; falls along each frontier.
    second (m,): of the points; rises along each frontier.
    """

    edges: IntArray
    first: FloatArray
    second: FloatArray


class Intervals(NamedTuple):
    """Equal intervals of first.

    low: where the lowest begins.
    scale: how many go on a unit; 0 when there is but one.
    """

    low: float
    scale: float


@kernel
def front_beyond_ties(first: FloatArray, second: FloatArray, tie_first: float, tie_second: float) -> IntArray:
    """Indices of the frontier, by falling first; a point that gains at most a tie over another is dropped."""
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
    """A longer copy, for when `array` is full."""
    out = np.empty(size, dtype=array.dtype)
    for i in range(array.shape[0]):  # a slice would take seconds to compile
        out[i] = array[i]
    return out  # pyright: ignore[reportReturnType]


@kernel
def largest_above(tops: FloatArray, above: FloatArray) -> None:
    """above[k] = the largest second of any interval higher than k."""
    best = -np.inf
    for k in range(above.shape[0] - 1, -1, -1):
        above[k] = best
        best = max(best, tops[k, 0])


@kernel
def cut_first(couples: Couples, intervals: int) -> Intervals:
    """So many intervals, from the lowest first that matters, that of the pair best in second, to the highest."""
    edges, first, second = couples
    top = low = high = -np.inf
    for r in range(edges.shape[0] // 2):
        a, b, c = edges[2 * r], edges[2 * r + 1], edges[2 * r + 2]
        if b == c:  # a root or a split that is not allowed
            continue
        high = max(high, float(first[a] + first[b]))
        if second[b - 1] + second[c - 1] > top:
            top = second[b - 1] + second[c - 1]
            low = float(first[b - 1] + first[c - 1])
    scale = (intervals - 1) / (high - low) if high > low else 0.0
    # A range too narrow to divide is one interval.
    return Intervals(low, scale if scale < np.inf else 0.0)


@kernel
def scan_pairs(
    couples: Couples, intervals: Intervals, tops: FloatArray, pairs: IntArray, start: int, stop: int
) -> None:
    """Gather the pairs of the couples start … stop − 1 into intervals of first.

    tops (intervals, 3): the largest second, the first of the pair that has it, the largest first. pairs (intervals, 2):
    the pair with the largest second; of equals the larger first, then the earlier.
    """
    edges, first, second = couples
    low, scale = intervals
    above = np.full(tops.shape[0], -np.inf)
    tried = 0
    for r in range(start, stop):
        end = edges[2 * r + 2]
        for i in range(edges[2 * r], edges[2 * r + 1]):
            for begin in range(edges[2 * r + 1], end, BLOCK_POINTS):
                # Whatever the block holds lies below its corner; earlier couples may dominate even that.
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
    couples: Couples, intervals: Intervals, tops: FloatArray, above: FloatArray, most: int, start: int, stop: int
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """The pairs that neither a higher interval nor the best pair of their own dominates; it ends once beyond `most`.

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
                    # Written in any case and kept if `found` moves on: whether it does is hard to foretell.
                    fs[found], ss[found] = f, s
                    lefts[found], rights[found] = i, j
                    found += (s > above[k]) & ((f > tops[k, 1]) | (s == tops[k, 0]))
    return fs[:found], ss[:found], lefts[:found], rights[:found]
