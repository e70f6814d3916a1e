"""The best policy outside a given set, by argmax calls alone.

The paper's Algorithm `c_csc` asks a constrained oracle and can go round for ever when two policies to be avoided
have equal values; see row 24 of the corrections. `best_outside` is what the steps of `reductions` use, `some_outside`
what ends the rounds of CODA; `best_outside_as_printed` is the paper's loop, for small classes, which only the tests of
that correction run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.paper.oracles.choice import Choice
from pacbandits.paper.oracles.constrained import sum_list
from pacbandits.policies.base import PolicyClass, check_scores, total
from pacbandits.policies.finite import sum_by_id
from pacbandits.policies.rivals import kinds_of
from pacbandits.records import Contexts, Policy


def best_outside(
    policies: PolicyClass,
    contexts: Contexts,
    scores: FloatArray,
    *,
    excluded: Sequence[Policy],
    above: float = -math.inf,
) -> Choice | None:
    """A policy that maximises `Σ scores[i, π(c_i)]` among those that act like no policy of `excluded` on the contexts.

    Lemma `restricted_csc`, by the partitioning of Lawler and Murty: the best policy of a piece of the class is
    returned, or, when it is to be avoided, the others of its piece are cut into one piece a context. What a piece
    demands of its policies is written into the scores as penalties, so a plain argmax will do. At most 1 + |B|·|D|
    calls for |B| excluded behaviours and |D| distinct contexts; fewer, because a piece is asked about only when its
    upper bound comes first. None when no policy is left, or none of value larger than `above`. scores (n, A).
    """
    return _outside(policies, contexts, scores, excluded=excluded, above=above, enough=math.inf)


def some_outside(
    policies: PolicyClass, contexts: Contexts, scores: FloatArray, *, excluded: Sequence[Policy], above: float
) -> Choice | None:
    """Any policy of value larger than `above` that acts like no policy of `excluded`; None when there is none.

    The same search, which ends with the first one that it meets. scores (n, A).
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
    """`best_outside`, or the first policy met whose value is larger than `enough`."""
    scores = check_scores(scores, contexts=contexts, n_actions=policies.n_actions)
    distinct, kind = _distinct(contexts)
    losses = sum_by_id(kind, scores, n=len(distinct))
    best_rows = losses.max(axis=1)
    losses, most = losses - best_rows[:, None], float(best_rows.sum())
    avoid = {_behaviour(policy, distinct).tobytes() for policy in excluded}

    calls, number = 0, count()
    whole = _Piece(np.zeros(len(distinct), dtype=np.int64), np.arange(len(distinct)), fixed=0, banned=())
    # The largest value first; among equals a policy that is known before a piece that is not.
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

    Losses (n, A), as its methods take them, are scores less the best of their row.

    actions (n,): what its policies do on the first contexts of `order`.
    order (n,): a permutation of the contexts.
    fixed: on how many contexts the actions are fixed.
    banned: actions that are not taken on the next one.
    """

    actions: IntArray
    order: IntArray
    fixed: int
    banned: tuple[int, ...]

    def holds(self, actions: IntArray) -> bool:
        first, here = self.order[: self.fixed], int(self.order[self.fixed])
        return bool((actions[first] == self.actions[first]).all()) and int(actions[here]) not in self.banned

    def penalised(self, losses: FloatArray) -> FloatArray:
        """Losses (n, A) with which every policy of the piece is better than every policy outside.

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
        """The piece less the policies that act like `actions`, in disjoint pieces, each with an upper bound.

        A piece agrees with `actions` on the contexts before its own and differs there; the bound is that of all maps
        from contexts to actions which do so. Contexts where `actions` lose most come first, for the sake of the bounds.
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
    """One context of each kind that a policy can tell apart, and which of them (n,) every context is like."""
    kind = kinds_of(contexts)
    first = np.unique(kind, return_index=True)[1]
    if len(first) == len(contexts):
        return contexts, np.arange(len(contexts))
    return contexts.take(first), kind


def _behaviour(policy: Policy, contexts: Contexts) -> IntArray:
    return np.asarray(policy(contexts), dtype=np.int64)


@dataclass(frozen=True)
class PrintedWalk:
    """What the paper's loop did.

    visited: the policies it came by, as numbers.
    returned: the one it ended with; None when it did not end.
    """

    visited: tuple[int, ...]
    returned: int | None


def best_outside_as_printed(
    policies: PolicyClass, contexts: Contexts, scores: FloatArray, *, excluded: Sequence[Policy], max_steps: int
) -> PrintedWalk:
    """The paper's Algorithm `c_csc`, with an exact constrained oracle: from π_i to the best policy that differs from it
    on some context and is worth no more, until that is outside `excluded`; at most `max_steps` times.
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
