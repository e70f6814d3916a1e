"""A cache of the experiments that this server has opened, and their writer queues."""

from __future__ import annotations

import asyncio
import atexit
import json
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.concurrency import run_in_threadpool

from pacbandits.errors import InputError, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.assignment_records import Assignment, AssignmentRequest, Recorded, Report
from pacbandits.experiment.database import (
    ENDED_IDLE,
    WORKER_MODULE,
    ClockSkew,
    Database,
    UnknownExperiment,
    read_standing,
)
from pacbandits.experiment.experiment import Experiment, delete_experiment
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.protocol import check_experiment_name
from pacbandits.schema import Json
from pacbandits.service.limits import ServiceLimits
from pacbandits.service.messages import UNSEEN_DATABASE, Refusal

if TYPE_CHECKING:
    from pacbandits.service.event_log import Journal, Meters

# The writer queue of an experiment: waiting requests are written in one transaction, and answered once it is durable.
#
# One thread for each experiment takes the waiting requests, stores them in one transaction, and returns the results.
# Meanwhile the next requests queue up: the busier the server, the more rows per transaction.


MAX_ROWS_A_COMMIT = 1_000
GATHER_SECONDS = 0.008  # between starts of transactions under concurrent requests: each costs as much as many rows
SEAL_SECONDS = 1.0  # after which the head of the chain is read again
CLOSING_SECONDS = 30.0
MAX_READERS = 4  # threads that read experiments for requests

Assigned = Assignment | InputError


@dataclass(frozen=True, eq=False)
class Job:
    """A queued request.

    rows: assignments or reports to store.
    answer: future for the results, or for the error.
    """

    rows: Sequence[Any]
    answer: asyncio.Future[list[Any]]


@dataclass
class Waiting:
    """A queue of jobs of one kind.

    jobs: in order of arrival.
    rows: total number of rows.
    """

    jobs: deque[Job] = field(default_factory=deque[Job])
    rows: int = 0

    def put(self, job: Job) -> None:
        """Append a job."""
        self.jobs.append(job)
        self.rows += len(job.rows)

    def take(self, most: int) -> list[Job]:
        """Remove and return the first jobs with at most `most` rows in total, but at least one if there is any."""
        taken: list[Job] = []
        count = 0
        while self.jobs and (not taken or count + len(self.jobs[0].rows) <= most):
            taken.append(self.jobs.popleft())
            count += len(taken[-1].rows)
        self.rows -= count
        return taken


