"""Options for reading a log and for the compute engine, shared by all commands that read one."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbandits.cli.console import as_rate, say
from pacbandits.errors import InputError, nearest, one_line, plain

if TYPE_CHECKING:
    from typing import Unpack

    from pacbandits.engines import base
    from pacbandits.engines.dask import DaskEngine
    from pacbandits.logs.readers import LocalFiles
    from pacbandits.logs.reading_options import Reading
    from pacbandits.policies import Restrictions
    from pacbandits.proofs import Proof
    from pacbandits.records import Contexts, Log


# Options for reading a log.


Actions = Annotated[
    int | None,
    typer.Option("--actions", help="Number of actions (default: the largest in the log, plus one)."),
]
LeastPropensity = Annotated[
    float | None,
    typer.Option(
        parser=as_rate,
        metavar="RATE",
        help="For logs that hold only the propensity of the logged action: the minimum propensity of every action in "
        "every row. 0 if unknown; a larger value allows stronger claims.",
    ),
]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Smallest and largest possible reward (default: 0 1). All results are in these units.",
    ),
]
Clip = Annotated[
    bool,
    typer.Option(
        "--clip",
        help="Clip rewards to [cyan]--reward-range[/]. All results are then about the clipped reward, e.g. the "
        "smaller of revenue and 500.",
    ),
]
ActionColumn = Annotated[
    str | None,
    typer.Option(
        "--action",
        metavar="COLUMN",
        help="Action column (default: [cyan]action[/]). In dsjson the field that identifies an action, _tag or i.id.",
    ),
]
RewardColumn = Annotated[
    str | None,
    typer.Option("--reward", metavar="COLUMN", help="Reward column (default: [cyan]reward[/])."),
]
PropensityColumn = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        metavar="COLUMN",
        help="Column with the propensity of the logged action (default: [cyan]propensity[/]).",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="Assignment probabilities if they were the same for everyone, as in an A/B/n test: [cyan]uniform[/], or "
        "one per action, [cyan]a=0.4,b=0.6[/]. With [cyan]--block[/] also a CSV file with the columns block, action "
        "and probability."
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Timestamp column. Rows are sorted by it; rows with equal timestamps keep their order.",
    ),
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        help="Format of ambiguous timestamps in the [cyan]--time[/] column, such as 01/02/2024: [cyan]%d/%m/%Y[/], "
        "[cyan]%m/%d/%Y %H:%M[/], … (strptime).",
    ),
]
Ages = Annotated[
    list[str] | None,
    typer.Option(
        "--age",
        metavar="COLUMN",
        help="Column of dates, to be used as the number of days before [cyan]--time[/]: a rule then reads [cyan]signup "
        "at most 90 days before shown_at[/]. May be repeated.",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="User ID column, if users return: rows of one user are not independent, so the analysis counts users "
        "instead of rows.",
    ),
]
Block = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Block column (school, site), if actions were drawn within blocks: with the probabilities of "
        "[cyan]--split[/]; without it, so many of each action in each block as the table counts. A feature of the "
        "reward model; of policies only with [cyan]--features +COLUMN[/].",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="none",
        help="[cyan]none[/] if the order of rows in the file means nothing: drift along it is then not looked for.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help="Feature columns (default: all remaining columns); [cyan]+A,+B[/] adds columns that would be left out.",
    ),
]
Without = Annotated[str | None, typer.Option(metavar="A,B,…", help="Columns to leave out of the features.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="COLUMN [LOW HIGH]",
        help="Outcome beside the reward, with its range if not 0 to 1: [cyan]returned[/] or [cyan]'minutes 0 600'[/]; "
        "a ratio of two columns, with the range of each: [cyan]'revenue/orders 0 500 0 20'[/]. May be repeated.",
    ),
]
Position = Annotated[int | None, typer.Option(help="The position to analyse, if Open Bandit feedback has several.")]
Sql = Annotated[
    str | None,
    typer.Option(
        "--sql",
        metavar="QUERY",
        help="Read the rows of this query, from the database of [cyan]--connection[/], instead of a file. Rows "
        "keep the order of an ORDER BY at its end; without one they have no order.",
    ),
]
Connection = Annotated[
    str | None,
    typer.Option(
        "--connection",
        metavar="URL",
        envvar="PACBANDITS_CONNECTION",
        show_envvar=True,
        help="The database of [cyan]--sql[/]: [cyan]duckdb:///shop.db[/] (a file here; "
        "[cyan]duckdb:////data/shop.db[/] from the root on), [cyan]duckdb://[/] (none, for queries of files), or [cyan]postgresql://user@host/shop[/].",
    ),
]


def open_sources(
    names: list[str] | None, sql: str | None = None, connection: str | None = None
) -> AbstractContextManager[LocalFiles]:
    """Return a context of files to read: those that are named, or copies of URLs or of a query's rows."""
    from pacbandits.logs.readers import as_remote, local_copies

    if sql is None:
        if not names:
            raise InputError("the log is missing: name its file or URL, or give --sql and --connection")
        return local_copies(list(names))
    if names:
        raise InputError(f"--sql and {plain(names[0])} both name rows to read; leave one of them out")
    if connection is None:
        raise InputError("--sql needs the database; add --connection duckdb:///shop.db or postgresql://user@host/shop")
    if not sql.strip():
        raise InputError("--sql is empty; write a query such as 'select * from test'")
    remote = as_remote(connection, sql=sql)
    if remote is None:
        raise InputError(
            f"--connection '{plain(connection)}' is not the URL of a database; write duckdb:///{plain(connection)}, or "
            "postgresql://user@host/shop"
        )
    return local_copies([remote])


