"""The complexity of a problem whose mean rewards are linear in known features, in one record."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats
from pacbandits.checks import positive
from pacbandits.complexity import lower_bounds as bounds
from pacbandits.complexity.gaps import TIED_GAP, Law, Truth, check_truth, law_of
from pacbandits.complexity.rho import require_distinct
from pacbandits.confidence import check_delta, check_epsilon
from pacbandits.design.weights import relative_gap
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.finite import sum_scores
from pacbandits.progress import Progress, listener
from pacbandits.realizable.features import MAX_NOISELESS_SHARE, Coordinates, change_coordinates
from pacbandits.realizable.policy_search import (
    MAX_DIRECTIONS,
    MAX_HALVED_CONES,
    LinearPolicies,
    PolicyCosts,
    proven_cost,
    search_design,
    search_worst,
)
from pacbandits.realizable.pool_design import PoolOptions, solve_targets

# A problem with linear rewards: features, gaps and policies on the contexts that can occur.


# Rewards count as linear if every residual of least squares is at most this share of the largest reward (or of 1).
_MAX_RESIDUAL = 1e-9
# Differences of features up to this share of the features are rounding errors.
ROUNDING_SHARE_OF_DIFFERENCES = 1e-11


@dataclass(frozen=True, eq=False)
class Points:
    """Policies, or deviations in a single context, as points.

    x (K, r): φ_π − φ_{π*}.
    gaps (K,): Δ_π.
    sizes (K,): Σ_c ν_c |x_{c,π(c)}|, the total of the terms of x, which may cancel.
    """

    x: FloatArray
    gaps: FloatArray
    sizes: FloatArray


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem on the n of N contexts that can occur.

    own: coordinates of the features.
    rows (N,): which contexts can occur.
    features (n, A, r): φ, in those coordinates.
    relative (n, A, r): φ(c, a) − φ(c, π*(c)).
    losses (n, A): r(c, π*(c)) − r(c, a).
    parameter (r,): θ*.
    best_actions (N,): π*.
    best_value: V(π*).
    listed: the policies of a listed class.
    every: whether all maps from contexts to actions are policies.
    """

    own: Coordinates
    rows: BoolArray
    features: FloatArray
    relative: FloatArray
    losses: FloatArray
    parameter: FloatArray
    best_actions: IntArray
    best_value: float
    listed: Points | None
    every: bool

    @classmethod
    def of(cls, truth: Truth, features: ArrayLike, policies: PolicyClass | None) -> Instance:
        """Return it for features (N, A, d); policies: a listed class, the trivial one, or None for all linear ones."""
        contexts, rewards = truth.population, truth.mean_rewards
        phi = floats(features, name="features", shape=(*rewards.shape, None))
        own = change_coordinates(phi, contexts.weights)
        parameter = _fit(own, rewards)
        table = _table(truth, policies)
        best = rewards.argmax(axis=1)
        if table is not None:
            best = table[int(np.argmax(sum_scores(table, contexts.weights[:, None] * rewards)))].astype(np.int64)
        value = float(contexts.weights @ rewards[np.arange(len(rewards)), best])
        rows, n = own.rows, len(own.weights)
        moved = phi[rows] @ own.change
        chosen = best[rows]
        relative = np.ascontiguousarray(moved - moved[np.arange(n), chosen][:, None, :])
        largest = np.abs(moved).max(axis=2, initial=0.0)
        relative[np.abs(relative).max(axis=2, initial=0.0) <= ROUNDING_SHARE_OF_DIFFERENCES * largest] = 0.0
        losses = rewards[rows][np.arange(n), chosen][:, None] - rewards[rows]
        listed = None if table is None else _points(table[:, rows], own.weights, relative, losses)
        every = policies is not None and policies.holds_every_map
        return cls(own, rows, moved, relative, losses, parameter, best, value, listed, every)

    def single_deviations(self) -> Points:
        """Return the deviations from π* in one context; its weight, a factor of both x and Δ, is left out."""
        x = self.relative.reshape(self.losses.size, self.own.rank)
        return Points(x, self.losses.reshape(-1), np.abs(x).max(axis=1, initial=0.0))


