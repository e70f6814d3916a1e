"""Weights of policies with enough exploration and small cost, found by coordinate descent through the argmax oracle.

Given losses Δ(π) ≥ 0 against the best policy, as estimated, a slope β and a least probability μ, find weights Q ≥ 0
with

    Σ_π Q(π) βΔ(π) ≤ 2A                                            it costs little
    E_x[1 / Q^μ(π(x)|x)] ≤ 2A + βΔ(π)   for every policy π          every policy is explored, the better the more

where `Q^μ(a|x) = (1 − Aμ) Σ_π Q(π) 1{π(x) = a} + μ` and E_x is over the contexts that came. The weights sum to 1 at the
most; who plays them gives the rest to the best policy.

    repeat
        if Σ Q(π)(2A + βΔ(π)) > 2A: shrink Q until it is 2A
        π = argmax E_x[1/Q^μ(π(x)|x)] − βΔ(π)                       one call of the oracle
        V, S = E_x[1/Q^μ(π(x)|x)], E_x[1/Q^μ(π(x)|x)²], D = V − 2A − βΔ(π)
        if D ≤ 0: done
        Q(π) += (V + D) / (2(1 − Aμ)S)

**Source.** Agarwal, Hsu, Kale, Langford, Li and Schapire, "Taming the monster: a fast and simple algorithm for
contextual bandits", ICML 2014, Algorithm 2; it ends, from Q = 0 after 4 log(1/(Aμ))/μ steps at the most (their Theorem
3). Between two calls of the oracle the same steps are taken on the policies that have weight already, as these need no
call.

A search starts from half of the weights that the last one ended with; theirs starts from all of them. As steps only
add, and shrinking takes from all alike, weight that is no longer needed would stay for very long. Of eight settings
(two lists and trees, either algorithm, several knobs; 8 to 30 runs each) half had 6 to 45 % less regret in four, and in
the other four, one of them 15 % the other way, the difference was within twice its standard error; answers were as good
within that too. It took up to 70 % more calls. A start from nothing was nowhere clearly better than half. Policies of
next to no weight are left out at the start, so that their number does not grow without end; the constraints are checked
after that. A cap on calls keeps a round short where the oracle is slow; what is left to do then is done in the next
round, which goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.base import PolicyClass, total
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts, Policy
from pacbandits.rivals.seen import Seen

MOST_CALLS = 100  # of the oracle in a round
LEAST_WEIGHT = 1e-4  # with which a search starts
_ROUNDING = 1e-9  # by which a constraint may be missed, as a share


@dataclass(frozen=True, eq=False)
class PolicyWeights:
    """Policies with weights that sum to at most 1.

    policies: those of some weight.
    weights (m,): Q.
    actions (m, n): what they do on the contexts known so far.
    best: the policy of largest estimated value, which gets the rest.
    oracle_calls: what it took to find these.
    """

    policies: tuple[Policy, ...]
    weights: FloatArray
    actions: IntArray
    best: Policy
    oracle_calls: int = 0

    @classmethod
    def nothing(cls, best: Policy, *, n_contexts: int) -> PolicyWeights:
        """Return no weights, so that all of the weight is the best policy's."""
        return cls((), np.zeros(0), np.zeros((0, n_contexts), dtype=np.int64), best)

    def halved(self, contexts: Contexts) -> PolicyWeights:
        """Half of all weights but the least, with actions on these contexts, of which some may be new."""
        keep = np.flatnonzero(self.weights >= 2.0 * LEAST_WEIGHT)
        policies, actions = tuple(self.policies[i] for i in keep), self.actions[keep]
        known = actions.shape[1]
        if known < len(contexts):
            fresh = contexts.take(np.arange(known, len(contexts), dtype=np.int64))
            more = [policy(fresh) for policy in policies]
            new = np.stack(more) if more else np.zeros((0, len(fresh)), dtype=np.int64)
            actions = np.hstack([actions, new])
        return PolicyWeights(policies, self.weights[keep] / 2.0, actions, self.best)

    def mixture(self) -> tuple[tuple[Policy, ...], FloatArray]:
        """Return policies and weights that sum to 1; the best policy gets the rest."""
        rest = max(1.0 - float(self.weights.sum()), 0.0)
        return (*self.policies, self.best), np.append(self.weights, rest)


@dataclass(frozen=True)
class Constraint:
    """The constraints on the weights.

    slope: β, by how much more variance a policy may have for each unit of loss.
    floor: μ, the least probability of an action.
    """

    slope: float
    floor: float


