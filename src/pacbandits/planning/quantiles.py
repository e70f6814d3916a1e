"""Quantiles of stopping times from a few simulated trials, and how well they are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray

SHOWN_SHARES = (0.5, 0.8, 0.95)
KNOWN_SHARES = (0.5, 0.8)  # those that simulation goes on for; the last of twenty would take hundreds of trials
KNOWN_CONFIDENCE = 1.645  # standard errors either way: 90 %
MIN_TRIALS = 3  # before anything is said


@dataclass(frozen=True)
class Quantiles:
    """By how many people a trial is done, in half, 80 % and 95 % of all cases.

    median, p80, p95: infinite where it is not done by as many as were allowed.
    known_to: the relative error of the first two, with 90 % confidence; infinite while there are too few trials.
    trials: how many were simulated; 0 for an estimate without simulation.
    """

    median: float
    p80: float
    p95: float
    known_to: float = math.inf
    trials: int = 0

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values; null for what is infinite."""
        names = ("median", "p80", "p95", "known_to")
        values = {name: getattr(self, name) for name in names}
        return {name: v if math.isfinite(v) else None for name, v in values.items()} | {"trials": self.trials}


def quantile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """A quantile of weighted values, between neighbours in proportion on a logarithmic scale.

    The i-th of m equal values stands at i/(m + 1), so that a fresh one falls between two quantiles as often as these
    say, however few there are; beyond the first and the last nothing is known, and these are taken.
    """
    x, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    x, w = x[order], w[order] / w.sum()
    m = len(x)
    at = np.cumsum(w) * m / (m + 1)
    if share >= at[-1]:
        return float(x[-1])
    i = int(np.searchsorted(at, share))
    if i == 0 or x[i - 1] == x[i]:
        return float(x[i])
    if not np.isfinite(x[i]):
        return math.inf
    part = (share - at[i - 1]) / (at[i] - at[i - 1])
    return float(x[i - 1] * (x[i] / x[i - 1]) ** part) if x[i - 1] > 0 else float(part * x[i])


def quantiles(values: Sequence[float], weights: Sequence[float] | None = None) -> Quantiles:
    """Quantiles of simulated stopping times, infinite where one was not done."""
    w: FloatArray = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    median, p80, p95 = (quantile(values, list(w), share) for share in SHOWN_SHARES)
    errors = [_error(values, w, share) for share in KNOWN_SHARES]
    return Quantiles(median, p80, p95, known_to=max(errors), trials=len(values))


def _error(values: Sequence[float], weights: FloatArray, share: float) -> float:
    """The relative error of a quantile: those at shares a little smaller and larger, by what chance does to shares."""
    counted = weights.sum() ** 2 / (weights**2).sum()
    chance = KNOWN_CONFIDENCE * math.sqrt(share * (1 - share) / counted)
    m = len(values)
    if m < MIN_TRIALS or share + chance > m / (m + 1) or share - chance < 1 / (m + 1):
        return math.inf
    low, middle, high = (quantile(values, list(weights), s) for s in (share - chance, share, share + chance))
    return max(high / middle, middle / low) - 1 if math.isfinite(high) else math.inf
