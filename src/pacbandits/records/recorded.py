"""Logs that carry their experiment's whole record: columns and rows beside those that are evidence.

Such a file says so. Columns whose names begin with `record_` are no features, and rows that are not marked as counted
(of a holdout, of visits after the first, or too recent to be looked at) are no part of the log.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.records.arrow import Columns, pa

RECORD = "record"  # where a file says so, beside its columns
PREFIX = "record_"
COUNTED_COLUMN = "record_counted"


def has_record(about: Fields) -> bool:
    """Whether a file says that it carries a record."""
    return RECORD in about


def pop_record(table: Columns) -> dict[str, Any]:
    """Take the columns of the record out of a table."""
    return {name: table.pop(name) for name in [name for name in table if name.startswith(PREFIX)]}


def only_counted(table: Columns, about: Fields) -> None:
    """Leave the columns and rows of a table that are its log."""
    if not has_record(about):
        return
    marked = pop_record(table).get(COUNTED_COLUMN)
    if marked is None:
        raise InputError(
            f"the file says that it carries a record, and has no column '{COUNTED_COLUMN}'; export it again"
        )
    rows = pa.array(np.flatnonzero(np.asarray(marked.to_numpy(zero_copy_only=False))))
    if not len(rows):
        raise InputError("nobody is counted in this record yet; export it again later")
    for name in tuple(table):
        table[name] = table[name].take(rows)
