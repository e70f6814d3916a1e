"""Measures by which runs are compared: a good policy held, a good policy proven, and the cost of both.

All from logged rows. *Oracle stopping* knows the truth: the least n of a fixed grid at which 1 − δ of the seeds hold a
policy within ε. *Certified stopping* does not: the n at which our certificate, applied to what the run logged, accepts.
Where an algorithm has a proof of its own, that is held against the truth as well. A run that does not get there within
`most` interactions counts as one that would take longer, and is part of every median and interval as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.benchmark.intervals import (
    IntervalEstimate,
    mean_interval,
    median_interval,
    number,
    quantile_interval,
    share_interval,
)
from pacbandits.benchmark.rows import Row
from pacbandits.errors import InputError
from pacbandits.rivals.base import FIRST_ROUND, next_checkpoint

Reading = Literal["own", "pooled"]
BOOTSTRAP_DRAWS = 1_000
BOOTSTRAP_SEED = 7
# Gaps are differences of sums of doubles: one that is ε up to rounding is within ε.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Reached:
    """From when on enough runs hold a good policy.

    samples: the least n of the grid, infinite if there is none; its interval by a bootstrap over seeds.
    reading: whose answer it is: the algorithm's own, or the best policy by the certificate's estimates from its log.
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

    samples: the median over seeds, infinite if less than half of them stop.
    runs: how many there are.
    stopped: how many of them stop.
    wrong: how many of them with a policy further than ε from the best.
    error: the share of wrong ones among all runs, exact.
    times: when each run stops, infinite where it does not.
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
    """What runs cost.

    lost: reward lost against the best policy, up to a number of interactions; see `regret_at`.
    samples: that number.
    decision_microseconds: for one decision, the median over runs.
    seconds: of choosing and learning in a run, the median.
    seconds_certifying: that our certificate took over an algorithm which has none of this kind.
    microseconds_a_sample: of choosing and learning, by interaction.
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
    """Whether a policy is within ε of the best."""
    return gap <= epsilon + ROUNDING


def grid(most: int, *, growth: float) -> tuple[int, ...]:
    """The fixed grid: 10, and then a share more each time, up to `most`.

    >>> from pacbandits.benchmark.yardsticks import grid
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
    """Whether a run holds a policy within ε at each point (G,): that of its last look; nothing before the first."""
    gaps = np.asarray(row.gaps if reading == "own" else row.leader_gaps)
    last = np.searchsorted(np.asarray(row.points, dtype=np.int64), points, side="right") - 1
    good = np.append(gaps <= row.epsilon + ROUNDING, False)  # the last for what is before the first look
    return good[last]


def oracle_stopping(rows: Sequence[Row]) -> Reached:
    """From when on 1 − δ of the runs hold a policy within ε, by the reading of their logs that is the sooner."""
    row = same_setting(rows)
    points = grid(row.most, growth=row.growth)
    both = row.certified and any(one.leader_gaps for one in rows)  # else only ours would have two answers
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
    """The least point (D,) at which enough runs are good; counts (D, S) of each run, held (S, G), ends (G + 1,)."""
    reached = counts @ held.astype(np.float64) >= enough - 0.5
    return ends[np.where(reached.any(axis=1), reached.argmax(axis=1), len(ends) - 1)]


def certified_stopping(rows: Sequence[Row]) -> Stopped | None:
    """When our certificate accepts; None where none is made."""
    if not same_setting(rows).certified:
        return None
    return _stopped(rows, [(row.certified_at, row.certified_gap) for row in rows])


def own_stopping(rows: Sequence[Row]) -> Stopped:
    """When the algorithm stops by a proof of its own, which it must have."""
    same_setting(rows)
    return _stopped(rows, [(row.own_at, row.own_gap) for row in rows])


def _stopped(rows: Sequence[Row], ends: Sequence[tuple[int | None, float | None]]) -> Stopped:
    """When runs stop, by the number of interactions of each and the gap of its answer."""
    times = [math.inf if at is None else float(at) for at, _ in ends]
    wrong = sum(1 for (_, gap), row in zip(ends, rows, strict=True) if gap is not None and not within(gap, row.epsilon))
    stopped = sum(1 for time in times if math.isfinite(time))
    return Stopped(median_interval(times), len(rows), stopped, wrong, share_interval(wrong, len(rows)), tuple(times))


def regret_at(row: Row, samples: float) -> float:
    """The reward lost in so many interactions, as `regret_curve` has it."""
    return float(regret_curve(row, np.array([samples], dtype=np.float64))[0])


def regret_curve(row: Row, samples: FloatArray) -> FloatArray:
    """The reward lost against the best policy in so many interactions (G,), in expectation.

    Within a round every interaction loses the same; after its end a run goes on with the policy that it answered with,
    and loses its gap each time.
    """
    if not row.points:
        return np.full(len(samples), math.nan)
    end = row.points[-1]
    gap = row.gaps[-1] if row.certified_gap is None else row.certified_gap
    lost = np.interp(np.minimum(samples, end), (0, *row.points), (0.0, *row.regrets))
    return lost + np.maximum(samples - end, 0.0) * gap


def cost(rows: Sequence[Row], *, samples: int) -> RunCost:
    """What runs cost, with the reward lost up to so many interactions."""
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
    """The first of runs that differ in their seeds alone; raises where they do not."""
    if not rows:
        raise InputError("there are no runs to measure; play some with pacbandits bench")
    asked = {(r.case, r.algorithm, r.epsilon, r.delta, r.most, r.growth, r.certified, r.problem) for r in rows}
    if len(asked) > 1 or len({row.seed for row in rows}) < len(rows):
        raise InputError(
            f"runs of '{rows[0].algorithm}' on '{rows[0].case}' differ in more than their seeds, or have a seed twice; "
            "play them anew in a folder of their own"
        )
    return rows[0]
