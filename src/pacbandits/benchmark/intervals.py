"""Confidence intervals over seeds: exact for shares and medians, by Student's law for means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

CONFIDENCE = 0.9


@dataclass(frozen=True)
class IntervalEstimate:
    """A figure, and between what it lies with 90 % confidence.

    value: infinite where it is beyond what was played.
    low, high: 0 and infinite where there are too few runs to say.
    """

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float | None]:
        """Serialise to JSON-compatible values; null for what is infinite or no number."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {name: number(value) for name, value in values.items()}


def number(value: float | None) -> float | None:
    """A number that JSON knows; None for what is infinite or no number."""
    return value if value is not None and math.isfinite(value) else None


def share_interval(count: int, runs: int, *, confidence: float = CONFIDENCE) -> IntervalEstimate:
    """A share by so many of the runs: exact binomial limits (Clopper and Pearson, 1934), each right but for (1 − c)/2.

    low = B(α/2; k, n − k + 1) and high = B(1 − α/2; k + 1, n − k), B the quantile of a beta law and α = 1 − c.

    >>> from pacbandits.benchmark.intervals import share_interval
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
    """The median, and order statistics that it lies between, whatever the law: x_(k) and x_(n+1−k).

    k is the largest for which 2 P(Binomial(n, ½) < k) ≤ 1 − c. Infinite values are those that were cut off: a median or
    an end among them is infinite too. Under five values say nothing of 90 %.
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
    """The mean, and Student's limits: mean ± t s/√n."""
    x = np.asarray(values, dtype=np.float64)
    mean = float(x.mean()) if len(x) else math.nan
    if len(x) < 2:
        return IntervalEstimate(mean, -math.inf, math.inf)
    wide = float(special.stdtrit(len(x) - 1, 0.5 + confidence / 2.0) * x.std(ddof=1) / math.sqrt(len(x)))
    return IntervalEstimate(mean, mean - wide, mean + wide)


def quantile_interval(draws: Any, *, value: float, confidence: float = CONFIDENCE) -> IntervalEstimate:
    """A figure, and the quantiles of what it was in draws of a bootstrap, some of which may be infinite."""
    x = np.sort(np.asarray(draws, dtype=np.float64))
    cut = math.floor((1.0 - confidence) / 2.0 * (len(x) - 1) + 1e-9)  # of 101 draws the five at each end
    return IntervalEstimate(value, float(x[cut]), float(x[len(x) - 1 - cut]))
