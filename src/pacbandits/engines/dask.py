"""Sums and simulations by worker processes of a Dask cluster, on this machine or many.

Partial sums are integers, so the result does not depend on which worker sums which rows, on the order, or on
repetitions after a worker died. Each task sums many blocks: there are a few tasks per worker, and only a limited number
of their sums exist at any time, however large they are.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from pacbandits.checks import text, whole_number
from pacbandits.compiled import cores
from pacbandits.engines.base import Aggregation, LogSource, Source, Sums, add_to, count_blocks
from pacbandits.engines.local import count_rows_aloud
from pacbandits.engines.processes import ONE_THREAD
from pacbandits.engines.worker_tasks import TOPIC, BlockRuns, SumTask, WorkerRefusal, add_up, do, fold, rows_of, unpack
from pacbandits.errors import InputError, count_of, plain
from pacbandits.progress import hearer
from pacbandits.records import Log
from pacbandits.version import __version__

# A Dask cluster, started here or connected to: submit tasks, wait for results, report lost workers.


CONNECT_SECONDS = 8.0  # for a scheduler to answer, and for its first worker to connect
ANSWER_SECONDS = 20.0  # for a busy scheduler
NO_WORKER_SECONDS = 30.0  # without any worker, as some may reconnect
LOOK_SECONDS = 1.0  # between checks for workers
CLOSE_SECONDS = 5.0

# An expression that a worker can evaluate without this package.
_VERSION = "__import__('pacbandits.version', fromlist=['version']).__version__"
# The exceptions of distributed for a lost connection; some do not derive from Exception.
_GONE = (CancelledError, asyncio.CancelledError, OSError, TimeoutError)
_SETTINGS: dict[str, object] = {
    "distributed.admin.large-graph-warning-threshold": "1 TB",  # rows of a log in memory travel with tasks
    "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS} s",
}
_OF_OUR_OWN: dict[str, object] = {
    # Dask's default also returns memory at once, which takes longer than the computation.
    "distributed.nanny.pre-spawn-environ": ONE_THREAD,
    # Else a worker that died twice in a short time would not be restarted.
    "distributed.deploy.lost-worker-timeout": "100 days",
}


@dataclass(frozen=True, eq=False)
class Cluster:
    """A connection to the workers of a Dask scheduler.

    client: the client of distributed.
    scheduler: its address.
    dashboard: the address of its dashboard, if it has one.
    own: resources started for this cluster and closed with it; empty for an existing cluster.
    """

    client: Any
    scheduler: str
    dashboard: str | None
    own: ExitStack

    def slots(self) -> int:
        """Return the number of tasks that can run at once."""
        with self.reaching():
            return sum(dict(self.client.nthreads(callback_timeout=ANSWER_SECONDS)).values())

    def hand_out(self, function: Callable[..., object], *arguments: object, name: str) -> Any:
        """Submit a function call to the workers; return its future."""
        with self.reaching(), _configured(_SETTINGS):
            return self.client.submit(function, *arguments, key=f"{name}-{uuid4().hex}", pure=False)

    def first_done(self, tasks: Iterable[Any], *, until: float = math.inf) -> list[Any]:
        """Wait for the first finished tasks and return them; return none at the time `until`."""
        alone_since: float | None = None
        while True:
            left = until - monotonic()
            if left <= 0:
                return []
            with self.reaching():
                try:
                    with self.client.as_current():
                        wait = _distributed().wait
                        done = wait(list(tasks), timeout=min(left, LOOK_SECONDS), return_when="FIRST_COMPLETED").done
                    return list(done)
                except TimeoutError:
                    pass
            if self.slots() > 0:
                alone_since = None
            elif alone_since is None:
                alone_since = monotonic()
            elif monotonic() - alone_since > NO_WORKER_SECONDS:
                raise InputError(f"no worker is left at {self.scheduler}; start some there, then start this again")

    def result(self, task: Any) -> Any:
        """Return the result of a finished task; raise InputError if it failed."""
        try:
            with self.reaching():
                found = self.client.gather(task)
        except _distributed().KilledWorker:
            raise InputError(
                "workers died one after the other over the same task; is memory short there? Start fewer on a machine, "
                "or larger ones, then start this again"
            ) from None
        except ModuleNotFoundError as error:
            raise InputError(
                f"a worker at {self.scheduler} lacks {plain(error.name)}; pip install 'pacbandits[scale]' there"
            ) from None
        if isinstance(found, WorkerRefusal):
            raise InputError(found.words)
        return found

    def forget(self, tasks: Iterable[Any]) -> None:
        """Release tasks; those that have not started will not run."""
        for one in tasks:  # cancelling would break the scheduler if other unwanted tasks depend on them
            with suppress(Exception, asyncio.CancelledError):
                one.release()

    @contextmanager
    def reaching(self) -> Generator[None]:
        """Within this context a lost scheduler raises InputError, and the connection is closed."""
        words = (
            f"the Dask scheduler at {self.scheduler} is gone, and unfinished work is lost; start this again when "
            "one runs"
        )
        if self.client.status in ("closing", "closed"):
            raise InputError(words)
        try:
            yield
        except _GONE:
            self.close()
            raise InputError(words) from None

    def close(self) -> None:
        """Close the connection, and end workers that were started for this."""
        with suppress(Exception, asyncio.CancelledError):
            self.client.close(timeout=CLOSE_SECONDS)
        with suppress(Exception, asyncio.CancelledError):
            self.own.close()


def start(workers: int) -> Cluster:
    """Start `workers` worker processes on this machine, each with one thread."""
    distributed, own = _distributed(), ExitStack()
    own.enter_context(_configured(_OF_OUR_OWN))
    own.callback(_restore, {name: os.environ.get(name) for name in (*ONE_THREAD, "PYTHONHASHSEED")})
    os.environ.update(ONE_THREAD)  # else this process's own values would take precedence
    try:
        with _configured(_SETTINGS):
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # the sender of tasks bounds the memory, and nothing is spilled to disk
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
                preload=["pacbandits.engines.worker_tasks"],
            )
    except (RuntimeError, *_GONE) as error:
        own.close()
        raise InputError(
            f"{count_of(workers, 'worker process', 'worker processes')} cannot be started on this machine "
            f"({plain(error)}); in a script, start them below if __name__ == '__main__'"
        ) from None
    own.callback(cluster.close, timeout=CLOSE_SECONDS)
    try:
        with _configured(_SETTINGS):
            client = distributed.Client(cluster, set_as_default=False, direct_to_workers=True)
    except BaseException:
        own.close()
        raise
    return Cluster(client, str(cluster.scheduler_address), _link(client), own)


def call(scheduler: str) -> Cluster:
    """Connect to a running scheduler, here or elsewhere."""
    distributed = _distributed()
    try:
        _greet(scheduler)
        with _configured(_SETTINGS):
            client = distributed.Client(scheduler, set_as_default=False, timeout=CONNECT_SECONDS)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"'{plain(scheduler)}' is not the address of a Dask scheduler ({plain(error)}); one is tcp://head:8786"
        ) from None
    except (Exception, asyncio.CancelledError):  # anything may answer there
        raise InputError(
            f"no Dask scheduler answers at {plain(scheduler)} within {CONNECT_SECONDS:.0f} s; is it running ('dask "
            "scheduler' starts one), and can this machine reach it?"
        ) from None
    cluster = Cluster(client, str(client.scheduler.address), _link(client), ExitStack())
    try:
        _check_workers(cluster)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _greet(scheduler: str) -> None:
    """Raise unless a scheduler answers: a client without one takes long to give up."""

    async def ask() -> None:
        with _configured(_SETTINGS):
            async with _distributed().rpc(scheduler, timeout=CONNECT_SECONDS) as line:
                await line.identity()

    async def ask_within() -> None:
        await asyncio.wait_for(ask(), CONNECT_SECONDS)

    with ThreadPoolExecutor(1) as apart:  # the caller may run an event loop
        apart.submit(asyncio.run, ask_within()).result()


def _check_workers(cluster: Cluster) -> None:
    """Raise InputError unless there are workers, all with this version of the package."""
    with cluster.reaching():
        try:
            cluster.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            where = cluster.scheduler
            words = f"the Dask scheduler at {where} has no workers; start some: dask worker {where}"
            raise InputError(words) from None
        found = cast(dict[str, object], cluster.client.run(eval, _VERSION, on_error="return"))
    for worker, version in found.items():
        if isinstance(version, ModuleNotFoundError):
            raise InputError(
                f"the worker {worker} lacks {plain(version.name)}; pip install 'pacbandits[scale]=={__version__}' there"
            )
        if isinstance(version, BaseException):
            raise InputError(f"the worker {worker} cannot import pacbandits: {plain(version)}")
        if version != __version__:
            raise InputError(
                f"the worker {worker} has pacbandits {plain(version)}, and {__version__} asks it: install the same "
                "everywhere"
            )


def pack(thing: object) -> bytes:
    """Pickle an object for workers, also of a class that a script defines."""
    try:
        return bytes(import_module("cloudpickle").dumps(thing))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(f"the task cannot be sent to the workers: {plain(error)}") from None


def _link(client: Any) -> str | None:
    """Return the address of the dashboard, or None."""
    try:
        return str(client.dashboard_link)
    except (KeyError, AttributeError, *_GONE):
        return None


def _restore(before: dict[str, str | None]) -> None:
    """Restore environment variables that were set for the processes to start."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _configured(settings: dict[str, object]) -> Any:
    """Return a context manager that sets Dask's configuration."""
    return import_module("dask").config.set(settings)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ModuleNotFoundError as error:
        raise InputError(f"Dask's clusters need {plain(error.name)}; pip install 'pacbandits[scale]'") from None


