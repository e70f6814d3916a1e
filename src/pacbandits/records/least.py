"""Minimum propensities, as declared by logs that know the propensity of the played action alone."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import ROW, InputError, RowError, count_of

PROPENSITY_SUM_ROUNDING = 1e-6  # how far the propensities of a row may sum from 1


def check_least(least: FloatArray, propensities: FloatArray, actions: IntArray) -> None:
    """Raise unless the log's propensities can have been at least these, and hold them but for the played action."""
    rows = np.arange(len(actions))
    if least.min() < 0:
        raise InputError(f"least propensities must not be negative, got {least.min()}")
    others = propensities.copy()
    others[rows, actions] = least[rows, actions]
    if not np.array_equal(others, least):
        raise InputError("propensities must be the least ones, but for those of played actions")
    played = propensities[rows, actions]
    below = least[rows, actions] - played
    if below.max() > 0:
        row = int(below.argmax())
        raise RowError(
            f"{ROW} played action {actions[row]} with propensity {played[row]}, below the least propensity "
            f"{least[row, actions[row]]} that was declared; declare a smaller one",
            row,
        )
    totals = propensities.sum(axis=1)
    if totals.max() > 1.0 + PROPENSITY_SUM_ROUNDING:
        row = int(totals.argmax())
        raise RowError(
            f"{ROW} played action {actions[row]} with propensity {played[row]:.6g}, which leaves less for the "
            f"{count_of(propensities.shape[1] - 1, 'other')} than the least propensity that was declared; declare a "
            "smaller one",
            row,
        )


def declared(least: FloatArray) -> tuple[str, ...]:
    """What was declared, in words."""
    low, high = float(least.min()), float(least.max())
    if high == 0:
        return ()
    if low == high:
        return (f"every action was always played with probability {low:g} or more",)
    return (
        f"every action was played with at least the least propensity that its row declares ({low:g} to {high:g}), "
        "and that was known before the action was drawn",
    )
