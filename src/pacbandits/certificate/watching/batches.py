"""The interactions of a log in the order in which they occurred, as far as a log tells it, in batches that grow.

Rounds follow each other; within a round the rows may stand in any order (simulated ones stand in the order of their
contexts, and interactions that are alike are one row with its number of repeats). A log of a single round tells no
order but that of its rows. Of people who come back each counts once, in the batch of their first visit.

Whatever is learnt from a log to bet on a batch is learnt from the batches before it, and where a batch ends depends on
nothing but how many interactions (or people) came before, so that a log that grows keeps its batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.records import Log

FIRST_BATCH_ROWS = 100
BATCH_GROWTH = 0.1  # a batch has at least this share of all interactions before it


@dataclass(frozen=True, eq=False)
class Batches:
    """Batch k has the rows order[edges[k]] to order[edges[k + 1] − 1].

    order (n,): the rows, by time.
    edges (K + 1,): where batches begin; last, n.
    by_rows: whether the order of the rows was taken for that of time.
    """

    order: IntArray
    edges: IntArray
    by_rows: bool

    def __len__(self) -> int:
        return len(self.edges) - 1


def batches_of_rounds(log: Log, *, first_rows: int = FIRST_BATCH_ROWS) -> Batches:
    """Whole rounds, as many together as make a batch; with a single round all rows are one batch."""
    rising = bool((np.diff(log.rounds) >= 0).all())
    order = np.arange(len(log)) if rising else np.argsort(log.rounds, kind="stable").astype(np.int64)
    rounds = log.rounds[order]
    ends = np.append(np.flatnonzero(np.diff(rounds)) + 1, len(log))
    samples = np.rint(np.cumsum(log.weights[order])[ends - 1])
    return Batches(order, _edges(ends, samples, first_rows), by_rows=False)


def batches_of_rows(log: Log, *, first_rows: int = FIRST_BATCH_ROWS) -> Batches:
    """The rows as they stand."""
    order = np.arange(len(log), dtype=np.int64)
    return Batches(order, _edges(order + 1, order + 1, first_rows), by_rows=True)


def reason_against_order(log: Log) -> str:
    """Why the rows of a log with a single round cannot stand in the order in which they occurred; or "".

    Ids name contexts, so rows that rise with them were sorted; ids without gaps are no more than numbers of rows.
    """
    if log.repeats.max() > 1:
        return "the log has a single round and counts repeated interactions, so nothing tells their order in time"
    ids = log.contexts.ids
    if ids is not None and ids[0] != ids[-1]:
        steps = np.diff(ids)
        if (steps >= 0).all() and (steps != 1).any():
            return "the log has a single round and rows sorted by context id, so nothing tells their order in time"
    return ""


def _edges(ends: IntArray, samples: IntArray | FloatArray, first_rows: int) -> IntArray:
    """Where batches begin (K + 1,); the last one is what is left, however small.

    ends (m,): the rows before which a batch may end. samples (m,): interactions until there.
    """
    edges, before, spot = [0], 0, 0
    while spot < len(ends):
        least = max(first_rows, before + BATCH_GROWTH * before)
        spot = min(int(np.searchsorted(samples, least)), len(ends) - 1)
        edges.append(int(ends[spot]))
        before, spot = int(samples[spot]), spot + 1
    return np.array(edges, dtype=np.int64)
