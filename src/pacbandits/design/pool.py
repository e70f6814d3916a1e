"""The pool of column generation: policies found so far, with weights that solve the ratio form on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.design.enumerated import SUM_ROUNDING, Evaluates, solve_weights
from pacbandits.design.objective import Objective
from pacbandits.design.scale import GapScale
from pacbandits.design.task import Possible
from pacbandits.policies.base import compact
from pacbandits.records import Design, Policy

# A pool whose table has more entries than this sheds policies of negligible weight, unless they joined in the last few
# rounds. Whatever the number of contexts, that happens to no pool below the one size and to every pool above the other.
_MAX_TABLE_ENTRIES = 2_000_000
_MIN_SHEDDING_POOL_SIZE = 600
_MAX_SPARED_POOL_SIZE = 3000
_ROUNDS_OF_GRACE = 3
_NEGLIGIBLE_WEIGHT_SHARE = 1e-4


# Where what is known beyond a pool's contexts takes nearly all of a variance away, this share of it is left.
_LEAST_CORRECTED_SHARE = 0.05


class Beyond(Protocol):
    """What is known of policies beyond the contexts that a pool is solved on, where those are some of many."""

    def gap(self, policy: Policy) -> float:
        """Δ_π on all contexts."""
        ...

    def added(self, policy: Policy) -> float:
        """What V_π is larger by on all contexts than on those of the pool."""
        ...


@dataclass(frozen=True, eq=False)
class _Corrected:
    """An objective whose variances are corrected by what is known beyond its contexts.

    objective: on the contexts of the pool.
    added (K,): to the variances of the policies of its table.
    """

    objective: Objective
    added: FloatArray

    def evaluate(self, actions: np.ndarray[Any, Any], kappa: FloatArray) -> tuple[float, FloatArray]:
        value, variances = self.objective.evaluate(actions, kappa)
        corrected = np.maximum(variances + self.added, _LEAST_CORRECTED_SHARE * variances)
        return value + float(kappa @ (corrected - variances)), corrected


class Pool:
    """The policies found so far and how they are weighted, K policies on N contexts.

    policies: themselves.
    actions (K, N): what they do.
    urgency (K,): u_π = 1/d(Δ_π)².
    weights (K,): the newest λ.
    averaged (K,): the λ at which the class was priced last.
    added (K,): what their variances are corrected by.
    age (K,): for how many rounds each has been here.
    soft: the objective with the floor of the last solution.
    evaluations: how often the objective was evaluated in all.
    """

    def __init__(self, here: Possible, *, scale: GapScale, beyond: Beyond | None = None) -> None:
        """beyond: what is known of policies on more contexts than these."""
        objective = here.objective
        self.beyond = beyond
        self.objective = objective
        self.soft = objective
        self.contexts = here.contexts
        self.gaps = here.gaps
        self.scale = scale
        self.policies: list[Policy] = []
        self.keys: list[bytes] = []
        self.seen: set[bytes] = {objective.reference.astype(compact(objective.n_actions)).tobytes()}
        self.actions = np.empty((0, len(here.contexts)), dtype=compact(objective.n_actions))
        self.urgency = np.empty(0)
        self.weights = np.empty(0)
        self.averaged = np.empty(0)
        self.added = np.empty(0)
        self.age = np.empty(0)
        self.evaluations = 0

    def add(self, policies: tuple[Policy, ...]) -> int:
        """Add those that differ from the reference and from the pool; returns how many."""
        fresh: list[np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]] = []
        urgency: list[float] = []
        added: list[float] = []
        for policy in policies:
            actions = policy(self.contexts)
            row = actions.astype(self.actions.dtype)
            key = row.tobytes()
            if key in self.seen:
                continue
            self.seen.add(key)
            if self.beyond is None:
                gap, more = float(self.gaps[np.arange(len(self.contexts)), actions].sum()), 0.0
            else:
                gap, more = self.beyond.gap(policy), self.beyond.added(policy)
            with np.errstate(divide="ignore"):
                urgency.append(float(1.0 / self.scale(np.array([gap]))[0] ** 2))
            added.append(more)
            fresh.append(row)
            self.keys.append(key)
            self.policies.append(policy)
        if fresh:
            n = len(fresh)
            share = 0.1 * self.weights.sum() / n if len(self.weights) else 1.0
            self.actions = np.concatenate([self.actions, np.stack(fresh)])
            self.urgency = np.concatenate([self.urgency, urgency])
            self.weights = np.concatenate([self.weights, np.full(n, share)])
            self.averaged = np.concatenate([self.averaged, np.zeros(n)])
            self.added = np.concatenate([self.added, added])
            self.age = np.concatenate([self.age, np.zeros(n)])
        return len(fresh)

    def learn(self, beyond: Beyond) -> None:
        """More is known now of policies on more contexts: gaps are what they were, variances are corrected anew."""
        self.beyond = beyond
        self.added = np.array([beyond.added(policy) for policy in self.policies])

    def solve(self, *, floor: float, least_floor: float, precision: float) -> float:
        """Solve the pool to a relative gap of `precision`; returns a lower end for the class.

        floor: κ of p = (1 − κ)p₀ + κ/A, with which the pool is solved.
        least_floor: a smaller κ, with which the solution is evaluated once more, as it may prove more.
        """
        if np.isinf(self.urgency).any():
            return np.inf
        self.soft, discount = self._soften(floor)
        start = np.maximum(self.weights, 1e-12 * self.weights.max())
        solved = solve_weights(
            self._evaluating(self.soft), self.actions, self.urgency, tolerance=precision, start=start
        )
        self.evaluations += solved.evaluations
        self.weights = solved.weights
        hard, hard_discount = self._soften(least_floor)
        value = self._evaluating(hard).evaluate(self.actions, solved.weights * self.urgency)[0] * (1 - SUM_ROUNDING)
        return max(solved.lower * discount, value * hard_discount)

    def average(self, *, share: float) -> FloatArray:
        """Weights (pool,) between the last ones priced and the newest, of which they take the given share."""
        self._shed()
        share = share if self.averaged.sum() > 0 else 1.0
        averaged = share * self.weights + (1.0 - share) * self.averaged
        self.averaged = averaged / averaged.sum()
        self.age += 1
        return self.averaged

    def costs(self, weights: FloatArray) -> FloatArray:
        """Scores (N, A) whose sum over π's actions is V_π under the design of the weights."""
        return self.soft.costs(self.soft.propensities(self.actions, weights * self.urgency))

    def designer(self, weights: FloatArray, reference: Policy) -> Callable[[], Design]:
        """Makes the design of the weights (pool,), for any context, whatever becomes of the pool until then."""
        used = np.flatnonzero(weights > 0)
        support, kappa, floor = tuple(self.policies[i] for i in used), (weights * self.urgency)[used], self.soft.floor
        return lambda: Design(support, kappa, reference, floor=floor)

    def _evaluating(self, objective: Objective) -> Evaluates:
        """What the pool's weights are solved with."""
        return objective if self.beyond is None else _Corrected(objective, self.added)

    def _soften(self, share: float) -> tuple[Objective, float]:
        """The objective with at least the given floor, and what its optimum must be multiplied by."""
        floor = share / self.objective.n_actions
        if self.objective.floor >= floor:
            return self.objective, 1.0
        return replace(self.objective, floor=floor), 1.0 - share

    def _shed(self) -> None:
        """Forget policies of negligible weight once the pool is large; the class offers them again if they matter."""
        largest = np.clip(_MAX_TABLE_ENTRIES / len(self.contexts), _MIN_SHEDDING_POOL_SIZE, _MAX_SPARED_POOL_SIZE)
        if len(self.policies) <= largest:
            return
        matter = np.maximum(self.weights, self.averaged) > _NEGLIGIBLE_WEIGHT_SHARE * self.weights.max()
        keep = matter | (self.age < _ROUNDS_OF_GRACE)
        self.seen.difference_update(key for key, kept in zip(self.keys, keep, strict=True) if not kept)
        self.policies = [policy for policy, kept in zip(self.policies, keep, strict=True) if kept]
        self.keys = [key for key, kept in zip(self.keys, keep, strict=True) if kept]
        self.actions = np.ascontiguousarray(self.actions[keep])
        self.urgency, self.age = self.urgency[keep], self.age[keep]
        self.weights, self.averaged, self.added = self.weights[keep], self.averaged[keep], self.added[keep]
