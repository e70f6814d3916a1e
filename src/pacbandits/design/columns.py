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
    here, (design, upper) = task.possible, known or (task.uniform_design(), np.inf)
    make: Callable[[], Design] | None = None  # makes the design of `upper`, where that is of the pool
    lower, calls, ends = 0.0, 0, list[tuple[float, float]]()

    def price(weights: FloatArray) -> DesignPrice:
        """Price the class at weights (pool,) of the pool."""
        nonlocal calls
        found = pricing(here.contexts, pool.costs(weights), here.gaps, task.scale)
        calls += found.oracle_calls
        return found

    pool.add(seeds)
    precision, fresh = _FIRST_PRECISION, 1
    note = f"stopped after {max_rounds} rounds of column generation"
    for turn in range(max_rounds):
        floor = float(np.clip(relative_gap(lower, upper) / 5, tolerance / 10, _MAX_FLOOR_SHARE))
        lower = max(lower, pool.solve(floor=floor, least_floor=min(tolerance / 10, 0.5), precision=precision))
        if lower == np.inf:
            design, make, upper = task.uniform_design(), None, np.inf
            note = "infinite: a policy ties with the reference"
            break
        weights = pool.average(share=_NEWEST_WEIGHTS_SHARE if fresh else 1.0)
        worst = price(weights)
        if worst.upper < upper:
            make, upper = pool.designer(weights, task.reference), worst.upper
        gap = relative_gap(lower, upper)
        if progress is not None:
            words = f"between {lower:.5g} and {upper:.5g}, a pool of {len(pool.policies)}"
            progress(f"round {turn + 1}: {words}")
        if gap <= tolerance:
            note = ""
            for share in _PRUNED_WEIGHT_SHARES:  # fewer policies, if they keep the promise
                fewer = np.where(weights > share * weights.max(), weights, 0.0)
                pruned = price(fewer).upper
                if relative_gap(lower, pruned) <= tolerance:
                    make, upper = pool.designer(fewer, task.reference), pruned
                    break
            break
        ends.append((lower, upper))
        if len(ends) > _MAX_ROUNDS_WITHOUT_PROGRESS:
            low, high = ends[-1 - _MAX_ROUNDS_WITHOUT_PROGRESS]
            if lower <= low * (1 + _MIN_PROGRESS_SHARE) and upper >= high * (1 - _MIN_PROGRESS_SHARE):
                note = f"no progress in the last {_MAX_ROUNDS_WITHOUT_PROGRESS} rounds of column generation"
                break
        fresh = pool.add(worst.policies)
        if fresh:
            precision = max(gap, tolerance) / 2.5 if upper < np.inf else _FIRST_PRECISION
        elif precision > tolerance / 1000:
            precision /= 10  # nothing new: the pool itself must be solved more precisely
        else:
            note = "the oracle finds no policy that would narrow the bracket further"
            break
    return Solution(design if make is None else make(), lower, upper, tolerance, pool.evaluations, calls, note=note)
