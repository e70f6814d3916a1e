"""Column generation: the ratio form over classes that only an oracle can search.

Solve the ratio form on a small pool, ask the class which policies that design serves worst, add them, repeat. The
pool's value is a lower end for the class (fewer policies, smaller maximum), the pricing's bound an upper end. Three
things make it converge in tens of rounds where the plain method takes hundreds:

- **A floor.** The pool's design is solved with a probability floor κ/A even where the caller asks for none, so that no
  policy outside the pool can look infinitely bad; κ falls with the gap. Both ends stay rigorous: `p = (1 − κ)p₀ + κ/A`
  inflates no variance by more than 1/(1 − κ), so the optimum without the floor is at least 1 − κ times the one with it,
  and the upper end belongs to the design that is returned.
- **Averaging.** The class is priced not at the pool's newest weights but halfway between them and the last ones priced.
- **Many columns.** Each round adds dozens of badly served policies from all over the class, not the worst alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.design.enumerated import relative_gap, solve_weights
from pacbandits.design.objective import Objective
from pacbandits.design.pricing import Pricing
from pacbandits.design.scale import Scale
from pacbandits.design.solution import Solution
from pacbandits.design.task import DesignTask, Possible
from pacbandits.policies.base import compact
from pacbandits.progress import Progress
from pacbandits.records import Design, Policy

_AVERAGING = 0.5
_LARGEST_FLOOR = 0.3  # as a share of uniform exploration
# A pool beyond this size (smaller when contexts are many) sheds policies of negligible weight, unless they are as new
# as this many rounds.
_LARGEST_POOL = (600, 3000)
_LARGEST_TABLE = 2_000_000
_NEW = 3
_PATIENCE = 12


def solve_columns(
    task: DesignTask,
    *,
    pricing: Pricing,
    seeds: tuple[Policy, ...],
    known: tuple[Design, float] | None = None,
    tolerance: float = 0.01,
    max_rounds: int = 200,
    progress: Progress | None = None,
) -> Solution:
    """Solve the ratio form over a class known through `pricing`, to a relative gap of `tolerance`.

    seeds: policies to begin with; together they had better take
    every action somewhere. known: a design, and an upper end that it is known to attain, to improve on.
    """
    here = task.possible
    pool = _Pool(here, scale=task.scale)
    pool.add(seeds)
    design, upper = known or (task.uniform_design(), np.inf)
    lower = 0.0
    calls = 0
    precision = 0.02
    fresh = 1
    note = f"stopped after {max_rounds} rounds of column generation"
    progressed = _Progressed()
    for turn in range(max_rounds):
        gap = relative_gap(lower, upper)
        floor = float(np.clip(gap / 5, tolerance / 10, _LARGEST_FLOOR))
        lower = max(lower, pool.solve(floor=floor, least_floor=min(tolerance / 10, 0.5), precision=precision))
        if lower == np.inf:
            design, upper = task.uniform_design(), np.inf
            note = "infinite: a policy ties with the reference"
            break
        weights = pool.average(share=_AVERAGING if fresh else 1.0)
        price = pricing(here.contexts, pool.costs(weights), here.gaps, task.scale)
        calls += price.oracle_calls
        if price.upper < upper:
            upper = price.upper
            design = pool.design(weights, task.reference)
        if progress is not None:
            progress(
                f"round {turn + 1}: between {lower:.5g} and {upper:.5g}, {len(pool.policies)} policies in the pool"
            )
        gap = relative_gap(lower, upper)
        if gap <= tolerance:
            note = ""
            for cut in (1e-2, 1e-3, 1e-4):  # fewer policies, if they keep the promise
                fewer = np.where(weights > cut * weights.max(), weights, 0.0)
                price = pricing(here.contexts, pool.costs(fewer), here.gaps, task.scale)
                calls += price.oracle_calls
                if relative_gap(lower, price.upper) <= tolerance:
                    design, upper = pool.design(fewer, task.reference), price.upper
                    break
            break
        if progressed.stalled(lower, upper):
            note = f"no progress in the last {_PATIENCE} rounds of column generation"
            break
        fresh = pool.add(price.policies)
        if fresh:
            precision = max(gap, tolerance) / 2.5 if upper < np.inf else 0.02
        elif precision > tolerance / 1000:
            precision /= 10  # nothing new: the pool itself must be solved more precisely
        else:
            note = "the oracle finds no policy that would narrow the bracket further"
            break
    return Solution(design, lower, upper, tolerance, iterations=pool.evaluations, oracle_calls=calls, note=note)


class _Progressed:
    """Whether either end of the bracket still moves."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []

    def stalled(self, lower: float, upper: float) -> bool:
        self.ends.append((lower, upper))
        if len(self.ends) <= _PATIENCE:
            return False
        low, high = self.ends[-1 - _PATIENCE]
        return lower <= low * (1 + 1e-4) and upper >= high * (1 - 1e-4)


