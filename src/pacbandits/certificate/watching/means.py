"""The streams of a log whose means must not change, and the bets on them, batch by batch.

`drift` says what the scores are and why they may be bet on so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.watching.batches import Batches
from pacbandits.certificate.watching.check import in_number
from pacbandits.certificate.watching.segments import Segments, cut_in_halves
from pacbandits.certificate.watching.tallies import MAX_ACTIONS, MAX_PAIRS, RewardTally, Seen, seen_rows, tally_rewards
from pacbandits.certificate.watching.wealth import Streams
from pacbandits.compiled import over_cores
from pacbandits.records import Log
from pacbandits.records.dates import date_parts
from pacbandits.records.naming import call

_OF_ACTION = re.compile(r"(?<=^the reward of )action (\d+)")  # of which streams tell, which know numbers alone

STAKE_FACTORS = 2.0 ** -np.arange(10)  # of one over the standard deviation of a stream
MAX_STREAM_STAKE = 4.0
FIRST_PREDICTION = 0.5
FIRST_VARIANCE = 0.25  # of rewards; of scores, times the number of actions
PRIOR_INTERACTIONS = 10.0  # that the first variance counts for later
VARIANCE_MEMORY = 0.5  # of what earlier batches say of a variance, as propensities change


@dataclass(frozen=True, eq=False)
class Means:
    """The streams of a log, with what their bets are in_number from.

    bets: gains, counts and stakes of S streams in K batches.
    names (S,): what each is the mean of, in words.
    looked_at: all of them together, in words.
    log_weights (S,): of each in the average.
    sums (S, K, 2): total and number, whose ratio estimates the mean in a batch; for words alone.
    """

    bets: Streams
    names: tuple[str, ...]
    looked_at: str
    log_weights: FloatArray
    sums: FloatArray


def gather_means(log: Log, batches: Batches) -> Means | None:
    """Bets on every stream of the log, on rewards only if all lie in [0, 1]; None if there is nothing to bet on."""
    calendar = date_parts(log.contexts.names, log.dates)  # a date that moves on is no drift
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
    rows: Seen, batches: Batches, segments: Segments, n_actions: int, n_pairs: int
) -> tuple[_Part, _Part]:
    """Of actions, and of pairs of an action and a half of one of the first n_pairs segments."""
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
    rows: Seen, batches: Batches, k: int, predictions: FloatArray, stakes: FloatArray, tally: RewardTally
) -> None:
    start, stop = int(batches.edges[k]), int(batches.edges[k + 1])
    over_cores(lambda a, b: tally_rewards(rows, start, stop, predictions, stakes, tally, a, b), count=len(predictions))


def _pairs(
    gains: FloatArray, weighted: FloatArray, totals: FloatArray, stakes: FloatArray, segments: Segments
) -> _Part:
    """Streams of pairs from gains (K, A, 1 + G, 2, J) and sums (K, A, 1 + G, 2), totals (K, 1 + G), stakes (K, A, J).

    What the second half of a segment gained is what all rows did, less what the first half did.
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
    # The first batch has cut the halves.
    bets.gains[:, 0] = 0.0
    bets.counts[:, 0] = 0.0
    return _Part(bets, tuple(names), np.concatenate([np.empty(shape[:3]), *(one.swapaxes(0, 1) for one in sums)]))


def _bet_on_contexts(rows: Seen, batches: Batches, segments: Segments) -> _Part:
    """Of whether contexts lie in the first halves of segments."""
    totals = _totals(rows, batches)
    inside, every = totals[:, 1:].T, np.tile(totals[:, 0], (len(segments), 1))
    before, all_before = np.cumsum(inside, axis=1) - inside, np.cumsum(every, axis=1) - every
    share = (before + 0.5) / (all_before + 1.0)
    stakes = np.minimum(STAKE_FACTORS / np.sqrt(share * (1.0 - share))[..., None], MAX_STREAM_STAKE)
    gains = np.stack([inside, every - inside], axis=2)[..., None] * np.log1p(stakes)[:, :, None, :]
    counts = every.copy()
    gains[:, 0], counts[:, 0] = 0.0, 0.0  # the first batch has cut the halves
    names = tuple(f"the share of contexts where {name}" for name in segments.names)
    return _Part(Streams(gains, counts, stakes), names, np.stack([inside, every], axis=2))


def _totals(rows: Seen, batches: Batches) -> FloatArray:
    """How many interactions a batch has (K, 1 + G), in all and in the first half of each segment."""
    out = np.empty((len(batches), 1 + rows.inside.shape[1]))
    for k in range(len(batches)):
        own = rows.order[batches.edges[k] : batches.edges[k + 1]]
        repeats = rows.repeats[own]
        out[k, 0] = repeats.sum()
        out[k, 1:] = repeats @ rows.inside[own]
    return out
