"""Checks of a certificate's assumptions on its log: the result record, and tallies by batch and segment."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.errors import InputError, as_called, count_of, plain
from pacbandits.records import Contexts, Log
from pacbandits.records.row_order import COUNTED, NO_ORDER, says
from pacbandits.schema import Json

CheckKind = Literal["drift", "sample ratio"]

DRIFT: CheckKind = "drift"
SAMPLE_RATIO: CheckKind = "sample ratio"

MAX_WORDS_CHARACTERS = 600  # of each text of a check
MAX_LOGARITHM = 1e12  # of evidence; more than any log can give
MAX_ODDS = 10**9  # larger odds are reported as this

_SEGMENT_FEATURE = re.compile(r"among contexts where '(.*?)' is ")
_SIGNS: dict[CheckKind, str] = {DRIFT: "drift", SAMPLE_RATIO: "a sample-ratio mismatch"}


@dataclass(frozen=True)
class AssumptionCheck:
    """The result of testing one assumption of a certificate.

    kind: "drift" (rows that are not draws from one distribution) or "sample ratio" (actions that were not drawn with
        their propensities).
    log_evidence: the logarithm of the e-process now, or at an earlier moment when it was larger; while the assumption
        holds, it ever reaches L with probability at most e^{−L}.
    needed: the log-evidence from which on there is an alarm.
    where: the strongest sign, in words; "" if nothing could be tested.
    looked_at: what was tested, in words, or why nothing could be.
    by_rows: whether the order of the rows was taken for that of time, as the log has a single round.
    remark: whether the proof does not depend on that order, but on contents, so that a sign is no alarm.
    """

    kind: CheckKind
    log_evidence: float
    needed: float
    where: str
    looked_at: str
    by_rows: bool = False
    remark: bool = False

    @property
    def looked(self) -> bool:
        """Whether anything could be tested."""
        return self.where != ""

    @property
    def found(self) -> bool:
        """Whether there is a sign against the assumption."""
        return self.looked and self.log_evidence >= self.needed

    @property
    def alarm(self) -> bool:
        """Whether the assumption is refuted."""
        return self.found and not self.remark

    def describe(self) -> str:
        """Return the result as a sentence."""
        sign = _SIGNS[self.kind]
        if not self.looked:
            return f"{sign} was not looked for: {self.looked_at}"
        if not self.found:
            return (
                f"no sign of {sign} in {self.looked_at}; chance alone raises an alarm in at most "
                f"{100.0 * math.exp(-self.needed):.2g} % of logs"
            )
        if self.remark:
            return (
                f"rows differ along the file: {self.where}; the proof does not depend on their order in the "
                "file. If they stand in the order of time, name it (--time COLUMN, or --ordered), and this is "
                "drift; if their order means nothing, say --order none"
            )
        return (
            f"signs of {sign}: {self.where}; {self._meaning()}, so what the log seems to prove may be wrong (chance "
            f"alone gives such a sign in at most 1 of {_odds(self.log_evidence):,} logs)"
        )

    def _meaning(self) -> str:
        """Return what an alarm means for the log, in words."""
        if self.kind == SAMPLE_RATIO:
            after = ""
            if (feature := _SEGMENT_FEATURE.search(self.where)) is not None:
                name = feature[1]
                remedy = as_called(f"--without '{name}'")
                after = f"if '{name}' was recorded after the action, certify without it ({remedy}); if it was before, "
            return (
                f"{after}actions were not drawn with the propensities that the log states or the split gives: if the "
                "split is wrong, correct it; if it is right, rows were lost or added after the draw"
            )
        if self.by_rows:
            return (
                "either contexts or rewards changed while the log was collected, or its rows are sorted and do not "
                "stand in the order in which they occurred"
            )
        return "contexts or rewards changed while the log was collected"

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values; `remark` only if it is true, as older files lack it."""
        return {name: value for name, value in asdict(self).items() if name != "remark" or value}

    @classmethod
    def from_json(cls, value: object) -> AssumptionCheck:
        """Return the check that `to_json` wrote."""
        if not isinstance(value, dict):
            raise InputError(f"a check of a log must be an object, got {plain(value)}")
        given, names = cast(Json, value), [field.name for field in fields(cls)]
        if {"remark": False, **given}.keys() != set(names):
            raise InputError(
                f"a check of a log has the fields {', '.join(names)}, not {plain(', '.join(map(str, given)))}"
            )
        if not isinstance(given["kind"], str) or given["kind"] not in _SIGNS:
            raise InputError(f"a check of a log is of '{DRIFT}' or '{SAMPLE_RATIO}', not of '{plain(given['kind'])}'")
        for name in ("by_rows", "remark"):
            if type(given.get(name, False)) is not bool:
                raise InputError(f"'{name}' of a check must be true or false, got {plain(given[name])}")
        made = cls(
            kind=given["kind"],
            log_evidence=_number(given, "log_evidence"),
            needed=_number(given, "needed"),
            where=_words(given, "where"),
            looked_at=_words(given, "looked_at"),
            by_rows=given["by_rows"],
            remark=given.get("remark", False),
        )
        if made.remark and not (made.kind == DRIFT and made.by_rows and made.found):
            raise InputError("only a sign of drift along the rows of a file can be a remark of a check")
        if made.needed <= 0:
            raise InputError(f"'needed' of a check must be positive, got {made.needed:g}")
        return made


