"""What those who certify and those who verify have to agree on, and nothing else.

How the rows of a log without rounds are cut into blocks, for which classes leaders take the place of a union over all
policies, and what `certify` stakes: who verifies looks for these again, as they follow from the log and the class.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.confidence import LEADERS_PART, UNION_PART
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log
from pacbandits.rewards.halves import scrambled

FIRST_BLOCK_ROWS = 256  # a log grows, so blocks must not depend on where it ends
BLOCK_GROWTH_FACTOR = 1.4  # by which each block makes all rows so far more
SETTLING_SHARE = 0.55  # of shuffled rows, after which the leader stays; later, policies are better and proofs worse
# Of `certify`, fixed in advance as nothing is known of the design: from a stake that suits a trial of two actions to
# one that suits rare actions and small gaps.
EXPERT_STAKES = tuple(0.4 * 0.5**j for j in range(10))
# Of log|Π|, from which on leaders prove more: they pay no log|Π|, but luck is not on their side.
MIN_NATS_WORTH_LEADING = 10.0


def arrange(log: Log, *, ordered: bool, shuffle: bool = False) -> tuple[Log, bool]:
    """A log in an order in which it can be learnt from as it goes, if it has one; and whether its rows were shuffled.

    ordered: whether its rows stand in the order in which they occurred. shuffle: whether they are as good in any order;
    those of a log with a fixed split, the same propensities in all rows, always are.
    """
    if ordered and shuffle:
        raise InputError("rows that stand in the order in which they occurred need no shuffle; leave one of them out")
    if has_rounds(log) or not (ordered or shuffle or has_fixed_split(log)):
        return log, False
    return rearrange(log, ordered=True, shuffle=not ordered), not ordered


def rearrange(log: Log, *, ordered: bool, shuffle: bool) -> Log:
    """The log in the order that a certificate says: in blocks of its rows, or of its shuffled rows."""
    if not ordered:
        return log
    return in_blocks(shuffled(log), planned_ends(len(log))) if shuffle else in_blocks(log)


def has_rounds(log: Log) -> bool:
    """Whether a log has rounds."""
    return bool((log.rounds != log.rounds[0]).any())


def has_fixed_split(log: Log) -> bool:
    """Whether every row of a log was played with the same propensities, which are all known."""
    known = log.least is None and log.repeats.max() == 1
    return known and bool((np.ptp(log.propensities, axis=0) == 0.0).all())


def shuffled(log: Log) -> Log:
    """The log with its rows in an order that has nothing to do with what they hold, always the same for so many."""
    return log.take(np.argsort(scrambled(np.arange(len(log), dtype=np.uint64)), kind="stable"))


def in_blocks(log: Log, ends: IntArray | None = None) -> Log:
    """The log itself if it has rounds, else with its rows, in their order, numbered by block.

    ends: of the blocks, if not `block_ends`.
    """
    if has_rounds(log):
        return log
    if log.repeats.max() > 1:
        raise InputError(
            "the log counts repeated interactions, so its rows cannot stand in the order in which they occurred; "
            "certify it without that assumption"
        )
    stops = block_ends(len(log)) if ends is None else ends
    blocks: IntArray = np.searchsorted(stops, np.arange(len(log)), side="right").astype(np.int64)
    return replace(log, rounds=blocks)


def block_ends(rows: int) -> IntArray:
    """Before which row each block ends, up to the one that holds the last row: 256, and then 1.4 times as many."""
    ends = [FIRST_BLOCK_ROWS]
    while ends[-1] < rows:
        ends.append(math.ceil(ends[-1] * BLOCK_GROWTH_FACTOR))
    return np.array(ends, dtype=np.int64)


def settling_row(rows: int) -> int:
    """Before which of so many shuffled rows the leader is chosen that stays."""
    return max(FIRST_BLOCK_ROWS, math.floor(SETTLING_SHARE * rows))


def planned_ends(rows: int) -> IntArray:
    """The same of shuffled rows, whose end is known: blocks grow alike, and one of them ends at the settling row."""
    ends = [settling_row(rows)]
    while ends[0] > FIRST_BLOCK_ROWS:
        ends.insert(0, max(math.floor(ends[0] / BLOCK_GROWTH_FACTOR), FIRST_BLOCK_ROWS))
    while ends[-1] < rows:
        ends.append(min(math.ceil(ends[-1] * BLOCK_GROWTH_FACTOR), rows))
    return np.array(ends, dtype=np.int64)


def settling_round(log: Log) -> int:
    """The block, counted from 0, that begins with the settling row of shuffled rows."""
    return int(np.searchsorted(planned_ends(len(log)), settling_row(len(log)))) + 1


def sizes_beforehand(log: Log, *, in_order: bool, shuffled: bool = False) -> tuple[int, ...]:
    """How many interactions each round of a log may be said to have had planned, whatever came of it.

    in_order: whether the rounds are blocks of rows, of which the last may not be full. Of others no more is known than
        that they were played, and what is planned is as many again as before.
    shuffled: whether the blocks are of shuffled rows, of which it is known how many there are.
    """
    if in_order:
        ends = planned_ends(len(log)) if shuffled else block_ends(len(log))
        return tuple(int(size) for size in np.diff(ends, prepend=0))
    counts = [int(log.repeats[log.rounds == number].sum()) for number in np.unique(log.rounds)]
    return tuple(max(1, int(before)) for before in np.cumsum([0, *counts[:-1]]))


def worth_leading(policies: PolicyClass) -> bool:
    """Whether leaders take the place of a union over all policies: with large classes, and those without a size."""
    return policies.log_size >= MIN_NATS_WORTH_LEADING


def delta_part(policies: PolicyClass, *, led: bool) -> float:
    """What `certify` may use up of δ in one of its two proofs."""
    if not worth_leading(policies):
        return 1.0
    return LEADERS_PART if led else UNION_PART
