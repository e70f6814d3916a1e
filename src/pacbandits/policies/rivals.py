"""The rivals of a policy: all of its class that act otherwise on some of the contexts at hand.

They are a class of their own, without a frontier: one that can be listed is, less those who act alike. Of another the
best rival is found by plain argmax calls. If the best of all acts like the policy, then for one kind of context after
the other the policy's own action is made so dear there that whoever can avoids it: the best rival is the best of those
that are found. A kind is left out where even a map that may do as it likes elsewhere would be no better.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass, at_stake, check_scores, total
from pacbandits.policies.finite import sum_by_id, sum_scores
from pacbandits.records import Contexts, Policy
from pacbandits.records.columns import comparable

MAX_KINDS = 500  # of contexts, each of which may take a call


class RivalClass(PolicyClass):
    """The rivals of a policy on contexts, on which alone they are asked for; listed where their class is.

    calls: of the argmax of the class so far.
    """

    def __init__(self, policies: PolicyClass, contexts: Contexts, reference: IntArray) -> None:
        self.n_actions, self.log_size, self.exact = policies.n_actions, policies.log_size, policies.exact
        self.calls = 0
        self._policies, self._reference = policies, np.asarray(reference, dtype=np.int64)
        self._contexts = contexts
        self.lists_policies = policies.lists_policies
        if self.lists_policies:
            self._numbers = np.flatnonzero((np.asarray(policies.actions(contexts)) != self._reference).any(axis=1))

    def __len__(self) -> int:
        return len(self._numbers)

    def policy(self, index: int) -> Policy:
        return self._policies.policy(int(self._numbers[index]))

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        return np.asarray(self._policies.actions(contexts))[self._numbers]

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """A rival that maximises `Σ_i scores[i, π(c_i)]`."""
        best = self.best(contexts, scores)
        if best is None:
            raise InputError("no policy of the class acts otherwise on any of the contexts")
        return best

    def best(self, contexts: Contexts, scores: FloatArray) -> Policy | None:
        """The same; None where there is no rival."""
        if self.lists_policies:
            if not len(self):
                return None
            return self.policy(int(sum_scores(np.ascontiguousarray(self.actions(contexts)), scores).argmax()))
        scores = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        first = self._ask(contexts, scores)
        if self._unlike(first(contexts)).any():
            return first
        best, most, bounds = None, -np.inf, self._bounds(scores)
        dear = 2.0 * at_stake(scores) + 1.0
        for kind in np.argsort(-bounds, kind="stable"):
            if bounds[kind] <= most:
                break
            here = np.flatnonzero(self._kinds == kind)
            without = scores.copy()
            without[here, self._reference[here]] -= dear
            found = self._ask(contexts, without)
            actions = found(contexts)
            if self._unlike(actions)[here].any() and (value := total(scores, actions)) > most:
                best, most = found, value
        return best

    @cached_property
    def _kinds(self) -> IntArray:
        return kinds_of(self._contexts)

    def _ask(self, contexts: Contexts, scores: FloatArray) -> Policy:
        self.calls += 1
        return self._policies.argmax(contexts, scores)

    def _unlike(self, actions: IntArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.asarray(actions, dtype=np.int64) != self._reference

    def _bounds(self, scores: FloatArray) -> FloatArray:
        """The most (kinds,) that any map from kinds to actions has which acts otherwise on a kind; −∞ for none."""
        n = int(self._kinds.max()) + 1
        sums = sum_by_id(self._kinds, scores, n=n)
        own = np.zeros(n, dtype=np.int64)
        own[self._kinds] = self._reference
        tops, others = sums.max(axis=1), sums.copy()
        others[np.arange(n), own] = -np.inf
        return float(tops.sum()) - tops + others.max(axis=1) + 1e-9 * (1.0 + at_stake(scores))


def rivals_of(policies: PolicyClass, contexts: Contexts, reference: IntArray) -> RivalClass | None:
    """The rivals of a policy, by its actions (n,), on contexts; None where nobody acts otherwise on any of them."""
    found = RivalClass(policies, contexts, reference)
    if found.lists_policies:
        return found if len(found) else None
    nothing = np.zeros((len(contexts), policies.n_actions))
    return None if found.best(contexts, nothing) is None else found


def check_rivals(policies: PolicyClass, contexts: Contexts) -> None:
    """Raise unless the best rival on these contexts can be found, and in a bearable time."""
    remedy = "ask for an epsilon above 0, or for a list of policies (Finite)"
    if policies.lists_policies:
        return
    if not policies.exact:
        raise InputError(
            f"an epsilon of 0 asks for the best policy itself, and the search of this class is not exact; {remedy}"
        )
    if not np.isfinite(policies.log_size):
        raise InputError(f"an epsilon of 0 asks for the best policy itself, of a class without a size; {remedy}")
    if policies.holds_every_map:
        return
    kinds = int(kinds_of(contexts).max()) + 1
    if kinds > MAX_KINDS:
        raise InputError(
            f"an epsilon of 0 asks for the best policy itself, and with {count_of(kinds, 'different context')} a class "
            f"that cannot be listed would take a search for each (at most {MAX_KINDS:,}); {remedy}"
        )


def kinds_of(contexts: Contexts) -> IntArray:
    """Which (n,) of the kinds of contexts that a policy can tell apart each context is, from 0 without gaps."""
    known = comparable(contexts.features)
    if contexts.ids is not None:
        known = np.column_stack([contexts.ids, known])
    if contexts.phi is not None:
        known = np.column_stack([known, contexts.phi.codes])
    if known.shape[1] == 0:
        return np.zeros(len(contexts), dtype=np.int64)
    return np.unique(known, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
