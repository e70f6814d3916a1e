"""The experiments of one database that this server has open."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from pacbandits.errors import InputError, plain
from pacbandits.experiment.checking import check_experiment_name
from pacbandits.experiment.database import Database
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.refusals import UnknownExperiment
from pacbandits.service.journal import Journal
from pacbandits.service.limits import ServiceLimits
from pacbandits.service.meters import Meters
from pacbandits.service.writing import Writer

Result = TypeVar("Result")


class Shelf:
    """Each experiment is open twice: for the one thread that writes people and rewards, and for everything else.

    database: where they are kept.
    """

    def __init__(self, database: str | Path, *, limits: ServiceLimits, meters: Meters, journal: Journal) -> None:
        self.database = Database(database, create=True)
        self._limits, self._meters, self._journal = limits, meters, journal
        self._writers: dict[str, Writer] = {}
        self._readers: dict[str, Experiment] = {}
        self._lock = threading.Lock()

    def names(self) -> tuple[str, ...]:
        """Of all experiments."""
        return self.database.names()

    def open(self, name: str) -> Experiment:
        """An experiment, to look at or to steer."""
        if name not in self._readers:
            _check_name(name)
            with self._lock:
                if name not in self._readers:
                    self._readers[name] = Experiment.open(self.database, name)
        return self._readers[name]

    async def writer(self, name: str) -> Writer:
        """The thread that writes to an experiment."""
        found = self._writers.get(name)
        return found if found is not None else await run_in_threadpool(self._start, name, asyncio.get_running_loop())

    async def ask(self, name: str, question: Callable[[Experiment], Result]) -> Result:
        """Something of an experiment that takes a while, beside whatever else is going on."""
        return await run_in_threadpool(lambda: question(self.open(name)))

    def close(self) -> None:
        """Write what was accepted, and let go of the database."""
        for writer in self._writers.values():
            writer.close()
        self.database.close()

    def _start(self, name: str, loop: asyncio.AbstractEventLoop) -> Writer:
        _check_name(name)
        with self._lock:
            if name not in self._writers:
                self._writers[name] = Writer(
                    Experiment.open(self.database, name),
                    loop=loop,
                    meters=self._meters,
                    journal=self._journal,
                    max_waiting_rows=self._limits.max_waiting_rows,
                )
            return self._writers[name]


def _check_name(name: str) -> None:
    """Raise for what no experiment can be called, and some databases cannot even be asked for."""
    try:
        check_experiment_name(name)
    except InputError:
        raise UnknownExperiment(f"there is no experiment '{plain(name)}'") from None
