"""Scores of all algorithms on each case, with published defaults and with the best option of a grid.

The best options are chosen by the runs that they are then judged by, which favours algorithms with a grid: rivals
have one, `coda` is played with its defaults alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import Any, Literal

import numpy as np
from scipy import special

from pacbandits.algorithms import profile_of
from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.benchmark.cases import Row
from pacbandits.errors import InputError
from pacbandits.rivals.base import FIRST_ROUND, next_checkpoint

# Confidence intervals over seeds: exact for shares and medians, by Student's t for means.


CONFIDENCE = 0.9


@dataclass(frozen=True)
class IntervalEstimate:
    """A value with a 90 % confidence interval.

    value: infinite if it is beyond the budget.
    low, high: 0 and infinite if there are too few runs.
    """

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float | None]:
        """Serialise to JSON-compatible values; null for infinite values and NaN."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {name: number(value) for name, value in values.items()}


def number(value: float | None) -> float | None:
    """Return a finite number unchanged; None for infinite values and NaN."""
    return value if value is not None and math.isfinite(value) else None


def share_interval(count: int, runs: int, *, confidence: float = CONFIDENCE) -> IntervalEstimate:
    """Return a share with exact binomial limits (Clopper and Pearson, 1934), each with error probability (1 − c)/2.

    low = B(α/2; k, n − k + 1) and high = B(1 − α/2; k + 1, n − k), B the quantile of a beta law and α = 1 − c.

    >>> from pacbandits.benchmark.standings import share_interval
    >>> found = share_interval(0, 10)
    >>> found.low, round(found.high, 3)
    (0.0, 0.259)
    """
    if runs == 0:
        return IntervalEstimate(math.nan, 0.0, 1.0)
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if count == 0 else float(special.betaincinv(count, runs - count + 1, tail))
    high = 1.0 if count == runs else float(special.betaincinv(count + 1, runs - count, 1.0 - tail))
    return IntervalEstimate(count / runs, low, high)