def by_gravity(checks: Sequence[AssumptionCheck]) -> tuple[AssumptionCheck, ...]:
    """Return checks in the order of a report: wrong propensities first, as they can cause the other alarms."""
    return tuple(sorted(checks, key=lambda check: check.kind != SAMPLE_RATIO))


def alarm_words(checks: Sequence[AssumptionCheck]) -> tuple[str, ...]:
    """Return the alarms as sentences, the gravest first."""
    alarms = [check for check in by_gravity(checks) if check.alarm]
    words = [check.describe() for check in alarms]
    if len(alarms) > 1 and alarms[0].kind == SAMPLE_RATIO:
        words[1:] = [f"{one}; the mismatch may be all that is behind this" for one in words[1:]]
    return tuple(words)


def _number(given: Json, name: str) -> float:
    value = given[name]
    if type(value) not in (int, float) or not abs(value) <= MAX_LOGARITHM:
        raise InputError(f"'{name}' of a check must be a number, got {plain(value)}")
    return float(value)


def _words(given: Json, name: str) -> str:
    value = given[name]
    if not isinstance(value, str) or not value.isprintable() or len(value) > MAX_WORDS_CHARACTERS:
        raise InputError(
            f"'{name}' of a check must be printable text of {MAX_WORDS_CHARACTERS} characters at most, got "
            f"{plain(value)}"
        )
    return value


def _odds(log_evidence: float) -> int:
    """Return e^L, rounded down to one digit."""
    odds = int(math.exp(min(log_evidence, math.log(MAX_ODDS) + 1e-9)))
    unit = 10 ** (len(str(odds)) - 1)
    return odds // unit * unit


def in_number(taken: int, there: int, noun: str) -> str:
    """Return a count with its noun: `5 actions`, `1 batch`, `the first 3 of 5 actions`."""
    words = count_of(there, noun)
    return words if taken == there else f"the first {taken:,} of {words}"


# Batches: the interactions of a log in the order of time, as far as it is known, in batches that grow.
#
# Rounds follow each other; within a round rows may stand in any order (simulated ones stand in the order of their
# contexts, and equal interactions are one row with its number of repeats). A log of a single round has no order but
# that of its rows. A returning unit counts once, in the batch of its first visit.
#
# Predictions and stakes for a batch are learnt from the batches before it. The end of a batch depends only on the
# number of interactions (or people) before it, so a growing log keeps its batches.


