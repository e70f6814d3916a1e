"""The step of Frank–Wolfe with γ_π minimised for every policy.

Departure from the paper (row 9 of the corrections): it fixes γ_π outside the support, and so looks for policies by the
wrong value.
"""

from __future__ import annotations

import math

import numpy as np

from pacbandits.errors import InputError
from pacbandits.paper.oracles.choice import Choice
from pacbandits.paper.oracles.estimates import Estimates, check_positive
from pacbandits.paper.oracles.hull import walk_hull
from pacbandits.policies.base import PolicyClass, total
from pacbandits.records import Contexts


def frank_wolfe_step_free(
    policies: PolicyClass, contexts: Contexts, estimates: Estimates, *, gap_weight: float, width_weight: float
) -> Choice:
    """The policy towards which Frank–Wolfe steps when every γ_π is free.

        argmax_π min_γ  −aΔ̂_π + b γ V_π + b L/(γ n)  =  argmax_π  −aΔ̂_π + 2b √(V_π L/n)

    It rises with −Δ̂ and V, so its maximum lies on their frontier: one call, exact if the frontier is.
    """
    known = estimates.checked(policies, contexts)
    gaps, costs = known.gaps, known.costs
    width = _width(known, gap_weight=gap_weight, width_weight=width_weight)
    frontier = policies.frontier(contexts, costs, -gaps)
    values = -gap_weight * -frontier.second + width * np.sqrt(np.maximum(frontier.first, 0.0))
    top = int(values.argmax())
    policy = frontier.policy(top)
    actions = policy(contexts)
    value = -gap_weight * total(gaps, actions) + width * math.sqrt(total(costs, actions))
    return Choice(policy, value, bound=value if frontier.exact else max(value, float(values[top])), calls=1)


def frank_wolfe_step_free_by_argmax(
    policies: PolicyClass, contexts: Contexts, estimates: Estimates, *, gap_weight: float, width_weight: float
) -> Choice:
    """The same step for classes that have an argmax only: the best policy found, and a bound on all.

        max_π min_γ  −aΔ̂_π + b γ V_π + b L/(γ n)  ≤  min_γ max_π  −aΔ̂_π + b γ V_π + b L/(γ n)  =  bound

    For a given γ the right side is one call, and it is convex in γ. The two sides differ by what lies between the
    points (V, −Δ̂) and their convex hull.
    """
    known = estimates.checked(policies, contexts)
    gaps, costs = known.gaps, known.costs
    width = _width(known, gap_weight=gap_weight, width_weight=width_weight)
    # With the price μ = bγ the second part is μV, and the third ψ(μ) = (width/2)²/μ.
    walk = walk_hull(
        policies,
        contexts,
        worth=-gap_weight * gaps,
        use=-costs,
        own_price=lambda use: width / 2 / math.sqrt(-use) if use < 0 else math.inf,
    )
    values = [point.worth + width * math.sqrt(max(-point.use, 0.0)) for point in walk.points]
    top = int(np.argmax(values))
    # Where no policy differs at all, the width vanishes with γ → ∞, and only the first part is left.
    differ = min(point.use for point in walk.points) < 0
    bound = walk.bound(lambda price: (width / 2) ** 2 / price if price > 0 else math.inf) if differ else values[top]
    return Choice(walk.points[top].policy, values[top], bound=max(bound, values[top]), calls=len(walk.points))


def _width(known: Estimates, *, gap_weight: float, width_weight: float) -> float:
    """The factor `2b√(L/n)` of √V."""
    check_positive(width_weight=width_weight)
    if not gap_weight >= 0:
        raise InputError(f"gap_weight must be 0 or more, got {gap_weight}")
    return 2 * width_weight * math.sqrt(known.confidence / known.samples)