def median_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> IntervalEstimate:
    """Return the median with distribution-free limits, the order statistics x_(k) and x_(n+1−k).

    k is the largest for which 2 P(Binomial(n, ½) < k) ≤ 1 − c. Infinite values are censored ones: a median or an end
    among them is infinite too. Fewer than five values give no 90 % limits.
    """
    x = sorted(values)
    n = len(x)
    if n == 0:
        return IntervalEstimate(math.nan, 0.0, math.inf)
    middle = x[n // 2] if n % 2 else 0.5 * (x[n // 2 - 1] + x[n // 2])
    k = 0
    while k < n // 2 and 2.0 * float(special.bdtr(k, n, 0.5)) <= 1.0 - confidence:
        k += 1
    return IntervalEstimate(middle, x[k - 1], x[n - k]) if k else IntervalEstimate(middle, 0.0, math.inf)


def mean_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> IntervalEstimate:
    """Return the mean with Student's limits: mean ± t s/√n."""
    x = np.asarray(values, dtype=np.float64)
    mean = float(x.mean()) if len(x) else math.nan
    if len(x) < 2:
        return IntervalEstimate(mean, -math.inf, math.inf)
    wide = float(special.stdtrit(len(x) - 1, 0.5 + confidence / 2.0) * x.std(ddof=1) / math.sqrt(len(x)))
    return IntervalEstimate(mean, mean - wide, mean + wide)


def quantile_interval(draws: Any, *, value: float, confidence: float = CONFIDENCE) -> IntervalEstimate:
    """Return a value with quantiles of its bootstrap draws, some of which may be infinite."""
    x = np.sort(np.asarray(draws, dtype=np.float64))
    cut = math.floor((1.0 - confidence) / 2.0 * (len(x) - 1) + 1e-9)  # of 101 draws, five at each end
    return IntervalEstimate(value, float(x[cut]), float(x[len(x) - 1 - cut]))


# Measures by which runs are compared, all from logged rows.
#
# *Oracle stopping* uses the truth: the smallest n of a fixed grid at which 1 − δ of the seeds hold a policy within ε.
# *Certified stopping* does not: the n at which our certificate, applied to the run's log, accepts. An algorithm's own
# proof is compared with the truth as well. A run that does not reach its target within `most` interactions is censored:
# it counts as taking longer, in every median and interval.


Reading = Literal["own", "pooled"]
BOOTSTRAP_DRAWS = 1_000
BOOTSTRAP_SEED = 7
# Gaps are differences of sums of floating-point numbers: one that is ε up to rounding is within ε.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Reached:
    """The point from which enough runs hold a good policy.

    samples: the smallest n of the grid, infinite if there is none; its interval by a bootstrap over seeds.
    reading: which answer: the algorithm's own, or the best policy by the certificate's estimates from its log.
    held: the share of runs that hold a good policy at the end.
    """

    samples: IntervalEstimate
    reading: Reading
    held: float

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {"samples": self.samples.to_json(), "reading": self.reading, "held": self.held}


@dataclass(frozen=True)
class Stopped:
    """When runs stop by a proof, and how often it is wrong.

    samples: the median over seeds, infinite if fewer than half of them stop.
    runs: their number.
    stopped: the number of those that stop.
    wrong: the number of those with a policy further than ε from the best.
    error: the share of wrong ones among all runs, with exact limits.
    times: when each run stops, infinite if it does not.
    """

    samples: IntervalEstimate
    runs: int
    stopped: int
    wrong: int
    error: IntervalEstimate
    times: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        counts = {"runs": self.runs, "stopped": self.stopped, "wrong": self.wrong}
        return {"samples": self.samples.to_json()} | counts | {"error": self.error.to_json()}


@dataclass(frozen=True)
class RunCost:
    """The cost of runs.

    lost: regret against the best policy, up to a number of interactions; see `regret_at`.
    samples: that number.
    decision_microseconds: for one decision, the median over runs.
    seconds: of choosing and learning in a run, the median.
    seconds_certifying: of our certificate, for an algorithm without one.
    microseconds_a_sample: of choosing and learning, per interaction.
    """

    lost: IntervalEstimate
    samples: int
    decision_microseconds: float
    seconds: float
    seconds_certifying: float
    microseconds_a_sample: float

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        names = ("decision_microseconds", "seconds", "seconds_certifying", "microseconds_a_sample")
        clock = {name: number(getattr(self, name)) for name in names}
        return {"lost": self.lost.to_json(), "samples": self.samples} | clock


def within(gap: float, epsilon: float) -> bool:
    """Whether a policy with this gap is within ε of the best."""
    return gap <= epsilon + ROUNDING


def grid(most: int, *, growth: float) -> tuple[int, ...]:
    """Return the fixed grid: 10, then each point larger by a share, up to `most`.

    >>> from pacbandits.benchmark.standings import grid
    >>> grid(40, growth=0.5)
    (10, 15, 22, 33)
    """
    points: list[int] = []
    point = FIRST_ROUND
    while point <= most:
        points.append(point)
        point = next_checkpoint(point, growth=growth)
    return tuple(points)


def good_on_grid(row: Row, *, reading: Reading, points: Sequence[int]) -> BoolArray:
    """Return whether a run holds a policy within ε at each point (G,), by its last evaluation; False before any."""
    gaps = np.asarray(row.gaps if reading == "own" else row.leader_gaps)
    last = np.searchsorted(np.asarray(row.points, dtype=np.int64), points, side="right") - 1
    good = np.append(gaps <= row.epsilon + ROUNDING, False)  # the last entry is for points before the first evaluation
    return good[last]


def oracle_stopping(rows: Sequence[Row]) -> Reached:
    """Return from when on 1 − δ of the runs hold a policy within ε, by the earlier of the two readings."""
    row = same_setting(rows)
    points = grid(row.most, growth=row.growth)
    both = row.certified and any(one.leader_gaps for one in rows)  # otherwise only ours would have two answers
    readings: list[Reading] = ["own", "pooled"] if both else ["own"]
    held = [np.array([good_on_grid(one, reading=name, points=points) for one in rows]) for name in readings]
    enough = math.ceil((1.0 - row.delta) * len(rows) - ROUNDING)
    ends = np.append(np.asarray(points, dtype=np.float64), math.inf)
    once = np.ones((1, len(rows)))
    found = [float(_first(once, one, ends, enough=enough)[0]) for one in held]
    rng = np.random.default_rng([BOOTSTRAP_SEED, len(rows)])
    drawn = rng.multinomial(len(rows), np.full(len(rows), 1.0 / len(rows)), size=BOOTSTRAP_DRAWS).astype(np.float64)
    draws = np.min([_first(drawn, one, ends, enough=enough) for one in held], axis=0)
    sooner = int(np.argmin(found))
    kept = float(held[sooner][:, -1].mean()) if points else 0.0
    return Reached(quantile_interval(draws, value=found[sooner]), readings[sooner], kept)


def _first(counts: FloatArray, held: BoolArray, ends: FloatArray, *, enough: int) -> FloatArray:
    """Return the first point (D,) with enough good runs; counts (D, S) of each run, held (S, G), ends (G + 1,)."""
    reached = counts @ held.astype(np.float64) >= enough - 0.5
    return ends[np.where(reached.any(axis=1), reached.argmax(axis=1), len(ends) - 1)]


def certified_stopping(rows: Sequence[Row]) -> Stopped | None:
    """Return when our certificate accepts; None if none is made."""
    if not same_setting(rows).certified:
        return None
    return _stopped(rows, [(row.certified_at, row.certified_gap) for row in rows])


def own_stopping(rows: Sequence[Row]) -> Stopped:
    """Return when the algorithm stops by its own proof, which it must have."""
    same_setting(rows)
    return _stopped(rows, [(row.own_at, row.own_gap) for row in rows])


def _stopped(rows: Sequence[Row], ends: Sequence[tuple[int | None, float | None]]) -> Stopped:
    """Return when runs stop, from the number of interactions of each and the gap of its answer."""
    times = [math.inf if at is None else float(at) for at, _ in ends]
    wrong = sum(1 for (_, gap), row in zip(ends, rows, strict=True) if gap is not None and not within(gap, row.epsilon))
    stopped = sum(1 for time in times if math.isfinite(time))
    return Stopped(median_interval(times), len(rows), stopped, wrong, share_interval(wrong, len(rows)), tuple(times))


def regret_at(row: Row, samples: float) -> float:
    """Return the expected regret in this many interactions, as `regret_curve`."""
    return float(regret_curve(row, np.array([samples], dtype=np.float64))[0])


def regret_curve(row: Row, samples: FloatArray) -> FloatArray:
    """Return the expected regret against the best policy in these numbers of interactions (G,).

    Within a round every interaction loses the same; after its end a run continues with the policy that it answered,
    and loses its gap each time.
    """
    if not row.points:
        return np.full(len(samples), math.nan)
    end = row.points[-1]
    gap = row.gaps[-1] if row.certified_gap is None else row.certified_gap
    lost = np.interp(np.minimum(samples, end), (0, *row.points), (0.0, *row.regrets))
    return lost + np.maximum(samples - end, 0.0) * gap


def cost(rows: Sequence[Row], *, samples: int) -> RunCost:
    """Return the cost of runs, with the regret up to this many interactions."""
    same_setting(rows)
    lost = [regret_at(row, samples) for row in rows]
    return RunCost(
        mean_interval([one for one in lost if math.isfinite(one)]),
        samples,
        _median([row.decision_microseconds for row in rows]),
        _median([row.seconds for row in rows]),
        _median([row.seconds_certifying for row in rows]),
        _median([1e6 * row.seconds / row.samples for row in rows if row.samples]),
    )


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.median(known)) if known else math.nan


