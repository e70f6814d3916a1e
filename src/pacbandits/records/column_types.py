"""Types of columns: dates and times as features, formatted numbers, and identifiers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.errors import InputError, plain
from pacbandits.records.columns import (
    ID_COLUMN,
    PHI_COLUMN,
    WEIGHT_COLUMN,
    CellNames,
    Columns,
    csv,
    is_temporal,
    is_text,
    pa,
    pc,
)

# Dates and times as features. A column of dates becomes its weekday, a label, and its day, counted from 1970-01-01 so
# that a number means the same in every file; descriptions show the day as a date. If times of day vary there is the
# hour too: 13.5 is half past one. If the reader asks for it, a column of dates becomes its age instead: the number of
# days, from day to day of the calendar, that it is before the time of the row.


Part = Literal["weekday", "day", "hour", "age"]

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_ENDING = " days since 1970-01-01"
_ENDINGS: dict[Part, str] = {"weekday": " weekday", "day": DAY_ENDING, "hour": " hour"}
_AGE = re.compile(r"(?P<column>.+) \(days before (?P<time>.+)\)", re.DOTALL)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:$|[T ])")
MIN_DATES = 2  # in a text column, for other values to be mistakes
_LIKE_A_DATE = re.compile(r"[0-9:.TZ+\- ]+")
_FIRST_DAY = date(1970, 1, 1)
_FIRST_WEEKDAY = WEEKDAYS.index("Thu")
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # per second
_SECONDS_OF_A_DAY = 24 * 3600


@dataclass(frozen=True)
class DatePart:
    """A feature computed from a column of dates or times.

    column: that column.
    part: the weekday (Mon, …, Sun), the day (counted from 1970-01-01), the hour (13.5 is half past one), or the age
        (days before another column).
    time: the other column, of an age.
    """

    column: str
    part: Part
    time: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it is computed from."""
        return (self.column, self.time) if self.time else (self.column,)


def date_parts(features: Iterable[str], dates: Iterable[str]) -> dict[str, DatePart]:
    """Return the features that were computed from date columns, with their parts; dates: these columns."""
    known = tuple(dates)
    made = {f"{column}{end}": DatePart(column, part) for column in known for part, end in _ENDINGS.items()}
    made |= {name_age(column, time): DatePart(column, "age", time) for time in known for column in known}
    return {feature: made[feature] for feature in features if feature in made}


def name_age(column: str, time: str) -> str:
    """Return the name of the feature that is the number of days from the dates of a column to the time of the row."""
    return f"{column} (days before {time})"


def age_feature(part: DatePart, columns: Mapping[str, Any]) -> Any:
    """Return an age (n,): the days from the date of each row to its time; null where one of them is missing."""
    dates, times = (columns[name] for name in part.columns)
    days = [days_and_hours(name, columns[name])[0] for name in part.columns]
    missing: BoolArray = pc.or_(dates.is_null(), times.is_null()).to_numpy(zero_copy_only=False)
    return pa.array((days[1] - days[0]).astype(np.float64), mask=missing)


def spread_dates(columns: Columns) -> Columns:
    """Return the columns with those of dates and times replaced by their features."""
    if not any(is_temporal(column.type) for column in columns.values()):
        return columns
    out: Columns = {}
    for name, column in columns.items():
        made = _features(name, column) if is_temporal(column.type) else {name: column}
        taken = next((new for new in made if new in out or (new != name and new in columns)), None)
        if taken is not None:
            raise InputError(
                f"column '{plain(taken)}' has the name of a feature derived from '{plain(name)}'; rename it"
            )
        out.update(made)
    return out


class SaidNumber(NamedTuple):
    """A feature and a threshold in words.

    name: the feature, or the column of dates that it was computed from.
    cut: the threshold.
    unit: of an age, the words after the threshold.
    """

    name: str
    cut: str
    unit: str = ""

    @property
    def at_most(self) -> str:
        """The test that the number is at most the threshold, without the name."""
        return f"at most {self.cut}{self.unit}" if self.unit else f"≤ {self.cut}"

    @property
    def above(self) -> str:
        """The test that the number is above the threshold, without the name."""
        return f"more than {self.cut}{self.unit}" if self.unit else f"> {self.cut}"


