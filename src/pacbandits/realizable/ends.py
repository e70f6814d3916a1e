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

import itertools

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.realizable.coordinates import row_span
from pacbandits.realizable.pool import ROUNDING
from pacbandits.realizable.price import LinearPrice

# Multiplications to spend, cones to halve at the most, and cones halved at once.
_EFFORT = 6e9
_CONES, _BATCH = 40_000, 256
# With more dimensions than this, halving leads nowhere soon, and is tried a fifth as long.
_FAR = 5
_HALVINGS = 10
# With more dimensions than this there are too many cones to begin with.
_DIMENSIONS = 8


def proven_cost(price: LinearPrice, *, attained: float, tolerance: float = 0.01) -> float:
    """An upper end on ‖x_π‖²_{A⁻¹}/max(Δ_π, ε)² over all policies. attained: what one is known to cost."""
    turned = price.policies.relative @ price.root
    basis = row_span(turned.reshape(-1, turned.shape[2]))[0]
    turned = np.ascontiguousarray(turned @ basis)
    losses = np.maximum(-(price.policies.relative @ price.policies.parameter), 0.0)
    bound = _triangle(turned, losses, price)
    if 0 < turned.shape[2] <= _DIMENSIONS:
        target = np.sqrt(attained * (1.0 + tolerance)) * price.epsilon
        bound = min(bound, _branch(turned, losses, price, target=target, most=bound, tolerance=tolerance))
    return (bound / price.epsilon) ** 2 * (1.0 + ROUNDING)


def _triangle(turned: FloatArray, losses: FloatArray, price: LinearPrice) -> float:
    lengths = np.sqrt((turned**2).sum(axis=2))
    weights, epsilon = price.policies.weights, price.epsilon
    rows = np.arange(len(weights))
    apart = losses > 1e-9 * losses.max(initial=0.0)  # any slope is valid, and so is a lower limit to try
    low, high = 0.0, float((lengths[apart] / losses[apart]).max(initial=0.0))
    bound = float(weights @ lengths.max(axis=1))
    for _ in range(60):
        middle = (low + high) / 2
        best = (lengths - middle * losses).argmax(axis=1)
        gap = float(weights @ losses[rows, best])
        bound = min(bound, float(weights @ lengths[rows, best]) - middle * gap + middle * epsilon)
        low, high = (middle, high) if gap > epsilon else (low, middle)
    return bound


def _branch(
    turned: FloatArray, losses: FloatArray, price: LinearPrice, *, target: float, most: float, tolerance: float
) -> float:
    """An upper end on W, as low as the target or as near to W as the tolerance (half of it, as W is to be squared)."""
    m = turned.shape[2]
    vertices = np.concatenate([np.eye(m), -np.eye(m)])
    heights = _heights(turned, losses, price, vertices, most=most)
    cones: IntArray = np.array([np.arange(m) + signs for signs in itertools.product((0, m), repeat=m)], dtype=np.int64)
    bounds = _cone_bounds(vertices[cones], heights[cones])
    left = min(_EFFORT / max(turned.size * _HALVINGS, 1), _CONES if m <= _FAR else _CONES // 5)
    while left > 0:
        enough = max(target, float(heights.max(initial=0.0)) * (1.0 + tolerance / 2))
        worst = np.argsort(-bounds, kind="stable")[:_BATCH]
        worst = worst[bounds[worst] > enough]
        if len(worst) == 0:
            break
        halved, first, second = _longest_edges(vertices[cones[worst]])
        rows = np.arange(len(worst))
        fresh = len(vertices) + rows
        vertices = np.concatenate([vertices, halved])
        heights = np.concatenate([heights, _heights(turned, losses, price, halved, most=most)])
        children = np.concatenate([cones[worst], cones[worst]])
        children[rows, first], children[len(worst) + rows, second] = fresh, fresh
        own = np.minimum(_cone_bounds(vertices[children], heights[children]), np.tile(bounds[worst], 2))
        kept = np.ones(len(cones), dtype=bool)
        kept[worst] = False
        cones = np.concatenate([cones[kept], children])
        bounds = np.concatenate([bounds[kept], own])
        left -= len(worst)
    return float(bounds.max(initial=0.0))


def _cone_bounds(corners: FloatArray, heights: FloatArray) -> FloatArray:
    """‖g‖ (K,) for the g with ⟨g, v_i⟩ = h(v_i), for cones of corners v (K, m, m) and heights h (K, m)."""
    return np.linalg.norm(np.linalg.solve(corners, heights[:, :, None])[:, :, 0], axis=1)


def _longest_edges(corners: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """The middles (K, m) of the longest edges of cones (K, m, m), and which corners those edges join."""
    m = corners.shape[1]
    cosines = corners @ corners.transpose(0, 2, 1) + 2.0 * np.eye(m)
    first, second = np.divmod(cosines.reshape(len(corners), -1).argmin(axis=1), m)
    rows = np.arange(len(corners))
    middles = corners[rows, first] + corners[rows, second]
    return middles / np.linalg.norm(middles, axis=1, keepdims=True), first, second


def _heights(
    turned: FloatArray, losses: FloatArray, price: LinearPrice, vertices: FloatArray, *, most: float
) -> FloatArray:
    """h (K,) at unit vectors (K, m), or a little more. most: no less than W."""
    out = np.empty(len(vertices))
    over_cores(
        lambda a, b: _fill_heights(turned, losses, price.policies.weights, price.epsilon, most, vertices, out, a, b),
        count=len(vertices),
    )
    return out


@kernel
def _fill_heights(
    turned: FloatArray,
    losses: FloatArray,
    weights: FloatArray,
    epsilon: float,
    most: float,
    vertices: FloatArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    n, n_actions, m = turned.shape
    scores = np.empty((n, n_actions))
    for k in range(start, stop):
        for c in range(n):
            for a in range(n_actions):
                score = 0.0
                for j in range(m):
                    score += turned[c, a, j] * vertices[k, j]
                scores[c, a] = score
        # At the minimum sε ≤ h(u) ≤ W.
        low, high = 0.0, most / epsilon
        out[k] = most
        for step in range(_HALVINGS + 1):
            slope = 0.0 if step == 0 else (low + high) / 2
            value, gap = 0.0, 0.0
            for c in range(n):
                best, top = 0, -np.inf
                for a in range(n_actions):
                    if scores[c, a] - slope * losses[c, a] > top:
                        best, top = a, scores[c, a] - slope * losses[c, a]
                value += weights[c] * top
                gap += weights[c] * losses[c, best]
            out[k] = min(out[k], value + slope * epsilon)
            if gap > epsilon:
                low = slope
            elif step == 0:
                break
            else:
                high = slope
