"""How much better than q any policy may be, when all that is known of the parameter is an ellipsoid.

    max_π  max_{θ : ‖θ − θ̂‖_{C⁻¹} ≤ 1} ⟨x_π, θ⟩  =  max_π ⟨x_π, θ̂⟩ + ‖x_π‖_C
    x_π = φ_π − φ_q = Σ_c ν_c (φ(c, π(c)) − φ(c, q(c)))

For given θ the best policy takes `argmax_a ⟨φ(c, a), θ⟩`, and for a given policy the worst θ is known, so the two can
be sought in turn: no step makes the value smaller, but where it ends may be a local maximum.

From above there are two bounds. By the triangle inequality the sum over contexts of `max_a ⟨x, θ̂⟩ + ‖x‖_C`, about d
times too large once q is nearly right. And, in few dimensions, branch and bound: with C = LLᵀ and θ = θ̂ + Lu the value
is the maximum over unit vectors u of the convex `F(u) = Σ_c ν_c max_a ⟨x, θ̂ + Lu⟩`. The unit vectors in the cone of
v_1, …, v_d lie in the simplex of 0, sv_1, …, sv_d, where s = ‖n‖ for the n with ⟨n, v_i⟩ = 1, so F is at most the
largest of F(0) and F(sv_i). Cones are halved until that is small enough.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores

STARTS, MOST_STARTS = 96, 500  # random directions, beside both ends of every axis: more where they cost little
_STEPS = 60
_SOME = 2000  # contexts, when there are many
_CHEAP = 5e6  # multiplications of a step of all searches
_DIMENSIONS = 12  # of a branch and bound
_EFFORT = 5e8  # multiplications of a branch and bound


@dataclass(frozen=True, eq=False)
class Deviations:
    """value: the largest found. proven: an upper bound on it. points (m, d): x_π of where the searches ended."""

    value: float
    proven: float
    points: FloatArray


def largest_deviation(
    phi: FloatArray,
    weights: FloatArray,
    *,
    reference: IntArray,
    parameter: FloatArray,
    shape: FloatArray,
    starts: int | None = None,
    target: float | None = None,
) -> Deviations:
    """The largest `⟨x_π, θ̂⟩ + ‖x_π‖_C` over all policies, by search; θ̂ = parameter (d,), C = shape (d, d).

    phi (N, A, d), weights (N,), reference (N,): q's actions. target: a value that one would like to prove it is below;
    branch and bound is tried if the search has not found more.
    """
    rows = np.arange(len(phi))
    root = _root(shape)
    own = phi @ parameter
    gains = own - own[rows, reference][:, None]
    turned = phi @ root
    turned = turned - turned[rows, reference][:, None, :]
    bounds = gains + np.linalg.norm(turned, axis=2)
    proven = float(weights @ bounds.max(axis=1))
    # Where no θ of the ellipsoid prefers another action, every policy of interest acts like q.
    alive = (bounds.max(axis=1) > 0) & (weights > 0)
    if not alive.any():
        return Deviations(0.0, proven, np.empty((0, phi.shape[2])))
    nu = weights[alive]
    gains, turned = np.ascontiguousarray(gains[alive]), np.ascontiguousarray(turned[alive])
    if starts is None:
        starts = int(np.clip(_CHEAP / turned.size, STARTS, MOST_STARTS))
    gain, spread, actions = _search(nu, gains, turned, starts=starts)
    values = gain + np.linalg.norm(spread, axis=1)
    value = max(float(values.max()), 0.0)
    if target is not None and value <= target < proven:
        # What it bounds the value by on its way depends on coordinates; that it got below the target does not.
        proven = target if _bound(nu, gains, turned, target=target) <= target else proven
    moved = (phi[alive] - phi[rows, reference][alive][:, None, :])[np.arange(len(nu))[None, :], actions]
    return Deviations(value, proven, np.einsum("c,scd->sd", nu, moved))


def _bound(nu: FloatArray, gains: FloatArray, turned: FloatArray, *, target: float) -> float:
    """An upper bound on F over unit vectors, as near to the target as the effort allows; see above."""
    d = turned.shape[2]
    effort = _EFFORT / (turned.size * d)  # cones that can be looked at
    centre = float(nu @ gains.max(axis=1))
    if d > _DIMENSIONS or 2**d > effort:
        return np.inf
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=d)))
    cones = signs[:, :, None] * np.eye(d)[None, :, :]
    settled, bounds = centre, _cone_bounds(nu, gains, turned, cones)
    spent = len(cones)
    while True:
        open_ = bounds > target
        settled = max(settled, float(bounds[~open_].max(initial=-np.inf)))
        if not open_.any():
            return settled
        if spent + 2 * open_.sum() > effort:
            return max(settled, float(bounds.max()))
        cones = _halves(cones[open_])
        # What a cone was bounded by bounds its halves, too.
        bounds = np.minimum(_cone_bounds(nu, gains, turned, cones), np.tile(bounds[open_], 2))
        spent += len(cones)


def _cone_bounds(nu: FloatArray, gains: FloatArray, turned: FloatArray, cones: FloatArray) -> FloatArray:
    """max_i F(sv_i) for cones (m, d, d) with unit vectors v_i in their rows."""
    m, d, _ = cones.shape
    normals = np.linalg.solve(cones, np.ones((m, d, 1)))[:, :, 0]
    stretch = np.linalg.norm(normals, axis=1)
    gain, spread, _ = _respond(nu, gains, turned, (cones * stretch[:, None, None]).reshape(-1, d))
    values = gain + (spread.reshape(m, d, d) * cones * stretch[:, None, None]).sum(axis=2).reshape(-1)
    return values.reshape(m, d).max(axis=1)


def _halves(cones: FloatArray) -> FloatArray:
    """Either half of each cone, cut in the middle of its widest edge: (2m, d, d)."""
    d = cones.shape[1]
    angles = np.einsum("mik,mjk->mij", cones, cones) + 2.0 * np.eye(d)
    widest = angles.reshape(-1, d * d).argmin(axis=1)
    i, j = widest // d, widest % d
    rows = np.arange(len(cones))
    middle = cones[rows, i] + cones[rows, j]
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    first, second = cones.copy(), cones.copy()
    first[rows, i] = middle
    second[rows, j] = middle
    return np.concatenate([first, second])


def _search(
    nu: FloatArray, gains: FloatArray, turned: FloatArray, *, starts: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Where the distinct searches end: Σ ν gain (s,), Σ ν turned (s, d), actions (s, n).

    Of many contexts, some are searched first, and all from where those searches ended.
    """
    d = turned.shape[2]
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((starts, d))
    directions = np.concatenate([directions, np.eye(d), -np.eye(d)])
    if len(nu) > 2 * _SOME:
        some = rng.choice(len(nu), size=_SOME, p=nu / nu.sum())
        _, directions, _ = _climb(np.full(_SOME, nu.sum() / _SOME), gains[some], turned[some], directions)
    return _climb(nu, gains, turned, directions)


