"""Where big sums are made: what is asked of rows, where rows come from, and who adds up.

Rows are numbered as they stand, and cut into blocks of `ROWS_PER_BLOCK`: the same ones however files are cut, whoever
works, and in whatever order. A question makes partial sums of a block, always whole numbers in 64 bits (a real number
is rounded to a multiple of a power of two, row by row or block by block). Sums of whole numbers are exact, so that
every engine gives the same bits, with any number of workers, and after some of them died.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pacbandits.records import Log

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
