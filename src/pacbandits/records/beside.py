"""Metadata of a log: the range of its rewards, its columns of dates, and weights, which play no part."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import floats
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.records.arrow import Columns
from pacbandits.records.columns import pop_floats
from pacbandits.records.contexts import WEIGHT_COLUMN
from pacbandits.records.files import MAX_COLUMNS

UNIT_RANGE = (0.0, 1.0)  # of rewards
WEIGHTS_REMARK = f"the column '{WEIGHT_COLUMN}' plays no part: the rows of a log are draws, which all count alike"
_WEIGHT_ROUNDING = 1e-9  # relative: how far weights that are meant to be equal may differ


def pop_weights(columns: Columns) -> tuple[str, ...]:
    """Take weights of contexts out of the columns of a log, and say that they play no part where they differ."""
    weights = pop_floats(columns, WEIGHT_COLUMN)
    if weights is None:
        return ()
    given = floats(weights, name="context_weights", shape=(None,))
    if given.min() < 0:
        raise InputError(f"context_weights must not be negative, but entry {int(given.argmin())} is {given.min()}")
    return (WEIGHTS_REMARK,) if np.ptp(given) > _WEIGHT_ROUNDING * given.max() else ()


def stored_dates(about: Fields) -> tuple[str, ...]:
    """The columns of dates that features were made of before a file was written, as it says."""
    return about.texts("dates", most=MAX_COLUMNS) if "dates" in about else ()


def check_range(given: object) -> tuple[float, float]:
    """The least and the largest that a reward can be, as two numbers."""
    ends = floats(cast(ArrayLike, given), name="--reward-range", shape=(2,))
    low, high = float(ends[0]), float(ends[1])
    if not (low < high and high - low < math.inf):
        raise InputError(
            f"a reward range goes from a number to a larger one, got {low:g} to {high:g}; the smaller first"
        )
    return low, high
