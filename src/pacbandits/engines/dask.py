"""Sums and simulations by the processes of a Dask cluster: of this machine, or of many.

Partial sums are of whole numbers, so that it makes no difference who adds up which rows, in what order, or twice after
a worker died. Each task adds up many blocks: there are a few tasks for each worker, and at any time only so many of
their sums exist, however large they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from pacbandits.checks import text, whole_number
from pacbandits.compiled import cores
from pacbandits.engines.at_workers import TOPIC, BlockRuns, SumTask, add_up, do, fold, rows_of, unpack
from pacbandits.engines.base import Aggregation, Source, Sums, add_to, count_blocks
from pacbandits.engines.crew import Cluster, call, pack, start
from pacbandits.engines.memory import LogSource
from pacbandits.engines.progress import count_rows_aloud
from pacbandits.progress import hearer
from pacbandits.records import Log
from pacbandits.version import __version__

TASKS_PER_WORKER = 4  # so that a slow worker, or one that died, holds up the others little
IN_HAND_PER_SLOT = 2  # so that nobody waits for the next task
MANY_SLOTS = 16  # from which on workers add up among themselves, so many tasks at a time
TASKS_ADDED_UP = 8
MOST_BLOCKS_SENT = 4  # at a time, of rows that lie in memory: 50 MB or so

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
            self._cluster: Cluster = start(cores() if workers is None else workers)
        else:
            self._cluster = call(text(scheduler, name="--scheduler"))
        self.scheduler, self.dashboard = self._cluster.scheduler, self._cluster.dashboard
        self._held_rows: WeakKeyDictionary[Log, _PartitionedRows] = WeakKeyDictionary()
        heard = hearer()
        if heard is not None and self.dashboard is not None:
            heard[0](f"dashboard: {self.dashboard}")

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        slots = self._slots()
        rows = self._rows_of(source, tasks=self._tasks_per_worker * slots)
        total = question.begin()
        heard_as = None if hearer() is None else uuid4().hex
        shared = SumTask(None if rows.log is not None else source, question, heard_as)
        done = _Counted(count_rows_aloud(what, source.n_rows, started=monotonic()), heard_as)
        together = 1 if slots < MANY_SLOTS else TASKS_ADDED_UP
        count = len(rows.parts)
        groups = (range(first, min(first + together, count)) for first in range(0, count, together))

        def begin(held: Any, group: range) -> Any:
            tasks = [self._begin(fold, held, BlockRuns(i, rows.parts[i]), *self._sent(rows, i)) for i in group]
            return tasks[0] if together == 1 else self._cluster.hand_out(add_up, *tasks, name="pacbandits-add_up")

        self._listen(done)
        try:
            for group, sums in self._each(begin, shared, groups, most=-(-self._in_hand(slots) // together)):
                add_to(total, sums)
                for number in group:
                    done.reach(number, rows.count(number))
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

        def begin(held: Any, job: Job) -> Any:
            return self._begin(task, held, job)

        for _, made in self._each(begin, shared, iter(jobs), most=self._in_hand(self._slots()), until=until):
            yield made

    def _begin(self, task: Callable[..., object], held: Any, job: object, *sent: Any) -> Any:
        """Have a task done; a future. What is held and was sent are futures, too."""
        name = f"pacbandits-{task.__name__}"
        return self._cluster.hand_out(do, __version__, task, held, pack(job), *sent, name=name)

    def _send(self, thing: object) -> Any:
        """Have workers hold something; a future."""
        return self._cluster.hand_out(unpack, __version__, pack(thing), name="pacbandits-sent")

    def _rows_of(self, source: Source, *, tasks: int) -> _PartitionedRows:
        """Rows cut into parts; those in memory as they were when they were first asked for, as workers hold them."""
        if not isinstance(source, LogSource):
            return _PartitionedRows(_cut(source, tasks=tasks), source.n_rows)
        if source.log not in self._held_rows:
            parts = _cut(source, tasks=max(tasks, -(-count_blocks(source.n_rows) // MOST_BLOCKS_SENT)))
            self._held_rows[source.log] = _PartitionedRows(parts, source.n_rows)
        return replace(self._held_rows[source.log], log=source.log)

    def _sent(self, rows: _PartitionedRows, number: int) -> list[Any]:
        """What a part's rows are held as, if they lie in memory: they are sent once, and many questions asked."""
        if rows.log is None:
            return []
        if number not in rows.held:
            (stripe,) = rows.parts[number]
            which = rows_of(stripe, rows.n_rows)
            rows.held[number] = self._send(rows.log.take(np.arange(which.start, which.stop)))
        return [rows.held[number]]

    def _each(
        self,
        begin: Callable[[Any, Job], Any],
        shared: object,
        jobs: Iterator[Job],
        *,
        most: int,
        until: float = math.inf,
    ) -> Generator[tuple[Job, Any]]:
        """Each job with what comes of it, at most so many of them in hand at once.

        begin: makes a future of what workers hold, a future too, and of a job.
        """
        cluster, in_hand = self._cluster, dict[Any, Job]()
        held = self._send(shared)
        try:
            while True:
                for job in islice(jobs, most - len(in_hand)):
                    in_hand[begin(held, job)] = job
                if not in_hand:
                    return
                done = cluster.first_done(in_hand, until=until)
                if not done:
                    return
                for one in done:
                    made = cluster.result(one)
                    job = in_hand.pop(one)
                    one.release()
                    yield job, made
        finally:
            cluster.forget([*in_hand, held])

    def _in_hand(self, slots: int) -> int:
        """How many tasks workers are given at once."""
        return self._most or IN_HAND_PER_SLOT * slots

    def _slots(self) -> int:
        """How many tasks are done at once; some worker may be on its way back."""
        found = max(1, self._cluster.slots())
        return found if self._most is None else min(found, self._most)

    def _listen(self, heard: _Counted | None) -> None:
        """Hear how far workers are, or no longer."""
        if heard is None or heard.name is not None:
            with suppress(Exception):  # words that nobody hears are no reason to stop
                if heard is None:
                    self._cluster.client.unsubscribe_topic(TOPIC)
                else:
                    self._cluster.client.subscribe_topic(TOPIC, heard)

    def close(self) -> None:
        """Let the workers go; those that were started for this end."""
        self._held_rows.clear()
        self._cluster.close()

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


@dataclass(frozen=True, eq=False)
class _PartitionedRows:
    """Rows cut into parts.

    parts: runs of blocks, for each task.
    n_rows: of all.
    log: where they lie in memory.
    held: futures of what workers were sent of that, by part.
    """

    parts: list[tuple[range, ...]]
    n_rows: int
    log: Log | None = None
    held: dict[int, Any] = field(default_factory=dict[int, Any])

    def count(self, number: int) -> int:
        """The rows of a part."""
        return sum(len(rows_of(stripe, self.n_rows)) for stripe in self.parts[number])


def _cut(source: Source, *, tasks: int) -> list[tuple[range, ...]]:
    """Runs of blocks for each task, about as many blocks in each."""
    most = max(1, -(-count_blocks(source.n_rows) // tasks))
    parts: list[tuple[range, ...]] = []
    room = 0
    for stripe in source.stripes(most_blocks=most):
        if len(stripe) > room:
            parts.append(())
            room = most
        parts[-1] = (*parts[-1], stripe)
        room -= len(stripe)
    return parts