def open_log(log: Path, reading: dict[str, Any], *, proof: Proof | None = None) -> Log:
    """Return the log in a file, or a past log by name; proof: a certificate that records how its log was read."""
    from pacbandits.analysis import check_kept, read_data
    from pacbandits.problems.past_logs import PAST_LOGS

    if proof is None or (str(log) in PAST_LOGS and not log.exists()):
        return read_data(log, reading)
    read = proof.log(log, reading=reading)
    check_kept(read, reading, log)
    return read


def open_proof(certificate: Path, log: Path | None) -> Proof:
    """Return the certificate in a file; log: the next argument, to detect that the two were swapped."""
    from pacbandits.logs.readers import LOG_FORMATS
    from pacbandits.proofs import load_certificate
    from pacbandits.records.parquet import suffix

    tables = [ending for name in ("csv", "parquet", "open-bandit") for ending in LOG_FORMATS[name].endings]
    if suffix(certificate) in tables:
        turned = " the two are the wrong way round:" if log is not None and suffix(log) == ".json" else ""
        raise InputError(f"{certificate} is a table, not a certificate;{turned} the certificate comes first")
    if log is not None and log == certificate:
        raise InputError(f"{certificate} is given twice; give the certificate first, then the table")
    return load_certificate(certificate)


def read_contexts(path: Path, *, name: str | None = None, **columns: Any) -> Contexts:
    """Return the contexts in a file; remarks on how it was read go to standard error.

    name: of the file in messages. columns: which are features, as in `Contexts.read_with_remarks`.
    """
    from pacbandits.records import Contexts

    contexts, remarks = Contexts.read_with_remarks(path, **columns)
    for words in remarks:
        say(f"{name or path}: {one_line(words)}", err=True)
    return contexts


def reading_options(
    *, columns: str | None = None, left_out: str | None = None, **given: Unpack[Reading]
) -> dict[str, Any]:
    """Return the given options, by their names in `read_log`.

    columns, left_out: features and excluded columns, separated by commas.
    """
    from pacbandits.logs.blocks import read_split
    from pacbandits.logs.reading_options import ReadingOptions

    count = given.get("n_actions")
    if count is not None and count < 1:
        raise InputError(f"--actions must be 1 or more, got {count}")
    asked: Any = {**given, "split": read_split(given.get("split"))}
    options = ReadingOptions(**asked)
    if left_out is not None:
        options = replace(options, without=tuple(map(str.strip, left_out.split(","))))
    if columns is not None:
        names = tuple(map(str.strip, columns.split(",")))
        added = [name.startswith("+") for name in names]
        if any(added) and not all(added):
            raise InputError(
                f"--features {plain(columns)} both names columns and adds some with +; put + before all, or before none"
            )
        kept = tuple(name[1:].strip() for name in names)
        options = replace(options, keep=kept) if all(added) else replace(options, features=names)
    return options.to_json()


# Options for the compute engine.


ENGINES = ("threads", "stream", "dask", "cuda")
PLAYERS = ("threads", "dask")  # of simulations, which have no rows to stream and little work for a GPU

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Compute engine: [cyan]threads[/] (cores of this machine, all rows in memory), [cyan]stream[/] (the "
        "same, rows read in chunks), [cyan]dask[/] (worker processes on one or many machines), [cyan]cuda[/] (a GPU). "
        "The result is the same.",
    ),
]
Player = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Where simulated trials run: [cyan]threads[/] (this machine, the default) or [cyan]dask[/] (worker "
        "processes on one or many machines). Each trial is the same on either.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="With [cyan]--engine dask[/]: address of the scheduler of a running cluster, [cyan]tcp://head:8786[/]. "
        "If omitted, one is started on this machine.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Number of cores or worker processes (default: all cores of this machine); with [cyan]--scheduler[/], "
        "the number of its workers used at once.",
    ),
]