def same_setting(rows: Sequence[Row]) -> Row:
    """Return the first of runs that differ in their seeds alone; raise InputError if they differ otherwise."""
    if not rows:
        raise InputError("there are no runs to measure; play some with pacbandits bench")
    asked = {(r.case, r.algorithm, r.epsilon, r.delta, r.most, r.growth, r.certified, r.problem) for r in rows}
    if len(asked) > 1 or len({row.seed for row in rows}) < len(rows):
        raise InputError(
            f"runs of '{rows[0].algorithm}' on '{rows[0].case}' differ in more than their seeds, or have a seed "
            "twice; run them again in a new folder"
        )
    return rows[0]


Yardstick = Literal["certified", "oracle"]
OURS = "coda"
BASELINE = "uniform"


# An algorithm that is clearly behind on a case need not play more seeds there: it is not the best other, and its place
# in a table does not depend on a digit. After k runs it is behind if its median is above 1 + 1.5/√k times the smallest
# median. Stopping times vary by about a third between seeds, so that 1.5/√k is three or more standard errors of a
# ratio; the smallest of fifty medians is a lucky one, which takes one or two of these back.
MIN_SCREENED_RUNS = 2
SCREENED_SLACK = 1.5


def is_ours(entry: str) -> bool:
    """Whether an entry is our algorithm, also with another kind of answer: `coda`, `coda single`."""
    return entry.split()[0].split(":")[0] == OURS


