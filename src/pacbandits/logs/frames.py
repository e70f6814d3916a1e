"""Logs from data frames, of whichever library: whatever hands its columns over as Arrow does."""

from __future__ import annotations

import re
from typing import Any, Protocol, Unpack

from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.logs.reading import Reading, ReadingOptions
from pacbandits.logs.tables import log_of_columns
from pacbandits.records import parquet
from pacbandits.records.arrow import pa
from pacbandits.records.contexts import Contexts
from pacbandits.records.identifiers import leave_out_identifiers
from pacbandits.records.log import Log


class DataFrame(Protocol):
    """A table in memory that hands its columns over as Arrow does."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


_RANGE = re.compile(r"--reward-range (-?[0-9.]+) (-?[0-9.]+)")
_VALUE = re.compile(r"--(split|least-propensity|actions|action|reward|propensity|contexts) ([\w.=]+(?:,[\w.=]+)*)")
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def log_of(frame: object, **reading: Unpack[Reading]) -> Log:
    """A log from a data frame of pandas, polars, DuckDB, …, or an Arrow table; reading: as for `read_log`."""
    try:
        return _log_of(frame, ReadingOptions(**reading))
    except InputError as error:
        raise InputError(in_python(str(error))) from None


def in_python(words: str) -> str:
    """A sentence that names options of the command line, with the arguments of Python in their place."""
    words = _RANGE.sub(r"reward_range=(\1, \2)", words)
    words = _VALUE.sub(lambda found: f"{_argument(found[1])}={_written(found[2])}", words)
    return _FLAG.sub(lambda found: "clip=True" if found[1] == "clip" else _argument(found[1]), words)


def _argument(flag: str) -> str:
    return "n_actions" if flag == "actions" else flag.replace("-", "_")


def _written(value: str) -> str:
    return value if value.replace(".", "").isdigit() else f'"{value}"'


def _log_of(frame: object, options: ReadingOptions) -> Log:
    if options.position is not None:
        raise InputError("a data frame has no positions; leave out the position")
    empty = Fields.read({}, of="description of the table")
    table = arrow_table(frame)
    coded = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    columns = parquet.columns_of(table, name="the data frame")
    return log_of_columns(columns, options, remarks=(), about=empty, line=None, coded=coded)


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
    table = arrow_table(frame)
    coded = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    columns = parquet.columns_of(table, name="the data frame")
    leave_out_identifiers(columns, coded=coded, keep=())
    return Contexts.from_columns(columns, n=int(table.num_rows))
