"""The wealth of bets on a change of a mean that nobody knows, and the mean that they refute least.

`drift` says why this is an e-process. For a stream, gains (K, 2, J) hold Σ log(1 + λX) over the rows of each batch, for
bets that the mean is higher ([0]) and lower ([1]), counts (K,) how many rows these are, stakes (K, J) the λ. If the
mean of X is m at most, the factor of a batch, direction d and stake j,

    log F = gain − count · log(1 + λ·m_d),     m_0 = m,  m_1 = 1 − m

is the logarithm of something that is at most 1 on average. A bettor (d, i, j) stakes the i-th λ of the direction
opposite to d before a change, and the j-th of d from then on. Changes are mixed over the batches k at whose beginning
they may come. Batch 0 comes before all of them: there all stakes are mixed, as nothing tells which to choose.

Every log F is convex in m, so are the logarithms of their products and of mixtures of those: the mean that is refuted
least lies where the slope is 0, and two tangents on its sides bound the least wealth from below.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel

CHANGE_SHARE = 1.0 / 50.0  # of the weight that is left, for a change at the next batch
MAX_TANGENTS = 60
LEAST_WEALTH_ROUNDING = 0.01  # nats by which the least log-wealth may be reported too low


class Bettors(NamedTuple):
    """Who bets on a change.

    directions (B,): 0 for a rise, 1 for a fall.
    before (B,): which stake, before the change.
    after (B,): which one after it.
    log_weights (B,): their shares of the money, which sum to 1.
    """

    directions: IntArray
    before: IntArray
    after: IntArray
    log_weights: FloatArray


class Streams(NamedTuple):
    """S streams of bets in K batches.

    gains (S, K, 2, J), counts (S, K), stakes (S, K, J): see above.
    """

    gains: FloatArray
    counts: FloatArray
    stakes: FloatArray


def bettors(n_stakes: int) -> Bettors:
    """Half of the money on stakes that are equal before and after, half on ratios of 4 and of 16 either way.

    Against a change after a share s of the rows the stake after it is best s/(1 − s) times that before it. The stakes
    of neighbours differ by a factor of 2.
    """
    pairs = [(i, i + step) for step in (0, -2, 2, -4, 4) for i in range(n_stakes) if 0 <= i + step < n_stakes]
    equal = sum(i == j for i, j in pairs)
    shares = [0.5 / equal if i == j else 0.5 / (len(pairs) - equal) for i, j in pairs]
    return Bettors(
        np.repeat(np.arange(2), len(pairs)),
        np.tile([i for i, _ in pairs], 2),
        np.tile([j for _, j in pairs], 2),
        np.log(np.tile(shares, 2) / 2.0),
    )


@kernel
def _mix(one: float, slope: float, other: float, other_slope: float) -> tuple[float, float]:
    """log(e^x + e^y), and its slope."""
    if other - one > 40.0:
        return other, other_slope
    if one - other > 40.0:
        return one, slope
    if one < other:
        one, slope, other, other_slope = other, other_slope, one, slope
    share = math.exp(other - one)
    return one + math.log1p(share), (slope + share * other_slope) / (1.0 + share)


@kernel
def log_wealth(
    streams: Streams, stream: int, mean: float, bets: Bettors, values: FloatArray, slopes: FloatArray, peaks: FloatArray
) -> None:
    """Log-wealth against this mean after each of the first K' batches, into values (K',), with slopes (K',).

    peaks (2,): at the last, which bettor is richest, and the batch at which its change was most probably.
    """
    n_stakes, n_bets = streams.stakes.shape[2], len(bets.directions)
    factors, tangents = np.zeros((2, n_stakes)), np.zeros((2, n_stakes))
    before, before_slope = np.zeros((2, n_stakes)), np.zeros((2, n_stakes))
    wealth, slope = np.full(n_bets, -math.inf), np.zeros(n_bets)
    best, best_change = np.full(n_bets, -math.inf), np.zeros(n_bets)
    left = 1.0
    for k in range(len(values)):
        count = streams.counts[stream, k]
        for d in range(2):
            own, sign = (mean, 1.0) if d == 0 else (1.0 - mean, -1.0)
            for j in range(n_stakes):
                stake = streams.stakes[stream, k, j]
                factors[d, j] = streams.gains[stream, k, d, j] - count * math.log1p(stake * own)
                tangents[d, j] = -sign * count * stake / (1.0 + stake * own)
        values[k], slopes[k] = -math.inf, 0.0
        if k == 0:
            for d in range(2):
                whole, whole_slope = -math.inf, 0.0
                for j in range(n_stakes):
                    whole, whole_slope = _mix(whole, whole_slope, factors[d, j], tangents[d, j])
                for j in range(n_stakes):
                    before[d, j], before_slope[d, j] = whole - math.log(n_stakes), whole_slope
            continue
        log_share = math.log(CHANGE_SHARE * left)
        left *= 1.0 - CHANGE_SHARE
        peak = -math.inf
        for b in range(n_bets):
            d, i, j = bets.directions[b], bets.before[b], bets.after[b]
            fresh, fresh_slope = float(log_share + before[1 - d, i]), float(before_slope[1 - d, i])
            if fresh > best[b]:
                best[b], best_change[b] = fresh, k
            wealth[b], slope[b] = _mix(wealth[b], slope[b], fresh, fresh_slope)
            wealth[b] += factors[d, j]
            best[b] += factors[d, j]
            slope[b] += tangents[d, j]
            own = wealth[b] + bets.log_weights[b]
            values[k], slopes[k] = _mix(values[k], slopes[k], own, slope[b])
            if own > peak:
                peak, peaks[0], peaks[1] = own, b, best_change[b]
        for d in range(2):
            for j in range(n_stakes):
                before[d, j] += factors[d, j]
                before_slope[d, j] += tangents[d, j]


@kernel
def least_log_wealth(
    streams: Streams, bets: Bettors, n_batches: int, found: FloatArray, earlier: FloatArray, start: int, stop: int
) -> None:
    """For the streams start to stop the log-wealth after n_batches against the mean that is refuted least.

    found (S, 4): a lower bound to it, that mean, and the peaks of `log_wealth`. earlier (S, n_batches): what the wealth
    was against that mean, which bounds the least wealth of earlier moments from above.
    """
    values, slopes, peaks = np.empty(n_batches), np.empty(n_batches), np.zeros(2)
    for s in range(start, stop):
        low, high, mean = 0.0, 1.0, 0.0
        log_wealth(streams, s, low, bets, values, slopes, peaks)
        low_value, low_slope = values[-1], slopes[-1]
        bound = low_value
        if low_slope < 0.0:
            mean = high
            log_wealth(streams, s, high, bets, values, slopes, peaks)
            high_value, high_slope = values[-1], slopes[-1]
            bound = high_value
            least = min(low_value, high_value)
            for step in range(MAX_TANGENTS):
                if high_slope <= 0.0:
                    break
                # Where the two tangents meet, and how high.
                meet = low + (high_value - low_value - high_slope * (high - low)) / (low_slope - high_slope)
                bound = low_value + low_slope * (meet - low)
                if least - bound <= LEAST_WEALTH_ROUNDING:
                    break
                margin = (high - low) / 32.0
                mean = 0.5 * (low + high) if step % 3 == 0 else min(max(meet, low + margin), high - margin)
                log_wealth(streams, s, mean, bets, values, slopes, peaks)
                least = min(least, values[-1])
                if slopes[-1] < 0.0:
                    low, low_value, low_slope = mean, values[-1], slopes[-1]
                else:
                    high, high_value, high_slope = mean, values[-1], slopes[-1]
                    if high_slope == 0.0:
                        bound = high_value
        found[s, 0], found[s, 1], found[s, 2], found[s, 3] = bound, mean, peaks[0], peaks[1]
        for k in range(n_batches):
            earlier[s, k] = values[k]
