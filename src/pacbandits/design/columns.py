"""Column generation: the ratio form over classes that only an oracle can search.

Solve the ratio form on a small pool, ask the class for the policies with the largest cost under that design, add them,
repeat. The pool's value is a lower end for the class (fewer policies, smaller maximum), the pricing's bound an upper
end. Three techniques make it converge in tens of rounds where the plain method takes hundreds:

- **A floor.** The pool's design is solved with a probability floor κ/A even if the caller asks for none, so that no
  policy outside the pool can have infinite cost; κ falls with the gap. Both ends stay rigorous: `p = (1 − κ)p₀ + κ/A`
  inflates no variance by more than 1/(1 − κ), so the optimum without the floor is at least 1 − κ times the one with it,
  and the upper end belongs to the design that is returned.
- **Averaging.** The class is priced not at the pool's newest weights but halfway between them and the last ones priced.
- **Many columns.** Each round adds dozens of costly policies from all over the class, not the costliest alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.design.task import DesignTask, GapScale, Possible
from pacbandits.design.weights import SUM_ROUNDING, Evaluates, Objective, Solution, relative_gap, solve_weights
from pacbandits.policies.base import PolicyClass, compact
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Policy

# The pool of column generation: policies found so far, with weights that solve the ratio form on them.


# A pool whose table has more entries than this drops policies of negligible weight, unless they joined in the last few
# rounds. For any number of contexts, pools up to the first size below are never reduced, and pools above the second
# always are.
_MAX_TABLE_ENTRIES = 2_000_000
_MIN_SHEDDING_POOL_SIZE = 600
_MAX_SPARED_POOL_SIZE = 3000
_ROUNDS_OF_GRACE = 3
_NEGLIGIBLE_WEIGHT_SHARE = 1e-4


# Corrections from contexts beyond the pool's leave at least this share of a variance.
_LEAST_CORRECTED_SHARE = 0.05


class Beyond(Protocol):
    """Knowledge of policies on all contexts, where a pool is solved on a sample of them."""

    def gap(self, policy: Policy) -> float:
        """Return Δ_π on all contexts."""
        ...

    def added(self, policy: Policy) -> float:
        """Return V_π on all contexts less V_π on those of the pool."""
        ...


@dataclass(frozen=True, eq=False)
class _Corrected:
    """An objective whose variances are corrected by sums over all contexts.

    objective: on the contexts of the pool.
    added (K,): the corrections of the variances of the policies in its table.
    """

    objective: Objective
    added: FloatArray

    def evaluate(self, actions: np.ndarray[Any, Any], kappa: FloatArray) -> tuple[float, FloatArray]:
        value, variances = self.objective.evaluate(actions, kappa)
        corrected = np.maximum(variances + self.added, _LEAST_CORRECTED_SHARE * variances)
        return value + float(kappa @ (corrected - variances)), corrected


class Pool:
    """The policies found so far and their weights, K policies on N contexts.

    policies: the policies.
    actions (K, N): their actions.
    urgency (K,): u_π = 1/d(Δ_π)².
    weights (K,): the newest λ.
    averaged (K,): the λ at which the class was priced last.
    added (K,): the corrections of their variances.
    age (K,): the rounds since each was added.
    soft: the objective with the floor of the last solution.
    evaluations: the total number of evaluations of the objective.
    """

    def __init__(self, here: Possible, *, scale: GapScale, beyond: Beyond | None = None) -> None:
        """Make an empty pool; beyond: knowledge of policies on more contexts than these."""
        objective = here.objective
        self.beyond = beyond
        self.objective = objective
        self.soft = objective
        self.contexts = here.contexts
        self.gaps = here.gaps
        self.scale = scale
        self.policies: list[Policy] = []
        self.keys: list[bytes] = []
        self.seen: set[bytes] = {objective.reference.astype(compact(objective.n_actions)).tobytes()}
        self.actions = np.empty((0, len(here.contexts)), dtype=compact(objective.n_actions))
        self.urgency = np.empty(0)
        self.weights = np.empty(0)
        self.averaged = np.empty(0)
        self.added = np.empty(0)
        self.age = np.empty(0)
        self.evaluations = 0

    def add(self, policies: tuple[Policy, ...]) -> int:
        """Add those that differ from the reference and from the pool; return how many."""
        fresh: list[np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]] = []
        urgency: list[float] = []
        added: list[float] = []
        for policy in policies:
            actions = policy(self.contexts)
            row = actions.astype(self.actions.dtype)
            key = row.tobytes()
            if key in self.seen:
                continue
            self.seen.add(key)
            if self.beyond is None:
                gap, more = float(self.gaps[np.arange(len(self.contexts)), actions].sum()), 0.0
            else:
                gap, more = self.beyond.gap(policy), self.beyond.added(policy)
            with np.errstate(divide="ignore"):
                urgency.append(float(1.0 / self.scale(np.array([gap]))[0] ** 2))
            added.append(more)
            fresh.append(row)
            self.keys.append(key)
            self.policies.append(policy)
        if fresh:
            n = len(fresh)
            share = 0.1 * self.weights.sum() / n if len(self.weights) else 1.0
            self.actions = np.concatenate([self.actions, np.stack(fresh)])
            self.urgency = np.concatenate([self.urgency, urgency])
            self.weights = np.concatenate([self.weights, np.full(n, share)])
            self.averaged = np.concatenate([self.averaged, np.zeros(n)])
            self.added = np.concatenate([self.added, added])
            self.age = np.concatenate([self.age, np.zeros(n)])
        return len(fresh)

    def learn(self, beyond: Beyond) -> None:
        """Correct the variances by new sums over all contexts; gaps stay the same."""
        self.beyond = beyond
        self.added = np.array([beyond.added(policy) for policy in self.policies])

    def solve(self, *, floor: float, least_floor: float, precision: float) -> float:
        """Solve the pool to a relative gap of `precision`; return a lower end for the class.

        floor: κ of p = (1 − κ)p₀ + κ/A, with which the pool is solved.
        least_floor: a smaller κ, with which the solution is evaluated once more, as it may prove more.
        """
        if np.isinf(self.urgency).any():
            return np.inf
        self.soft, discount = self._soften(floor)
        start = np.maximum(self.weights, 1e-12 * self.weights.max())
        solved = solve_weights(
            self._evaluating(self.soft), self.actions, self.urgency, tolerance=precision, start=start
        )
        self.evaluations += solved.evaluations
        self.weights = solved.weights
        hard, hard_discount = self._soften(least_floor)
        value = self._evaluating(hard).evaluate(self.actions, solved.weights * self.urgency)[0] * (1 - SUM_ROUNDING)
        return max(solved.lower * discount, value * hard_discount)

    def average(self, *, share: float) -> FloatArray:
        """Return weights (pool,) between the last ones priced and the newest, which count by the given share."""
        self._shed()
        share = share if self.averaged.sum() > 0 else 1.0
        averaged = share * self.weights + (1.0 - share) * self.averaged
        self.averaged = averaged / averaged.sum()
        self.age += 1
        return self.averaged

    def costs(self, weights: FloatArray) -> FloatArray:
        """Return scores (N, A) whose sum over π's actions is V_π under the design of the weights."""
        return self.soft.costs(self.soft.propensities(self.actions, weights * self.urgency))

    def designer(self, weights: FloatArray, reference: Policy) -> Callable[[], Design]:
        """Return a function that makes the design of the weights (pool,), unaffected by later changes of the pool."""
        used = np.flatnonzero(weights > 0)
        support, kappa, floor = tuple(self.policies[i] for i in used), (weights * self.urgency)[used], self.soft.floor
        return lambda: Design(support, kappa, reference, floor=floor)

    def _evaluating(self, objective: Objective) -> Evaluates:
        """Return the objective with which the pool's weights are solved."""
        return objective if self.beyond is None else _Corrected(objective, self.added)

    def _soften(self, share: float) -> tuple[Objective, float]:
        """Return the objective with at least the given floor, and the factor from its optimum to a lower end."""
        floor = share / self.objective.n_actions
        if self.objective.floor >= floor:
            return self.objective, 1.0
        return replace(self.objective, floor=floor), 1.0 - share

    def _shed(self) -> None:
        """Drop policies of negligible weight once the pool is large; the class offers them again if they matter."""
        largest = np.clip(_MAX_TABLE_ENTRIES / len(self.contexts), _MIN_SHEDDING_POOL_SIZE, _MAX_SPARED_POOL_SIZE)
        if len(self.policies) <= largest:
            return
        matter = np.maximum(self.weights, self.averaged) > _NEGLIGIBLE_WEIGHT_SHARE * self.weights.max()
        keep = matter | (self.age < _ROUNDS_OF_GRACE)
        self.seen.difference_update(key for key, kept in zip(self.keys, keep, strict=True) if not kept)
        self.policies = [policy for policy, kept in zip(self.policies, keep, strict=True) if kept]
        self.keys = [key for key, kept in zip(self.keys, keep, strict=True) if kept]
        self.actions = np.ascontiguousarray(self.actions[keep])
        self.urgency, self.age = self.urgency[keep], self.age[keep]
        self.weights, self.averaged, self.added = self.weights[keep], self.averaged[keep], self.added[keep]


