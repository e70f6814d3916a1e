"""A notice on rows of a table that repeat earlier ones in every column. No certificate depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.errors import count_of
from pacbandits.records.columns import CellNames, Columns, is_list, is_number, is_temporal, is_text, pa, pc

_MIN_DISTINCT_SHARE = 0.5  # of a column, for rows equal in all columns to be no coincidence
_CHANCE_FACTOR = 2.0  # columns that depend on each other agree more often by chance than independent ones


def notice_repeated_rows(table: Columns, cells: CellNames) -> tuple[str, ...]:
    """Return a notice on rows that repeat an earlier one in every column.

    With few features, rows are equal by chance: there is no notice unless some column has mostly distinct values.
    """
    flat = {name: column for name, column in table.items() if not is_list(column.type)}
    flat = {name: column for name, column in flat.items() if not pa.types.is_null(column.type)}
    n = len(next(iter(flat.values()))) if flat else 0
    if n < 2 or not all(is_text(c.type) or is_number(c.type) or is_temporal(c.type) for c in flat.values()):
        return ()
    counted = {name: _count_distinct(column) for name, column in flat.items()}
    telling = max(counted, key=lambda name: counted[name])
    if counted[telling] == n or counted[telling] < _MIN_DISTINCT_SHARE * n:
        return ()
    codes = _label_codes(flat[telling])
    rows = np.flatnonzero((np.bincount(codes)[codes] > 1) & (codes > 0))  # missing values identify nobody
    agreeing = np.column_stack([_label_codes(column)[rows] for column in flat.values()])
    first, which = np.unique(agreeing, axis=0, return_index=True, return_inverse=True)[1:]
    again: BoolArray = first[which.reshape(-1)] != np.arange(len(rows))
    count, rest = int(again.sum()), [column for name, column in flat.items() if name != telling]
    chance = float(np.prod([_chance_to_agree(_label_codes(column)) for column in rest]))
    expected = _CHANCE_FACTOR * (len(rows) - len(np.unique(codes[rows]))) * chance
    if count <= expected + 2 * expected**0.5:
        return ()
    are = "repeats an earlier row" if count == 1 else "repeat earlier rows"
    return (
        f"{count_of(count, 'row')} {are} in every column, the first in {cells.row(int(rows[again.argmax()]))}; "
        "each counts as another person: remove those that are copies",
    )


def _chance_to_agree(codes: IntArray) -> float:
    """Return the probability that two rows, drawn at random, have the same value of a column."""
    shares = np.bincount(codes) / len(codes)
    return float(shares @ shares)


def _count_distinct(column: Any) -> int:
    return int(pc.count_distinct(column.indices if is_text(column.type) else column, mode="only_valid").as_py())


def _label_codes(column: Any) -> IntArray:
    """Return integers (n,) from 0 that are equal where values are."""
    coded = column if is_text(column.type) else column.dictionary_encode()
    return np.asarray(coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)) + 1
