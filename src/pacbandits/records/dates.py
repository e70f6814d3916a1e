"""Dates and times as features that people think in.

A column of dates becomes its weekday, a label, and its day, counted from 1970-01-01 so that a number means the same in
every file; in words the day is a date again. Where times of day vary there is the hour too: 13.5 is half past one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.errors import InputError, plain
from pacbandits.records.arrow import Columns, csv, is_temporal, pa, pc
from pacbandits.records.columns import CellNames

Part = Literal["weekday", "day", "hour"]

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_ENDING = " days since 1970-01-01"
_ENDINGS: dict[Part, str] = {"weekday": " weekday", "day": _DAY_ENDING, "hour": " hour"}
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:$|[T ])")
MIN_DATES = 2  # in a column of text, for what is none to be a mistake
_LIKE_A_DATE = re.compile(r"[0-9:.TZ+\- ]+")
_FIRST_DAY = date(1970, 1, 1)
_FIRST_WEEKDAY = WEEKDAYS.index("Thu")
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
_SECONDS_OF_A_DAY = 24 * 3600


@dataclass(frozen=True)
class DatePart:
    """A feature that is made of a column of dates or times.

    column: of which it is made.
    part: the weekday (Mon, …, Sun), the day (counted from 1970-01-01), or the hour (13.5 is half past one).
    """

    column: str
    part: Part


def date_parts(features: Iterable[str], dates: Iterable[str]) -> dict[str, DatePart]:
    """Which of the features are made of columns of dates, and how; dates: these columns."""
    made = {f"{column}{end}": DatePart(column, part) for column in dates for part, end in _ENDINGS.items()}
    return {feature: made[feature] for feature in features if feature in made}


def spread_dates(columns: Columns) -> Columns:
    """The columns, where those of dates and times have made room for the features made of them."""
    if not any(is_temporal(column.type) for column in columns.values()):
        return columns
    out: Columns = {}
    for name, column in columns.items():
        made = _features(name, column) if is_temporal(column.type) else {name: column}
        taken = next((new for new in made if new in out or (new != name and new in columns)), None)
        if taken is not None:
            raise InputError(f"column '{plain(taken)}' has the name of what is made of '{plain(name)}'; rename it")
        out.update(made)
    return out


def say_number(feature: str, value: float, *, digits: int) -> tuple[str, str]:
    """A feature and a number that it is at most, in words of so many digits: of a day the date."""
    if feature.endswith(_DAY_ENDING) and _is_day(value):
        return plain(feature.removesuffix(_DAY_ENDING)), str(_FIRST_DAY + timedelta(days=math.floor(value)))
    return plain(feature), f"{value:.{digits}g}"


def date_features(name: str, column: Any) -> Columns:
    """All features that can be made of a column of dates or times, whatever it holds; nulls are dates, too."""
    return _features(name, column.cast(pa.date32()) if pa.types.is_null(column.type) else column, hours=True)


def dates_in_text(column: Any) -> Any | None:
    """A column of text (codes into labels) as the dates or times that it spells, as in CSV; None where one is none."""
    labels: list[str] = column.dictionary.to_pylist()
    if not all(_LIKE_A_DATE.fullmatch(label) for label in labels):
        return None
    lines = "\n".join(["date", *labels, ""]).encode()
    read: Any = csv.read_csv(pa.BufferReader(lines)).column(0).combine_chunks() if labels else pa.nulls(0)
    return read.take(column.indices) if is_temporal(read.type) or not labels else None


def check_dates(column: Any, name: str, cells: CellNames) -> None:
    """Raise when most of a column of text is dates in ISO form, and the rest is something else."""
    labels: list[str | None] = column.dictionary.to_pylist()
    good = np.array([label is not None and _ISO_DATE.match(label) is not None for label in labels], dtype=np.bool_)
    if good.sum() < max(MIN_DATES, len(good) / 2):
        return
    bad = ~good
    indices: IntArray = column.indices.fill_null(int(good.argmax())).to_numpy(zero_copy_only=False)
    if not bad.any() or not bad[indices].any():
        return
    row = int(bad[indices].argmax())
    raise InputError(
        f"column '{plain(name)}' holds '{plain(labels[int(indices[row])])}' in {cells.row(row)}, and dates elsewhere; "
        "write it as 2024-01-31 or 2024-01-31 13:30:00, or leave the row or the column out"
    )


def _is_day(value: float) -> bool:
    """Whether the calendar has a date for it."""
    return date.min.toordinal() <= math.floor(value) + _FIRST_DAY.toordinal() <= date.max.toordinal()


def _features(name: str, column: Any, *, hours: bool = False) -> Columns:
    """What is made of a column of dates or times; hours: whether also of one in which they never vary."""
    missing: BoolArray = column.is_null().to_numpy(zero_copy_only=False)
    days, clock = days_and_hours(name, column)
    out: Columns = {}
    if not pa.types.is_time(column.type):
        codes: Any = pa.array(((days + _FIRST_WEEKDAY) % len(WEEKDAYS)).astype(np.int32), mask=missing)
        out[f"{name}{_ENDINGS['weekday']}"] = pa.DictionaryArray.from_arrays(codes, pa.array(WEEKDAYS))
        out[f"{name}{_DAY_ENDING}"] = pa.array(days.astype(np.float64), mask=missing)
    present = clock[~missing]
    if hours or pa.types.is_time(column.type) or (len(present) and (present != present[0]).any()):
        out[f"{name}{_ENDINGS['hour']}"] = pa.array(clock, mask=missing)
    return out


def days_and_hours(name: str, column: Any) -> tuple[IntArray, FloatArray]:
    """Whole days since 1970 and the hour of the day (n,), by the clock of the column's time zone; 0 where missing."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            column = pc.local_timestamp(column)
        except pa.ArrowException:
            raise InputError(f"the time zone '{plain(kind.tz)}' of column '{plain(name)}' is unknown here") from None
    width: Any = pa.int32() if kind.bit_width == 32 else pa.int64()
    ticks = np.asarray(column.cast(width).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    if pa.types.is_date32(kind):
        return ticks, np.zeros(len(ticks))
    a_second = _TICKS["ms" if pa.types.is_date64(kind) else kind.unit]
    days, rest = np.divmod(ticks, _SECONDS_OF_A_DAY * a_second)
    return days, rest / (3600.0 * a_second)
