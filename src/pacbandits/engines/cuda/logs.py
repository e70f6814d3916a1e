"""Rows of a log on the card, as all questions about it share them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.engines.base import ROWS_PER_BLOCK
from pacbandits.engines.cuda.stretch import Parts, Wanted
from pacbandits.errors import InputError
from pacbandits.records import Log

ANY = "any"  # owner of what is made of rows alone


def wanted_log() -> Wanted:
    """What was played, what it earned, how often and with what propensity: nothing but what the rows say."""
    return Wanted("log", ANY, _log_parts, _with_common_split)


def wanted_ids(*, below: int) -> Wanted:
    """The ids of contexts, of which there are so many."""
    return Wanted("ids", below, lambda _, block: {"ids": block.contexts.require_ids(below=below)})


def first_row(number: int) -> int:
    """The number of the first row of a block."""
    return number * ROWS_PER_BLOCK


def _log_parts(_: int, block: Log) -> Parts:
    if not ((block.rewards >= 0) & (block.rewards <= 1)).all():
        low, high = block.rewards.min(), block.rewards.max()
        raise InputError(f"rewards must lie in [0, 1], but they range from {low:.6g} to {high:.6g}; rescale them")
    return {
        "actions": block.actions.astype(np.uint8),
        "rewards": block.rewards,
        "repeats": block.weights,
        "played": block.played_propensities,
        "propensities": block.bounds,
    }


def _with_common_split(made: dict[str, Any]) -> dict[str, Any]:
    """One row of propensities in the place of all, where all rows have the same."""
    given = made["propensities"]
    if len(given) > 1 and bool((given == given[:1]).all()):
        return made | {"propensities": given[:1].copy()}
    return made
