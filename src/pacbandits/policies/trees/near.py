"""Good trees from all over the class, for whoever needs many that differ and not the best one alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import over_cores
from pacbandits.policies.base import Value

# Of a side's frontier, as many points are tried at the most; of a root, as many trees are offered.
TRIED = 128
OFFERED = 20


class Sides(NamedTuple):
    """The frontiers of the two sides of every root, one after the other: left, right, left, right, ….

    edges (2 roots + 1,): where each begins. first, second (m,): their points. stumps (m, 3): split (−1: none) and the
    two actions of each point.
    """

    edges: IntArray
    first: FloatArray
    second: FloatArray
    stumps: IntArray


def large_trees(sides: Sides, value: Value, *, most: int) -> IntArray:
    """Origins (k, 7) of up to `most` trees at which `value` is large, the largest first, at most OFFERED a root.

    For each point of one side its best partner on the other, so that trees of the same root differ in a side.
    """
    n_roots = len(sides.edges) // 2
    values = np.full((n_roots, OFFERED), -np.inf)
    pairs = np.zeros((n_roots, OFFERED, 2), dtype=np.int64)

    def try_roots(start: int, stop: int) -> None:
        for root in range(start, stop):
            found, chosen = _large_pairs(sides, root, value)
            values[root, : len(found)] = found
            pairs[root, : len(found)] = chosen

    over_cores(try_roots, count=n_roots)
    order = np.argsort(-values.ravel(), kind="stable")[:most]
    order = order[np.isfinite(values.ravel()[order])]
    left, right = pairs.reshape(-1, 2)[order].T
    return np.column_stack((order // OFFERED, sides.stumps[left], sides.stumps[right]))


def _large_pairs(sides: Sides, root: int, value: Value) -> tuple[FloatArray, IntArray]:
    """The largest values of a root's trees, and the pairs of points they come from: (k,) and (k, 2)."""
    left, right = (_some(sides.edges[2 * root + side], sides.edges[2 * root + side + 1]) for side in (0, 1))
    table = value(sides.first[left][:, None] + sides.first[right], sides.second[left][:, None] + sides.second[right])
    rows, columns = np.arange(len(left)), np.arange(len(right))
    i = np.concatenate([rows, table.argmax(axis=0)])
    j = np.concatenate([table.argmax(axis=1), columns])
    flat = np.unique(i * len(right) + j)
    top = flat[np.argsort(-table.ravel()[flat], kind="stable")[:OFFERED]]
    return table.ravel()[top], np.column_stack((left[top // len(right)], right[top % len(right)]))


def _some(start: int, stop: int) -> IntArray:
    """All of a run, or TRIED of it, ends included."""
    if stop - start <= TRIED:
        return np.arange(start, stop)
    return start + np.round(np.linspace(0, stop - start - 1, TRIED)).astype(np.int64)
