"""Encode contexts, given as mappings from columns to values, as features; and decode features.

Nothing is coerced. A value that does not fit its column in the protocol's contexts raises an error that names the
column: showing a standard page is better than silently confusing one country with another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import finite, is_whole, shown
from pacbandits.errors import InputError, close_to, nearest, plain
from pacbandits.records import Contexts
from pacbandits.records.column_types import Part, date_parts
from pacbandits.records.columns import ID_COLUMN, tells_missing
from pacbandits.schema import MAX_WHOLE_NUMBER

if TYPE_CHECKING:
    from pacbandits.experiment.protocol import ExperimentProtocol

_FIRST_ORDINAL = date(1970, 1, 1).toordinal()
_MICROSECONDS_AN_HOUR = 3_600_000_000


class FeatureColumn(NamedTuple):
    """A column that is a feature itself.

    place: index of the feature.
    name: name of column and feature.
    codes: codes of the labels; None for a numeric column.
    missing: the number that encodes a missing value; None if values may not be missing.
    flags: whether true and false are accepted as 1 and 0.
    """

    place: int
    name: str
    codes: Mapping[str, int] | None
    missing: float | None
    flags: bool


class DateColumn(NamedTuple):
    """A column of dates or times, from which features are derived.

    name: name of the column.
    places: indices of the derived features.
    missing: their values for a missing date; None if dates may not be missing.
    """

    name: str
    places: Mapping[Part, int]
    missing: tuple[float, ...] | None


class Encoded(NamedTuple):
    """Encoded contexts.

    features (n, d): the features of the protocol; 0 in rows with an error.
    ids (n,): ids of the contexts; None if the contexts have none.
    errors: errors by row number, from 0.
    """

    features: FloatArray
    ids: IntArray | None
    errors: Mapping[int, InputError]


@dataclass(frozen=True, eq=False)
class Encoder:
    """Encodes contexts as features, and decodes features.

    contexts: contexts that define the features.
    columns: columns of numbers and labels.
    dates: columns of dates and times.
    lenient: whether an unknown label counts as a missing value.

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
        """Return the encoder for contexts like these; dates: columns that features were derived from."""
        made = date_parts(contexts.names, dates)
        columns = tuple(_column(contexts, place, name) for place, name in enumerate(contexts.names) if name not in made)
        by_name: dict[str, dict[Part, int]] = {}
        for feature, part in made.items():
            by_name.setdefault(part.column, {})[part.part] = contexts.names.index(feature)
        spread = tuple(DateColumn(name, places, _missing_date(contexts, places)) for name, places in by_name.items())
        return cls(contexts, columns, spread, lenient)

    @classmethod
    def for_protocol(cls, protocol: ExperimentProtocol) -> Encoder:
        """Return the encoder for the contexts of an experiment."""
        lenient = protocol.unknown_labels == "missing"
        return cls.of(protocol.contexts, dates=protocol.date_columns, lenient=lenient)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns that a context must have."""
        known = (*(one.name for one in self.columns), *(one.name for one in self.dates))
        return known if self.contexts.ids is None else (*known, ID_COLUMN)

    def encode(self, rows: Sequence[object]) -> Encoded:
        """Encode contexts, each a mapping from all columns to JSON-compatible values."""
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
        """Return values by column from features (n, d), so that `encode` gives the same features."""
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
        """Encode one context, with its id last; the common cases are inlined for speed."""
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
        """Return the code of a missing or unknown label; raise InputError if it is not allowed."""
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
        """Return the id of a context; raise InputError if it is invalid."""
        assert self.contexts.ids is not None
        last = int(self.contexts.ids.max())
        if not is_whole(value) or not 0 <= int(value) <= last:
            raise InputError(f"'{ID_COLUMN}' must be a whole number from 0 to {last}, got {shown(value)}")
        return float(value)

    def _lacking(self, given: Mapping[str, object]) -> InputError:
        """Return the error for a missing column, with a similar name among the given ones."""
        name = next(one for one in self.names if one not in given)
        extra = [str(one) for one in given if one not in self.names]
        meant = close_to(name, extra)
        hint = "" if meant is None else f"; '{plain(meant)}' may be meant for it"
        return InputError(f"the context lacks '{plain(name)}'{hint}; give null where the value is not known")

    def _unknown(self, given: Mapping[str, object]) -> InputError:
        """Return the error for a column that the experiment does not have."""
        name = next(str(one) for one in given if one not in self.names)
        return InputError(
            f"the context has '{plain(name)}', which is no column{nearest(name, self.names)}; leave it out"
        )


def _column(contexts: Contexts, place: int, name: str) -> FeatureColumn:
    """Return the column of a feature that is not derived from a date."""
    labels, values = contexts.categories[place], contexts.features[:, place]
    if labels is not None:
        missing = float(len(labels) - 1) if tells_missing(labels) else None
        return FeatureColumn(place, name, {label: code for code, label in enumerate(labels)}, missing, False)
    known = values[~np.isnan(values)]
    flags = bool(np.isin(known, (0.0, 1.0)).all())
    return FeatureColumn(place, name, None, np.nan if len(known) < len(values) else None, flags)


def _missing_date(contexts: Contexts, places: Mapping[Part, int]) -> tuple[float, ...] | None:
    """Return the feature values of a missing date, in the order of the places; None if dates may not be missing."""
    columns = [_column(contexts, place, contexts.names[place]).missing for place in places.values()]
    return None if any(one is None for one in columns) else tuple(one for one in columns if one is not None)


def _missing(column: FeatureColumn) -> float:
    """Return the number that encodes a missing value; raise InputError if values may not be missing."""
    if column.missing is None:
        raise InputError(
            f"'{plain(column.name)}' is null, and was never missing in the contexts of the experiment; give a value"
        )
    return column.missing


def _number(column: FeatureColumn, value: object) -> float:
    """Encode a value of a numeric column that is not an ordinary float or integer."""
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
    """Write the features derived from a date or time to their places in `made`."""
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
    """Return a date or a time of day; date-times in text with an offset are converted to UTC, as in tables."""
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
    """Return the hour of a time, 13.5 for 13:30; 0 for a date without a time."""
    if not isinstance(when, datetime | time):
        return 0.0
    seconds = (when.hour * 60 + when.minute) * 60 + when.second
    return (seconds * 1_000_000 + when.microsecond) / float(_MICROSECONDS_AN_HOUR)


def _reader(column: FeatureColumn) -> Callable[[list[float]], Any]:
    """Return a function that decodes the value of a column from the features of a row."""
    place, missing = column.place, column.missing
    if column.codes is None:
        return lambda row: _plain_number(row[place])
    labels: list[str | None] = list(column.codes)
    if missing is not None:
        labels[-1] = None
    return lambda row: labels[int(row[place])]


def _plain_number(value: float) -> float | int | None:
    """Return a whole number as int, any other as float, and None for a missing one."""
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= MAX_WHOLE_NUMBER else value


def _decode_date(column: DateColumn, row: list[float]) -> str | None:
    """Decode a date or time to ISO 8601 text; None if it is missing."""
    places = column.places
    if any(isnan(row[places[part]]) for part in ("day", "hour") if part in places):
        return None
    of_day = timedelta(microseconds=round(row[places["hour"]] * _MICROSECONDS_AN_HOUR)) if "hour" in places else None
    if "day" not in places:
        return (datetime.min + (of_day or timedelta())).time().isoformat()
    day = date.fromordinal(int(row[places["day"]]) + _FIRST_ORDINAL)
    return day.isoformat() if of_day is None else (datetime.combine(day, time()) + of_day).isoformat()
