"""What small trees do with rows on the card, and sums of scores by parts of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.modules import function, multiprocessors

MOST_BINS = 256
PART_BYTES = 64 * 1024  # of a block's cells


@dataclass(frozen=True, eq=False)
class SmallTree:
    """A tree of depth 2 or less by the bins of features.

    features (3,): what the root, its left and its right side ask about.
    lefts (3, 256): the bins of which go left.
    leaves (4,): what the leaves hold, left to right.
    """

    features: tuple[int, int, int]
    lefts: BoolArray
    leaves: tuple[int, int, int, int]


def leaves_of(codes: Any, trees: Sequence[SmallTree]) -> Any:
    """What the leaf holds (trees, n), uint8, that each row comes to; codes (n, d or more) uint8, on the card."""
    cp, n = cupy(), int(codes.shape[0])
    out = cp.empty((len(trees), n), dtype=cp.uint8)
    if n > 0 and trees:
        features = cp.asarray(np.array([tree.features for tree in trees], dtype=np.int32))
        packed = np.packbits(np.array([tree.lefts for tree in trees]), axis=-1, bitorder="little")
        lefts = cp.asarray(np.ascontiguousarray(packed).view(np.uint32))
        leaves = cp.asarray(np.array([tree.leaves for tree in trees], dtype=np.uint8))
        given = (codes, np.int32(codes.shape[1]), np.int64(n), features, lefts, leaves, np.int32(len(trees)), out)
        function("trees", "tree_leaves")((-(-n // 256),), (256,), given)
    return out


def add_by_part(parts: Any, scores: Any, out: Any, *, at: int = 0) -> None:
    """Add to out (P, W'), from column `at` on, the scores (n, W), int64, of the rows in each part (n,), uint8.

    parts may be a column of a matrix.
    """
    n, width = scores.shape
    if n == 0:
        return
    most = max(PART_BYTES // (8 * len(out)), 1)
    columns = min(width, most, 128)
    threads = max(min(most, 256) // columns, 1) * columns
    rows_at_once = 32 * (threads // columns)
    grid = (min(4 * multiprocessors(), -(-n // rows_at_once)), -(-width // columns))
    given = (parts, np.int32(parts.strides[0]), np.int64(n), scores, np.int32(width), np.int32(len(out)))
    more = (np.int32(columns), out, np.int32(out.shape[1]), np.int32(at))
    function("trees", "sum_parts")(grid, (threads,), (*given, *more), shared_mem=8 * len(out) * threads)


def add_by_id(ids: Any, scores: Any, out: Any, *, at: int = 0) -> None:
    """The same by ids (n,), int64, of which there may be any number."""
    n, width = scores.shape
    if n > 0:
        given = (ids, np.int64(n), scores, np.int32(width), out, np.int32(out.shape[1]), np.int32(at))
        function("trees", "sum_ids")((8 * multiprocessors(),), (256,), given)
