"""The value and gains of a policy by the rows of a large log: sums for `pacbandits.certificate.intervals`.

Two passes: the mean score of every round, which gives the centres of later ones; then the wealth of all experts. Both
are sums of whole numbers: the scores of rows are rounded to the nearest, and the log-wealth of groups of rows is
rounded down, by operations that a processor and a card have in common (`pacbandits.certificate.intervals`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.certificate.certificate import CAP_SHARE
from pacbandits.certificate.intervals import (
    GROUP_ROWS,
    MAX_FACTOR,
    MAX_WHOLE,
    MIN_FACTOR,
    REST_BITS,
    add_all_bounds,
    add_all_scores,
    rounding_of,
)
from pacbandits.certificate.ledger import LedgerRows
from pacbandits.certificate.stakes import ExpertWealth, Stakes
from pacbandits.certificate.summed.ledger import (
    ScoreSetting,
    actions_of,
    fits_on_card,
    rows_on_card,
    sum_by_round,
    wealth_bits,
)
from pacbandits.certificate.worth import Decided, Kind, kinds_of
from pacbandits.engines import Engine, Source, Sums
from pacbandits.engines.cuda import Stretch
from pacbandits.engines.cuda.aggregations import Betting, CardDecided, add_bounds, plain_scores
from pacbandits.records import Log

MAX_SCORE = 2.0**20  # of a row; larger ones are cut to this in centres and estimates
# Whole numbers have so many bits less than those of certificates, so that sums have room for 2^10 per row: a factor is
# at most 2^100, its logarithm at most 70. The fraction of log-wealth is summed separately, in `REST_BITS`.
SPARE_BITS = 8
SIGNS = (1.0, -1.0)


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """The sums (kinds, rounds) of plain scores S by round, for every kind of u.

    setting: rounds and predictions of rows.
    decided: the policies and weights that u is computed from.
    n_actions: A.
    bits: the fractional bits to which the score of each row is rounded.
    """

    setting: ScoreSetting
    decided: Decided
    n_actions: int
    bits: int

    def begin(self) -> Sums:
        return (np.zeros((2 * self.n_actions + 1, self.setting.n_rounds), dtype=np.int64),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rows = self.setting.rows_of(number, block)
        done = self.decided.done(block, rows.rounds)
        made = np.zeros((self.n_actions + 1, self.setting.n_rounds), dtype=np.int64)
        add_all_scores(rows, done, self.decided.shares, self.decided.counted, MAX_SCORE, 2.0**self.bits, made)
        self._add_kinds(made, sums)

    def can_use_card(self) -> bool:
        return fits_on_card(self.n_actions, self.decided.policies)

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        rows = rows_on_card(stretch, self.setting)
        decided = _on_card(stretch, self.decided)
        scores = plain_scores(rows, decided, bits=self.bits, most=MAX_SCORE, most_whole=MAX_WHOLE)
        self._add_kinds(sum_by_round(rows, scores, self.setting.n_rounds).T, sums)

    def _add_kinds(self, made: Any, sums: tuple[Any, ...]) -> None:
        """Add the sums (A + 1, rounds) of each action alone and of the policy to those of all kinds."""
        actions = self.n_actions
        sums[0][0] += made[-1]
        sums[0][1 : actions + 1] += made[-1] - made[:-1]
        sums[0][actions + 1 :] += made[:-1]


@dataclass(frozen=True, eq=False)
class BoundSums:
    """Log-wealth (kinds, 2, K) of all experts for θ and −θ, its fractions, and the number of rows without room to bet.

    centres (kinds, rounds): m for θ; that for −θ is −m.
    stakes (K, rounds): λ.
    bits: the fractional bits to which the log-wealth of each group of rows is rounded down; `REST_BITS` more are summed
        separately.
    """

    setting: ScoreSetting
    decided: Decided
    n_actions: int
    centres: FloatArray
    stakes: FloatArray
    bits: int

    def begin(self) -> Sums:
        shape = len(self.centres), len(SIGNS), len(self.stakes)
        return tuple(np.zeros(shape, dtype=np.int64) for _ in range(3))

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rows = self.setting.rows_of(number, block)
        _add_bounds(rows, *self.decided.weights(block, rows.rounds), self.stakes, self.centres, self.bits, sums)

    def can_use_card(self) -> bool:
        return fits_on_card(self.n_actions, self.decided.policies)

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        betting = Betting(
            stakes=self.stakes,
            caps=_caps(self.stakes),
            centres=self.centres,
            slack=rounding_of(self.n_actions),
            factors=(MIN_FACTOR, MAX_FACTOR),
            group=GROUP_ROWS,
            bits=self.bits,
            rest_bits=REST_BITS,
        )
        add_bounds(rows_on_card(stretch, self.setting), _on_card(stretch, self.decided), betting, sums)


def _caps(stakes: FloatArray) -> FloatArray:
    """Return the largest loss of each expert in a row, over its stake λ (K, rounds); ∞ where it stakes nothing."""
    return np.divide(CAP_SHARE, stakes, out=np.full(stakes.shape, np.inf), where=stakes > 0)


def _add_bounds(
    rows: LedgerRows,
    own: FloatArray,
    counted: BoolArray,
    stakes: FloatArray,
    centres: FloatArray,
    bits: int,
    sums: Sums,
) -> None:
    """Add the wealth of experts in these rows to the sums of `BoundSums`."""
    wealth, rest, lost = (one.reshape(-1) for one in sums)
    slack = rounding_of(own.shape[1])
    add_all_bounds(rows, own, counted, stakes, _caps(stakes), centres, slack, 2.0**bits, wealth, rest, lost)


def _wealth_of(sums: Sums, bits: int) -> FloatArray:
    """Return log-wealth (kinds, 2, K) from sums; −∞ if an expert had no room to bet."""
    wealth, rest, lost = sums
    return np.where(lost > 0, -np.inf, np.ldexp((wealth + (rest >> REST_BITS)).astype(np.float64), -bits))


def _on_card(stretch: Stretch, decided: Decided) -> CardDecided:
    """Return the policies that decide, in the form that the card takes."""
    return CardDecided(actions_of(stretch, decided.policies, None), decided.shares, decided.counted)


class SummedWeighing:
    """Intervals by sums over the rows of a source."""

    def __init__(
        self,
        source: Source,
        setting: ScoreSetting,
        decided: Decided,
        stakes: Stakes,
        *,
        engine: Engine,
        samples: int,
    ) -> None:
        assert setting.early is not None
        bets = stakes.bets
        n_actions, bits = setting.early.n_actions, wealth_bits(samples) - SPARE_BITS
        self._kinds = {kind: place for place, kind in enumerate(kinds_of(n_actions))}
        asked = ScoreSums(setting, decided, n_actions, bits)
        (found,) = engine.ask(source, asked, what="measuring how good the policy is")
        # Earlier rounds as whole numbers: a centre must not depend on its own round, not even by rounding.
        earlier = np.ldexp((np.cumsum(found, axis=1) - found).astype(np.float64), -bits)
        scores, seen = np.ldexp(found.astype(np.float64), -bits), setting.arrangement.counts * decided.counted
        rows = np.cumsum(seen) - seen
        centres = np.divide(earlier, rows, out=np.zeros_like(scores), where=rows > 0).clip(-1.0, 1.0)
        self._estimates = scores @ bets.units / (bets.units @ seen)
        self._stakes = np.array([bets.stakes(expert) for expert in range(len(bets))])
        self._shares = np.array(stakes.shares)
        bounds = BoundSums(setting, decided, n_actions, centres, self._stakes, bits)
        self._wealth = _wealth_of(engine.ask(source, bounds, what="bounding how good the policy is"), bits)
        self._seen, self._centres = seen, centres

    def wealth(self, kind: Kind, *, sign: float = 1.0) -> ExpertWealth:
        place, side = self._kinds[kind], SIGNS.index(sign)
        middles = sign * (self._stakes @ (self._seen * self._centres[place]))
        return ExpertWealth(self._wealth[place, side] + middles, self._stakes @ self._seen, self._shares)

    def estimate(self, kind: Kind) -> float:
        return float(self._estimates[self._kinds[kind]])
