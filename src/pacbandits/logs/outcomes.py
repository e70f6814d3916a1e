"""Rewards in their own units, brought into [0, 1]; those beyond what they can be are refused, or clipped if asked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, floats, floats_or_missing
from pacbandits.errors import InputError, count_of, plain
from pacbandits.logs.whole import Whole
from pacbandits.records.arrow import Columns, is_text, pa
from pacbandits.records.beside import UNIT_RANGE, check_range
from pacbandits.records.columns import CellNames, check_present, pop_floats, pop_numbers_or_missing, spells_number

CLIPPED = "the reward is clipped: "  # how the remark on that begins
# What text says of an outcome that happens or not.
_TRUTHS = tuple({yes: 1.0, no: 0.0} for yes, no in (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f")))
TAIL_SHARES = (0.999, 0.99)  # of rows, of whose rewards the largest is told where some are too large


def pop_rewards(columns: Columns, cells: CellNames, *, late: bool = False) -> tuple[FloatArray, tuple[str, ...]]:
    """Take rewards (n,) out of the columns of a table, and say what yes and no count for where they are such.

    late: whether some may not be in yet, which are NaN.
    """
    if late:
        return pop_numbers_or_missing(columns, "reward", cells), ()
    column: Any = columns["reward"]
    if is_text(column.type):
        labels: list[str] = column.dictionary.to_pylist()
        values = next((each for each in _TRUTHS if {label.strip().lower() for label in labels} <= each.keys()), None)
        if values is None and not any(map(spells_number, labels)):
            check_present(column, "reward", cells)
            raise InputError(
                f"{cells.column('reward')} holds text such as '{plain(labels[0])}', and a reward is a number, or yes "
                "and no; name another column, --reward NAME, or write 1 for what is good and 0 for what is not"
            )
        if values is not None:
            numbers: Any = pa.array([values[label.strip().lower()] for label in labels])
            columns["reward"] = numbers.take(column.indices)
            yes, no = values
            said = f"{cells.column('reward')} counts '{yes}' as 1 and '{no}' as 0"
            rewards = pop_floats(columns, "reward", cells)
            assert rewards is not None
            return rewards, (said,)
    rewards = pop_floats(columns, "reward", cells)
    assert rewards is not None
    return rewards, ()


def unit_rewards(
    rewards: ArrayLike,
    *,
    n: int,
    reward_range: tuple[float, float] | None,
    clip: bool,
    cells: CellNames,
    late: bool = False,
    whole: Whole | None = None,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Rewards (n,) in [0, 1], and what to say of those that were clipped.

    clip: whether those beyond the range are cut to it. cells: where they stand. late: whether some may not be in yet.
    whole: what is known of all, where these are some of them.
    """
    given = (floats_or_missing if late else floats)(rewards, name="rewards", shape=(n,))
    low, high = check_range(reward_range or UNIT_RANGE)
    below, above = given < low, given > high
    if clip:
        name = cells.names.get("reward", "reward")
        cut = (np.clip(given, low, high) - low) / (high - low)
        counts = (int(below.sum()), int(above.sum())) if whole is None else whole.clipped
        return cut, (_words(plain(name), low, high, *counts, n if whole is None else whole.rows),)
    if below.any() or above.any():
        _refuse(given, int((below | above).argmax()), low, high, stated=reward_range is not None, cells=cells)
    return (given if reward_range is None else (given - low) / (high - low)), ()


def _words(name: str, low: float, high: float, below: int, above: int, n: int) -> str:
    """What a clipped reward is, and how many rows that changed."""
    least = f"max({low:g}, {name})" if below else name
    what = f"min({least}, {high:g})" if above or not below else least
    many = f"{below + above:,} of {count_of(n, 'row')} {'was' if below + above == 1 else 'were'} clipped"
    return f"{CLIPPED}it is {what} and not {name} itself, in all that is said here; {many}"


def _refuse(given: FloatArray, row: int, low: float, high: float, *, stated: bool, cells: CellNames) -> None:
    """Raise the sentence for a reward that lies beyond the range, with what the data show and both remedies."""
    wrong, given = given[row], given[~np.isnan(given)]
    least, most = math.floor(given.min()), math.ceil(given.max())
    name, seen = plain(cells.names.get("reward", "reward")), f"they go from {given.min():.6g}"
    seen += f" to {given.max():.6g}"
    stating, clipping = "with --reward-range and two numbers", "with --reward-range and --clip"
    if least < most:
        stating = f"as in --reward-range {least} {most}"
    tails = [(share, float(np.quantile(given, share, method="inverted_cdf"))) for share in TAIL_SHARES]
    if below := [(share, tail) for share, tail in tails if tail < given.max()]:
        share, tail = below[0]
        seen += f", {100 * share:g} % of them up to {tail:.6g}"
        if math.ceil(tail) > min(least, 0):
            clipping = f"as in --reward-range {min(least, 0)} {math.ceil(tail)} --clip"
    found = f"the {name} of {cells.row(row)} is {shortest(wrong)}"
    raise InputError(
        f"{found}, but rewards must lie in [{low:g}, {high:g}]; {seen}: "
        f"state the least and the largest that they can be, {stating}; or clip what is beyond, "
        f"{'with --clip' if stated else clipping}, which makes another reward of it"
    )


def shortest(value: float) -> str:
    """A number with as many digits as tell it from all others, and none for nothing."""
    return f"{float(value)!r}".removesuffix(".0")
