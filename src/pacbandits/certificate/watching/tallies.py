"""Seen of a log as kernels take them, and what these sum over the rows of a batch for one action after another.

`drift` and `ratio` say what the sums are for. Actions write to places of their own, so cores share them out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.watching.batches import Batches
from pacbandits.certificate.watching.segments import Segments
from pacbandits.compiled import kernel
from pacbandits.records import Log

MAX_ACTIONS = 256  # that are looked at
MAX_PAIRS = 128  # of an action and a segment

CAP_SHARE = 0.9  # λM: how near a single row may bring a bet to ruin
MIN_PROPENSITY = 1e-100  # below it a propensity counts as this much, and what is known of it as 0
PRODUCT_ROWS = 128  # multiplied before a logarithm is taken; factors lie between e⁻² and e²


class Seen(NamedTuple):
    """n rows.

    order (n,): by time.
    actions (n,): what was played.
    rewards (n,): what it earned.
    repeats (n,): how much a row counts: as often as it occurred, and of m visits of a unit each 1/m.
    played (n,): the propensity of the played action.
    bounds (n, A): what was known of propensities before an action was drawn.
    inside (n, G): 1 where the context lies in the first half of a segment, else 0.
    """

    order: IntArray
    actions: IntArray
    rewards: FloatArray
    repeats: FloatArray
    played: FloatArray
    bounds: FloatArray
    inside: NDArray[np.uint8]


def seen_rows(log: Log, batches: Batches, segments: Segments) -> Seen:
    """The rows of a log."""
    bounds = np.ascontiguousarray(log.bounds)
    bounds.setflags(write=False)  # as those that were not copied, for which kernels are compiled
    return Seen(
        order=batches.order,
        actions=log.actions,
        rewards=log.rewards,
        repeats=log.weights,
        played=log.played_propensities,
        bounds=bounds,
        inside=segments.inside,
    )


class RewardTally(NamedTuple):
    """Sums over the rows of one batch, for A actions; [0] of the second axis is of all rows, [1 + g] of a first half.

    gains (A, 1 + G, 2, J): Σ log(1 + λX), for bets that the mean is higher and that it is lower.
    weighted (A, 1 + G, 2): Σ 1{a}·r/p and Σ 1{a}/p.
    plays (A, 3): how often an action was played, what it earned, and Σ 1{a}(r − f̂)²/p².
    """

    gains: FloatArray
    weighted: FloatArray
    plays: FloatArray


class PlayTally(NamedTuple):
    """Sums over the rows of one batch, with the same first two axes.

    gains (A, 1 + G, J): Σ log((1 + 1{a}·bκ/p)/(1 + bκ)), for the tilts κ.
    counts (A, 1 + G, 3): plays, Σ b and Σ 1{a}/p.
    """

    gains: FloatArray
    counts: FloatArray


@kernel
def tally_rewards(
    rows: Seen,
    start: int,
    stop: int,
    predictions: FloatArray,
    stakes: FloatArray,
    tally: RewardTally,
    first_action: int,
    last_action: int,
) -> None:
    """Add up rows order[start] to order[stop − 1]; predictions f̂ (A,), stakes λ (A, J), both fixed before the batch.

    Stakes fall with j. Most scores of actions that were not played are f̂ itself: the sums hold first what differs from
    that, which is only for large stakes, and last the rest.
    """
    n_stakes, n_segments = stakes.shape[1], rows.inside.shape[1]
    totals = np.zeros(1 + n_segments)
    for t in range(start, stop):
        i = rows.order[t]
        totals[0] += rows.repeats[i]
        for g in range(n_segments):
            if rows.inside[i, g]:
                totals[1 + g] += rows.repeats[i]
    centres, usual, gains = np.empty(2), np.empty((2, n_stakes)), np.empty((2, n_stakes))
    for a in range(first_action, last_action):
        centres[0], centres[1] = predictions[a], 1.0 - predictions[a]
        for d in range(2):
            for j in range(n_stakes):
                usual[d, j] = math.log1p(stakes[a, j] * centres[d])
        largest_centre = max(centres[0], centres[1])
        for t in range(start, stop):
            i = rows.order[t]
            bound = rows.bounds[i, a]
            if bound < MIN_PROPENSITY:
                bound = 0.0
            played = rows.actions[i] == a
            used = n_stakes if played else 0
            while used < n_stakes and stakes[a, used] * largest_centre > CAP_SHARE * bound:
                used += 1
            if used == 0:
                continue
            weight = rows.repeats[i]
            p = max(rows.played[i], MIN_PROPENSITY)
            capped = math.log1p(CAP_SHARE * bound)
            for d in range(2):
                reward = rows.rewards[i] if d == 0 else 1.0 - rows.rewards[i]
                for j in range(used):
                    stake = stakes[a, j]
                    centre = min(centres[d], CAP_SHARE * bound / stake)
                    if played:
                        gain = math.log1p(stake * (centre + (reward - centre) / p)) - usual[d, j]
                    elif centre < centres[d]:
                        gain = capped - usual[d, j]
                    else:
                        gain = 0.0
                    gains[d, j] = weight * gain
            for g in range(1 + n_segments):
                if g == 0 or rows.inside[i, g - 1]:
                    for d in range(2):
                        for j in range(used):
                            tally.gains[a, g, d, j] += gains[d, j]
                    if played:
                        tally.weighted[a, g, 0] += weight * rows.rewards[i] / p
                        tally.weighted[a, g, 1] += weight / p
            if played:
                tally.plays[a, 0] += weight
                tally.plays[a, 1] += weight * rows.rewards[i]
                tally.plays[a, 2] += weight * ((rows.rewards[i] - predictions[a]) / p) ** 2
        for g in range(1 + n_segments):
            for d in range(2):
                for j in range(n_stakes):
                    tally.gains[a, g, d, j] += totals[g] * usual[d, j]


@kernel
def tally_plays(
    rows: Seen,
    start: int,
    stop: int,
    tilts: FloatArray,
    guess: float,
    tally: PlayTally,
    first_action: int,
    last_action: int,
) -> None:
    """Add up rows order[start] to order[stop − 1]; tilts κ (J,), guess: what b is at least where κ > 0.

    Seen that occurred once are multiplied before a logarithm is taken.
    """
    n_tilts, n_segments = len(tilts), rows.inside.shape[1]
    products, factors = np.ones((1 + n_segments, n_tilts)), np.empty(n_tilts)
    for a in range(first_action, last_action):
        waiting = 0
        for t in range(start, stop):
            i = rows.order[t]
            bound, weight, p = rows.bounds[i, a], rows.repeats[i], max(rows.played[i], MIN_PROPENSITY)
            higher = max(bound, guess, MIN_PROPENSITY)
            if bound < MIN_PROPENSITY:
                bound = 0.0
            played = 1.0 if rows.actions[i] == a else 0.0
            for j in range(n_tilts):
                factors[j] = 1.0 + (higher if tilts[j] > 0 else bound) * tilts[j]
            for g in range(1 + n_segments):
                if g == 0 or rows.inside[i, g - 1]:
                    if weight == 1.0:
                        for j in range(n_tilts):
                            products[g, j] *= factors[j]
                    else:
                        for j in range(n_tilts):
                            tally.gains[a, g, j] -= weight * math.log(factors[j])
                    tally.counts[a, g, 1] += weight * bound
                    if played > 0:
                        tally.counts[a, g, 0] += weight
                        tally.counts[a, g, 2] += weight / p
            if played > 0:
                for j in range(n_tilts):
                    factors[j] = weight * math.log1p((higher if tilts[j] > 0 else bound) * tilts[j] / p)
                for g in range(1 + n_segments):
                    if g == 0 or rows.inside[i, g - 1]:
                        for j in range(n_tilts):
                            tally.gains[a, g, j] += factors[j]
            waiting += 1
            if waiting == PRODUCT_ROWS or t == stop - 1:
                for g in range(1 + n_segments):
                    for j in range(n_tilts):
                        tally.gains[a, g, j] -= math.log(products[g, j])
                        products[g, j] = 1.0
                waiting = 0
