"""Ascent on a smoothed value: actions drawn by a softmax whose temperature falls.

    J_T(θ) = Σ_i Σ_a p_ia s_ia,   p_ia ∝ exp(⟨φ(c_i, a), θ⟩/T),   ∇J_T = Σ_i Σ_a p_ia (s_ia − s̄_i) φ(c_i, a)/T

Steps are measured by what they do to the scores. With H the covariance of φ over the actions of a context, on average
over contexts, a step h has the direction H⁻¹∇J and a given length √(hᵀHh), relative to √(θᵀHθ): the spread of θ's own
scores, of which T is a share, too. The first step from zero would lead to the least-squares fit of the scores, so the
ascent starts there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.policies.linear.acting import DistinctRows

_METRIC_ROWS = 20_000  # as many are enough for H
_RIDGE_SHARE = 1e-3  # of the average variance
_NEGLIGIBLE_LOG_WEIGHT = -30.0


@dataclass(frozen=True, eq=False)
class Metric:
    """H⁻¹, whole or (of crossed features) in two factors.

    left (d, d): the whole, or (u, u): the factor of the columns.
    right (k, k): the factor of the features of actions; None where left is the whole.
    """

    left: FloatArray
    right: FloatArray | None

    @classmethod
    def of(cls, rows: DistinctRows) -> Metric:
        few = rows.some(slice(None, None, -(-len(rows) // _METRIC_ROWS)))
        left, right = few.features.factors()
        return cls(_inverse(left), None if right is None else _inverse(right))

    def __call__(self, gradient: FloatArray) -> FloatArray:
        if self.right is None:
            return self.left @ gradient
        return (self.left @ gradient.reshape(len(self.left), -1) @ self.right).reshape(-1)


def _inverse(x: FloatArray) -> FloatArray:
    gram = x.T @ x / len(x)
    size = max(float(np.trace(gram)) / len(gram), 1e-300)
    inverse: FloatArray = np.linalg.inv(gram / size + _RIDGE_SHARE * np.eye(len(gram))).astype(np.float64)
    return inverse / size


@dataclass(frozen=True, eq=False)
class Smooth:
    """What is to be climbed.

    rows: φ.
    scores (m, A): of the rows.
    metric: what measures steps.
    """

    rows: DistinctRows
    scores: FloatArray
    metric: Metric

    def fit(self) -> FloatArray:
        """The parameter (d,) of least squares: scores, less their mean in each row, regressed on the features."""
        return self.metric(self.rows.features.pull(self.scores - self.scores.mean(axis=1, keepdims=True)))

    def look(self, parameter: FloatArray, temperature: float) -> tuple[float, float, FloatArray]:
        """The value of the policy itself, the spread of its scores, and ∇J; T in units of what `parameter` has."""
        softened = self.rows.features.scores(parameter)
        value, square = _soften(softened, self.scores, temperature)
        return value, math.sqrt(square), self.rows.features.pull(softened)

    def ascend(
        self, start: FloatArray, *, steps: int, temperatures: tuple[float, float], lengths: tuple[float, float]
    ) -> FloatArray:
        """Where the ascent from θ (d,) ends; temperatures and lengths of steps fall from the first to the last."""
        _, spread, _ = self.look(start, 1.0)
        if not spread > 0:
            return start
        theta, momentum = start / spread, np.zeros_like(start)
        for temperature, length in _schedule(steps, temperatures, lengths):
            _, spread, gradient = self.look(theta, temperature)
            theta = theta / max(spread, 1e-300)
            momentum = 0.8 * momentum + 0.2 * self._step(gradient)
            theta = theta + length * momentum
        return theta

    def ascend_on_grid(self, start: FloatArray, *, levels: int, steps: int) -> IntArray:
        """The same with θ rounded to the grid wherever it is looked at: the best rounding met.

        Here plain gradients do better than H⁻¹∇J.
        """
        reach = levels + 0.49
        theta, momentum = np.clip(start, -reach, reach), np.zeros_like(start)
        best, top, spread = np.zeros_like(start), -np.inf, 1.0
        for temperature, length in _schedule(steps, (0.3, 0.05), (0.3, 0.03)):
            rounded = np.rint(theta)
            value, spread, gradient = self.look(rounded, temperature * max(spread, 1e-9))
            if value > top:
                best, top = rounded, value
            momentum = 0.8 * momentum + 0.2 * gradient / max(float(np.linalg.norm(gradient)), 1e-300)
            theta = np.clip(theta + length * max(spread, 1e-9) * momentum, -reach, reach)
        return best.astype(np.int64)

    def _step(self, gradient: FloatArray) -> FloatArray:
        """H⁻¹∇J, of length 1."""
        step = self.metric(gradient)
        return step / math.sqrt(max(float(gradient @ step), 1e-300))


def _schedule(steps: int, temperatures: tuple[float, float], lengths: tuple[float, float]) -> list[tuple[float, float]]:
    pair = (np.geomspace(first, last, steps).tolist() for first, last in (temperatures, lengths))
    return list(zip(*pair, strict=True))


@kernel
def _soften(f: FloatArray, scores: FloatArray, temperature: float) -> tuple[float, float]:
    """f (m, A): linear scores in, p(s − s̄) out. Returns the value of the policy and the squared spread of f."""
    m, n_actions = f.shape
    value, square = 0.0, 0.0
    for i in range(m):
        best, mean = 0, 0.0
        for a in range(n_actions):
            mean += f[i, a]
            if f[i, a] > f[i, best]:
                best = a
        mean /= n_actions
        value += scores[i, best]
        highest, weight, average = f[i, best], 0.0, 0.0
        for a in range(n_actions):
            square += (f[i, a] - mean) ** 2
            power = (f[i, a] - highest) / temperature
            f[i, a] = math.exp(power) if power > _NEGLIGIBLE_LOG_WEIGHT else 0.0
            weight += f[i, a]
            average += f[i, a] * scores[i, a]
        average /= weight
        for a in range(n_actions):
            f[i, a] *= (scores[i, a] - average) / weight
    return value, square / (m * n_actions)