def say_number(feature: str, value: float, *, digits: int) -> SaidNumber:
    """Return a feature and its threshold in words, with `digits` digits; a day is shown as a date, an age in days."""
    if feature.endswith(DAY_ENDING) and _is_day(value):
        return SaidNumber(plain(feature.removesuffix(DAY_ENDING)), str(_FIRST_DAY + timedelta(days=math.floor(value))))
    if (age := _AGE.fullmatch(feature)) is not None:
        days = math.floor(value)  # ages are whole numbers
        unit = f" {'day' if days == 1 else 'days'} before {plain(age['time'])}"
        return SaidNumber(plain(age["column"]), f"{days:,}", unit)
    return SaidNumber(plain(feature), f"{value:.{digits}g}")


def date_features(name: str, column: Any) -> Columns:
    """Return all features of a column of dates or times, whatever it holds; a column of nulls counts as dates."""
    return _features(name, column.cast(pa.date32()) if pa.types.is_null(column.type) else column, hours=True)


def dates_in_text(column: Any) -> Any | None:
    """Return a text column (codes into labels) as the dates or times it spells, as in CSV; None if one is no date."""
    labels: list[str] = column.dictionary.to_pylist()
    if not all(_LIKE_A_DATE.fullmatch(label) for label in labels):
        return None
    lines = "\n".join(["date", *labels, ""]).encode()
    read: Any = csv.read_csv(pa.BufferReader(lines)).column(0).combine_chunks() if labels else pa.nulls(0)
    return read.take(column.indices) if is_temporal(read.type) or not labels else None


def check_dates(column: Any, name: str, cells: CellNames) -> None:
    """Raise InputError if at least half of a text column's labels are ISO dates, and others are not."""
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
    """Return whether the calendar has a date for this day."""
    return date.min.toordinal() <= math.floor(value) + _FIRST_DAY.toordinal() <= date.max.toordinal()


def _features(name: str, column: Any, *, hours: bool = False) -> Columns:
    """Return the features of a column of dates or times; hours: include the hour even if it never varies."""
    missing: BoolArray = column.is_null().to_numpy(zero_copy_only=False)
    days, clock = days_and_hours(name, column)
    out: Columns = {}
    if not pa.types.is_time(column.type):
        codes: Any = pa.array(((days + _FIRST_WEEKDAY) % len(WEEKDAYS)).astype(np.int32), mask=missing)
        out[f"{name}{_ENDINGS['weekday']}"] = pa.DictionaryArray.from_arrays(codes, pa.array(WEEKDAYS))
        out[f"{name}{DAY_ENDING}"] = pa.array(days.astype(np.float64), mask=missing)
    present = clock[~missing]
    if hours or pa.types.is_time(column.type) or (len(present) and (present != present[0]).any()):
        out[f"{name}{_ENDINGS['hour']}"] = pa.array(clock, mask=missing)
    return out


def days_and_hours(name: str, column: Any) -> tuple[IntArray, FloatArray]:
    """Return days since 1970 and the hour of the day (n,), in the column's time zone; 0 where missing."""
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


# Formatted numbers: 1,200.50 and 1.200,50, 4 %, $12. A text column is read as numbers if all of it fits one format and
# at least one value is not just digits and a point. If two formats fit and differ, as for 1,200, it stays text, with a
# remark.


