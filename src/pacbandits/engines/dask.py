"""Sums and simulations by the processes of a Dask cluster: of this machine, or of many.

Partial sums are of whole numbers, so that it makes no difference who adds up which rows, in what order, or twice after
a worker died. Each task adds up many blocks: there are a few tasks for each worker, and at any time only so many of
their sums exist, however large they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from pacbandits.checks import text, whole_number
from pacbandits.compiled import cores
from pacbandits.engines.at_workers import TOPIC, Part, Summing, Told, do, fold, rows_of, unpack
from pacbandits.engines.base import Question, Source, Sums, add_to, count_blocks
from pacbandits.engines.crew import Crew, call, pack, start
from pacbandits.engines.memory import LogSource
from pacbandits.engines.progress import count_rows_aloud
from pacbandits.flags import in_command
from pacbandits.progress import hearer
from pacbandits.version import __version__

TASKS_PER_WORKER = 4  # so that a slow worker, or one that died, holds up the others little
IN_HAND_PER_SLOT = 2  # so that nobody waits for the next task
MOST_BLOCKS_SENT = 4  # in one task, of rows that travel with it: 50 MB or so

Shared = TypeVar("Shared")
Job = TypeVar("Job")
Made = TypeVar("Made")


class DaskEngine:
    """The workers of a Dask cluster.

    name: `dask`.
    dashboard: a link, where the work can be watched; None where a scheduler has none.
    scheduler: its address.
    """

    name = "dask"

    def __init__(
        self,
        *,
        workers: int | None = None,
        scheduler: str | None = None,
        tasks_per_worker: int = TASKS_PER_WORKER,
    ) -> None:
        """Start workers here, or call those of a scheduler.

        workers: how many processes are started, one a core by default; or how many of the scheduler's are used at once.
        scheduler: its address, as tcp://head:8786; without one a cluster is started on this machine, and ended with
            the engine.
        tasks_per_worker: into how many parts rows are cut for each of them.
        """
        if workers is not None:
            workers = whole_number(workers, name="--workers", least=1)
        self._tasks_per_worker = whole_number(tasks_per_worker, name="tasks_per_worker", least=1)
        self._most = None if scheduler is None else workers
        if scheduler is None:
            self._crew: Crew = start(cores() if workers is None else workers)
        else:
            self._crew = call(text(scheduler, name="--scheduler"))
        self.scheduler, self.dashboard = self._crew.scheduler, self._crew.dashboard
        heard = hearer()
        if heard is not None and self.dashboard is not None:
            heard[0](f"dashboard: {self.dashboard}")

    def ask(self, source: Source, question: Question, *, what: str) -> Sums:
        slots = self._slots()
        parts = _parts(source, tasks=self._tasks_per_worker * slots)
        total = question.begin()
        heard_as = None if hearer() is None else uuid4().hex
        shared = Summing(None if isinstance(source, LogSource) else source, question, heard_as)
        done = _Counted(count_rows_aloud(what, source.n_rows, started=monotonic()), heard_as)
        rows = [sum(len(rows_of(one, source.n_rows)) for one in part) for part in parts]
        self._listen(done)
        try:
            jobs = (_with_rows(number, part, source) for number, part in enumerate(parts))
            for number, sums in self._each(fold, shared, jobs, slots=slots):
                add_to(total, sums)
                done.reach(number, rows[number])
        finally:
            self._listen(None)
        return total

    def each(
        self,
        task: Callable[[Shared, Job], Made],
        shared: Shared,
        jobs: Iterable[Job],
        *,
        until: float = math.inf,
    ) -> Generator[Made]:
        """What comes of each job, as soon as it is known, in any order.

        task: a function of a module, called with what is shared and one job.
        until: when, by `time.monotonic`, jobs are no longer waited for.
        """
        for _, made in self._each(task, shared, iter(jobs), slots=self._slots(), until=until):
            yield made

    def _each(
        self,
        task: Callable[[Any, Any], Made],
        shared: object,
        jobs: Iterator[object],
        *,
        slots: int,
        until: float = math.inf,
    ) -> Generator[tuple[int, Made]]:
        """What comes of each job, with its number."""
        crew, told = self._crew, Told(__version__, in_command())
        most = self._most or IN_HAND_PER_SLOT * slots
        numbered = enumerate(jobs)
        in_hand: dict[Any, int] = {}
        held = crew.hand_out(unpack, told, pack(shared), name="pacbandits-shared")
        try:
            while True:
                for number, job in islice(numbered, most - len(in_hand)):
                    in_hand[crew.hand_out(do, told, task, held, pack(job), name=f"pacbandits-{task.__name__}")] = number
                if not in_hand:
                    return
                done = crew.first_done(in_hand, until=until)
                if not done:
                    return
                for one in done:
                    made: Made = crew.result(one)
                    number = in_hand.pop(one)
                    one.release()
                    yield number, made
        finally:
            crew.forget([*in_hand, held])

    def _slots(self) -> int:
        """How many tasks are done at once; some worker may be on its way back."""
        found = max(1, self._crew.slots())
        return found if self._most is None else min(found, self._most)

    def _listen(self, heard: _Counted | None) -> None:
        """Hear how far workers are, or no longer."""
        if heard is None or heard.name is not None:
            with suppress(Exception):  # words that nobody hears are no reason to stop
                if heard is None:
                    self._crew.client.unsubscribe_topic(TOPIC)
                else:
                    self._crew.client.subscribe_topic(TOPIC, heard)

    def close(self) -> None:
        """Let the workers go; those that were started for this end."""
        self._crew.close()

    def __enter__(self) -> DaskEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Counted:
    """Rows that are done, task by task: one that is begun again after its worker died is not counted twice."""

    def __init__(self, more: Callable[[int], None], name: str | None) -> None:
        self.more, self.name = more, name
        self.rows: dict[int, int] = {}
        self.lock = Lock()

    def reach(self, task: int, rows: int) -> None:
        """So many rows of a task are done, for all that is known by now."""
        with self.lock:
            more = rows - self.rows.get(task, 0)
            if more > 0:
                self.rows[task] = rows
                self.more(more)

    def __call__(self, event: tuple[float, dict[str, Any]]) -> None:
        """What a worker said."""
        _, said = event
        if said["of"] == self.name:
            self.reach(said["task"], said["rows"])


def _parts(source: Source, *, tasks: int) -> list[list[range]]:
    """Runs of blocks for each task, about as many blocks in each."""
    most = max(1, -(-count_blocks(source.n_rows) // tasks))
    if isinstance(source, LogSource):
        return [[one] for one in source.stripes(most_blocks=min(most, MOST_BLOCKS_SENT))]
    parts: list[list[range]] = []
    room = 0
    for stripe in source.stripes(most_blocks=most):
        if len(stripe) > room:
            parts.append([])
            room = most
        parts[-1].append(stripe)
        room -= len(stripe)
    return parts


def _with_rows(number: int, stripes: list[range], source: Source) -> Part:
    """What a task is told: which blocks, and their rows where these lie in memory."""
    if not isinstance(source, LogSource):
        return Part(number, tuple(stripes))
    (stripe,) = stripes
    rows = rows_of(stripe, source.n_rows)
    return Part(number, (stripe,), source.log.take(np.arange(rows.start, rows.stop)))
