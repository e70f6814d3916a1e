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
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts

MAX_PAIRED_EXPERTS = 3  # those who are best alone, whose pairs are looked at
SHARE_HALVINGS = 8  # of [0, 1], to find the best share of one of two experts


@dataclass(frozen=True, eq=False)
class Least:
    """A lower bound on `min_π log Σ_k e^{S_k(π)}/K`, the sum over the experts named, and how it was found.

    value: the bound.
    experts: which ones it is over.
    share: the weight of the first of two experts in their combination; None when the minimum is exact.
    oracle_calls: what it took.
    count: K, of all experts.
    sums (experts, N): what the scores of those named sum to for every policy that may be the least refuted, whatever
        each expert has beside.
    alone (1, 1) each: the same of every expert for the policy that it alone has hurt least; none for a list.
    """

    value: float
    experts: tuple[int, ...]
    share: float | None
    oracle_calls: int
    count: int = field(kw_only=True)
    sums: FloatArray = field(kw_only=True)
    alone: tuple[FloatArray, ...] = field(default=(), kw_only=True)

    def with_beside(self, beside: Sequence[float]) -> float:
        """The same bound where each of the K experts has so much log-wealth beside the scores."""
        return mean_wealth(self.sums, [beside[k] for k in self.experts], count=self.count, share=self.share)


def mean_wealth(sums: FloatArray, beside: Sequence[float], *, count: int, share: float | None) -> float:
    """The least of `log Σ_k e^{S_k + b_k}/K` over N policies, or of its bound by a combination of two experts.

    sums (experts, N): S. beside (experts,): b, the same for every policy. share: of the first of two experts.
    """
    wealths = sums + np.asarray(beside)[:, None]
    if share is None:
        return float(np.logaddexp.reduce(wealths, axis=0).min()) - math.log(count)
    return float((share * wealths[0] + (1.0 - share) * wealths[1]).min()) + entropy(share) - math.log(count)


def least_wealth(
    policies: PolicyClass,
    contexts: Contexts,
    scores: Sequence[FloatArray],
    *,
    beside: Sequence[float] | None = None,
    needed: float = -np.inf,
    known: Least | None = None,
) -> Least:
    """The best lower bound that the experts' scores (each m × A) give: all of them, or the best one or two.

    With argmax alone a pair takes many calls, and is looked at when the best expert alone has half of what is needed.

    beside (K,): log-wealth that each expert has whatever the policy; none by default.
    known: what was found for the same scores with other wealth beside.
    """
    count, more = len(scores), [0.0] * len(scores) if beside is None else beside
    if policies.lists_policies:
        return _made(sum_all(policies, contexts, scores), more, tuple(range(count)), None, 0)
    asked, calls = (known.alone, 0) if known is not None and policies.exact else ((), count)
    sums = asked or tuple(sum_one(policies, contexts, score) for score in scores)
    alone = [_made(each, more, (k,), None, 1) for k, each in enumerate(sums)]
    order = sorted(range(count), key=lambda k: -alone[k].value)
    best = alone[order[0]]
    most = MAX_PAIRED_EXPERTS if policies.has_frontier else 2 if best.value >= needed / 2.0 else 0
    paired = order[:most]
    for one, two in combinations(paired, 2):
        if policies.has_frontier:
            pair = _made(sum_two(policies, contexts, scores[one], scores[two]), more, (one, two), None, 1)
        else:
            pair = _combine(policies, contexts, scores, more, one, two)
        best, calls = max(best, pair, key=lambda least: least.value), calls + pair.oracle_calls
    return replace(best, oracle_calls=calls, alone=sums)


def least_again(policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], least: Least) -> float:
    """The same bound for other scores of the experts that were named, in the way that it was found."""
    beside = [0.0] * len(scores)
    if policies.lists_policies:
        sums = sum_all(policies, contexts, scores)
    elif len(scores) == 1:
        sums = sum_one(policies, contexts, scores[0])
    elif least.share is None and policies.has_frontier:
        sums = sum_two(policies, contexts, scores[0], scores[1])
    else:
        share = 0.5 if least.share is None else least.share
        sums = sum_mixed(policies, contexts, scores[0], scores[1], share=share)
        return mean_wealth(sums, beside, count=least.count, share=share)
    return mean_wealth(sums, beside, count=least.count, share=None)


def sum_all(policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray]) -> FloatArray:
    """What the scores sum to (experts, N) for every policy of a list."""
    table = np.ascontiguousarray(policies.actions(contexts))
    return np.array([sum_scores(table, score) for score in scores])


def sum_one(policies: PolicyClass, contexts: Contexts, score: FloatArray) -> FloatArray:
    """The same (1, 1) for the policy that one expert has hurt least: one argmax call."""
    return np.array([[policies.attained(contexts, score, policies.argmax(contexts, -score))]])


def sum_two(policies: PolicyClass, contexts: Contexts, one: FloatArray, two: FloatArray) -> FloatArray:
    """The same (2, N) for the frontier of two experts (one that was rounded is rounded outward: a lower bound)."""
    frontier = policies.frontier(contexts, -one, -two)
    return np.array([-frontier.first, -frontier.second])


def sum_mixed(
    policies: PolicyClass, contexts: Contexts, one: FloatArray, two: FloatArray, *, share: float
) -> FloatArray:
    """The same (2, 1) for the policy that a combination of two experts has hurt least: one argmax call."""
    mixed = share * one + (1.0 - share) * two
    found = policies.argmax(contexts, -mixed)
    return np.array([[policies.attained(contexts, score, found)] for score in (one, two)])


def entropy(weight: float) -> float:
    """Of two weights that sum to 1."""
    return -sum(part * math.log(part) for part in (weight, 1.0 - weight) if part > 0)


def _made(
    sums: FloatArray, beside: Sequence[float], experts: tuple[int, ...], share: float | None, calls: int
) -> Least:
    value = mean_wealth(sums, [beside[k] for k in experts], count=len(beside), share=share)
    return Least(value, experts, share, calls, count=len(beside), sums=sums)


def _combine(
    policies: PolicyClass,
    contexts: Contexts,
    scores: Sequence[FloatArray],
    beside: Sequence[float],
    one: int,
    two: int,
) -> Least:
    """The best bound that combinations of two experts give."""
    low, high = 0.0, 1.0
    best: Least | None = None
    for _ in range(SHARE_HALVINGS):
        middle = (low + high) / 2
        sums = sum_mixed(policies, contexts, scores[one], scores[two], share=middle)
        made = _made(sums, beside, (one, two), middle, SHARE_HALVINGS)
        best = made if best is None or made.value > best.value else best
        # The slope in the weight is S_1 − S_2 at the minimiser, and that of the entropy.
        first, second = float(sums[0, 0]) + beside[one], float(sums[1, 0]) + beside[two]
        slope = first - second + math.log((1.0 - middle) / middle)
        low, high = (middle, high) if slope > 0 else (low, middle)
    assert best is not None
    return best