# Pricing: the policies of a class with the largest cost under a design, and an upper bound on that cost.
#
# Given costs (N, A) whose sum over π's actions is V_π(p; q), and gap scores (N, A) whose sum is Δ_π, find policies of
# large `V_π / d(Δ_π)²` and an upper bound on its maximum over the whole class. A class that takes sums instead of
# scores (`pacbandits.policies.summation`) gets sums of both.


# Rounding of sums over a hundred thousand contexts, relative to their largest term; upper ends are widened by it.
_PRICE_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class DesignPrice:
    """The largest cost of a class's policies under a design.

    upper: no policy of the class has a larger ratio.
    find: finds policies with large ratios; as slow as the bound, and not always needed.
    attain: returns the largest ratio among them, summed anew.
    oracle_calls: calls to the class.
    """

    upper: float
    find: Callable[[], tuple[Policy, ...]]
    attain: Callable[[], float]
    oracle_calls: int

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """Policies with large ratios, the largest first."""
        return self.find()

    @cached_property
    def attained(self) -> float:
        """The largest ratio among `policies`."""
        return self.attain()


Pricing = Callable[[Contexts, FloatArray, FloatArray, GapScale], DesignPrice]


def best_pricing(policies: PolicyClass) -> Pricing:
    """Return pricing by frontier if the class has one, else by argmax alone."""
    return price_by_frontier(policies) if policies.has_frontier else price_by_argmax(policies)


