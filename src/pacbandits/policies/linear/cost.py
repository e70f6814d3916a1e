"""What a search for linear policies takes: the rows it climbs on, or the policies and rows it looks at.

The speeds were measured on one core of 2024 (benchmarks/estimates.py measures them again).
"""

from __future__ import annotations

import numpy as np

from pacbandits.compiled import cores
from pacbandits.policies.base import SearchCost, compact
from pacbandits.policies.features import FeatureMap
from pacbandits.policies.features.maps import BlockMap
from pacbandits.policies.linear.climb import climbing_work
from pacbandits.policies.linear.search import kicks_for, sampled_rows

SECONDS_PER_SEARCH = 0.05
SECONDS_PER_CLIMB_STEP = 1.2e-7  # of a row and coefficient, from a start or a kick to where that ends
SECONDS_PER_POLISH_STEP = 2e-7  # of a row and coefficient, all starts together
CLIMBED_STARTS = 8
SECONDS_PER_ACTION_LOOKED_UP = 1e-9
SECONDS_PER_SCORE = 2.5e-9  # of an action, where a policy's choice on a row is worked out
SECONDS_PER_TURN = 4e-8  # of a row and action, where two coefficients turn around
BYTES_PER_NUMBER = 8.0


def search_cost(map: FeatureMap, n_rows: int) -> SearchCost:
    """The local search from many starts."""
    in_blocks = isinstance(map, BlockMap) and map.in_blocks
    work = climbing_work(map.dimension, n_actions=map.n_actions, in_blocks=in_blocks)
    sampled = min(n_rows, sampled_rows(work))
    climbs = sampled * work * (CLIMBED_STARTS + kicks_for(sampled, work)) * SECONDS_PER_CLIMB_STEP
    polish = n_rows * work * SECONDS_PER_POLISH_STEP if n_rows > sampled else 0.0
    columns = 2.0 * map.dimension / max(map.n_actions - 1, 1) if in_blocks else 2.0 * map.dimension * map.n_actions
    numbers = n_rows * (columns + 3.0 * map.n_actions)
    return SearchCost(SECONDS_PER_SEARCH + (climbs + polish) / cores(), BYTES_PER_NUMBER * numbers)


def sweep_cost(n_policies: int, map: FeatureMap, n_rows: int, *, most_kept: int) -> SearchCost:
    """A look at every policy on every row; up to so many actions are worked out once and kept."""
    entries = float(n_policies) * n_rows
    kept = entries <= most_kept
    each = SECONDS_PER_ACTION_LOOKED_UP + (0.0 if kept else map.n_actions * SECONDS_PER_SCORE)
    table = min(entries, most_kept) * np.dtype(compact(map.n_actions)).itemsize
    return SearchCost(
        entries * each / cores(), table + BYTES_PER_NUMBER * n_rows * map.n_actions * (map.dimension + 2.0)
    )


def turning_cost(map: FeatureMap, n_rows: int) -> SearchCost:
    """A look at every direction of two coefficients."""
    rows = n_rows * map.n_actions
    return SearchCost(rows * SECONDS_PER_TURN, BYTES_PER_NUMBER * rows * 6.0)
