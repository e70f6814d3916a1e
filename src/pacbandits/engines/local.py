"""Sums made by the cores of this machine: of rows in memory, or of files that are read a stripe at a time."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from time import monotonic

from pacbandits.compiled import cores, over_cores, using_cores
from pacbandits.engines.base import Question, Source, Sums, add_to, count_blocks
from pacbandits.engines.progress import count_rows_aloud

BLOCKS_PER_STRIPE = 4  # so that every core has something to do, and little is held at once


@dataclass(frozen=True)
class Local:
    """The cores of this machine.

    name: `threads` for rows in memory, `stream` for files.
    """

    name: str

    def ask(self, source: Source, question: Question, *, what: str) -> Sums:
        stripes = source.stripes(most_blocks=BLOCKS_PER_STRIPE)
        total, lock = question.begin(), Lock()
        spare: list[Sums] = []  # sums of one core each, used again for its next stripe
        done = count_rows_aloud(what, source.n_rows, started=monotonic())

        def work(start: int, stop: int) -> None:
            with lock:
                mine = spare.pop() if spare else None
            mine = question.begin() if mine is None else mine
            for stripe in stripes[start:stop]:
                for number, block in zip(stripe, source.blocks(stripe.start, stripe.stop), strict=True):
                    with using_cores(1):
                        question.add(number, block, mine)
                    done(len(block))
            with lock:
                spare.append(mine)

        over_cores(work, count=len(stripes), chunks_per_core=max(1, -(-len(stripes) // cores())))
        for mine in spare:
            add_to(total, mine)
        return total


def blocks_at_once(n_rows: int) -> int:
    """How many blocks are in memory at the same time."""
    return min(cores(), count_blocks(n_rows))
