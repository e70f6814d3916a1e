"""What we claim of `coda`, held against the results: kept or broken, case by case.

Where the best design is worth much (uniform exploration's ρ is twice the optimum's or more), it is to be the first by
certified stopping; elsewhere to take no more than 1.1 times what the first takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.benchmark.intervals import Estimate, quantile_interval
from pacbandits.benchmark.standings import OURS, Score, Standing
from pacbandits.benchmark.yardsticks import BOOTSTRAP_DRAWS, BOOTSTRAP_SEED, Stopped

Bracket = tuple[float, float]
LARGE_RATIO = 2.0
TOLERATED_RATIO = 1.1


@dataclass(frozen=True)
class Verdict:
    """The claim on a case.

    case: its name.
    uniform_over_best: uniform exploration's ρ over the optimum's, a bracket; None where it is not known.
    ours: as it is published.
    rival: the best of all others with its best knob, by certified stopping.
    ratio: our median over that of the rival, with an interval; 0 where only we stop, no number where nobody does.
    allowed: the ratio that we claim to keep to.
    """

    case: str
    uniform_over_best: Bracket | None
    ours: Score
    rival: Score
    ratio: Estimate
    allowed: float

    @property
    def large(self) -> bool:
        """Whether the best design is worth much here, by what is known."""
        return self.uniform_over_best is not None and self.uniform_over_best[0] >= LARGE_RATIO

    @property
    def kept(self) -> bool | None:
        """Whether the medians are as we claim; None where nobody stops."""
        return None if math.isnan(self.ratio.value) else self.ratio.value <= self.allowed

    @property
    def beyond_chance(self) -> bool:
        """Whether the interval over seeds has no ratio on the other side of what is allowed."""
        if self.kept is None:
            return False
        return self.ratio.high <= self.allowed if self.kept else self.ratio.low > self.allowed

    def to_json(self) -> dict[str, Any]:
        """As what JSON knows."""
        bracket = self.uniform_over_best
        return {
            "case": self.case,
            "uniform_over_best": None if bracket is None else [x if math.isfinite(x) else None for x in bracket],
            "rival": self.rival.spec,
            "ratio": self.ratio.to_json(),
            "allowed": self.allowed,
            "kept": self.kept,
            "beyond_chance": self.beyond_chance,
        }


def verdicts(found: Sequence[Standing], *, ratios: Mapping[str, Bracket | None]) -> tuple[Verdict, ...]:
    """Our claim on every case that has certificates and that we played; ratios: of ρ, by case."""
    made = (verdict(one, uniform_over_best=ratios.get(one.case)) for one in found if one.row.certified)
    return tuple(one for one in made if one is not None)


def verdict(found: Standing, *, uniform_over_best: Bracket | None) -> Verdict | None:
    """Our claim on a case; None if we did not play it, or nobody else did."""
    lines = found.lines("certified")
    ours = next((line.default or line.best for line in lines if line.entry == OURS), None)
    rivals = [line.best for line in lines if line.entry != OURS]
    if ours is None or ours.certified is None or not rivals:
        return None
    rival = rivals[0]
    assert rival.certified is not None
    large = uniform_over_best is not None and uniform_over_best[0] >= LARGE_RATIO
    allowed = 1.0 if large else TOLERATED_RATIO
    return Verdict(found.case, uniform_over_best, ours, rival, _ratio(ours.certified, rival.certified), allowed)


def _ratio(ours: Stopped, theirs: Stopped) -> Estimate:
    """One median over another, and its quantiles in a bootstrap over seeds."""
    mine, other = ours.samples.value, theirs.samples.value
    value = mine / other if math.isfinite(mine) or math.isfinite(other) else math.nan
    rng = np.random.default_rng([BOOTSTRAP_SEED, ours.runs, theirs.runs])
    above, below = _medians(ours, rng), _medians(theirs, rng)
    known = np.isfinite(above) | np.isfinite(below)
    if not known.any():
        return Estimate(value, 0.0, math.inf)
    return quantile_interval(above[known] / below[known], value=value)


def _medians(one: Stopped, rng: np.random.Generator) -> FloatArray:
    """Medians (D,) of stopping times of seeds drawn anew."""
    times = np.asarray(one.times)
    return np.median(times[rng.integers(len(times), size=(BOOTSTRAP_DRAWS, len(times)))], axis=1)
