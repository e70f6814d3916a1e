"""Contexts as they come, one by one: a mapping from columns to values, made into features and back.

Nothing is made to fit. What is no value of its column as the contexts of the protocol had it is refused with a sentence
that names the column: a shop would rather show its standard page than be told later that one country was another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from math import isfinite, isnan
from typing import Any, NamedTuple, cast

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import finite, is_whole, shown
from pacbandits.errors import InputError, close_to, nearest, plain
from pacbandits.experiment.protocol import ExperimentProtocol, tells_missing
from pacbandits.records import Contexts
from pacbandits.records.column_types import Part, date_parts
from pacbandits.records.columns import ID_COLUMN
from pacbandits.schema import MAX_WHOLE_NUMBER

_FIRST_ORDINAL = date(1970, 1, 1).toordinal()
_MICROSECONDS_AN_HOUR = 3_600_000_000


class FeatureColumn(NamedTuple):
    """A column that is a feature.

    place: of the feature.
    name: of both.
    codes: of labels; None for numbers.
    missing: the number that stands for a missing value; None where none may be missing.
    flags: whether true and false are taken for 1 and 0.
    """

    place: int
    name: str
    codes: Mapping[str, int] | None
    missing: float | None
    flags: bool


class DateColumn(NamedTuple):
    """A column of dates or times, of which features are made.

    name: of the column.
    places: of what is made of it.
    missing: the numbers that stand for what is made of a missing one; None where none may be missing.
    """

    name: str
    places: Mapping[Part, int]
    missing: tuple[float, ...] | None


class Encoded(NamedTuple):
    """What contexts that came are as features.

    features (n, d): those of the protocol; 0 in rows with an error.
    ids (n,): of contexts that are known by an id; None where they are not.
    errors: what is wrong with a row, by its number from 0.
    """

    features: FloatArray
    ids: IntArray | None
    errors: Mapping[int, InputError]


@dataclass(frozen=True, eq=False)
class Encoder:
    """Makes features of contexts that come one by one, and values of features.

    contexts: which features there are.
    columns: of numbers and labels.
    dates: of dates and times.
    lenient: whether a label that is unknown counts as a missing one.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20, 0], [40, 1]], names=["age", "device"], categories=[None, ("phone", "desktop")])
    >>> encoder = Encoder.of(people)
    >>> encoder.encode([{"age": 31, "device": "desktop"}]).features
    array([[31.,  1.]])
    >>> str(encoder.encode([{"age": 31, "device": "destop"}]).errors[0])[:59]
    "'device' is 'destop', which the contexts of the experiment "
    """

    contexts: Contexts
    columns: tuple[FeatureColumn, ...]
    dates: tuple[DateColumn, ...]
    lenient: bool

    @classmethod
    def of(cls, contexts: Contexts, *, dates: Sequence[str] = (), lenient: bool = False) -> Encoder:
        """For contexts like these; dates: columns that features were made of."""
        made = date_parts(contexts.names, dates)
        columns = tuple(_column(contexts, place, name) for place, name in enumerate(contexts.names) if name not in made)
        by_name: dict[str, dict[Part, int]] = {}
        for feature, part in made.items():
            by_name.setdefault(part.column, {})[part.part] = contexts.names.index(feature)
        spread = tuple(DateColumn(name, places, _missing_date(contexts, places)) for name, places in by_name.items())
        return cls(contexts, columns, spread, lenient)

    @classmethod
    def for_protocol(cls, protocol: ExperimentProtocol) -> Encoder:
        """For the contexts of an experiment."""
        lenient = protocol.unknown_labels == "missing"
        return cls.of(protocol.contexts, dates=protocol.date_columns, lenient=lenient)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a context must have."""
        known = (*(one.name for one in self.columns), *(one.name for one in self.dates))
        return known if self.contexts.ids is None else (*known, ID_COLUMN)

    def encode(self, rows: Sequence[object]) -> Encoded:
        """Features of contexts, each a mapping from all columns to values that JSON knows."""
        n, d = len(rows), self.contexts.n_features
        known = self.contexts.ids is not None
        width, count = d + known, len(self.columns) + len(self.dates) + known
        flat: list[float] = []
        errors: dict[int, InputError] = {}
        nothing = [0.0] * width
        for i, row in enumerate(rows):
            try:
                flat += self._row(row, width, count)
            except InputError as error:
                errors[i] = error
                flat += nothing
        made = np.array(flat, dtype=np.float64).reshape(n, width)
        ids = made[:, d].astype(np.int64) if known else None
        features = made[:, :d] if known else made
        features.setflags(write=False)
        return Encoded(features, ids, errors)

    def decode(self, features: FloatArray, ids: IntArray | None = None) -> list[dict[str, Any]]:
        """Values by columns, from features (n, d): what `encode` makes them of again."""
        readers: list[Callable[[list[float]], Any]] = [_reader(one) for one in self.columns]
        names = [one.name for one in self.columns]
        out: list[dict[str, Any]] = []
        for i, row in enumerate(features.tolist()):
            made = {name: read(row) for name, read in zip(names, readers, strict=True)}
            made |= {one.name: _decode_date(one, row) for one in self.dates}
            if ids is not None:
                made[ID_COLUMN] = int(ids[i])
            out.append(made)
        return out

    def _row(self, row: object, width: int, count: int) -> list[float]:
        """The features of one context, and its id; the ordinary case goes straight through."""
        if not isinstance(row, Mapping):
            raise InputError(f"a context must be an object of columns and values, got {shown(row)}")
        given = cast(Mapping[str, object], row)
        made = [0.0] * width
        try:
            for column in self.columns:
                value, codes = given[column.name], column.codes
                if codes is not None:
                    code = codes.get(value) if isinstance(value, str) else None
                    made[column.place] = self._label(column, value) if code is None else code
                elif (isinstance(value, float) and value - value == 0.0) or type(value) is int:
                    made[column.place] = (
                        value if -MAX_WHOLE_NUMBER <= value <= MAX_WHOLE_NUMBER else _number(column, value)
                    )
                else:
                    made[column.place] = _number(column, value)
            for one in self.dates:
                _put_date(one, given[one.name], made)
            if self.contexts.ids is not None:
                made[-1] = self._id(given[ID_COLUMN])
        except KeyError:
            raise self._lacking(given) from None
        if len(given) != count:
            raise self._unknown(given)
        return made

    def _label(self, column: FeatureColumn, value: object) -> float:
        """The code of what is no known label, if it may stand for one."""
        if value is None or (isinstance(value, float) and isnan(value)):
            return _missing(column)
        if not isinstance(value, str):
            raise InputError(f"'{plain(column.name)}' must be text, got {shown(value)}")
        if self.lenient and column.missing is not None:
            return column.missing
        raise InputError(
            f"'{plain(column.name)}' is '{plain(value)}', which the contexts of the experiment did not have"
            f"{nearest(value, column.codes or ())}"
        )

    def _id(self, value: object) -> float:
        """The number of a context that is known by one."""
        assert self.contexts.ids is not None
        last = int(self.contexts.ids.max())
        if not is_whole(value) or not 0 <= int(value) <= last:
            raise InputError(f"'{ID_COLUMN}' must be a whole number from 0 to {last}, got {shown(value)}")
        return float(value)

    def _lacking(self, given: Mapping[str, object]) -> InputError:
        """Which column is missing, and what may have been meant for it."""
        name = next(one for one in self.names if one not in given)
        extra = [str(one) for one in given if one not in self.names]
        meant = close_to(name, extra)
        hint = "" if meant is None else f"; '{plain(meant)}' may be meant for it"
        return InputError(f"the context lacks '{plain(name)}'{hint}; give null where the value is not known")

    def _unknown(self, given: Mapping[str, object]) -> InputError:
        """Which column is not one of the experiment's."""
        name = next(str(one) for one in given if one not in self.names)
        return InputError(
            f"the context has '{plain(name)}', which is no column{nearest(name, self.names)}; leave it out"
        )


