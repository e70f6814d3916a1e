"""The policy that the bets have hurt least: `min_π log Σ_k e^{S_k(π)}/K` through the class's oracles.

S_k(π) is the log-wealth of expert k against "π beats q by ε", of K who began with 1/K each; those who are left out only
make the sum smaller. A class that can be listed is looked through. With a frontier oracle the minimum is exact for any
two experts, as the sum is monotone in both. With argmax alone every convex combination of experts gives a lower bound
in one call, `log Σ_k e^{S_k} ≥ Σ_k w_k S_k + H(w)` with the entropy H of the weights; the best weight of two is found
by bisection (it is concave).
"""

from __future__ import annotations

import math
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
    """A lower bound on `min_π log Σ_k e^{S_k(π)}/K`, the sum over the experts named, and how it was found.

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
    count = len(scores)
    if isinstance(policies, EnumeratedClass):
        return Least(least_of_all(policies, contexts, scores, count=count), tuple(range(count)), None, 0)
    alone = [least_of_one(policies, contexts, score, count=count) for score in scores]
    order = sorted(range(count), key=lambda k: -alone[k])
    best, calls = Least(alone[order[0]], (order[0],), None, 0), count
    if isinstance(policies, FrontierClass):
        paired = order[:MAX_PAIRED_EXPERTS]
    else:
        paired = order[:2] if best.value >= needed / 2.0 else []
    for one, two in combinations(paired, 2):
        pair = _least_of_pair(policies, contexts, scores, one, two)
        best, calls = max(best, pair, key=lambda least: least.value), calls + pair.oracle_calls
    return replace(best, oracle_calls=calls)


def least_again(
    policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], *, count: int, share: float | None = None
) -> float:
    """The same bound for other scores of the experts that `least_wealth` named, in the way that it found it.

    count: K, of all experts. share: of the first of two experts, as it was found.
    """
    if isinstance(policies, EnumeratedClass):
        return least_of_all(policies, contexts, scores, count=count)
    if len(scores) == 1:
        return least_of_one(policies, contexts, scores[0], count=count)
    if share is None and isinstance(policies, FrontierClass):
        return least_of_two(policies, contexts, scores[0], scores[1], count=count)
    weight = 0.5 if share is None else share
    mixed = weight * scores[0] + (1.0 - weight) * scores[1]
    return least_of_one(policies, contexts, mixed, count=count) + entropy(weight)


def least_of_all(policies: EnumeratedClass, contexts: Contexts, scores: Sequence[FloatArray], *, count: int) -> float:
    """The minimum by looking at every policy."""
    table = np.ascontiguousarray(policies.actions(contexts))
    sums = np.logaddexp.reduce([sum_scores(table, score) for score in scores], axis=0)
    return float(sums.min()) - math.log(count)


def least_of_one(policies: PolicyClass, contexts: Contexts, score: FloatArray, *, count: int) -> float:
    """The minimum by one expert: one argmax call."""
    return total(score, policies.argmax(contexts, -score)(contexts)) - math.log(count)


def least_of_two(policies: FrontierClass, contexts: Contexts, one: FloatArray, two: FloatArray, *, count: int) -> float:
    """The minimum by two experts, exactly (a frontier that was rounded is rounded outward: a lower bound)."""
    frontier = policies.frontier(contexts, -one, -two)
    return float(np.logaddexp(-frontier.first, -frontier.second).min()) - math.log(count)


def entropy(weight: float) -> float:
    """Of two weights that sum to 1."""
    return -sum(part * math.log(part) for part in (weight, 1.0 - weight) if part > 0)


def _least_of_pair(
    policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], one: int, two: int
) -> Least:
    """The best bound that two experts give: exact with a frontier, else by the best of their combinations."""
    count = len(scores)
    if isinstance(policies, FrontierClass):
        return Least(least_of_two(policies, contexts, scores[one], scores[two], count=count), (one, two), None, 1)
    low, high = 0.0, 1.0
    best, share = -np.inf, 0.5
    for _ in range(SHARE_HALVINGS):
        middle = (low + high) / 2
        mixed = middle * scores[one] + (1.0 - middle) * scores[two]
        actions = policies.argmax(contexts, -mixed)(contexts)
        first, second = total(scores[one], actions), total(scores[two], actions)
        value = middle * first + (1.0 - middle) * second + entropy(middle) - math.log(count)
        if value > best:
            best, share = value, middle
        # The slope in the weight is S_1 − S_2 at the minimiser, and that of the entropy.
        slope = first - second + math.log((1.0 - middle) / middle)
        low, high = (middle, high) if slope > 0 else (low, middle)
    return Least(best, (one, two), share, SHARE_HALVINGS)
