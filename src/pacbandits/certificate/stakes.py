"""The stakes of bets on values and gains, and the bound that a mixture of experts gives.

A bet on n rows whose score has variance σ² bounds its mean from below at a distance of σ²λ/2 + log(1/α)/(nλ), which is
least, σ√(2 log(1/α)/n), for the stake λ = √(2 log(1/α)/(nσ²)). If the number of rows is known before they are read, as
it is of shuffled rows, that stake can be chosen: the first tenth of the rows estimates σ² and does not bet. The experts
stake a quarter to four times as much, and the middle one starts with most of the wealth, as the estimate is good to a
factor. Else stakes must suit any number of rows: those of `conventions.EXPERT_STAKES`, with even shares.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.conventions import (
    EXPERT_STAKES,
    TUNED_MULTIPLIERS,
    TUNED_SHARES,
    Bets,
    tuning_rounds,
)
from pacbandits.certificate.leaders import NOBODY, Leaders
from pacbandits.records import Log


class Stakes(NamedTuple):
    """The stakes of experts, and their shares of the first wealth.

    bets: the stakes of each expert in each round.
    shares (K,): of the wealth at the start; they sum to 1.
    """

    bets: Bets
    shares: tuple[float, ...]


def even_stakes(rounds: int, *, spared: int = 0) -> Stakes:
    """Return stakes for any number of rows; spared: the number of first rounds that do not bet."""
    return Stakes(Bets(EXPERT_STAKES, (1.0,) * rounds, spared=spared), (1.0 / len(EXPERT_STAKES),) * len(EXPERT_STAKES))


def trial_stakes(bets: Bets, leaders: Leaders) -> Stakes:
    """Return stakes for any number of rows in proportion to a trial's, so that its leaders have the same weights.

    The first ones are half of the usual, so that later ones may be twice as large without being cut.
    """
    even = even_stakes(len(bets.scales), spared=bets.spared)
    led = np.flatnonzero((np.array(leaders.counted) != NOBODY) & (bets.units > 0))
    if not len(led):
        return even
    scales = 0.5 * np.where(bets.units > 0, bets.units, 1.0) / bets.units[led[0]]
    return even._replace(bets=replace(even.bets, scales=tuple(scales.tolist())))


def tuned_stakes(early: Log, predictions: FloatArray, counts: FloatArray, *, spared: int, nats: float) -> Stakes:
    """Return stakes for as many rows as there are.

    early: the first rows, numbered by round. predictions (n, A): of their rewards. counts (rounds,): the interactions,
    or units, of each round. spared: the number of first rounds that taught the class. nats: the log-wealth that a bound
    takes.
    """
    first = tuning_rounds(counts, spared=spared)
    taught = np.flatnonzero(early.rounds < first)
    variance = score_variance(early.take(taught), predictions[taught])
    scale = math.sqrt(2.0 * nats / (float(counts[first:].sum()) * variance))
    return Stakes(Bets(TUNED_MULTIPLIERS, (scale,) * len(counts), spared=first), TUNED_SHARES)


def score_variance(rows: Log, predictions: FloatArray) -> float:
    """Estimate the variance of the difference between two actions' doubly robust scores: twice the mean action's.

    One row more counts, with the score 1/p of a reward of 1 that was predicted as 0: a sample of rare rewards may have
    none.
    """
    at, weights = np.arange(len(rows)), rows.weights[:, None]
    scores = predictions.copy()
    scores[at, rows.actions] += (rows.rewards - predictions[at, rows.actions]) / rows.played_propensities
    means = (weights * scores).sum(axis=0) / weights.sum()
    largest = 1.0 / np.maximum((weights * rows.propensities).sum(axis=0) / weights.sum(), 1e-6)
    squares = ((weights * (scores - means) ** 2).sum(axis=0) + largest**2) / (weights.sum() + 1.0)
    return 2.0 * float(squares.mean())


class ExpertWealth(NamedTuple):
    """The log-wealth of experts from bets on θ > g, which is `wealth − g · totals` for any g.

    wealth (K,): at g = 0. totals (K,): Σ_t λ_t of each. shares (K,): of the first wealth.
    """

    wealth: FloatArray
    totals: FloatArray
    shares: FloatArray

    def standard_error(self, falling: ExpertWealth) -> float | None:
        """Return the standard error of the estimate of θ; falling: the wealth from bets on −θ. None if it is unknown.

        With the smallest stake λ, log(1 + λ(S − m)) + log(1 − λ(S − m)) is about −λ²(S − m)².
        """
        least = int(np.argmin(np.where(self.totals > 0, self.totals, np.inf)))
        squares = -float(self.wealth[least] + falling.wealth[least])
        return math.sqrt(squares) / float(self.totals[least]) if 0 < squares < math.inf else None

    def bound(self, needed: float) -> float:
        """Return the largest g for which the experts' wealth together is e^needed: a lower bound on θ; −∞ if none.

        The mean wealth of the experts, by their shares, is a nonnegative supermartingale at the true θ.
        """
        usable = np.isfinite(self.wealth) & (self.totals > 0)
        if not usable.any():
            return -np.inf
        wealth, totals = self.wealth[usable] + np.log(self.shares[usable]), self.totals[usable]
        alone = (wealth - needed) / totals
        low = float(alone.max())  # one expert has enough there
        high = float((alone + math.log(len(alone)) / totals).max())  # none has its part of it there
        for _ in range(60):
            middle = (low + high) / 2.0
            enough = np.logaddexp.reduce(wealth - middle * totals) >= needed
            low, high = (middle, high) if enough else (low, middle)
        return low
