"""Logs from data frames, of whichever library: whatever hands its columns over as Arrow does."""

from __future__ import annotations

from typing import Any, Protocol, Unpack

from pacbandits.errors import InputError
from pacbandits.logs.reading import Reading, ReadingOptions
from pacbandits.logs.tables import log_of_table
from pacbandits.records import parquet
from pacbandits.records.arrow import is_text, pa
from pacbandits.records.contexts import Contexts
from pacbandits.records.dates import dates_in_text
from pacbandits.records.identifiers import leave_out_identifiers
from pacbandits.records.log import Log


class DataFrame(Protocol):
    """A table in memory that hands its columns over as Arrow does."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def log_of(frame: object, **reading: Unpack[Reading]) -> Log:
    """A log from a data frame of pandas, polars, DuckDB, …, or an Arrow table; reading: as for `read_log`."""
    options = ReadingOptions(**reading)
    if options.position is not None:
        raise InputError("a data frame has no positions; leave out --position")
    table = parquet.table_of(arrow_table(frame), name="the data frame")
    own = {options.action or "action", options.time, options.unit, *table.coded}
    for name in [name for name, column in table.columns.items() if name not in own and is_text(column.type)]:
        dates = dates_in_text(table.columns[name])  # as in a file of text
        if dates is not None:
            table.columns[name] = dates
    return log_of_table(table, options)


def arrow_table(frame: object) -> Any:
    """The data frame as an Arrow table."""
    if not isinstance(frame, pa.Table):
        if not hasattr(frame, "__arrow_c_stream__"):
            raise InputError(
                f"a {type(frame).__name__} is neither a log nor a data frame that Arrow can read; give a Log, an Arrow "
                "table, or a data frame of pandas 2.2, polars 1 or newer"
            )
        return pa.table(frame)
    return frame


def contexts_of(frame: object) -> Contexts:
    """People from a data frame, every column a feature but for those that look like identifiers."""
    table = parquet.table_of(arrow_table(frame), name="the data frame")
    n = table.n_rows
    leave_out_identifiers(table.columns, coded=table.coded, keep=())
    return Contexts.from_columns(table.columns, n=n)
