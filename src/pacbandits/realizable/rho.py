"""The realizable complexity ρ_lin,ε and its noise-weighted form, with brackets.

    ρ_lin,ε = min_p max_π ‖φ_π − φ_{π*}‖²_{A(p)⁻¹} / max(Δ_π, ε)²                          (paper, eq. `linepsilon`)
    A(p) = E_c Σ_a p(a|c) φ(c, a)φ(c, a)ᵀ,   Δ_π = ⟨φ_{π*} − φ_π, θ*⟩

ρ_lin,σ divides each φφᵀ by the noise variance σ²(c, a): weighted least squares. The class is a list of policies, the
linear ones `argmax_a ⟨φ(c, a), θ⟩` for all θ ∈ R^d (ties to the first action), or every map from contexts to actions.

**ε = 0.** Over all policies the maximum is attained where one context deviates, as ‖Σ_c ν_c x_c‖/Σ_c ν_c Δ_c ≤
max_c ‖x_c‖/Δ_c; over linear policies it is the same. For a design, 1/max_{c,a} ‖x_{c,a}‖_{A⁻¹}/Δ_{c,a} is how far, in
the norm of A, θ* is from the nearest hyperplane ⟨x_{c,a}, θ⟩ = 0. The foot of that distance lies on no other such
hyperplane, so the linear policies just behind it deviate from π* only where x_{c,a} is parallel, and there ‖x‖/Δ is the
same. That makes N(A − 1) directions: a listed problem, and both ends of its bracket are theorems.

**ε > 0.** Lists are exact as well. For the other classes `lower` is a theorem and `upper` was searched for
(`design.directions`); `proven` is a theorem at the same design (`design.ends`), or 4r/ε² where that is less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats
from pacbandits.complexity.gaps import TIE, Truth
from pacbandits.complexity.trivial import require_distinct
from pacbandits.design.enumerated import relative_gap
from pacbandits.errors import InputError
from pacbandits.policies.base import EnumeratedClass, EveryMap, PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.progress import Progress
from pacbandits.realizable.coordinates import Coordinates, change_coordinates
from pacbandits.realizable.cost_bound import proven_cost
from pacbandits.realizable.directions import search_design, search_worst
from pacbandits.realizable.pool import sift_moved
from pacbandits.realizable.price import LinearPolicies, LinearPrice

# Rewards are linear when least squares misses none by more than this.
_RESIDUAL = 1e-9
# Differences of features below this share of the features are rounding.
_SAME = 1e-11


def minimax_rho(rank: int, *, epsilon: float) -> float:
    """4r/ε² ≥ ρ_lin,ε, for features that span r dimensions (Theorem `realizable_upper`, second part).

    ‖φ_π − φ_{π*}‖² ≤ 4 E max_a ‖φ(c, a)‖²_{A⁻¹}, and some design makes the expectation r (Kiefer and Wolfowitz).
    """
    return 4.0 * rank / epsilon**2 if epsilon > 0 else np.inf


@dataclass(frozen=True, eq=False)
class LinearInstance:
    """A problem on the n of N contexts that can occur.

    own: coordinates of the features; features (n, A, r): φ in them. relative (n, A, r): φ(c, a) − φ(c, π*(c)). losses
    (n, A): r(c, π*(c)) − r(c, a). parameter (r,): θ*. listed: x_π (K, r), Δ_π (K,) and Σ_c ν_c |x_{c,π(c)}| (K,) of a
    listed class. every: whether all maps from contexts to actions are policies.
    """

    own: Coordinates
    rows: BoolArray
    features: FloatArray
    relative: FloatArray
    losses: FloatArray
    parameter: FloatArray
    best_actions: IntArray
    best_value: float
    listed: tuple[FloatArray, FloatArray, FloatArray] | None
    every: bool

    @classmethod
    def of(cls, truth: Truth, features: ArrayLike, policies: PolicyClass | None) -> LinearInstance:
        contexts, rewards = truth.population, truth.mean_rewards
        phi = floats(features, name="features", shape=(*rewards.shape, None))
        own = change_coordinates(phi, contexts.weights)
        parameter = _fit(own, rewards)
        table = _table(truth, policies)
        best = rewards.argmax(axis=1)
        if table is not None:
            best = table[int(np.argmax(sum_scores(table, contexts.weights[:, None] * rewards)))].astype(np.int64)
        every = np.arange(len(rewards))
        value = float(contexts.weights @ rewards[every, best])
        rows, n = own.rows, len(own.weights)
        moved = phi[rows] @ own.change
        chosen = best[rows]
        relative = np.ascontiguousarray(moved - moved[np.arange(n), chosen][:, None, :])
        relative[np.abs(relative).max(axis=2, initial=0.0) <= _SAME * np.abs(moved).max(axis=2, initial=0.0)] = 0.0
        losses = rewards[rows][np.arange(n), chosen][:, None] - rewards[rows]
        listed = None
        if table is not None:
            table = np.ascontiguousarray(table[:, rows])
            weighted = own.weights[:, None, None] * relative
            points = np.empty((len(table), own.rank))
            for j in range(own.rank):
                points[:, j] = sum_scores(table, np.ascontiguousarray(weighted[:, :, j]))
            gaps = np.maximum(sum_scores(table, own.weights[:, None] * losses), 0.0)
            sizes = sum_scores(table, own.weights[:, None] * np.abs(relative).max(axis=2, initial=0.0))
            listed = points, gaps, sizes
        return cls(own, rows, moved, relative, losses, parameter, best, value, listed, isinstance(policies, EveryMap))


@dataclass(frozen=True, eq=False)
class Ends:
    """A bracket, and what uniform exploration pays. points: of policies looked at, where they were searched for."""

    lower: float
    upper: float
    proven: float
    uniform: float
    propensities: FloatArray
    points: FloatArray | None = None
    note: str = ""

    @property
    def gap(self) -> float:
        return relative_gap(self.lower, self.upper)


def measure_realizable_rho(
    instance: LinearInstance,
    noise: FloatArray | None,
    *,
    epsilon: float,
    tolerance: float,
    tell: Progress,
    known: FloatArray | None = None,
) -> Ends:
    """Both ends of ρ_lin,ε, or of ρ_lin,σ with noise (n, A)."""
    where = change_coordinates(instance.features, instance.own.weights, noise=noise)
    if instance.listed is not None:
        return _measure_points(instance, where, *instance.listed, epsilon=epsilon, tolerance=tolerance)
    single = instance.relative.reshape(instance.losses.size, instance.own.rank)
    sizes = np.abs(single).max(axis=1, initial=0.0)
    if epsilon == 0:
        losses = instance.losses.reshape(-1)
        return _measure_points(instance, where, single, losses, sizes, epsilon=0.0, tolerance=tolerance)
    if _same(single @ where.change, sizes, where).all():
        return _nothing(instance)
    policies = LinearPolicies(instance.relative, instance.own.weights, instance.parameter, every=instance.every)
    found = search_design(where, policies, epsilon=epsilon, tolerance=tolerance, known=known, progress=tell)
    tell("an upper end that is a theorem")
    design = where.gather(found.solution.propensities)
    proven = proven_cost(
        LinearPrice.of(policies, where, design, epsilon=epsilon), attained=found.upper, tolerance=tolerance
    )
    largest = 1.0 if noise is None else float(noise.max())
    proven = min(proven, largest * minimax_rho(instance.own.rank, epsilon=epsilon))
    tell("uniform exploration")
    uniform = search_worst(LinearPrice.of(policies, where, where.uniform(), epsilon=epsilon), known=found.points)
    return Ends(found.lower, found.upper, proven, uniform, _spread(instance, design), points=found.points)


def _measure_points(
    instance: LinearInstance,
    where: Coordinates,
    points: FloatArray,
    gaps: FloatArray,
    sizes: FloatArray,
    *,
    epsilon: float,
    tolerance: float,
) -> Ends:
    """The same for points x (K, r) with gaps (K,), made of parts of sizes (K,) that may cancel."""
    moved = points @ where.change
    same = _same(moved, sizes, where)
    if same.all():
        return _nothing(instance)
    accuracies = np.maximum(gaps, epsilon)[~same]
    if epsilon == 0 and accuracies.min() <= TIE:
        note = "infinite: two policies tie for the best (to 1e-12), and ε = 0 asks to tell them apart"
        return Ends(np.inf, np.inf, np.inf, np.inf, _spread(instance, where.uniform()), note=note)
    targets = moved[~same] / accuracies[:, None]
    solution = sift_moved(where, targets, tolerance=tolerance)
    uniform = float((targets**2).sum(axis=1).max())
    propensities = _spread(instance, where.gather(solution.propensities))
    return Ends(solution.lower, solution.upper, solution.upper, uniform, propensities)


def _same(moved: FloatArray, sizes: FloatArray, where: Coordinates) -> BoolArray:
    """Which of the vectors (K, r), made of parts of sizes (K,), are rounding."""
    return np.abs(moved).max(axis=1, initial=0.0) <= _SAME * sizes * np.abs(where.change).max(initial=0.0)


def _nothing(instance: LinearInstance) -> Ends:
    uniform = np.full((len(instance.own.weights), instance.own.n_actions), 1.0 / instance.own.n_actions)
    return Ends(0.0, 0.0, 0.0, 0.0, _spread(instance, uniform), note="every policy is worth the same: nothing to learn")


def _spread(instance: LinearInstance, propensities: FloatArray) -> FloatArray:
    """Propensities (n, A) on all N contexts."""
    return instance.own.spread(propensities)


def _fit(own: Coordinates, rewards: FloatArray) -> FloatArray:
    """θ* in the coordinates `own`, or a sentence. There uniform exploration has the identity for its information."""
    target = rewards[own.rows].reshape(-1)
    mass = np.repeat(own.weights, own.n_actions) / own.n_actions
    parameter = own.points.T @ (mass * target)
    residual = float(np.abs(own.points @ parameter - target).max())
    if residual > _RESIDUAL * max(1.0, float(np.abs(target).max())):
        raise InputError(
            f"mean rewards are not linear in the features (least squares misses one by {residual:.3g}); "
            "leave out --realizable"
        )
    return parameter


def _table(truth: Truth, policies: PolicyClass | None) -> np.ndarray[Any, Any] | None:
    """The actions (K, N) of a listed class; None for linear policies and for all."""
    if policies is None:
        return None
    contexts, shape = truth.population, truth.mean_rewards.shape
    if policies.n_actions != shape[1]:
        raise InputError(f"the policies have {policies.n_actions} actions, but mean_rewards has {shape[1]} columns")
    if isinstance(policies, EveryMap):
        require_distinct(policies, contexts)
        return None
    if not isinstance(policies, EnumeratedClass):
        raise InputError(
            f"the class {type(policies).__name__} cannot be listed; the realizable complexity needs a listed class, "
            "the trivial one, or all linear policies"
        )
    return np.asarray(policies.actions(contexts))
