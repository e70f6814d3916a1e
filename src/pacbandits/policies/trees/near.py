"""Good trees from all over the class, for whoever needs many that differ and not the best one alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import over_cores
from pacbandits.policies.base import RisingValue
from pacbandits.policies.trees.pairs import Couples

MOST_POINTS_OF_A_SIDE = 128
MOST_TREES_OF_A_ROOT = 20


class Sides(NamedTuple):
    """The frontiers of the two sides of every root.

    fronts: a couple a root.
    stumps (m, 3): split (−1: none) and the two actions of each point.
    """

    fronts: Couples
    stumps: IntArray


def large_trees(sides: Sides, value: RisingValue, *, most: int) -> IntArray:
    """Origins (k, 7) of up to `most` trees at which `value` is large, the largest first, a few of each root.

    For each point of one side its best partner on the other, so that trees of the same root differ in a side.
    """
    n_roots = len(sides.fronts.edges) // 2
    values = np.full((n_roots, MOST_TREES_OF_A_ROOT), -np.inf)
    pairs = np.zeros((n_roots, MOST_TREES_OF_A_ROOT, 2), dtype=np.int64)

    def try_roots(start: int, stop: int) -> None:
        for root in range(start, stop):
            found, chosen = _large_pairs(sides, root, value)
            values[root, : len(found)] = found
            pairs[root, : len(found)] = chosen

    over_cores(try_roots, count=n_roots)
    order = np.argsort(-values.ravel(), kind="stable")[:most]
    order = order[np.isfinite(values.ravel()[order])]
    left, right = pairs.reshape(-1, 2)[order].T
    return np.column_stack((order // MOST_TREES_OF_A_ROOT, sides.stumps[left], sides.stumps[right]))


def _large_pairs(sides: Sides, root: int, value: RisingValue) -> tuple[FloatArray, IntArray]:
    """The largest values of a root's trees, and the pairs of points they come from: (k,) and (k, 2)."""
    edges, first, second = sides.fronts
    left, right = (_some(edges[2 * root + side], edges[2 * root + side + 1]) for side in (0, 1))
    if len(left) == 0:  # a root that is not allowed
        return np.empty(0), np.empty((0, 2), dtype=np.int64)
    table = value(first[left][:, None] + first[right], second[left][:, None] + second[right])
    rows, columns = np.arange(len(left)), np.arange(len(right))
    i = np.concatenate([rows, table.argmax(axis=0)])
    j = np.concatenate([table.argmax(axis=1), columns])
    flat = np.unique(i * len(right) + j)
    top = flat[np.argsort(-table.ravel()[flat], kind="stable")[:MOST_TREES_OF_A_ROOT]]
    return table.ravel()[top], np.column_stack((left[top // len(right)], right[top % len(right)]))


def _some(start: int, stop: int) -> IntArray:
    """All of a run, or MOST_POINTS_OF_A_SIDE of it, ends included."""
    if stop - start <= MOST_POINTS_OF_A_SIDE:
        return np.arange(start, stop)
    return start + np.round(np.linspace(0, stop - start - 1, MOST_POINTS_OF_A_SIDE)).astype(np.int64)