def price_by_frontier(policies: PolicyClass, *, most: int = 60) -> Pricing:
    """Price by the frontier of (V, −Δ), on which the ratio is largest, as it rises with V and falls with Δ."""

    def price(contexts: Contexts, costs: FloatArray, gaps: FloatArray, scale: GapScale) -> DesignPrice:
        frontier = policies.frontier(contexts, costs, -gaps)
        differing = costs[costs > 0]
        least = float(differing.min()) if differing.size else 0.0  # smallest variance of a policy that differs at all

        def ratio(variances: FloatArray, minus_gaps: FloatArray) -> FloatArray:
            # Values below any real difference are rounding.
            return _ratios(np.where(variances < least / 2, 0.0, variances), -minus_gaps, scale)

        def attain() -> float:
            worst = price.policies[0]
            variance, gap = (np.array([policies.attained(contexts, scores, worst)]) for scores in (costs, gaps))
            return float(_ratios(variance, gap, scale)[0])

        upper = float(ratio(frontier.first, frontier.second).max()) * (1.0 + _PRICE_ROUNDING)
        price = DesignPrice(
            upper,
            find=lambda: frontier.large(ratio, most=most),
            attain=attain,
            oracle_calls=1,
        )
        if frontier.exact:
            return price
        # A frontier rounded outward overstates the ratio; with many points, their hull may give a tighter bound.
        hull = price_by_argmax(policies)(contexts, costs, gaps, scale)
        return DesignPrice(
            min(price.upper, hull.upper),
            find=lambda: (*price.policies, *hull.policies),
            attain=lambda: max(price.attained, hull.attained),
            oracle_calls=price.oracle_calls + hull.oracle_calls,
        )

    return price


def price_by_argmax(policies: PolicyClass, *, max_calls: int = 30, precision: float = 1e-3) -> Pricing:
    """Price through argmax alone: `max_π V_π − sΔ_π` for well-chosen slopes s.

    A call with slope s finds a vertex of the upper hull of the points (Δ_π, V_π), and proves `V_π ≤ c_s + sΔ_π` for
    every π. The largest value of `min_s (c_s + sΔ)/d(Δ)²` over Δ bounds the ratio. The next slope is that of the known
    hull where that bound is attained, so the two close in on each other; what remains is the distance from the hull
    to the points inside it, which an argmax cannot find.
    """

    def price(contexts: Contexts, costs: FloatArray, gaps: FloatArray, scale: GapScale) -> DesignPrice:
        hull = _Hull(scale)
        found: list[Policy] = []

        def ask(slope: float) -> None:
            policy = policies.argmax(contexts, costs - slope * gaps)
            gap, variance = (policies.attained(contexts, scores, policy) for scores in (gaps, costs))
            hull.add(slope, gap=gap, variance=variance)
            found.append(policy)

        ask(0.0)
        upper = hull.bound()[0]
        while len(found) < max_calls:
            upper, where = hull.bound()
            slope = hull.slope_at(where)
            if slope is None or hull.reached(where) >= upper * (1.0 - precision):
                break
            ask(slope)
            upper = min(upper, hull.bound()[0])
        order: IntArray = np.argsort(-hull.ratios(), kind="stable")
        ranked = tuple(found[int(i)] for i in order)
        best = float(hull.ratios()[order[0]])
        return DesignPrice(upper * (1.0 + _PRICE_ROUNDING), lambda: ranked, lambda: best, oracle_calls=len(found))

    return price


