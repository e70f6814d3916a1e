"""Who computes: the options that say so, and what they open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.shared import say
from pacbandits.errors import InputError, nearest, plain

if TYPE_CHECKING:
    from pacbandits.engines import base
    from pacbandits.engines.dask import DaskEngine

ENGINES = ("threads", "stream", "dask", "cuda")
PLAYERS = ("threads", "dask")  # of simulations, which have no rows to stream and little for a card to do

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
    """Raise, before anything is read, where options do not go together; name: None for what is usual."""
    if name is not None and name not in ENGINES:
        raise InputError(f"there is no engine '{plain(name)}'{nearest(name, known)}")
    if name is not None and name not in known:
        raise InputError(f"simulations are played by --engine {' or '.join(known)}, not by {name}")
    if scheduler is not None and name != "dask":
        raise InputError("--scheduler is where a Dask cluster is found; say also --engine dask")
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be 1 or more, got {workers}")
    if workers is not None and name == "cuda":
        raise InputError("--workers is for cores and processes, and --engine cuda is one card; leave it out")


@contextmanager
def open_engine(name: str, *, scheduler: str | None = None, workers: int | None = None) -> Generator[base.Engine]:
    """The engine of that name, closed in the end.

    workers: cores, processes, or workers of a scheduler, the most at once.
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
    """Who plays simulations; None for the processes of this machine that are there without Dask."""
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
