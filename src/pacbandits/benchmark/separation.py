"""The paper's separation, measured: how samples grow with m on the hard instance, for low regret and for us.

In the hard instance, every context has one wrong action that must be tried often enough to rule out that it is worth
more, and each try loses the gap. So an algorithm that finds the best policy with confidence loses reward of order m;
one that loses at most √(α A n) in n interactions needs m²/α of them. Policies through which a class of size m is played
at the minimax rate have α = log m (Theorem `inefficient-low-regret`). Separate regressions for each context have α of
order m, and the theorem then says no more than that m are needed.

The measure is oracle stopping: the smallest n of the grid at which 1 − δ of the seeds hold the best policy, with shares
made monotone in n. Trials that prove their answer have a second curve: when it is proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.benchmark.cases import Row
from pacbandits.benchmark.standings import (
    BOOTSTRAP_DRAWS,
    ROUNDING,
    IntervalEstimate,
    Reading,
    good_on_grid,
    grid,
    quantile_interval,
    regret_at,
    same_setting,
)
from pacbandits.complexity.lower_bounds import (
    coin_lower_bound,
    kl_of_flips,
    least_regret,
    low_regret_bound,
    lower_bound,
)
from pacbandits.errors import InputError
from pacbandits.options import parse_spec

BOOTSTRAP_SEED = 11

Until = Literal["right", "proven"]
Shape = Literal["m log m", "m^1.5", "m²/log m"]
SHAPES: dict[Shape, Callable[[FloatArray], FloatArray]] = {
    "m log m": lambda m: m * np.log(m),
    "m^1.5": lambda m: m**1.5,
    "m²/log m": lambda m: m**2 / np.log(m),
}


@dataclass(frozen=True)
class Family:
    """Hard instances that differ in m alone.

    coins: whether rewards are Bernoulli; else they are Gaussian.
    gap: Δ, by which a wrong action is worse.
    variance: of Gaussian rewards; 0 for Bernoulli rewards.
    delta: the probability that an answer may be wrong.
    """

    coins: bool
    gap: float
    variance: float
    delta: float

    @property
    def words(self) -> str:
        """The family in words."""
        noise = "coins" if self.coins else f"Gaussian rewards of variance {self.variance:g}"
        return f"{noise}, gap {self.gap:g}"

    def divergence(self) -> float:
        """Return the divergence of a wrong action's reward from one worth 2Δ more, with which another policy ties."""
        if self.coins:
            return float(kl_of_flips(np.array(0.5 - self.gap), np.array(0.5 + self.gap)))
        return 2.0 * self.gap**2 / self.variance

    def least_regret(self, m: int) -> float:
        """Return the least regret of an algorithm with error probability δ when it stops: the theorem's key step."""
        return least_regret(m, gap=self.gap, divergence=self.divergence(), delta=self.delta)

    def low_regret_bound(self, m: int) -> float:
        """Return the samples of an algorithm whose regret is at most √(A n log m) on every instance."""
        return low_regret_bound(m, gap=self.gap, divergence=self.divergence(), delta=self.delta)

    def lower_bound(self, m: int) -> float:
        """Return a lower bound on the samples of every algorithm.

        Two policies differ on two contexts, of probability 2/m together. If all rewards there are moved by Δ/2 to the
        middle, the two policies are equal; a sample there reveals that by at most the larger divergence of the two. For
        Gaussian rewards that is 2ρ_σ log(1/2.4δ), ρ_σ = 2mσ²/Δ².
        """
        if not self.coins:
            return lower_bound(2.0 * m * self.variance / self.gap**2, delta=self.delta)
        worth = np.array([0.5, 0.5 - self.gap])
        largest = float(kl_of_flips(worth, np.full(2, 0.5 - self.gap / 2.0)).max())
        return coin_lower_bound(2.0 / m * largest, delta=self.delta)


@dataclass(frozen=True)
class SeparationPoint:
    """The result of an algorithm at one m.

    m: of the instance.
    samples: interactions, infinite if the target is not reached.
    lost: regret by then against the best policy, the mean over runs.
    runs: their number.
    most: the budget of a run.
    """

    m: int
    samples: IntervalEstimate
    lost: float
    runs: int
    most: int