class _Hull:
    """Points (Δ, V) found and lines V ≤ c + sΔ proven."""

    def __init__(self, scale: GapScale) -> None:
        self.scale = scale
        self.gaps: list[float] = []
        self.variances: list[float] = []
        self.slopes: list[float] = []
        self.intercepts: list[float] = []

    def add(self, slope: float, *, gap: float, variance: float) -> None:
        self.gaps.append(gap)
        self.variances.append(variance)
        self.slopes.append(slope)
        # The reference itself has V = Δ = 0, so no intercept is negative.
        self.intercepts.append(max(variance - slope * gap, 0.0))

    def bound(self) -> tuple[float, float]:
        """Return the largest `min_s (c_s + sΔ)/d(Δ)²` over Δ ≥ 0, and the Δ where it is attained."""
        c, s = np.array(self.intercepts), np.array(self.slopes)
        if not self.scale(np.zeros(1))[0] > 0:
            # With d(0) = 0 even sΔ/d(Δ)² grows without bound as Δ falls: lines alone prove nothing, unless V = 0.
            return (np.inf, 0.0) if c.max() > 0 else (0.0, 0.0)
        i, j = np.triu_indices(len(c), k=1)
        apart = s[i] != s[j]
        crossings = (c[j] - c[i])[apart] / (s[i] - s[j])[apart]
        where = np.concatenate([[0.0], crossings[crossings > 0], self.scale.peaks(c, s)])
        ratios = _ratios((c[:, None] + s[:, None] * where).min(axis=0), where, self.scale)
        top = int(ratios.argmax())
        return float(ratios[top]), float(where[top])

    def slope_at(self, where: float) -> float | None:
        """Return the slope of the known points' upper hull (with the reference at the origin) just above Δ = where.

        None if no new call can improve the bound there.
        """
        left, right = self._edge(where)
        if right is None:
            return None
        slope = (right[1] - left[1]) / (right[0] - left[0])
        return None if slope <= 0 or any(np.isclose(slope, s, rtol=1e-12) for s in self.slopes) else slope

    def reached(self, where: float) -> float:
        """Return the ratio of the known hull at Δ = where: a limit for the bound."""
        left, right = self._edge(where)
        if right is None:
            variance = left[1]
        else:
            share = (where - left[0]) / (right[0] - left[0])
            variance = left[1] + share * (right[1] - left[1])
        return float(_ratios(np.array([variance]), np.array([where]), self.scale)[0])

    def ratios(self) -> FloatArray:
        return _ratios(np.array(self.variances), np.array(self.gaps), self.scale)

    def _edge(self, where: float) -> tuple[tuple[float, float], tuple[float, float] | None]:
        """Return the hull's vertex at or before `where`, and the next one (None beyond the last)."""
        points = sorted({(0.0, 0.0), *zip(np.maximum(self.gaps, 0.0), self.variances, strict=True)})
        hull: list[tuple[float, float]] = []
        for point in points:
            while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
                hull.pop()
            if len(hull) == 1 and hull[0][0] == point[0]:
                hull.pop()
            hull.append((float(point[0]), float(point[1])))
        top = max(range(len(hull)), key=lambda i: hull[i][1])
        hull = hull[: top + 1]
        before = max((i for i, point in enumerate(hull) if point[0] <= where), default=0)
        return hull[before], hull[before + 1] if before + 1 < len(hull) else None


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) >= 0


def _ratios(variances: FloatArray, gaps: FloatArray, scale: GapScale) -> FloatArray:
    """Return V/d(Δ)², with 0 where V = 0 (a policy that never differs) and infinity where only d vanishes."""
    with np.errstate(divide="ignore"):
        return np.divide(variances, scale(gaps) ** 2, out=np.zeros_like(variances), where=variances > 0)