def check_engine(
    name: str | None, *, scheduler: str | None, workers: int | None, known: tuple[str, ...] = ENGINES
) -> None:
    """Raise, before anything is read, if the options are inconsistent; name: None for the default engine."""
    if name is not None and name not in ENGINES:
        raise InputError(f"there is no engine '{plain(name)}'{nearest(name, known)}")
    if name is not None and name not in known:
        raise InputError(f"simulations run with --engine {' or '.join(known)}, not {name}")
    if scheduler is not None and name != "dask":
        raise InputError("--scheduler is the address of a Dask cluster; add --engine dask")
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be 1 or more, got {workers}")
    if workers is not None and name == "cuda":
        raise InputError("--workers counts cores or processes, and --engine cuda uses one GPU; leave it out")


@contextmanager
def open_engine(name: str, *, scheduler: str | None = None, workers: int | None = None) -> Generator[base.Engine]:
    """Yield the engine of that name, and close it at the end.

    workers: the largest number of cores, processes, or workers of a scheduler used at once.
    """
    check_engine(name, scheduler=scheduler, workers=workers)
    if name == "dask":
        with _open_dask(scheduler, workers) as engine:
            yield engine
        return
    if name == "cuda":
        from pacbandits.engines.cuda import CudaEngine

        yield CudaEngine()
        return
    from pacbandits.compiled import cores, using_cores
    from pacbandits.engines import Local

    with using_cores(cores() if workers is None else workers):
        yield Local(name)


@contextmanager
def open_players(name: str | None, *, scheduler: str | None, workers: int | None) -> Generator[DaskEngine | None]:
    """Yield the engine of simulations; None for the processes of this machine, without Dask."""
    check_engine(name, scheduler=scheduler, workers=workers, known=PLAYERS)
    if name != "dask":
        yield None
        return
    with _open_dask(scheduler, workers) as engine:
        yield engine


@contextmanager
def _open_dask(scheduler: str | None, workers: int | None) -> Generator[DaskEngine]:
    from pacbandits.engines.dask import DaskEngine

    with DaskEngine(workers=workers, scheduler=scheduler) as engine:
        if engine.dashboard is not None:
            say(f"dashboard: {engine.dashboard}", err=True)
        yield engine


def restrictions_for(
    log: Log,
    *,
    smallest_leaf: float | None,
    cost: str | None,
    max_cost: float | None,
    max_share: str | None,
    max_treated: float | None,
    never: list[str] | None,
    control: str | None,
) -> Restrictions:
    """Return the restrictions that the options ask for, for the actions of a log."""
    from pacbandits.policies import Restrictions

    budgets = [
        name
        for name, given in (("--max-cost", max_cost), ("--max-share", max_share), ("--max-treated", max_treated))
        if given is not None
    ]
    if len(budgets) > 1:
        raise InputError(f"{' and '.join(budgets)} cannot be combined; leave all but one out")
    costs = {} if cost is None else _numbers(cost, option="--cost")
    if max_share is not None:
        if costs:
            raise InputError("--max-share limits one action and takes no --cost; write --max-share email=0.3")
        name, max_cost = _share(max_share, log)
        costs = {name: 1.0}
    return Restrictions(
        smallest_leaf=smallest_leaf or 0.0,
        cost=costs,
        max_cost=max_cost,
        max_treated=max_treated,
        never=tuple(never or ()),
        control=control,
    )


def _share(words: str, log: Log) -> tuple[str, float]:
    """Return an action and its largest share, from `email=0.3`."""
    from pacbandits.analysis import action_number
    from pacbandits.logs.raw_log import read_share

    name, equals, share = (part.strip() for part in words.rpartition("="))
    if not equals or ("," in name and name not in (log.action_names or ())):
        raise InputError(
            f"--max-share must be one action with its share, such as email=0.3 or email=30%; got '{plain(words)}'"
        )
    action_number(name, log, of="--max-share")
    return name, read_share(share, name)


def _numbers(words: str, *, option: str) -> dict[str, float]:
    """Return numbers by the names of actions, from `a=1,b=2.5`."""
    found: dict[str, float] = {}
    for item in words.split(","):
        name, equals, value = item.rpartition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"{option} must be an action with a number, such as email=2.5; got '{plain(item)}'")
    return found
