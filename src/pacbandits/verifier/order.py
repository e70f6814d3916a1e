"""The order in which rows count, derived again from the certificate and the rows.

A log with rounds keeps them. Rows without rounds that stand in the order in which they occurred are cut into blocks:
256 rows, and then as many as make all rows so far 1.4 times as many. If any order is valid, rows are shuffled first, by
their contents (see `content_order`), and one block ends at 55 % of them, where the leader settles. Certificates of
earlier versions were shuffled by a hash of row numbers. Rows without any order are one round, before which those that
taught the policy class are another: the first in the order of their contents, or of the file in certificates of earlier
versions.

`order_log` does this for a log in memory, a `RowOrder` for rows that an engine reads block by block: there the round of
a row follows from its label, its number, or the hash of its number, or is stored for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import CountedPilot
from pacbandits.certificate.conventions import BLOCK_GROWTH_FACTOR, FIRST_BLOCK_ROWS, LEFT_OUT, SETTLING_SHARE
from pacbandits.certificate.learning_record import Learning
from pacbandits.engines import ROWS_PER_BLOCK, Engine, Source, Sums
from pacbandits.engines.base import count_blocks
from pacbandits.engines.local import digest_by_content, words_of_rows
from pacbandits.errors import InputError
from pacbandits.records import Log
from pacbandits.records.log import digest_log, number_units
from pacbandits.records.row_order import COUNTED, says
from pacbandits.verifier.content_order import DIGEST_WORDS, digests_of, log_by_content, place_by_digest

HASHES_AT_A_TIME = 2**20  # to save memory
# Own copies of constants and functions of `certificate`, on purpose: the verifier shares no code with the maker.
BUCKET_BITS = 16  # leading bits of a hash, by which ranks are found
NOT_EARLY = -1
REPEATED = (
    "the log counts repeated interactions, so its rows cannot stand in the order in which they occurred; certify it "
    "without that assumption"
)


def has_rounds(log: Log) -> bool:
    """Return whether a log has more than one round."""
    return bool((log.rounds != log.rounds[0]).any())


def hashed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hash (splitmix64) of row or unit numbers, by which these are shuffled."""
    bits = numbers * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


def settling_row(rows: int) -> int:
    """Return the number of shuffled rows, or people, after which the leader stays."""
    return max(FIRST_BLOCK_ROWS, math.floor(SETTLING_SHARE * rows))


def block_ends(rows: int, *, shuffled: bool) -> IntArray:
    """Return the number of rows, or people, before the end of each block.

    The last block may be longer than the log, which may still grow. The number of shuffled rows is known: one of their
    blocks ends at the settling row, and the last one with the log.
    """
    ends = [FIRST_BLOCK_ROWS]
    for stop in (settling_row(rows), rows) if shuffled else (rows,):
        while ends[-1] < stop:
            longer = math.ceil(ends[-1] * BLOCK_GROWTH_FACTOR)
            ends.append(min(longer, stop) if shuffled else longer)
    return np.array(ends, dtype=np.int64)


def settling_round(rows: int, *, spared: int) -> int:
    """Return the block, from 0, from which on the leader of shuffled rows stays; spared: blocks that only teach."""
    return max(int(np.searchsorted(block_ends(rows, shuffled=True), settling_row(rows))) + 1, spared)


def planned_sizes(counts: FloatArray, rows: int, *, ordered: bool, shuffled: bool) -> tuple[int, ...]:
    """Return the planned number of interactions, or people, of each round.

    counts (rounds,): the actual numbers. rows: in all. ordered: whether the rounds are blocks of rows, whose planned
    size is their length. For other rounds the plan is unknown: they are taken to be planned as large as all before
    together.
    """
    if ordered:
        return tuple(int(size) for size in np.diff(block_ends(rows, shuffled=shuffled), prepend=0))
    return tuple(max(1, int(before)) for before in np.cumsum([0, *counts[:-1]]))


def order_log(log: Log, *, ordered: bool, shuffled: bool, by_content: bool = True) -> Log:
    """Return the rows of a log that count, in the order that a certificate states, with the number of their block.

    Only the first visits of returning people count, except if all visits of a person can count together. by_content:
    whether rows were shuffled by their contents, not their numbers.
    """
    in_rounds = has_rounds(log)
    if in_rounds or (ordered and not shuffled):
        log = _first_visits(log)
    if in_rounds or not ordered:
        return log
    if log.repeats.max() > 1:
        raise InputError(REPEATED)
    if shuffled and not says(log.remarks, COUNTED):  # these were shuffled before they were counted
        by_number = np.argsort(hashed(_people(log).astype(np.uint64)), kind="stable")
        log = log_by_content(log) if by_content else log.take(by_number)
    ends = block_ends(log.n_units, shuffled=shuffled)
    return replace(log, rounds=np.searchsorted(ends, _people(log), side="right").astype(np.int64))


