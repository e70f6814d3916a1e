"""Rivals of a policy: the policies of its class that take a different action on some of the given contexts.

Rivals form a class without a frontier. A class that lists its policies lists its rivals too. For any other class the
best rival is found by argmax calls: if the overall best policy agrees with the reference everywhere, then for each
distinct context in turn the reference's action there is penalised so much that any policy that can avoid it does, and
the best of the results is the best rival. A context is skipped if even an unrestricted map that differs there would
not beat the best rival so far.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass, at_stake, check_scores, total
from pacbandits.policies.finite import sum_by_id, sum_scores
from pacbandits.records.columns import comparable
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy

MAX_KINDS = 500  # distinct contexts, each of which may take one argmax call


class RivalClass(PolicyClass):
    """The rivals of a policy on fixed contexts, the only ones it may be queried on; listed if the class is.

    calls: argmax calls of the underlying class so far.
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
        """Return a rival that maximises `Σ_i scores[i, π(c_i)]`; raise InputError if there is none."""
        best = self.best(contexts, scores)
        if best is None:
            raise InputError("no policy of the class acts otherwise on any of the contexts")
        return best

    def best(self, contexts: Contexts, scores: FloatArray) -> Policy | None:
        """Return a rival that maximises `Σ_i scores[i, π(c_i)]`; None if there is none."""
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
        """Return, for each kind (kinds,), a bound on any map that differs from the reference there; −∞ if none does."""
        n = int(self._kinds.max()) + 1
        sums = sum_by_id(self._kinds, scores, n=n)
        own = np.zeros(n, dtype=np.int64)
        own[self._kinds] = self._reference
        tops, others = sums.max(axis=1), sums.copy()
        others[np.arange(n), own] = -np.inf
        return float(tops.sum()) - tops + others.max(axis=1) + 1e-9 * (1.0 + at_stake(scores))


def rivals_of(policies: PolicyClass, contexts: Contexts, reference: IntArray) -> RivalClass | None:
    """Return the rivals of a policy, given by its actions (n,) on contexts; None if there are none."""
    found = RivalClass(policies, contexts, reference)
    if found.lists_policies:
        return found if len(found) else None
    nothing = np.zeros((len(contexts), policies.n_actions))
    return None if found.best(contexts, nothing) is None else found


def check_rivals(policies: PolicyClass, contexts: Contexts) -> None:
    """Raise InputError unless the best rival on these contexts can be found with a bounded number of searches."""
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
    """Return the number (n,) of each context's kind, from 0 without gaps; contexts of a kind are indistinguishable."""
    known = comparable(contexts.features)
    if contexts.ids is not None:
        known = np.column_stack([contexts.ids, known])
    if contexts.phi is not None:
        known = np.column_stack([known, contexts.phi.codes])
    if known.shape[1] == 0:
        return np.zeros(len(contexts), dtype=np.int64)
    return np.unique(known, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