def _climb(
    nu: FloatArray, gains: FloatArray, turned: FloatArray, directions: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Where the distinct searches from these directions (s, d) end, as `_search` has it."""
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    gain, spread, actions = _respond(nu, gains, turned, directions / np.where(length > 0, length, 1.0))
    moving = np.arange(len(directions))
    for _ in range(_STEPS):
        length = np.linalg.norm(spread[moving], axis=1)
        moving, length = moving[length > 0], length[length > 0]
        before = gain[moving] + length
        answer = _respond(nu, gains, turned, spread[moving] / length[:, None])
        better = answer[0] + np.linalg.norm(answer[1], axis=1) > before + 1e-12
        moving = moving[better]
        gain[moving], spread[moving], actions[moving] = (part[better] for part in answer)
        if len(moving) == 0:
            break
    _, kept = np.unique(actions, axis=0, return_index=True)
    return gain[kept], spread[kept], actions[kept]


def _respond(
    nu: FloatArray, gains: FloatArray, turned: FloatArray, directions: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The best policy for each direction (s, d), with its sums."""
    count = len(directions)
    gain, spread = np.zeros(count), np.zeros((count, turned.shape[2]))
    actions = np.empty((count, len(nu)), dtype=np.int64)
    ready = np.ascontiguousarray(directions)
    over_cores(lambda a, b: _respond_some(nu, gains, turned, ready, gain, spread, actions, a, b), count=count)
    return gain, spread, actions


@kernel
def _respond_some(
    nu: FloatArray,
    gains: FloatArray,
    turned: FloatArray,
    directions: FloatArray,
    gain: FloatArray,
    spread: FloatArray,
    actions: IntArray,
    start: int,
    stop: int,
) -> None:
    n, n_actions, d = turned.shape
    for c in range(n):
        for s in range(start, stop):
            best, chosen = -np.inf, 0
            for a in range(n_actions):
                score = gains[c, a]
                for k in range(d):
                    score += turned[c, a, k] * directions[s, k]
                if score > best:
                    best, chosen = score, a
            actions[s, c] = chosen
            gain[s] += nu[c] * gains[c, chosen]
            for k in range(d):
                spread[s, k] += nu[c] * turned[c, chosen, k]


def _root(shape: FloatArray) -> FloatArray:
    """L with LLᵀ = C, for a C that may be singular."""
    values, vectors = np.linalg.eigh((shape + shape.T) / 2.0)
    return vectors * np.sqrt(np.maximum(values, 0.0))
