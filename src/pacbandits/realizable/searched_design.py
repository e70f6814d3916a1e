"""The ratio form over all linear policies: a pool, and a search for policies that its design serves too little.

    min_p max_π ‖x_π‖²_{A(p)⁻¹}/max(Δ_π, ε)²,   x_π = φ_π − φ_{π*},   Δ_π = −⟨x_π, θ⟩,   π*(c) = argmax_a ⟨φ(c, a), θ⟩

A linear policy takes `argmax_a ⟨φ(c, a), η⟩` for some η ∈ R^d, the first of equals; its x_π maximises ⟨x, η⟩ over all
policies, so linear policies are the vertices of the hull of all x_π. Along a ray η = v + sθ the gap falls as s grows,
and policies matter most where it passes ε. The search goes from v to the best policy of its ray and on to
v = A⁻¹x_π/‖x_π‖_{A⁻¹}, the direction in which that policy is longest, for as long as the ratio rises; it starts in many
places and ends in local maxima. The pool's lower end is a theorem, as its policies are policies of the class; the
largest ratio found is not.

Where every map from contexts to actions is a policy, changes of single contexts are tried as well: such a policy need
not be a vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.progress import Progress
from pacbandits.realizable.coordinates import Coordinates
from pacbandits.realizable.costs import LinearPolicies, PolicyCosts
from pacbandits.realizable.pool_design import PoolOptions, PoolSolution, solve_targets

# What a search may spend, on its way and when it thinks that it is done, and the directions it evaluates in any case.
_SEARCH_MULTIPLICATIONS, _LAST_SEARCH_MULTIPLICATIONS = 5e8, 3e9
_MIN_DIRECTIONS, MAX_DIRECTIONS = 1_000, 30_000
# Directions evaluated from one start: to find where the gap passes ε, and then at every step, multiples of the slope.
_SLOPE_HALVINGS = 12
_SLOPE_FACTORS = np.array([0.0, 0.5, 0.75, 0.9, 1.0, 1.1, 1.35, 2.0])
_EXPECTED_STEPS, _MAX_STEPS = 8, 25
_MAX_ROUNDS = 40
_MAX_POOL_POLICIES = 6_000
# Policies of a search whose single contexts are changed.
_MAX_CHANGED_POLICIES = 24


@dataclass(frozen=True, eq=False)
class SearchedDesign:
    """A design for all linear policies.

    solution: the design, for the policies of a pool.
    lower: what even the best design must leave, a theorem.
    upper: the largest cost found at this design, in the pool or not.
    points (m, r): x_π of every policy that was looked at.
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
    """The best design for all linear policies at ε > 0.

    where: coordinates for the policies' own features. known (m, r): x_π of policies that were looked at before.
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
    """The largest cost that a search finds. known (m, r): x_π of policies to look at, and to start from."""
    budget = _Budget(_LAST_SEARCH_MULTIPLICATIONS, max_directions)
    found = _search(costs, budget, rng=np.random.default_rng(0), known=known)
    return float(costs.ratios(np.concatenate([known, found])).max(initial=0.0))


@dataclass(frozen=True)
class _Budget:
    """What one search may spend: multiplications, and directions evaluated at the most."""

    multiplications: float
    max_directions: int

    def starts(self, policies: LinearPolicies) -> int:
        """From how many places a search may start."""
        directions = float(
            np.clip(self.multiplications / max(policies.relative.size, 1), _MIN_DIRECTIONS, self.max_directions)
        )
        return int(directions / (_SLOPE_HALVINGS + _EXPECTED_STEPS * len(_SLOPE_FACTORS)))


def _search(costs: PolicyCosts, budget: _Budget, *, rng: np.random.Generator, known: FloatArray) -> FloatArray:
    """x_π of policies along the ways from many starts to policies that cost much."""
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
    """For each v (Z, r) a slope s (Z,) at which the gap of v + sθ has just fallen to ε, and the points on the way.

    Beyond the largest ‖φ(c, a) − φ(c, π*(c))‖_{A⁻¹}/Δ(c, a) the policy is π* itself, but for ties.
    """
    policies = costs.policies
    flat = policies.relative.reshape(-1, policies.rank)
    losses = -flat @ policies.parameter
    apart = losses > 1e-9 * losses.max(initial=0.0)
    high = np.full(len(starts), float((costs.lengths(flat[apart]) / losses[apart]).max(initial=0.0)))
    low = high * 1e-9
    points: list[FloatArray] = []
    for _ in range(_SLOPE_HALVINGS):
        middle = np.sqrt(low * high)
        points.append(policies.points(starts + middle[:, None] * policies.parameter))
        good = policies.gaps(points[-1]) <= costs.epsilon
        high, low = np.where(good, middle, high), np.where(good, low, middle)
    return high, np.concatenate(points)


def _climb(costs: PolicyCosts, starts: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Climb from v (Z, r) and s (Z,) while the cost rises: directions (Z, r) reached, best first, and all points."""
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
    """x_π (K, r) after changing the policies of directions (K, r) in one context at a time, while the cost rises."""
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
    """Points that differ by more than rounding, and are not zero."""
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
