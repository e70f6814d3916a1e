"""The ratio form over all linear policies: a pool, a search for costly policies, and a bound on all others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.progress import Progress
from pacbandits.realizable.cones import bound_directions
from pacbandits.realizable.features import Coordinates, row_span
from pacbandits.realizable.pool_design import ROUNDING_SHARE, PoolOptions, PoolSolution, solve_targets

# Linear policies as points in the space of features, and their costs at a design.


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
        """Return x_π (K, r) of the policies of directions (K, r)."""
        out = np.empty_like(directions)
        over_cores(lambda a, b: _fill_points(self.relative, self.weights, directions, out, a, b), count=len(directions))
        return out

    def gaps(self, points: FloatArray) -> FloatArray:
        """Return Δ_π (K,) of points x_π (K, r)."""
        return np.maximum(-points @ self.parameter, 0.0)


@dataclass(frozen=True, eq=False)
class PolicyCosts:
    """The costs of policies at a design: ‖x_π‖²_{A⁻¹}/max(Δ_π, ε)².

    policies: the policies.
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
        """Return the costs at nonzero propensities (n, A); `where`: coordinates for the policies' own features."""
        information = where.information(propensities)
        return cls(policies, where.change @ np.linalg.inv(np.linalg.cholesky(information)).T, epsilon)

    def ratios(self, points: FloatArray) -> FloatArray:
        """Return the costs (K,) of points x_π (K, r)."""
        return self.lengths(points) ** 2 / np.maximum(self.policies.gaps(points), self.epsilon) ** 2

    def lengths(self, points: FloatArray) -> FloatArray:
        """Return ‖x‖_{A⁻¹} (K,)."""
        turned = points @ self.root
        return np.sqrt(np.einsum("ij,ij->i", turned, turned))

    def pull(self, points: FloatArray) -> FloatArray:
        """Return v = A⁻¹x/‖x‖_{A⁻¹} (K, r), the direction in which x is longest."""
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


# A proven upper bound on the cost of the worst policy at a design, over all policies and all mixtures of them.
#
#     W = max { ‖x‖_{A⁻¹} : x a mixture of x_π, Δ(x) ≤ ε },   ‖x_π‖²_{A⁻¹}/max(Δ_π, ε)² ≤ (W/ε)² for every π
#
# (a policy of larger gap is scaled down, toward π*, until its gap is ε). Mixtures may randomise in one context, so W is
# a little more than any policy attains; the fewer the contexts, the more.
#
# **Triangle inequality.** ‖x_π‖ ≤ Σ_c ν_c ‖x_{c,π(c)}‖, and its maximum for Δ ≤ ε is a fractional knapsack, whose
# value is min_s Σ_c ν_c max_a (‖x_{c,a}‖ − sΔ_{c,a}) + sε. It ignores that lengths in different directions do not add
# up.
#
# **Branch and bound.** In coordinates in which A⁻¹ is the identity, W = max_{‖u‖ = 1} h(u), where
#
#     h(u) = max {⟨u, x⟩ : Δ(x) ≤ ε} = min_s Σ_c ν_c max_a (⟨u, x_{c,a}⟩ − sΔ_{c,a}) + sε
#
# is convex and homogeneous: on the cone of v_1, …, v_m it is at most the linear function that is h(v_i) at each v_i,
# and for unit vectors at most the length of that function's gradient. Cones are halved, the worst first, until that is
# close to the attained cost, or to the largest h seen, or the effort is spent. Any s gives an upper end: it need not be
# the best.


MAX_HALVED_CONES = 40_000
_BRANCHING_MULTIPLICATIONS = 6e9
_CONES_HALVED_AT_ONCE = 256
# With more dimensions than the first, halving converges slowly, and is given a fifth of the effort; with more than the
# largest there are too many cones to begin with.
_MAX_FULL_EFFORT_DIMENSION, _REDUCED_EFFORT_DIVISOR = 5, 5
_MAX_BRANCHING_DIMENSION = 8
# Halvings of the slope s: for the triangle inequality, and for each h(u).
_TRIANGLE_HALVINGS, _SLOPE_HALVINGS = 60, 10