def behind(times: Mapping[str, Sequence[float]]) -> frozenset[str]:
    """Return the algorithms that are clearly behind on a case.

    times: of each algorithm by its spec, when its runs were certified, infinite if they were not. Ours and uniform
        exploration, which every table refers to, are never behind.

    >>> from pacbandits.benchmark.standings import behind
    >>> sorted(behind({"exp4": [100.0, 120.0], "plas": [180.0, 300.0], "rage": [300.0, 900.0], "adacb": [999.0]}))
    ['rage']
    """
    middle = {spec: median_low(one) for spec, one in times.items() if len(one) >= MIN_SCREENED_RUNS}
    least = min((value for spec, value in middle.items() if not is_ours(spec)), default=math.inf)
    return frozenset(
        spec
        for spec, value in middle.items()
        if value > (1.0 + SCREENED_SLACK / math.sqrt(len(times[spec]))) * least
        and spec.split(":")[0] not in (OURS, BASELINE)
    )


@dataclass(frozen=True)
class Score:
    """The score of an algorithm with its options, on a case.

    entry, spec, role: its name in tables, its spec with options, and whether these are its defaults.
    seeds: of its runs.
    oracle: from when on enough runs hold a good policy.
    certified: when our certificate accepts; None if none is made.
    own: when its own proof does; None if it has none or only ours, and for tuned options, which may break it.
    cost: of its runs.
    """

    entry: str
    spec: str
    role: str
    seeds: tuple[int, ...]
    oracle: Reached
    certified: Stopped | None
    own: Stopped | None
    cost: RunCost

    def by(self, yardstick: Yardstick) -> float:
        """Return the number of interactions by a yardstick, infinite if there is none."""
        if yardstick == "oracle":
            return self.oracle.samples.value
        return math.inf if self.certified is None else self.certified.samples.value

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {
            "entry": self.entry,
            "algorithm": self.spec,
            "role": self.role,
            "runs": len(self.seeds),
            "oracle": self.oracle.to_json(),
            "certified": None if self.certified is None else self.certified.to_json(),
            "own": None if self.own is None else self.own.to_json(),
            "cost": self.cost.to_json(),
        }


@dataclass(frozen=True)
class Line:
    """An algorithm in a table.

    entry: its name in the table.
    default: with its published options; None if it was not played with them.
    best: with the options that do best by the yardstick, which may be the default.
    knobs: the number of options tried.
    """

    entry: str
    default: Score | None
    best: Score
    knobs: int


