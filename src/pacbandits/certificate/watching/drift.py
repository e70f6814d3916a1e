"""Drift: (context, rewards) that are not drawn from one distribution over all rows.

**Streams.** Under the assumption the mean of each of these is the same in every batch, though unknown:

- of an action a, the reward r(c, a) that it would earn;
- of a half of the contexts (`segments`), whether a context lies in it;
- of a pair, the reward of a among the contexts of that half.

Rewards of actions are not all seen. With b ≤ p what was known of the propensity of a before the action was drawn (p
itself, where a log tells all), a cap M, and a prediction f̂ made from earlier batches,

    X = f + 1{a played}·(r − f)/p,     f = min(f̂, b·M)

has E[X | c] = r(c, a) where p > 0. Where p = 0 also b = 0, so X = f = 0 ≤ r(c, a). And X ≥ f − f/p ≥ −M, as f/p ≤ f/b.
For bets that the mean is lower the same is made of 1 − r, with 1 − f̂. The cap acts through the control variate, so M
may be as small as one likes however small p is.

**One batch.** Let m be the true mean of a stream, λ > 0 with λM < 1, and λ, M, f̂ fixed before the batch (so not by the
contexts in it). Then 1 + λX > 0 and E[1 + λX | past] ≤ 1 + λm, also given that the context lies in a half: the product
of (1 + λX)/(1 + λm) over the rows of the stream is a nonnegative supermartingale, at any time, whatever propensities
do. The numerators do not depend on m, so one pass over the rows serves every m.

**Batches.** Products of such factors are supermartingales when stakes change from batch to batch; so are mixtures: over
the batch k from which on a bet on "higher" takes the place of one on "lower" or the other way round (weights over all k
ever possible sum to 1), and over stakes before and after it. Let W(m) be that mixture for a hypothetical mean m
(`wealth`). As the true mean is one of all m in [0, 1], min_m W(m) is at most a supermartingale that begins at 1. So is
the average of that over streams. By Ville's inequality it reaches 1/α at any batch's end with probability α at most.

The switch between directions is what makes such a test strong: no m escapes, since one too high for the rows before a
change loses there what it gains after it. Against a change of D at the middle of n rows of variance σ² it gains about
nD²/(8σ²), as much as the likelihood ratio of two known means could.

**People who come back.** Each of v visits of a unit counts 1/v in the sums and numbers of rows above, all of them in
one batch. With h the share of its visits that lie in a half, and X̄ the mean of X among these, the factor of a unit is
at most ((1 + λX̄)/(1 + λm))^h ≤ 1 + hλ(X̄ − m)/(1 + λm), which is 1 on average if m is the mean of hX̄ by that of h.

**Rewards that come late.** Rows whose rewards are in may differ from those whose are not, as a failure may be known
sooner than a success. So only the first rounds are looked at whose rewards are all in: how many these are may depend on
anything, as the bound is of all batches at once.

Segments are cut by the contexts of batch 0, where they and pairs do not bet; actions bet there with stakes and
predictions that are constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.conventions import first_visits, has_rounds
from pacbandits.certificate.watching.batches import (
    FIRST_BATCH_ROWS,
    Batches,
    batches_of_rounds,
    batches_of_rows,
    reason_against_order,
)
from pacbandits.certificate.watching.check import DRIFT, Check, in_number
from pacbandits.certificate.watching.means import Means, gather_means
from pacbandits.certificate.watching.wealth import Bettors, Streams, bettors, least_log_wealth
from pacbandits.compiled import over_cores
from pacbandits.errors import count_of
from pacbandits.records import Log

NEGLIGIBLE_LOG_SHARE = -10.0  # of what is needed; a stream that adds less is left out of earlier moments


def look_for_drift(log: Log, *, needed: float, first_rows: int = FIRST_BATCH_ROWS) -> Check:
    """Evidence that contexts or rewards changed; needed: its logarithm from which on there is an alarm.

    first_rows: how many interactions the first batch has, at least.
    """
    by_rounds = has_rounds(log)
    why_not = "" if by_rounds else reason_against_order(log)
    if why_not:
        return Check(DRIFT, 0.0, needed, "", why_not)
    waits = "" if (out := int(log.awaited.sum())) == 0 else f"; {count_of(out, 'reward')} not in yet"
    complete = first_complete(log)
    if complete is None:
        return Check(DRIFT, 0.0, needed, "", f"changes are looked for in rounds whose rewards are all in{waits}")
    cut = batches_of_rounds if by_rounds else batches_of_rows
    log = first_visits(complete)
    batches = cut(log, first_rows=first_rows)
    if len(batches) < 2:
        what = "rows" if batches.by_rows else "rounds"
        why_not = (
            f"changes are looked for after the {what} that hold the first {first_rows} interactions, and none follow"
        )
        return Check(DRIFT, 0.0, needed, "", why_not, by_rows=batches.by_rows)
    means = gather_means(log, batches)
    if means is None:
        why_not = "contexts have no features or ids to look at, and rewards leave [0, 1]"
        return Check(DRIFT, 0.0, needed, "", why_not, by_rows=batches.by_rows)
    found = find_change(means, needed=needed)
    people = "" if log.units is None else ", the first visits of people,"
    cuts = f"in {count_of(len(batches), 'batch')}{waits}"
    number, noun = (len(log), "row") if batches.by_rows else (len(np.unique(log.rounds)), "round")
    return Check(
        DRIFT,
        found.log_evidence,
        needed,
        _words(log, batches, means, found),
        f"{means.looked_at}, over {in_number(number, number, noun)}{people} {cuts}",
        by_rows=batches.by_rows,
    )


def first_complete(log: Log) -> Log | None:
    """The rounds before the first that awaits a reward; None where that is the first of all."""
    out = log.rounds[log.awaited]
    if len(out) == 0:
        return log
    before = log.rounds < out.min()
    return log.only(before) if before.any() else None


@dataclass(frozen=True)
class Change:
    """The e-process of drift at a moment.

    log_evidence: its logarithm.
    stream: that contributes most.
    change: the batch at whose beginning that changed, most probably.
    batches: how many had passed.
    """

    log_evidence: float
    stream: int
    change: int
    batches: int


def find_change(means: Means, *, needed: float) -> Change:
    """The evidence against constant means now, or if that is not enough at an earlier moment when it was."""
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
    """What these streams say after so many batches, and what bounds each from above at earlier times (·, n_batches)."""
    bets = Streams(*(np.ascontiguousarray(array[chosen]) for array in means.bets))
    found, earlier = np.zeros((len(chosen), 4)), np.zeros((len(chosen), n_batches))
    over_cores(lambda a, b: least_log_wealth(bets, who, n_batches, found, earlier, a, b), count=len(chosen))
    shares = found[:, 0] + means.log_weights[chosen]
    best = int(shares.argmax())
    total = float(np.logaddexp.reduce(shares))
    return Change(total, int(chosen[best]), int(found[best, 3]), n_batches), earlier


def _words(log: Log, batches: Batches, means: Means, found: Change) -> str:
    """What changed most, from what to what, and when."""
    row = int(batches.edges[found.change])
    when = f"after about {row:,} rows" if batches.by_rows else f"from about round {log.rounds[batches.order[row]]} on"
    sums = means.sums[found.stream]
    before, after = sums[: found.change].sum(axis=0), sums[found.change : found.batches].sum(axis=0)
    if before[1] == 0 or after[1] == 0:
        return f"{means.names[found.stream]} changed {when}"
    was, became = before[0] / before[1], after[0] / after[1]
    return f"{means.names[found.stream]} went from about {was:.3g} to {became:.3g} {when}"