def proven_cost(
    costs: PolicyCosts, *, attained: float, tolerance: float = 0.01, max_halved_cones: int = MAX_HALVED_CONES
) -> float:
    """Return an upper bound on ‖x_π‖²_{A⁻¹}/max(Δ_π, ε)² over all policies.

    attained: the cost of a known policy. tolerance: relative distance to that, or to the cost of mixtures, to stop at.
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
    apart = losses > 1e-9 * losses.max(initial=0.0)  # any slope is valid, and so is a smaller search range
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
    most: an upper bound on W.
    """

    turned: FloatArray
    losses: FloatArray
    weights: FloatArray
    epsilon: float
    most: float


@dataclass(eq=False)
class _Branching:
    """An upper bound on W, down to the target or to W up to the tolerance (half of it, as W is squared).

    max_halved: the largest number of cones to halve.
    highest: the largest h seen.
    """

    task: HeightTask
    target: float = field(kw_only=True)
    tolerance: float = field(kw_only=True)
    max_halved: float = field(kw_only=True)
    highest: float = 0.0

    def heights(self, vectors: FloatArray) -> FloatArray:
        """Return h (K,) at unit vectors (K, m), or slightly more."""
        out = np.empty(len(vectors))
        over_cores(lambda a, b: _fill_heights(self.task, vectors, out, a, b), count=len(vectors))
        self.highest = max(self.highest, float(out.max(initial=0.0)))
        return out

    def bounds(self, corners: FloatArray, heights: FloatArray) -> FloatArray:
        """Return ‖g‖ (K,) for the g with ⟨g, v_i⟩ = h(v_i)."""
        return np.linalg.norm(np.linalg.solve(corners, heights[:, :, None])[:, :, 0], axis=1)

    def enough(self) -> float:
        return max(self.target, self.highest * (1.0 + self.tolerance / 2))

    def choose(self, bounds: FloatArray, *, halved: int) -> IntArray:
        """Return the cones with the largest bounds."""
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


# The ratio form over all linear policies: a pool, and a search for policies with a larger cost at its design.
#
#     min_p max_π ‖x_π‖²_{A(p)⁻¹}/max(Δ_π, ε)²,   x_π = φ_π − φ_{π*},   Δ_π = −⟨x_π, θ⟩,   π*(c) = argmax_a ⟨φ(c, a), θ⟩
#
# A linear policy takes `argmax_a ⟨φ(c, a), η⟩` for some η ∈ R^d, the first of equals; its x_π maximises ⟨x, η⟩ over all
# policies, so linear policies are the vertices of the hull of all x_π. Along a ray η = v + sθ the gap falls as s grows,
# and policies matter most where it passes ε. The search goes from v to the best policy of its ray and on to v =
# A⁻¹x_π/‖x_π‖_{A⁻¹}, the direction in which that policy is longest, as long as the ratio rises; it has many starts and
# ends in local maxima. The pool's lower end is a theorem, as its policies are policies of the class; the largest ratio
# found is not.
#
# If every map from contexts to actions is a policy, changes of single contexts are tried as well: such a policy need
# not be a vertex.


# The effort of a search, on the way and at the end, and the directions it evaluates in any case.
_SEARCH_MULTIPLICATIONS, _LAST_SEARCH_MULTIPLICATIONS = 5e8, 3e9
_MIN_DIRECTIONS, MAX_DIRECTIONS = 1_000, 30_000
# Directions evaluated from one start: to find where the gap passes ε, and then at every step, multiples of the slope.
_SEARCH_HALVINGS = 12
_SLOPE_FACTORS = np.array([0.0, 0.5, 0.75, 0.9, 1.0, 1.1, 1.35, 2.0])
_EXPECTED_STEPS, _MAX_STEPS = 8, 25
_MAX_ROUNDS = 40
_MAX_POOL_POLICIES = 6_000
# The number of a search's policies whose single contexts are changed.
_MAX_CHANGED_POLICIES = 24


@dataclass(frozen=True, eq=False)
class SearchedDesign:
    """A design for all linear policies.

    solution: the design, for the policies of a pool.
    lower: a lower bound for every design, a theorem.
    upper: the largest cost found at this design, in the pool or not.
    points (m, r): x_π of every policy that was evaluated.
    """

    solution: PoolSolution
    lower: float
    upper: float
    points: FloatArray


