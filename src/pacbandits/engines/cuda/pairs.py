"""Sums of scores by the bins of two features, made on the card."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.modules import function
from pacbandits.engines.cuda.plan import Pass, job_table, plan_items, plan_jobs, plan_passes

KEY_ROWS = 512 * 16  # of a block that puts rows in order; as in order.cu
CODE_ALIGNMENT = 4
CHUNK_ROWS = 1 << 22


@dataclass(frozen=True)
class Tuning:
    """How blocks are cut.

    rows: of a tile.
    threads: of a block.
    table_bytes: of its cells.
    two_rows: 1 where a thread takes two rows at once, else 0.
    items: pieces of work for each multiprocessor.
    """

    rows: int = 48
    threads: int = 128
    table_bytes: int = 1 << 16
    two_rows: int = 1
    items: int = 36


@dataclass(frozen=True, eq=False)
class Arranged:
    """Codes on the card, and their rows in the orders that sums are made in; made once for any number of scores.

    codes (n, stride): the bins of each row in each feature, and zeros up to a multiple of 4.
    starts (d + 1,): the first bin of each feature among all bins.
    passes: the orders.
    chunk_rows: rows that are put in order together.
    orders (passes, n): the rows of each chunk by their keys, counted from its first.
    runs: where the rows of each key begin, pass after pass, chunk after chunk.
    plans: how sums of so many actions are made, once that was asked.
    """

    codes: Any
    starts: IntArray
    passes: tuple[Pass, ...]
    chunk_rows: int
    orders: Any
    runs: Any
    plans: dict[Any, Any] = field(default_factory=dict[Any, Any])

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[0])


def arrange(codes: Any, starts: IntArray, *, chunk_rows: int = CHUNK_ROWS, joint: bool = True) -> Arranged:
    """Codes (n, d) uint8 on the card, with their rows in order."""
    cp = cupy()
    n, d = codes.shape
    chunk_rows = max(min(chunk_rows, n), 1)
    stride = -(-max(d, 2) // CODE_ALIGNMENT) * CODE_ALIGNMENT
    if stride != d or not codes.flags.c_contiguous:
        padded = cp.zeros((n, stride), dtype=cp.uint8)
        padded[:, :d] = codes
        codes = padded
    passes = plan_passes(np.diff(starts).tolist(), rows=chunk_rows if joint else 0)
    chunks, tiles = -(-n // chunk_rows), -(-chunk_rows // KEY_ROWS)
    orders, runs = cp.empty((len(passes), n), dtype=cp.uint32), list[Any]()
    for number, one in enumerate(passes):
        edges = cp.zeros((chunks, one.keys + 1), dtype=cp.uint32)
        if n > 0:
            neighbour = 0 if one.y < 0 else int(starts[one.y + 1] - starts[one.y])
            given = (codes, np.int64(n), np.int32(stride), np.int32(one.x), np.int32(neighbour), np.int32(one.keys))
            given = (*given, np.int64(chunk_rows), np.int32(tiles))
            counts, shared = cp.zeros((chunks, one.keys), dtype=cp.uint32), 4 * one.keys
            function("order", "count_keys", shared)((chunks * tiles,), (512,), (*given, counts), shared_mem=shared)
            edges[:, 1:] = cp.cumsum(counts, axis=1, dtype=cp.uint32)
            following = edges[:, :-1].copy()
            place = function("order", "place_rows", shared)
            place((chunks * tiles,), (512,), (*given, following, orders[number]), shared_mem=shared)
        runs.append(edges.ravel())
    return Arranged(codes, starts, tuple(passes), chunk_rows, orders, cp.concatenate(runs))


def add_pair_sums(arranged: Arranged, scores: Any, out: Any, *, tuning: Tuning | None = None) -> None:
    """Add to out (all bins, all bins, W), int64, the scores (n, W), int64, of rows in the bins of two features.

    Only bins of a feature against those of a later one are touched: `mirror` fills the rest when all rows are in.
    """
    cp, tuning = cupy(), Tuning() if tuning is None else tuning
    n, width = scores.shape
    if n == 0 or not arranged.passes:
        return
    key = (width, tuning)
    if key not in arranged.plans:
        bins = np.diff(arranged.starts).tolist()
        slab, jobs = plan_jobs(
            bins, arranged.passes, width, threads=tuning.threads, table_bytes=tuning.table_bytes
        )
        chunks = -(-n // arranged.chunk_rows)
        table, words = job_table(jobs, arranged.passes, arranged.starts, chunks=chunks)
        count = cp.cuda.Device().attributes["MultiProcessorCount"]
        items = plan_items(jobs, n, chunk_rows=arranged.chunk_rows, blocks=count * tuning.items)
        cells = max(job.bins * 2 * job.lanes for job in jobs)
        shared = 8 * cells + tuning.rows * 2 * (8 * slab + 4 * words + 4)
        starts = cp.asarray(arranged.starts.astype(np.int32))
        arranged.plans[key] = (slab, cp.asarray(table), words, cp.asarray(items), cells, shared, starts)
    slab, table, words, items, cells, shared, starts = arranged.plans[key]
    part = 16 if slab % 2 == 0 and width % 2 == 0 else 8
    told = {"WIDTH": slab, "PART": part, "ROWS": tuning.rows, "TWO_ROWS": tuning.two_rows}
    function("pairs", "add_pairs", shared, **told)(
        (len(items),),
        (-(-tuning.threads // 32) * 32,),
        (
            *(arranged.codes, np.int32(arranged.codes.shape[1]), scores, np.int32(width), np.int64(n)),
            *(np.int64(arranged.chunk_rows), arranged.orders, arranged.runs, table, items, starts),
            *(np.int32(out.shape[0]), np.int32(words), np.int32(cells), out),
        ),
        shared_mem=shared,
    )


def mirror(out: Any, starts: IntArray) -> None:
    """Fill what `add_pair_sums` left: bins against those of an earlier feature, and against themselves."""
    cp = cupy()
    features = cp.asarray(np.repeat(np.arange(len(starts) - 1), np.diff(starts)).astype(np.int32))
    given = (features, cp.asarray(starts.astype(np.int32)), np.int32(out.shape[0]), np.int32(out.shape[2]))
    told = {"WIDTH": 2, "PART": 16, "ROWS": 32, "TWO_ROWS": 0}
    function("pairs", "mirror", **told)((1024,), (256,), (*given, np.int32(len(starts) - 1), out))