def _points(actions: np.ndarray[Any, Any], weights: FloatArray, relative: FloatArray, losses: FloatArray) -> Points:
    """Return the points of policies with these actions (K, n)."""
    table = np.ascontiguousarray(actions)
    rank = relative.shape[2]
    weighted = weights[:, None, None] * relative
    x = np.empty((len(table), rank))
    for j in range(rank):
        x[:, j] = sum_scores(table, np.ascontiguousarray(weighted[:, :, j]))
    gaps = np.maximum(sum_scores(table, weights[:, None] * losses), 0.0)
    sizes = sum_scores(table, weights[:, None] * np.abs(relative).max(axis=2, initial=0.0))
    return Points(x, gaps, sizes)


def _fit(own: Coordinates, rewards: FloatArray) -> FloatArray:
    """Return θ* in the coordinates `own`, where uniform exploration has the identity as its information, or raise."""
    target = rewards[own.rows].reshape(-1)
    mass = np.repeat(own.weights, own.n_actions) / own.n_actions
    parameter = own.points.T @ (mass * target)
    residual = float(np.abs(own.points @ parameter - target).max())
    if residual > _MAX_RESIDUAL * max(1.0, float(np.abs(target).max())):
        raise InputError(
            f"mean rewards are not linear in the features (least squares misses one by {residual:.3g}); "
            "leave out --realizable"
        )
    return parameter


def _table(truth: Truth, policies: PolicyClass | None) -> np.ndarray[Any, Any] | None:
    """Return the actions (K, N) of a listed class; None for linear policies and for all maps."""
    if policies is None:
        return None
    contexts, shape = truth.population, truth.mean_rewards.shape
    if policies.n_actions != shape[1]:
        raise InputError(f"the policies have {policies.n_actions} actions, but mean_rewards has {shape[1]} columns")
    if policies.holds_every_map:
        require_distinct(policies, contexts)
        return None
    if not policies.lists_policies:
        raise InputError(
            f"the class {policies.type_name} cannot be listed; the realizable complexity needs a listed class, "
            "the trivial one, or all linear policies"
        )
    return np.asarray(policies.actions(contexts))


# The realizable complexity ρ_lin,ε and its noise-weighted form, with brackets.
#
#     ρ_lin,ε = min_p max_π ‖φ_π − φ_{π*}‖²_{A(p)⁻¹} / max(Δ_π, ε)²                          (paper, eq. `linepsilon`)
#     A(p) = E_c Σ_a p(a|c) φ(c, a)φ(c, a)ᵀ,   Δ_π = ⟨φ_{π*} − φ_π, θ*⟩
#
# ρ_lin,σ divides each φφᵀ by the noise variance σ²(c, a): weighted least squares. The class is a list of policies, the
# linear ones `argmax_a ⟨φ(c, a), θ⟩` for all θ ∈ R^d (ties to the first action), or every map from contexts to actions.
#
# **ε = 0.** Over all policies the maximum is attained where one context deviates, as ‖Σ_c ν_c x_c‖/Σ_c ν_c Δ_c ≤ max_c
# ‖x_c‖/Δ_c; over linear policies it is the same. For a design, 1/max_{c,a} ‖x_{c,a}‖_{A⁻¹}/Δ_{c,a} is how far, in the
# norm of A, θ* is from the nearest hyperplane ⟨x_{c,a}, θ⟩ = 0. The foot of that distance lies on no other such
# hyperplane, so the linear policies just behind it deviate from π* only where x_{c,a} is parallel, and there ‖x‖/Δ is
# the same. That makes N(A − 1) directions: a listed problem, and both ends of its bracket are theorems.
#
# **ε > 0.** Lists are exact as well. For the other classes `lower` is a theorem and `upper` is found by search
# (`policy_search`); `proven` is a theorem at the same design (`proven_cost`), or 4r/ε² if that is less.


@dataclass(frozen=True)
class SearchEffort:
    """The effort of the search for the worst of policies that cannot be listed.

    max_directions: evaluated in one search for policies.
    max_halved_cones: in the proof that none costs more.
    """

    max_directions: int = MAX_DIRECTIONS
    max_halved_cones: int = MAX_HALVED_CONES


FULL_EFFORT = SearchEffort()


@dataclass(frozen=True, eq=False)
class RhoBracket:
    """A bracket on ρ, and the value at uniform exploration.

    lower, upper: its ends.
    proven: an upper end that is a theorem.
    uniform: the value at uniform exploration.
    propensities (N, A): the design of `upper`.
    points (m, r): of the policies that the search evaluated.
    note: set in a special case.
    """

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


