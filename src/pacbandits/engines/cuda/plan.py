"""Which blocks of a card add up what: the orders that rows are walked in, and who adds what in each of them.

Features come in neighbours (0, 1), (2, 3), … A pass walks the rows by the bins of x and of its neighbour y, and adds
each row's scores to the sums by the bins of every feature k < x. While the bins of x and y stay the same, those sums
belong to (k, x), to (k, y) and, added up, to (x, y), so that a row is added once for three pairs. Where x and y have so
many bins together that few rows share them, they get a pass each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pacbandits.arrays import IntArray

MOST_KEYS = 1 << 14  # of a pass; a block counts rows by key in shared memory
ROWS_PER_CELL = 8  # rows of a key for each bin that is emptied when it ends; with fewer, emptying takes the time
LANES_STEP = 16  # cells of so many threads lie in all banks of shared memory once
PAIR, SELF = 1, 2  # what a job adds of x itself: its sums with y, or with itself
JOB_FIELDS = 17
CELL_SHARE = 6 / 7  # of a block's shared memory, for cells; the rest is for tiles of rows
LEAST_ROWS, MOST_ROWS, ROWS_STEP = 8, 64, 4  # of a tile


@dataclass(frozen=True)
class Pass:
    """Rows in the order of a key.

    x: the feature whose bin comes first in the key.
    y: its neighbour in the key; −1 where it has none.
    pairs: how many pairs of features 0 and 1, 2 and 3, … are added up.
    keys: how many there are.
    """

    x: int
    y: int
    pairs: int
    keys: int


@dataclass(frozen=True)
class PairJob:
    """What one kind of block does with the rows of a pass; fields as the kernel in `pairs.cu` takes them.

    pass_number: which of the passes.
    pairs_at, pairs: the pairs of features that it adds up.
    action_at, actions: the actions.
    bins: the most of any of these features.
    groups: of threads, each with rows and cells of its own.
    lanes: threads with cells, made a multiple of 16.
    own: what it adds of x itself (`PAIR`, `SELF`), or 0.
    """

    pass_number: int
    pairs_at: int
    pairs: int
    action_at: int
    actions: int
    bins: int
    groups: int
    lanes: int
    own: int

    @property
    def table_bytes(self) -> int:
        """Of its cells in shared memory."""
        return self.bins * 2 * self.lanes * 8


def cell_bytes(shared_bytes: int, *, most_bins: int) -> int:
    """The bytes of cells in so much shared memory: at least those of 16 threads."""
    return max(int(shared_bytes * CELL_SHARE) // 1024 * 1024, 16 * LANES_STEP * most_bins)


def tile_rows(shared_bytes: int, *, cells: int, slab: int, words: int) -> int:
    """The rows of a tile that fit into so much shared memory beside so many cells: two tiles of scores and codes."""
    rows = (shared_bytes - 8 * cells) // tile_bytes(1, slab=slab, words=words)
    return min(max(rows // ROWS_STEP * ROWS_STEP, LEAST_ROWS), MOST_ROWS)


def tile_bytes(rows: int, *, slab: int, words: int) -> int:
    """The bytes of two tiles of so many rows: scores, words of codes, and places in the order."""
    return 2 * rows * (8 * slab + 4 * words + 4)


def plan_passes(bins: Sequence[int], *, rows: int) -> list[Pass]:
    """The passes for features of so many bins, over so many rows at a time.

    All pairs (k, x) of features are in one of them, and only once: k < x, x and y, or k < x and y.
    """
    d, out = len(bins), list[Pass]()
    for x in range(0, d, 2):
        below, y = x // 2, x + 1
        if y < d:
            keys = bins[x] * bins[y]
            most = max(bins[: max(x, 2)])
            if keys <= MOST_KEYS and rows >= ROWS_PER_CELL * keys * most:
                out.append(Pass(x, y, max(below, 1), keys))
                continue
        if x > 0 or d == 1:
            out.append(Pass(x, -1, max(below, 1), bins[x]))
        if y < d:
            out.append(Pass(y, -1, below + 1, bins[y]))
    return out


def slab_width(width: int, *, most: int) -> int:
    """The actions that a block adds up at once: all, or an equal share of at most so many, even where all are."""
    share = -(-width // -(-width // most))
    return share + (share % 2 if width % 2 == 0 and share + share % 2 <= most else 0)


def plan_jobs(
    bins: Sequence[int], passes: Sequence[Pass], width: int, *, threads: int, table_bytes: int
) -> tuple[int, list[PairJob]]:
    """The slab of actions and the jobs, for blocks of so many threads with so many bytes of cells."""

    def lanes(most_bins: int) -> int:
        return min(threads, table_bytes // (16 * most_bins)) // LANES_STEP * LANES_STEP

    slab, out = slab_width(width, most=lanes(max(bins))), list[PairJob]()
    for number, one in enumerate(passes):
        most = max(bins[: 2 * one.pairs])
        at_once = max(lanes(most) // slab, 1)
        parts = np.linspace(0, one.pairs, -(-one.pairs // at_once) + 1).round().astype(int)
        for at, end in pairwise(parts.tolist()):
            most = max(bins[2 * at : 2 * end])
            groups = max(lanes(most) // ((end - at) * slab), 1)
            used = -(-groups * (end - at) * slab // LANES_STEP) * LANES_STEP
            own = 0 if at > 0 else PAIR if one.y >= 0 else SELF if len(bins) == 1 else 0
            for action in range(0, width, slab):
                actions = min(slab, width - action)
                out.append(PairJob(number, at, end - at, action, actions, most, groups, used, own))
    return slab, out


def job_table(
    jobs: Sequence[PairJob], passes: Sequence[Pass], starts: IntArray, *, chunks: int
) -> tuple[np.ndarray, int]:
    """The jobs (jobs, 17) as the kernel takes them, and the words of codes that one copies at most."""
    runs_at = np.cumsum([0] + [chunks * (one.keys + 1) for one in passes])
    out, most = np.zeros((len(jobs), JOB_FIELDS), dtype=np.int32), 1
    for row, job in zip(out, jobs, strict=True):
        one = passes[job.pass_number]
        y_start, y_bins = (-1, 1) if one.y < 0 else (int(starts[one.y]), int(starts[one.y + 1] - starts[one.y]))
        word = job.pairs_at // 2
        words = (job.pairs_at + job.pairs + 1) // 2 - word
        row[:] = (
            *(job.pass_number, one.x, starts[one.x], y_start, y_bins, one.keys, runs_at[job.pass_number]),
            *(job.pairs_at, job.pairs, job.bins, job.groups, job.lanes, job.action_at, job.actions, job.own),
            *(word, words),
        )
        most = max(most, words)
    return out, most


def plan_items(jobs: Sequence[PairJob], n_rows: int, *, chunk_rows: int, blocks: int) -> np.ndarray:
    """The pieces of work (items, 4): job, chunk, first and last row in its order; about so many, alike in work."""
    total = sum(n_rows * job.pairs * job.actions for job in jobs)
    share = max(total // max(blocks, 1), 1)
    out: list[tuple[int, int, int, int]] = []
    for chunk in range(-(-n_rows // chunk_rows)):
        rows = min(chunk_rows, n_rows - chunk * chunk_rows)
        for number, job in enumerate(jobs):
            pieces = max(min(round(rows * job.pairs * job.actions / share), rows), 1)
            edges = np.linspace(0, rows, pieces + 1).astype(np.int64).tolist()
            out += [(number, chunk, first, last) for first, last in pairwise(edges)]
    return np.array(out, dtype=np.uint32).reshape(-1, 4)
