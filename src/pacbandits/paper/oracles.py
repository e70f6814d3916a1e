"""The paper's reductions to argmax oracles: constraints, exclusion of a set, and the steps of CODA and FW-GD."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_scores, total
from pacbandits.policies.finite import sum_by_id, sum_scores
from pacbandits.policies.rivals import kinds_of
from pacbandits.records import Contexts, Policy

# The result of a search through oracles.


@dataclass(frozen=True, eq=False)
class Choice:
    """A policy that a search found. The bound assumes an exact oracle, and holds up to rounding.

    policy: the policy.
    value: its value.
    bound: an upper bound over all policies; the value itself if the search is exact.
    calls: the number of oracle calls; a frontier counts by its points, as each is a constrained argmax.
    """

    policy: Policy
    value: float
    bound: float
    calls: int


# A walk on the convex hull of two sums, by argmax calls alone.


# Heights that differ by less than this share of the sum of all |scores| count as equal, as in searches for trees.
_TIED_HEIGHT_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class HullPoint:
    """A policy as a point of the plane.

    policy: the policy.
    worth: the first of its two sums, to be maximised.
    use: the second, which has a price.
    """

    policy: Policy
    worth: float
    use: float

    def height(self, price: float) -> float:
        """Return its worth less its use at that price."""
        return self.worth - price * self.use


@dataclass(frozen=True, eq=False)
class Walk:
    """The result of a walk.

    points: one per call.
    prices: the finite ones at which the highest point of the class is among the points.
    """

    points: tuple[HullPoint, ...]
    prices: tuple[float, ...]

    def bound(self, offset: Callable[[float], float]) -> float:
        """Return the least `max_π (worth_π − μ use_π) + ψ(μ)` over the prices μ, where ψ = `offset`."""
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
    lines plus ψ is least. Every call finds a new vertex of the hull or proves that there is none above the edge, so the
    walk ends. It starts with the largest worth (price 0) and the least use (price ∞).
    """
    points: list[HullPoint] = []
    prices: list[float] = []
    sums = float(np.abs(worth).sum()), float(np.abs(use).sum())

    def ask(price: float) -> HullPoint:
        policy = policies.argmax(contexts, worth - price * use if price < math.inf else -use)
        actions = policy(contexts)
        points.append(HullPoint(policy, total(worth, actions), total(use, actions)))
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
            # No policy uses less than the one of largest worth: it is the highest at every price.
            if own_price(high.use) < math.inf:
                prices.append(own_price(high.use))
    return Walk(tuple(points), tuple(prices))


# The two-score constrained argmax: exact if a class offers more than an argmax, relaxed otherwise. The paper's C-AMO
# (`def:csc`) limits the very score that it maximises; the steps here limit another (corrections, row 43).


def constrained_argmax(
    policies: PolicyClass,
    contexts: Contexts,
    scores: FloatArray,
    *,
    budget: FloatArray,
    limit: float,
) -> Policy:
    """The two-score constrained argmax: maximise `Σ scores[i, π(c_i)]` subject to `Σ budget[i, π(c_i)] ≤ limit`.

    Exact through the frontier of (scores, −budget): among the points that keep the limit (up to rounding), the one of
    largest score. A class that has no frontier but can be listed is enumerated. scores, budget (n, A).
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
    """The two-score constrained argmax through the plain argmax, by Lagrangian relaxation.

        bound = min_{μ ≥ 0} max_π [Σ (scores − μ budget)[i, π(c_i)] + μ limit]  ≥  what the exact one would return

    The policy is the best one found that keeps the limit (up to rounding). It is the true optimum if that is a vertex
    of the convex hull of the points (score, budget); no argmax can find a policy inside the hull, and then `bound`
    limits the loss. scores, budget (n, A).
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
    """Return `Σ_i scores[i, π(c_i)]` for every policy of a list, (|Π|,)."""
    scores = check_scores(scores, contexts=contexts, n_actions=policies.n_actions)
    return sum_scores(np.ascontiguousarray(policies.actions(contexts)), np.ascontiguousarray(scores))


def _with_rounding(limit: float, *, budget: FloatArray) -> float:
    if not math.isfinite(limit):
        raise InputError(f"the limit must be a finite number, got {limit}; without a limit, use argmax")
    return limit + 1e-12 * float(np.abs(budget).sum())


def _impossible(limit: float, *, least: float) -> InputError:
    return InputError(f"no policy keeps the limit {limit:.6g}; the least possible is {least:.6g}")


