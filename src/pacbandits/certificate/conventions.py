"""The conventions that certifying and verifying code share: constants, stakes, blocks of rows, units.

They define how rows without rounds are cut into blocks, for which classes leaders replace a union over all policies,
and the stakes of `certify`: a verifier derives all these again from the log and the class.

**Returning units.** A log may have units. Rows of a unit are not independent of each other, units are. The value of a
policy is then its reward averaged over the m visits of a unit, and after that over units; each visit has the weight
w = 1/m. Let X_ij be the score of visit j of unit i, g_ij its mean over the action drawn there. Given the rewards of all
actions at all visits, row by row in the order of time, by Jensen's inequality, as w ≤ 1 and a propensity depends on
earlier rows alone; and then by that of the means within a unit,

    E Π_ij (1 + λ(ε − X_ij))^w ≤ Π_ij (1 + λ(ε − g_ij))^w ≤ Π_i (1 + λ(ε − ḡ_i)),     ḡ_i = Σ_j g_ij/m.

Units are independent, so that on average this is what it would be with one row per unit, for each kind of bet: wealth
against all policies, by leaders, of values and of checks. The same holds if a unit is given one action for good, with
the probability that each of its rows states: then all its factors are drawn at once, and their geometric mean is no
larger than their mean.

The proof needs λ and everything else that fixes bets to come from other units: so the visits of a unit count in one
round or block. A shuffle is of units, with all their visits. And the number of visits of a unit and their contexts must
not depend on its actions, which certificates state as an assumption.

In order, or with rounds, only the first visit of each unit counts. Later ones in later blocks could carry information
about the unit back to it; and those within the block of the first would make the value another number in each block, by
its length and by how late in it a unit came, while proofs need one value for all (weight moves between leaders of
different blocks). First visits are independent rows, and everything that holds for these holds for them, at all times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.content_order import sorted_by_content
from pacbandits.confidence import LEADERS_PART, UNION_PART
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log
from pacbandits.records.log import number_units
from pacbandits.records.row_order import BY_BLOCK, COUNTED, says, stands_in_order
from pacbandits.rewards.base import scrambled

MIN_BET_FACTOR, MAX_BET_FACTOR = 1e-12, 1e100  # of multipliers and of scales, so that their inverses are finite
CAP_SHARE = 0.9  # of λ(1 + M); at 1 a single row could ruin an expert
MAX_STAKE = 0.45  # more would leave no room for a cap
FIRST_BLOCK_ROWS = 256  # a log grows, so blocks must not depend on where it ends
BLOCK_GROWTH_FACTOR = 1.4  # of all rows so far, by each block
SETTLING_SHARE = 0.55  # of shuffled rows, after which the leader stays; later, policies are better and proofs worse
# The stakes of `certify`, fixed in advance as the design is unknown: from one that suits a trial of two actions to one
# that suits rare actions and small gaps.
EXPERT_STAKES = tuple(0.4 * 0.5**j for j in range(10))
# Stakes for a known number of rows, in units of the best one by an estimate of the variance (see `stakes`); how the
# experts share the first wealth; and the share of rows that only estimates the variance.
TUNED_MULTIPLIERS, TUNED_SHARES = (0.25, 0.5, 1.0, 2.0, 4.0), (0.05, 0.15, 0.6, 0.15, 0.05)
TUNING_SHARE = 0.1
FIRST_EPSILON = 0.05  # for rewards in [0, 1]: the start of the search for the smallest ε that a log proves
MAX_TRIED_DISTANCES = 6  # steps of that search
MAX_TEACHING_ROWS = 2**18  # of a log that is certified by sums: only the first rows of a longer one teach
# The log|Π| from which on leaders prove more than a union: they pay no log|Π|, but are chosen without hindsight.
MIN_NATS_WORTH_LEADING = 10.0
# Constants of the choice of leaders (see `choosing`).
LEADING_GROWTH_FACTOR = 1.25  # growth of the data after which a leader is chosen again
MAX_CHOOSING_EPSILON = 0.05  # the largest ε by which leaders are chosen, whatever ε is to be certified
MIN_CHOOSING_EPSILON = 1e-9  # the smallest, for estimates without error
MIN_ADVANTAGE_EPSILONS = 0.05  # advantage of a new leader, in units of that ε
DOUBT_STANDARD_ERRORS = 1.5  # advantage of the favourite over a simpler policy, below which the simpler one leads
# The same by cross-validation, where the class has simpler classes within it.
FOLDS = 5
GROWING_STANDARD_ERRORS = 1.0  # held-out gain of a larger class over a simpler one, above which it is used
# The same if a single policy is wanted.
MIN_CLEAR_ADVANTAGE_EPSILONS, MIN_CLEAR_ADVANTAGE_STANDARD_ERRORS = 0.2, 0.5
LEFT_OUT = "{:,} rows of people who had come before were left out: values are of first visits"


@dataclass(frozen=True)
class Bets:
    """The stakes of experts: λ = multiplier_k · scale_l for expert k in round l.

    The scale is cut so that the largest stake is at most `MAX_STAKE`; the stakes of all experts are thus in proportion,
    round by round. Scores are capped at `M = share/λ − 1`.

    multipliers (K,): one per expert, fixed in advance.
    scales (rounds,): fixed before each round.
    share: the largest λ(1 + M), below 1.
    spared: the number of first rounds in which nothing is staked.
    """

    multipliers: tuple[float, ...]
    scales: tuple[float, ...]
    share: float = CAP_SHARE
    spared: int = 0

    def __post_init__(self) -> None:
        for name, given in (("multipliers", self.multipliers), ("scales", self.scales)):
            if not given or not all(MIN_BET_FACTOR < value < MAX_BET_FACTOR for value in given):
                raise InputError(
                    f"the {name} of bets must lie between {MIN_BET_FACTOR:g} and {MAX_BET_FACTOR:g}, got {given}"
                )
        if not 0 < self.share < 1:
            raise InputError(f"share must lie between 0 and 1, got {self.share}")
        if not 0 <= self.spared < len(self.scales):
            raise InputError(f"{self.spared} of {len(self.scales)} rounds cannot be spared; one must be left to bet in")

    def __len__(self) -> int:
        return len(self.multipliers)

    @property
    def units(self) -> FloatArray:
        """The stakes of a multiplier of 1 (rounds,)."""
        units = np.minimum(np.array(self.scales), MAX_STAKE / max(self.multipliers))
        units[: self.spared] = 0.0
        return units

    def stakes(self, expert: int) -> FloatArray:
        """Return λ (rounds,) of an expert."""
        return self.multipliers[expert] * self.units


def arrange(log: Log, *, ordered: bool, shuffle: bool = False) -> tuple[Log, bool]:
    """Return a log in an order for sequential learning, if it has one; and whether its rows were shuffled.

    ordered: whether its rows stand in the order in which they occurred. shuffle: whether any order is valid; a log with
    a fixed split, the same propensities in all rows, or in all of a block, is shuffled by default.
    """
    ordered = stands_in_order(log.remarks, ordered=ordered, shuffle=shuffle)
    if (ordered or shuffle) and log.known is not None and not has_rounds(log):
        raise InputError(
            "the log tells that rewards came late, and has a single round, so that nothing tells which were known "
            "before which row; certify it without an order, or write the rounds of the experiment"
        )
    apart = not (has_rounds(log) or ordered) and (shuffle or has_fixed_split(log))
    return rearrange(log, ordered=ordered or apart, shuffle=apart), apart


def rearrange(log: Log, *, ordered: bool, shuffle: bool, by_content: bool = True) -> Log:
    """Return the log in the order that a certificate states: in blocks of its rows, or of its shuffled rows.

    by_content: whether a shuffle is by the contents of rows; False for certificates of earlier versions.
    """
    if not ordered:
        return first_visits(log) if has_rounds(log) else log
    if not shuffle:
        return in_blocks(log)
    if not says(log.remarks, COUNTED):  # these stand in the random order in which they were counted
        log = sorted_by_content(log) if by_content else shuffled_by_number(log)
    return in_blocks(log, planned_ends(log.n_units))


def has_rounds(log: Log) -> bool:
    """Return whether a log has more than one round."""
    return bool((log.rounds != log.rounds[0]).any())


def has_fixed_split(log: Log) -> bool:
    """Return whether every row of a log, or of a block, has the same propensities, which are all known.

    Counted blocks also have a random order, in which their rows stand already.
    """
    known = log.least is None and log.known is None and log.repeats.max() == 1
    if says(log.remarks, BY_BLOCK) or says(log.remarks, COUNTED):
        return bool(known)
    return bool(known and (np.ptp(log.propensities, axis=0) == 0.0).all())


def shuffled_by_number(log: Log) -> Log:
    """Return the log in the order of certificates of earlier versions, which depends on the numbers of rows alone.

    Whoever writes the file can choose that order. Units are shuffled whole: the visits of each follow each other.
    """
    numbers = np.arange(len(log)) if log.units is None else number_units(log.units)
    return log.take(np.argsort(scrambled(numbers.astype(np.uint64)), kind="stable"))


def in_blocks(log: Log, ends: IntArray | None = None) -> Log:
    """Return the log itself if it has rounds, else with its rows, in their order, numbered by block.

    ends: the ends of the blocks for shuffled rows, in units, whose visits all follow each other. Without it, the ends
    are `block_ends` and only the first visit of each unit is kept.
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
    """Return the log with the first row of each unit, by round and then by row, and a remark on the others."""
    if log.units is None or log.n_units == len(log):
        return log
    order = np.argsort(log.rounds, kind="stable")
    _, first = np.unique(log.units[order], return_index=True)
    kept = np.zeros(len(log), dtype=np.bool_)
    kept[order[first]] = True
    return replace(log.only(kept), remarks=(*log.remarks, LEFT_OUT.format(int((~kept).sum()))))


