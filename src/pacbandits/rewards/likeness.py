"""How alike two contexts are: 1 when they are the same, and the less the farther apart their features lie.

    k(x, x') = (exp(−s) + exp(−2s²))/2,     s² = the mean over features of the squared distance

in standard deviations; labels that differ are as far apart as two draws of a number are on average, and so is a number
that is missing from one that is not. The first part
falls off sharply, so that contexts that come again are remembered; the second is smooth, and carries to those that do
not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.records import Contexts, Log
from pacbandits.rewards.steps import check_features

MAX_STANDARD_SCORE = 8.0  # standard deviations from the mean, beyond which a number counts as this far from it
MIN_DEVIATION_SHARE = 1e-12  # of the mean: a standard deviation below that is rounding
SQUARED_DISTANCE_OF_LABELS = 2.0
MAX_EXPONENT = 64.0  # exp(−64) is as good as nothing


@dataclass(frozen=True, eq=False)
class Space:
    """Where contexts lie.

    labels (d,): how many a feature has, None for a number.
    centre, scale (d,): the mean and standard deviation of each number; a scale of 0 for one that does not count.
    """

    labels: tuple[int | None, ...]
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def learn(cls, log: Log) -> Space:
        """By the contexts of a log."""
        labels = tuple(None if one is None else len(one) for one in log.contexts.categories)
        features, weights = log.contexts.features, log.weights / log.weights.sum()
        with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest there are have no deviation
            if np.isnan(features).any():
                centre, scale = _moments_of_present(features, weights)
            else:
                centre = weights @ features
                scale = np.sqrt(weights @ (features - centre) ** 2)
            counts = np.isfinite(scale) & (scale > MIN_DEVIATION_SHARE * np.abs(centre))
        return cls(labels, np.where(counts, centre, 0.0), np.where(counts, scale, 0.0))

    def points(self, contexts: Contexts) -> FloatArray:
        """Standard scores (n, d) of numbers, NaN of those that are missing, and labels as they are."""
        check_features(contexts, self.labels)
        with np.errstate(over="ignore"):
            scores = (contexts.features - self.centre) / np.where(self.scale > 0, self.scale, np.inf)
        scores = np.clip(scores, -MAX_STANDARD_SCORE, MAX_STANDARD_SCORE)
        return np.where(self._labelled(), contexts.features, scores)

    def likeness(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """k (n, m) of points (n, d) and others (m, d)."""
        out = np.empty((len(points), len(others)))
        across, labelled = np.ascontiguousarray(others.T), self._labelled()
        patchy = np.array([np.isnan(points[:, j]).any() or np.isnan(others[:, j]).any() for j in range(len(across))])
        over_cores(lambda a, b: _liken(points, across, labelled, patchy, out, a, b), count=len(points))
        return out

    def _labelled(self) -> BoolArray:
        """Which features hold labels (d,)."""
        return np.array([one is not None for one in self.labels], dtype=np.bool_)


def _moments_of_present(features: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean and standard deviation (d,) of the numbers (n, d) that are there; 0 where there are none."""
    there = ~np.isnan(features)
    shares = there * weights[:, None]
    shares /= np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
    values = np.where(there, features, 0.0)
    centre = (shares * values).sum(axis=0)
    return centre, np.sqrt((shares * (values - centre) ** 2).sum(axis=0))


@kernel
def _decay(x: float) -> float:
    """exp(−x) for 0 ≤ x ≤ MAX_EXPONENT, right to 3e-14, by sums and products alone: those are done side by side.

    exp(−x) = exp(−x/256)²⁵⁶. The polynomial is wrong by (x/256)⁸/8! at most, and that counts only where x is small.
    """
    t = x * (-1.0 / 256.0)
    power = 1.0 + t * (1.0 + t * (1 / 2 + t * (1 / 6 + t * (1 / 24 + t * (1 / 120 + t * (1 / 720 + t / 5040))))))
    for _ in range(8):
        power *= power
    return power


@kernel
def _liken(
    points: FloatArray,
    across: FloatArray,
    labelled: BoolArray,
    patchy: BoolArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Write k of the points from start to stop; across (d, m): the others, so that the inner loops are long.

    patchy (d,): the features that are missing somewhere.
    """
    size, count = across.shape
    share = 1.0 / size
    for i in range(start, stop):
        row = out[i]
        row[:] = 0.0
        for j in range(size):
            value, others = points[i, j], across[j]
            if labelled[j]:
                for k in range(count):
                    row[k] += SQUARED_DISTANCE_OF_LABELS * (value != others[k])
            elif patchy[j]:
                for k in range(count):
                    if math.isnan(value) or math.isnan(others[k]):
                        row[k] += SQUARED_DISTANCE_OF_LABELS * (math.isnan(value) != math.isnan(others[k]))
                    else:
                        row[k] += (value - others[k]) * (value - others[k])
            else:
                for k in range(count):
                    row[k] += (value - others[k]) * (value - others[k])
        for k in range(count):
            square = row[k] * share
            row[k] = 0.5 * _decay(math.sqrt(square)) + 0.5 * _decay(min(2.0 * square, MAX_EXPONENT))