# The input of the steps of CODA and FW-GD: estimates of every policy, and γ of some.


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimates of a round for every policy, as scores on contexts, one row each.

    gaps (n, A): their sum over π's actions is Δ̂_π.
    costs (n, A): not negative; their sum over π's actions is V_π(p; q).
    confidence: L = log(1/δ_l).
    samples: n of the round.
    """

    gaps: FloatArray
    costs: FloatArray
    confidence: float
    samples: float

    def checked(self, policies: PolicyClass, contexts: Contexts) -> Estimates:
        """Return the estimates with checked arrays; raise InputError if shapes, signs or numbers are wrong."""
        gaps = check_scores(self.gaps, contexts=contexts, n_actions=policies.n_actions, name="gaps")
        costs = check_scores(self.costs, contexts=contexts, n_actions=policies.n_actions, name="costs")
        if costs.min() < 0:
            raise InputError(f"costs are parts of a variance and must not be negative, got {costs.min():.6g}")
        check_positive(confidence=self.confidence, samples=self.samples)
        return replace(self, gaps=gaps, costs=costs)


@dataclass(frozen=True, eq=False)
class SupportGammas:
    """γ_π as in the paper: one for each policy of the support, and a common one for all others.

    support: m policies.
    gammas (m,): their γ.
    common_gamma: γ of every other policy.
    support_gaps (m,): Δ̂_π of the support, if estimated with another γ than the gaps of all; else None.
    """

    support: Sequence[Policy]
    gammas: ArrayLike
    common_gamma: float
    support_gaps: ArrayLike | None = None

    def checked_gammas(self) -> FloatArray:
        """Return γ (m,) of the support; raise if one of them or the common one is not positive."""
        gammas = floats(self.gammas, name="gammas", shape=(len(self.support),))
        check_positive(common_gamma=self.common_gamma, gammas=gammas)
        return gammas

    def checked_gaps(self, otherwise: FloatArray) -> FloatArray:
        """Return Δ̂ (m,) of the support, or `otherwise` if they have no estimates of their own."""
        if self.support_gaps is None:
            return otherwise
        return floats(self.support_gaps, name="support_gaps", shape=(len(self.support),))


def check_positive(**values: ArrayLike) -> None:
    """Raise unless every value (or entry of one) is positive and finite."""
    for name, value in values.items():
        array = np.asarray(value)
        bad = array[~((array > 0) & (array < np.inf))]
        if bad.size:
            raise InputError(f"{name} must be positive and finite, got {bad[0]}")


# The best policy outside a given set, by argmax calls alone.
#
# The paper's Algorithm `c_csc` calls a constrained oracle and can loop for ever when two excluded policies have equal
# values (row 24 of the corrections). `best_outside` finds the best policy outside the set; `some_outside` ends the
# rounds of CODA; `best_outside_as_printed` is the paper's loop, for small classes, which only the tests of that
# correction run.


def best_outside(
    policies: PolicyClass,
    contexts: Contexts,
    scores: FloatArray,
    *,
    excluded: Sequence[Policy],
    above: float = -math.inf,
) -> Choice | None:
    """Return a policy that maximises `Σ scores[i, π(c_i)]` among those that act like no policy of `excluded`.

    Lemma `restricted_csc`, by the partitioning of Lawler and Murty: the best policy of a piece of the class is
    returned, or, if it is excluded, the others of its piece are split into one piece per context. The constraints of a
    piece are written into the scores as penalties, so a plain argmax suffices. At most 1 + |B|·|D| calls for |B|
    excluded behaviours and |D| distinct contexts; fewer, because a piece is searched only when its upper bound is the
    largest. None if no policy is left, or none of value larger than `above`. scores (n, A).
    """
    return _outside(policies, contexts, scores, excluded=excluded, above=above, enough=math.inf)


def some_outside(
    policies: PolicyClass, contexts: Contexts, scores: FloatArray, *, excluded: Sequence[Policy], above: float
) -> Choice | None:
    """Return any policy of value larger than `above` that acts like no policy of `excluded`; None if there is none.

    The search of `best_outside`, ended at the first such policy. scores (n, A).
    """
    return _outside(policies, contexts, scores, excluded=excluded, above=above, enough=above)


def _outside(
    policies: PolicyClass,
    contexts: Contexts,
    scores: FloatArray,
    *,
    excluded: Sequence[Policy],
    above: float,
    enough: float,
) -> Choice | None:
    """Return the result of `best_outside`, or the first policy found whose value is larger than `enough`."""
    scores = check_scores(scores, contexts=contexts, n_actions=policies.n_actions)
    distinct, kind = _distinct(contexts)
    losses = sum_by_id(kind, scores, n=len(distinct))
    best_rows = losses.max(axis=1)
    losses, most = losses - best_rows[:, None], float(best_rows.sum())
    avoid = {_behaviour(policy, distinct).tobytes() for policy in excluded}

    calls, number = 0, count()
    whole = _Piece(np.zeros(len(distinct), dtype=np.int64), np.arange(len(distinct)), fixed=0, banned=())
    # The largest value first; among equals, a known policy before an unsearched piece.
    queue: list[tuple[float, bool, int, _Piece, Policy | None]] = [(0.0, True, next(number), whole, None)]
    while queue:
        loss, _, _, piece, policy = heapq.heappop(queue)
        if most - loss <= above:
            return None
        if policy is None:
            calls += 1
            policy = policies.argmax(distinct, piece.penalised(losses))
            actions = _behaviour(policy, distinct)
            if piece.holds(actions):
                value = total(scores, policy(contexts))
                if value > enough and actions.tobytes() not in avoid:
                    return Choice(policy, value, bound=most, calls=calls)
                heapq.heappush(queue, (-total(losses, actions), False, next(number), piece, policy))
            continue
        actions = _behaviour(policy, distinct)
        if actions.tobytes() not in avoid:
            value = total(scores, policy(contexts))
            return Choice(policy, value, bound=value, calls=calls)
        for smaller, bound in piece.without(actions, losses):
            heapq.heappush(queue, (max(loss, -bound), True, next(number), smaller, None))
    return None


@dataclass(frozen=True, eq=False)
class _Piece:
    """The policies that act like `actions` on the contexts order[:fixed], and take no banned action on order[fixed].

    Losses (n, A) in its methods are scores less the best of their row.

    actions (n,): the actions of its policies on the first contexts of `order`.
    order (n,): a permutation of the contexts.
    fixed: the number of contexts with fixed actions.
    banned: the actions that are excluded on the next one.
    """

    actions: IntArray
    order: IntArray
    fixed: int
    banned: tuple[int, ...]

    def holds(self, actions: IntArray) -> bool:
        first, here = self.order[: self.fixed], int(self.order[self.fixed])
        return bool((actions[first] == self.actions[first]).all()) and int(actions[here]) not in self.banned

    def penalised(self, losses: FloatArray) -> FloatArray:
        """Return losses (n, A) under which every policy of the piece is better than every policy outside.

        Within the piece no sum falls below −span; a policy outside has at least one penalty, of twice that.
        """
        out = losses.copy()
        first, free = self.order[: self.fixed], self.order[self.fixed :]
        span = -float(losses[free].min(axis=1).sum())
        penalty = 2.0 * span if span > 0 else 1.0
        out[first] = -penalty
        out[first, self.actions[first]] = 0.0
        out[free[0], list(self.banned)] = -penalty
        return out

    def without(self, actions: IntArray, losses: FloatArray) -> list[tuple[_Piece, float]]:
        """Return the piece less the policies that act like `actions`, as disjoint pieces, each with an upper bound.

        A piece agrees with `actions` on the contexts before its own and differs there; the bound is that of all maps
        from contexts to actions which do so. Contexts where `actions` lose most come first, for tighter bounds.
        """
        start = self.fixed + bool(self.banned)
        rows = np.arange(len(actions))
        lost = losses[rows, actions]
        rest = self.order[start:]
        order = np.concatenate([self.order[:start], rest[np.argsort(lost[rest], kind="stable")]])
        before = np.concatenate([[0.0], np.cumsum(lost[order])])
        pieces: list[tuple[_Piece, float]] = []
        for k in range(self.fixed, len(actions)):
            here = order[k]
            banned = (*(self.banned if k == self.fixed else ()), int(actions[here]))
            if len(banned) < losses.shape[1]:
                allowed = float(np.delete(losses[here], banned).max())
                pieces.append((_Piece(actions, order, k, banned), float(before[k]) + allowed))
        return pieces


def _distinct(contexts: Contexts) -> tuple[Contexts, IntArray]:
    """Return one context of each kind that a policy can distinguish, and the kind (n,) of every context."""
    kind = kinds_of(contexts)
    first = np.unique(kind, return_index=True)[1]
    if len(first) == len(contexts):
        return contexts, np.arange(len(contexts))
    return contexts.take(first), kind


def _behaviour(policy: Policy, contexts: Contexts) -> IntArray:
    return np.asarray(policy(contexts), dtype=np.int64)


@dataclass(frozen=True)
class PrintedWalk:
    """The trace of the paper's loop.

    visited: the indices of the policies it visited.
    returned: the index it ended with; None if it did not end.
    """

    visited: tuple[int, ...]
    returned: int | None


def best_outside_as_printed(
    policies: PolicyClass, contexts: Contexts, scores: FloatArray, *, excluded: Sequence[Policy], max_steps: int
) -> PrintedWalk:
    """Run the paper's Algorithm `c_csc` with an exact constrained oracle.

    From π_i to the best policy that differs from it on some context and is worth no more, until that is outside
    `excluded`; at most `max_steps` times.
    """
    values = sum_list(policies, contexts, scores)
    actions = np.asarray(policies.actions(contexts), dtype=np.int64)
    avoid = {_behaviour(policy, contexts).tobytes() for policy in excluded}
    visited = [int(np.argmax(values))]
    while actions[visited[-1]].tobytes() in avoid:
        here = visited[-1]
        allowed = (actions != actions[here]) & (values <= values[here])[:, None]
        if len(visited) > max_steps or not allowed.any():
            return PrintedWalk(tuple(visited), returned=None)
        found = [int(np.argmax(np.where(column, values, -np.inf))) for column in allowed.T if column.any()]
        visited.append(max(found, key=lambda i: values[i]))
    return PrintedWalk(tuple(visited), returned=visited[-1])


# The step of Frank–Wolfe with γ_π minimised for every policy.
#
# Departure from the paper (row 9 of the corrections): it fixes γ_π outside the support, and so searches policies by the
# wrong value.


def frank_wolfe_step_free(
    policies: PolicyClass,
    contexts: Contexts,
    estimates: Estimates,
    *,
    gap_weight: float,
    width_weight: float,
    limits: FloatArray | None = None,
) -> Choice:
    """Return the policy towards which Frank–Wolfe steps when every γ_π is free.

        argmax_π min_γ  −aΔ̂_π + b γ V_π + b L/(γ n)  =  argmax_π  −aΔ̂_π + 2b √(V_π L/n)

    It rises with −Δ̂ and V, so its maximum lies on their frontier, exact if the frontier is. `limits` (m,): if the
    frontier has more points, the best of those with the largest V where Δ̂ ≤ limit; value and bound are that one's.
    """
    known = estimates.checked(policies, contexts)
    gaps, costs = known.gaps, known.costs
    width = _width(known, gap_weight=gap_weight, width_weight=width_weight)
    frontier = policies.frontier(contexts, costs, -gaps)
    asked = np.arange(len(frontier))
    if limits is not None and len(limits) < len(asked):
        asked = np.unique(np.searchsorted(frontier.second, -limits).clip(max=len(asked) - 1))
    values = gap_weight * frontier.second[asked] + width * np.sqrt(np.maximum(frontier.first[asked], 0.0))
    top = int(values.argmax())
    policy = frontier.policy(int(asked[top]))
    actions = policy(contexts)
    value = -gap_weight * total(gaps, actions) + width * math.sqrt(total(costs, actions))
    bound = value if frontier.exact else max(value, float(values[top]))
    return Choice(policy, value, bound=bound, calls=len(asked))


def frank_wolfe_step_free_by_argmax(
    policies: PolicyClass, contexts: Contexts, estimates: Estimates, *, gap_weight: float, width_weight: float
) -> Choice:
    """Return the same step for classes that have only an argmax: the best policy found, and a bound over all.

        max_π min_γ  −aΔ̂_π + b γ V_π + b L/(γ n)  ≤  min_γ max_π  −aΔ̂_π + b γ V_π + b L/(γ n)  =  bound

    For a given γ the right side is one call, and it is convex in γ. The two sides differ by the distance between the
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
    # If no policy differs from q, the width vanishes with γ → ∞, and only the first part is left.
    differ = min(point.use for point in walk.points) < 0
    bound = walk.bound(lambda price: (width / 2) ** 2 / price if price > 0 else math.inf) if differ else values[top]
    return Choice(walk.points[top].policy, values[top], bound=max(bound, values[top]), calls=len(walk.points))


def _width(known: Estimates, *, gap_weight: float, width_weight: float) -> float:
    """Return the factor `2b√(L/n)` of √V."""
    check_positive(width_weight=width_weight)
    if not gap_weight >= 0:
        raise InputError(f"gap_weight must be 0 or more, got {gap_weight}")
    return 2 * width_weight * math.sqrt(known.confidence / known.samples)
