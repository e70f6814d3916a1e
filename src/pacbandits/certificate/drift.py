"""Drift: (context, rewards) that are not drawn from one distribution over all rows.

**Streams.** Under the assumption the mean of each of these is the same in every batch, though unknown:

- for an action a, the reward r(c, a) that it would earn;
- for a half of the contexts (`check.Segments`), whether a context lies in it;
- for a pair, the reward of a among the contexts of that half.

Rewards of actions are not all observed. With b ≤ p what was known of the propensity of a before the action was drawn (p
itself, if the log has all propensities), a cap M, and a prediction f̂ made from earlier batches,

    X = f + 1{a played}·(r − f)/p,     f = min(f̂, b·M)

has E[X | c] = r(c, a) where p > 0. Where p = 0 also b = 0, so X = f = 0 ≤ r(c, a). And X ≥ f − f/p ≥ −M, as f/p ≤ f/b.
For bets that the mean is lower the same is made of 1 − r, with 1 − f̂. The cap acts through the control variate, so M
may be as small as one likes however small p is.

**One batch.** Let m be the true mean of a stream, λ > 0 with λM < 1, and λ, M, f̂ fixed before the batch (so not by the
contexts in it). Then 1 + λX > 0 and E[1 + λX | past] ≤ 1 + λm, also given that the context lies in a half: the product
of (1 + λX)/(1 + λm) over the rows of the stream is a nonnegative supermartingale, at any time, for any propensities.
The numerators do not depend on m, so one pass over the rows serves every m.

**Batches.** Products of such factors are supermartingales when stakes change from batch to batch; so are mixtures: over
the batch k from which on a bet on "higher" replaces one on "lower" or the other way round (weights over all k ever
possible sum to 1), and over stakes before and after it. Let W(m) be that mixture for a hypothetical mean m
(`log_wealth`). As the true mean is one of all m in [0, 1], min_m W(m) is at most a supermartingale that begins at 1. So
is the average of that over streams. By Ville's inequality it reaches 1/α at any batch's end with probability α at most.

The switch between directions is what makes such a test strong: no m escapes, since one too high for the rows before a
change loses there what it gains after it. Against a change of D at the middle of n rows of variance σ² it gains about
nD²/(8σ²), as much as the likelihood ratio of two known means could.

**Returning units.** Each of v visits of a unit counts 1/v in the sums and numbers of rows above, all of them in one
batch. With h the share of its visits that lie in a half, and X̄ the mean of X among these, the factor of a unit is at
most ((1 + λX̄)/(1 + λm))^h ≤ 1 + hλ(X̄ − m)/(1 + λm), which is 1 on average if m is the mean of hX̄ by that of h.

**Late rewards.** Rows with pending rewards may differ from the others, as a failure may be known sooner than a success.
So only the first rounds without pending rewards are tested: their number may depend on anything, as the bound is for
all batches at once.

Segments are cut by the contexts of batch 0, where they and pairs do not bet; actions bet there with stakes and
predictions that are constants.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.check import (
    DRIFT,
    FIRST_BATCH_ROWS,
    MAX_ACTIONS,
    MAX_PAIRS,
    AssumptionCheck,
    Batches,
    RewardTally,
    Segments,
    TimedRows,
    batches_of_rounds,
    batches_of_rows,
    cut_in_halves,
    in_number,
    reason_against_order,
    seen_rows,
    tally_rewards,
)
from pacbandits.certificate.conventions import first_visits, has_rounds
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import count_of
from pacbandits.records import Log
from pacbandits.records.column_types import date_parts
from pacbandits.records.policy import call

# The wealth of bets on a change of an unknown mean, and the mean that they refute least.
#
# The module docstring says why this is an e-process. For a stream, gains (K, 2, J) hold Σ log(1 + λX) over the rows of
# each batch, for bets that the mean is higher ([0]) and lower ([1]), counts (K,) the numbers of these rows, stakes (K,
# J) the λ. If the mean of X is m at most, the factor of a batch, direction d and stake j,
#
#     log F = gain − count · log(1 + λ·m_d),     m_0 = m,  m_1 = 1 − m
#
# is the logarithm of a variable with mean at most 1. A bettor (d, i, j) stakes the i-th λ of the direction opposite to
# d before a change, and the j-th of d from then on. Changes are mixed over the batches k at whose beginning they may
# come. Batch 0 comes before all of them: there all stakes are mixed, as no data favour one.
#
# Every log F is convex in m, so are the logarithms of their products and of mixtures of those: the mean that is refuted
# least lies where the slope is 0, and two tangents on its sides bound the minimum wealth from below.


CHANGE_SHARE = 1.0 / 50.0  # of the remaining weight, for a change at the next batch
MAX_TANGENTS = 60
LEAST_WEALTH_ROUNDING = 0.01  # nats by which the minimum log-wealth may be reported too low


class Bettors(NamedTuple):
    """B bets on a change.

    directions (B,): 0 for a rise, 1 for a fall.
    before (B,): the number of the stake before the change.
    after (B,): the number of the stake after it.
    log_weights (B,): logarithms of their shares of the initial wealth, which sum to 1.
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
    """Return bets with half of the weight on equal stakes before and after, half on ratios of 4 and of 16 either way.

    Against a change after a share s of the rows the stake after it is best s/(1 − s) times that before it. Neighbouring
    stakes differ by a factor of 2.
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
    """Return log(e^x + e^y), and its slope."""
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
    """Write the log-wealth against this mean after each of the first K' batches into values (K',), with slopes (K',).

    peaks (2,): at the last batch, the bettor with the largest wealth, and the most probable batch of its change.
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
    """Compute the log-wealth after n_batches against the least refuted mean, for the streams start to stop.

    found (S, 4): a lower bound on it, that mean, and the peaks of `log_wealth`. earlier (S, n_batches): the wealth
    against that mean over time, which bounds the minimum wealth of earlier moments from above.
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
                # The point where the two tangents meet.
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


# The streams of a log, and the bets on them batch by batch (see the module docstring).


_OF_ACTION = re.compile(r"(?<=^the reward of )action (\d+)")  # names of streams have the numbers of actions alone

STAKE_FACTORS = 2.0 ** -np.arange(10)  # of one over the standard deviation of a stream
MAX_STREAM_STAKE = 4.0
FIRST_PREDICTION = 0.5
FIRST_VARIANCE = 0.25  # of rewards; of scores, times the number of actions
PRIOR_INTERACTIONS = 10.0  # the weight of the first variance in later estimates
VARIANCE_MEMORY = 0.5  # the weight of earlier batches in a variance, as propensities change


@dataclass(frozen=True, eq=False)
class Means:
    """The streams of a log, with the inputs of their bets.

    bets: gains, counts and stakes of S streams in K batches.
    names (S,): what each is the mean of, in words.
    looked_at: a description of all of them, in words.
    log_weights (S,): log-weight of each in the average.
    sums (S, K, 2): total and number, whose ratio estimates the mean in a batch; for descriptions only.
    """

    bets: Streams
    names: tuple[str, ...]
    looked_at: str
    log_weights: FloatArray
    sums: FloatArray


def gather_means(log: Log, batches: Batches) -> Means | None:
    """Return bets on every stream of the log, on rewards only if all lie in [0, 1]; None if there is no stream."""
    made = date_parts(log.contexts.names, log.dates).items()
    calendar = {name for name, part in made if part.part != "age"}  # the passing of time is not drift
    segments = cut_in_halves(log.contexts, batches.order[: batches.edges[1]], but=calendar)
    rows = seen_rows(log, batches, segments)
    unit = bool(log.rewards.min() >= 0 and log.rewards.max() <= 1)
    n_actions = min(log.n_actions, MAX_ACTIONS) if unit else 0
    n_pairs = min(len(segments), MAX_PAIRS // n_actions) if n_actions else 0
    parts: list[_Part] = []
    said: list[str] = []
    if n_actions:
        parts += _bet_on_rewards(rows, batches, segments, n_actions, n_pairs)
        said.append(f"rewards of {in_number(n_actions, log.n_actions, 'action')}")
    if len(segments):
        parts.append(_bet_on_contexts(rows, batches, segments))
        said.append(f"sizes of {in_number(len(segments), len(segments), 'segment')} of contexts")
    if n_pairs:
        said.append(f"rewards within {in_number(n_pairs, len(segments), 'segment')}")
    if not unit:
        said.append("but not rewards, as they leave [0, 1]")
    parts = [part for part in parts if part.names]
    if not parts:
        return None
    bets = Streams(*(np.concatenate([part.bets[i] for part in parts]) for i in range(3)))
    shares = np.concatenate([np.full(len(part.names), 1.0 / (len(parts) * len(part.names))) for part in parts])
    names = tuple(
        _OF_ACTION.sub(lambda m: call(int(m[1]), log.action_names), n, count=1) for p in parts for n in p.names
    )
    return Means(bets, names, ", ".join(said), np.log(shares), np.concatenate([part.sums for part in parts]))


@dataclass(frozen=True, eq=False)
class _Part:
    """Streams of one kind, with names (S,) and sums (S, K, 2)."""

    bets: Streams
    names: tuple[str, ...]
    sums: FloatArray


def _bet_on_rewards(
    rows: TimedRows, batches: Batches, segments: Segments, n_actions: int, n_pairs: int
) -> tuple[_Part, _Part]:
    """Return the streams of actions, and of pairs of an action and a half of one of the first n_pairs segments."""
    shape = (len(batches), n_actions, 1 + n_pairs)
    gains, weighted = np.zeros((*shape, 2, len(STAKE_FACTORS))), np.zeros((*shape, 2))
    stakes = np.empty((len(batches), n_actions, len(STAKE_FACTORS)))
    taken = rows._replace(inside=np.ascontiguousarray(rows.inside[:, :n_pairs]))
    plays, earned, squares = np.zeros(n_actions), np.zeros(n_actions), np.zeros(n_actions)
    interactions = 0.0
    totals = _totals(taken, batches)
    for k in range(len(batches)):
        predictions = (earned + FIRST_PREDICTION) / (plays + 1.0)
        first = PRIOR_INTERACTIONS * FIRST_VARIANCE * rows.bounds.shape[1]
        variances = (squares + first) / (interactions + PRIOR_INTERACTIONS)
        stakes[k] = np.minimum(STAKE_FACTORS / np.sqrt(variances)[:, None], MAX_STREAM_STAKE)
        tally = RewardTally(gains[k], weighted[k], np.zeros((n_actions, 3)))
        _tally_batch(taken, batches, k, predictions, stakes[k], tally)
        plays += tally.plays[:, 0]
        earned += tally.plays[:, 1]
        squares = VARIANCE_MEMORY * squares + tally.plays[:, 2]
        interactions = VARIANCE_MEMORY * interactions + totals[k, 0]
    of_actions = Streams(gains[:, :, 0].swapaxes(0, 1), np.tile(totals[:, 0], (n_actions, 1)), stakes.swapaxes(0, 1))
    names = tuple(f"the reward of action {a}" for a in range(n_actions))
    return _Part(of_actions, names, weighted[:, :, 0].swapaxes(0, 1)), _pairs(gains, weighted, totals, stakes, segments)


def _tally_batch(
    rows: TimedRows, batches: Batches, k: int, predictions: FloatArray, stakes: FloatArray, tally: RewardTally
) -> None:
    start, stop = int(batches.edges[k]), int(batches.edges[k + 1])
    over_cores(lambda a, b: tally_rewards(rows, start, stop, predictions, stakes, tally, a, b), count=len(predictions))


def _pairs(
    gains: FloatArray, weighted: FloatArray, totals: FloatArray, stakes: FloatArray, segments: Segments
) -> _Part:
    """Return streams of pairs: gains (K, A, 1 + G, 2, J), sums (K, A, 1 + G, 2), totals (K, 1 + G), stakes (K, A, J).

    The gains of a second half are those of all rows less those of the first half.
    """
    n_actions, n_pairs = gains.shape[1], gains.shape[2] - 1
    of_halves: list[FloatArray] = []
    counts: list[FloatArray] = []
    sums: list[FloatArray] = []
    names: list[str] = []
    for g in range(1, 1 + n_pairs):
        for own, words in ((True, segments.names[g - 1]), (False, segments.others[g - 1])):
            of_halves.append(gains[:, :, g] if own else gains[:, :, 0] - gains[:, :, g])
            sums.append(weighted[:, :, g] if own else weighted[:, :, 0] - weighted[:, :, g])
            counts.append(np.tile(totals[:, g] if own else totals[:, 0] - totals[:, g], (n_actions, 1)))
            names += [f"the reward of action {a} where {words}" for a in range(n_actions)]
    shape = (0, len(totals), 2, gains.shape[-1])
    bets = Streams(
        np.concatenate([np.empty(shape), *(one.swapaxes(0, 1) for one in of_halves)]),
        np.concatenate([np.empty(shape[:2]), *counts]),
        np.tile(stakes.swapaxes(0, 1), (2 * n_pairs, 1, 1)),
    )
    # The first batch cut the halves, so they do not bet there.
    bets.gains[:, 0] = 0.0
    bets.counts[:, 0] = 0.0
    return _Part(bets, tuple(names), np.concatenate([np.empty(shape[:3]), *(one.swapaxes(0, 1) for one in sums)]))


def _bet_on_contexts(rows: TimedRows, batches: Batches, segments: Segments) -> _Part:
    """Return the streams of whether contexts lie in the first halves of segments."""
    totals = _totals(rows, batches)
    inside, every = totals[:, 1:].T, np.tile(totals[:, 0], (len(segments), 1))
    before, all_before = np.cumsum(inside, axis=1) - inside, np.cumsum(every, axis=1) - every
    share = (before + 0.5) / (all_before + 1.0)
    stakes = np.minimum(STAKE_FACTORS / np.sqrt(share * (1.0 - share))[..., None], MAX_STREAM_STAKE)
    gains = np.stack([inside, every - inside], axis=2)[..., None] * np.log1p(stakes)[:, :, None, :]
    counts = every.copy()
    gains[:, 0], counts[:, 0] = 0.0, 0.0  # the first batch cut the halves
    names = tuple(f"the share of contexts where {name}" for name in segments.names)
    return _Part(Streams(gains, counts, stakes), names, np.stack([inside, every], axis=2))


def _totals(rows: TimedRows, batches: Batches) -> FloatArray:
    """Return the number of interactions of each batch (K, 1 + G), in all and in the first half of each segment."""
    out = np.empty((len(batches), 1 + rows.inside.shape[1]))
    for k in range(len(batches)):
        own = rows.order[batches.edges[k] : batches.edges[k + 1]]
        repeats = rows.repeats[own]
        out[k, 0] = repeats.sum()
        out[k, 1:] = repeats @ rows.inside[own]
    return out


NEGLIGIBLE_LOG_SHARE = -10.0  # log-share of the needed evidence; smaller streams are left out at earlier moments


def look_for_drift(log: Log, *, needed: float, first_rows: int = FIRST_BATCH_ROWS) -> AssumptionCheck:
    """Test whether contexts or rewards changed; needed: the log-evidence for an alarm.

    first_rows: the smallest number of interactions of the first batch.
    """
    by_rounds = has_rounds(log)
    why_not = "" if by_rounds else reason_against_order(log)
    if why_not:
        return AssumptionCheck(DRIFT, 0.0, needed, "", why_not)
    waits = "" if (out := int(log.awaited.sum())) == 0 else f"; {count_of(out, 'reward')} pending"
    complete = first_complete(log)
    if complete is None:
        return AssumptionCheck(
            DRIFT, 0.0, needed, "", f"changes are looked for in rounds whose rewards are all in{waits}"
        )
    cut = batches_of_rounds if by_rounds else batches_of_rows
    log = first_visits(complete)
    batches = cut(log, first_rows=first_rows)
    if len(batches) < 2:
        what = "rows" if batches.by_rows else "rounds"
        why_not = (
            f"changes are looked for after the {what} that hold the first {first_rows} interactions, and none follow"
        )
        return AssumptionCheck(DRIFT, 0.0, needed, "", why_not, by_rows=batches.by_rows)
    means = gather_means(log, batches)
    if means is None:
        why_not = "contexts have no features or ids to look at, and rewards leave [0, 1]"
        return AssumptionCheck(DRIFT, 0.0, needed, "", why_not, by_rows=batches.by_rows)
    found = find_change(means, needed=needed)
    people = "" if log.units is None else ", the first visits of people,"
    cuts = f"in {count_of(len(batches), 'batch')}{waits}"
    number, noun = (len(log), "row") if batches.by_rows else (len(np.unique(log.rounds)), "round")
    return AssumptionCheck(
        DRIFT,
        found.log_evidence,
        needed,
        _drift_words(log, batches, means, found),
        f"{means.looked_at}, over {in_number(number, number, noun)}{people} {cuts}",
        by_rows=batches.by_rows,
    )


def first_complete(log: Log) -> Log | None:
    """Return the rounds before the first with a pending reward; None if that is the first round."""
    out = log.rounds[log.awaited]
    if len(out) == 0:
        return log
    before = log.rounds < out.min()
    return log.only(before) if before.any() else None


@dataclass(frozen=True)
class Change:
    """The e-process of drift at a moment.

    log_evidence: its logarithm.
    stream: the stream that contributes most.
    change: the batch at whose beginning that changed, most probably.
    batches: the number of batches until then.
    """

    log_evidence: float
    stream: int
    change: int
    batches: int


def find_change(means: Means, *, needed: float) -> Change:
    """Return the evidence against constant means now, or at an earlier moment if only that suffices for an alarm."""
    n_streams, n_batches = means.bets.counts.shape
    who, every = bettors(means.bets.stakes.shape[2]), np.arange(n_streams, dtype=np.int64)
    now, earlier = _least(means, who, every, n_batches)
    if now.log_evidence >= needed:
        return now
    above = earlier + means.log_weights[:, None]
    totals = np.logaddexp.reduce(above, axis=0)
    for k in map(int, np.argsort(-totals, kind="stable")):
        if totals[k] < needed:
            break
        worth: IntArray = np.flatnonzero(above[:, k] >= needed + NEGLIGIBLE_LOG_SHARE)
        then, _ = _least(means, who, worth, k + 1)
        if then.log_evidence >= needed:
            return then
    return now


def _least(means: Means, who: Bettors, chosen: IntArray, n_batches: int) -> tuple[Change, FloatArray]:
    """Return the evidence of these streams after so many batches.

    Also return upper bounds on the log-wealth of each at earlier times (·, n_batches).
    """
    bets = Streams(*(np.ascontiguousarray(array[chosen]) for array in means.bets))
    found, earlier = np.zeros((len(chosen), 4)), np.zeros((len(chosen), n_batches))
    over_cores(lambda a, b: least_log_wealth(bets, who, n_batches, found, earlier, a, b), count=len(chosen))
    shares = found[:, 0] + means.log_weights[chosen]
    best = int(shares.argmax())
    total = float(np.logaddexp.reduce(shares))
    return Change(total, int(chosen[best]), int(found[best, 3]), n_batches), earlier


def _drift_words(log: Log, batches: Batches, means: Means, found: Change) -> str:
    """Describe the largest change: the mean before and after, and when it changed."""
    row = int(batches.edges[found.change])
    when = f"after about {row:,} rows" if batches.by_rows else f"from about round {log.rounds[batches.order[row]]} on"
    sums = means.sums[found.stream]
    before, after = sums[: found.change].sum(axis=0), sums[found.change : found.batches].sum(axis=0)
    if before[1] == 0 or after[1] == 0:
        return f"{means.names[found.stream]} changed {when}"
    was, became = before[0] / before[1], after[0] / after[1]
    return f"{means.names[found.stream]} went from about {was:.3g} to {became:.3g} {when}"