def search_design(
    where: Coordinates,
    policies: LinearPolicies,
    *,
    epsilon: float,
    known: FloatArray | None = None,
    tolerance: float = 0.01,
    max_directions: int = MAX_DIRECTIONS,
    progress: Progress | None = None,
) -> SearchedDesign:
    """Return the best design for all linear policies at ε > 0.

    where: coordinates for the policies' own features. known (m, r): x_π of policies evaluated before.
    max_directions: evaluated in one search.
    """
    rng = np.random.default_rng(0)  # part of the solver, not of any experiment
    points = np.empty((0, policies.rank)) if known is None else known
    costs = PolicyCosts.of(policies, where, where.uniform(), epsilon=epsilon)
    budget = _Budget(_LAST_SEARCH_MULTIPLICATIONS, max_directions)
    points = np.concatenate([points, _search(costs, budget, rng=rng, known=points)])
    solution, lower, upper = None, 0.0, np.inf
    for _ in range(_MAX_ROUNDS):
        points = _distinct(points)
        if progress is not None:
            progress(f"{len(points):,} policies looked at")
        pool = points[np.argsort(-costs.ratios(points), kind="stable")[:_MAX_POOL_POLICIES]]
        targets = pool @ where.change / np.maximum(policies.gaps(pool), epsilon)[:, None]
        solution = solve_targets(where, targets, options=PoolOptions(tolerance=tolerance / 3))
        lower, upper = max(lower, solution.lower), solution.upper
        costs = PolicyCosts.of(policies, where, where.gather(solution.propensities), epsilon=epsilon)
        for multiplications in (_SEARCH_MULTIPLICATIONS, _LAST_SEARCH_MULTIPLICATIONS):
            if upper <= lower * (1.0 + tolerance):
                budget = _Budget(multiplications, max_directions)
                points = np.concatenate([points, _search(costs, budget, rng=rng, known=points)])
                upper = max(upper, float(costs.ratios(points).max(initial=0.0)))
        if upper <= lower * (1.0 + tolerance):
            break
    assert solution is not None
    return SearchedDesign(solution, lower, upper, points)


def search_worst(costs: PolicyCosts, *, known: FloatArray, max_directions: int = MAX_DIRECTIONS) -> float:
    """Return the largest cost that a search finds. known (m, r): x_π of policies to evaluate, and to start from."""
    budget = _Budget(_LAST_SEARCH_MULTIPLICATIONS, max_directions)
    found = _search(costs, budget, rng=np.random.default_rng(0), known=known)
    return float(costs.ratios(np.concatenate([known, found])).max(initial=0.0))


@dataclass(frozen=True)
class _Budget:
    """The budget of one search: multiplications, and the largest number of directions."""

    multiplications: float
    max_directions: int

    def starts(self, policies: LinearPolicies) -> int:
        """Return the number of starts of a search."""
        directions = float(
            np.clip(self.multiplications / max(policies.relative.size, 1), _MIN_DIRECTIONS, self.max_directions)
        )
        return int(directions / (_SEARCH_HALVINGS + _EXPECTED_STEPS * len(_SLOPE_FACTORS)))