def minimax_rho(rank: int, *, epsilon: float) -> float:
    """Return 4r/ε² ≥ ρ_lin,ε, for features that span r dimensions (Theorem `realizable_upper`, second part).

    ‖φ_π − φ_{π*}‖² ≤ 4 E max_a ‖φ(c, a)‖²_{A⁻¹}, and some design makes the expectation r (Kiefer and Wolfowitz).
    """
    return 4.0 * rank / epsilon**2 if epsilon > 0 else np.inf


def measure_realizable_rho(
    instance: Instance,
    noise: FloatArray | None,
    *,
    epsilon: float,
    tolerance: float,
    tell: Progress,
    known: FloatArray | None = None,
    effort: SearchEffort = FULL_EFFORT,
) -> RhoBracket:
    """Return a bracket on ρ_lin,ε, or on ρ_lin,σ with noise (n, A). known (m, r): policies evaluated before."""
    where = change_coordinates(instance.features, instance.own.weights, noise=noise)
    if instance.listed is not None:
        return _measure_points(instance, where, instance.listed, epsilon=epsilon, tolerance=tolerance)
    single = instance.single_deviations()
    if epsilon == 0:
        return _measure_points(instance, where, single, epsilon=0.0, tolerance=tolerance)
    if _same(single.x @ where.change, single.sizes, where).all():
        return _nothing(instance)
    policies = LinearPolicies(instance.relative, instance.own.weights, instance.parameter, every=instance.every)
    found = search_design(
        where,
        policies,
        epsilon=epsilon,
        tolerance=tolerance,
        known=known,
        max_directions=effort.max_directions,
        progress=tell,
    )
    tell("an upper end that is a theorem")
    design = where.gather(found.solution.propensities)
    proven = proven_cost(
        PolicyCosts.of(policies, where, design, epsilon=epsilon),
        attained=found.upper,
        tolerance=tolerance,
        max_halved_cones=effort.max_halved_cones,
    )
    largest = 1.0 if noise is None else float(noise.max())
    proven = min(proven, largest * minimax_rho(instance.own.rank, epsilon=epsilon))
    tell("uniform exploration")
    uniform = search_worst(
        PolicyCosts.of(policies, where, where.uniform(), epsilon=epsilon),
        known=found.points,
        max_directions=effort.max_directions,
    )
    propensities = instance.own.spread(design)
    return RhoBracket(found.lower, found.upper, proven, uniform, propensities, points=found.points)


def _measure_points(
    instance: Instance, where: Coordinates, points: Points, *, epsilon: float, tolerance: float
) -> RhoBracket:
    """Return the bracket for given points."""
    moved = points.x @ where.change
    same = _same(moved, points.sizes, where)
    if same.all():
        return _nothing(instance)
    accuracies = np.maximum(points.gaps, epsilon)[~same]
    if epsilon == 0 and accuracies.min() <= TIED_GAP:
        note = "infinite: two policies tie for the best (to 1e-12), and ε = 0 asks to tell them apart"
        return RhoBracket(np.inf, np.inf, np.inf, np.inf, instance.own.spread(where.uniform()), note=note)
    targets = moved[~same] / accuracies[:, None]
    solution = solve_targets(where, targets, options=PoolOptions(tolerance=tolerance))
    uniform = float((targets**2).sum(axis=1).max())
    propensities = instance.own.spread(where.gather(solution.propensities))
    return RhoBracket(solution.lower, solution.upper, solution.upper, uniform, propensities)


def _same(moved: FloatArray, sizes: FloatArray, where: Coordinates) -> BoolArray:
    """Return which of the vectors (K, r), sums of terms of sizes (K,), are zero up to rounding."""
    rounding = ROUNDING_SHARE_OF_DIFFERENCES * sizes * np.abs(where.change).max(initial=0.0)
    return np.abs(moved).max(axis=1, initial=0.0) <= rounding


def _nothing(instance: Instance) -> RhoBracket:
    note = "every policy is worth the same: nothing to learn"
    return RhoBracket(0.0, 0.0, 0.0, 0.0, instance.own.spread(instance.own.uniform()), note=note)


