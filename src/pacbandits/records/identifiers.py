"""Columns that name people or rows and tell nothing about them: they are noticed, and left out with a remark.

A column is one of these if its name is that of an identifier (id, user_id, userId, uuid, email, …) and no value comes
twice; or if it is text, of more than `MIN_ROWS` rows of which more than `MIN_DISTINCT_SHARE` have a value of their own.
Numbers that are not whole are never identifiers, and text that its author has coded as a category is none either.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from pacbandits.errors import plain
from pacbandits.records.arrow import Columns, is_text, pa, pc
from pacbandits.records.columns import ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN

MIN_ROWS = 100
MIN_DISTINCT_SHARE = 0.9
_NAMES = re.compile(
    r"(.*[_\-. ])?(id|ids|uid|uuid|guid|key|hash|e-?mail|mail|phone|ssn|iban|cookie|session|token|index|row)"
    r"|.*[a-z](Id|ID|Uuid|UUID|Guid|GUID|Email|Hash|Key)"
)


def leave_out_identifiers(
    columns: Columns, *, coded: Collection[str] = (), keep: Collection[str] = ()
) -> tuple[str, ...]:
    """Take the identifiers out of columns that would be features; and say which, why, and how to keep them.

    coded: columns whose author says that they are categories. keep: columns that the reader asks for by name.
    """
    remarks: list[str] = []
    for name in [name for name in columns if name not in (*keep, ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN)]:
        why = _why(name, columns[name], coded=name in coded)
        if why is not None:
            del columns[name]
            remarks.append(f"the column '{plain(name)}' was left out, as {why}; to keep it, name it among the features")
    return tuple(remarks)


def _why(name: str, column: Any, *, coded: bool) -> str | None:
    """Why a column is an identifier, if it is one."""
    text = is_text(column.type)
    if (text and coded) or not (text or pa.types.is_integer(column.type)):
        return None
    n, distinct = len(column), _count_distinct(column)
    named = _is_identifiers_name(name)
    if named and distinct == n > 1:
        return "its name is that of an identifier, and no value comes twice"
    if text and n > MIN_ROWS and distinct > MIN_DISTINCT_SHARE * n:
        return f"{distinct:,} of its {n:,} rows have a text of their own, as names and identifiers do"
    return None


def _is_identifiers_name(name: str) -> bool:
    """Whether identifiers are called so: `id`, `user_id` and `userId`, but not `paid`."""
    return _NAMES.fullmatch(name) is not None or _NAMES.fullmatch(name.lower()) is not None


def _count_distinct(column: Any) -> int:
    """How many values there are that are not missing."""
    if is_text(column.type):
        return len(np.unique(column.indices.drop_null().to_numpy(zero_copy_only=False)))
    return int(pc.count_distinct(column, mode="only_valid").as_py())