MAX_WRITTEN_CHARACTERS = 40
MAX_COMPARED_LABELS = 10_000  # per column, beyond which no remark is made on near-duplicate labels
_CELL = re.compile(r"([-+−]?)\s?([$€£¥]?)\s?([-+−]?)([0-9][0-9.,'’ \u00a0\u202f]*|[.,][0-9]+)\s?([$€£¥%]?)")
_GROUPING = "'’ \u00a0\u202f"
_PLAIN = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
# Formats of thousands and decimal separators, by an example.
_WAYS = {
    "1,234.5": re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.[0-9]+)?"),
    "1.234,5": re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]*)(?:,[0-9]+)?"),
    "1 234.5": re.compile(r"(?:[0-9]{1,3}(?:['’ \u00a0\u202f][0-9]{3})+|[0-9]*)(?:\.[0-9]+)?"),
    "1 234,5": re.compile(r"(?:[0-9]{1,3}(?:['’ \u00a0\u202f][0-9]{3})+|[0-9]*)(?:,[0-9]+)?"),
}
# Translations to a number with a decimal point, by the decimal separator.
_POINTED = {
    ".": str.maketrans(dict.fromkeys(_GROUPING + ",", "")),
    ",": str.maketrans(dict.fromkeys(_GROUPING + ".", "") | {",": "."}),
}
_WITH_UNIT = re.compile(r"[-+−]?[0-9][0-9.,]* ?([^\W\d_]{1,8})")
_PERCENT = "%"


class Written(NamedTuple):
    """The numbers that labels spell.

    values (k,): the numbers.
    words: their format, in words.
    """

    values: FloatArray
    words: str


def numbers_in(labels: Sequence[str]) -> Written | None:
    """Return the numbers of labels that all fit one format other than digits and a point; None if ambiguous."""
    cells: list[re.Match[str]] = []
    for label in labels:
        found = _cell(label)
        if found is None:
            return None
        cells.append(found)
    if not cells:
        return None
    marks = {mark for one in cells for mark in (one[2], one[5]) if mark}
    percents = sum(one[5] == _PERCENT for one in cells)
    twice = any((one[1] and one[3]) or (one[2] and one[5]) for one in cells)
    if twice or len(marks) > 1 or percents not in (0, len(cells)):
        return None
    digits = [one[4].strip() for one in cells]
    plain_digits = all(_PLAIN.fullmatch(one) for one in digits)
    if not marks and plain_digits:
        return None
    signs = np.array([-1.0 if (one[1] or one[3]) in ("-", "−") else 1.0 for one in cells])
    readings = {
        way: np.array([float(one.translate(_POINTED[way[-2]])) for one in digits])
        for way, form in _WAYS.items()
        if all(form.fullmatch(one) for one in digits)
    }
    if not readings or any((one != next(iter(readings.values()))).any() for one in readings.values()):
        return None
    way, values = next(iter(readings.items()))
    words = "" if plain_digits else f"as in {way}"
    if percents:
        words = f"{words and f'{words}, '}4 % for 0.04"
        values = values / 100.0
    elif marks:
        words = f"{words and f'{words}, '}with {next(iter(marks))} left out"
    return Written(signs * values, words)


def read_written(
    columns: Columns, *, but: Collection[str] = (), coded: Collection[str] = (), cells: CellNames
) -> tuple[str, ...]:
    """Convert text columns of formatted numbers to numbers, in place; return remarks on these and on doubtful ones.

    but: columns to leave alone.
    coded: text columns that their author made categories.
    cells: names of their rows in messages.
    """
    remarks: list[str] = []
    for name in [name for name in columns if name not in but and name not in coded and is_text(columns[name].type)]:
        column: Any = columns[name]
        given: list[str | None] = column.dictionary.to_pylist()
        labels = [label for label in given if label is not None]
        if len(labels) < len(given):
            continue
        made = numbers_in(labels)
        if made is not None:
            columns[name] = pa.array(made.values).take(column.indices)
            remarks.append(f"{cells.column(name)} holds numbers that are written {made.words}")
        elif words := _why_text(labels, column, cells):
            remarks.append(f"{cells.column(name)} {words}")
    return tuple(remarks)