@dataclass(frozen=True, eq=False)
class RealizableComplexity:
    """The complexity of a problem with linear rewards. A field that is None has its reason in `notes`.

    The problem:

    policies: "listed", "linear" or "all".
    dimension: d, of the features.
    rank: r, of the span of the features.
    n_policies: |Π|, of a listed class.
    log_size: log|Π|, or an upper bound on it.
    log_cover: of a cover of directions, see `log_cover`.
    n_contexts: N, with those that cannot occur.
    n_actions: A.
    epsilon: ε.
    delta: δ.
    best_value: V(π*).
    best_actions (N,): π*.

    Complexities at ε, and weighted by noise (`sigma`):

    rho_lower, rho_sigma_lower: a lower bound on ρ, a theorem.
    rho_upper, rho_sigma_upper: the largest cost of a policy found, at the best design found.
    rho_proven, rho_sigma_proven: an upper bound that is a theorem; `upper` itself if `exact`.
    rho_uniform, rho_sigma_uniform: the value at uniform exploration, found as `upper` is.
    rho_minimax: 4r/ε², an upper bound on every ρ.
    exact: whether both ends are theorems.
    propensities (N, A): the design of rho_upper.

    Numbers of samples:

    lower_bound: for any algorithm, at ε = 0 and with Gaussian noise.
    minimax_bound: sufficient for every problem of this rank, up to a constant.
    confidence_price: 2ρ_σ log(1/2.4δ), the price of confidence alone.
    union_price: 2ρ_σ(min(log cover, log|Π|) + log(1/δ)), with the best design.
    union_price_uniform: the same with uniform exploration.

    The computation:

    converged: whether the brackets are as narrow as requested.
    tolerance: the requested relative gap.
    seconds: its running time.
    notes: remarks on special cases, by the name of the field.
    """

    policies: str
    dimension: int
    rank: int
    n_policies: int | None
    log_size: float
    log_cover: float
    n_contexts: int
    n_actions: int
    epsilon: float
    delta: float
    best_value: float
    # Complexities.
    rho_lower: float
    rho_upper: float
    rho_proven: float
    rho_uniform: float
    rho_minimax: float
    rho_sigma_lower: float
    rho_sigma_upper: float
    rho_sigma_proven: float
    rho_sigma_uniform: float
    exact: bool
    # Numbers of samples.
    lower_bound: float | None
    minimax_bound: float
    confidence_price: float
    union_price: float
    union_price_uniform: float
    # The computation.
    converged: bool
    tolerance: float
    seconds: float
    # Arrays, which are not part of the JSON.
    best_actions: IntArray
    propensities: FloatArray
    notes: dict[str, str] = field(default_factory=dict[str, str])

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values; an infinite number is the string "Infinity"."""
        arrays = {"best_actions", "propensities"}
        out = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in arrays}
        return {k: "Infinity" if isinstance(v, float) and math.isinf(v) else v for k, v in out.items()}


def measure_realizable(
    truth: Truth,
    features: ArrayLike,
    policies: PolicyClass | None,
    *,
    epsilon: float,
    delta: float,
    tolerance: float = 0.01,
    effort: SearchEffort = FULL_EFFORT,
    progress: Progress | None = None,
) -> RealizableComplexity:
    """Measure a problem whose mean rewards are linear in features (N, A, d).

    policies: a class that can be listed, the trivial one (every map from contexts to actions), or None for all linear
    policies. tolerance: relative gap at which the brackets stop. effort: of the search, if one is needed.
    Raises `InputError` if mean rewards are not linear in the features, or the class is none of these.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("linear:dimension=2,actions=3,contexts=20")
    >>> found = pb.measure_realizable(problem, problem.realizable.features, problem.policies, epsilon=0.1, delta=0.05)
    >>> found.rho_lower <= found.rho_upper <= found.rho_minimax
    True
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    tolerance = positive(tolerance, name="tolerance")
    check_truth(truth)
    if policies is not None:
        policies = check_class(policies)
    began = time.perf_counter()
    tell = listener(progress)
    tell("features")
    instance = Instance.of(truth, features, policies)
    noise = truth.noise_variance[instance.rows]
    rho = partial(measure_realizable_rho, instance, epsilon=epsilon, tolerance=tolerance, tell=tell, effort=effort)
    tell("ρ")
    plain = sigma = rho(None)
    if not (noise == 1.0).all():
        tell("ρ_σ")
        sigma = rho(noise, known=plain.points)
    notes = _notes(instance, plain, sigma, noise)
    if doubt := _doubt_lower_bound(truth, epsilon):
        notes["lower_bound"] = doubt
    log_size = _log_size(instance, policies)
    cover = log_cover(instance.own.rank, epsilon=epsilon)
    union = min(cover, log_size)
    return RealizableComplexity(
        policies="linear" if policies is None else "all" if policies.holds_every_map else "listed",
        dimension=instance.own.dimension,
        rank=instance.own.rank,
        n_policies=len(policies) if policies is not None and policies.lists_policies else None,
        log_size=log_size,
        log_cover=cover,
        n_contexts=len(instance.rows),
        n_actions=instance.own.n_actions,
        epsilon=epsilon,
        delta=delta,
        best_value=instance.best_value,
        rho_lower=plain.lower,
        rho_upper=plain.upper,
        rho_proven=plain.proven,
        rho_uniform=plain.uniform,
        rho_minimax=minimax_rho(instance.own.rank, epsilon=epsilon),
        rho_sigma_lower=sigma.lower,
        rho_sigma_upper=sigma.upper,
        rho_sigma_proven=sigma.proven,
        rho_sigma_uniform=sigma.uniform,
        exact=plain.points is None,
        lower_bound=None if doubt else bounds.lower_bound(sigma.lower, delta=delta),
        minimax_bound=minimax_bound(instance.own.rank, epsilon=epsilon, delta=delta),
        confidence_price=bounds.confidence_price(sigma.upper, delta=delta),
        union_price=bounds.union_price(sigma.upper, log_size=union, delta=delta),
        union_price_uniform=bounds.union_price(sigma.uniform, log_size=union, delta=delta),
        converged=max(plain.gap, sigma.gap) <= tolerance,
        tolerance=tolerance,
        seconds=time.perf_counter() - began,
        best_actions=instance.best_actions,
        propensities=plain.propensities,
        notes=notes,
    )