def block_ends(rows: int) -> IntArray:
    """Return the ends of blocks in rows, up to the block with the last row: 256, and then 1.4 times as many."""
    ends = [FIRST_BLOCK_ROWS]
    while ends[-1] < rows:
        ends.append(math.ceil(ends[-1] * BLOCK_GROWTH_FACTOR))
    return np.array(ends, dtype=np.int64)


def settling_row(rows: int) -> int:
    """Return the number of shuffled rows, or units, from which the final leader is chosen."""
    return max(FIRST_BLOCK_ROWS, math.floor(SETTLING_SHARE * rows))


def planned_ends(rows: int) -> IntArray:
    """Return the block ends of shuffled rows, whose number is known: one at the settling row, the last at the end."""
    settling = settling_row(rows)
    ends = [*(int(end) for end in block_ends(rows) if end < settling), settling]
    while ends[-1] < rows:
        ends.append(min(math.ceil(ends[-1] * BLOCK_GROWTH_FACTOR), rows))
    return np.array(ends, dtype=np.int64)


def settling_round(log: Log, spared: int) -> int:
    """Return the block, from 0, that begins with the settling row of shuffled rows; spared: blocks that only teach."""
    return max(int(np.searchsorted(planned_ends(log.n_units), settling_row(log.n_units))) + 1, spared)