def solve(policies: PolicyClass, seen: Seen, *, constraint: Constraint, start: PolicyWeights) -> PolicyWeights:
    """Return weights that meet the constraints on the observations, from a start, within `MOST_CALLS` oracle calls."""
    best = policies.argmax(seen.contexts, seen.scores)
    search = _Search(seen, constraint=constraint, best=best, start=start.halved(seen.contexts))
    calls = 1
    for _ in range(MOST_CALLS):
        search.settle()
        calls += 1
        found = policies.argmax(seen.contexts, search.scores())
        if not search.add(found):
            break
    search.shrink()
    return search.weights(oracle_calls=calls)


class _Search:
    """The weights during the descent."""

    def __init__(self, seen: Seen, *, constraint: Constraint, best: Policy, start: PolicyWeights) -> None:
        samples = seen.samples
        self._contexts, self._n_actions = seen.contexts, seen.n_actions
        self._shares, self._values = seen.counts / samples, seen.scores / samples
        self._constraint, self._best = constraint, best
        self._best_value = total(self._values, best(seen.contexts))
        self._policies, self._actions = list(start.policies), list(start.actions)
        self._where = {row.tobytes(): i for i, row in enumerate(self._actions)}
        self._weights = start.weights.copy()
        self._penalties = np.array([self._penalty(row) for row in self._actions])
        self._played = action_weights(start.actions, start.weights, n_actions=self._n_actions)

    def _penalty(self, actions: IntArray) -> float:
        """Return βΔ(π)."""
        return self._constraint.slope * (self._best_value - total(self._values, actions))

    def _smoothed(self) -> FloatArray:
        """Return Q^μ (n, A)."""
        floor = self._constraint.floor
        return (1.0 - self._n_actions * floor) * self._played + floor

    def scores(self) -> FloatArray:
        """Return scores that sum to E_x[1/Q^μ(π(x)|x)] − βΔ(π), up to a constant for all policies."""
        return self._shares[:, None] / self._smoothed() + self._constraint.slope * self._values

    def shrink(self) -> None:
        """Scale all weights down until Σ Q(π)(2A + βΔ(π)) ≤ 2A."""
        allowed = 2.0 * self._n_actions
        spent = float(self._weights @ (allowed + self._penalties))
        if spent > allowed:
            self._weights *= allowed / spent
            self._played *= allowed / spent

    def settle(self) -> None:
        """Step on the policies that have weight, until each is explored enough."""
        if not self._policies:
            return
        table = np.stack(self._actions)
        while True:
            self.shrink()
            excess = sum_scores(table, self._shares[:, None] / self._smoothed()) - self._penalties
            worst = int(np.argmax(excess))
            if not self._step(worst):
                return

    def add(self, policy: Policy) -> bool:
        """Step on this policy if it is explored too little; return whether it was."""
        actions = policy(self._contexts)
        key = actions.tobytes()
        if key in self._where:
            return self._step(self._where[key])
        self._policies.append(policy)
        self._actions.append(actions)
        self._weights = np.append(self._weights, 0.0)
        self._penalties = np.append(self._penalties, self._penalty(actions))
        self._where[key] = len(self._policies) - 1
        return self._step(len(self._policies) - 1)

    def _step(self, index: int) -> bool:
        """More weight for a policy that is explored too little; whether it was."""
        rows, actions = np.arange(len(self._contexts)), self._actions[index]
        inverses = 1.0 / self._smoothed()[rows, actions]
        variance, square = float(self._shares @ inverses), float(self._shares @ inverses**2)
        allowed = 2.0 * self._n_actions + self._penalties[index]
        if variance <= allowed * (1.0 + _ROUNDING):
            return False
        keep = 1.0 - self._n_actions * self._constraint.floor
        more = (2.0 * variance - allowed) / (2.0 * keep * square)
        self._weights[index] += more
        self._played[rows, actions] += more
        return True

    def weights(self, *, oracle_calls: int) -> PolicyWeights:
        """Those of the policies that have some."""
        some = np.flatnonzero(self._weights > 0)
        table = np.stack(self._actions)[some] if len(some) else np.zeros((0, len(self._contexts)), dtype=np.int64)
        policies = tuple(self._policies[i] for i in some)
        return PolicyWeights(policies, self._weights[some], table, self._best, oracle_calls)


def action_weights(actions: np.ndarray[Any, Any], weights: FloatArray, *, n_actions: int) -> FloatArray:
    """Return Σ_π w_π 1{π(x) = a} as (n, A), for policies with actions (m, n) and weights (m,)."""
    n = actions.shape[1]
    cells: IntArray = np.arange(n, dtype=np.int64) * n_actions + actions
    out = np.bincount(cells.reshape(-1), weights=np.repeat(weights, n), minlength=n * n_actions)
    return out.astype(np.float64).reshape(n, n_actions)