def wrong_pilot(pilot: CountedPilot, log: Log) -> Iterator[str]:
    """Yield faults in what is said of the pilot that a trial began with; log: all rows."""
    labels = np.unique(log.rounds)
    if pilot.rounds > len(labels):
        yield "the rows of a pilot are the first rounds of a trial, and the log has no such rounds"
        return
    inside = log.rounds <= labels[pilot.rounds - 1]
    part = log.only(inside)
    if (len(part), part.samples) != (pilot.rows, pilot.samples) or not inside[: pilot.rows].all():
        yield f"the first {pilot.rounds} rounds of the log are not the {pilot.rows:,} rows of a pilot"
        return
    part = replace(part, known=None)
    if pilot.by_content:
        if part.repeats.max() > 1:
            yield "rows of a pilot that stand in the order of their contents are one interaction each"
            return
        part = replace(part, rounds=np.zeros(len(part), dtype=np.int64))
        if digest_log(log_by_content(part)) != digest_log(part):
            yield "the rows of the pilot do not stand in the order of their contents"
    if digest_log(part) != pilot.digest:
        yield "the rows of the pilot are not those that the certificate was made from"


def order_to_teach(log: Log, learning: Learning | None) -> Log:
    """Return a log with the rows that taught the class first; log: as `order_log` returns it."""
    chosen = learning is not None and learning.by_content and not has_rounds(log)
    return log_by_content(log) if chosen else log


def set_teaching_rows_apart(log: Log, *, fewest: int) -> Log:
    """Return a log without rounds with its first rows, or people, as a round of its own; one with rounds as it is."""
    if has_rounds(log):
        return log
    known = None if log.known is None else np.where(log.known >= 0, log.known + 1, log.known)
    return replace(log, rounds=(_people(log) >= fewest).astype(np.int64), known=known)


def weights_of(log: Log) -> FloatArray:
    """Return the weight (n,) of each row: its number of repeats, or 1/m for each of the m rows of one person."""
    if log.units is None:
        return log.repeats.astype(np.float64)
    _, person, visits = np.unique(log.units, return_inverse=True, return_counts=True)
    return 1.0 / visits[person]


def _people(log: Log) -> IntArray:
    """Return the number (n,) of each row's person, in the order of first rows; row numbers if there are no units."""
    return np.arange(len(log)) if log.units is None else number_units(log.units)


def _first_visits(log: Log) -> Log:
    """Return the first row of each person, by round and then by row, with a remark on the others."""
    if log.units is None or len(np.unique(log.units)) == len(log):
        return log
    seen, kept = set[int](), np.zeros(len(log), dtype=np.bool_)
    for row in np.argsort(log.rounds, kind="stable").tolist():
        kept[row] = (unit := int(log.units[row])) not in seen
        seen.add(unit)
    return replace(log.only(kept), remarks=(*log.remarks, LEFT_OUT.format(int((~kept).sum()))))


@dataclass(frozen=True, eq=False)
class RowOrder:
    """The round of every row of a large log, and which rows are early.

    Early rows are the first ones in their order, as many as fit in memory. They alone teach the class and the model.

    kind: the key of the order: "label" of the round, "number" of the row, "hash" of that number, or "content".
    edges (rounds − 1,): the key at which each round but the first begins.
    counts (rounds,): interactions in each round.
    early: the number of early rows.
    first (early,): hashes of the early rows, rising; for "hash" alone.
    starts (blocks, 2): if rows do not stand in the order of their labels, the place of the first row of each block that
        is in one of the rounds that are early as a whole, and of the first in the round after them, `partial`.
    by_row (n,): the round of each row; for "content" alone.
    rows (early,): the early rows in their order; for "content" alone.
    digest: of all rows in the order of their contents; for "content" alone.
    """

    kind: str
    edges: NDArray[np.int64] | NDArray[np.uint64]
    counts: FloatArray
    early: int
    first: NDArray[np.uint64] | None = None
    starts: IntArray | None = None
    partial: int = 0
    by_row: NDArray[np.uint8] | None = None
    rows: IntArray | None = None
    digest: str = ""

    def rounds_of(self, number: int, block: Log) -> IntArray:
        """Return the round (n,) of each row of the block of this number."""
        start = number * ROWS_PER_BLOCK
        if self.by_row is not None:
            return self.by_row[start : start + len(block)].astype(np.int64)
        key = block.rounds if self.kind == "label" else np.arange(start, start + len(block))
        key = hashed(key.astype(np.uint64)) if self.kind == "hash" else key
        return np.searchsorted(self.edges, key, side="right").astype(np.int64)

    def places_of(self, number: int, block: Log) -> IntArray:
        """Return the place (n,) of each row of a block among the early rows; -1 for all others."""
        start = number * ROWS_PER_BLOCK
        places = np.arange(start, start + len(block))
        if self.rows is not None:
            mine = np.flatnonzero((self.rows >= start) & (self.rows < start + len(block)))
            places[:] = NOT_EARLY
            places[self.rows[mine] - start] = mine
            return places
        if self.first is not None:
            own = hashed(places.astype(np.uint64))
            places = np.searchsorted(self.first, own)
            early = self.first[np.minimum(places, len(self.first) - 1)] == own
            return np.where(early, places, NOT_EARLY)
        if self.starts is not None:
            rounds = self.rounds_of(number, block)
            whole, part = rounds < self.partial, rounds == self.partial
            places = np.where(whole, self.starts[number, 0] + np.cumsum(whole) - 1, self.early)
            places = np.where(part, self.starts[number, 1] + np.cumsum(part) - 1, places)
        return np.where(places < self.early, places, NOT_EARLY)


