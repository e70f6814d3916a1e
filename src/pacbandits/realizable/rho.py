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
(`searched_design`); `proven` is a theorem at the same design (`cost_bound`), or 4r/ε² where that is less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.complexity.gaps import TIED_GAP
from pacbandits.design.enumerated import relative_gap
from pacbandits.progress import Progress
from pacbandits.realizable.coordinates import Coordinates, change_coordinates
from pacbandits.realizable.cost_bound import MAX_HALVED_CONES, proven_cost
from pacbandits.realizable.costs import LinearPolicies, PolicyCosts
from pacbandits.realizable.instance import ROUNDING_SHARE_OF_DIFFERENCES, Instance, Points
from pacbandits.realizable.pool_design import PoolOptions, solve_targets
from pacbandits.realizable.searched_design import MAX_DIRECTIONS, search_design, search_worst


@dataclass(frozen=True)
class SearchEffort:
    """How long to look for the worst of policies that cannot be listed.

    max_directions: evaluated in one search for policies.
    max_halved_cones: in the proof that none costs more.
    """

    max_directions: int = MAX_DIRECTIONS
    max_halved_cones: int = MAX_HALVED_CONES


FULL_EFFORT = SearchEffort()


@dataclass(frozen=True, eq=False)
class RhoBracket:
    """A bracket on ρ, and what uniform exploration pays.

    lower, upper: its ends.
    proven: an upper end that is a theorem.
    uniform: what uniform exploration pays.
    propensities (N, A): the design of `upper`.
    points (m, r): of policies looked at, where they were searched for.
    note: a word on a special case.
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
    """4r/ε² ≥ ρ_lin,ε, for features that span r dimensions (Theorem `realizable_upper`, second part).

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
    """Both ends of ρ_lin,ε, or of ρ_lin,σ with noise (n, A). known (m, r): policies that were looked at before."""
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
    """The same for given points."""
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
    """Which of the vectors (K, r), made of parts of sizes (K,), are rounding."""
    rounding = ROUNDING_SHARE_OF_DIFFERENCES * sizes * np.abs(where.change).max(initial=0.0)
    return np.abs(moved).max(axis=1, initial=0.0) <= rounding


def _nothing(instance: Instance) -> RhoBracket:
    note = "every policy is worth the same: nothing to learn"
    return RhoBracket(0.0, 0.0, 0.0, 0.0, instance.own.spread(instance.own.uniform()), note=note)
