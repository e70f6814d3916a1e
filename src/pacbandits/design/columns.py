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

from collections.abc import Callable

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.design.enumerated import relative_gap
from pacbandits.design.pool import Pool
from pacbandits.design.pricing import DesignPrice, Pricing
from pacbandits.design.solution import Solution
from pacbandits.design.task import DesignTask
from pacbandits.progress import Progress
from pacbandits.records import Design, Policy

# What the newest weights count for where the class is priced; the last ones priced count for the rest.
_NEWEST_WEIGHTS_SHARE = 0.5
# The largest κ of the floor κ/A.
_MAX_FLOOR_SHARE = 0.3
# The relative gap to which the pool is solved at first.
_FIRST_PRECISION = 0.02
# Column generation ends when neither end of the bracket has moved by this share of itself in so many rounds.
_MAX_ROUNDS_WITHOUT_PROGRESS = 12
_MIN_PROGRESS_SHARE = 1e-4
# In the end, weights below such a share of the largest are left out: the largest share that keeps the bracket.
_PRUNED_WEIGHT_SHARES = (1e-2, 1e-3, 1e-4)


def solve_columns(
    task: DesignTask,
    *,
    pricing: Pricing,
    seeds: tuple[Policy, ...],
    known: tuple[Design, float] | None = None,
    pool: Pool | None = None,
    tolerance: float = 0.01,
    max_rounds: int = 200,
    progress: Progress | None = None,
) -> Solution:
    """Solve the ratio form over a class known through `pricing`, to a relative gap of `tolerance`.

    seeds: policies to begin with; together they had better take every action somewhere.
    known: a design, and an upper end that it is known to attain, to improve on.
    pool: to go on with; an empty one if none is given.
    """
    pool = Pool(task.possible, scale=task.scale) if pool is None else pool
    search = _ColumnSearch(task, pricing, known or (task.uniform_design(), np.inf), pool)
    pool.add(seeds)
    precision, fresh = _FIRST_PRECISION, 1
    note = f"stopped after {max_rounds} rounds of column generation"
    for turn in range(max_rounds):
        floor = float(np.clip(search.gap / 5, tolerance / 10, _MAX_FLOOR_SHARE))
        search.raise_lower(pool.solve(floor=floor, least_floor=min(tolerance / 10, 0.5), precision=precision))
        if search.lower == np.inf:
            search.make, search.upper = task.uniform_design, np.inf
            note = "infinite: a policy ties with the reference"
            break
        weights = pool.average(share=_NEWEST_WEIGHTS_SHARE if fresh else 1.0)
        price = search.price(weights)
        if progress is not None:
            words = f"between {search.lower:.5g} and {search.upper:.5g}, a pool of {len(pool.policies)}"
            progress(f"round {turn + 1}: {words}")
        if search.gap <= tolerance:
            search.prune(weights, tolerance=tolerance)
            note = ""
            break
        if search.stalled():
            note = f"no progress in the last {_MAX_ROUNDS_WITHOUT_PROGRESS} rounds of column generation"
            break
        fresh = pool.add(price.policies)
        if fresh:
            precision = max(search.gap, tolerance) / 2.5 if search.upper < np.inf else _FIRST_PRECISION
        elif precision > tolerance / 1000:
            precision /= 10  # nothing new: the pool itself must be solved more precisely
        else:
            note = "the oracle finds no policy that would narrow the bracket further"
            break
    return search.solution(tolerance=tolerance, note=note)


class _ColumnSearch:
    """The pool, the bracket proven so far, and the design that attains its upper end."""

    def __init__(self, task: DesignTask, pricing: Pricing, known: tuple[Design, float], pool: Pool) -> None:
        self.task = task
        self.pricing = pricing
        self.pool = pool
        known_design, self.upper = known
        self.make: Callable[[], Design] = lambda: known_design
        self.lower = 0.0
        self.calls = 0
        self.ends: list[tuple[float, float]] = []

    @property
    def gap(self) -> float:
        return relative_gap(self.lower, self.upper)

    def raise_lower(self, lower: float) -> None:
        self.lower = max(self.lower, lower)

    def price(self, weights: FloatArray) -> DesignPrice:
        """Price the class at weights (pool,) of the pool; their design is kept when none was better."""
        price = self._ask(weights)
        if price.upper < self.upper:
            self._keep(weights, price.upper)
        return price

    def prune(self, weights: FloatArray, *, tolerance: float) -> None:
        """Fewer policies, if they keep the promise."""
        for share in _PRUNED_WEIGHT_SHARES:
            fewer = np.where(weights > share * weights.max(), weights, 0.0)
            upper = self._ask(fewer).upper
            if relative_gap(self.lower, upper) <= tolerance:
                self._keep(fewer, upper)
                return

    def stalled(self) -> bool:
        """Whether neither end of the bracket has moved for some rounds; to be asked once a round."""
        self.ends.append((self.lower, self.upper))
        if len(self.ends) <= _MAX_ROUNDS_WITHOUT_PROGRESS:
            return False
        low, high = self.ends[-1 - _MAX_ROUNDS_WITHOUT_PROGRESS]
        return self.lower <= low * (1 + _MIN_PROGRESS_SHARE) and self.upper >= high * (1 - _MIN_PROGRESS_SHARE)

    def solution(self, *, tolerance: float, note: str) -> Solution:
        evaluations = self.pool.evaluations
        return Solution(self.make(), self.lower, self.upper, tolerance, evaluations, self.calls, note=note)

    def _keep(self, weights: FloatArray, upper: float) -> None:
        """The design of these weights is the best so far; it is made when no other is better."""
        self.make, self.upper = self.pool.designer(weights, self.task.reference), upper

    def _ask(self, weights: FloatArray) -> DesignPrice:
        here = self.task.possible
        price = self.pricing(here.contexts, self.pool.costs(weights), here.gaps, self.task.scale)
        self.calls += price.oracle_calls
        return price