def _why_text(labels: Sequence[str], column: Any, cells: CellNames) -> str | None:
    """Return a remark on text that is partly or ambiguously numeric, or on near-duplicate labels, or None."""
    if len(labels) > MAX_COMPARED_LABELS:
        return None
    spelt = [_cell(label) is not None for label in labels]
    if all(spelt) and not all(_PLAIN.fullmatch(label.strip().lstrip("+-")) for label in labels):
        example = next(label for label in labels if not _PLAIN.fullmatch(label.strip().lstrip("+-")))
        row = _first_row(column, labels.index(example))
        return (
            f"is taken for labels: numbers such as '{plain(example)}' ({cells.row(row)}) can be read in more than one "
            "way; write them with digits and a decimal point alone, if they are numbers"
        )
    units = {found[1] if (found := _WITH_UNIT.fullmatch(label.strip())) else "" for label in labels}
    if len(labels) > 2 and len(units) == 1 and "" not in units:
        row = _first_row(column, 0)
        return (
            f"is taken for labels: write numbers such as '{plain(labels[0])}' ({cells.row(row)}) without "
            f"'{units.pop()}', if they are to be compared as such"
        )
    if 2 * sum(spelt) > len(labels) and not all(spelt) and sum(spelt) > 2:
        other = spelt.index(False)
        row = _first_row(column, other)
        return (
            f"is taken for labels, as not all are numbers: {cells.row(row)} holds '{plain(labels[other])}'; leave such "
            "cells empty, if the others are numbers"
        )
    twins = hardly_differing(labels)
    if twins is not None:
        one, other = twins
        row = _first_row(column, labels.index(other))
        return (
            f"holds '{plain(one)}' and '{other}' ({cells.row(row)}), which differ in blanks or capitals alone; they "
            "are taken for two"
        )
    return None


def hardly_differing(labels: Sequence[str], *, numbers: bool = False) -> tuple[str, str] | None:
    """Return two labels that differ only in blanks or capitals, or that are the same number, or None.

    numbers: whether to compare numbers, too.
    """
    seen: dict[str, str] = {}
    for label in labels:
        key = " ".join(label.split()).casefold()
        if numbers and re.fullmatch(r"[+-]?[0-9]+(\.0*)?", key):
            key = str(int(float(key))) if len(key) < 16 else key
        if key in seen:
            return seen[key], label
        seen[key] = label
    return None


def _cell(label: str) -> re.Match[str] | None:
    """Match a number: sign, currency, sign, digits and currency or %."""
    return _CELL.fullmatch(label.strip()) if len(label) <= MAX_WRITTEN_CHARACTERS else None


def _first_row(column: Any, code: int) -> int:
    """Return the first row that has a label."""
    codes: IntArray = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return int((codes == code).argmax())


def is_decimal(label: str) -> bool:
    """Return whether a label is an integer as Python writes it: not 001, and not 0x10."""
    try:
        return str(int(label)) == label
    except ValueError:
        return False


# Columns that identify people or rows are not features: they are dropped with a remark.
#
# A column is one of these if its name is that of an identifier (id, user_id, userId, uuid, email, …) and its values are
# distinct; or if it is text with more than `MIN_ROWS` rows, of which more than `MIN_DISTINCT_SHARE` have a distinct
# value. Numbers that are not integers are never identifiers, nor is text that its author coded as a category.
#
# Repeated values mean returning users if the column is named as people's identifiers are (user_id, patientNumber,
# email) and has `MIN_PEOPLE` values or more, or as people are (customer) or any identifier is (id, uuid) and has
# `MIN_PEOPLE_BY_NAME`, each repeated at most `MAX_ROWS_OF_AN_ID` times on average. Fewer values are categories,
# whatever their name.