class Writer:
    """The thread that writes to one experiment.

    experiment: used by this thread only.
    seal: the head of its chain when last read.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        loop: asyncio.AbstractEventLoop,
        meters: Meters,
        journal: Journal,
        max_waiting_rows: int,
    ) -> None:
        self.experiment = experiment
        self.seal, self._sealed = read_head(experiment), monotonic()
        self._loop, self._meters, self._journal, self._max_waiting = loop, meters, journal, max_waiting_rows
        self._assigning, self._recording = Waiting(), Waiting()
        self._ready = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._keep_writing, name="pacbandits writer", daemon=True)
        self._thread.start()

    async def assign(self, requests: Sequence[AssignmentRequest]) -> list[Assigned]:
        """Return an assignment or error for each request, once durable; parts of a large batch are stored in turn."""
        parts = [requests[at : at + MAX_ROWS_A_COMMIT] for at in range(0, len(requests), MAX_ROWS_A_COMMIT)]
        if len(parts) == 1:
            return await self._put(self._assigning, requests)
        answers: list[Assigned] = []
        for part in parts:
            answers += await self._put(self._assigning, part)
        return answers

    async def record(self, reports: Sequence[Report]) -> list[Recorded]:
        """Return the result of each report once all are durable; if it raises, none is stored."""
        return await self._put(self._recording, reports)

    def close(self) -> None:
        """Write the accepted jobs, then end the thread."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join(timeout=CLOSING_SECONDS)

    def _put(self, waiting: Waiting, rows: Sequence[Any]) -> asyncio.Future[list[Any]]:
        answer: asyncio.Future[list[Any]] = self._loop.create_future()
        with self._ready:
            if self._closing:
                raise Refusal(503, "the server is being shut down; ask again", headers={"Retry-After": "1"})
            if self._assigning.rows + self._recording.rows > self._max_waiting:
                raise Refusal(429, "too many requests wait to be written; ask again", headers={"Retry-After": "1"})
            waiting.put(Job(rows, answer))
            self._ready.notify()
        self._meters.waiting.inc(len(rows))
        return answer

    def _keep_writing(self) -> None:
        begun, busy = 0.0, False
        while True:
            with self._ready:
                while not (self._assigning.jobs or self._recording.jobs or self._closing):
                    self._ready.wait()
            early = begun + GATHER_SECONDS - monotonic()
            if busy and early > 0:
                sleep(early)
            with self._ready:
                assigning = self._assigning.take(MAX_ROWS_A_COMMIT)
                recording = self._recording.take(MAX_ROWS_A_COMMIT)
            if not assigning and not recording:
                return
            begun, busy = monotonic(), len(assigning) + len(recording) > 1
            if assigning:
                self._commit(assigning, self._assign)
            if recording:
                self._commit(recording, self._record)

    def _commit(self, jobs: list[Job], store: Callable[[list[Job]], list[Any]]) -> None:
        """Store some jobs, and give each its results or the error."""
        rows = sum(len(job.rows) for job in jobs)
        started = perf_counter()
        try:
            answers = store(jobs)
        except Exception as error:  # any error: the requests must be answered, and the thread must continue
            if not isinstance(error, InputError) or isinstance(error, ClockSkew):
                self._meters.write_errors.inc()
                self._journal.error("could not write", error, rows=rows)
            answers = [error] * len(jobs)
        self._meters.commit_seconds.observe(perf_counter() - started)
        self._meters.commit_rows.observe(rows)
        self._meters.waiting.dec(rows)
        try:
            self._loop.call_soon_threadsafe(_hand_back, jobs, answers)
        except RuntimeError:  # the loop is closed: no request waits any more
            return

    def _assign(self, jobs: list[Job]) -> list[Any]:
        requests = [row for job in jobs for row in job.rows]
        made = self.experiment.assign_many(requests)
        if monotonic() - self._sealed > SEAL_SECONDS:
            self.seal, self._sealed = read_head(self.experiment), monotonic()
        new = sum(isinstance(one, Assignment) and one.new for one in made)
        self._meters.assigned.inc(new)
        self._meters.repeated.inc(sum(isinstance(one, Assignment) for one in made) - new)
        return _by_job(jobs, made)

    def _record(self, jobs: list[Job]) -> list[Any]:
        """Record all jobs together; on an error each one by itself, so that only the wrong ones are refused."""
        try:
            together = self.experiment.record_many([row for job in jobs for row in job.rows])
        except InputError as error:
            if len(jobs) == 1:
                return [error]
            return [answer for job in jobs for answer in self._record([job])]
        for one in together:
            self._meters.reward(one.outcome)
        return _by_job(jobs, together)


def _by_job(jobs: list[Job], answers: Sequence[Any]) -> list[Any]:
    """Group the results of all rows by job."""
    each = iter(answers)
    return [list(islice(each, len(job.rows))) for job in jobs]


def read_head(experiment: Experiment) -> str:
    """Return the head of an experiment's chain, without reading all entries as `seal` does."""
    with experiment.database.reading() as connection:
        return bytes(read_standing(connection, experiment.name).head).hex()


def _hand_back(jobs: list[Job], answers: list[Any]) -> None:
    for job, answer in zip(jobs, answers, strict=True):
        if job.answer.done():  # the client has disconnected
            continue
        if isinstance(answer, Exception):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)


# The process that writes exports: in a thread of the server, assignments would wait for it.


class ExportProcess:
    """A process that writes the exports of this server, started when it is needed; it ends with the server or idle."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def write(self, database: Database, name: str, path: Path) -> float:
        """Write the event log of an experiment to a file; return the CPU time that took, in seconds.

        It raises the errors of `Experiment.export`.
        """
        asked = json.dumps({"database": database.full_url, "name": name, "path": str(path)}) + "\n"
        with self._lock:
            answer, code = self._ask(asked)
            if code == ENDED_IDLE:  # at this very moment
                answer, code = self._ask(asked)
        if code is not None:
            raise RuntimeError(f"the process that exports has ended with code {code}")
        told: Json = json.loads(answer)
        if "refused" in told:
            kinds = {one.__name__: one for one in (UnknownExperiment, ClockSkew)}
            raise kinds.get(told["refused"], InputError)(told["words"])
        if told.get("unseen"):
            raise Refusal(503, UNSEEN_DATABASE, headers={"Retry-After": "1"})
        if "failed" in told:
            raise RuntimeError(json.dumps(told["failed"]))
        return float(told["seconds"])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # this closes its pipes
            self._process = None

    def _ask(self, asked: str) -> tuple[str, int | None]:
        """Return the answer to a line and None; or nothing and the return code if the process has ended."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-m", WORKER_MODULE, "--exports"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                process_group=0,
            )
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        with suppress(OSError):
            pipes.stdin.write(asked)
            pipes.stdin.flush()
            if answer := pipes.stdout.readline():
                return answer, None
        code = pipes.wait()
        self.close()
        return "", code


