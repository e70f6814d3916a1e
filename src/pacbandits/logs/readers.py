"""Logs from files of any known format: a line for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pacbandits.checks import path_of, text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.logs.dsjson import read_dsjson
from pacbandits.logs.open_bandit import read_open_bandit
from pacbandits.logs.raw import ReadingOptions
from pacbandits.logs.tables import read_table
from pacbandits.records import parquet
from pacbandits.records.files import check_file, naming, why
from pacbandits.records.log import Log


@dataclass(frozen=True)
class LogFormat:
    """A format that logs come in.

    name: what it is called.
    endings: how the names of such files end.
    read: makes a log of a file.
    positions: whether it may hold several positions, of which one is taken.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path, ReadingOptions], Log]
    positions: bool = False


LOG_FORMATS = {
    form.name: form
    for form in (
        LogFormat("parquet", (".parquet", ".pq", ".parq"), read_table),
        LogFormat("csv", tuple(parquet.DELIMITERS), read_table),
        LogFormat("dsjson", (".dsjson", ".json", ".jsonl", ".ndjson"), read_dsjson),
        LogFormat("open-bandit", (".npz",), read_open_bandit, positions=True),
    )
}


def read_log(
    path: str | Path,
    *,
    n_actions: int | None = None,
    least_propensity: float | None = None,
    reward_range: tuple[float, float] | None = None,
    position: int | None = None,
    format: str | None = None,
) -> tuple[Log, tuple[str, ...]]:
    """A log from anyone's file, and what had to be assumed of it, in words; its certificates say so too.

    Parquet or CSV has columns `action`, `reward`, a `propensity` of the played action or `propensities` (lists) or
    `propensity_0`, `propensity_1`, … of all, optionally `round`, `repeats` and `context_id`; the others are features.
    Open Bandit Pipeline's feedback is an .npz file with its keys, and Vowpal Wabbit's dsjson has a line a decision.

    path: of the file.
    n_actions: how many there are, where the file does not tell.
    least_propensity: for logs with the propensity of the played action alone, what every action's was at least, always.
    reward_range: the least and the largest that rewards can be, if not 0 and 1.
    position: which one to take of a feedback with several.
    format: parquet, csv, dsjson or open-bandit; by the file's name if it is not given.

    >>> import pacbandits as pb
    >>> rows = ["age,action,reward,propensity", "20,plain,1,0.5", "30,plain,0,0.5", "40,discount,1,0.5"]
    >>> with open("clicks.csv", "w") as file:
    ...     print(*rows, sep="\\n", file=file)
    >>> log, assumed = pb.read_log("clicks.csv")
    >>> log.samples, log.n_actions, assumed[0]
    (3, 2, "action 0 is 'discount', action 1 is 'plain'")

    Raises:
        InputError: When the file cannot be read, a column is missing, or a value cannot be; it names which.
    """
    path = path_of(path)
    check_file(path)
    form = _format(path, format)
    if position is not None and not form.positions:
        raise InputError(f"{path} has no positions; leave out the position")
    with naming(path):
        log = form.read(path, ReadingOptions(n_actions, least_propensity, reward_range, position))
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