@dataclass(frozen=True)
class Fit:
    """A shape c·f(m) fitted to a curve.

    constant: c.
    misses: the root mean square of the log error, as a factor.
    """

    constant: float
    misses: float


@dataclass(frozen=True)
class SeparationCurve:
    """The results of an algorithm over m.

    entry, algorithm: its name, and its spec with options.
    until: the target: it holds the best policy, or has proven one.
    points: by rising m.
    slope: of log n over log m, by least squares over the m at which the target is reached.
    lost_slope: the same for the regret by then.
    fits: of each shape; empty, and the slopes NaN, with fewer than two such m.
    """

    entry: str
    algorithm: str
    until: Until
    points: tuple[SeparationPoint, ...]
    slope: IntervalEstimate
    lost_slope: float
    fits: dict[Shape, Fit]

    @property
    def reached(self) -> tuple[SeparationPoint, ...]:
        """The points at which the target is reached."""
        return tuple(point for point in self.points if math.isfinite(point.samples.value))

    @property
    def nearest_shape(self) -> Shape | None:
        """The shape with the smallest error."""
        return min(self.fits, key=lambda shape: self.fits[shape].misses) if self.fits else None


@dataclass(frozen=True)
class Separation:
    """All algorithms on a family of hard instances.

    family: of the instances.
    sizes: every m that was played.
    curves: of algorithms, in the order of their rows.
    """

    family: Family
    sizes: tuple[int, ...]
    curves: tuple[SeparationCurve, ...]

    def shape_slope(self, shape: Shape) -> float:
        """Return the slope of a shape over these m."""
        m = np.array(self.sizes, dtype=np.float64)
        return float(_slopes(np.log(m), np.log(SHAPES[shape](m))[None, :])[0])


def separations(rows: Sequence[Row]) -> tuple[Separation, ...]:
    """Return every family of hard instances played for the best policy at two or more m; other rows are left out."""
    found: dict[Family, dict[str, dict[int, list[Row]]]] = {}
    for row in rows:
        hard = hard_instance(row)
        if hard is not None:
            family, m = hard
            found.setdefault(family, {}).setdefault(row.algorithm, {}).setdefault(m, []).append(row)
    made: list[Separation] = []
    for family, played in found.items():
        sizes = tuple(sorted({m for groups in played.values() for m in groups}))
        if len(sizes) > 1:
            made.append(Separation(family, sizes, tuple(one for groups in played.values() for one in _curves(groups))))
    return tuple(made)


def hard_instance(row: Row) -> tuple[Family, int] | None:
    """Return the family and m of a row; None for other problems, classes and accuracies.

    `hard` with coins is left out: its wrong actions never pay, so that weighting by rewards is right from the start.
    """
    try:
        name, given = parse_spec(row.problem)
        m, gap = int(given.get("m", 10)), float(given.get("gap", 0.25 if name == "hard-coins" else 1.0))
        variance = 0.0 if name == "hard-coins" else float(given.get("variance", 1.0))
    except (InputError, ValueError):
        return None
    known = name == "hard-coins" or (name == "hard" and given.get("noise", "gaussian") == "gaussian" and variance > 0)
    if not known or row.policies or row.epsilon > gap / m + ROUNDING:
        return None
    return Family(name == "hard-coins", gap, variance, row.delta), m


def _curves(groups: dict[int, list[Row]]) -> list[SeparationCurve]:
    """Return the curve until an algorithm is right, and the one until it has proven it, if it does."""
    ordered = [sorted(groups[m], key=lambda row: row.seed) for m in sorted(groups)]
    proves = any(row.certified_at is not None for rows in ordered for row in rows)
    untils: tuple[Until, ...] = ("right", "proven") if proves else ("right",)
    return [_curve(sorted(groups), ordered, until=until) for until in untils]


