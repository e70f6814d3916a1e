"""Where big sums are made: what is asked of rows, where rows come from, and who adds up.

Rows are numbered as they stand, and cut into blocks of `ROWS_PER_BLOCK`: the same ones however files are cut, whoever
works, and in whatever order. A question makes partial sums of a block, always whole numbers in 64 bits (a real number
is rounded to a multiple of a power of two, row by row or block by block). Sums of whole numbers are exact, so that
every engine gives the same bits, with any number of workers, and after some of them died.
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
    """Rows of a log, in memory or in files. It can be sent to another process that sees the same files.

    n_rows: how many there are.
    """

    @property
    def n_rows(self) -> int: ...

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        """The blocks from number `first` up to and without `last`, one after the other, each with all its rows."""
        ...

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        """All blocks in runs of at most so many, each of which is read without much that belongs to another."""
        ...


class Aggregation(Protocol):
    """What is to be summed over all rows. It can be sent to another process."""

    def begin(self) -> Sums:
        """Nothing yet: arrays of zeros."""
        ...

    def add(self, number: int, block: Log, sums: Sums) -> None:
        """Add to sums, in place, what the block of this number comes to."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Who adds up.

    name: what it is called.
    """

    @property
    def name(self) -> str: ...

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        """The sums of a question over all rows; what: is being done, in words, for whoever listens."""
        ...


@runtime_checkable
class Closable(Protocol):
    """What holds something that has to be given back."""

    def close(self) -> None: ...


@runtime_checkable
class CardEngine(Engine, Protocol):
    """An engine with a memory of its own.

    card_bytes: how much that is; None where it does without.
    """

    @property
    def card_bytes(self) -> int | None: ...


def count_blocks(n_rows: int) -> int:
    """How many blocks so many rows are."""
    return -(-n_rows // ROWS_PER_BLOCK)


def add_to(sums: Sums, more: Sums) -> None:
    """Add partial sums to others, in place."""
    for mine, theirs in zip(sums, more, strict=True):
        mine += theirs


def even_stripes(n_rows: int, *, most_blocks: int) -> list[range]:
    """All blocks of so many rows in runs of at most so many."""
    count = count_blocks(n_rows)
    return [range(first, min(first + most_blocks, count)) for first in range(0, count, most_blocks)]


# Rows that lie in memory, of logs and of contexts alone.


@dataclass(frozen=True, eq=False)
class LogSource:
    """The rows of a log.

    log: these.
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
class ContextsSource:
    """The rows of contexts, as a log in which nothing was ever done: one action, always played, that earned nothing.

    contexts: these, which all count alike.
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
    """Contexts as a log in which nothing was ever done."""
    n = len(contexts)
    none = np.zeros(n, dtype=np.int64)
    return Log(contexts, none, np.zeros(n), np.ones((n, 1)), rounds=none, repeats=np.ones(n, dtype=np.int64))


# Several questions in one pass over the rows: reading them is what takes longest.


@dataclass(frozen=True, eq=False)
class Together:
    """Questions that are asked together.

    questions: these.
    lengths: how many arrays each adds to.
    """

    questions: tuple[Aggregation, ...]
    lengths: tuple[int, ...]

    def begin(self) -> Sums:
        return tuple(array for question in self.questions for array in question.begin())

    def add(self, number: int, block: Log, sums: Sums) -> None:
        for question, own in zip(self.questions, self.split(sums), strict=True):
            question.add(number, block, own)

    def split(self, sums: Sums) -> list[Sums]:
        """The sums of each question."""
        ends = list(accumulate(self.lengths, initial=0))
        return [sums[start:end] for start, end in pairwise(ends)]


def ask_together(engine: Engine, source: Source, questions: Sequence[Aggregation], *, what: str) -> list[Sums]:
    """The sums of several questions, in one pass."""
    asked = Together(tuple(questions), tuple(len(question.begin()) for question in questions))
    return asked.split(engine.ask(source, asked, what=what))
