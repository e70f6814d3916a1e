"""The order in which the rows of a large log count, computed row by row without having all rows.

Rounds are those of the log. Rows without rounds are cut into blocks by their numbers if they stand in order. If any
order is valid they are shuffled by their contents, as in `pacbandits.certificate.content_order`: one pass computes the
digests of all rows, from which follows the block of each. So are rows without an order, if some of them teach a class.
Certificates of earlier versions shuffled by hashed row
numbers, so that the block of a row follows from its number and the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.content_order import MEMORY_BYTES_PER_ROW, WORDS_PER_DIGEST, order_items, row_digests
from pacbandits.certificate.conventions import block_ends, planned_ends
from pacbandits.compiled import kernel
from pacbandits.engines import ROWS_PER_BLOCK, Engine, Source, Sums
from pacbandits.engines.base import count_blocks
from pacbandits.engines.local import digest_by_content, words_of_rows
from pacbandits.errors import InputError
from pacbandits.machine import free_memory_bytes
from pacbandits.records import Log
from pacbandits.rewards.base import scrambled

NOT_EARLY = -1
BUCKET_BITS = 16  # leading bits of hashes, by which ranks are found


class Arrangement(Protocol):
    """The round of each row, and the early rows.

    counts (rounds,): the number of interactions of each round.
    early: the number of early rows: the first ones, which may teach for later ones.
    """

    @property
    def counts(self) -> FloatArray: ...
    @property
    def early(self) -> int: ...

    def rounds_of(self, start: int, block: Log) -> IntArray:
        """Return the round (n,) of each row of a block, from 0 without gaps; start: the number of its first row."""
        ...

    def places_of(self, start: int, block: Log) -> IntArray:
        """Return the place (n,) of each row of a block among the early ones, -1 for the others."""
        ...


def _first_places(start: int, block: Log, early: int) -> IntArray:
    numbers = np.arange(start, start + len(block))
    return np.where(numbers < early, numbers, NOT_EARLY)


@dataclass(frozen=True, eq=False)
class ByRound:
    """The rounds of the log; early rows are those of the first rounds, as far as these go.

    Which rows are early must not depend on later rounds; if rounds are interleaved, being one of the first rows does.
    So all rows of the first rounds are early, and the first rows of the next one.

    numbers (rounds,): of the rounds, rising.
    counts (rounds,): interactions in each.
    early: the number of early rows.
    mixed: the places of early rows, if rows do not stand in the order of their rounds.
    """

    numbers: IntArray
    counts: FloatArray
    early: int
    mixed: MixedPlaces | None = None

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return np.searchsorted(self.numbers, block.rounds).astype(np.int64)

    def places_of(self, start: int, block: Log) -> IntArray:
        if self.mixed is None:
            return _first_places(start, block, self.early)
        places = self.mixed.places_of(start, self.rounds_of(start, block))
        return np.where(places < self.early, places, NOT_EARLY)


@dataclass(frozen=True, eq=False)
class MixedPlaces:
    """The places of early rows if rows do not stand in the order of their rounds.

    whole: the number of rounds whose rows are all early.
    starts (blocks, 2): in each block the place of the first row of those rounds, and of the next one.
    """

    whole: int
    starts: IntArray

    def places_of(self, start: int, rounds: IntArray) -> IntArray:
        """Return the place (n,) of each row of a block, -1 for those of later rounds; rounds (n,): of its rows."""
        places = np.full(len(rounds), NOT_EARLY, dtype=np.int64)
        for begun, mine in zip(self.starts[start // ROWS_PER_BLOCK], _early_kinds(rounds, self.whole), strict=True):
            places[mine] = begun + np.arange(int(mine.sum()))
        return places


def _early_kinds(rounds: IntArray, whole: int) -> tuple[BoolArray, BoolArray]:
    """Return which rows (n,) belong to the first rounds, and which to the next one."""
    return rounds < whole, rounds == whole


@dataclass(frozen=True, eq=False)
class EarlyCounts:
    """The number of rows (blocks, 2) of the first rounds, and of the next one, in each block.

    numbers (rounds,): of the rounds, rising.
    whole: the number of first rounds.
    n_blocks: the number of blocks.
    """

    numbers: IntArray
    whole: int
    n_blocks: int

    def begin(self) -> Sums:
        return (np.zeros((self.n_blocks, 2), dtype=np.int64),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rounds = np.searchsorted(self.numbers, block.rounds)
        sums[0][number] += [int(mine.sum()) for mine in _early_kinds(rounds, self.whole)]


@dataclass(frozen=True, eq=False)
class ByRow:
    """Blocks of rows in their order.

    ends (rounds,): the row before which each ends; the last may be beyond all rows.
    counts (rounds,): interactions in each.
    early: the number of early rows.
    """

    ends: IntArray
    counts: FloatArray
    early: int

    def rounds_of(self, start: int, block: Log) -> IntArray:
        numbers = np.arange(start, start + len(block))
        return np.searchsorted(self.ends, numbers, side="right").astype(np.int64)

    def places_of(self, start: int, block: Log) -> IntArray:
        return _first_places(start, block, self.early)


@dataclass(frozen=True, eq=False)
class Shuffled:
    """Blocks of rows shuffled by their numbers, for certificates of earlier versions.

    ends (rounds,): the rank before which each ends.
    edges (rounds − 1,): the hash at which each but the first begins.
    first (early,): the smallest hashes, rising: those of the early rows.
    n_rows: the number of rows.
    """

    ends: IntArray
    edges: NDArray[np.uint64]
    first: NDArray[np.uint64]
    n_rows: int

    @property
    def counts(self) -> FloatArray:
        return _rows_between(self.ends, self.n_rows)

    @property
    def early(self) -> int:
        return len(self.first)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return np.searchsorted(self.edges, _scrambled(start, len(block)), side="right").astype(np.int64)

    def places_of(self, start: int, block: Log) -> IntArray:
        given = _scrambled(start, len(block))
        places = np.minimum(np.searchsorted(self.first, given), len(self.first) - 1)
        return np.where(self.first[places] == given, places, NOT_EARLY).astype(np.int64)


@dataclass(frozen=True, eq=False)
class ByContent:
    """Blocks of rows in the order of their contents.

    ends (rounds,): the rank before which each ends.
    rounds (n,): the block of each row.
    first (early,): the numbers of the early rows, rising.
    ranks (early,): their ranks.
    digest: of all rows, the same for every order of the file.
    """

    ends: IntArray
    rounds: NDArray[np.uint8]
    first: IntArray
    ranks: IntArray
    digest: str

    @property
    def counts(self) -> FloatArray:
        return _rows_between(self.ends, len(self.rounds))

    @property
    def early(self) -> int:
        return len(self.first)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return self.rounds[start : start + len(block)].astype(np.int64)

    def places_of(self, start: int, block: Log) -> IntArray:
        low, high = np.searchsorted(self.first, [start, start + len(block)])
        places = np.full(len(block), NOT_EARLY, dtype=np.int64)
        places[self.first[low:high] - start] = self.ranks[low:high]
        return places


@dataclass(frozen=True)
class RowDigests:
    """The digest of each row by its contents."""

    width: int = WORDS_PER_DIGEST

    def words_of(self, block: Log) -> NDArray[np.uint64]:
        return row_digests(block)


def in_content_order(source: Source, *, early: int, engine: Engine, spared: int = 0) -> ByContent:
    """Return blocks of rows in the order of their contents, after a pass to compute digests.

    spared: for rows without an order, the number of rows that only teach; there are then two blocks, these and others.
    """
    n = source.n_rows
    check_order_fits(n, teaching=spared > 0)
    words = words_of_rows(engine, source, RowDigests(), what="ordering rows by their contents")
    order = order_items(words)
    digest = digest_by_content(next(iter(source.blocks(0, 1))), words[order])
    del words
    ends, early = np.array([spared, max(n, spared)]) if spared else planned_ends(n), min(early, n)
    rounds = np.empty(n, dtype=np.uint8)  # 10¹² rows have 66 blocks
    rounds[order] = np.repeat(np.arange(len(ends)), np.diff(np.minimum(ends, n), prepend=0))
    ranks = np.argsort(order[:early])
    return ByContent(ends, rounds, order[:early][ranks], ranks, digest)


def check_order_fits(n_rows: int, *, teaching: bool = False, free_bytes: int | None = None) -> None:
    """Raise InputError if so many rows cannot be ordered in memory.

    teaching: whether they are only ordered to choose those that teach. free_bytes: if not as the machine reports.
    """
    free = free_memory_bytes() if free_bytes is None else free_bytes
    needed = MEMORY_BYTES_PER_ROW * n_rows
    if free is not None and needed > free:
        instead = "give contexts from before the experiment (--contexts …), or, " if teaching else "or, "
        raise InputError(
            f"to order {n_rows:,} rows by their contents takes about {needed / 1e9:.1f} GB of memory, and "
            f"{free / 1e9:.1f} GB are free; use a machine with more, {instead}if rows stand in the order in which they "
            "occurred, certify them in that order (--ordered)"
        )


def _scrambled(start: int, count: int) -> NDArray[np.uint64]:
    return scrambled(np.arange(start, start + count, dtype=np.uint64))


def in_rows(n_rows: int, *, early: int) -> ByRow:
    """Return blocks of rows that stand in the order in which they occurred."""
    ends = block_ends(n_rows)
    return ByRow(ends, _rows_between(ends, n_rows), min(early, n_rows))


def in_two(n_rows: int, *, samples: int, spared: int, early: int) -> ByRow:
    """Return the first rows of a file, which only teach, and all others, for rows without an order.

    Certificates of earlier versions spared them; now rows that teach are chosen by their contents.

    samples: interactions, repeats included. If some rows are spared, each must have occurred once.
    """
    if not spared:
        return ByRow(np.array([n_rows]), np.array([float(samples)]), min(early, n_rows))
    ends = np.array([spared, max(n_rows, spared)])
    return ByRow(ends, _rows_between(ends, n_rows), min(early, n_rows))


def _rows_between(ends: IntArray, n_rows: int) -> FloatArray:
    """Return the number of rows of each block (rounds,)."""
    return np.diff(np.minimum(ends, n_rows), prepend=0).astype(np.float64)


def by_mixed_rounds(source: Source, numbers: IntArray, counts: FloatArray, *, early: int, engine: Engine) -> ByRound:
    """Return rounds of rows that do not stand in their order, after a pass to find the early rows.

    numbers, counts (rounds,): of the rounds, and their interactions. early: the largest number of early rows.
    """
    whole, n_blocks = int(np.searchsorted(np.cumsum(counts), early, side="right")), count_blocks(source.n_rows)
    (found,) = engine.ask(source, EarlyCounts(numbers, whole, n_blocks), what="looking for the first rounds")
    starts = np.cumsum(found, axis=0) - found
    first, following = (int(count) for count in found.sum(axis=0))
    starts[:, 1] += first
    return ByRound(numbers, counts, min(first + following, early), MixedPlaces(whole, starts))


def in_shuffled_rows(n_rows: int, *, early: int) -> Shuffled:
    """Return blocks of rows shuffled by their numbers."""
    ends, early = planned_ends(n_rows), min(early, n_rows)
    ranked = values_at_ranks(n_rows, np.array([*ends[:-1], early], dtype=np.int64))
    below = np.sort(numbers_below(n_rows, ranked[-1], early))
    return Shuffled(ends, ranked[:-1], below, n_rows)


def values_at_ranks(n_rows: int, ranks: IntArray) -> NDArray[np.uint64]:
    """Return the hashes of row numbers at these ranks (k,); 2^64 − 1 for a rank beyond the last row.

    Two passes over the numbers: the first counts hashes by their leading bits, the second collects those with the
    leading bits of a rank.
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
    """Return the hash of one number, as `pacbandits.rewards.base.scrambled`."""
    bits = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


@kernel
def count_buckets(n_rows: int, counts: IntArray) -> None:
    """Add to counts the number of hashes with each combination of leading bits."""
    for number in range(n_rows):
        counts[scramble(number) >> np.uint64(48)] += 1


@kernel
def numbers_in(n_rows: int, wanted: NDArray[np.bool_], count: int) -> NDArray[np.uint64]:
    """Return the hashes whose leading bits are wanted; count: their number."""
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
    """Return the `count` hashes below a limit; all hashes if count is n_rows."""
    out = np.empty(count, dtype=np.uint64)
    found = 0
    for number in range(n_rows):
        given = scramble(number)
        if given < limit or found < count == n_rows:
            out[found] = given
            found += 1
    return out
