"""Protocols of the engines: sources of rows, aggregations over them, and engines that compute the sums.

Rows are numbered in order and split into blocks of `ROWS_PER_BLOCK`: the blocks do not depend on files, workers or
order. An aggregation computes partial sums of a block, always as 64-bit integers (a real number is rounded to a
multiple of a power of two, row by row or block by block). Sums of integers are exact, so every engine gives the same
bits with any number of workers, also after some of them died.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pacbandits.records import Contexts, Log

ROWS_PER_BLOCK = 2**16

Sums = tuple[NDArray[np.int64], ...]


@runtime_checkable
class Source(Protocol):
    """Rows of a log, in memory or in files; picklable, for other processes that see the same files.

    n_rows: the number of rows.
    """

    @property
    def n_rows(self) -> int: ...

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        """Yield the complete blocks from number `first` up to, not including, `last`."""
        ...

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        """Return all blocks in runs of at most `most_blocks`, each of which can be read with little overlap."""
        ...


class Aggregation(Protocol):
    """A quantity to sum over all rows; picklable."""

    def begin(self) -> Sums:
        """Return arrays of zeros to add to."""
        ...

    def add(self, number: int, block: Log, sums: Sums) -> None:
        """Add the contribution of block `number` to `sums`, in place."""
        ...


@runtime_checkable
class Engine(Protocol):
    """An engine that computes the sums of an aggregation.

    name: its name.
    """

    @property
    def name(self) -> str: ...

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        """Return the sums of a question over all rows; what: the task in words, for progress messages."""
        ...


@runtime_checkable
class Closable(Protocol):
    """An object with resources to release."""

    def close(self) -> None: ...


@runtime_checkable
class CardEngine(Engine, Protocol):
    """An engine with device memory.

    card_bytes: the size of that memory; None if there is no device.
    """

    @property
    def card_bytes(self) -> int | None: ...


def count_blocks(n_rows: int) -> int:
    """Return the number of blocks of `n_rows` rows."""
    return -(-n_rows // ROWS_PER_BLOCK)


def add_to(sums: Sums, more: Sums) -> None:
    """Add partial sums `more` to `sums`, in place."""
    for mine, theirs in zip(sums, more, strict=True):
        mine += theirs


def even_stripes(n_rows: int, *, most_blocks: int) -> list[range]:
    """Return all blocks of `n_rows` rows in runs of at most `most_blocks`."""
    count = count_blocks(n_rows)
    return [range(first, min(first + most_blocks, count)) for first in range(0, count, most_blocks)]


# Sources of rows in memory: logs and contexts.


@dataclass(frozen=True, eq=False)
class LogSource:
    """The rows of a log.

    log: the log.
    """

    log: Log

    @property
    def n_rows(self) -> int:
        return len(self.log)

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        for number in range(first, last):
            start = number * ROWS_PER_BLOCK
            yield self.log.take(np.arange(start, min(start + ROWS_PER_BLOCK, len(self.log))))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)


@dataclass(frozen=True, eq=False)
class MetricSource:
    """The rows of a source with a metric as their reward, as `Log.for_metric`.

    source: the rows. name, ratio: the metric, and the number at which a ratio is tested.
    """

    source: Source
    name: str
    ratio: float | None = None

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        for block in self.source.blocks(first, last):
            yield block.for_metric(self.name, ratio=self.ratio)

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return self.source.stripes(most_blocks=most_blocks)


def source_of_metric(source: Source, name: str, *, ratio: float | None = None) -> Source:
    """Return the rows of a source with a metric as their reward; those in memory stay there."""
    if isinstance(source, LogSource):
        return LogSource(source.log.for_metric(name, ratio=ratio))
    return MetricSource(source, name, ratio)


@dataclass(frozen=True, eq=False)
class ContextsSource:
    """The rows of contexts as a log: a single action, always played, with reward 0.

    contexts: the contexts; their weights are ignored.
    """

    contexts: Contexts

    @property
    def n_rows(self) -> int:
        return len(self.contexts)

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        for number in range(first, last):
            start = number * ROWS_PER_BLOCK
            yield log_of_contexts(self.contexts.take(np.arange(start, min(start + ROWS_PER_BLOCK, self.n_rows))))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)


def log_of_contexts(contexts: Contexts) -> Log:
    """Return contexts as a log with a single action that is always played and has reward 0."""
    n = len(contexts)
    none = np.zeros(n, dtype=np.int64)
    return Log(contexts, none, np.zeros(n), np.ones((n, 1)), rounds=none, repeats=np.ones(n, dtype=np.int64))


# Several aggregations in one pass: reading the rows takes longest.


@dataclass(frozen=True, eq=False)
class Together:
    """Several aggregations as one.

    questions: the aggregations.
    lengths: the number of arrays of each.
    """

    questions: tuple[Aggregation, ...]
    lengths: tuple[int, ...]

    def begin(self) -> Sums:
        return tuple(array for question in self.questions for array in question.begin())

    def add(self, number: int, block: Log, sums: Sums) -> None:
        for question, own in zip(self.questions, self.split(sums), strict=True):
            question.add(number, block, own)

    def split(self, sums: Sums) -> list[Sums]:
        """Return the sums of each aggregation."""
        ends = list(accumulate(self.lengths, initial=0))
        return [sums[start:end] for start, end in pairwise(ends)]


def ask_together(engine: Engine, source: Source, questions: Sequence[Aggregation], *, what: str) -> list[Sums]:
    """Return the sums of several aggregations, in one pass."""
    asked = Together(tuple(questions), tuple(len(question.begin()) for question in questions))
    return asked.split(engine.ask(source, asked, what=what))
