"""The value and gains of a policy by the rows of a large log: sums for `pacbandits.certificate.intervals`.

Two passes: the mean score of every round, which gives the centres of later ones; then the wealth of all experts. Both
are sums of whole numbers: the scores of rows are rounded to the nearest, and the log-wealth of groups of rows is
rounded down, by operations that a processor and a card have in common (`pacbandits.certificate.intervals`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray
from pacbandits.certificate.conventions import CAP_SHARE
from pacbandits.certificate.intervals import (
    GROUP_ROWS,
    MAX_FACTOR,
    MIN_FACTOR,
    REST_BITS,
    add_all_bounds,
    add_all_scores,
    rounding_of,
)
from pacbandits.certificate.ledger import MAX_WHOLE
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
    times: `Kind.times` of all gains; a card knows those of 1.
    bits: the fractional bits to which the log-wealth of each group of rows is rounded down; `REST_BITS` more are summed
        separately.
    """

    setting: ScoreSetting
    decided: Decided
    n_actions: int
    centres: FloatArray
    stakes: FloatArray
    times: float
    bits: int

    def begin(self) -> Sums:
        shape = len(self.centres), len(SIGNS), len(self.stakes)
        return tuple(np.zeros(shape, dtype=np.int64) for _ in range(3))

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rows = self.setting.rows_of(number, block)
        own, counted = self.decided.weights(block, rows.rounds)
        wealth, rest, lost = (one.reshape(-1) for one in sums)
        caps, slack, scale = _caps(self.stakes), rounding_of(self.n_actions), 2.0**self.bits
        add_all_bounds(
            rows, own, counted, self.stakes, caps, self.centres, self.times, slack, scale, wealth, rest, lost
        )

    def can_use_card(self) -> bool:
        return self.times == 1.0 and fits_on_card(self.n_actions, self.decided.policies)

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
        self._source, self._setting, self._decided, self._engine = source, setting, decided, engine
        self._n_actions, self._bits = setting.early.n_actions, wealth_bits(samples) - SPARE_BITS
        asked = ScoreSums(setting, decided, self._n_actions, self._bits)
        (self._scores,) = engine.ask(source, asked, what="measuring how good the policy is")
        bets, self._seen = stakes.bets, setting.arrangement.counts * decided.counted
        self._units, self._shares = bets.units, np.array(stakes.shares)
        self._stakes = np.array([bets.stakes(expert) for expert in range(len(bets))])
        self._bounds: dict[float, tuple[FloatArray, FloatArray]] = {}  # centres and log-wealth, by `Kind.times`

    def wealth(self, kind: Kind, *, sign: float = 1.0) -> ExpertWealth:
        times, place = self._place(kind)
        if times not in self._bounds:
            self._bounds[times] = self._bound(times)
        centres, wealth = self._bounds[times]
        middles = sign * (self._stakes @ (self._seen * centres[place]))
        return ExpertWealth(wealth[place, SIGNS.index(sign)] + middles, self._stakes @ self._seen, self._shares)

    def estimate(self, kind: Kind) -> float:
        times, place = self._place(kind)
        return float((self._scaled(self._scores, times) @ self._units / (self._units @ self._seen))[place])

    def _place(self, kind: Kind) -> tuple[float, int]:
        """Return the factor and the place of a kind; with a factor of 0 it is the policy alone."""
        if kind.against is not None and kind.times == 0.0:
            return 1.0, 0
        times = 1.0 if kind.against is None else kind.times
        return times, kinds_of(self._n_actions, times=times).index(kind)

    def _bound(self, times: float) -> tuple[FloatArray, FloatArray]:
        """Return the centres (kinds, rounds), and log-wealth (kinds, 2, K)."""
        # Earlier rounds as whole numbers: a centre must not depend on its own round, not even by rounding.
        earlier = self._scaled(np.cumsum(self._scores, axis=1) - self._scores, times)
        rows = np.cumsum(self._seen) - self._seen
        centres = np.divide(earlier, rows, out=np.zeros_like(earlier), where=rows > 0).clip(-1.0, 1.0)
        asked = BoundSums(self._setting, self._decided, self._n_actions, centres, self._stakes, times, self._bits)
        found = self._engine.ask(self._source, asked, what="bounding how good the policy is")
        return centres, _wealth_of(found, self._bits)

    def _scaled(self, sums: NDArray[np.int64], times: float) -> FloatArray:
        """Return sums (kinds, rounds) in units of rewards, of kinds with this factor."""
        out, actions = np.ldexp(sums.astype(np.float64), -self._bits), self._n_actions
        if times != 1.0:
            out[1 : actions + 1] = out[0] - times * out[actions + 1 :]
        return out