TASKS_PER_WORKER = 4  # so that a slow or dead worker delays the others little
IN_HAND_PER_SLOT = 2  # so that no worker waits for its next task
MANY_SLOTS = 16  # from which workers add up sums among themselves
TASKS_ADDED_UP = 8
MOST_BLOCKS_SENT = 4  # at a time, of rows in memory: 50 MB or so

Shared = TypeVar("Shared")
Job = TypeVar("Job")
Made = TypeVar("Made")


class DaskEngine:
    """The workers of a Dask cluster.

    name: `dask`.
    dashboard: the address of the dashboard; None if the scheduler has none.
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
        """Start workers here, or connect to those of a scheduler.

        workers: the number of processes to start, by default one per core; or the number of the scheduler's to use at
            once.
        scheduler: its address, as tcp://head:8786; without one a cluster is started on this machine, and ended with the
            engine.
        tasks_per_worker: the number of parts of the rows for each worker.
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
        """Yield the result of each job as soon as it is known, in any order.

        task: a module-level function, called with `shared` and one job.
        until: the time, by `time.monotonic`, at which to stop waiting for jobs.
        """

        def begin(held: Any, job: Job) -> Any:
            return self._begin(task, held, job)

        for _, made in self._each(begin, shared, iter(jobs), most=self._in_hand(self._slots()), until=until):
            yield made

    def _begin(self, task: Callable[..., object], held: Any, job: object, *sent: Any) -> Any:
        """Submit a task; return its future. `held` and `sent` are futures, too."""
        name = f"pacbandits-{task.__name__}"
        return self._cluster.hand_out(do, __version__, task, held, pack(job), *sent, name=name)

    def _send(self, thing: object) -> Any:
        """Send an object to the workers; return its future."""
        return self._cluster.hand_out(unpack, __version__, pack(thing), name="pacbandits-sent")

    def _rows_of(self, source: Source, *, tasks: int) -> _PartitionedRows:
        """Return the rows in parts; rows in memory keep the parts of their first use, which workers hold."""
        if not isinstance(source, LogSource):
            return _PartitionedRows(_cut(source, tasks=tasks), source.n_rows)
        if source.log not in self._held_rows:
            parts = _cut(source, tasks=max(tasks, -(-count_blocks(source.n_rows) // MOST_BLOCKS_SENT)))
            self._held_rows[source.log] = _PartitionedRows(parts, source.n_rows)
        return replace(self._held_rows[source.log], log=source.log)

    def _sent(self, rows: _PartitionedRows, number: int) -> list[Any]:
        """Return the future of a part's rows, if they are in memory: they are sent once, for many aggregations."""
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
        """Yield each job with its result; at most `most` of them are submitted at once.

        begin: makes a future from that of `shared` and a job.
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
        """Return the number of tasks to submit at once."""
        return self._most or IN_HAND_PER_SLOT * slots

    def _slots(self) -> int:
        """Return the number of tasks that run at once; at least 1, as a worker may be reconnecting."""
        found = max(1, self._cluster.slots())
        return found if self._most is None else min(found, self._most)

    def _listen(self, heard: _Counted | None) -> None:
        """Subscribe to the workers' progress events, or unsubscribe."""
        if heard is None or heard.name is not None:
            with suppress(Exception):  # progress messages are optional
                if heard is None:
                    self._cluster.client.unsubscribe_topic(TOPIC)
                else:
                    self._cluster.client.subscribe_topic(TOPIC, heard)

    def close(self) -> None:
        """Close the connection; workers that were started for this end."""
        self._held_rows.clear()
        self._cluster.close()

    def __enter__(self) -> DaskEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Counted:
    """Rows done, by task: a task repeated after its worker died is not counted twice."""

    def __init__(self, more: Callable[[int], None], name: str | None) -> None:
        self.more, self.name = more, name
        self.rows: dict[int, int] = {}
        self.lock = Lock()

    def reach(self, task: int, rows: int) -> None:
        """Record that `rows` rows of a task are done."""
        with self.lock:
            more = rows - self.rows.get(task, 0)
            if more > 0:
                self.rows[task] = rows
                self.more(more)

    def __call__(self, event: tuple[float, dict[str, Any]]) -> None:
        """Handle a progress event of a worker."""
        _, said = event
        if said["of"] == self.name:
            self.reach(said["task"], said["rows"])


@dataclass(frozen=True, eq=False)
class _PartitionedRows:
    """Rows in parts.

    parts: the runs of blocks of each task.
    n_rows: the number of all rows.
    log: the log, if it is in memory.
    held: the futures of its parts that were sent to workers.
    """

    parts: list[tuple[range, ...]]
    n_rows: int
    log: Log | None = None
    held: dict[int, Any] = field(default_factory=dict[int, Any])

    def count(self, number: int) -> int:
        """Return the number of rows of a part."""
        return sum(len(rows_of(stripe, self.n_rows)) for stripe in self.parts[number])


def _cut(source: Source, *, tasks: int) -> list[tuple[range, ...]]:
    """Return runs of blocks for each task, with about the same number of blocks each."""
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
