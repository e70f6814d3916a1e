"""Sums made by the cores of this machine: of rows in memory, or of files that are read as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from pacbandits.compiled import cores, over_cores, using_cores
from pacbandits.engines.base import Aggregation, Source, Sums, add_to
from pacbandits.engines.progress import count_rows_aloud
from pacbandits.records import Log

BLOCKS_PER_STRIPE = 4  # so that every core has something to do, and little is held at once


@dataclass(frozen=True)
class Local:
    """The cores of this machine.

    name: `threads` for rows in memory, `stream` for files.
    """

    name: str

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        lanes = [_Lane(source, stripe) for stripe in source.stripes(most_blocks=BLOCKS_PER_STRIPE)]
        made: list[Sums] = []
        done, left, lock = count_rows_aloud(what, source.n_rows, started=monotonic()), iter(lanes), Lock()

        def work(_first: int, _last: int) -> None:
            mine = question.begin()
            with using_cores(1):
                for lane in _own_and_others(left, lanes, lock):
                    while (found := lane.next()) is not None:
                        number, block = found
                        question.add(number, block, mine)
                        done(len(block))
            with lock:
                made.append(mine)

        workers = min(cores(), sum(len(lane) for lane in lanes))
        over_cores(work, count=workers, chunks_per_core=1)
        total = made[0]
        for more in made[1:]:
            add_to(total, more)
        return total


class _Lane:
    """A run of blocks that is read from its beginning to its end, whoever takes the next one."""

    def __init__(self, source: Source, stripe: range) -> None:
        self._source, self._stripe = source, stripe
        self._blocks: Iterator[tuple[int, Log]] | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._stripe)

    def next(self) -> tuple[int, Log] | None:
        """The next block and its number; None where there are no more."""
        with self._lock:
            if self._blocks is None:
                blocks = self._source.blocks(self._stripe.start, self._stripe.stop)
                self._blocks = iter(zip(self._stripe, blocks, strict=True))
            found = next(self._blocks, None)
            if found is None:
                self._blocks = iter(())  # what is used up still holds the last block
            return found


def _own_and_others(left: Iterator[_Lane], lanes: list[_Lane], lock: Lock) -> Iterator[_Lane]:
    """Lanes that nobody has begun, as long as there are any; then those of others, to help them."""
    while True:
        with lock:
            own = next(left, None)
        if own is None:
            break
        yield own
    yield from lanes
