"""The order in which the rows of a large log count, told row by row without having them all.

Rounds are as the log has them. Rows without rounds are cut into blocks by their numbers if they stand in order. Where
any order will do they are shuffled: by the ranks of scrambled row numbers, as `pacbandits.certificate.conventions` has
it, so that which block a row is in follows from its number and from how many rows there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.conventions import block_ends, planned_ends
from pacbandits.compiled import kernel
from pacbandits.records import Log
from pacbandits.rewards.halves import scrambled

NOT_EARLY = -1
BUCKET_BITS = 16  # of scrambled numbers, by which ranks are looked for


class Arrangement(Protocol):
    """In which round each row counts, and which rows come early.

    counts (rounds,): how many interactions each round has.
    early: how many rows are early: the first ones, which may teach whatever comes later.
    """

    @property
    def counts(self) -> FloatArray: ...
    @property
    def early(self) -> int: ...

    def rounds_of(self, start: int, block: Log) -> IntArray:
        """The round (n,) of each row of a block, counted from 0 without gaps; start: the number of its first row."""
        ...

    def places_of(self, start: int, block: Log) -> IntArray:
        """The place (n,) of each row of a block among the early ones, -1 for those that are not."""
        ...


def _first_places(start: int, block: Log, early: int) -> IntArray:
    numbers = np.arange(start, start + len(block))
    return np.where(numbers < early, numbers, NOT_EARLY)


@dataclass(frozen=True, eq=False)
class ByRound:
    """Rounds that the log has; rows that stand first are the early ones.

    numbers (rounds,): of the rounds, rising.
    counts (rounds,): interactions in each.
    early: how many rows are.
    """

    numbers: IntArray
    counts: FloatArray
    early: int

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return np.searchsorted(self.numbers, block.rounds).astype(np.int64)

    def places_of(self, start: int, block: Log) -> IntArray:
        return _first_places(start, block, self.early)


@dataclass(frozen=True, eq=False)
class ByRow:
    """Blocks of rows in their order.

    ends (rounds,): before which row each ends; the last may be beyond all rows.
    n_rows: how many there are.
    early: how many of them are.
    """

    ends: IntArray
    n_rows: int
    early: int

    @property
    def counts(self) -> FloatArray:
        return np.diff(np.minimum(self.ends, self.n_rows), prepend=0).astype(np.float64)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        numbers = np.arange(start, start + len(block))
        return np.searchsorted(self.ends, numbers, side="right").astype(np.int64)

    def places_of(self, start: int, block: Log) -> IntArray:
        return _first_places(start, block, self.early)


@dataclass(frozen=True, eq=False)
class Shuffled:
    """Blocks of shuffled rows.

    ends (rounds,): before which rank each ends.
    edges (rounds − 1,): scrambled numbers from which on each but the first begins.
    first (early,): the least scrambled numbers, rising: those of the early rows.
    n_rows: how many there are.
    """

    ends: IntArray
    edges: NDArray[np.uint64]
    first: NDArray[np.uint64]
    n_rows: int

    @property
    def counts(self) -> FloatArray:
        return np.diff(np.minimum(self.ends, self.n_rows), prepend=0).astype(np.float64)

    @property
    def early(self) -> int:
        return len(self.first)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return np.searchsorted(self.edges, _scrambled(start, len(block)), side="right").astype(np.int64)

    def places_of(self, start: int, block: Log) -> IntArray:
        given = _scrambled(start, len(block))
        places = np.minimum(np.searchsorted(self.first, given), len(self.first) - 1)
        return np.where(self.first[places] == given, places, NOT_EARLY).astype(np.int64)


def _scrambled(start: int, count: int) -> NDArray[np.uint64]:
    return scrambled(np.arange(start, start + count, dtype=np.uint64))


def in_rows(n_rows: int, *, early: int) -> ByRow:
    """Blocks of rows that stand in the order in which they occurred."""
    ends = block_ends(n_rows)
    return ByRow(ends, n_rows, min(early, n_rows))


def in_two(n_rows: int, *, spared: int, early: int) -> ByRow:
    """The first rows, which only teach, and all others: of rows that stand in no order."""
    ends = [spared, n_rows] if spared else [n_rows]
    return ByRow(np.array(ends, dtype=np.int64), n_rows, min(early, n_rows))


def in_shuffled_rows(n_rows: int, *, early: int) -> Shuffled:
    """Blocks of rows that are as good in any order."""
    ends, early = planned_ends(n_rows), min(early, n_rows)
    ranked = values_at_ranks(n_rows, np.array([*ends[:-1], early], dtype=np.int64))
    below = np.sort(numbers_below(n_rows, ranked[-1], early))
    return Shuffled(ends, ranked[:-1], below, n_rows)


def values_at_ranks(n_rows: int, ranks: IntArray) -> NDArray[np.uint64]:
    """Scrambled row numbers at these ranks (k,) among those of so many rows; the largest number there is for the last.

    In two passes over the numbers: how many have each of their first bits, and all that have those of a rank.
    """
    counts = np.zeros(1 << BUCKET_BITS, dtype=np.int64)
    count_buckets(n_rows, counts)
    ends = np.cumsum(counts)
    inside = np.minimum(ranks, n_rows - 1)
    buckets = np.searchsorted(ends, inside, side="right")
    wanted = np.zeros(1 << BUCKET_BITS, dtype=np.bool_)
    wanted[buckets] = True
    found = np.sort(numbers_in(n_rows, wanted, int(counts[wanted].sum())))
    chosen, before = np.flatnonzero(wanted), ends - counts
    starts = np.cumsum(counts[chosen]) - counts[chosen]  # where each bucket begins among those found
    place = starts[np.searchsorted(chosen, buckets)] + inside - before[buckets]
    return np.where(ranks >= n_rows, np.uint64(2**64 - 1), found[place])


@kernel
def scramble(number: int) -> np.uint64:
    """The same as `pacbandits.rewards.halves.scrambled`, of one number."""
    bits = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


@kernel
def count_buckets(n_rows: int, counts: IntArray) -> None:
    """Add to counts how many scrambled numbers begin with each combination of bits."""
    for number in range(n_rows):
        counts[scramble(number) >> np.uint64(48)] += 1


@kernel
def numbers_in(n_rows: int, wanted: NDArray[np.bool_], count: int) -> NDArray[np.uint64]:
    """The scrambled numbers whose first bits are wanted; count: how many there are."""
    out = np.empty(count, dtype=np.uint64)
    found = 0
    for number in range(n_rows):
        given = scramble(number)
        if wanted[given >> np.uint64(48)]:
            out[found] = given
            found += 1
    return out


@kernel
def numbers_below(n_rows: int, limit: np.uint64, count: int) -> NDArray[np.uint64]:
    """The scrambled numbers below a limit, the first `count` that are found."""
    out = np.empty(count, dtype=np.uint64)
    found = 0
    for number in range(n_rows):
        given = scramble(number)
        if given < limit or found < count == n_rows:
            out[found] = given
            found += 1
    return out
