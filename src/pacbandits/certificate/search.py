"""The policy that the bets have hurt least: `min_π max_k S_k(π)` through the class's oracles.

S_k(π) is the log-wealth of expert k against "π beats q by ε". A class that can be listed is looked through. With a
frontier oracle the minimum is exact for any two experts, as max(S_1, S_2) is monotone in both. With argmax alone every
convex combination of experts gives a lower bound in one call, `min_π Σ_k w_k S_k(π) ≤ min_π max_k S_k(π)`; the best
weight of two is found by bisection (it is concave).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.base import EnumeratedClass, FrontierClass, PolicyClass, total
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts

_TRIED = 3  # experts, the best alone, whose pairs are looked at
_HALVINGS = 8


@dataclass(frozen=True)
class Least:
    """A lower bound on `min_π max_k S_k(π)` over the experts named, and how it was found.

    share: the weight of the first of two experts in their combination; None when the minimum is exact.
    """

    value: float
    experts: tuple[int, ...]
    share: float | None
    oracle_calls: int


def least_wealth(
    policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], *, needed: float = -np.inf
) -> Least:
    """The best lower bound that the experts' scores (each m × A) give: all of them, or the best one or two.

    With argmax alone a pair takes many calls, and is looked at when the best expert alone has half of what is needed.
    """
    if isinstance(policies, EnumeratedClass):
        return Least(least_of_all(policies, contexts, scores), tuple(range(len(scores))), None, 0)
    alone = [least_of_one(policies, contexts, score) for score in scores]
    order = sorted(range(len(scores)), key=lambda k: -alone[k])
    best = Least(alone[order[0]], (order[0],), None, len(scores))
    calls = len(scores)
    hopeful = best.value >= needed / 2.0
    tried = _TRIED if isinstance(policies, FrontierClass) else 2 if hopeful else 1
    for one, two in combinations(order[:tried], 2):
        if isinstance(policies, FrontierClass):
            value, share, asked = least_of_two(policies, contexts, scores[one], scores[two]), None, 1
        else:
            value, share, asked = _best_combination(policies, contexts, scores[one], scores[two])
        calls += asked
        if value > best.value:
            best = Least(value, (one, two), share, calls)
    return Least(best.value, best.experts, best.share, calls)


def least_of_all(policies: EnumeratedClass, contexts: Contexts, scores: Sequence[FloatArray]) -> float:
    """min_π max_k S_k(π) by looking at every policy."""
    table = np.ascontiguousarray(policies.actions(contexts))
    return float(np.max([sum_scores(table, score) for score in scores], axis=0).min())


def least_of_one(policies: PolicyClass, contexts: Contexts, score: FloatArray) -> float:
    """min_π S(π): one argmax call."""
    return total(score, policies.argmax(contexts, -score)(contexts))


def least_of_two(policies: FrontierClass, contexts: Contexts, one: FloatArray, two: FloatArray) -> float:
    """min_π max(S_1(π), S_2(π)), exactly (a frontier that was rounded is rounded outward: a lower bound)."""
    frontier = policies.frontier(contexts, -one, -two)
    return float(-np.minimum(frontier.first, frontier.second).max())


def _best_combination(
    policies: PolicyClass, contexts: Contexts, one: FloatArray, two: FloatArray
) -> tuple[float, float, int]:
    low, high = 0.0, 1.0
    best, share = -np.inf, 0.5
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        actions = policies.argmax(contexts, -(middle * one + (1.0 - middle) * two))(contexts)
        first, second = total(one, actions), total(two, actions)
        value = middle * first + (1.0 - middle) * second
        if value > best:
            best, share = value, middle
        # The slope in the weight is S_1 − S_2 at the minimiser.
        low, high = (middle, high) if first > second else (low, middle)
    return best, share, _HALVINGS
