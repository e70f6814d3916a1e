"""Tables of random policies without repetition."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.errors import InputError

MOST_DRAWS = 50  # each of as many rows as are wanted: enough to find them all even when no others exist


def distinct_rows(draw: Callable[[int], IntArray], *, count: int, choices: int, besides: IntArray) -> IntArray:
    """`count` distinct rows (count, N), in order of appearance, from `draw(n)` which makes n random ones.

    choices: among how many actions `draw` chooses in each context. besides (k, N): rows that come first.
    """
    n = besides.shape[1]
    rows = besides
    if math.log(count) <= n * math.log(choices) + 1e-9:
        for _ in range(MOST_DRAWS):
            rows = first_of_each(rows)
            if len(rows) >= count:
                return rows[:count]
            rows = np.concatenate([rows, draw(count)])
    raise InputError(
        f"there are not {count} distinct policies that choose among {choices} actions on {n} contexts; "
        "ask for fewer policies or more contexts"
    )


def first_of_each(rows: IntArray) -> IntArray:
    """The rows without repetition, each where it first appeared."""
    return rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]
