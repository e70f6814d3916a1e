"""The constrained oracle (C-AMO): exact where a class offers more than an argmax, relaxed everywhere else."""

from __future__ import annotations

import math

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError
from pacbandits.paper.oracles.choice import Choice
from pacbandits.paper.oracles.hull import walk_hull
from pacbandits.policies.base import PolicyClass, check_scores
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts, Policy


def constrained_argmax(
    policies: PolicyClass,
    contexts: Contexts,
    scores: FloatArray,
    *,
    budget: FloatArray,
    limit: float,
) -> Policy:
    """The constrained oracle (C-AMO): maximise `Σ scores[i, π(c_i)]` subject to `Σ budget[i, π(c_i)] ≤ limit`.

    Exact through the frontier of (scores, −budget): among the points that keep the limit (to rounding), the one of
    largest score. A class that has no frontier but can be listed is looked through. scores, budget (n, A).
    """
    limit = _with_rounding(limit, budget=budget)
    if policies.has_frontier:
        frontier = policies.frontier(contexts, scores, -np.asarray(budget))
        if not frontier.exact:
            raise InputError(
                "the frontier was rounded, so the constrained argmax is not exact; "
                "raise its resolution, or use relaxed_argmax, which gives a bound"
            )
        firsts, uses, policy = frontier.first, -frontier.second, frontier.policy
    else:
        firsts, uses = (sum_list(policies, contexts, s) for s in (scores, budget))
        policy = policies.policy
    if uses.min() > limit:
        raise _impossible(limit, least=float(uses.min()))
    return policy(int(np.argmax(np.where(uses <= limit, firsts, -np.inf))))


def relaxed_argmax(
    policies: PolicyClass, contexts: Contexts, scores: FloatArray, *, budget: FloatArray, limit: float
) -> Choice:
    """The constrained oracle (C-AMO) through the plain argmax, by Lagrangian relaxation.

        bound = min_{μ ≥ 0} max_π [Σ (scores − μ budget)[i, π(c_i)] + μ limit]  ≥  what C-AMO would return

    The policy is the best one found that keeps the limit (to rounding). It is the true optimum when that is a vertex
    of the convex hull of the points (score, budget); a policy inside the hull no argmax can see, and then `bound` says
    how much is lost at most. scores, budget (n, A).
    """
    scores = check_scores(scores, contexts=contexts, n_actions=policies.n_actions)
    budget = check_scores(budget, contexts=contexts, n_actions=policies.n_actions, name="budget")
    limit = _with_rounding(limit, budget=budget)
    walk = walk_hull(
        policies, contexts, worth=scores, use=budget, own_price=lambda use: 0.0 if use <= limit else math.inf
    )
    kept = [point for point in walk.points if point.use <= limit]
    if not kept:
        raise _impossible(limit, least=min(point.use for point in walk.points))
    best = max(kept, key=lambda point: point.worth)
    bound = walk.bound(lambda price: price * limit)
    return Choice(best.policy, best.worth, bound=max(bound, best.worth), calls=len(walk.points))


def sum_list(policies: PolicyClass, contexts: Contexts, scores: FloatArray) -> FloatArray:
    """`Σ_i scores[i, π(c_i)]` for every policy of a list, (|Π|,)."""
    scores = check_scores(scores, contexts=contexts, n_actions=policies.n_actions)
    return sum_scores(np.ascontiguousarray(policies.actions(contexts)), np.ascontiguousarray(scores))


def _with_rounding(limit: float, *, budget: FloatArray) -> float:
    if not math.isfinite(limit):
        raise InputError(f"the limit must be a finite number, got {limit}; without a limit, use argmax")
    return limit + 1e-12 * float(np.abs(budget).sum())


def _impossible(limit: float, *, least: float) -> InputError:
    return InputError(f"no policy keeps the limit {limit:.6g}; the least possible is {least:.6g}")
