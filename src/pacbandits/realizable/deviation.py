"""The largest gain over q of any policy, when the parameter is only known to lie in an ellipsoid.

    max_π  max_{θ : ‖θ − θ̂‖_{C⁻¹} ≤ 1} ⟨x_π, θ⟩  =  max_π ⟨x_π, θ̂⟩ + ‖x_π‖_C
    x_π = φ_π − φ_q = Σ_c ν_c (φ(c, π(c)) − φ(c, q(c)))

For a given θ the best policy takes `argmax_a ⟨φ(c, a), θ⟩`, and for a given policy the worst θ is known, so the two are
alternated: no step makes the value smaller, but the end may be a local maximum.

There are two upper bounds. By the triangle inequality, the sum over contexts of `max_a ⟨x, θ̂⟩ + ‖x‖_C`, about d
times too large once q is nearly right. And, in few dimensions, branch and bound: with C = LLᵀ and θ = θ̂ + Lu the value
is the maximum over unit vectors u of the convex `F(u) = Σ_c ν_c max_a ⟨x, θ̂ + Lu⟩`. The unit vectors in the cone of
v_1, …, v_d lie in the simplex of 0, sv_1, …, sv_d, where s = ‖n‖ for the n with ⟨n, v_i⟩ = 1, so F is at most the
largest of F(0) and F(sv_i). Cones are halved until that is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.realizable.cones import bound_directions

# Random directions to start from, besides both ends of every axis: more of them if a step of all costs little.
_MIN_STARTS, _MAX_STARTS, _STEP_MULTIPLICATIONS = 96, 500, 5e6
_MAX_STEPS = 60
_FIRST_SEARCHED_CONTEXTS = 2000
_MAX_PROOF_DIMENSION, _PROOF_MULTIPLICATIONS = 12, 5e8


@dataclass(frozen=True, eq=False)
class LargestDeviation:
    """The largest gain over q of any policy.

    value: the largest found.
    proven: an upper bound on it.
    points (m, d): x_π at the ends of the searches.
    """

    value: float
    proven: float
    points: FloatArray


class DeviationTask(NamedTuple):
    """The data of F, on the n contexts where some θ of the ellipsoid prefers another action than q's.

    weights (n,): ν.
    gains (n, A): ⟨x, θ̂⟩.
    turned (n, A, d): Lᵀx.
    """

    weights: FloatArray
    gains: FloatArray
    turned: FloatArray


class Response(NamedTuple):
    """The best policy for each of s directions.

    gain (s,): Σ ν ⟨x, θ̂⟩.
    spread (s, d): Σ ν Lᵀx.
    actions (s, n): its actions.
    """

    gain: FloatArray
    spread: FloatArray
    actions: IntArray


def largest_deviation(
    phi: FloatArray,
    weights: FloatArray,
    *,
    reference: IntArray,
    parameter: FloatArray,
    shape: FloatArray,
    starts: int | None = None,
    target: float | None = None,
) -> LargestDeviation:
    """Return the largest `⟨x_π, θ̂⟩ + ‖x_π‖_C` over all policies, by search; θ̂ = parameter (d,), C = shape (d, d).

    phi (N, A, d), weights (N,), reference (N,): q's actions. target: an upper bound to prove; branch and bound is tried
    if the search has not found more.
    """
    rows = np.arange(len(phi))
    root = _root(shape)
    own = phi @ parameter
    gains = own - own[rows, reference][:, None]
    turned = phi @ root
    turned = turned - turned[rows, reference][:, None, :]
    bounds = gains + np.linalg.norm(turned, axis=2)
    proven = float(weights @ bounds.max(axis=1))
    # Where no θ of the ellipsoid prefers another action, every relevant policy acts like q.
    alive = (bounds.max(axis=1) > 0) & (weights > 0)
    if not alive.any():
        return LargestDeviation(0.0, proven, np.empty((0, phi.shape[2])))
    nu = weights[alive]
    task = DeviationTask(nu, np.ascontiguousarray(gains[alive]), np.ascontiguousarray(turned[alive]))
    if starts is None:
        starts = int(np.clip(_STEP_MULTIPLICATIONS / task.turned.size, _MIN_STARTS, _MAX_STARTS))
    ends = _search(task, starts=starts)
    values = ends.gain + np.linalg.norm(ends.spread, axis=1)
    value = max(float(values.max()), 0.0)
    # The intermediate bounds of branch and bound depend on coordinates; that it reached the target does not.
    if target is not None and value <= target < proven and _proves(task, target=target):
        proven = target
    moved = (phi[alive] - phi[rows, reference][alive][:, None, :])[np.arange(len(nu))[None, :], ends.actions]
    return LargestDeviation(value, proven, np.einsum("c,scd->sd", nu, moved))


@dataclass(frozen=True, eq=False)
class _Proof:
    """The proof that F is at most the target on all unit vectors; see above and `cones`.

    most_cones: the largest number of cones to evaluate.
    """

    task: DeviationTask
    target: float
    most_cones: float

    def heights(self, vectors: FloatArray) -> FloatArray:
        """Return zeros: F is needed farther out than at the corners."""
        return np.zeros(len(vectors))

    def bounds(self, corners: FloatArray, heights: FloatArray) -> FloatArray:
        """Return max_i F(sv_i)."""
        m, d, _ = corners.shape
        normals = np.linalg.solve(corners, np.ones((m, d, 1)))[:, :, 0]
        stretch = np.linalg.norm(normals, axis=1)
        answer = _respond(self.task, (corners * stretch[:, None, None]).reshape(-1, d))
        spread = answer.spread.reshape(m, d, d)
        values = answer.gain + (spread * corners * stretch[:, None, None]).sum(axis=2).reshape(-1)
        return values.reshape(m, d).max(axis=1)

    def enough(self) -> float:
        return self.target

    def choose(self, bounds: FloatArray, *, halved: int) -> IntArray:
        """Return all, or none if evaluating their halves would exceed the limit."""
        looked_at = 2 ** self.task.turned.shape[2] + 2 * halved
        return np.arange(len(bounds) if looked_at + 2 * len(bounds) <= self.most_cones else 0)


def _proves(task: DeviationTask, *, target: float) -> bool:
    """Return whether branch and bound, within its effort, proves F at most the target on all unit vectors."""
    d = task.turned.shape[2]
    most_cones = _PROOF_MULTIPLICATIONS / (task.turned.size * d)
    if d > _MAX_PROOF_DIMENSION or 2**d > most_cones or float(task.weights @ task.gains.max(axis=1)) > target:
        return False
    return bound_directions(_Proof(task, target, most_cones), dimension=d) <= target


def _search(task: DeviationTask, *, starts: int) -> Response:
    """Return the distinct ends of searches. With many contexts, a sample is searched first, to find starts for all."""
    d = task.turned.shape[2]
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((starts, d))
    directions = np.concatenate([directions, np.eye(d), -np.eye(d)])
    if len(task.weights) > 2 * _FIRST_SEARCHED_CONTEXTS:
        count, total = _FIRST_SEARCHED_CONTEXTS, task.weights.sum()
        some = rng.choice(len(task.weights), size=count, p=task.weights / total)
        few = DeviationTask(np.full(count, total / count), task.gains[some], task.turned[some])
        directions = _climb(few, directions).spread
    return _climb(task, directions)


def _climb(task: DeviationTask, directions: FloatArray) -> Response:
    """Return the distinct ends of the searches from these directions (s, d)."""
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    best = _respond(task, directions / np.where(length > 0, length, 1.0))
    moving = np.arange(len(directions))
    for _ in range(_MAX_STEPS):
        length = np.linalg.norm(best.spread[moving], axis=1)
        moving, length = moving[length > 0], length[length > 0]
        before = best.gain[moving] + length
        answer = _respond(task, best.spread[moving] / length[:, None])
        better = answer.gain + np.linalg.norm(answer.spread, axis=1) > before + 1e-12
        moving = moving[better]
        for part, now in zip(best, answer, strict=True):
            part[moving] = now[better]
        if len(moving) == 0:
            break
    _, kept = np.unique(best.actions, axis=0, return_index=True)
    return Response(best.gain[kept], best.spread[kept], best.actions[kept])


def _respond(task: DeviationTask, directions: FloatArray) -> Response:
    """Return the best policy for each direction (s, d), with its sums."""
    count = len(directions)
    out = Response(
        np.zeros(count),
        np.zeros((count, task.turned.shape[2])),
        np.empty((count, len(task.weights)), dtype=np.int64),
    )
    ready = np.ascontiguousarray(directions)
    over_cores(lambda a, b: _fill_response(task, ready, out, a, b), count=count)
    return out


@kernel
def _fill_response(task: DeviationTask, directions: FloatArray, out: Response, start: int, stop: int) -> None:
    weights, gains, turned = task.weights, task.gains, task.turned
    gain, spread, actions = out.gain, out.spread, out.actions
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
            gain[s] += weights[c] * gains[c, chosen]
            for k in range(d):
                spread[s, k] += weights[c] * turned[c, chosen, k]


def _root(shape: FloatArray) -> FloatArray:
    """Return L with LLᵀ = C, for a C that may be singular."""
    values, vectors = np.linalg.eigh((shape + shape.T) / 2.0)
    return vectors * np.sqrt(np.maximum(values, 0.0))
