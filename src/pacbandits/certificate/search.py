"""The policy that the bets have hurt least: `min_π max_k S_k(π)` through the class's oracles.

S_k(π) is the log-wealth of expert k against "π beats q by ε". A class that can be listed is looked through. With a
frontier oracle the minimum is exact for any two experts, as max(S_1, S_2) is monotone in both. With argmax alone every
convex combination of experts gives a lower bound in one call, `min_π Σ_k w_k S_k(π) ≤ min_π max_k S_k(π)`; the best
weight of two is found by bisection (it is concave).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.base import EnumeratedClass, FrontierClass, PolicyClass, total
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts

MAX_PAIRED_EXPERTS = 3  # those who are best alone, whose pairs are looked at
SHARE_HALVINGS = 8  # of [0, 1], to find the best share of one of two experts


@dataclass(frozen=True)
class Least:
    """A lower bound on `min_π max_k S_k(π)` over the experts named, and how it was found.

    value: the bound.
    experts: which ones it is over.
    share: the weight of the first of two experts in their combination; None when the minimum is exact.
    oracle_calls: what it took.
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
    best, calls = Least(alone[order[0]], (order[0],), None, 0), len(scores)
    if isinstance(policies, FrontierClass):
        paired = order[:MAX_PAIRED_EXPERTS]
    else:
        paired = order[:2] if best.value >= needed / 2.0 else []
    for one, two in combinations(paired, 2):
        pair = _least_of_pair(policies, contexts, scores, one, two)
        best, calls = max(best, pair, key=lambda least: least.value), calls + pair.oracle_calls
    return replace(best, oracle_calls=calls)


def least_again(
    policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], *, share: float | None = None
) -> float:
    """The same bound for other scores of the experts that `least_wealth` named, in the way that it found it.

    share: of the first of two experts, as it was found.
    """
    if isinstance(policies, EnumeratedClass):
        return least_of_all(policies, contexts, scores)
    if len(scores) == 1:
        return least_of_one(policies, contexts, scores[0])
    if share is None and isinstance(policies, FrontierClass):
        return least_of_two(policies, contexts, scores[0], scores[1])
    weight = 0.5 if share is None else share
    return least_of_one(policies, contexts, weight * scores[0] + (1.0 - weight) * scores[1])


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


def _least_of_pair(
    policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], one: int, two: int
) -> Least:
    """The best bound that two experts give: exact with a frontier, else by the best of their combinations."""
    if isinstance(policies, FrontierClass):
        return Least(least_of_two(policies, contexts, scores[one], scores[two]), (one, two), None, 1)
    low, high = 0.0, 1.0
    best, share = -np.inf, 0.5
    for _ in range(SHARE_HALVINGS):
        middle = (low + high) / 2
        mixed = middle * scores[one] + (1.0 - middle) * scores[two]
        actions = policies.argmax(contexts, -mixed)(contexts)
        first, second = total(scores[one], actions), total(scores[two], actions)
        value = middle * first + (1.0 - middle) * second
        if value > best:
            best, share = value, middle
        # The slope in the weight is S_1 − S_2 at the minimiser.
        low, high = (middle, high) if first > second else (low, middle)
    return Least(best, (one, two), share, SHARE_HALVINGS)
