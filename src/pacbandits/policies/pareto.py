"""Pareto frontiers of points in the plane, exact and rounded outward."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel


@kernel
def pareto(first: FloatArray, second: FloatArray) -> IntArray:
    """Indices of the maximal points, by falling `first`; of equal points the first one stands."""
    n = first.shape[0]
    order = np.argsort(-first, kind="mergesort")
    keep = np.empty(n, dtype=np.int64)
    count = 0
    best = -np.inf
    i = 0
    while i < n:
        # Among equal `first`, the largest `second` (the lowest index breaks ties, as the sort is stable).
        top = order[i]
        j = i + 1
        while j < n and first[order[j]] == first[top]:
            if second[order[j]] > second[top]:
                top = order[j]
            j += 1
        i = j
        if second[top] > best:
            best = second[top]
            keep[count] = top
            count += 1
    return keep[:count]


SORTED_SUMS_PER_INTERVAL = 32  # where there are more, sums are gathered instead of sorted


@kernel
def pareto_of_sums(
    first_a: FloatArray, second_a: FloatArray, first_b: FloatArray, second_b: FloatArray, bins: int
) -> tuple[FloatArray, FloatArray, IntArray, bool]:
    """The frontier of all sums of a point of `a` and a point of `b`.

    Exact while it has at most `bins` points (and the sums are not too many to sort). Beyond, sums are gathered into
    `bins` intervals of `first`, and the frontier holds, for each interval, the largest first and the largest second in
    it: every sum is dominated. The intervals are equal on the scale of the fourth root of `first` above its least, so
    that small values keep their relative precision. Returns first, second, pair (index of a · len(b) + index of b, the
    one with the largest second), and exactness.
    """
    na, nb = first_a.shape[0], first_b.shape[0]
    total = na * nb
    if total <= SORTED_SUMS_PER_INTERVAL * bins:
        first = np.empty(total)
        second = np.empty(total)
        for i in range(na):
            for j in range(nb):
                first[i * nb + j] = first_a[i] + first_b[j]
                second[i * nb + j] = second_a[i] + second_b[j]
        keep = pareto(first, second)
        if keep.shape[0] <= bins:
            return first[keep], second[keep], keep, True
    low = first_a.min() + first_b.min()
    high = first_a.max() + first_b.max()
    unit = 1.0 / (high - low) if high > low else 0.0
    if not unit < np.inf:
        unit = 0.0  # a range too narrow to divide is one interval
    most = np.full(bins, -np.inf)
    best = np.full(bins, -np.inf)
    reach = np.full(bins, -np.inf)  # the first of the pair that has the best second
    pair = np.full(bins, -1, dtype=np.int64)
    for i in range(na):
        for j in range(nb):
            f = first_a[i] + first_b[j]
            s = second_a[i] + second_b[j]
            k = min(int(np.sqrt(np.sqrt((f - low) * unit)) * bins), bins - 1)
            if f > most[k]:
                most[k] = f
            if s > best[k] or (s == best[k] and f > reach[k]):
                best[k] = s
                reach[k] = f
                pair[k] = i * nb + j
    first = np.empty(bins)
    second = np.empty(bins)
    pairs = np.empty(bins, dtype=np.int64)
    count = 0
    exact = True
    top = -np.inf
    for k in range(bins - 1, -1, -1):
        if pair[k] >= 0 and best[k] > top:
            top = best[k]
            first[count] = most[k]
            second[count] = top
            pairs[count] = pair[k]
            exact = exact and reach[k] == most[k]
            count += 1
    return first[:count], second[:count], pairs[:count], exact