def _search(costs: PolicyCosts, budget: _Budget, *, rng: np.random.Generator, known: FloatArray) -> FloatArray:
    """Return x_π of the policies on the paths from many starts to costly policies."""
    policies = costs.policies
    count = budget.starts(policies)
    worst = known[np.argsort(-costs.ratios(known), kind="stable")[: count // 2]]
    random = rng.standard_normal((max(count // 2, 4), costs.root.shape[1]))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    starts = np.concatenate([costs.pull(worst), random @ costs.root.T, costs.root.T, -costs.root.T])
    slopes, points = _find_slopes(costs, starts)
    directions, climbed = _climb(costs, starts, slopes)
    found = [points, climbed]
    if policies.every:
        found.append(_change_single(costs, directions[:_MAX_CHANGED_POLICIES]))
    return np.concatenate(found)


def _find_slopes(costs: PolicyCosts, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for each v (Z, r), a slope s (Z,) at which the gap of v + sθ has just fallen to ε, and all points tried.

    Beyond the largest ‖φ(c, a) − φ(c, π*(c))‖_{A⁻¹}/Δ(c, a) the policy is π* itself, but for ties.
    """
    policies = costs.policies
    flat = policies.relative.reshape(-1, policies.rank)
    losses = -flat @ policies.parameter
    apart = losses > 1e-9 * losses.max(initial=0.0)
    high = np.full(len(starts), float((costs.lengths(flat[apart]) / losses[apart]).max(initial=0.0)))
    low = high * 1e-9
    points: list[FloatArray] = []
    for _ in range(_SEARCH_HALVINGS):
        middle = np.sqrt(low * high)
        points.append(policies.points(starts + middle[:, None] * policies.parameter))
        good = policies.gaps(points[-1]) <= costs.epsilon
        high, low = np.where(good, middle, high), np.where(good, low, middle)
    return high, np.concatenate(points)


def _climb(costs: PolicyCosts, starts: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Climb from v (Z, r) and s (Z,) while the cost rises; return the directions (Z, r), best first, and all points."""
    policies = costs.policies
    value = np.zeros(len(starts))
    v, s = starts.copy(), slopes.copy()
    reached = starts + slopes[:, None] * policies.parameter
    alive = np.arange(len(starts))
    points: list[FloatArray] = []
    for _ in range(_MAX_STEPS):
        tried = s[alive, None] * _SLOPE_FACTORS
        directions = (v[alive, None, :] + tried[:, :, None] * policies.parameter).reshape(-1, policies.rank)
        points.append(policies.points(directions))
        ratios = costs.ratios(points[-1]).reshape(tried.shape)
        rows, best = np.arange(len(alive)), ratios.argmax(axis=1)
        rises = ratios[rows, best] > value[alive] * (1.0 + 1e-9)
        rows, best, alive = rows[rises], best[rises], alive[rises]
        if len(alive) == 0:
            break
        spot = rows * len(_SLOPE_FACTORS) + best
        value[alive] = ratios[rows, best]
        reached[alive] = directions[spot]
        v[alive] = costs.pull(points[-1][spot])
        s[alive] = np.maximum(tried[rows, best], s[alive] / 4)
    return reached[np.argsort(-value, kind="stable")], np.concatenate(points)


def _change_single(costs: PolicyCosts, directions: FloatArray) -> FloatArray:
    """Return x_π (K, r) after changing the policies of directions (K, r) in single contexts while the cost rises."""
    policies = costs.policies
    relative = policies.relative
    turned, losses = relative @ costs.root, -(relative @ policies.parameter)
    out = np.empty_like(directions)
    for i, direction in enumerate(directions):
        actions = np.argmax(relative @ direction, axis=1)
        _change_actions(turned, losses, policies.weights, costs.epsilon, actions)
        out[i] = policies.weights @ relative[np.arange(len(actions)), actions]
    return out


def _distinct(points: FloatArray) -> FloatArray:
    """Return the nonzero points that differ by more than rounding."""
    unit = float(np.abs(points).max(initial=0.0))
    if unit == 0:
        return points[:0]
    _, first = np.unique(np.round(points / unit, 12), axis=0, return_index=True)
    kept = points[np.sort(first)]
    return kept[np.abs(kept).max(axis=1) > 1e-12 * unit]


@kernel
def _change_actions(
    lengths: FloatArray, losses: FloatArray, weights: FloatArray, epsilon: float, actions: IntArray
) -> None:
    """Change one action at a time, the one that raises ‖x‖²/max(Δ, ε)² most, until none does (or n did)."""
    n, n_actions, rank = lengths.shape
    x = np.zeros(rank)
    gap = 0.0
    for c in range(n):
        gap += weights[c] * losses[c, actions[c]]
        for j in range(rank):
            x[j] += weights[c] * lengths[c, actions[c], j]
    for _ in range(n):
        value = (x**2).sum() / max(gap, epsilon) ** 2 * (1.0 + 1e-12)
        where, what = -1, -1
        for c in range(n):
            for a in range(n_actions):
                size = 0.0
                for j in range(rank):
                    size += (x[j] + weights[c] * (lengths[c, a, j] - lengths[c, actions[c], j])) ** 2
                changed = max(gap + weights[c] * (losses[c, a] - losses[c, actions[c]]), epsilon)
                if size > value * changed**2:
                    value, where, what = size / changed**2, c, a
        if where < 0:
            break
        gap += weights[where] * (losses[where, what] - losses[where, actions[where]])
        for j in range(rank):
            x[j] += weights[where] * (lengths[where, what, j] - lengths[where, actions[where], j])
        actions[where] = what
