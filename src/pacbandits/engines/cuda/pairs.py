"""Sums of scores by the bins of two features, made on the card."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.modules import function, multiprocessors, shared_bytes
from pacbandits.engines.cuda.plan import (
    Pass,
    cell_bytes,
    job_table,
    plan_items,
    plan_jobs,
    plan_passes,
    tile_bytes,
    tile_rows,
)

KEY_THREADS = 512  # of a block that puts rows in order; as in order.cu
KEY_ROWS = KEY_THREADS * 16  # its rows
CODE_ALIGNMENT = 4
CHUNK_ROWS = 1 << 24


@dataclass(frozen=True)
class Tuning:
    """How the work is cut.

    blocks: that share a multiprocessor and its memory.
    threads: of a block.
    items: pieces of work for each multiprocessor.
    """

    blocks: int = 3
    threads: int = 128
    items: int = 36


@dataclass(frozen=True)
class PairPlan:
    """How sums of so many scores are made.

    slab: actions that a block adds up at once.
    jobs, items, starts: as the kernel takes them, on the card.
    words: of a row's codes that a block copies.
    cells: of a block, in shared memory.
    rows: of a tile.
    threads: of a block.
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
    """Codes on the card, and their rows in the orders that sums are made in; made once for any number of scores.

    codes (n, stride): the bins of each row in each feature, and zeros up to a multiple of 4.
    starts (d + 1,): the first bin of each feature among all bins.
    passes: the orders.
    chunk_rows: rows that are put in order together.
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
        """How sums of so many scores a row are made."""
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
    """How many bytes the codes of a row take on the card."""
    return -(-max(n_features, 2) // CODE_ALIGNMENT) * CODE_ALIGNMENT


def pad_codes(codes: Any) -> Any:
    """Codes (n, d), uint8 on the card, with as many zeros after each row as the kernels need."""
    cp, (n, d) = cupy(), codes.shape
    stride = code_stride(d)
    if stride == d and codes.flags.c_contiguous:
        return codes
    padded = cp.zeros((n, stride), dtype=cp.uint8)
    padded[:, :d] = codes
    return padded


def arrange(codes: Any, starts: IntArray, *, chunk_rows: int = CHUNK_ROWS) -> Arranged:
    """Codes (n, d) uint8 on the card, or what `pad_codes` made of them, with their rows in order."""
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

    Both int64 and on the card. Only bins of a feature against those of a later one are touched: `mirror` fills the rest
    when all rows are in.
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
    """Fill what `add_pair_sums` left: bins against those of an earlier feature, and against themselves."""
    cp = cupy()
    features = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    given = [cp.asarray(x.astype(np.int32)) for x in (features, starts)]
    sizes = (np.int32(out.shape[0]), np.int32(out.shape[2]), np.int32(len(starts) - 1))
    function("pairs", "mirror", WIDTH=2, PART=16, ROWS=32)((8 * multiprocessors(),), (256,), (*given, *sizes, out))
