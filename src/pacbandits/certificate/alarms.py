"""Test the assumptions of a certificate on its log: drift, and actions not drawn with their propensities."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.check import (
    DRIFT,
    FIRST_BATCH_ROWS,
    MAX_ACTIONS,
    MAX_PAIRS,
    SAMPLE_RATIO,
    AssumptionCheck,
    Batches,
    PlayTally,
    Segments,
    TimedRows,
    alarm_words,
    batches_of_rounds,
    by_gravity,
    cut_in_halves,
    in_number,
    seen_rows,
    tally_plays,
)
from pacbandits.certificate.conventions import first_visits, has_rounds
from pacbandits.certificate.drift import look_for_drift
from pacbandits.checks import number
from pacbandits.compiled import over_cores
from pacbandits.confidence import alarm_threshold
from pacbandits.records import Log
from pacbandits.records.policy import call

# The sample ratio: whether actions were drawn with the propensities that the log states.
#
# For an action a, let p be its propensity in a row and b what was known of it before the action was drawn: p itself if
# the log has all propensities, else a minimum propensity b ≤ p, maybe 0. For a tilt κ > −1 that is fixed before the
# row, the factor
#
#     F = (1 + 1{a played}·b'κ/p)/(1 + b'κ),     b' = b for κ < 0,  b' ≥ 0 anything known before for κ > 0
#
# is never negative (for κ < 0 as b'/p ≤ 1), and E[F | past, c] = (1 + 1{p > 0}·b'κ)/(1 + b'κ) ≤ 1: for κ > 0 whether p
# is 0 or not, for κ < 0 because then either p > 0 or b' = b = 0. With b' = p it is the likelihood ratio of tilted
# propensities, those of a by 1 + κ = e^θ. Actions played too seldom are detected by κ < 0 if b > 0, and otherwise
# because some others are played too often.
#
# F does not depend on the other rows: its product over rows is the same in any order. So nothing is assumed about the
# order of rows within a round, and a log of one round can be tested as well. Products over the rows whose contexts lie
# in a half (`check.Segments`) are as valid, and all rows count in them: halves are cut by contexts alone, and given
# *all* contexts, as these are independent of each other, actions are still drawn with their propensities. The test
# mixes over actions, halves, tilts, and the batches of rounds at which such a bet begins (weights over all ever
# possible sum to 1): a supermartingale that begins at 1, whose maximum over the ends of batches reaches 1/α with
# probability α at most.
#
# For the m visits of a unit F^(1/m) replaces F, which is less on average, also if a unit is given one action for good:
# then its factors are drawn together, and their geometric mean is no larger than their mean.


TILTS = np.expm1([sign * 2.0**-j for sign in (1.0, -1.0) for j in range(-1, 7)])
FIRST_START_SHARE = 0.5  # of the weight, for bets that begin with the log
START_SHARE = 1.0 / 50.0  # of the remaining weight, for bets that begin with the next batch


def look_at_ratio(log: Log, *, needed: float, first_rows: int = FIRST_BATCH_ROWS) -> AssumptionCheck:
    """Test whether actions were drawn with their propensities; needed: the log-evidence for an alarm.

    first_rows: the smallest number of interactions of the first batch of rounds.
    """
    if log.n_actions == 1:
        return AssumptionCheck(SAMPLE_RATIO, 0.0, needed, "", "there is one action alone, which is always played")
    log = first_visits(log) if has_rounds(log) else log
    batches = batches_of_rounds(log, first_rows=first_rows)
    # With a single batch the log may still grow, so that not all of it may cut segments.
    first = batches.order[: batches.edges[1] if len(batches) > 1 else first_rows]
    n_actions = min(log.n_actions, MAX_ACTIONS)
    segments = cut_in_halves(log.contexts, first, most=MAX_PAIRS // n_actions)
    gains, counts = _bet_on_plays(log, batches, segments, n_actions)
    found = find_mismatch(gains)
    said = f"the plays of {in_number(n_actions, log.n_actions, 'action')}"
    if len(segments):
        said += f", in all and by {in_number(len(segments), len(segments), 'segment')} of contexts"
    over = in_number(log.samples, log.samples, "interaction")
    over += "" if log.units is None else f" of {log.n_units:,} people, each counted once,"
    over += f" in {in_number(len(batches), len(batches), 'batch')}"
    return AssumptionCheck(
        SAMPLE_RATIO,
        found.log_evidence,
        needed,
        _ratio_words(log, batches, segments, counts, found),
        f"{said}, over {over}",
    )


@dataclass(frozen=True)
class Mismatch:
    """The e-process of the sample ratio at its largest.

    log_evidence: its logarithm.
    action: of the bet that contributes most.
    half: 0 for a bet on all rows, else its place among the halves of segments, from 1.
    start: the batch with which it began, most probably.
    batches: the number of batches until then.
    """

    log_evidence: float
    action: int
    half: int
    start: int
    batches: int


def find_mismatch(gains: FloatArray) -> Mismatch:
    """Return the largest evidence at the end of any batch, given gains (K, A, 1 + 2G, J)."""
    n_batches, n_actions, n_halves, n_tilts = gains.shape
    shares = np.full(n_halves, 1.0 if n_halves == 1 else 0.5)
    shares[1:] /= max(n_halves - 1, 1)
    log_weights = np.log(shares / (n_actions * n_tilts))[:, None]
    wealth, starts = np.full(gains.shape[1:], -np.inf), np.zeros(gains.shape[1:], dtype=np.int64)
    best, left = Mismatch(-np.inf, 0, 0, 0, 1), 1.0
    for k in range(n_batches):
        share = START_SHARE if k else FIRST_START_SHARE
        fresh = np.log(left * share)
        left *= 1.0 - share
        starts = np.where(fresh > wealth, k, starts)
        wealth = np.logaddexp(wealth, fresh) + gains[k]
        weighted = wealth + log_weights
        total = float(np.logaddexp.reduce(weighted, axis=None))
        if total > best.log_evidence:
            spot = int(weighted.argmax())
            action, half = divmod(spot // n_tilts, n_halves)
            best = Mismatch(total, action, half, int(starts.flat[spot]), k + 1)
    return best


def _bet_on_plays(log: Log, batches: Batches, segments: Segments, n_actions: int) -> tuple[FloatArray, FloatArray]:
    """Return gains (K, A, 1 + 2G, J), and plays, Σ b, Σ 1{a}/p (K, A, 1 + 2G, 3).

    The third axis has all rows, then the first and the second half of each segment.
    """
    rows, shape = seen_rows(log, batches, segments), (len(batches), n_actions, 1 + len(segments))
    gains, counts = np.zeros((*shape, len(TILTS))), np.zeros((*shape, 3))
    guess = 0.0 if log.least is None else 1.0 / log.n_actions
    for k in range(len(batches)):
        _tally_plays_of_batch(rows, batches, k, guess, PlayTally(gains[k], counts[k]))
    return _with_other_halves(gains), _with_other_halves(counts)


def _tally_plays_of_batch(rows: TimedRows, batches: Batches, k: int, guess: float, tally: PlayTally) -> None:
    start, stop = int(batches.edges[k]), int(batches.edges[k + 1])
    over_cores(lambda a, b: tally_plays(rows, start, stop, TILTS, guess, tally, a, b), count=len(tally.gains))


def _with_other_halves(sums: FloatArray) -> FloatArray:
    """Return sums (K, A, 1 + G, ·) over all rows and first halves with those over second halves (K, A, 1 + 2G, ·)."""
    out = np.empty((*sums.shape[:2], 2 * sums.shape[2] - 1, sums.shape[3]))
    out[:, :, 0] = sums[:, :, 0]
    out[:, :, 1::2] = sums[:, :, 1:]
    out[:, :, 2::2] = sums[:, :, :1] - sums[:, :, 1:]
    return out


def _ratio_words(log: Log, batches: Batches, segments: Segments, counts: FloatArray, found: Mismatch) -> str:
    """Describe the mismatch: the action, its number of plays, the expected number, the segment and the first round."""
    plays, expected, stands_for = counts[found.start : found.batches, found.action, found.half].sum(axis=0)
    action = call(found.action, log.action_names)
    if log.least is None:
        words = f"{action} was played {plays:,.0f} times where {expected:,.1f} were expected"
    else:
        words = (
            f"{action} was played {plays:,.0f} times, which by their propensities stand for "
            f"{stands_for:,.1f} interactions"
        )
    if log.units is not None:
        words += ", each person counted once"
    if found.half:
        g, other = divmod(found.half - 1, 2)
        words += f", among contexts where {(segments.others if other else segments.names)[g]}"
    if found.start:
        words += f", from round {log.rounds[batches.order[batches.edges[found.start]]]} on"
    return words


FALSE_ALARM_RATE = 0.01


def look(log: Log, *, false_alarms: float = FALSE_ALARM_RATE, shuffled: bool = False) -> tuple[AssumptionCheck, ...]:
    """Test the assumptions of a log's certificates: one check for drift, one for a sample-ratio mismatch.

    shuffled: whether a proof shuffles the rows of the log, which has a single round and no time. A change along the
        file is then a remark: a file that is sorted by place, say, has one although rows are independent draws from one
        distribution.
    false_alarms: the probability that either ever raises an alarm, at all analyses of a growing log together, although
        contexts and rewards are drawn from one distribution and actions with their propensities; half of it each.
        Adaptive propensities cause no alarms.

    >>> import numpy as np
    >>> import pacbandits as pb
    >>> rng = np.random.default_rng(0)
    >>> actions, early = rng.integers(2, size=6000), np.arange(6000) < 3600
    >>> rewards = rng.random(6000) < np.where((actions == 0) == early, 0.8, 0.2)  # what was good becomes bad
    >>> log = pb.Log.of(
    ...     pb.Contexts.of(np.zeros((6000, 0))), actions=actions, rewards=rewards, propensities=np.full((6000, 2), 0.5)
    ... )
    >>> [check.alarm for check in look(log)]
    [True, False]
    """
    rate = number(false_alarms, name="false_alarms", above=0, below=1, wanted="lie strictly between 0 and 1")
    needed = alarm_threshold(rate)
    drift = look_along_file(log, needed=needed) if shuffled else look_for_drift(log, needed=needed)
    return drift, look_at_ratio(log, needed=needed)


def look_along_file(log: Log, *, needed: float = alarm_threshold(FALSE_ALARM_RATE)) -> AssumptionCheck:
    """Test whether rows that a proof shuffles change along their file; a change is a remark."""
    drift = look_for_drift(log, needed=needed)
    return replace(drift, remark=drift.by_rows and drift.found)


ORDER_IS_FREE = "rows count in an order by their contents, whatever their order in the file"


def look_by_content(early: Log, *, false_alarms: float = FALSE_ALARM_RATE) -> tuple[AssumptionCheck, ...]:
    """Test the assumptions on rows in the order of their contents: the same results for any order of the file.

    Drift needs an order in time, and is not tested. early: the rows, or the first of them, numbered by block.
    """
    needed = alarm_threshold(number(false_alarms, name="false_alarms", above=0, below=1))
    rows = replace(early, rounds=np.zeros(len(early), dtype=np.int64))
    return AssumptionCheck(DRIFT, 0.0, needed, "", ORDER_IS_FREE), look_at_ratio(rows, needed=needed)


# A certificate assumes that contexts and rewards are drawn independently from one distribution, and actions with the
# propensities that the log states. Neither can be proven; both can be refuted. Each is tested by an e-process: a
# nonnegative number that is at most 1 on average while the assumption holds, at any time, and that grows exponentially
# fast if it fails in a way that was bet on. By Ville's inequality it ever reaches 1/α with probability at most α: one
# may test after every round, for ever, on logs collected in any adaptive way.


__all__ = [
    "FALSE_ALARM_RATE",
    "ORDER_IS_FREE",
    "AssumptionCheck",
    "alarm_words",
    "by_gravity",
    "look",
    "look_along_file",
    "look_by_content",
]