@dataclass(frozen=True)
class CaseStanding:
    """All algorithms on a case.

    row: one of its runs, for the inputs.
    samples: interactions up to which regret is compared: the median until uniform play is certified.
    scores: one for each algorithm with its options.
    """

    row: Row
    samples: int
    scores: tuple[Score, ...]

    @property
    def case(self) -> str:
        """The name of the case in tables."""
        return self.row.case

    @property
    def yardstick(self) -> Yardstick:
        """The measure by which algorithms are sorted: certified stopping, if certificates are made."""
        return "certified" if self.row.certified else "oracle"

    @cached_property
    def played_enough(self) -> tuple[Score, ...]:
        """The scores of at least half as many runs as any has: one of few runs may be the best by luck."""
        most = max(len(score.seeds) for score in self.scores)
        return tuple(score for score in self.scores if 2 * len(score.seeds) >= most)

    def lines(self, yardstick: Yardstick) -> tuple[Line, ...]:
        """Return a line for each algorithm, the fastest first; options with few runs are not its best, as by luck."""
        names = dict.fromkeys(score.entry for score in self.scores)
        lines: list[Line] = []
        for name in names:
            tried = [score for score in self.scores if score.entry == name]
            default = next((score for score in tried if score.role == "default"), None)
            enough = [score for score in tried if score in self.played_enough] or tried
            lines.append(Line(name, default, min(enough, key=lambda one: order(one, yardstick)), len(tried)))
        return tuple(sorted(lines, key=lambda line: order(line.best, yardstick)))

    def line(self, entry: str, yardstick: Yardstick) -> Line | None:
        """Return the line of one algorithm, if it was played."""
        return next((line for line in self.lines(yardstick) if line.entry == entry), None)

    def best_other(self, yardstick: Yardstick) -> Score | None:
        """Return the best algorithm that is not ours, with its best options, of those with enough runs if any has."""
        others = [score for score in self.scores if not is_ours(score.entry)]
        enough = [score for score in others if score in self.played_enough]
        return min(enough or others, key=lambda one: order(one, yardstick), default=None)

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        asked = ("case", "problem", "policies", "epsilon", "delta", "most")
        named = {name: getattr(self.row, name) for name in asked}
        return named | {"scores": [score.to_json() for score in self.scores]}


def order(score: Score, yardstick: Yardstick) -> tuple[float, float, bool, float]:
    """Sort key in a table: the yardstick, then how many runs stop, then defaults first, then the other yardstick."""
    stopped = 0 if yardstick == "oracle" or score.certified is None else score.certified.stopped
    other: Yardstick = "oracle" if yardstick == "certified" else "certified"
    return score.by(yardstick), -stopped, score.role != "default", score.by(other)


def standings(rows: Sequence[Row], *, cases: Sequence[str] = ()) -> tuple[CaseStanding, ...]:
    """Return the standings of every case, counting a run that two suites share once; cases: their order, if known."""
    rows = list({_asked(row): row for row in reversed(rows)}.values())[::-1]
    played = list(dict.fromkeys(row.case for row in rows))
    known = [case for case in cases if case in played]
    listed = [*known, *(case for case in played if case not in known)]
    return tuple(standing([row for row in rows if row.case == case]) for case in listed)


def standing(rows: Sequence[Row]) -> CaseStanding:
    """Return the standing of all algorithms on the case of these rows."""
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda one: one.seed):
        groups.setdefault(row.algorithm, []).append(row)
    firsts = [same_setting(group) for group in groups.values()]
    if len({_asked(row)[:-2] for row in firsts}) > 1:
        raise InputError(f"runs of '{rows[0].case}' have different settings; run the case again in a new folder")
    samples = _common_samples(groups.values())
    return CaseStanding(firsts[0], samples, tuple(_score(group, samples=samples) for group in groups.values()))


def _asked(row: Row) -> tuple[str | float, ...]:
    """Return the inputs of a run: the case, the algorithm and the seed."""
    of_case = (row.case, row.problem, row.policies, row.epsilon, row.delta, row.most, row.growth, row.certified)
    return (*of_case, row.algorithm, row.seed)


def _common_samples(groups: Iterable[Sequence[Row]]) -> int:
    """Return until when regret is compared: the median until uniform play is certified; else the whole budget."""
    most = 0
    for rows in groups:
        most = rows[0].most
        found = certified_stopping(rows) if rows[0].entry == BASELINE else None
        if found is not None and math.isfinite(found.samples.value):
            return math.ceil(found.samples.value)
    return most


def _score(rows: Sequence[Row], *, samples: int) -> Score:
    row = rows[0]
    return Score(
        row.entry,
        row.algorithm,
        row.role,
        tuple(one.seed for one in rows),
        oracle_stopping(rows),
        certified_stopping(rows),
        own_stopping(rows) if row.role == "default" and _proves(rows) else None,
        cost(rows, samples=samples),
    )


def _proves(rows: Sequence[Row]) -> bool:
    """Whether an algorithm stops by a proof that is not ours, by its profile or its runs."""
    try:
        profile = profile_of(rows[0].algorithm)
    except InputError:  # from another version of this package, or a user's own
        return any(row.own_at is not None and row.own_at != row.certified_at for row in rows)
    return profile.proves and not (profile.certifies and rows[0].certified)