@dataclass(frozen=True, eq=False)
class _RowsPerBlock:
    """The number of rows (blocks, 2) of each block in the rounds before one, and in that one."""

    order: RowOrder
    partial: int
    n_blocks: int

    def begin(self) -> Sums:
        return (np.zeros((self.n_blocks, 2), dtype=np.int64),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rounds = self.order.rounds_of(number, block)
        sums[0][number] += [int((rounds < self.partial).sum()), int((rounds == self.partial).sum())]


def order_by_label(
    labels: IntArray, counts: FloatArray, *, early: int, source: Source, engine: Engine, rising: bool
) -> RowOrder:
    """Return the order of rows that have rounds.

    labels, counts (rounds,): the rounds, rising, and their interactions. early: the largest number of early rows.
    rising: whether rows stand in the order of their rounds; otherwise a pass over them finds the early ones.
    """
    order = RowOrder("label", labels[1:], counts, min(early, source.n_rows))
    if rising or source.n_rows <= early:
        return order
    partial = int(np.searchsorted(np.cumsum(counts), early, side="right"))
    asked = _RowsPerBlock(order, partial, count_blocks(source.n_rows))
    (found,) = engine.ask(source, asked, what="looking for the first rounds")
    starts = np.cumsum(found, axis=0) - found
    starts[:, 1] += found[:, 0].sum()
    return replace(order, early=min(int(found.sum()), early), starts=starts, partial=partial)


def order_by_number(ends: IntArray, *, rows: int, early: int, samples: int | None = None) -> RowOrder:
    """Return the order of rows by number, in rounds that end before these row numbers.

    samples: interactions of all, if there is one round of rows that occurred more than once.
    """
    counts = np.diff(np.minimum(ends, rows), prepend=0).astype(np.float64)
    return RowOrder("number", ends[:-1], counts if samples is None else np.array([float(samples)]), min(early, rows))


def order_by_hash(rows: int, *, early: int) -> RowOrder:
    """Return the order of shuffled rows.

    Two passes over all numbers find the hashes at which blocks begin: the first counts hashes by their leading bits,
    the second collects those among which the edges and the early rows must be.
    """
    ends, early = block_ends(rows, shuffled=True), min(early, rows)
    buckets, shift = 1 << BUCKET_BITS, np.uint64(64 - BUCKET_BITS)
    chunks = [(start, min(start + HASHES_AT_A_TIME, rows)) for start in range(0, rows, HASHES_AT_A_TIME)]
    counts = np.zeros(buckets, dtype=np.int64)
    for chunk in chunks:
        counts += np.bincount((hashed(np.arange(*chunk, dtype=np.uint64)) >> shift).astype(np.int64), minlength=buckets)
    bucket_of = np.searchsorted(np.cumsum(counts), [*ends[:-1], early - 1], side="right")
    wanted = np.arange(buckets) <= bucket_of[-1]
    wanted[bucket_of] = True
    parts: list[NDArray[np.uint64]] = []
    for chunk in chunks:
        found = hashed(np.arange(*chunk, dtype=np.uint64))
        parts.append(found[wanted[(found >> shift).astype(np.int64)]])
    ranked = np.sort(np.concatenate(parts))
    missing = np.cumsum(np.where(wanted, 0, counts))  # hashes that were not collected, up to each bucket
    edges = ranked[ends[:-1] - missing[bucket_of[:-1]]]
    sizes = np.diff(np.minimum(ends, rows), prepend=0).astype(np.float64)
    return RowOrder("hash", edges, sizes, early, first=ranked[:early])


@dataclass(frozen=True)
class _RowContents:
    """The digest of the contents of each row."""

    width: int = DIGEST_WORDS

    def words_of(self, block: Log) -> NDArray[np.uint64]:
        return digests_of(block)


def order_rows_by_content(source: Source, *, early: int, engine: Engine, ends: IntArray | None = None) -> RowOrder:
    """Return the order of rows by their contents, after a pass over them for their digests.

    ends (rounds,): the place before which each round ends, if rows are not cut into the blocks of a shuffle.
    """
    n = source.n_rows
    ends = block_ends(n, shuffled=True) if ends is None else ends
    words = words_of_rows(engine, source, _RowContents(), what="ordering rows by their contents")
    order = place_by_digest(words)
    digest = digest_by_content(next(iter(source.blocks(0, 1))), words[order])
    sizes = np.diff(np.minimum(ends, n), prepend=0)
    by_row = np.empty(n, dtype=np.uint8)
    by_row[order] = np.repeat(np.arange(len(sizes)), sizes)
    early = min(early, n)
    nothing = np.empty(0, dtype=np.int64)
    first = order[:early].copy()
    return RowOrder("content", nothing, sizes.astype(np.float64), early, by_row=by_row, rows=first, digest=digest)
