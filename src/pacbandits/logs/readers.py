"""Read logs from files of any supported format, and from data frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Unpack

from pacbandits.checks import path_of, text
from pacbandits.errors import InputError, nearest, option_of, plain
from pacbandits.logs.dsjson import read_dsjson
from pacbandits.logs.log_table import drop_features, log_of_file, log_of_table
from pacbandits.logs.open_bandit import read_open_bandit
from pacbandits.logs.reading_options import ReadingOptions, StoredReading, check_arguments
from pacbandits.records import parquet
from pacbandits.records.column_types import dates_in_text, leave_out_identifiers
from pacbandits.records.columns import is_text, pa
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.text_files import check_file, naming, why


@dataclass(frozen=True)
class LogFormat:
    """A file format of logs.

    name: its name.
    endings: the suffixes of such files.
    read: makes a log from a file.
    positions: whether it may hold several positions, of which one is read.
    columns: whether its author names the columns, so that options say which is which.
    takes: the options of columns that it takes otherwise.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path, ReadingOptions], Log]
    positions: bool = False
    columns: bool = False
    takes: tuple[str, ...] = ()


LOG_FORMATS = {
    form.name: form
    for form in (
        LogFormat("parquet", (".parquet", ".pq", ".parq"), log_of_file, columns=True),
        LogFormat("csv", tuple(parquet.DELIMITERS), log_of_file, columns=True),
        LogFormat("dsjson", (".dsjson", ".json", ".jsonl", ".ndjson"), read_dsjson, takes=("action",)),
        LogFormat("open-bandit", (".npz",), read_open_bandit, positions=True),
    )
}


def read_log(
    path: str | Path, *, format: str | None = None, **reading: Unpack[StoredReading]
) -> tuple[Log, tuple[str, ...]]:
    """Return a log from a file, and the assumptions made about it, in words; its certificates repeat them.

    Parquet or CSV has columns `action`, `reward`, a `propensity` of the played action or `propensities` (lists) or
    `propensity_0`, `propensity_1`, … of all, optionally `round`, `repeats` and `context_id`; the others are features.
    Open Bandit Pipeline's feedback is an .npz file with its keys, and Vowpal Wabbit's dsjson has a line a decision.

    path: the file.
    format: parquet, csv, dsjson or open-bandit; by default from the file's suffix.
    reading: what the file does not say:
        action, reward, propensity: the columns that hold these, if they have other names; in dsjson action is the
            field that identifies an action, `_tag` or `i.id`, if not its place.
        split: the propensities, if they were the same for everybody: `uniform`, or each action's (`a=0.4,b=0.6`); or
            those of each block, by action.
        reward_range: the smallest and the largest possible reward, if not 0 and 1.
        clip: whether rewards beyond the range are clipped to it, which changes the outcome that is measured.
        time: the column with the time of each row, by which rows are sorted.
        time_format: the format of its times (`%d/%m/%Y`, for strptime), if it is ambiguous.
        age: columns of dates that become one feature each: the number of days before that time.
        unit: the column that identifies returning users; sample sizes then count users.
        block: the column of the blocks within which actions were drawn; without propensities, counted in each of them.
        order: "none" if the order of rows in the file means nothing.
        features, without: the feature columns, if not all others; columns to drop.
        keep: columns that stay features though they look like identifiers, outcomes, or the time.
        metrics: columns of outcomes beside the reward, with their ranges if not 0 to 1: `["returned", ("minutes", 0,
            600)]`; a ratio of two has two ranges, `("revenue/orders", 0, 500, 0, 20)`.
        n_actions: the number of actions.
        least_propensity: the minimum propensity of every action, for logs with only that of the played action.
        position: the position to use of a feedback with several.
        dropped: feature columns to leave out if the file has them, as a certificate lists those of no use.

    >>> import pacbandits as pb
    >>> rows = ["age,variant,spent", "20,plain,1", "30,plain,0", "40,discount,9"]
    >>> with open("test.csv", "w") as file:
    ...     print(*rows, sep="\\n", file=file)
    >>> log, assumed = pb.read_log("test.csv", action="variant", reward="spent", split="uniform", reward_range=(0, 10))
    >>> log.action_names, log.reward_range, log.contexts.names
    (('discount', 'plain'), (0.0, 10.0), ('age',))

    Raises:
        InputError: If the file cannot be read, a column is missing, or a value is invalid; it names which.
    """
    check_arguments(reading, of="read_log", others=("format",))
    path = path_of(path)
    check_file(path)
    form = _format(path, format)
    options = ReadingOptions(**reading)
    if options.position is not None and not form.positions:
        raise InputError(f"{path} has no positions; leave out --position")
    if not form.columns and (said := [name for name in options.of_columns if name not in form.takes]):
        raise InputError(f"{path} has a format with fixed columns; leave out {option_of(said[0])}")
    with naming(path):
        log = drop_features(form.read(path, options), options.dropped)
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
    raise InputError(f"{path} has an unknown file ending (known: {known})")


# Logs from data frames of any library that exports Arrow streams.


class DataFrame(Protocol):
    """A table in memory that exports an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def log_of(frame: object, **reading: Unpack[StoredReading]) -> Log:
    """Return a log from a data frame of pandas, polars, DuckDB, …, or an Arrow table; reading: as for `read_log`."""
    options = ReadingOptions(**reading)
    if options.position is not None:
        raise InputError("a data frame has no positions; leave out --position")
    table = parquet.table_of(arrow_table(frame), name="the data frame")
    own = {options.action or "action", options.time, options.unit, *table.coded}
    for name in [name for name, column in table.columns.items() if name not in own and is_text(column.type)]:
        dates = dates_in_text(table.columns[name])  # as in a text file
        if dates is not None:
            table.columns[name] = dates
    return drop_features(log_of_table(table, options), options.dropped)


def arrow_table(frame: object) -> Any:
    """Return the data frame as an Arrow table."""
    if not isinstance(frame, pa.Table):
        if not hasattr(frame, "__arrow_c_stream__"):
            raise InputError(
                f"a {type(frame).__name__} is neither a log nor a data frame that Arrow can read; give a Log, an Arrow "
                "table, or a data frame of pandas 2.2, polars 1 or newer"
            )
        return pa.table(frame)
    return frame


def contexts_of(frame: object) -> Contexts:
    """Return contexts from a data frame: every column is a feature, except those that look like identifiers."""
    table = parquet.table_of(arrow_table(frame), name="the data frame")
    n = table.n_rows
    leave_out_identifiers(table.columns, coded=table.coded, keep=())
    return Contexts.from_columns(table.columns, n=n)