# Share of the newest weights where the class is priced; the last ones priced have the rest.
_NEWEST_WEIGHTS_SHARE = 0.5
# The largest κ of the floor κ/A.
_MAX_FLOOR_SHARE = 0.3
# The relative gap to which the pool is solved at first.
_FIRST_PRECISION = 0.02
# Column generation ends when neither end of the bracket has moved by this share of itself in this many rounds.
_MAX_ROUNDS_WITHOUT_PROGRESS = 12
_MIN_PROGRESS_SHARE = 1e-4
# At the end, weights below a share of the largest are dropped: the largest of these shares that keeps the bracket.
_PRUNED_WEIGHT_SHARES = (1e-2, 1e-3, 1e-4)


def solve_columns(
    task: DesignTask,
    *,
    pricing: Pricing,
    seeds: tuple[Policy, ...],
    known: tuple[Design, float] | None = None,
    pool: Pool | None = None,
    tolerance: float = 0.01,
    max_rounds: int = 200,
    progress: Progress | None = None,
) -> Solution:
    """Solve the ratio form over a class known through `pricing`, to a relative gap of `tolerance`.

    seeds: policies to begin with; together they should take every action somewhere.
    known: a design, and an upper end that it attains, to improve on.
    pool: to continue with; by default an empty one.
    """
    pool = Pool(task.possible, scale=task.scale) if pool is None else pool
    here, (design, upper) = task.possible, known or (task.uniform_design(), np.inf)
    make: Callable[[], Design] | None = None  # makes the design of `upper`, if that is of the pool
    lower, calls, ends = 0.0, 0, list[tuple[float, float]]()

    def price(weights: FloatArray) -> DesignPrice:
        """Price the class at weights (pool,) of the pool."""
        nonlocal calls
        found = pricing(here.contexts, pool.costs(weights), here.gaps, task.scale)
        calls += found.oracle_calls
        return found

    pool.add(seeds)
    precision, fresh = _FIRST_PRECISION, 1
    note = f"stopped after {max_rounds} rounds of column generation"
    for turn in range(max_rounds):
        floor = float(np.clip(relative_gap(lower, upper) / 5, tolerance / 10, _MAX_FLOOR_SHARE))
        lower = max(lower, pool.solve(floor=floor, least_floor=min(tolerance / 10, 0.5), precision=precision))
        if lower == np.inf:
            design, make, upper = task.uniform_design(), None, np.inf
            note = "infinite: a policy ties with the reference"
            break
        weights = pool.average(share=_NEWEST_WEIGHTS_SHARE if fresh else 1.0)
        worst = price(weights)
        if worst.upper < upper:
            make, upper = pool.designer(weights, task.reference), worst.upper
        gap = relative_gap(lower, upper)
        if progress is not None:
            words = f"between {lower:.5g} and {upper:.5g}, a pool of {len(pool.policies)}"
            progress(f"round {turn + 1}: {words}")
        if gap <= tolerance:
            note = ""
            for share in _PRUNED_WEIGHT_SHARES:  # fewer policies, if the bracket stays within tolerance
                fewer = np.where(weights > share * weights.max(), weights, 0.0)
                pruned = price(fewer).upper
                if relative_gap(lower, pruned) <= tolerance:
                    make, upper = pool.designer(fewer, task.reference), pruned
                    break
            break
        ends.append((lower, upper))
        if len(ends) > _MAX_ROUNDS_WITHOUT_PROGRESS:
            low, high = ends[-1 - _MAX_ROUNDS_WITHOUT_PROGRESS]
            if lower <= low * (1 + _MIN_PROGRESS_SHARE) and upper >= high * (1 - _MIN_PROGRESS_SHARE):
                note = f"no progress in the last {_MAX_ROUNDS_WITHOUT_PROGRESS} rounds of column generation"
                break
        fresh = pool.add(worst.policies)
        if fresh:
            precision = max(gap, tolerance) / 2.5 if upper < np.inf else _FIRST_PRECISION
        elif precision > tolerance / 1000:
            precision /= 10  # nothing new: the pool itself must be solved more precisely
        else:
            note = "the oracle finds no policy that would narrow the bracket further"
            break
    return Solution(design if make is None else make(), lower, upper, tolerance, pool.evaluations, calls, note=note)
