"""What is asked of the rows of a large log: wealth, gaps, and what a simpler policy would lose.

Each row's log-wealth is rounded *down* to a multiple of 2^−bits and added as a whole number: rounding only lowers
wealth, so that what it proves stays proven, and the sum is the same in any order. Estimates, which only serve to
choose, are rounded to the nearest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.rows import Against, Rows, add_gaps, add_log_wealth
from pacbandits.certificate.summed.on_card import (
    actions_of,
    add_sums,
    fits_on_card,
    rows_on_card,
    sums_on_card,
    tree_and_parts,
    wanted_of_class,
    zeros_on_card,
)
from pacbandits.certificate.summed.setting import Setting
from pacbandits.engines import Sums
from pacbandits.engines.cuda import Stretch
from pacbandits.engines.cuda.scores import CardRows, log_wealth
from pacbandits.engines.cuda.scores import gaps as gaps_on_card
from pacbandits.engines.cuda.trees import add_by_part
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.summing import IntSums, Summation, actions_on
from pacbandits.policies.trees.tree import TreePolicy
from pacbandits.records import Log, Policy

MAX_WEALTH_BITS = 36
ROWS_OF_MAX_BITS = 2**25  # more, and a sum of so many logarithms might not fit into 64 bits
GAP_BITS, SQUARE_BITS = 24, 16
MAX_GAP, MAX_SQUARE = 2.0**20, 2.0**40  # of a row; what is larger counts for that much where policies are chosen
SIZE_SHIFT = 20  # by which numbers are cut whose sizes are added up, to see whether sums have room
MAX_WHOLE = 2.0**62
MAX_SIZE_SUM = 2**62 >> SIZE_SHIFT


def wealth_bits(n_rows: int) -> int:
    """To how many bits after the point the log-wealth of each of so many rows is rounded."""
    return MAX_WEALTH_BITS - max(0, math.ceil(math.log2(n_rows / ROWS_OF_MAX_BITS)))


@dataclass(frozen=True, eq=False)
class WealthSums:
    """The log-wealth of several experts: `Σ_i ⌊2^bits w_i log(1 + λ(ε − Z_i(π)))⌋`.

    setting: what scores are made from.
    summing: how a class adds them up.
    policies, turns, moves: what policies are scored against, as in `rows.Against`.
    stakes (K, rounds): λ of each expert.
    share: how near λ(1 + M) comes to 1.
    epsilon: ε.
    bits: to which is rounded.
    """

    setting: Setting
    summing: Summation
    policies: tuple[Policy, ...]
    turns: IntArray
    moves: FloatArray
    stakes: FloatArray
    share: float
    epsilon: float
    bits: int

    def begin(self) -> Sums:
        width = len(self.stakes) * self.summing.policies.n_actions
        return self.summing.zeros(width), np.zeros(1, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rows = self.setting.rows_of(number, block)
        actions = np.array([actions_on(policy, block.contexts) for policy in self.policies], dtype=np.int64)
        shaped = actions.reshape(len(self.policies), len(block))  # also where nobody has led yet
        against = Against(shaped, self.turns, self.moves)
        n, width = rows.propensities.shape
        every, wealth = np.empty((n, len(self.stakes) * width)), np.empty((n, width))
        for k, stakes in enumerate(self.stakes):
            wealth[:] = 0.0
            add_log_wealth(rows, against, stakes, self.share, self.epsilon, wealth, 0, n)
            every[:, k * width : (k + 1) * width] = wealth
        scores, size = round_down(every, self.bits)
        self.summing.add(block.contexts, scores, sums[0])
        sums[1][0] += size

    def can_use_card(self) -> bool:
        return sums_on_card(self.summing) and fits_on_card(self.summing.policies.n_actions, self.policies)

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        rows = rows_on_card(stretch, self.setting, *wanted_of_class(self.summing))
        leaders, sizes = actions_of(stretch, self.policies, self.summing), zeros_on_card(len(rows))
        for k, stakes in enumerate(self.stakes):
            scores = log_wealth(
                rows,
                leaders,
                turns=self.turns,
                moves=self.moves,
                stakes=stakes,
                share=self.share,
                epsilon=self.epsilon,
                bits=self.bits,
                sizes=sizes,
                size_shift=SIZE_SHIFT,
            )
            add_sums(stretch, self.summing, scores, sums[0], at=k * rows.n_actions)
        sums[1][0] += sizes.sum()


def round_down(wealth: FloatArray, bits: int) -> tuple[IntSums, int]:
    """Log-wealth (n, W) as whole numbers of 2^−bits, and about what it all comes to, without signs.

    That is the largest of each row, cut by some bits; `MAX_SIZE_SUM` where one does not fit into 64 bits itself.
    """
    whole = np.floor(np.ldexp(wealth, bits))
    if not (np.abs(whole) < MAX_WHOLE).all():
        return np.zeros(whole.shape, dtype=np.int64), MAX_SIZE_SUM
    scores = whole.astype(np.int64)
    return scores, int((np.abs(scores) >> SIZE_SHIFT).max(axis=1, initial=0).sum())


def check_room(sums: Sums) -> None:
    """Raise where a sum of whole numbers may not have fitted into 64 bits."""
    if sums[1][0] >= MAX_SIZE_SUM:
        raise InputError("the logarithms of this log add up to more than can be counted; cut it into several")


@dataclass(frozen=True, eq=False)
class GapSums:
    """Doubly robust gaps of policies against one, and their squares, over the rows of the rounds before one.

    setting, summing: as above.
    reference: the policy that others are compared with.
    before: the round, counted from 0, whose rows and all later ones do not count.
    """

    setting: Setting
    summing: Summation
    reference: Policy
    before: int

    def begin(self) -> Sums:
        return (self.summing.zeros(2 * self.summing.policies.n_actions),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        gaps, squares, mine = _row_gaps(self.setting, self.reference, self.before, number, block)
        if mine.size:
            scores = np.concatenate([_rounded(gaps, MAX_GAP, GAP_BITS), _rounded(squares, MAX_SQUARE, SQUARE_BITS)], 1)
            self.summing.add(block.contexts.take(mine), scores, sums[0])

    def can_use_card(self) -> bool:
        return sums_on_card(self.summing) and fits_on_card(self.summing.policies.n_actions, (self.reference,))

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        rows = rows_on_card(stretch, self.setting, *wanted_of_class(self.summing))
        reference = actions_of(stretch, (self.reference,), self.summing)[0]
        add_sums(stretch, self.summing, _gaps_on_card(rows, reference, self.before), sums[0])


@dataclass(frozen=True, eq=False)
class PartSums:
    """The same by the parts of all contexts on which a policy and the simpler ones made from it act alike.

    policies: the class, which knows them.
    n_parts: how many there are.
    """

    setting: Setting
    policies: PolicyClass
    reference: Policy
    before: int
    n_parts: int

    def begin(self) -> Sums:
        shape = self.n_parts, self.policies.n_actions
        return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        gaps, squares, mine = _row_gaps(self.setting, self.reference, self.before, number, block)
        if mine.size:
            parts = self.policies.parts(self.reference, block.contexts.take(mine))
            np.add.at(sums[0], parts, _rounded(gaps, MAX_GAP, GAP_BITS))
            np.add.at(sums[1], parts, _rounded(squares, MAX_SQUARE, SQUARE_BITS))

    def can_use_card(self) -> bool:
        return isinstance(self.reference, TreePolicy) and fits_on_card(self.policies.n_actions, (self.reference,))

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        assert isinstance(self.reference, TreePolicy)
        rows = rows_on_card(stretch, self.setting)
        reference, parts = tree_and_parts(stretch, self.reference)
        gaps, width = zeros_on_card(self.n_parts, 2 * rows.n_actions), rows.n_actions
        add_by_part(parts, _gaps_on_card(rows, reference, self.before), gaps)
        for mine, column in zip(sums, (0, width), strict=True):
            mine += gaps[:, column : column + width]


def _row_gaps(
    setting: Setting, reference: Policy, before: int, number: int, block: Log
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Gaps and squares (k, A) of the rows (k,) of a block that count, and which these are."""
    rows = setting.rows_of(number, block)
    gaps, squares = np.zeros_like(rows.propensities), np.zeros_like(rows.propensities)
    mixture = np.require(block.propensities, requirements=("C", "W")) if block.least is None else _played_alone(rows)
    add_gaps(rows, mixture, actions_on(reference, block.contexts), gaps, squares, 0, len(block))
    mine = np.flatnonzero(rows.rounds < before)
    return gaps[mine], squares[mine], mine


def _played_alone(rows: Rows) -> FloatArray:
    """Propensities (n, A) of played actions, and 1 for the others, which then count for nothing."""
    out = np.ones_like(rows.propensities)
    out[np.arange(len(out)), rows.actions] = rows.played
    return out


def _gaps_on_card(rows: CardRows, reference: Any, before: int) -> Any:
    """Gaps and squares (n, 2A) on the card."""
    return gaps_on_card(rows, reference, before=before, bits=(GAP_BITS, SQUARE_BITS), most=(MAX_GAP, MAX_SQUARE))


def _rounded(values: FloatArray, most: float, bits: int) -> IntSums:
    return np.rint(np.ldexp(np.clip(values, -most, most), bits)).astype(np.int64)
