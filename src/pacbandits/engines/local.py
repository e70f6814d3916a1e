"""Compute sums on the cores of this machine, over rows in memory or streamed from files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pacbandits.compiled import cores, over_cores, using_cores
from pacbandits.engines.base import ROWS_PER_BLOCK, Aggregation, Engine, LogSource, Source, Sums, add_to, count_blocks
from pacbandits.progress import hearer
from pacbandits.records import Log
from pacbandits.records.log import digest, digest_log

# Progress messages of a sum over rows, with the time left.


MIN_FORETOLD_SECONDS = 2.0  # after the start, before a prediction is shown


def count_rows_aloud(what: str, n_rows: int, *, started: float) -> Callable[[int], None]:
    """Return a function to call, from any thread, with the row count of each finished block; it reports progress.

    started: the start, by `time.monotonic`.
    """
    heard = hearer()
    if heard is None:
        return _nothing
    tell, seconds = heard
    lock, rows, last = Lock(), 0, started

    def more(count: int) -> None:
        nonlocal rows, last
        with lock:
            rows += count
            now = monotonic()
            if now - last < seconds:
                return
            last, spent = now, now - started
            left = spent * (n_rows - rows) / rows
            when = f", about {left:,.0f} s left" if spent >= MIN_FORETOLD_SECONDS else ""
            tell(f"{what}: {rows:,} of {n_rows:,} rows{when}")

    return more


def _nothing(count: int) -> None:
    """Report nothing."""


BLOCKS_PER_STRIPE = 4  # keeps every core busy and the memory small


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
    """A run of blocks, read in order, from which several threads take the next block."""

    def __init__(self, source: Source, stripe: range) -> None:
        self._source, self._stripe = source, stripe
        self._blocks: Iterator[tuple[int, Log]] | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._stripe)

    def next(self) -> tuple[int, Log] | None:
        """Return the number of the next block and the block, or None after the last."""
        with self._lock:
            if self._blocks is None:
                blocks = self._source.blocks(self._stripe.start, self._stripe.stop)
                self._blocks = iter(zip(self._stripe, blocks, strict=True))
            found = next(self._blocks, None)
            if found is None:
                self._blocks = iter(())  # the old iterator would keep the last block alive
            return found


def _own_and_others(left: Iterator[_Lane], lanes: list[_Lane], lock: Lock) -> Iterator[_Lane]:
    """Yield the lanes that no thread has started; then all lanes, to help other threads finish theirs."""
    while True:
        with lock:
            own = next(left, None)
        if own is None:
            break
        yield own
    yield from lanes


# A few words for each row, which are no sums: every block has rows of its own to write to.


class RowWords(Protocol):
    """Words of 64 bits to compute for each row; picklable.

    width: the number of words.
    """

    @property
    def width(self) -> int: ...

    def words_of(self, block: Log) -> NDArray[np.uint64]:
        """Return the words (n, width) of the rows of a block."""
        ...


@runtime_checkable
class WorkerEngine(Engine, Protocol):
    """An engine whose workers do not share memory with this process; see `DaskEngine.each`."""

    def each(
        self, task: Callable[[Any, Any], Any], shared: object, jobs: Iterable[Any], *, until: float = math.inf
    ) -> Iterator[Any]: ...


@dataclass(frozen=True, eq=False)
class _Written:
    """An aggregation without sums that writes the words of each row to memory that all threads share."""

    asked: RowWords
    out: NDArray[np.uint64]

    def begin(self) -> Sums:
        return ()

    def add(self, number: int, block: Log, sums: Sums) -> None:
        start = number * ROWS_PER_BLOCK
        self.out[start : start + len(block)] = self.asked.words_of(block)


def words_of_rows(engine: Engine, source: Source, asked: RowWords, *, what: str) -> NDArray[np.uint64]:
    """Return the words (n, width) of all rows; what: the task in words, for progress messages.

    Workers of a cluster read files; all else is done by the threads of this process.
    """
    out = np.empty((source.n_rows, asked.width), dtype=np.uint64)
    if isinstance(engine, WorkerEngine) and not isinstance(source, LogSource):
        stripes = source.stripes(most_blocks=BLOCKS_PER_STRIPE)
        for first, words in engine.each(words_of_stripe, (source, asked), stripes):
            start = first * ROWS_PER_BLOCK
            out[start : start + len(words)] = words
        return out
    Local("threads").ask(source, _Written(asked, out), what=what)
    return out


def words_of_stripe(shared: tuple[Source, RowWords], stripe: range) -> tuple[int, NDArray[np.uint64]]:
    """Return the number of the first of some blocks, and the words of their rows."""
    source, asked = shared
    with using_cores(1):
        return stripe.start, np.concatenate([asked.words_of(one) for one in source.blocks(stripe.start, stripe.stop)])


# The digest of a log's rows, independent of how files are split: SHA-256 of a line with the number of rows, followed by
# the digests of all blocks in order. Each block is digested as a log of its own, so blocks may be digested in any order
# by any worker.


WORDS_PER_DIGEST = 4  # of 64 bits


@dataclass(frozen=True)
class BlockDigests:
    """The digest (blocks, 4) of each block.

    n_blocks: the number of blocks.
    """

    n_blocks: int

    def begin(self) -> Sums:
        return (np.zeros((self.n_blocks, WORDS_PER_DIGEST), dtype=np.int64),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        sums[0][number] += np.frombuffer(bytes.fromhex(digest_log(block)), dtype="<i8")


def digest_source(source: Source, *, engine: Engine | None = None) -> str:
    """Return the digest of all rows; engine: the one that reads them."""
    asked = BlockDigests(count_blocks(source.n_rows))
    (found,) = (engine or Local("threads")).ask(source, asked, what="naming rows")
    return whole_digest(found, n_rows=source.n_rows)


def whole_digest(blocks: np.ndarray[tuple[int, int], np.dtype[np.int64]], *, n_rows: int) -> str:
    """Return the digest of all rows from the digests (blocks, 4) of their blocks."""
    head = f"{n_rows} rows in blocks of {ROWS_PER_BLOCK}".encode()
    return hashlib.sha256(head + blocks.astype("<i8").tobytes()).hexdigest()


CONTENT_DIGEST = "content:"  # what the digest of rows in the order of their contents begins with


def digest_by_content(head: Log, words: NDArray[np.uint64]) -> str:
    """Return the digest of rows that is the same for every order of theirs.

    head: some of the rows. words (n, 2): the digests of all rows, in the order of their contents.
    """
    of = head.contexts
    columns = sorted((name, labels is not None) for name, labels in zip(of.names, of.categories, strict=True))
    metrics = [metric.to_json() for metric in head.metrics]
    told = repr((len(words), head.n_actions, columns, of.ids is not None, metrics))
    return CONTENT_DIGEST + digest((told, words.view(np.int64)))
