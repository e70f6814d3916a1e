"""The SQL of databases: how each quotes names and texts, and makes features of dates, as its manual has it.

SQLite keeps dates as text in ISO form, to the millisecond; its functions bring offsets to UTC, as reading a table does.
PostgreSQL has columns of type DATE, TIMESTAMP or TIME; a TIMESTAMP WITH TIME ZONE goes by the time zone of the session.
The others take DATE and what has a time of day besides: TIMESTAMP in DuckDB, DATETIME or TIMESTAMP in BigQuery (in UTC)
and MySQL (in the time zone of the session), TIMESTAMP_NTZ in Snowflake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pacbandits.checks import text
from pacbandits.errors import InputError, nearest, plain, visible
from pacbandits.records.dates import WEEKDAYS, DatePart, Part

_POSTGRES_DAYS = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(WEEKDAYS, start=1))
_ALL_DAYS = "".join(WEEKDAYS)


@dataclass(frozen=True)
class Dialect:
    """The SQL of a database.

    parts: what makes each part of a date; {} is the column. Hours are a whole number of the smallest unit divided by
        that of an hour: the very double that a policy compares with.
    mark: what stands around the name of a column.
    backslash: whether it begins an escape in texts.
    twice: whether a mark within a name, or a quote within a text, is written twice, and not after a backslash.
    double: the type of a number in double precision.
    same: whether {} is the text {}, to the letter.
    """

    parts: Mapping[Part, str]
    mark: str = '"'
    backslash: bool = False
    twice: bool = True
    double: str = "DOUBLE PRECISION"
    same: str = "{} = {}"

    def name(self, column: str) -> str:
        """A column."""
        return self._between(self.mark, column, backslash=not self.twice)

    def literal(self, words: str) -> str:
        """A text."""
        return self._between("'", words, backslash=self.backslash)

    def _between(self, mark: str, words: str, *, backslash: bool) -> str:
        """Words between two marks; backslash: whether one begins an escape there."""
        shown = checked(words)
        if backslash:
            shown = shown.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        return mark + shown.replace(mark, 2 * mark if self.twice else f"\\{mark}") + mark

    def equals(self, column: str, words: str) -> str:
        """Whether what stands for a column is a text."""
        return self.same.format(column, self.literal(words))


STANDARD = Dialect({})
DIALECTS: dict[str, Dialect] = {
    "sqlite": Dialect(
        {
            "weekday": f"substr('{WEEKDAYS[-1]}{''.join(WEEKDAYS[:-1])}', 1 + 3 * strftime('%w', {{}}), 3)",
            "day": "CAST(julianday(date({})) - 2440587.5 AS INTEGER)",
            "hour": "(strftime('%H', {}) * 3600000 + strftime('%M', {}) * 60000"
            " + CAST(round(strftime('%f', {}) * 1000) AS INTEGER)) / 3600000.0",
        }
    ),
    "postgresql": Dialect(
        {
            "weekday": f"CASE EXTRACT(ISODOW FROM {{}}) {_POSTGRES_DAYS} END",
            "day": "CAST({} AS DATE) - DATE '1970-01-01'",
            "hour": "CAST(round(EXTRACT(EPOCH FROM CAST({} AS TIME)) * 1000000) AS DOUBLE PRECISION) / 3600000000.0",
        }
    ),
    "duckdb": Dialect(
        {
            "weekday": f"substr('{_ALL_DAYS}', 3 * CAST(isodow(CAST({{}} AS DATE)) AS INTEGER) - 2, 3)",
            "day": "date_diff('day', DATE '1970-01-01', CAST({} AS DATE))",
            "hour": "CAST(date_diff('microsecond', date_trunc('day', CAST({} AS TIMESTAMP)), CAST({} AS TIMESTAMP))"
            " AS DOUBLE) / 3600000000.0",
        },
        double="DOUBLE",
    ),
    "bigquery": Dialect(
        {
            "weekday": "FORMAT_DATE('%a', CAST({} AS DATE))",
            "day": "UNIX_DATE(CAST({} AS DATE))",
            "hour": "CAST(DATETIME_DIFF(CAST({} AS DATETIME), DATETIME_TRUNC(CAST({} AS DATETIME), DAY), MICROSECOND)"
            " AS FLOAT64) / 3600000000.0",
        },
        mark="`",
        backslash=True,
        twice=False,
        double="FLOAT64",
    ),
    "snowflake": Dialect(
        {
            "weekday": "DAYNAME(CAST({} AS DATE))",
            "day": "DATEDIFF('day', DATE '1970-01-01', CAST({} AS DATE))",
            "hour": "CAST(DATEDIFF('microsecond', CAST(CAST({} AS DATE) AS TIMESTAMP_NTZ), CAST({} AS TIMESTAMP_NTZ))"
            " AS DOUBLE) / CAST(3600000000 AS DOUBLE)",
        },
        backslash=True,
    ),
    # Texts are the same there whatever their case, and with blanks behind them; as bytes they are not.
    "mysql": Dialect(
        {
            "weekday": f"SUBSTRING('{_ALL_DAYS}', 3 * WEEKDAY({{}}) + 1, 3)",
            "day": "DATEDIFF({}, '1970-01-01')",
            "hour": "TIMESTAMPDIFF(MICROSECOND, CAST({} AS DATE), CAST({} AS DATETIME(6))) / 3600000000e0",
        },
        mark="`",
        backslash=True,
        double="DOUBLE",
        same="CAST(CONVERT({} USING utf8mb4) AS BINARY) = CAST(CONVERT({} USING utf8mb4) AS BINARY)",
    ),
}
_EXPLAINED = ("sqlite", "postgresql")  # in comments, where no dialect is asked for
_MEANINGS: dict[Part, str] = {
    "weekday": f"the weekday of {{}}: {', '.join(WEEKDAYS)}",
    "day": "the day of {}, counted from 1970-01-01, which is 0",
    "hour": "the hour of {}: 13.5 is half past one",
}


def dialect_of(name: str | None) -> Dialect:
    """The SQL of a database of this name; without one, that of the standard."""
    if name is None:
        return STANDARD
    if text(name, name="dialect") not in DIALECTS:
        raise InputError(f"the dialect '{plain(name)}' is not known here{nearest(name, DIALECTS)}")
    return DIALECTS[name]


def dates_in(made: Mapping[str, DatePart], dialect: Dialect) -> dict[str, str]:
    """Expressions that make features of columns of dates in a database."""
    return {name: f"({_expression(part, dialect)})" for name, part in made.items()}


def _expression(part: DatePart, dialect: Dialect) -> str:
    return dialect.parts[part.part].replace("{}", dialect.name(part.column))


def date_comment(feature: str, part: DatePart) -> str:
    """Lines that say how a column of a feature is made of a column of dates."""
    shown = visible(STANDARD.name(part.column)).replace("\n", " ")
    lines = [f"{visible(STANDARD.name(feature))} is {_MEANINGS[part.part].replace('{}', shown)}"]
    if shown == STANDARD.name(part.column):  # what cannot be shown is not to be copied
        lines += [f"  in {dialect}: {_expression(part, DIALECTS[dialect])}" for dialect in _EXPLAINED]
    return "".join(f"-- {' '.join(line.splitlines())}\n" for line in lines)


def checked(words: str) -> str:
    """Words that SQL can hold."""
    try:
        words.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"'{plain(words)}' holds half a character, which SQL cannot hold; rename it") from None
    if "\0" in words:
        raise InputError(f"'{plain(words)}' holds a NUL character, which SQL cannot hold; rename it")
    return words
