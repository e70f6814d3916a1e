"""Sums of scores by the bins of two features on a GPU, and the plan of its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.engines.cuda.card import cupy, function, multiprocessors, shared_bytes

# The plan of thread blocks: the orders (passes) in which rows are visited, and the jobs of blocks in each.
#
# Features come in neighbours (0, 1), (2, 3), … A pass visits the rows by the bins of x and of its neighbour y, and adds
# each row's scores to the sums by the bins of every feature k < x. While the bins of x and y stay the same, those sums
# belong to (k, x), to (k, y) and, added up, to (x, y), so that a row is added once for three pairs. If x and y have so
# many bins together that few rows share them, they get a pass each.


MOST_KEYS = 1 << 14  # of a pass; a block counts rows by key in shared memory
ROWS_PER_CELL = 8  # rows of a key per bin that is cleared when it ends; with fewer, clearing dominates the time
LANES_STEP = 16  # the cells of this many threads cover all banks of shared memory once
PAIR, SELF = 1, 2  # sums of x itself that a job adds: with y, or with itself
JOB_FIELDS = 17
CELL_SHARE = 6 / 7  # of a block's shared memory, for cells; the rest is for tiles of rows
LEAST_ROWS, MOST_ROWS, ROWS_STEP = 8, 64, 4  # of a tile


@dataclass(frozen=True)
class Pass:
    """A pass: rows in the order of a key.

    x: the feature whose bin comes first in the key.
    y: its neighbour in the key; −1 if it has none.
    pairs: the number of pairs of features 0 and 1, 2 and 3, … that are summed.
    keys: the number of keys.
    """

    x: int
    y: int
    pairs: int
    keys: int


@dataclass(frozen=True)
class PairJob:
    """The job of one kind of block with the rows of a pass; fields as in the kernel `pairs.cu`.

    pass_number: the number of the pass.
    pairs_at, pairs: the pairs of features that it sums.
    action_at, actions: the actions.
    bins: the largest number of bins of these features.
    groups: groups of threads, each with rows and cells of its own.
    lanes: threads with cells, rounded up to a multiple of 16.
    own: the sums of x itself that it adds (`PAIR`, `SELF`), or 0.
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