class _Pool:
    """The policies found so far, their table of actions, and two weightings: the newest and the averaged one."""

    def __init__(self, here: Possible, *, scale: Scale) -> None:
        objective = here.objective
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
        self.age = np.empty(0)
        self.evaluations = 0

    def add(self, policies: tuple[Policy, ...]) -> int:
        """Add those that differ from the reference and from the pool; returns how many."""
        rows = np.arange(len(self.contexts))
        fresh: list[np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]] = []
        urgency: list[float] = []
        for policy in policies:
            actions = policy(self.contexts)
            row = actions.astype(self.actions.dtype)
            key = row.tobytes()
            if key in self.seen:
                continue
            self.seen.add(key)
            gap = self.gaps[rows, actions].sum(keepdims=True)
            with np.errstate(divide="ignore"):
                urgency.append(float(1.0 / self.scale(gap)[0] ** 2))
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
            self.age = np.concatenate([self.age, np.zeros(n)])
        return len(fresh)

    def solve(self, *, floor: float, least_floor: float, precision: float) -> float:
        """Solve the pool to a relative gap of `precision`; returns a lower end for the class.

        floor, least_floor: as shares of uniform exploration, κ in p = (1 − κ)p₀ + κ/A.
        """
        if np.isinf(self.urgency).any():
            return np.inf
        self.soft, discount = self._soften(floor)
        start = np.maximum(self.weights, 1e-12 * self.weights.max())
        solved = solve_weights(self.soft, self.actions, self.urgency, tolerance=precision, start=start)
        self.evaluations += solved.evaluations
        self.weights = solved.weights
        hard, hard_discount = self._soften(least_floor)
        value = hard.evaluate(self.actions, solved.weights * self.urgency)[0] * (1 - 1e-12)
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

    def design(self, weights: FloatArray, reference: Policy) -> Design:
        used = np.flatnonzero(weights > 0)
        support = tuple(self.policies[i] for i in used)
        return Design(support, (weights * self.urgency)[used], reference, floor=self.soft.floor)

    def _soften(self, share: float) -> tuple[Objective, float]:
        """The objective with at least the given floor, and what its optimum must be multiplied by."""
        floor = share / self.objective.n_actions
        if self.objective.floor >= floor:
            return self.objective, 1.0
        return replace(self.objective, floor=floor), 1.0 - share

    def _shed(self) -> None:
        """Forget policies of negligible weight once the pool is large; the class offers them again if they matter."""
        if len(self.policies) <= np.clip(_LARGEST_TABLE / len(self.contexts), *_LARGEST_POOL):
            return
        matter = np.maximum(self.weights, self.averaged) > 1e-4 * self.weights.max()
        keep = matter | (self.age < _NEW)
        self.seen.difference_update(key for key, kept in zip(self.keys, keep, strict=True) if not kept)
        self.policies = [policy for policy, kept in zip(self.policies, keep, strict=True) if kept]
        self.keys = [key for key, kept in zip(self.keys, keep, strict=True) if kept]
        self.actions = np.ascontiguousarray(self.actions[keep])
        self.urgency, self.age = self.urgency[keep], self.age[keep]
        self.weights, self.averaged = self.weights[keep], self.averaged[keep]