def tuning_rounds(counts: FloatArray, *, spared: int) -> int:
    """Return the number of first rounds that tune the stakes of shuffled rows: at least a tenth of the rows.

    counts (rounds,): interactions, or units, of each round. spared: the number of first rounds that taught the class.
    """
    enough = int(np.searchsorted(np.cumsum(counts), TUNING_SHARE * float(counts.sum()))) + 1
    return min(max(enough, spared), len(counts) - 1)


def sizes_beforehand(log: Log, *, in_order: bool, shuffled: bool = False) -> tuple[int, ...]:
    """Return the planned number of interactions (or units) of each round of a log.

    in_order: whether the rounds are blocks of rows, of which the last may not be full. For other rounds the plan is
        unknown; they are taken to be planned as large as all rounds before together.
    shuffled: whether the blocks are of shuffled rows, whose number is known.
    """
    if in_order:
        ends = planned_ends(log.n_units) if shuffled else block_ends(log.n_units)
        return tuple(int(size) for size in np.diff(ends, prepend=0))
    counts = log.round_sizes
    return tuple(max(1, int(before)) for before in np.cumsum([0, *counts[:-1]]))


def worth_leading(policies: PolicyClass) -> bool:
    """Return whether leaders replace a union over all policies: for large classes, and those without a size."""
    return policies.log_size >= MIN_NATS_WORTH_LEADING


def delta_part(policies: PolicyClass, *, led: bool) -> float:
    """Return the share of δ that `certify` may use in one of its two proofs."""
    if not worth_leading(policies):
        return 1.0
    return LEADERS_PART if led else UNION_PART
