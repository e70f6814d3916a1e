"""Linear policies as points in the space of features, and what each of them costs at a design."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.realizable.coordinates import Coordinates


@dataclass(frozen=True, eq=False)
class LinearPolicies:
    """Linear policies on the n contexts that can occur.

    relative (n, A, r): φ(c, a) − φ(c, π*(c)).
    weights (n,): ν.
    parameter (r,): θ.
    every: whether all other maps from contexts to actions are policies too.
    """

    relative: FloatArray
    weights: FloatArray
    parameter: FloatArray
    every: bool = False

    @property
    def rank(self) -> int:
        return self.relative.shape[2]

    def points(self, directions: FloatArray) -> FloatArray:
        """x_π (K, r) of the policies that directions (K, r) stand for."""
        out = np.empty_like(directions)
        over_cores(lambda a, b: _fill_points(self.relative, self.weights, directions, out, a, b), count=len(directions))
        return out

    def gaps(self, points: FloatArray) -> FloatArray:
        """Δ_π (K,) of points x_π (K, r)."""
        return np.maximum(-points @ self.parameter, 0.0)


@dataclass(frozen=True, eq=False)
class PolicyCosts:
    """What policies cost at a design: ‖x_π‖²_{A⁻¹}/max(Δ_π, ε)².

    policies: whose costs they are.
    root (r, m): A⁻¹ = root rootᵀ.
    epsilon: ε.
    """

    policies: LinearPolicies
    root: FloatArray
    epsilon: float

    @classmethod
    def of(
        cls, policies: LinearPolicies, where: Coordinates, propensities: FloatArray, *, epsilon: float
    ) -> PolicyCosts:
        """At propensities (n, A) that are not zero; `where` has coordinates for the policies' own features."""
        information = where.information(propensities)
        return cls(policies, where.change @ np.linalg.inv(np.linalg.cholesky(information)).T, epsilon)

    def ratios(self, points: FloatArray) -> FloatArray:
        """The cost (K,) of points x_π (K, r)."""
        return self.lengths(points) ** 2 / np.maximum(self.policies.gaps(points), self.epsilon) ** 2

    def lengths(self, points: FloatArray) -> FloatArray:
        """‖x‖_{A⁻¹} (K,)."""
        turned = points @ self.root
        return np.sqrt(np.einsum("ij,ij->i", turned, turned))

    def pull(self, points: FloatArray) -> FloatArray:
        """v = A⁻¹x/‖x‖_{A⁻¹} (K, r), the direction in which x is longest."""
        return points @ self.root @ self.root.T / np.maximum(self.lengths(points), 1e-300)[:, None]


@kernel
def _fill_points(
    relative: FloatArray, weights: FloatArray, directions: FloatArray, out: FloatArray, start: int, stop: int
) -> None:
    n, n_actions, rank = relative.shape
    for k in range(start, stop):
        for j in range(rank):
            out[k, j] = 0.0
        for c in range(n):
            best, most = 0, -np.inf
            for a in range(n_actions):
                score = 0.0
                for j in range(rank):
                    score += relative[c, a, j] * directions[k, j]
                if score > most:
                    best, most = a, score
            for j in range(rank):
                out[k, j] += weights[c] * relative[c, best, j]
