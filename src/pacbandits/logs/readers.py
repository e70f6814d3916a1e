"""Logs from files of any known format: a line for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Unpack

from pacbandits.checks import path_of, text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.logs.dsjson import read_dsjson
from pacbandits.logs.log_table import log_of_file, log_of_table
from pacbandits.logs.open_bandit import read_open_bandit
from pacbandits.logs.reading_options import Reading, ReadingOptions, check_arguments
from pacbandits.records import parquet
from pacbandits.records.column_types import dates_in_text, leave_out_identifiers
from pacbandits.records.columns import is_text, pa
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.text_files import check_file, naming, why


@dataclass(frozen=True)
class LogFormat:
    """A format that logs come in.

    name: what it is called.
    endings: how the names of such files end.
    read: makes a log of a file.
    positions: whether it may hold several positions, of which one is taken.
    columns: whether its columns have names of the author's own, so that the reader says which is what.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path, ReadingOptions], Log]
    positions: bool = False
    columns: bool = False


LOG_FORMATS = {
    form.name: form
    for form in (
        LogFormat("parquet", (".parquet", ".pq", ".parq"), log_of_file, columns=True),
        LogFormat("csv", tuple(parquet.DELIMITERS), log_of_file, columns=True),
        LogFormat("dsjson", (".dsjson", ".json", ".jsonl", ".ndjson"), read_dsjson),
        LogFormat("open-bandit", (".npz",), read_open_bandit, positions=True),
    )
}


def read_log(path: str | Path, *, format: str | None = None, **reading: Unpack[Reading]) -> tuple[Log, tuple[str, ...]]:
    """A log from anyone's file, and what had to be assumed of it, in words; its certificates say so too.

    Parquet or CSV has columns `action`, `reward`, a `propensity` of the played action or `propensities` (lists) or
    `propensity_0`, `propensity_1`, … of all, optionally `round`, `repeats` and `context_id`; the others are features.
    Open Bandit Pipeline's feedback is an .npz file with its keys, and Vowpal Wabbit's dsjson has a line a decision.

    path: of the file.
    format: parquet, csv, dsjson or open-bandit; by the file's name if it is not given.
    reading: what the file does not tell:
        action, reward, propensity: the columns that hold these, if they are not called so.
        split: the propensities, where everybody had the same: `uniform`, or those of each action (`a=0.4,b=0.6`).
        reward_range: the least and the largest that rewards can be, if not 0 and 1.
        clip: whether rewards beyond the range are cut to it, which makes another reward of them.
        time: the column that tells when a row occurred, by which rows are brought into order.
        time_format: how times are written in it (`%d/%m/%Y`, as strptime has it), where it leaves that open.
        unit: the column that tells whose row it is, where people come back: what is counted then are people.
        features, without: the columns to use as features, if not all that are left; columns to leave out.
        keep: columns that stay features though they look like identifiers, outcomes, or the time.
        n_actions: how many there are.
        least_propensity: for logs with the propensity of the played action alone, what every action's was at least.
        position: which one to take of a feedback with several.

    >>> import pacbandits as pb
    >>> rows = ["age,variant,spent", "20,plain,1", "30,plain,0", "40,discount,9"]
    >>> with open("test.csv", "w") as file:
    ...     print(*rows, sep="\\n", file=file)
    >>> log, assumed = pb.read_log("test.csv", action="variant", reward="spent", split="uniform", reward_range=(0, 10))
    >>> log.action_names, log.reward_range, log.contexts.names
    (('discount', 'plain'), (0.0, 10.0), ('age',))

    Raises:
        InputError: When the file cannot be read, a column is missing, or a value cannot be; it names which.
    """
    check_arguments(reading, of="read_log", others=("format",))
    path = path_of(path)
    check_file(path)
    form = _format(path, format)
    options = ReadingOptions(**reading)
    if options.position is not None and not form.positions:
        raise InputError(f"{path} has no positions; leave out --position")
    if not form.columns and (said := options.of_columns):
        raise InputError(f"{path} is in a format with columns of its own; leave out --{said[0]}")
    with naming(path):
        log = form.read(path, options)
    return log, log.assumed


def _format(path: Path, asked: str | None) -> LogFormat:
    if asked is not None:
        if text(asked, name="format") not in LOG_FORMATS:
            raise InputError(f"unknown format '{plain(asked)}'{nearest(asked, LOG_FORMATS)}")
        return LOG_FORMATS[asked]
    end = parquet.suffix(path)
    for form in LOG_FORMATS.values():
        if end in form.endings:
            return form
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PAR1":
                return LOG_FORMATS["parquet"]
    except OSError as error:
        raise InputError(f"cannot read {path}: {why(error)}") from None
    known = ", ".join(end for form in LOG_FORMATS.values() for end in form.endings)
    raise InputError(f"{path} does not end as the name of a log does ({known})")


# Logs from data frames, of whichever library: whatever hands its columns over as Arrow does.


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