def _curve(sizes: Sequence[int], groups: Sequence[Sequence[Row]], *, until: Until) -> SeparationCurve:
    points: list[SeparationPoint] = []
    draws: list[FloatArray] = []
    for m, rows in zip(sizes, groups, strict=True):
        times = _right(rows) if until == "right" else _proven(rows)
        samples = quantile_interval(times[1:], value=float(times[0]))
        lost = float(np.mean([regret_at(row, times[0]) for row in rows])) if math.isfinite(times[0]) else math.inf
        points.append(SeparationPoint(m, samples, lost, len(rows), rows[0].most))
        draws.append(np.minimum(times, rows[0].most))  # a draw that does not reach the target takes at least that long
    row = groups[0][0]
    slope, lost_slope, fits = _fit(points, np.array(draws).T)
    return SeparationCurve(row.entry, row.algorithm, until, tuple(points), slope, lost_slope, fits)


def _fit(points: Sequence[SeparationPoint], draws: FloatArray) -> tuple[IntervalEstimate, float, dict[Shape, Fit]]:
    """Fit slopes and shapes over the m at which the target is reached; draws (1 + D, M), the first row as observed."""
    there = np.array([math.isfinite(point.samples.value) for point in points])
    if there.sum() < 2:
        return IntervalEstimate(math.nan, -math.inf, math.inf), math.nan, {}
    m = np.array([point.m for point in points], dtype=np.float64)[there]
    seen = np.log(draws[:, there])
    slopes = _slopes(np.log(m), seen)
    lost = np.array([point.lost for point in points])[there]
    lost_slope = float(_slopes(np.log(m), np.log(lost)[None, :])[0]) if (lost > 0).all() else math.nan
    fits: dict[Shape, Fit] = {}
    for shape, f in SHAPES.items():
        off = seen[0] - np.log(f(m))
        fits[shape] = Fit(math.exp(off.mean()), math.exp(float(off.std())))
    return quantile_interval(slopes[1:], value=float(slopes[0])), lost_slope, fits


def _slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the least-squares slope (D,) of each row of y (D, M) over x (M,)."""
    centred = x - x.mean()
    return y @ centred / (centred @ centred)


def _right(rows: Sequence[Row]) -> FloatArray:
    """Return when 1 − δ of the runs hold the best policy: as observed, and in a bootstrap over seeds (1 + D,)."""
    row = same_setting(rows)
    points = grid(row.most, growth=row.growth)
    both = row.certified and any(one.leader_gaps for one in rows)  # otherwise only ours would have two answers
    readings: list[Reading] = ["own", "pooled"] if both else ["own"]
    enough = math.ceil((1.0 - row.delta) * len(rows) - ROUNDING)
    ends = np.append(np.asarray(points, dtype=np.float64), math.inf)
    counts, found = _counts(len(rows)), np.full(1 + BOOTSTRAP_DRAWS, math.inf)
    for reading in readings:
        held = np.array([good_on_grid(one, reading=reading, points=points) for one in rows])
        found = np.minimum(found, ends[first_risen(counts @ held.astype(np.float64), enough=enough)])
    return found


def first_risen(counts: FloatArray, *, enough: float) -> IntArray:
    """Return the first point (D,) at which monotone fits of counts (D, G) are enough; G if they never are.

    The fit is isotonic regression, y_i = max_{a ≤ i} min_{b ≥ i} mean(x_a … x_b). So y_i ≥ t holds iff no sum of x − t
    up to some b ≥ i is below all sums up to some a < i, which begins after the smallest of these sums. With few runs,
    the first point at which enough of them happen to be right comes too soon, and is half chance.
    """
    sums = np.cumsum(counts - enough, axis=1)
    return np.argmin(np.concatenate([np.zeros((len(counts), 1)), sums], axis=1), axis=1)


def _proven(rows: Sequence[Row]) -> FloatArray:
    """Return the lower median over runs of when the answer was proven, likewise (1 + D,)."""
    same_setting(rows)
    times = np.sort([math.inf if row.certified_at is None else float(row.certified_at) for row in rows])
    passed = np.cumsum(_counts(len(rows)), axis=1) >= len(rows) / 2.0 - ROUNDING
    return times[passed.argmax(axis=1)]


def _counts(runs: int) -> FloatArray:
    """Return the weight of each run (1 + D, runs): once as observed, then as resampled."""
    rng = np.random.default_rng([BOOTSTRAP_SEED, runs])
    drawn = rng.multinomial(runs, np.full(runs, 1.0 / runs), size=BOOTSTRAP_DRAWS)
    return np.concatenate([np.ones((1, runs)), drawn.astype(np.float64)])
