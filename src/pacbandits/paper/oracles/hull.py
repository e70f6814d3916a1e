"""A walk on the convex hull of two sums, by argmax calls alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.base import PolicyClass, total
from pacbandits.records import Contexts, Policy

# Heights that differ by less than this share of the sum of all |scores| are taken for equal, as in searches for trees.
_TIED_HEIGHT_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class Point:
    """A policy as a point of the plane.

    policy: itself.
    worth: the first of its two sums, of which more is better.
    use: the second, which has a price.
    """

    policy: Policy
    worth: float
    use: float

    def height(self, price: float) -> float:
        """What it is worth, less what it uses at that price."""
        return self.worth - price * self.use


@dataclass(frozen=True, eq=False)
class Walk:
    """What a walk has found.

    points: one a call.
    prices: the finite ones at which the highest point of the class is among the points.
    """

    points: tuple[Point, ...]
    prices: tuple[float, ...]

    def bound(self, offset: Callable[[float], float]) -> float:
        """The least `max_π (worth_π − μ use_π) + ψ(μ)` over the prices μ, where ψ = `offset`."""
        return min(max(p.height(price) for p in self.points) + offset(price) for price in self.prices)


def walk_hull(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    worth: FloatArray,
    use: FloatArray,
    own_price: Callable[[float], float],
) -> Walk:
    """Minimise `max_π (worth_π − μ use_π) + ψ(μ)` over μ ≥ 0, for a convex ψ, in few argmax calls.

    worth and use (n, A) are scores whose sums over π's actions are worth_π and use_π. ψ enters only through
    `own_price(use) = argmin_μ ψ(μ) − μ use`, which rises with `use` and may be 0 or infinite. Two points are kept, one
    for which the price is too low and one for which it is high enough; the next price is where the higher of their two
    lines plus ψ is least. Every call finds a new vertex of the hull or proves that there is none above the edge: the
    walk ends. It starts with the most worth (price 0) and the least use (price ∞).
    """
    points: list[Point] = []
    prices: list[float] = []
    sums = float(np.abs(worth).sum()), float(np.abs(use).sum())

    def ask(price: float) -> Point:
        policy = policies.argmax(contexts, worth - price * use if price < math.inf else -use)
        actions = policy(contexts)
        points.append(Point(policy, total(worth, actions), total(use, actions)))
        if price < math.inf:
            prices.append(price)
        return points[-1]

    high = ask(0.0)
    if own_price(high.use) > 0:
        low = ask(math.inf)
        while high.use > low.use:
            crossing = (high.worth - low.worth) / (high.use - low.use)
            price = min(max(crossing, own_price(low.use)), own_price(high.use))
            if price == math.inf:
                break
            known = max(high.height(price), low.height(price))
            seen = {(p.worth, p.use) for p in points}
            point = ask(price)
            tie = _TIED_HEIGHT_SHARE * (sums[0] + price * sums[1])
            if point.height(price) <= known + tie or (point.worth, point.use) in seen:
                break
            if own_price(point.use) > price:
                high = point
            else:
                low = point
        else:
            # No policy uses less than one of the most worth: at every price it is the highest.
            if own_price(high.use) < math.inf:
                prices.append(own_price(high.use))
    return Walk(tuple(points), tuple(prices))
