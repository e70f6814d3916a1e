"""What the worst policy can cost at a design at the most, as a theorem, over all policies and all mixtures of them.

    W = max { ‖x‖_{A⁻¹} : x a mixture of x_π, Δ(x) ≤ ε },   ‖x_π‖²_{A⁻¹}/max(Δ_π, ε)² ≤ (W/ε)² for every π

(a policy of larger gap is scaled down, toward π*, until its gap is ε). Mixtures may act by chance in one context, so W
is a little more than any policy attains; the fewer the contexts, the more.

**Triangle inequality.** ‖x_π‖ ≤ Σ_c ν_c ‖x_{c,π(c)}‖, and the most of that for Δ ≤ ε is a fractional knapsack, whose
value is min_s Σ_c ν_c max_a (‖x_{c,a}‖ − sΔ_{c,a}) + sε. It forgets that lengths in different directions do not add up.

**Branch and bound.** In coordinates in which A⁻¹ is the identity, W = max_{‖u‖ = 1} h(u), where

    h(u) = max {⟨u, x⟩ : Δ(x) ≤ ε} = min_s Σ_c ν_c max_a (⟨u, x_{c,a}⟩ − sΔ_{c,a}) + sε

is convex and homogeneous: on the cone of v_1, …, v_m it is at most the linear function that is h(v_i) at each v_i, and
for unit vectors at most the length of that function's gradient. Cones are halved, the worst first, until that is close
to what was found, or to the largest h seen, or the effort is spent. Any s gives an upper end: it need not be the best.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.realizable.cones import bound_directions
from pacbandits.realizable.coordinates import row_span
from pacbandits.realizable.costs import PolicyCosts
from pacbandits.realizable.pool_design import ROUNDING_SHARE

MAX_HALVED_CONES = 40_000
_BRANCHING_MULTIPLICATIONS = 6e9
_CONES_HALVED_AT_ONCE = 256
# With more dimensions than the first, halving leads nowhere soon, and is tried a fifth as long; with more than the
# largest there are too many cones to begin with.
_MAX_FULL_EFFORT_DIMENSION, _REDUCED_EFFORT_DIVISOR = 5, 5
_MAX_BRANCHING_DIMENSION = 8
# Halvings of the slope s: for the triangle inequality, and for each h(u).
_TRIANGLE_HALVINGS, _SLOPE_HALVINGS = 60, 10


def proven_cost(
    costs: PolicyCosts, *, attained: float, tolerance: float = 0.01, max_halved_cones: int = MAX_HALVED_CONES
) -> float:
    """An upper end on ‖x_π‖²_{A⁻¹}/max(Δ_π, ε)² over all policies.

    attained: what one is known to cost. tolerance: how near to that, or to what all mixtures cost, is near enough.
    """
    turned = costs.policies.relative @ costs.root
    basis = row_span(turned.reshape(-1, turned.shape[2]))[0]
    turned = np.ascontiguousarray(turned @ basis)
    losses = np.maximum(-(costs.policies.relative @ costs.policies.parameter), 0.0)
    bound = _triangle(turned, losses, costs)
    m = turned.shape[2]
    if 0 < m <= _MAX_BRANCHING_DIMENSION:
        if m > _MAX_FULL_EFFORT_DIMENSION:
            max_halved_cones //= _REDUCED_EFFORT_DIVISOR
        task = HeightTask(turned, losses, costs.policies.weights, costs.epsilon, bound)
        search = _Branching(
            task,
            target=np.sqrt(attained * (1.0 + tolerance)) * costs.epsilon,
            tolerance=tolerance,
            max_halved=min(_BRANCHING_MULTIPLICATIONS / max(turned.size * _SLOPE_HALVINGS, 1), max_halved_cones),
        )
        bound = min(bound, bound_directions(search, dimension=m))
    return (bound / costs.epsilon) ** 2 * (1.0 + ROUNDING_SHARE)


def _triangle(turned: FloatArray, losses: FloatArray, costs: PolicyCosts) -> float:
    lengths = np.sqrt((turned**2).sum(axis=2))
    weights, epsilon = costs.policies.weights, costs.epsilon
    rows = np.arange(len(weights))
    apart = losses > 1e-9 * losses.max(initial=0.0)  # any slope is valid, and so is a lower limit to try
    low, high = 0.0, float((lengths[apart] / losses[apart]).max(initial=0.0))
    bound = float(weights @ lengths.max(axis=1))
    for _ in range(_TRIANGLE_HALVINGS):
        middle = (low + high) / 2
        best = (lengths - middle * losses).argmax(axis=1)
        gap = float(weights @ losses[rows, best])
        bound = min(bound, float(weights @ lengths[rows, best]) - middle * gap + middle * epsilon)
        low, high = (middle, high) if gap > epsilon else (low, middle)
    return bound


class HeightTask(NamedTuple):
    """h, in coordinates in which A⁻¹ is the identity.

    turned (n, A, m): x_{c,a}.
    losses (n, A): Δ_{c,a}.
    weights (n,): ν.
    epsilon: ε.
    most: no less than W.
    """

    turned: FloatArray
    losses: FloatArray
    weights: FloatArray
    epsilon: float
    most: float


@dataclass(eq=False)
class _Branching:
    """An upper end on W, as low as the target or as near to W as the tolerance (half of it, as W is to be squared).

    max_halved: cones that may be halved.
    highest: the largest h seen.
    """

    task: HeightTask
    target: float = field(kw_only=True)
    tolerance: float = field(kw_only=True)
    max_halved: float = field(kw_only=True)
    highest: float = 0.0

    def heights(self, vectors: FloatArray) -> FloatArray:
        """h (K,) at unit vectors (K, m), or a little more."""
        out = np.empty(len(vectors))
        over_cores(lambda a, b: _fill_heights(self.task, vectors, out, a, b), count=len(vectors))
        self.highest = max(self.highest, float(out.max(initial=0.0)))
        return out

    def bounds(self, corners: FloatArray, heights: FloatArray) -> FloatArray:
        """‖g‖ (K,) for the g with ⟨g, v_i⟩ = h(v_i)."""
        return np.linalg.norm(np.linalg.solve(corners, heights[:, :, None])[:, :, 0], axis=1)

    def enough(self) -> float:
        return max(self.target, self.highest * (1.0 + self.tolerance / 2))

    def choose(self, bounds: FloatArray, *, halved: int) -> IntArray:
        """The worst."""
        worst = np.argsort(-bounds, kind="stable")
        return worst[: _CONES_HALVED_AT_ONCE if halved < self.max_halved else 0]


@kernel
def _fill_heights(task: HeightTask, vectors: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    turned, losses, weights = task.turned, task.losses, task.weights
    n, n_actions, m = turned.shape
    scores = np.empty((n, n_actions))
    for k in range(start, stop):
        for c in range(n):
            for a in range(n_actions):
                score = 0.0
                for j in range(m):
                    score += turned[c, a, j] * vectors[k, j]
                scores[c, a] = score
        # At the minimum sε ≤ h(u) ≤ W.
        low, high = 0.0, task.most / task.epsilon
        out[k] = task.most
        for step in range(_SLOPE_HALVINGS + 1):
            slope = 0.0 if step == 0 else (low + high) / 2
            value, gap = 0.0, 0.0
            for c in range(n):
                best, top = 0, -np.inf
                for a in range(n_actions):
                    if scores[c, a] - slope * losses[c, a] > top:
                        best, top = a, scores[c, a] - slope * losses[c, a]
                value += weights[c] * top
                gap += weights[c] * losses[c, best]
            out[k] = min(out[k], value + slope * task.epsilon)
            if gap > task.epsilon:
                low = slope
            elif step == 0:
                break
            else:
                high = slope