def _column(contexts: Contexts, place: int, name: str) -> FeatureColumn:
    """How a feature that is a column of its own is read."""
    labels, values = contexts.categories[place], contexts.features[:, place]
    if labels is not None:
        missing = float(len(labels) - 1) if tells_missing(labels) else None
        return FeatureColumn(place, name, {label: code for code, label in enumerate(labels)}, missing, False)
    known = values[~np.isnan(values)]
    flags = bool(np.isin(known, (0.0, 1.0)).all())
    return FeatureColumn(place, name, None, np.nan if len(known) < len(values) else None, flags)


def _missing_date(contexts: Contexts, places: Mapping[Part, int]) -> tuple[float, ...] | None:
    """What stands for a missing date, in the order of the places; None where none may be missing."""
    columns = [_column(contexts, place, contexts.names[place]).missing for place in places.values()]
    return None if any(one is None for one in columns) else tuple(one for one in columns if one is not None)


def _missing(column: FeatureColumn) -> float:
    """The number that stands for a missing value, or a sentence."""
    if column.missing is None:
        raise InputError(
            f"'{plain(column.name)}' is null, and was never missing in the contexts of the experiment; give a value"
        )
    return column.missing


def _number(column: FeatureColumn, value: object) -> float:
    """A value of a column of numbers that is no ordinary float or integer."""
    if value is None or (isinstance(value, float) and isnan(value) and column.missing is not None):
        return _missing(column)
    if isinstance(value, bool) and column.flags:
        return float(value)
    made = finite(value)
    if made is None:
        kind = "a finite number" if isinstance(value, float | int) and not isinstance(value, bool) else "a number"
        raise InputError(f"'{plain(column.name)}' must be {kind}, got {shown(value)}")
    return made