FIRST_BATCH_ROWS = 100
BATCH_GROWTH = 0.1  # a batch has at least this share of all interactions before it


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of rows: batch k has the rows order[edges[k]] to order[edges[k + 1] − 1].

    order (n,): the rows, by time.
    edges (K + 1,): the starts of batches; last, n.
    by_rows: whether the order of the rows was taken for that of time.
    """

    order: IntArray
    edges: IntArray
    by_rows: bool

    def __len__(self) -> int:
        return len(self.edges) - 1


def batches_of_rounds(log: Log, *, first_rows: int = FIRST_BATCH_ROWS) -> Batches:
    """Return batches of whole rounds; a log of a single round is one batch."""
    rising = bool((np.diff(log.rounds) >= 0).all())
    order = np.arange(len(log)) if rising else np.argsort(log.rounds, kind="stable").astype(np.int64)
    rounds = log.rounds[order]
    ends = np.append(np.flatnonzero(np.diff(rounds)) + 1, len(log))
    samples = np.rint(np.cumsum(log.weights[order])[ends - 1])
    return Batches(order, _edges(ends, samples, first_rows), by_rows=False)


def batches_of_rows(log: Log, *, first_rows: int = FIRST_BATCH_ROWS) -> Batches:
    """Return batches of the rows in their order."""
    order = np.arange(len(log), dtype=np.int64)
    return Batches(order, _edges(order + 1, order + 1, first_rows), by_rows=True)


def reason_against_order(log: Log) -> str:
    """Return why the rows of a log with a single round cannot stand in the order of time; or "".

    Ids name contexts, so rows with rising ids were sorted; rising ids without gaps are only row numbers.
    """
    if says(log.remarks, NO_ORDER):
        return f"{NO_ORDER}, as the reader of the log said"
    if says(log.remarks, COUNTED):
        return "the rows of counted blocks were read in a random order"
    if log.repeats.max() > 1:
        return "the log has a single round and counts repeated interactions, so nothing tells their order in time"
    ids = log.contexts.ids
    if ids is not None and ids[0] != ids[-1]:
        steps = np.diff(ids)
        if (steps >= 0).all() and (steps != 1).any():
            return "the log has a single round and rows sorted by context id, so nothing tells their order in time"
    return ""


def _edges(ends: IntArray, samples: IntArray | FloatArray, first_rows: int) -> IntArray:
    """Return the starts of batches (K + 1,); the last batch has the remaining rows, however few.

    ends (m,): the rows before which a batch may end. samples (m,): interactions until there.
    """
    edges, before, spot = [0], 0, 0
    while spot < len(ends):
        least = max(first_rows, before + BATCH_GROWTH * before)
        spot = min(int(np.searchsorted(samples, least)), len(ends) - 1)
        edges.append(int(ends[spot]))
        before, spot = int(samples[spot]), spot + 1
    return np.array(edges, dtype=np.int64)


# Segments cut the contexts in two halves: a change of their shares is drift of contexts, and rewards are also tested
# within a half.


MAX_SEGMENTS = 32
MAX_ID_SEGMENTS = 8


@dataclass(frozen=True, eq=False)
class Segments:
    """G ways to cut the contexts in two, fixed by the first rows.

    inside (n, G): 1 if a row's context lies in the first half, else 0.
    names (G,): descriptions of the first halves.
    others (G,): descriptions of the second halves.
    """

    inside: NDArray[np.uint8]
    names: tuple[str, ...]
    others: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


def cut_in_halves(
    contexts: Contexts, first: IntArray, *, most: int = MAX_SEGMENTS, but: Collection[str] = ()
) -> Segments:
    """Cut contexts in halves: a numeric feature at its median, a categorical one at its most common label.

    Medians and labels are those of the first rows. Contexts without features are cut by φ, without φ by ids: each of
    the most common ones against the rest. most: the largest number of cuts. but: features that are left out.
    """
    found = list(islice(_columns(contexts, first, but), min(most, MAX_SEGMENTS)))
    inside = np.empty((len(contexts), len(found)), dtype=np.uint8)
    for g, (rows, _, _) in enumerate(found):
        inside[:, g] = rows
    return Segments(inside, tuple(name for _, name, _ in found), tuple(other for _, _, other in found))


def _columns(contexts: Contexts, first: IntArray, but: Collection[str]) -> Iterator[tuple[BoolArray, str, str]]:
    """Yield cuts one by one: the rows in the first half, its name and that of the second."""
    for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
        values, word = contexts.features[:, j], f"'{plain(name)}'"
        if name in but:
            continue
        if labels is None:
            yield _halves(values, word, first)
        else:
            code = int(np.bincount(values[first].astype(np.int64)).argmax())
            yield values == code, f"{word} is '{plain(labels[code])}'", f"{word} is not '{plain(labels[code])}'"
    if contexts.n_features > 0:
        return
    if contexts.phi is not None:
        phi = contexts.phi
        for a in range(phi.n_actions):
            for k in range(phi.dimension):
                yield _halves(phi.table[phi.rows, a, k], f"phi {k} of action {a}", first)
    elif contexts.ids is not None:
        ids, counts = np.unique(contexts.ids[first], return_counts=True)
        for i in ids[np.argsort(-counts, kind="stable")[:MAX_ID_SEGMENTS]]:
            yield contexts.ids == i, f"the context id is {i}", f"the context id is not {i}"


def _halves(values: FloatArray, word: str, first: IntArray) -> tuple[BoolArray, str, str]:
    """Cut values above the lower median of the first rows; or at or above it, if that is nearer to a half.

    Missing values are not above. If missing against present is nearer to a half of the first rows, these are the
    halves.
    """
    early = values[first]
    there = np.sort(early[~np.isnan(early)])
    missing = 1.0 - len(there) / len(early)
    cut = float(there[(len(there) - 1) // 2]) if len(there) else math.inf
    above, below = (float(side.sum()) / len(early) for side in (there > cut, there < cut))
    if missing > 0 and min(missing, 1.0 - missing) >= max(above, below):
        return np.isnan(values), f"{word} is missing", f"{word} is not missing"
    too = ", or missing" if np.isnan(values).any() else ""
    if above >= below:
        return values > cut, f"{word} is above {cut:.4g}", f"{word} is {cut:.4g} or below{too}"
    return values >= cut, f"{word} is {cut:.4g} or above", f"{word} is below {cut:.4g}{too}"


# The rows of a log in the form that kernels take, and their sums over a batch, action by action. `drift` and `alarms`
# use these sums. Each action has its own places in the output, so cores share the actions out.


MAX_ACTIONS = 256  # that are tested
MAX_PAIRS = 128  # of an action and a segment

MAX_LOST_SHARE = 0.9  # λM: the share of its wealth that a bet may lose by a single row
MIN_PROPENSITY = 1e-100  # smaller propensities count as this, and smaller bounds on them as 0
PRODUCT_ROWS = 128  # multiplied before a logarithm is taken; factors lie between e⁻² and e²


class TimedRows(NamedTuple):
    """n rows of a log, with their order in time.

    order (n,): the rows by time.
    actions (n,): the played actions.
    rewards (n,): their rewards.
    repeats (n,): the weight of a row: its number of repeats, or 1/m for each of m visits of a unit.
    played (n,): the propensity of the played action.
    bounds (n, A): lower bounds on propensities, known before the action was drawn.
    inside (n, G): 1 if the context lies in the first half of a segment, else 0.
    """

    order: IntArray
    actions: IntArray
    rewards: FloatArray
    repeats: FloatArray
    played: FloatArray
    bounds: FloatArray
    inside: NDArray[np.uint8]


def seen_rows(log: Log, batches: Batches, segments: Segments) -> TimedRows:
    """Return the rows of a log in the form that kernels take."""
    bounds = np.ascontiguousarray(log.bounds)
    bounds.setflags(write=False)  # like arrays that were not copied, so that kernels are compiled for one kind only
    return TimedRows(
        order=batches.order,
        actions=log.actions,
        rewards=log.rewards,
        repeats=log.weights,
        played=log.played_propensities,
        bounds=bounds,
        inside=segments.inside,
    )


class RewardTally(NamedTuple):
    """Sums over the rows of one batch, for A actions; on the second axis [0] is all rows, [1 + g] a first half.

    gains (A, 1 + G, 2, J): Σ log(1 + λX), for bets that the mean is higher and that it is lower.
    weighted (A, 1 + G, 2): Σ 1{a}·r/p and Σ 1{a}/p.
    plays (A, 3): the number of plays, the sum of rewards, and Σ 1{a}(r − f̂)²/p².
    """

    gains: FloatArray
    weighted: FloatArray
    plays: FloatArray


class PlayTally(NamedTuple):
    """Sums over the rows of one batch, with the same first two axes as `RewardTally`.

    gains (A, 1 + G, J): Σ log((1 + 1{a}·bκ/p)/(1 + bκ)), for the tilts κ.
    counts (A, 1 + G, 3): plays, Σ b and Σ 1{a}/p.
    """

    gains: FloatArray
    counts: FloatArray


@kernel
def tally_rewards(
    rows: TimedRows,
    start: int,
    stop: int,
    predictions: FloatArray,
    stakes: FloatArray,
    tally: RewardTally,
    first_action: int,
    last_action: int,
) -> None:
    """Add up rows order[start] to order[stop − 1]; predictions f̂ (A,), stakes λ (A, J), both fixed before the batch.

    Stakes fall with j. Most scores of actions that were not played are f̂ itself: the loop adds only the differences
    from that, which occur for large stakes alone, and the end adds the common part.
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
            while used < n_stakes and stakes[a, used] * largest_centre > MAX_LOST_SHARE * bound:
                used += 1
            if used == 0:
                continue
            weight = rows.repeats[i]
            p = max(rows.played[i], MIN_PROPENSITY)
            capped = math.log1p(MAX_LOST_SHARE * bound)
            for d in range(2):
                reward = rows.rewards[i] if d == 0 else 1.0 - rows.rewards[i]
                for j in range(used):
                    stake = stakes[a, j]
                    centre = min(centres[d], MAX_LOST_SHARE * bound / stake)
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
    rows: TimedRows,
    start: int,
    stop: int,
    tilts: FloatArray,
    guess: float,
    tally: PlayTally,
    first_action: int,
    last_action: int,
) -> None:
    """Add up rows order[start] to order[stop − 1]; tilts κ (J,), guess: a lower limit on b where κ > 0.

    The factors of rows that occurred once are multiplied before a logarithm is taken.
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
