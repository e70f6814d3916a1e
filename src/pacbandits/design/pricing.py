"""Pricing: which policies of a class does a design serve worst, and how badly at the most?

Given costs (N, A) whose sum over π's actions is V_π(p; q), and gap scores (N, A) whose sum is Δ_π, find policies of
large `V_π / d(Δ_π)²` and an upper bound on its maximum over the whole class. A class that is asked with sums in the
place of scores (`pacbandits.policies.summing`) gets sums of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.design.scale import GapScale
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Policy

# Sums over a hundred thousand contexts carry rounding of about this size, relative to their largest term; upper ends
# are widened by it.
_PRICE_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class DesignPrice:
    """How badly a design serves a class at the most.

    upper: no policy of the class has a larger ratio.
    find: looks for some policies with large ratios, which takes as long as the bound does and is not always asked for.
    attain: the largest ratio among them, added up anew.
    oracle_calls: calls to the class.
    """

    upper: float
    find: Callable[[], tuple[Policy, ...]]
    attain: Callable[[], float]
    oracle_calls: int

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """Some with large ratios, the worst served first."""
        return self.find()

    @cached_property
    def attained(self) -> float:
        """The largest ratio among `policies`."""
        return self.attain()


Pricing = Callable[[Contexts, FloatArray, FloatArray, GapScale], DesignPrice]


def best_pricing(policies: PolicyClass) -> Pricing:
    """Pricing by frontier where the class has one, else by argmax alone."""
    return price_by_frontier(policies) if policies.has_frontier else price_by_argmax(policies)


def price_by_frontier(policies: PolicyClass, *, most: int = 60) -> Pricing:
    """Exact pricing: the ratio rises with V and falls with Δ, so its maximum lies on the frontier of (V, −Δ)."""

    def price(contexts: Contexts, costs: FloatArray, gaps: FloatArray, scale: GapScale) -> DesignPrice:
        frontier = policies.frontier(contexts, costs, -gaps)
        differing = costs[costs > 0]
        least = float(differing.min()) if differing.size else 0.0  # of the variances of policies that differ at all

        def ratio(variances: FloatArray, minus_gaps: FloatArray) -> FloatArray:
            # What is smaller than any real difference is rounding.
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
        # A frontier rounded outward overstates the ratio; where points are many, their hull may say more.
        hull = price_by_argmax(policies)(contexts, costs, gaps, scale)
        return DesignPrice(
            min(price.upper, hull.upper),
            find=lambda: (*price.policies, *hull.policies),
            attain=lambda: max(price.attained, hull.attained),
            oracle_calls=price.oracle_calls + hull.oracle_calls,
        )

    return price


def price_by_argmax(policies: PolicyClass, *, max_calls: int = 30, precision: float = 1e-3) -> Pricing:
    """Pricing through argmax alone: `max_π V_π − sΔ_π` for well-chosen slopes s.

    A call with slope s finds a vertex of the upper hull of the points (Δ_π, V_π), and proves `V_π ≤ c_s + sΔ_π` for
    every π. The largest value of `min_s (c_s + sΔ)/d(Δ)²` over Δ bounds the ratio. The next slope is that of the known
    hull where that bound is attained, so the two close in on each other; what remains is the distance from the hull
    to the points inside it, which an argmax cannot see.
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
        """The largest `min_s (c_s + sΔ)/d(Δ)²` over Δ ≥ 0, and the Δ where it is attained."""
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
        """The slope of the known points' upper hull (with the reference at the origin) just above Δ = where.

        None when no new call can tell more there.
        """
        left, right = self._edge(where)
        if right is None:
            return None
        slope = (right[1] - left[1]) / (right[0] - left[0])
        return None if slope <= 0 or any(np.isclose(slope, s, rtol=1e-12) for s in self.slopes) else slope

    def reached(self, where: float) -> float:
        """The ratio of the known hull at Δ = where: what the bound can be brought down to."""
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
        """The hull's vertex at or before `where`, and the next one (None beyond the last)."""
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
    """V/d(Δ)², with 0 where V = 0 (a policy that never differs) and infinity where only d vanishes."""
    with np.errstate(divide="ignore"):
        return np.divide(variances, scale(gaps) ** 2, out=np.zeros_like(variances), where=variances > 0)