def _put_date(column: DateColumn, value: object, made: list[float]) -> None:
    """Put what is made of a date or time at its places."""
    if value is None:
        if column.missing is None:
            raise InputError(
                f"'{plain(column.name)}' is null, and was never missing in the contexts of the experiment; give a date"
            )
        for place, number in zip(column.places.values(), column.missing, strict=True):
            made[place] = number
        return
    when = _clock(column, value)
    for part, place in column.places.items():
        if part == "hour":
            made[place] = _hour(when)
        elif isinstance(when, time):
            raise InputError(f"'{plain(column.name)}' must be a date, as 2024-01-31, got {shown(value)}")
        else:
            made[place] = when.weekday() if part == "weekday" else when.toordinal() - _FIRST_ORDINAL


def _clock(column: DateColumn, value: object) -> date | time:
    """A date or a time of day; offsets in text are brought to UTC, as they are where tables are read."""
    if isinstance(value, date | time):
        return value
    alone = tuple(column.places) == ("hour",)
    wanted = "a time, as 13:30:00" if alone else "a date, as 2024-01-31 or 2024-01-31T13:30:00"
    if isinstance(value, str):
        try:
            if alone and ":" in value[:3]:
                return time.fromisoformat(value)
            when = datetime.fromisoformat(value)
            return when if when.tzinfo is None else when.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise InputError(f"'{plain(column.name)}' must be {wanted}, got {shown(value)}")


def _hour(when: date | time) -> float:
    """The hour of a time: 13.5 is half past one. A date alone is its midnight."""
    if not isinstance(when, datetime | time):
        return 0.0
    seconds = (when.hour * 60 + when.minute) * 60 + when.second
    return (seconds * 1_000_000 + when.microsecond) / float(_MICROSECONDS_AN_HOUR)


def _reader(column: FeatureColumn) -> Callable[[list[float]], Any]:
    """What reads the value of a column from the features of a row."""
    place, missing = column.place, column.missing
    if column.codes is None:
        return lambda row: _plain_number(row[place])
    labels: list[str | None] = list(column.codes)
    if missing is not None:
        labels[-1] = None
    return lambda row: labels[int(row[place])]


def _plain_number(value: float) -> float | int | None:
    """A number as people write it: whole ones without a point, none for what is missing."""
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= MAX_WHOLE_NUMBER else value


def _decode_date(column: DateColumn, row: list[float]) -> str | None:
    """A date or time in ISO form."""
    places = column.places
    if any(isnan(row[places[part]]) for part in ("day", "hour") if part in places):
        return None
    of_day = timedelta(microseconds=round(row[places["hour"]] * _MICROSECONDS_AN_HOUR)) if "hour" in places else None
    if "day" not in places:
        return (datetime.min + (of_day or timedelta())).time().isoformat()
    day = date.fromordinal(int(row[places["day"]]) + _FIRST_ORDINAL)
    return day.isoformat() if of_day is None else (datetime.combine(day, time()) + of_day).isoformat()
