"""Features that are made of dates, in the SQL of those databases whose functions are known to give the same.

SQLite keeps dates as text in ISO form, to the millisecond; its functions bring offsets to UTC, as reading a table does.
PostgreSQL has columns of type DATE, TIMESTAMP or TIME; a TIMESTAMP WITH TIME ZONE goes by the time zone of the session.
"""

from __future__ import annotations

from collections.abc import Mapping

from pacbandits.checks import text
from pacbandits.errors import InputError, nearest, plain, visible
from pacbandits.records.dates import WEEKDAYS, DatePart, Part

_POSTGRES_DAYS = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(WEEKDAYS, start=1))
# {} is the column. Hours are a whole number of the smallest unit divided by that of an hour: the very double that a
# policy compares with.
DIALECTS: dict[str, dict[Part, str]] = {
    "sqlite": {
        "weekday": f"substr('{WEEKDAYS[-1]}{''.join(WEEKDAYS[:-1])}', 1 + 3 * strftime('%w', {{}}), 3)",
        "day": "CAST(julianday(date({})) - 2440587.5 AS INTEGER)",
        "hour": "(strftime('%H', {}) * 3600000 + strftime('%M', {}) * 60000"
        " + CAST(round(strftime('%f', {}) * 1000) AS INTEGER)) / 3600000.0",
    },
    "postgresql": {
        "weekday": f"CASE EXTRACT(ISODOW FROM {{}}) {_POSTGRES_DAYS} END",
        "day": "CAST({} AS DATE) - DATE '1970-01-01'",
        "hour": "CAST(round(EXTRACT(EPOCH FROM CAST({} AS TIME)) * 1000000) AS DOUBLE PRECISION) / 3600000000.0",
    },
}
_MEANINGS: dict[Part, str] = {
    "weekday": f"the weekday of {{}}: {', '.join(WEEKDAYS)}",
    "day": "the day of {}, counted from 1970-01-01, which is 0",
    "hour": "the hour of {}: 13.5 is half past one",
}


def dates_in(made: Mapping[str, DatePart], dialect: str) -> dict[str, str]:
    """Expressions that make features of columns of dates in a database."""
    if text(dialect, name="dialect") not in DIALECTS:
        raise InputError(f"the dialect '{plain(dialect)}' has no functions of dates here{nearest(dialect, DIALECTS)}")
    return {name: f"({_expression(part, dialect)})" for name, part in made.items()}


def _expression(part: DatePart, dialect: str) -> str:
    return DIALECTS[dialect][part.part].replace("{}", quoted(part.column))


def date_comment(feature: str, part: DatePart) -> str:
    """Lines that say how a column of a feature is made of a column of dates."""
    shown = visible(quoted(part.column)).replace("\n", " ")
    lines = [f"{visible(quoted(feature))} is {_MEANINGS[part.part].replace('{}', shown)}"]
    if shown == quoted(part.column):  # what cannot be shown is not to be copied
        lines += [f"  in {dialect}: {_expression(part, dialect)}" for dialect in DIALECTS]
    return "".join(f"-- {' '.join(line.splitlines())}\n" for line in lines)


def quoted(feature: str) -> str:
    """A column in SQL."""
    return '"' + checked(feature).replace('"', '""') + '"'


def checked(words: str) -> str:
    """Words that SQL can hold."""
    try:
        words.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"'{plain(words)}' holds half a character, which SQL cannot hold; rename it") from None
    if "\0" in words:
        raise InputError(f"'{plain(words)}' holds a NUL character, which SQL cannot hold; rename it")
    return words
