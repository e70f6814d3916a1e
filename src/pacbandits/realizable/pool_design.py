"""Designs for rewards that are linear in features: the ratio form on a pool of given directions.

    min_p max_k ‖x_k‖²_{A(p)⁻¹}/d_k²,   A(p) = Σ_c ν_c Σ_a p(a|c) φ(c, a)φ(c, a)ᵀ/σ²(c, a)

By duality this is max_λ min_p tr(A(p)⁻¹M), M = Σ_k λ_k x_k x_kᵀ/d_k², λ in the simplex. With

    v_k = ‖x_k‖²_{A⁻¹}/d_k²,   g(c, a) = φᵀA⁻¹MA⁻¹φ/σ²,   f = tr(A⁻¹M) = Σ_k λ_k v_k = Σ_c ν_c Σ_a p g

every p and λ give both ends of a bracket:

    f²/Σ_c ν_c max_a g(c, a)  ≤  optimum  ≤  max_k v_k.

The upper end is the objective at p. For the lower one take any other p', A' = A(p'). By Cauchy and Schwarz
f = tr(M^½A'^{−½} · A'^½A⁻¹M^½) ≤ tr(A'⁻¹M)^½ tr(A'A⁻¹MA⁻¹)^½, and the last trace is Σ_c ν_c Σ_a p' g ≤ Σ_c ν_c max_a g.

Plain steps `p ← p √g` (renormalised in each context) and `λ ← λ v` (renormalised) have no parameter. Both are raised
to a power that grows while the bracket of the iterates narrows and returns to one when it does not; λ also extrapolates
(v_t²/v_{t−1} instead of v_t), which keeps the two from oscillating.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.allocation import check_floor
from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import positive
from pacbandits.design.weights import relative_gap
from pacbandits.errors import InputError
from pacbandits.realizable.features import Coordinates, change_coordinates

# Both ends are moved outward by this share for rounding; A is conditioned well enough for it.
ROUNDING_SHARE = 1e-9
_POWER_GROWTH, _POWER_RETREAT, _MAX_POWER = 1.1, 0.5, 8.0
# No share falls below this share of the largest, as it could not recover.
_MIN_SHARE = 1e-12
# The share of uniform exploration that keeps A(p) well conditioned: per unit of tolerance, and its minimum. It raises
# the upper end by as much.
_UNIFORM_SHARE_PER_TOLERANCE, _MIN_UNIFORM_SHARE = 0.01, 1e-7


@dataclass(frozen=True)
class PoolOptions:
    """Options of the solver for a pool.

    floor: the minimum propensity.
    tolerance: the relative gap to stop at.
    max_iterations: the largest number of evaluations of A(p).
    max_at_once: a larger pool is solved for a few directions at a time.
    """

    floor: float = 0.0
    tolerance: float = 0.01
    max_iterations: int = 2_000
    max_at_once: int = 20_000


DEFAULT_OPTIONS = PoolOptions()


@dataclass(frozen=True, eq=False)
class PoolSolution:
    """A design and a bracket on the optimum: lower ≤ min_p max_k ‖x_k‖²_{A(p)⁻¹}/d_k² ≤ upper.

    propensities (N, A): attain `upper`; uniform where a context cannot occur.
    lower, upper: the bracket.
    multipliers (K,): the λ that proves `lower`.
    iterations: evaluations of A(p).
    tolerance: the requested gap.
    """

    propensities: FloatArray
    lower: float
    upper: float
    multipliers: FloatArray
    iterations: int
    tolerance: float

    @property
    def gap(self) -> float:
        """Return upper/lower − 1."""
        return relative_gap(self.lower, self.upper)

    @property
    def converged(self) -> bool:
        """Return whether the requested relative gap was reached."""
        return bool(self.gap <= self.tolerance)


def solve_pool(
    features: ArrayLike,
    weights: ArrayLike,
    directions: ArrayLike,
    accuracies: ArrayLike,
    *,
    noise: ArrayLike | None = None,
    start: ArrayLike | None = None,
    options: PoolOptions = DEFAULT_OPTIONS,
) -> PoolSolution:
    """Return the best design for given directions.

    features (N, A, d): φ. weights (N,): ν. directions (K, d): x_k, in the span of the features. accuracies (K,): d_k,
    positive. noise (N, A): σ², by default ones; directions without noise are learned at once and cost nothing. start
    (N, A): propensities that the result must not be worse than; the steps still begin at uniform ones, as they are many
    times slower from a design that has given up most actions.
    """
    where = change_coordinates(features, weights, noise=noise)
    moved = where.move(floats(directions, name="directions", shape=(None, where.dimension)))
    accuracy = floats(accuracies, name="accuracies", shape=(len(moved),))
    if len(accuracy) and accuracy.min() <= 0:
        raise InputError(f"accuracies must be positive, but entry {int(accuracy.argmin())} is {accuracy.min():.6g}")
    begin = None if start is None else floats(start, name="start", shape=where.shape)
    return solve_targets(where, moved / accuracy[:, None], start=begin, options=options)


def solve_targets(
    where: Coordinates,
    targets: FloatArray,
    *,
    start: FloatArray | None = None,
    options: PoolOptions = DEFAULT_OPTIONS,
) -> PoolSolution:
    """Return the best design for directions divided by their accuracies, (K, r), in given coordinates.

    Of very many directions few matter: a few are solved, all are evaluated at the design found, those with the largest
    values join, and so on. The lower end is that of the few, the upper one that of all.
    """
    if len(targets) <= options.max_at_once:
        return _solve_at_once(where, targets, start, options)
    active = _largest(_values(where, targets, where.uniform()), options.max_at_once // 10)
    lower, upper, iterations = 0.0, np.inf, 0
    best, proof = where.spread(where.uniform()), np.full(len(targets), 1.0 / len(targets))
    while iterations < options.max_iterations:
        rest = replace(options, tolerance=options.tolerance / 2, max_iterations=options.max_iterations - iterations)
        solved = _solve_at_once(where, targets[active], start, rest)
        iterations += solved.iterations
        values = _values(where, targets, where.gather(solved.propensities))
        if solved.lower > lower:
            lower, proof = solved.lower, np.zeros(len(targets))
            proof[active] = solved.multipliers
        if values.max() * (1.0 + ROUNDING_SHARE) < upper:
            upper, best = float(values.max()) * (1.0 + ROUNDING_SHARE), solved.propensities
        values[active] = 0.0
        fresh = _largest(values, options.max_at_once // 20)
        fresh = fresh[values[fresh] > lower]
        if relative_gap(lower, upper) <= options.tolerance or len(fresh) == 0:
            break
        active = np.concatenate([active, fresh])
    return PoolSolution(best, lower, upper, proof, iterations, options.tolerance)


def _solve_at_once(
    where: Coordinates, targets: FloatArray, start: FloatArray | None, options: PoolOptions
) -> PoolSolution:
    """Return the best design with all directions in the pool."""
    n_actions, tolerance = where.n_actions, positive(options.tolerance, name="tolerance")
    floor = check_floor(options.floor, n_actions=n_actions)
    lengths = np.abs(targets).max(axis=1, initial=0.0)
    if not lengths.any():
        equal = np.full(len(targets), 1.0 / max(len(targets), 1))
        return PoolSolution(where.spread(where.uniform()), 0.0, 0.0, equal, 0, tolerance)
    unit = float(lengths.max())
    mixed = max(_UNIFORM_SHARE_PER_TOLERANCE * min(tolerance, 1.0), _MIN_UNIFORM_SHARE) / n_actions
    bracket = _Bracket(where, targets / unit, max(floor, mixed), floor)
    shares, weights = where.uniform(), np.full(len(targets), 1.0 / len(targets))
    if start is not None:
        bracket.at(_check_start(where.gather(start)), weights)
    power, old_ratio, old_gap = 1.0, None, np.inf
    while True:
        gains, ratio, gap = bracket.at(shares, weights)
        if relative_gap(bracket.lower, bracket.upper) <= tolerance or bracket.iterations >= options.max_iterations:
            break
        power = min(power * _POWER_GROWTH, _MAX_POWER) if gap <= old_gap else max(power * _POWER_RETREAT, 1.0)
        shares = _raise(shares, gains, power / 2)
        weights = _raise(weights, ratio if old_ratio is None else ratio * (ratio / old_ratio), power)
        old_ratio, old_gap = ratio, gap
    return PoolSolution(
        where.spread(bracket.best),
        bracket.lower * unit**2 * (1.0 - ROUNDING_SHARE),
        bracket.upper * unit**2 * (1.0 + ROUNDING_SHARE),
        bracket.proof,
        bracket.iterations,
        tolerance,
    )


def _values(where: Coordinates, targets: FloatArray, propensities: FloatArray) -> FloatArray:
    """Return v_k (K,) at nonzero propensities (n, A)."""
    pulled = targets @ np.linalg.inv(where.information(propensities))
    return (pulled * targets).sum(axis=1)


def _largest(values: FloatArray, count: int) -> IntArray:
    return np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))


class _Bracket:
    """Evaluates p and λ, and keeps the best bracket.

    targets (K, r): x_k/d_k. mixed: the minimum propensity that is played; floor: that of every admissible design.
    """

    def __init__(self, where: Coordinates, targets: FloatArray, mixed: float, floor: float) -> None:
        self.where = where
        self.targets = targets
        self.mixed = mixed
        self.floor = floor
        self.lower = 0.0
        self.upper = np.inf
        self.best = where.uniform()
        self.proof = np.full(len(targets), 1.0 / len(targets))
        self.iterations = 0

    def at(self, shares: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return g (n, A), v/f (K,), and the gap of the bracket of this p and this λ."""
        where = self.where
        propensities = (1.0 - self.mixed * where.n_actions) * shares + self.mixed
        pulled = self.targets @ np.linalg.inv(where.information(propensities))
        values = np.maximum((pulled * self.targets).sum(axis=1), 0.0)
        mean = float(weights @ values)
        gains = where.gains((pulled * weights[:, None]).T @ pulled)
        most = (1.0 - self.floor * where.n_actions) * gains.max(axis=1) + self.floor * gains.sum(axis=1)
        lower, upper = mean**2 / float(where.weights @ most), float(values.max())
        self.iterations += 1
        if lower > self.lower:
            self.lower, self.proof = lower, weights
        if upper < self.upper:
            self.upper, self.best = upper, propensities
        return gains, np.maximum(values / mean, 1e-100), relative_gap(lower, upper)


def _raise(shares: FloatArray, factors: FloatArray, power: float) -> FloatArray:
    """Return shares times a power of the factors, renormalised along the last axis."""
    largest = factors.max(axis=-1, keepdims=True)
    out = shares * (factors / np.where(largest > 0, largest, 1.0)) ** power
    out = np.where(largest > 0, out, shares)
    out = np.maximum(out, _MIN_SHARE * out.max(axis=-1, keepdims=True))
    return out / out.sum(axis=-1, keepdims=True)


def _check_start(shares: FloatArray) -> FloatArray:
    if shares.min(initial=0.0) < 0 or not (np.abs(shares.sum(axis=1) - 1.0) <= 1e-6).all():
        raise InputError("start must be propensities: not negative, and summing to 1 in every context")
    return shares
