"""Options for reading a log, and the order of its rows by a column of times."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import flag, number, settle, text, texts, whole_number
from pacbandits.errors import InputError, close_to, plain
from pacbandits.records.columns import (
    SOMEWHERE,
    CellNames,
    check_present,
    is_temporal,
    is_text,
    numbers_of,
    pa,
    pc,
    pop_floats,
)
from pacbandits.records.log_metadata import check_range
from pacbandits.records.metrics import MetricSpec, Ratio, metric_columns, read_metrics
from pacbandits.schema import Fields

# The order of rows by a column of times: numbers, dates, or text that spells one of these.
#
# Text is read if the whole column is unambiguous: as numbers, as dates that begin with the year (ISO), or as dates that
# end with it, if some value tells the day from the month (25 is not a month) or if points separate them (31.1.2024: in
# that notation the day always comes first). Otherwise the reader must give the format (`--time-format`, for Python's
# strptime).


_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*$"
_DATE = (
    r"^\s*(?P<a>[0-9]{1,4})(?P<mark>[-./])(?P<b>[0-9]{1,2})(?:(?P<mark2>[-./])(?P<c>[0-9]{1,4})\.?)?"
    r"(?:,?(?:T|\s+)(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<part>[0-9]{1,9}))?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)?)?\s*$"
)
_MARKS = ("-", ".", "/")
_LETTERS = {"y": "%Y", "m": "%m", "d": "%d"}
_WORDS = {"y": "year", "m": "month", "d": "day"}
_YEARS = (1678, 2261)  # that nanoseconds in 64 bits can represent
_SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = datetime(2024, 12, 28, 23, 45, 56, 123456, tzinfo=UTC)  # its numbers have the most digits
_COMPACT_YEARS = (1900, 2099)  # of eight digits that may be a date
_ISO_REMEDY = "write times as 2024-01-31 or 2024-01-31 13:30:00"


class Way(NamedTuple):
    """A format of times.

    order: the order of day, month and year (dmy), `number`, or `given` by the reader.
    mark: the separator.
    zoned: whether the offset from UTC is included.
    """

    order: str
    mark: str = ""
    zoned: bool = False

    @property
    def words(self) -> str:
        return self.mark.join(_WORDS[letter] for letter in self.order)


class Spelt(NamedTuple):
    """The times that texts (k,) spell in one format.

    keys (k,): numbers in the order of time.
    valid (k,): whether the text fits the format.
    """

    keys: IntArray | FloatArray
    valid: BoolArray


def order_of(
    column: Any, name: str, cells: CellNames = SOMEWHERE, *, form: str | None = None
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the order (n,) of rows by a column of times, and the assumptions made to read it; the sort is stable.

    form: the format of times, if given. Raise InputError if a time is missing or ambiguous.
    """
    check_present(column, name, cells)
    _check_form(column.type, name, form)
    if not is_text(column.type) and not pa.types.is_temporal(column.type):
        pop_floats({name: column}, name, cells)  # raises if one is not a number
    spelt = spell_column(column, form=form)
    fitting = [way for way, one in spelt.items() if one.valid.all()]
    if not fitting:
        raise _unreadable(column, spelt, name, cells, form=form)
    way = settle_way(fitting)
    if way is None:
        raise _open(column, fitting, name, cells)
    order = np.argsort(spelt[way].keys, kind="stable")
    if not way.mark or way.order == "ymd":
        return order, ()
    return order, (f"times in the column '{plain(name)}' are written as {way.words}",)


def spell_column(column: Any, *, form: str | None) -> dict[Way, Spelt]:
    """Return the times that the rows (n,) of a complete column spell, for each format that any of them fits."""
    whole = bool(pa.types.is_integer(column.type))
    if is_text(column.type) or (whole and form is not None):
        coded = column if is_text(column.type) else _padded(column, str(form))
        codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        spelt = spell_times(coded.dictionary.fill_null(""), form=form)
        return {way: Spelt(one.keys[codes], one.valid[codes]) for way, one in spelt.items()}
    if whole or pa.types.is_temporal(column.type):
        ticks = ticks_of(column)
        compact = _compact(ticks) if whole else {}
        return {Way("number"): Spelt(ticks, np.ones(len(ticks), dtype=np.bool_)), **compact}
    numbers = numbers_of(column)
    return {Way("number"): Spelt(numbers, np.isfinite(numbers))}


