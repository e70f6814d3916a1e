"""What the reader of a table should know before its answer: rows that come twice, and columns that cannot help.

No certificate rests on these; they are told at the top of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.errors import count_of, plain
from pacbandits.records.arrow import Columns, is_list, is_number, is_temporal, is_text, pa, pc
from pacbandits.records.columns import CellNames
from pacbandits.records.contexts import Contexts
from pacbandits.records.dates import date_parts

MIN_FREE_TEXTS = 256  # labels of a column, from which on they are hardly categories
_MIN_DISTINCT_SHARE = 0.5  # of a column, for rows that agree in all columns to do so by no coincidence


def notice_repeated_rows(table: Columns, cells: CellNames) -> tuple[str, ...]:
    """What to say of rows that are an earlier one again in every column.

    Where few things are told of people, rows agree by chance: nothing is said unless some column has a value of its
    own for most rows.
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
    codes = _codes(flat[telling])
    rows = np.flatnonzero((np.bincount(codes)[codes] > 1) & (codes > 0))  # what is missing is nobody's own
    agreeing = np.column_stack([_codes(column)[rows] for column in flat.values()])
    first, which = np.unique(agreeing, axis=0, return_index=True, return_inverse=True)[1:]
    again: BoolArray = first[which.reshape(-1)] != np.arange(len(rows))
    if not again.any():
        return ()
    count = int(again.sum())
    are = "is an earlier row" if count == 1 else "are earlier rows"
    return (
        f"{count_of(count, 'row')} {are} again in every column, the first in {cells.row(int(rows[again.argmax()]))}; "
        "each counts as another person: leave out what was written twice",
    )


def notice_columns(contexts: Contexts, dates: Sequence[str], *, whole: bool) -> tuple[str, ...]:
    """What to say of features that no rule can go by, or hardly; dates: of what some were made.

    whole: whether these are all rows, so that what is the same in them always is.
    """
    made = date_parts(contexts.names, dates)
    own = [j for j, name in enumerate(contexts.names) if name not in made]
    out: list[str] = []
    for j in own:
        labels = contexts.categories[j]
        if labels is not None and len(labels) >= MIN_FREE_TEXTS:
            name = plain(contexts.names[j])
            out.append(
                f"the column '{name}' has {len(labels):,} different texts, as free text does; leave it out (--without "
                f"'{name}') unless they are categories"
            )
    if not whole or len(contexts) < 2:
        return tuple(out)
    features = contexts.features
    same = [j for j in own if np.array_equal(features[1:, j], features[:-1, j], equal_nan=True)]
    if same:
        names = [plain(contexts.names[j]) for j in same]
        shown = ", ".join(f"'{name}'" for name in names)
        what, it = (f"the column {shown} has", "it") if len(same) == 1 else (f"the columns {shown} have", "them")
        out.append(
            f"{what} one value in all rows, and no rule can go by that; leave {it} out (--without '{','.join(names)}')"
        )
    seen: dict[tuple[object, bytes], str] = {}
    for j in [j for j in own if j not in same]:
        key = (contexts.categories[j], np.ascontiguousarray(features[:, j]).tobytes())
        if key in seen:
            name = plain(contexts.names[j])
            out.append(
                f"the columns '{plain(seen[key])}' and '{name}' say the same in all rows; leave one out (--without "
                f"'{name}')"
            )
        else:
            seen[key] = contexts.names[j]
    return tuple(out)


def notice_units(units: IntArray | None, name: str | None) -> tuple[str, ...]:
    """What to say of the rows of people who come back, where the reader tells whose each is."""
    if units is None or name is None or (people := len(np.unique(units))) == len(units):
        return ()
    return (f"{len(units):,} rows are of {people:,} values of '{plain(name)}', and evidence counts these, not rows",)


def _count_distinct(column: Any) -> int:
    return int(pc.count_distinct(column.indices if is_text(column.type) else column, mode="only_valid").as_py())


def _codes(column: Any) -> IntArray:
    """Whole numbers (n,) from 0 that are the same where values are."""
    coded = column if is_text(column.type) else column.dictionary_encode()
    return np.asarray(coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)) + 1