def log_cover(rank: int, *, epsilon: float) -> float:
    """Return r log(1 + 2/ε): the unit ball of any norm on R^r has an ε-net of at most (1 + 2/ε)^r points.

    The paper's union over d log(1/ε) (Theorem `realizable_upper`), with a constant. The norm is that of the design:
    the net of directions v, ‖v‖_A ≤ 1, gives every ‖x_π‖_{A⁻¹} = max_v ⟨v, x_π⟩ up to a share ε.
    """
    return rank * math.log1p(2.0 / epsilon) if epsilon > 0 else np.inf


def minimax_bound(rank: int, *, epsilon: float, delta: float) -> float:
    """Return `d (d log(1/ε) + log(1/δ)) log(1/ε)/ε²`, Theorem `realizable_upper`, second part, with constant 1, d = r.

    log(1/ε) is taken to be at least log 2: one round.
    """
    if epsilon == 0:
        return np.inf
    rounds = max(-math.log(epsilon), math.log(2.0))
    return rank * (rank * rounds - math.log(delta)) * rounds / epsilon**2


def _doubt_lower_bound(truth: Truth, epsilon: float) -> str:
    """Return why the lower bound is not a theorem here; "" if it is."""
    if epsilon > 0:
        return "a theorem for ε = 0 only"
    return "" if law_of(truth) is Law.GAUSSIAN else "a theorem for Gaussian noise only"


def _log_size(instance: Instance, policies: PolicyClass | None) -> float:
    """Return log|Π|. Linear policies are at most the cells of an arrangement: 2 Σ_{i<r} C(M − 1, i), M hyperplanes."""
    if policies is not None:
        return policies.log_size
    n, n_actions = instance.losses.shape
    rank, planes = instance.own.rank, n * n_actions * (n_actions - 1) // 2
    if rank == 0 or planes == 0:
        return 0.0
    terms = [math.lgamma(planes) - math.lgamma(i + 1) - math.lgamma(planes - i) for i in range(min(rank, planes))]
    cells = math.log(2.0) + float(np.logaddexp.reduce(terms))
    return min(cells, n * math.log(n_actions))


def _notes(instance: Instance, plain: RhoBracket, sigma: RhoBracket, noise: FloatArray) -> dict[str, str]:
    notes: dict[str, str] = {}
    if instance.own.rank < instance.own.dimension:
        notes["rank"] = f"the features span {instance.own.rank} of {instance.own.dimension} dimensions"
    for name, ends in (("rho", plain), ("rho_sigma", sigma)):
        if ends.note:
            notes[name] = ends.note
    if sigma.upper == 0 < plain.upper:
        notes["rho_sigma"] = "zero: rewards carry no noise where policies differ"
    elif (noise <= MAX_NOISELESS_SHARE * noise.max(initial=0.0)).any():
        notes["rho_sigma"] = "; ".join(
            word for word in (sigma.note, "some rewards carry no noise, and what they teach costs nothing") if word
        )
    return notes