def ticks_of(column: Any) -> IntArray:
    """Return integers (n,) in the order of a complete column's dates, times or integers."""
    wide: Any = column.cast(pa.timestamp("us")) if pa.types.is_date(column.type) else column
    if not pa.types.is_integer(wide.type):
        wide = wide.cast(pa.int32() if wide.type.bit_width == 32 else pa.int64())
    return np.asarray(wide.to_numpy(zero_copy_only=False), dtype=np.int64)


def as_dates(column: Any, name: str, cells: CellNames = SOMEWHERE, *, form: str | None = None) -> Any:
    """Return a column of dates or times as it is, or the dates (n,) that its text spells; nulls stay.

    form: their format, if given. Raise InputError if they are no dates, or ambiguous.
    """
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return column
    there: Any = column.drop_null()
    if not len(there):
        return pa.nulls(len(column), pa.date32())
    spelt: dict[Way, Spelt] = {}
    if is_text(column.type) or (form is not None and pa.types.is_integer(column.type)):
        spelt = {way: one for way, one in spell_column(there, form=form).items() if way.mark or way.order == "given"}
    fitting = [way for way, one in spelt.items() if one.valid.all()]
    way = settle_way(fitting)
    if fitting and way is None:
        raise _open(there, fitting, name, cells)
    if way is None:
        row = max((int((~one.valid).argmax()) for one in spelt.values()), default=0)
        raise InputError(
            f"column '{plain(name)}' holds '{plain(there[row].as_py())}', which is no date from which days can be "
            f"counted; {_ISO_REMEDY}"
        )
    a_day = 86_400 * (10**6 if way.order == "given" else _SECOND)
    missing = _mask(column.is_null())
    days = np.zeros(len(column), dtype=np.int32)
    days[~missing] = np.floor_divide(spelt[way].keys, a_day)
    return pa.array(days, mask=missing).cast(pa.date32())


def _padded(column: Any, form: str) -> Any:
    """Return a column of integers as text, padded with the zeros that numbers lose: 01022024 is read as 1022024."""
    width = len(_EXAMPLE.strftime(form))
    return pc.utf8_lpad(column.cast(pa.string()), width=width, padding="0").dictionary_encode()


def _compact(numbers: IntArray) -> dict[Way, Spelt]:
    """Return integers (n,) as dates with the year at the end, such as 31012024, which sort wrongly as numbers."""
    years, days, months = numbers % 10_000, numbers // 1_000_000, numbers // 10_000 % 100
    right = (years >= _COMPACT_YEARS[0]) & (years <= _COMPACT_YEARS[1]) & (days >= 1) & (months >= 1)
    both = {"dmy": (days, months), "mdy": (months, days)}
    return {
        Way(order): Spelt(years * 10_000 + month * 100 + day, right & (day <= 31) & (month <= 12))
        for order, (day, month) in both.items()
    }


def _check_form(kind: Any, name: str, form: str | None) -> None:
    """Raise InputError if a column cannot have a format, or not this one."""
    if form is None or is_text(kind) or pa.types.is_integer(kind):
        return
    if is_temporal(kind) and form.startswith("%Y-%m-%d"):
        return
    what = f"dates or times ({plain(kind)})" if is_temporal(kind) else plain(kind)
    raise InputError(
        f"column '{plain(name)}' holds {what}, which are not text that --time-format could read; leave it out"
    )