MIN_ROWS = 100
MIN_DISTINCT_SHARE = 0.9
MIN_PEOPLE = 20
MIN_PEOPLE_BY_NAME = 100
MAX_ROWS_OF_AN_ID = 20
RETURN_WORDS = ": people who come back are not"  # marks remarks about returning users
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
    """The numbers of values of a column.

    rows: the number of rows.
    present: the number of rows with a value.
    distinct: the number of distinct values.
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
    remedy: Callable[[str], str] | None = None,
) -> tuple[str, ...]:
    """Remove identifiers from columns that would be features; return remarks that say which, why, and how to keep them.

    coded: columns that their author made categories.
    keep: columns that the reader asks for by name.
    counted: counts of all rows for columns of which only some rows are here.
    remedy: says how to keep a column, if not by `keeping`.
    """
    remarks: list[str] = []
    for name in [name for name in columns if name not in (*keep, ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN)]:
        why = _why(name, columns[name], coded=name in coded, counts=counted.get(name))
        if why is not None:
            del columns[name]
            which = f"the column '{plain(name)}'" if name else "the first column, which has no name,"
            remarks.append(f"{which} was left out, as {why}; {(keeping if remedy is None else remedy)(name)}")
    return tuple(remarks)


def keeping(name: str) -> str:
    """Return how to keep a column that is dropped, in words."""
    shown = plain(name)
    return f"--features +{shown} (in Python, keep=['{shown}']) keeps it" if name else "a name of its own keeps it"


def _why(name: str, column: Any, *, coded: bool, counts: Counts | None) -> str | None:
    """Return why a column is an identifier, or None."""
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
    """Return whether a column's type allows identifiers."""
    return not coded if is_text(column.type) else bool(pa.types.is_integer(column.type))


def notice_returns(
    columns: Columns,
    *,
    coded: Collection[str] = (),
    but: Collection[str | None] = (),
    counted: Mapping[str, Counts] = NOTHING_COUNTED,
) -> tuple[str, ...]:
    """Return notices on columns, except those in `but`, that identify returning users.

    coded: columns that their author made categories.
    counted: counts of all rows for columns of which only some rows are here.
    """
    found: list[str] = []
    for name, column in columns.items():
        if name not in but and name != ID_COLUMN and _may_name(column, coded=name in coded):
            visits = _returning(name, column, counted.get(name))
            found += [] if visits is None else [_say_return(name, *visits)]
    return tuple(found)


def tells_of_return(remark: str) -> bool:
    """Return whether a remark is about returning users whose rows are taken as independent."""
    return RETURN_WORDS in remark


def _say_return(name: str, rows: int, people: int) -> str:
    shown = plain(name)
    return (
        f"{rows:,} rows are of {people:,} values of '{shown}', and taken for independent all the same{RETURN_WORDS}; "
        f"--unit {shown} (in Python, unit='{shown}') accounts for that"
    )


def is_counted(name: str) -> bool:
    """Return whether it depends on the number of distinct values if a column of this name is an identifier."""
    return any(_peoples(name)) or _is_identifiers_name(name)


def _peoples(name: str) -> tuple[bool, bool]:
    """Return whether a name is that of people's identifiers, and whether it is that of people or of any identifier."""
    snake = re.sub(r"[\-. ]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).lower()
    return _PEOPLES_IDS.fullmatch(snake) is not None, _PEOPLES_NAMES.fullmatch(snake) is not None


def _returning(name: str, column: Any, counts: Counts | None) -> tuple[int, int] | None:
    """Return the numbers of rows and of people if a column identifies returning users; else None."""
    theirs, named = _peoples(name)
    if not theirs and not named:
        return None
    _, rows, people = counts or _count(column)
    if people == rows or people < (MIN_PEOPLE if theirs else MIN_PEOPLE_BY_NAME):
        return None
    return (rows, people) if theirs or rows <= MAX_ROWS_OF_AN_ID * people else None


def _is_identifiers_name(name: str) -> bool:
    """Return whether a name is that of an identifier: `id`, `user_id` and `userId`, but not `paid`."""
    return _NAMES.fullmatch(name) is not None or _NAMES.fullmatch(name.lower()) is not None


def _count(column: Any) -> Counts:
    """Return the counts of a column that is complete."""
    if is_text(column.type):
        distinct = len(np.unique(column.indices.drop_null().to_numpy(zero_copy_only=False)))
    else:
        distinct = int(pc.count_distinct(column, mode="only_valid").as_py())
    return Counts(len(column), len(column) - column.null_count, distinct)