def cell_bytes(shared_bytes: int, *, most_bins: int) -> int:
    """Return the bytes of cells in this much shared memory: at least those of 16 threads."""
    return max(int(shared_bytes * CELL_SHARE) // 1024 * 1024, 16 * LANES_STEP * most_bins)


def tile_rows(shared_bytes: int, *, cells: int, slab: int, words: int) -> int:
    """Return the rows of a tile, such that two tiles of scores and codes fit into shared memory beside the cells."""
    rows = (shared_bytes - 8 * cells) // tile_bytes(1, slab=slab, words=words)
    return min(max(rows // ROWS_STEP * ROWS_STEP, LEAST_ROWS), MOST_ROWS)


def tile_bytes(rows: int, *, slab: int, words: int) -> int:
    """Return the bytes of two tiles of `rows` rows: scores, words of codes, and positions in the order."""
    return 2 * rows * (8 * slab + 4 * words + 4)


def plan_passes(bins: Sequence[int], *, rows: int) -> list[Pass]:
    """Return the passes for features with these numbers of bins, over `rows` rows at a time.

    Each pair (k, x) of features is in exactly one of them: k < x, x and y, or k < x and y.
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
    """Return how many actions a block sums at once: at most `most`, in equal shares; even if possible and width is."""
    share = -(-width // -(-width // most))
    return share + (share % 2 if width % 2 == 0 and share + share % 2 <= most else 0)


def plan_jobs(
    bins: Sequence[int], passes: Sequence[Pass], width: int, *, threads: int, table_bytes: int
) -> tuple[int, list[PairJob]]:
    """Return the slab of actions and the jobs, for blocks with this many threads and bytes of cells."""

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
    """Return the jobs (jobs, 17) as the kernel takes them, and the largest number of code words that one copies."""
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
    """Return the work items (items, 4): job, chunk, first and last row in its order; about `blocks`, of equal work."""
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


# Sums of scores by the bins of two features, on the GPU.


KEY_THREADS = 512  # per block that sorts rows; as in order.cu
KEY_ROWS = KEY_THREADS * 16  # its rows
CODE_ALIGNMENT = 4
CHUNK_ROWS = 1 << 24


@dataclass(frozen=True)
class Tuning:
    """Parameters of the partition of work.

    blocks: the number that share a multiprocessor and its memory.
    threads: the threads of a block.
    items: the work items per multiprocessor.
    """

    blocks: int = 3
    threads: int = 128
    items: int = 36


@dataclass(frozen=True)
class PairPlan:
    """The plan of sums for a number of scores per row.

    slab: the number of actions that a block sums at once.
    jobs, items, starts: as the kernel takes them, on the GPU.
    words: the words of a row's codes that a block copies.
    cells: the cells of a block, in shared memory.
    rows: the rows of a tile.
    threads: the threads of a block.
    """

    slab: int
    jobs: Any
    items: Any
    starts: Any
    words: int
    cells: int
    rows: int
    threads: int


@dataclass(frozen=True, eq=False)
class Arranged:
    """Codes on the GPU, with their rows sorted for each pass; made once for any number of scores.

    codes (n, stride): the bins of each row in each feature, padded with zeros to a multiple of 4.
    starts (d + 1,): the first bin of each feature among all bins.
    passes: the passes.
    chunk_rows: the number of rows that are sorted together.
    orders (passes, n): the rows of each chunk by their keys, counted from its first.
    runs: where the rows of each key begin, pass after pass, chunk after chunk.
    plans: by the number of scores of a row, and the tuning.
    """

    codes: Any
    starts: IntArray
    passes: tuple[Pass, ...]
    chunk_rows: int
    orders: Any
    runs: Any
    plans: dict[tuple[int, Tuning], PairPlan] = field(default_factory=dict[tuple[int, Tuning], PairPlan])

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def plan(self, width: int, tuning: Tuning) -> PairPlan:
        """Return the plan of sums for `width` scores per row."""
        if (width, tuning) not in self.plans:
            cp, bins = cupy(), np.diff(self.starts).tolist()
            shared, threads = shared_bytes(tuning.blocks), tuning.threads
            most = cell_bytes(shared, most_bins=max(bins))
            slab, jobs = plan_jobs(bins, self.passes, width, threads=threads, table_bytes=most)
            table, words = job_table(jobs, self.passes, self.starts, chunks=-(-len(self) // self.chunk_rows))
            blocks = multiprocessors() * tuning.items
            items = plan_items(jobs, len(self), chunk_rows=self.chunk_rows, blocks=blocks)
            cells = max(job.bins * 2 * job.lanes for job in jobs)
            rows = tile_rows(shared, cells=cells, slab=slab, words=words)
            self.plans[width, tuning] = PairPlan(
                slab=slab,
                jobs=cp.asarray(table),
                items=cp.asarray(items),
                starts=cp.asarray(self.starts.astype(np.int32)),
                words=words,
                cells=cells,
                rows=rows,
                threads=-(-threads // 32) * 32,
            )
        return self.plans[width, tuning]


def code_stride(n_features: int) -> int:
    """Return the bytes of a row's codes on the GPU."""
    return -(-max(n_features, 2) // CODE_ALIGNMENT) * CODE_ALIGNMENT


def pad_codes(codes: Any) -> Any:
    """Return codes (n, d), uint8 on the GPU, padded with zeros as the kernels need."""
    cp, (n, d) = cupy(), codes.shape
    stride = code_stride(d)
    if stride == d and codes.flags.c_contiguous:
        return codes
    padded = cp.zeros((n, stride), dtype=cp.uint8)
    padded[:, :d] = codes
    return padded


def arrange(codes: Any, starts: IntArray, *, chunk_rows: int = CHUNK_ROWS) -> Arranged:
    """Return codes (n, d), uint8 on the GPU, padded or not, with their rows sorted for each pass."""
    cp, n = cupy(), int(codes.shape[0])
    chunk_rows = max(min(chunk_rows, n), 1)
    codes = pad_codes(codes)
    passes = plan_passes(np.diff(starts).tolist(), rows=chunk_rows)
    chunks, tiles = -(-n // chunk_rows), -(-chunk_rows // KEY_ROWS)
    orders, runs = cp.empty((len(passes), n), dtype=cp.uint32), list[Any]()
    for number, one in enumerate(passes if n > 0 else []):
        edges, counts = (cp.zeros((chunks, count), dtype=cp.uint32) for count in (one.keys + 1, one.keys))
        neighbour = 0 if one.y < 0 else int(starts[one.y + 1] - starts[one.y])
        given = (codes, np.int64(n), np.int32(codes.shape[1]), np.int32(one.x), np.int32(neighbour))
        given = (*given, np.int32(one.keys), np.int64(chunk_rows), np.int32(tiles))
        grid, block, shared = (chunks * tiles,), (KEY_THREADS,), 4 * one.keys
        function("order", "count_keys")(grid, block, (*given, counts), shared_mem=shared)
        edges[:, 1:] = cp.cumsum(counts, axis=1, dtype=cp.uint32)
        following = edges[:, :-1].copy()
        function("order", "place_rows")(grid, block, (*given, following, orders[number]), shared_mem=shared)
        runs.append(edges.ravel())
    return Arranged(codes, starts, tuple(passes), chunk_rows, orders, cp.concatenate(runs) if runs else None)


def add_pair_sums(arranged: Arranged, scores: Any, out: Any, *, at: int = 0, tuning: Tuning | None = None) -> None:
    """Add to out (all bins, all bins, W') the scores (n, W) of rows in the bins of two features, from column `at` on.

    Both int64 and on the GPU. Only bins of a feature against those of a later one are written: `mirror` fills the rest
    when all rows are added.
    """
    n, width = scores.shape
    if n == 0 or not arranged.passes:
        return
    tuning = Tuning() if tuning is None else tuning
    plan = arranged.plan(width, tuning)
    part = 16 if plan.slab % 2 == 0 and width % 2 == 0 else 8
    function("pairs", "add_pairs", WIDTH=plan.slab, PART=part, ROWS=plan.rows)(
        (len(plan.items),),
        (plan.threads,),
        (
            *(arranged.codes, np.int32(arranged.codes.shape[1]), scores, np.int32(width), np.int64(n)),
            *(np.int64(arranged.chunk_rows), arranged.orders, arranged.runs, plan.jobs, plan.items, plan.starts),
            *(np.int32(out.shape[0]), np.int32(plan.words), np.int32(plan.cells)),
            *(out, np.int32(out.shape[2]), np.int32(at)),
        ),
        shared_mem=8 * plan.cells + tile_bytes(plan.rows, slab=plan.slab, words=plan.words),
    )


def mirror(out: Any, starts: IntArray) -> None:
    """Fill the entries that `add_pair_sums` left: bins against those of an earlier feature, and against themselves."""
    cp = cupy()
    features = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    given = [cp.asarray(x.astype(np.int32)) for x in (features, starts)]
    sizes = (np.int32(out.shape[0]), np.int32(out.shape[2]), np.int32(len(starts) - 1))
    function("pairs", "mirror", WIDTH=2, PART=16, ROWS=32)((8 * multiprocessors(),), (256,), (*given, *sizes, out))
