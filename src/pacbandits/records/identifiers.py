"""Columns that name people or rows and tell nothing about them: they are noticed, and left out with a remark.

A column is one of these if its name is that of an identifier (id, user_id, userId, uuid, email, …) and no value comes
twice; or if it is text, of more than `MIN_ROWS` rows of which more than `MIN_DISTINCT_SHARE` have a value of their own.
Numbers that are not whole are never identifiers, and text that its author has coded as a category is none either.

Values that come again are those of people who come back, if the column is called as people's identifiers are (user_id,
patientNumber, email) and has `MIN_PEOPLE` values or more, or as people are (customer) or any identifier is (id, uuid)
and has `MIN_PEOPLE_BY_NAME`, of which each comes `MAX_ROWS_OF_AN_ID` times at most on average. A few values are
categories whatever they are called.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from pacbandits.errors import plain
from pacbandits.records.arrow import Columns, is_text, pa, pc
from pacbandits.records.columns import ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN

MIN_ROWS = 100
MIN_DISTINCT_SHARE = 0.9
MIN_PEOPLE = 20
MIN_PEOPLE_BY_NAME = 100
MAX_ROWS_OF_AN_ID = 20
RETURN_WORDS = ": people who come back are not"  # in what is said of them
_PEOPLE = (
    r"(account|client|cookie|customer|device|donor|guest|household|member|participant|patient|person|player|respondent|"
    r"session|shopper|student|subject|subscriber|user|visitor)"
)
_PEOPLES_IDS = re.compile(
    rf"(.*_)?{_PEOPLE}_?(id|ids|uid|uuid|guid|key|hash|no|nr|num|number|code)|(.*_)?(uid|e?_?mail|phone|ssn)"
)
_PEOPLES_NAMES = re.compile(rf"{_PEOPLE}|id|uuid|guid")
_ROW_NUMBERS = re.compile(r"|Unnamed: [0-9]+|__index_level_[0-9]+__")
_NAMES = re.compile(
    r"(.*[_\-. ])?(id|ids|uid|uuid|guid|key|hash|e-?mail|mail|phone|ssn|iban|cookie|session|token|index|row)"
    r"|.*[a-z](Id|ID|Uuid|UUID|Guid|GUID|Email|Hash|Key)"
)


class Counts(NamedTuple):
    """How many values a column has.

    rows: how many rows.
    present: how many of these have a value.
    distinct: how many values are different.
    """

    rows: int
    present: int
    distinct: int


NOTHING_COUNTED: Mapping[str, Counts] = {}


def leave_out_identifiers(
    columns: Columns,
    *,
    coded: Collection[str] = (),
    keep: Collection[str] = (),
    counted: Mapping[str, Counts] = NOTHING_COUNTED,
) -> tuple[str, ...]:
    """Take the identifiers out of columns that would be features; and say which, why, and how to keep them.

    coded: columns whose author says that they are categories. keep: columns that the reader asks for by name.
    counted: what columns hold of which only some rows are here.
    """
    remarks: list[str] = []
    for name in [name for name in columns if name not in (*keep, ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN)]:
        why = _why(name, columns[name], coded=name in coded, counts=counted.get(name))
        if why is not None:
            del columns[name]
            which = f"the column '{plain(name)}'" if name else "the first column, which has no name,"
            remarks.append(f"{which} was left out, as {why}; {keeping(name)}")
    return tuple(remarks)


def keeping(name: str) -> str:
    """How to keep a column that is left out."""
    shown = plain(name)
    return f"--features +{shown} (in Python, keep=['{shown}']) keeps it" if name else "a name of its own keeps it"


def _why(name: str, column: Any, *, coded: bool, counts: Counts | None) -> str | None:
    """Why a column is an identifier, if it is one."""
    if _ROW_NUMBERS.fullmatch(name):
        return "it is the row numbers that pandas adds"
    text = is_text(column.type)
    if not _may_name(column, coded=coded):
        return None
    if (visits := _returning(name, column, counts)) is not None:
        return f"its name is that of people's identifiers, of which {visits[0]:,} rows have {visits[1]:,}"
    n, _, distinct = counts or _count(column)
    named = _is_identifiers_name(name)
    if named and distinct == n > 1:
        return "its name is that of an identifier, and no value comes twice"
    if text and n > MIN_ROWS and distinct > MIN_DISTINCT_SHARE * n:
        return f"{distinct:,} of its {n:,} rows have a text of their own, as names and identifiers do"
    return None


def _may_name(column: Any, *, coded: bool) -> bool:
    """Whether a column may hold identifiers, by its type."""
    return not coded if is_text(column.type) else bool(pa.types.is_integer(column.type))


def notice_returns(
    columns: Columns,
    *,
    coded: Collection[str] = (),
    but: Collection[str | None] = (),
    counted: Mapping[str, Counts] = NOTHING_COUNTED,
) -> tuple[str, ...]:
    """What to say of columns of a log, those `but` for which, that name people of whom some come again.

    coded: columns whose author says that they are categories. counted: what columns hold of which only some rows are
    here.
    """
    found: list[str] = []
    for name, column in columns.items():
        if name not in but and name != ID_COLUMN and _may_name(column, coded=name in coded):
            visits = _returning(name, column, counted.get(name))
            found += [] if visits is None else [_say_return(name, *visits)]
    return tuple(found)


def tells_of_return(remark: str) -> bool:
    """Whether a remark is on people who come back, of whom each row counts as another's."""
    return RETURN_WORDS in remark


def _say_return(name: str, rows: int, people: int) -> str:
    shown = plain(name)
    return (
        f"{rows:,} rows are of {people:,} values of '{shown}', and taken for independent all the same{RETURN_WORDS}; "
        f"--unit {shown} (in Python, unit='{shown}') accounts for that"
    )


def is_counted(name: str) -> bool:
    """Whether a column of that name is an identifier or not by how many different values it has."""
    return any(_peoples(name)) or _is_identifiers_name(name)


def _peoples(name: str) -> tuple[bool, bool]:
    """Whether identifiers of people are called so, and whether people or any identifiers are."""
    snake = re.sub(r"[\-. ]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).lower()
    return _PEOPLES_IDS.fullmatch(snake) is not None, _PEOPLES_NAMES.fullmatch(snake) is not None


def _returning(name: str, column: Any, counts: Counts | None) -> tuple[int, int] | None:
    """How many rows are of how many people, if a column names people of whom some come again."""
    theirs, named = _peoples(name)
    if not theirs and not named:
        return None
    _, rows, people = counts or _count(column)
    if people == rows or people < (MIN_PEOPLE if theirs else MIN_PEOPLE_BY_NAME):
        return None
    return (rows, people) if theirs or rows <= MAX_ROWS_OF_AN_ID * people else None


def _is_identifiers_name(name: str) -> bool:
    """Whether identifiers are called so: `id`, `user_id` and `userId`, but not `paid`."""
    return _NAMES.fullmatch(name) is not None or _NAMES.fullmatch(name.lower()) is not None


def _count(column: Any) -> Counts:
    """How many values a column has that is all here."""
    if is_text(column.type):
        distinct = len(np.unique(column.indices.drop_null().to_numpy(zero_copy_only=False)))
    else:
        distinct = int(pc.count_distinct(column, mode="only_valid").as_py())
    return Counts(len(column), len(column) - column.null_count, distinct)