EXPORTER = ExportProcess()
atexit.register(EXPORTER.close)


# The cache of open experiments.


Result = TypeVar("Result")


class Shelf:
    """A cache of opened experiments: each is open once for its writer thread, and once for everything else.

    database: the database of the experiments.
    """

    def __init__(self, database: str | Path, *, limits: ServiceLimits, meters: Meters, journal: Journal) -> None:
        self.database = Database(database, create=True)
        self._limits, self._meters, self._journal = limits, meters, journal
        self._writers: dict[str, Writer] = {}
        self._readers: dict[str, Experiment] = {}
        self._lock = threading.Lock()
        self._exports = 0  # of which one is made, and the others wait

    def names(self) -> tuple[str, ...]:
        """Return the names of all experiments."""
        return self.database.names()

    def versions(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of records and analyses of all experiments, by name."""
        t = tables.standings.c
        with self.database.reading() as connection:
            found = connection.execute(sa.select(t.name, t.sequence, t.look)).all()
        return {row.name: (row.sequence, row.look) for row in found}

    def open(self, name: str) -> Experiment:
        """Return an experiment, to read or steer it."""
        if name not in self._readers:
            _check_name(name)
            with self._lock:
                if name not in self._readers:
                    self._readers[name] = Experiment.open(self.database, name)
        return self._readers[name]

    def certificate(self, name: str) -> Json | None:
        """Return the certificate of an experiment; None if there is none."""
        return self.open(name).result().certificate

    async def writer(self, name: str) -> Writer:
        """Return the writer of an experiment, started if need be."""
        found = self._writers.get(name)
        return found if found is not None else await run_in_threadpool(self._start, name, asyncio.get_running_loop())

    # Threads of their own: readers must not keep assignments from theirs. Made on first use, within the event loop.

    @cached_property
    def _readers_at_once(self) -> CapacityLimiter:
        return CapacityLimiter(MAX_READERS)

    @cached_property
    def _exports_at_once(self) -> CapacityLimiter:
        return CapacityLimiter(1)

    async def ask(self, name: str, question: Callable[[Experiment], Result]) -> Result:
        """Call a slow function of an experiment in a thread and return its result."""
        return await run_sync(lambda: question(self.open(name)), limiter=self._readers_at_once)

    async def export(self, name: str) -> tuple[Path, float]:
        """Export an experiment to a new temporary file, one at a time; return it and the CPU seconds that took.

        It raises Refusal (429) if too many wait.
        """
        if self._exports > self._limits.max_exports:
            raise Refusal(429, "too many exports are waiting; ask again later", headers={"Retry-After": "10"})
        self._exports += 1
        try:
            return await run_sync(lambda: self._export(self.open(name).name), limiter=self._exports_at_once)
        finally:
            self._exports -= 1

    def _export(self, name: str) -> tuple[Path, float]:
        with tempfile.NamedTemporaryFile(suffix=".parquet", delete=False) as file:
            path = Path(file.name)
        try:
            return path, EXPORTER.write(self.database, name, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def delete(self, name: str) -> None:
        """Delete an experiment for good."""
        _check_name(name)
        delete_experiment(self.database, name)
        with self._lock:
            self._readers.pop(name, None)
            writer = self._writers.pop(name, None)
        if writer is not None:
            writer.close()

    def close(self) -> None:
        """Write the accepted jobs and close the database."""
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
    """Raise UnknownExperiment for an invalid name, which some databases could not even query."""
    try:
        check_experiment_name(name)
    except InputError:
        raise UnknownExperiment(f"there is no experiment '{plain(name)}'") from None
