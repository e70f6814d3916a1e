"""What those who certify and those who verify have to agree on, and nothing else.

How the rows of a log without rounds are cut into blocks, for which classes leaders take the place of a union over all
policies, and what `certify` stakes: who verifies looks for these again, as they follow from the log and the class.

**People who come back.** A log may tell whose row each is. Rows of a unit are not independent of each other, units are.
The value of a policy is then its reward averaged over the m visits of a unit, and after that over units; each visit
counts w = 1/m. Let X_ij be the score of visit j of unit i, g_ij what it is on average over the action drawn there.
Given what all actions would have earned at all visits, row by row in the order of time, by Jensen's inequality, as
w ≤ 1 and a propensity depends on what was seen before alone; and then by that of the means within a unit,

    E Π_ij (1 + λ(ε − X_ij))^w ≤ Π_ij (1 + λ(ε − g_ij))^w ≤ Π_i (1 + λ(ε − ḡ_i)),     ḡ_i = Σ_j g_ij/m.

Units are independent, so that on average this is what it would be with one row a unit, for each kind of bet that is
made here: wealth against all policies, by leaders, of values and of checks. The same holds where a unit is given one
action for good, with the probability that each of its rows tells: then all its factors are drawn at once, and their
geometric mean is no larger than their mean.

It takes that λ and all else that bets are made by come from other units: so the visits of a unit count in one round or
block. Where rows are shuffled, units are, with all their visits. And how often a unit came, and in what contexts, must
not depend on what it was given, which certificates say.

In order, or with rounds, only the first visit of each unit counts. Later ones in later blocks could carry something of
the unit back to it; and those within the block of the first would make the value another number in each block, by how
long it is and how late in it a unit came, where proofs need one value for all (weight moves between leaders of
different blocks). First visits are independent rows, and all that holds of these holds of them, at all times.
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
from pacbandits.records.log import number_units
from pacbandits.rewards.base import scrambled

FIRST_BLOCK_ROWS = 256  # a log grows, so blocks must not depend on where it ends
BLOCK_GROWTH_FACTOR = 1.4  # by which each block makes all rows so far more
SETTLING_SHARE = 0.55  # of shuffled rows, after which the leader stays; later, policies are better and proofs worse
# Of `certify`, fixed in advance as nothing is known of the design: from a stake that suits a trial of two actions to
# one that suits rare actions and small gaps.
EXPERT_STAKES = tuple(0.4 * 0.5**j for j in range(10))
FIRST_EPSILON = 0.05  # of rewards in [0, 1], from which the smallest that a log proves is looked for
MAX_TRIED_DISTANCES = 6  # until it is found
MAX_TEACHING_ROWS = 2**18  # of a log that is certified by sums: of a longer one the first rows teach
# Of log|Π|, from which on leaders prove more: they pay no log|Π|, but luck is not on their side.
MIN_NATS_WORTH_LEADING = 10.0
# By which the leaders of a log's rounds are chosen (see `choosing`).
LEADING_GROWTH_FACTOR = 1.25  # by which the data have grown since the last time when a leader is chosen again
MAX_CHOOSING_EPSILON = 0.05  # by which the leaders of a log are chosen, whatever ε is to be certified
MIN_CHOOSING_EPSILON = 1e-9  # where nothing is in doubt
MIN_ADVANTAGE_EPSILONS = 0.05  # for which a leader makes way
DOUBT_STANDARD_ERRORS = 1.5  # by which a favourite must seem better than a simpler policy, or that one leads
# The same where a single policy is wanted.
MIN_CLEAR_ADVANTAGE_EPSILONS, MIN_CLEAR_ADVANTAGE_STANDARD_ERRORS = 0.2, 0.5
LEFT_OUT = "{:,} rows of people who had come before were left out: values are of first visits"


def arrange(log: Log, *, ordered: bool, shuffle: bool = False) -> tuple[Log, bool]:
    """A log in an order in which it can be learnt from as it goes, if it has one; and whether its rows were shuffled.

    ordered: whether its rows stand in the order in which they occurred. shuffle: whether they are as good in any order;
    those of a log with a fixed split, the same propensities in all rows, always are.
    """
    if ordered and shuffle:
        raise InputError("rows that stand in the order in which they occurred need no shuffle; leave one of them out")
    if (ordered or shuffle) and log.known is not None and not has_rounds(log):
        raise InputError(
            "the log tells that rewards came late, and has a single round, so that nothing tells which were known "
            "before which row; certify it without an order, or write the rounds of the experiment"
        )
    apart = not (has_rounds(log) or ordered) and (shuffle or has_fixed_split(log))
    return rearrange(log, ordered=ordered or apart, shuffle=apart), apart


def rearrange(log: Log, *, ordered: bool, shuffle: bool) -> Log:
    """The log in the order that a certificate says: in blocks of its rows, or of its shuffled rows."""
    if not ordered:
        return first_visits(log) if has_rounds(log) else log
    return in_blocks(shuffled(log), planned_ends(log.n_units)) if shuffle else in_blocks(log)


def has_rounds(log: Log) -> bool:
    """Whether a log has rounds."""
    return bool((log.rounds != log.rounds[0]).any())


def has_fixed_split(log: Log) -> bool:
    """Whether every row of a log was played with the same propensities, which are all known."""
    known = log.least is None and log.known is None and log.repeats.max() == 1
    return bool(known and (np.ptp(log.propensities, axis=0) == 0.0).all())


def shuffled(log: Log) -> Log:
    """The log with its rows in an order that has nothing to do with what they hold, always the same for so many.

    Of units, so that the visits of each follow each other, in the order in which they stood.
    """
    numbers = np.arange(len(log)) if log.units is None else number_units(log.units)
    return log.take(np.argsort(scrambled(numbers.astype(np.uint64)), kind="stable"))


def in_blocks(log: Log, ends: IntArray | None = None) -> Log:
    """The log itself if it has rounds, else with its rows, in their order, numbered by block.

    ends: of the blocks, if not `block_ends`: of shuffled rows, in units, all of whose visits follow each other. Else of
    each unit there is the first visit alone.
    """
    if has_rounds(log):
        return first_visits(log)
    if log.repeats.max() > 1:
        raise InputError(
            "the log counts repeated interactions, so its rows cannot stand in the order in which they occurred; "
            "certify it without that assumption"
        )
    cut = first_visits(log) if ends is None else log
    numbers = np.arange(len(cut)) if cut.units is None else number_units(cut.units)
    stops = block_ends(cut.n_units) if ends is None else ends
    blocks: IntArray = np.searchsorted(stops, numbers, side="right").astype(np.int64)
    return replace(cut, rounds=blocks)


def first_visits(log: Log) -> Log:
    """The log with the first row of each unit, by round and then as rows stand, and a remark on those left out."""
    if log.units is None or log.n_units == len(log):
        return log
    order = np.argsort(log.rounds, kind="stable")
    _, first = np.unique(log.units[order], return_index=True)
    kept = np.zeros(len(log), dtype=np.bool_)
    kept[order[first]] = True
    return replace(log.only(kept), remarks=(*log.remarks, LEFT_OUT.format(int((~kept).sum()))))


def block_ends(rows: int) -> IntArray:
    """Before which row each block ends, up to the one that holds the last row: 256, and then 1.4 times as many."""
    ends = [FIRST_BLOCK_ROWS]
    while ends[-1] < rows:
        ends.append(math.ceil(ends[-1] * BLOCK_GROWTH_FACTOR))
    return np.array(ends, dtype=np.int64)


def settling_row(rows: int) -> int:
    """Before which of so many shuffled rows, or units, the leader is chosen that stays."""
    return max(FIRST_BLOCK_ROWS, math.floor(SETTLING_SHARE * rows))


def planned_ends(rows: int) -> IntArray:
    """The same of shuffled rows, whose end is known: one ends at the settling row, and those after it grow alike."""
    settling = settling_row(rows)
    ends = [*(int(end) for end in block_ends(rows) if end < settling), settling]
    while ends[-1] < rows:
        ends.append(min(math.ceil(ends[-1] * BLOCK_GROWTH_FACTOR), rows))
    return np.array(ends, dtype=np.int64)


def settling_round(log: Log, spared: int) -> int:
    """The block, counted from 0, that begins with the settling row of shuffled rows; spared: blocks that only teach."""
    return max(int(np.searchsorted(planned_ends(log.n_units), settling_row(log.n_units))) + 1, spared)


def sizes_beforehand(log: Log, *, in_order: bool, shuffled: bool = False) -> tuple[int, ...]:
    """How many interactions (or units) each round of a log may be said to have had planned, whatever came of it.

    in_order: whether the rounds are blocks of rows, of which the last may not be full. Of others no more is known than
        that they were played, and what is planned is as many again as before.
    shuffled: whether the blocks are of shuffled rows, of which it is known how many there are.
    """
    if in_order:
        ends = planned_ends(log.n_units) if shuffled else block_ends(log.n_units)
        return tuple(int(size) for size in np.diff(ends, prepend=0))
    counts = log.round_sizes
    return tuple(max(1, int(before)) for before in np.cumsum([0, *counts[:-1]]))


def worth_leading(policies: PolicyClass) -> bool:
    """Whether leaders take the place of a union over all policies: with large classes, and those without a size."""
    return policies.log_size >= MIN_NATS_WORTH_LEADING


def delta_part(policies: PolicyClass, *, led: bool) -> float:
    """What `certify` may use up of δ in one of its two proofs."""
    if not worth_leading(policies):
        return 1.0
    return LEADERS_PART if led else UNION_PART
