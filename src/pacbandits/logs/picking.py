"""Which column of a table is what, as its reader says; and which cannot be features."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.logs.reading import ReadingOptions
from pacbandits.logs.times import order_of, ticks_of
from pacbandits.records.arrow import Columns, is_list, is_text, pa
from pacbandits.records.columns import SOMEWHERE, CellNames
from pacbandits.records.dates import check_dates
from pacbandits.records.identifiers import keeping

# What the columns of a log are called elsewhere.
NAMES_ELSEWHERE = {
    "action": ("a", "arm", "action_id", "treatment", "variant", "chosen_action", "item_id"),
    "reward": ("r", "y", "outcome", "click", "clicked", "conversion", "converted", "payoff", "revenue"),
    "propensity": ("pscore", "propensity_score", "p", "prob", "probability", "action_prob", "pi_b"),
}
# Columns that are known to come after the action, whatever the reward is.
_AFTERWARDS = {*NAMES_ELSEWHERE["reward"], "reward", "purchase", "purchased", "sales", "profit", "spend", "clicks"}
MIN_CLOCK_ROWS = 10  # that stand in the order of a date by no coincidence
_OWN_COLUMNS = ("action", "reward", "propensity")


class Picked(NamedTuple):
    """What is told of the rows of a table beside what is done and earned in them.

    order (n,): in which they occurred, if the time is told.
    units (n,): whose they are, as they stand, if that is told.
    remarks: what was left out.
    """

    order: IntArray | None
    units: IntArray | None
    remarks: list[str]


def pick_columns(
    table: Columns,
    options: ReadingOptions,
    *,
    unit: str | None = None,
    cells: CellNames = SOMEWHERE,
    known_clocks: Collection[str] | None = None,
) -> Picked:
    """Rename the columns of a table as the options say, and leave out those that cannot be features.

    unit: the column that tells whose row it is. cells: where its rows stand. known_clocks: the columns of dates in
    whose order the rows stand, where not all rows are here.
    """
    chosen = {name: given for name in _OWN_COLUMNS if (given := getattr(options, name)) is not None}
    for given in (*chosen.values(), *(name for name in (options.time, unit) if name is not None)):
        _check_there(given, table)
    remarks: list[str] = []
    for name in _OWN_COLUMNS:
        if name in table and name in chosen and chosen[name] != name:
            if name in chosen.values():
                continue  # it is something else, and renamed below
            del table[name]
            remarks.append(f"the column '{name}' was left out, as '{plain(chosen[name])}' is the {name}")
    moved = {name: table.pop(given) for name, given in chosen.items()}
    order: IntArray | None = None
    if options.time is not None:
        order, assumed = order_of(table[options.time], options.time, cells, form=options.time_format)
        remarks += assumed
    if options.time is not None and options.time not in (*(options.features or ()), *options.keep):
        del table[options.time]
    units = None if unit is None else _unit_codes(table.pop(unit), unit, cells)
    features = _features(table, options)
    if options.features is None and options.reward is not None:
        after = [name for name in features if name.lower() in _AFTERWARDS and name not in options.keep]
        features = [name for name in features if name not in after]
        remarks += [_left_out(name) for name in after]
    if options.features is None:
        found = (
            [name for name in features if _tells_when(table[name])]
            if known_clocks is None
            else [name for name in features if name in known_clocks]
        )
        clocks = [name for name in found if name not in options.keep]
        features = [name for name in features if name not in clocks]
        remarks += [_left_out_clock(name) for name in clocks]
    for name in [name for name in table if name not in features and not is_own(name)]:
        del table[name]
    for name in features:
        if is_text(table[name].type):
            check_dates(table[name], name, cells)
    table.update(moved)
    return Picked(order, units, remarks)


def _unit_codes(column: Any, name: str, cells: CellNames) -> IntArray:
    """Codes (n,) of what a column holds, whatever that is; cells: where its rows stand."""
    if is_list(column.type):
        raise InputError(f"column '{plain(name)}' holds lists; what tells whose row it is must be text or numbers")
    coded = column if is_text(column.type) else column.dictionary_encode()
    missing = coded.indices.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        missing = missing | np.isnan(column.to_numpy(zero_copy_only=False))
    if missing.any():
        row, count = int(missing.argmax()), int(missing.sum())
        others = "" if count == 1 else f", as do {count - 1:,} more"
        raise InputError(
            f"{cells.row(row)} has no value in column '{plain(name)}'{others}; whose row it is must be told of "
            "each: fill or drop those"
        )
    return np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _features(table: Columns, options: ReadingOptions) -> list[str]:
    """The columns that are features by what the options say."""
    left = [name for name in table if not is_own(name)]
    uses = {getattr(options, use): use for use in (*_OWN_COLUMNS, "unit") if getattr(options, use) is not None}
    for name in (*(options.features or ()), *options.keep):
        if name in uses and name not in left:
            why = ", which comes after the action" if uses[name] == "reward" else ""
            raise InputError(f"column '{plain(name)}' is the {uses[name]}{why}, and cannot be a feature; leave it out")
    for name in (*(options.features or ()), *options.without):
        _check_there(name, left)
    kept = left if options.features is None else [name for name in left if name in set(options.features)]
    return [name for name in kept if name not in set(options.without)]


def is_own(name: str) -> bool:
    """Whether a column of this name is one of a log's own."""
    own = ("action", "reward", "propensities", "least_propensity", "round", "repeats", "context_id", "context_weight")
    return name in own or name.startswith("propensity")


def _check_there(name: str, columns: Iterable[str]) -> None:
    known = list(columns)
    if name not in known:
        raise InputError(f"there is no column '{plain(name)}'{nearest(name, known)}")


def _tells_when(column: Any) -> bool:
    """Whether a column of dates or times never falls from row to row: it tells when rows occurred, and of no person."""
    if not pa.types.is_temporal(column.type) or column.null_count or len(column) < MIN_CLOCK_ROWS:
        return False
    ticks = ticks_of(column)
    return bool((ticks[1:] >= ticks[:-1]).all()) and column[0] != column[-1]


def _left_out_clock(name: str) -> str:
    return (
        f"the column '{plain(name)}' was left out, as it tells when rows occurred: they stand in its order; say so "
        f"(time), or, if decisions may go by it, {keeping(name)}"
    )


def _left_out(name: str) -> str:
    return (
        f"the column '{plain(name)}' was left out, as its name is that of an outcome, which comes after the action; if "
        f"it was known before, {keeping(name)}"
    )