def check_time_format(form: str) -> None:
    """Raise InputError unless this is a strptime format of dates with their year, or of times of day."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a day without its year, which is refused here
            read = datetime.strptime(_EXAMPLE.strftime(form), form)
        if read.year == _EXAMPLE.year or (read.date() == date(1900, 1, 1) and read.hour == _EXAMPLE.hour):
            return
    except (ValueError, re.error):
        pass
    raise InputError(
        f"--time-format '{plain(form)}' is not a time format; write %d for the day, %m for the month, %Y for the "
        "year, %H:%M:%S for the time of day, as in '%d.%m.%Y %H:%M'"
    )


def spell_times(labels: Any, *, form: str | None = None) -> dict[Way, Spelt]:
    """Return the times that texts (k,), a pyarrow array, spell in each format that any of them fits."""
    if form is not None:
        return {Way("given"): _by_format(labels.to_pylist(), form)}
    out: dict[Way, Spelt] = {}
    numeric: BoolArray = _mask(pc.match_substring_regex(labels, _NUMBER))
    if numeric.any():
        digits: Any = pc.if_else(pa.array(numeric), pc.utf8_trim_whitespace(labels), "0")
        numbers = np.asarray(digits.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
        out[Way("number")] = Spelt(numbers, numeric & np.isfinite(numbers))
        short = numeric & (np.abs(numbers) < 10**8) & (numbers == np.floor(numbers))
        out |= {
            way: one for way, one in _compact(np.where(short, numbers, 0).astype(np.int64)).items() if one.valid.any()
        }
    found: Any = pc.extract_regex(labels, _DATE)
    dated: BoolArray = _mask(found.is_valid())
    if not dated.any():
        return out
    fields: dict[str, Any] = {field.name: found.field(field.name).fill_null("") for field in found.type}
    a, b, c = (_numbers(fields[name]) for name in "abc")
    first_long, last_long = (_mask(pc.equal(pc.utf8_length(fields[name]), 4)) for name in "ac")
    same_marks, no_day = _mask(pc.equal(fields["mark"], fields["mark2"])), _mask(pc.equal(fields["mark2"], ""))
    clock, clock_valid = _clock(fields)
    zoned, away = _mask(pc.not_equal(fields["zone"], "")), _offsets(fields["zone"])
    parts = {"ymd": (a, b, np.where(no_day, 1, c)), "dmy": (c, b, a), "mdy": (c, a, b)}
    for order, (year, month, day) in parts.items():
        days, right = _days(year, month, day)
        right &= dated & clock_valid & (first_long if order == "ymd" else last_long & ~first_long)
        keys = (days * 86_400 - away) * _SECOND + clock
        for mark in _MARKS:
            written = same_marks | no_day if (order, mark) == ("ymd", "-") else same_marks  # 2024-01 is a month
            alike = right & written & _mask(pc.equal(fields["mark"], mark))
            for with_zone in (False, True):
                fits = alike & (zoned == with_zone)
                if fits.any():
                    out[Way(order, mark, with_zone)] = Spelt(keys, fits)
    return out


def settle_way(ways: list[Way]) -> Way | None:
    """Return the format of a column among those that fit all of it, or None if it is ambiguous.

    With points as separators the day comes first; a number that may also be a date is ambiguous.
    """
    if len(ways) == 2 and all(way.mark == "." for way in ways):
        return next(way for way in ways if way.order == "dmy")
    return ways[0] if len(ways) == 1 else None


def _unreadable(column: Any, spelt: dict[Way, Spelt], name: str, cells: CellNames, *, form: str | None) -> InputError:
    """Return the error for a column that no single format fits: it names the first row that differs."""
    row = max((int((~one.valid).argmax()) for one in spelt.values()), default=0)
    first = f"'{plain(column[0].as_py())}' in {cells.row(0)}"
    where = f"column '{plain(name)}' holds '{plain(column[row].as_py())}' in {cells.row(row)}"
    if form is not None:
        return InputError(f"{where}, which does not match --time-format '{plain(form)}'; correct one of them")
    if row and any(one.valid[row] for one in spelt.values()):
        return InputError(f"{where}, and {first}, which have different formats; {_ISO_REMEDY}")
    if row:
        return InputError(
            f"{where}, which is not a time in the same format as {first}; {_ISO_REMEDY}, or leave the row out"
        )
    return InputError(
        f"{where}, which is not an unambiguous time; {_ISO_REMEDY}, or as numbers, or give their format "
        "(--time-format '%d.%m.%y', for example)"
    )


def _open(column: Any, ways: list[Way], name: str, cells: CellNames) -> InputError:
    """Return the error for a column that more than one format fits."""
    text = str(column[0].as_py())
    forms = " or ".join(f"--time-format '{_format_like(way, text)}'" for way in ways if way.order != "number")
    what = "which may be a number, or a date with its year at the end"
    if all(way.mark for way in ways):
        what = "and no value shows which number is the day and which the month"
    return InputError(
        f"column '{plain(name)}' holds '{plain(text)}' ({cells.row(0)}), {what}; give its format: {forms}; or "
        f"{_ISO_REMEDY}"
    )


def _format_like(way: Way, text: str) -> str:
    """Return the strptime format of a text."""
    found: Any = pc.extract_regex(pa.array([text]), _DATE)[0].as_py()
    date = way.mark.join(_LETTERS[letter] for letter in way.order)
    if found is None or not found["hour"]:
        return date
    clock = f"{'%I' if found['half'] else '%H'}:%M" + (":%S" if found["second"] else "")
    clock += (".%f" if found["part"] else "") + (" %p" if found["half"] else "")
    return f"{date} {clock}" + ("%z" if found["zone"] else "")


def _by_format(labels: list[str], form: str) -> Spelt:
    """Return the times that texts spell in a strptime format, in microseconds; an offset from UTC is applied."""
    keys, valid = np.zeros(len(labels), dtype=np.int64), np.zeros(len(labels), dtype=np.bool_)
    for k, label in enumerate(labels):
        try:
            read = datetime.strptime(label.strip(), form)
            when = read.replace(tzinfo=UTC) if read.tzinfo is None else read
            keys[k], valid[k] = (when - _EPOCH) // timedelta(microseconds=1), True
        except (ValueError, OverflowError):
            continue
    return Spelt(keys, valid)


def _mask(column: Any) -> BoolArray:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _numbers(texts: Any) -> IntArray:
    """Return integers (k,) from digits; 0 for an empty text."""
    filled: Any = pc.if_else(pc.equal(texts, ""), "0", texts)
    return np.asarray(filled.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)


def _days(year: IntArray, month: IntArray, day: IntArray) -> tuple[IntArray, BoolArray]:
    """Return days (k,) since 1970, and whether they are valid dates."""
    right = (year >= _YEARS[0]) & (year <= _YEARS[1]) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(right, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return days, right & (days.astype("datetime64[D]").astype("datetime64[M]") == months)


def _clock(fields: dict[str, Any]) -> tuple[IntArray, BoolArray]:
    """Return nanoseconds (k,) since midnight, and whether they are valid times of day."""
    hour, minute, second = (_numbers(fields[name]) for name in ("hour", "minute", "second"))
    part = _numbers(pc.utf8_rpad(fields["part"], width=9, padding="0"))
    twelve = _mask(pc.not_equal(fields["half"], ""))
    right = (minute < 60) & (second < 60) & (hour < 24) & (~twelve | ((hour >= 1) & (hour <= 12)))
    afternoon = _mask(pc.starts_with(fields["half"], "p", ignore_case=True))
    hour = np.where(twelve, hour % 12 + 12 * afternoon, hour)
    return (hour * 3600 + minute * 60 + second) * _SECOND + part, right


def _offsets(zones: Any) -> IntArray:
    """Return offsets (k,) from UTC in seconds."""
    digits: Any = pc.replace_substring(zones, ":", "")
    west = _mask(pc.starts_with(digits, "-"))
    signed: Any = pc.or_(pc.starts_with(digits, "+"), pc.starts_with(digits, "-"))
    away = _numbers(pc.if_else(signed, pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 1), width=4, padding="0"), ""))
    return np.where(west, -1, 1) * (away // 100 * 3600 + away % 100 * 60)


# Options for reading a log: facts that its file does not contain.


NO_ORDER = "none"
MAX_SUM_ROUNDING = 1e-6  # how far the shares of a split may sum from 1

Split = str | Mapping[str, float] | Mapping[str, Mapping[str, float]]


class Reading(TypedDict, total=False):
    """The keyword arguments of `read_log`, as `ReadingOptions` explains them."""

    n_actions: int | None
    least_propensity: float | None
    reward_range: tuple[float, float] | None
    position: int | None
    action: str | None
    reward: str | None
    propensity: str | None
    split: Split | None
    time: str | None
    time_format: str | None
    age: Sequence[str]
    unit: str | None
    features: Sequence[str] | None
    without: Sequence[str]
    clip: bool
    keep: Sequence[str]
    metrics: Sequence[MetricSpec]
    order: str | None
    block: str | None


class StoredReading(Reading, total=False):
    """The same, and what a certificate records beside them."""

    dropped: Sequence[str]
    source: str


def _block_shares(block: str, shares: Mapping[str, object]) -> dict[str, float]:
    """Return the probabilities of a block by action; raise InputError unless they sum to 1."""
    name = f"split, block '{plain(block)}',"
    out = {text(action, name=name): number(share, name=name, least=0.0) for action, share in shares.items()}
    total = sum(out.values())
    if abs(total - 1.0) > MAX_SUM_ROUNDING:
        raise InputError(
            f"the probabilities of the block '{plain(block)}' sum to {total:.10g}; they must sum to 1 (thirds are 1/3)"
        )
    return out


def check_arguments(given: Iterable[str], *, of: str, others: Iterable[str] = ()) -> None:
    """Raise InputError if a name is not an argument of `read_log`; of: the called function, others: its own."""
    known = (*StoredReading.__annotations__, *others)
    for name in given:
        if name not in known:
            close = close_to(name, known)
            meant = f"did you mean {close}=…?" if close else f"it takes {', '.join(sorted(known))}"
            raise InputError(f"{of} has no argument '{plain(name)}'; {meant}")


@dataclass(frozen=True)
class ReadingOptions:
    """Facts about a log that its file does not contain.

    n_actions: the number of actions.
    least_propensity: the minimum propensity of every action, for logs with only that of the played action.
    reward_range: the smallest and the largest possible reward, if not 0 and 1.
    position: the position to use of a feedback with several.
    action, reward, propensity: the columns that hold these, if they have other names.
    split: the propensities, if they were the same for everybody: `uniform`, or each action's (`a=0.4,b=0.6`); or
        those of each block, by action.
    time: the column with the time of each row, by which rows are sorted.
    time_format: the format of its times, for Python's strptime (`%d/%m/%Y`), if it is ambiguous.
    age: columns of dates that become one feature each: the number of days before that time.
    unit: the column that identifies returning users.
    features: the feature columns, if not all others.
    without: columns to drop.
    clip: whether rewards beyond the range are clipped to it, which changes the outcome that is measured.
    keep: columns that stay features though they look like identifiers, outcomes, or the time.
    order: "none" if the order of rows in the file means nothing.
    block: the column of the blocks within which actions were drawn; without propensities, counted in each of them.
    metrics: columns of outcomes beside the reward, as `read_metric` reads them.
    dropped: feature columns that certifying left out as useless; a table need not have them.
    source: the database or object store that the rows were copied from, without passwords: for information alone.
    """

    n_actions: int | None = None
    least_propensity: float | None = None
    reward_range: tuple[float, float] | None = None
    position: int | None = None
    action: str | None = None
    reward: str | None = None
    propensity: str | None = None
    split: Split | None = None
    time: str | None = None
    time_format: str | None = None
    unit: str | None = None
    features: Sequence[str] | None = None
    without: Sequence[str] = ()
    clip: bool = False
    keep: Sequence[str] = ()
    order: str | None = None
    block: str | None = None
    metrics: Sequence[MetricSpec] = ()
    age: Sequence[str] = ()
    dropped: Sequence[str] = ()
    source: str | None = None

    def __post_init__(self) -> None:
        if self.n_actions is not None:
            settle(self, n_actions=whole_number(self.n_actions, name="--actions", least=1))
        if self.least_propensity is not None:
            settle(self, least_propensity=number(self.least_propensity, name="--least-propensity"))
        if self.reward_range is not None:
            settle(self, reward_range=check_range(self.reward_range))
        if flag(self.clip, name="clip") and self.reward_range is None:
            raise InputError("clipping needs the smallest and the largest reward; add --reward-range 0 500")
        if self.position is not None:
            settle(self, position=whole_number(self.position, name="--position", least=0))
        for name in ("action", "reward", "propensity", "time", "time_format", "unit", "block"):
            if getattr(self, name) is not None:
                text(getattr(self, name), name=name)
        if self.time_format is not None:
            check_time_format(self.time_format)
            if self.time is None:
                raise InputError("--time-format needs the timestamp column; add --time COLUMN")
        if self.order is not None:
            self._check_order(text(self.order, name="order"))
        if self.split is not None and not isinstance(self.split, str):
            self._settle_split(self.split)
        if self.features is not None:
            settle(self, features=texts(self.features, name="features"))
        settle(self, without=texts(self.without, name="without"), keep=texts(self.keep, name="keep"))
        settle(self, dropped=texts(self.dropped, name="dropped"), age=texts(self.age, name="age"))
        self._check_age()
        columns = (self.action, self.reward, self.propensity, self.time, self.unit, self.block)
        used = [name for name in columns if name is not None]
        twice = next((name for i, name in enumerate(used) if name in used[:i]), None)
        if twice is not None:
            raise InputError(f"the column '{plain(twice)}' is used twice; name it once")
        settle(self, metrics=read_metrics(self.metrics))
        self._check_metrics()

    def _check_age(self) -> None:
        """Raise InputError if a column whose age is asked for has another use, or there is no time to count to."""
        if self.age and self.time is None:
            raise InputError(
                f"--age {plain(self.age[0])} counts days before the time of each row; say which column that is "
                "(--time COLUMN)"
            )
        uses = {getattr(self, use): use for use in ("action", "reward", "propensity", "time", "unit", "block")}
        uses |= dict.fromkeys(self.without, "left out (--without)")
        for name in self.age:
            if name in uses:
                raise InputError(
                    f"column '{plain(name)}' is {uses[name]}, and cannot be an --age as well; leave one out"
                )

    def _check_metrics(self) -> None:
        """Raise InputError if a metric is a column with another use; the reward may be a column of a ratio."""
        uses = {getattr(self, use) or use: use for use in ("action", "reward", "propensity")}
        uses |= {name: use for use in ("time", "unit", "block") if (name := getattr(self, use)) is not None}
        of_ratios = {
            column.name for ratio in read_metrics(self.metrics) if isinstance(ratio, Ratio) for column in ratio.columns
        }
        of_ratios -= {metric.name for metric in read_metrics(self.metrics)}
        for column in self.metric_names:
            if uses.get(column) == "reward" and column in of_ratios:
                continue
            if column in uses:
                raise InputError(
                    f"column '{plain(column)}' is the {uses[column]}, and cannot be a metric as well; leave it out of "
                    "the metrics (--metric)"
                )
            if column in (*(self.features or ()), *self.keep):
                raise InputError(
                    f"column '{plain(column)}' is a metric, which comes after the action, and cannot be a feature; "
                    "leave it out of one of the two"
                )

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns of the metrics."""
        return tuple(column.name for column in metric_columns(read_metrics(self.metrics)))

    def _check_order(self, order: str) -> None:
        """Raise InputError unless the order of rows is `none`, and no time contradicts that."""
        if order != NO_ORDER:
            raise InputError(
                f"--order '{plain(order)}' is unknown: write --order {NO_ORDER} if the order of rows means nothing; if "
                "they stand in the order of time, --ordered, or --time COLUMN"
            )
        if self.time is not None:
            raise InputError(f"--order {NO_ORDER} says that the order of rows means nothing; leave it out, or --time")

    def _settle_split(self, split: Mapping[str, float] | Mapping[str, Mapping[str, float]]) -> None:
        """Check a split by action, which becomes text, or by block."""
        given: dict[str, object] = {text(n, name="an action or block of split"): value for n, value in split.items()}
        by_block = {n: cast("Mapping[str, object]", value) for n, value in given.items() if isinstance(value, Mapping)}
        if not by_block:
            shares = {name: number(value, name="split") for name, value in given.items()}
            settle(self, split=",".join(f"{action}={share!r}" for action, share in shares.items()))
            return
        if self.block is None:
            raise InputError("the split has probabilities for each block; name the column of blocks (--block COLUMN)")
        if len(by_block) < len(given):
            lone = next(name for name in given if name not in by_block)
            raise InputError(f"the split gives '{plain(lone)}' one number; give each block its probabilities by action")
        settle(self, split={block: _block_shares(block, shares) for block, shares in by_block.items()})

    @property
    def by_block(self) -> Mapping[str, Mapping[str, float]] | None:
        """The declared probabilities of each block, by action; None if there are none."""
        return cast("Mapping[str, Mapping[str, float]]", self.split) if isinstance(self.split, Mapping) else None

    @property
    def of_columns(self) -> tuple[str, ...]:
        """The given options that concern the columns of a table."""
        names = ("action", "reward", "propensity", "split", "time", "time_format", "unit", "features", "without")
        names = (*names, "order", "block", "metrics", "age")
        return tuple(name for name in names if getattr(self, name) not in (None, ()))

    @property
    def outcome(self) -> str:
        """The name of the reward."""
        name = self.reward or "reward"
        return f"clipped {name}" if self.clip else name

    def to_json(self) -> dict[str, Any]:
        """Serialise the given options to JSON-compatible values, by the names of `read_log`."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = ("reward_range", "features", "without", "keep", "age", "dropped")
        given["metrics"] = [metric.to_json() for metric in read_metrics(self.metrics)] or None
        return {
            name: list(v) if name in lists else v for name, v in given.items() if v not in (None, ()) and v is not False
        }

    @classmethod
    def from_json(cls, value: object) -> ReadingOptions:
        """Return the options that `to_json` wrote."""
        given = Fields.read(value, of="reading of the log")
        given.check_known(tuple(field.name for field in fields(cls)))
        made: StoredReading = {}
        for name in ("n_actions", "position"):
            if name in given:
                made[name] = given.whole_number(name)
        for name in ("action", "reward", "propensity", "time", "time_format", "unit", "order", "block", "source"):
            if name in given:
                made[name] = given.text(name)
        if "split" in given:
            by_block = isinstance(given["split"], dict)
            made["split"] = given.json_object("split") if by_block else given.text("split")
        if "least_propensity" in given:
            made["least_propensity"] = given.number("least_propensity", least=0.0, most=1.0)
        if given.given.get("reward_range") is not None:
            ends = given.numbers("reward_range", shortest=2, longest=2)
            made["reward_range"] = (ends[0], ends[1])
        if "clip" in given:
            made["clip"] = given.flag("clip")
        if "features" in given:
            made["features"] = given.texts("features")
        if "without" in given:
            made["without"] = given.texts("without")
        if "keep" in given:
            made["keep"] = given.texts("keep")
        if "dropped" in given:
            made["dropped"] = given.texts("dropped")
        if "age" in given:
            made["age"] = given.texts("age")
        if "metrics" in given:
            made["metrics"] = read_metrics(given.items("metrics"))
        return cls(**made)
