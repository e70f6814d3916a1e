"""Run jobs in worker processes of this machine, in parallel and in any order.

A process receives jobs on standard input and answers on standard output, both pickled: no other process can write to
these pipes. It exits as soon as its parent has exited, also if the parent was killed.
"""

from __future__ import annotations

import math
import os
import pickle
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, BinaryIO, Generic, NamedTuple, TypeVar, cast

from pacbandits.compiled import using_cores
from pacbandits.errors import InputError, spelling_options

Shared = TypeVar("Shared")
Job = TypeVar("Job")
Made = TypeVar("Made")

MAX_WAIT_SECONDS = 3600.0  # at a time
_LENGTH = struct.Struct("<Q")
# Each process has one core; more threads of a library would only slow each other down.
ONE_THREAD: dict[str, str] = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
_ENDED = "a worker process ended unexpectedly; is memory short?"


class _Told(NamedTuple):
    """The first message to a process.

    task: a module-level function.
    shared: its first argument, the same for all jobs.
    """

    task: Callable[[Any, Any], object]
    shared: object


class _Answer(NamedTuple):
    """The result of a job.

    refused: the error message; None on success.
    made: the return value.
    """

    refused: str | None
    made: object


def each(
    task: Callable[[Shared, Job], Made],
    shared: Shared,
    jobs: Iterable[Job],
    *,
    processes: int,
    until: float = math.inf,
    jobs_per_process: int | None = None,
    lost: Callable[[Job], Made] | None = None,
) -> Generator[Made]:
    """Yield the result of each job as soon as it is known, in any order. Closing the generator ends the processes.

    task: a module-level function, called with `shared` and one job.
    until: the time, by `time.monotonic`, at which to stop waiting for jobs.
    jobs_per_process: the number of jobs after which a process is replaced, to return its memory to the system.
    lost: returns the result of a job whose process was killed; without it that is an error.
    """
    coming = iter(jobs)
    first = next(coming, None)
    if first is None:  # nothing to do
        return
    told = pickle.dumps(_Told(task, shared))
    results: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    in_turn = _InTurn(chain([first], coming))
    workers: list[_Worker[Job]] = []
    try:
        workers.extend(  # one by one: each is ended below
            _Worker(told, in_turn, results, jobs_per_process=jobs_per_process, lost=lost) for _ in range(processes)
        )
        at_work = len(workers)
        while at_work:
            try:
                kind, made = results.get(timeout=min(max(until - time.monotonic(), 0.0), MAX_WAIT_SECONDS))
            except Empty:
                if time.monotonic() >= until:
                    return
                continue
            if kind == "made":
                yield cast(Made, made)
            elif kind == "refused":
                raise InputError(str(made))
            elif kind == "error":
                raise made
            else:
                at_work -= 1
    finally:
        for one in workers:
            one.end()


class _InTurn(Generic[Job]):
    """An iterator over jobs that several threads share."""

    def __init__(self, jobs: Iterator[Job]) -> None:
        self.jobs, self.lock = jobs, Lock()

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        with self.lock:
            return next(self.jobs)


class _EndedError(Exception):
    """The process has ended, or `end` was called."""


class _Worker(Generic[Job]):
    """A process, and a thread that sends it jobs and waits for its answers."""

    def __init__(
        self,
        told: bytes,
        jobs: Iterator[Job],
        results: SimpleQueue[tuple[str, Any]],
        *,
        jobs_per_process: int | None,
        lost: Callable[[Job], object] | None,
    ) -> None:
        self.told, self.jobs, self.results, self.lost = told, jobs, results, lost
        self.most = jobs_per_process or math.inf
        self.lock, self.unwanted, self.done = Lock(), False, 0
        self.process: subprocess.Popen[bytes] | None = None
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Kill the process and start no other."""
        with self.lock:
            self.unwanted = True
            self._stop()

    def _work(self) -> None:
        """Send jobs one at a time, until there are none."""
        try:
            for job in self.jobs:
                try:
                    refused, made = self._do(job)
                    self.results.put(("made", made) if refused is None else ("refused", refused))
                except _EndedError:
                    if self.unwanted:
                        return
                    if self.lost is None:
                        self.results.put(("refused", _ENDED))
                        return
                    with self.lock:
                        self._stop()
                    self.results.put(("made", self.lost(job)))
        except Exception as error:
            self.results.put(("error", error))
        finally:
            with self.lock:
                self._stop()
            self.results.put(("end", None))

    def _do(self, job: Job) -> _Answer:
        """Return the process's answer to a job."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        packed = pickle.dumps(job)
        try:
            process.stdin.write(_LENGTH.pack(len(packed)) + packed)
            process.stdin.flush()
            answer = cast(_Answer, pickle.loads(_frame(process.stdout)))
        except (OSError, ValueError, EOFError):  # ValueError: a closed pipe
            raise _EndedError from None
        self.done += 1
        if self.done >= self.most:
            with self.lock:
                self._stop()
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the process, started if there is none."""
        with self.lock:
            if self.unwanted:
                raise _EndedError
            if self.process is not None:
                return self.process
            self.done = 0
            made = self.process = subprocess.Popen(
                [sys.executable, "-c", "from pacbandits.engines.processes import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": _paths()},
                start_new_session=True,  # Ctrl-C goes to the parent only
            )
        assert made.stdin is not None
        with suppress(OSError):  # the next job reports that the process has ended
            made.stdin.write(_LENGTH.pack(len(self.told)) + self.told)
        return made

    def _stop(self) -> None:
        """Kill the process, if there is one; the lock must be held."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


def _paths() -> str:
    return os.pathsep.join(filter(None, sys.path))


def _frame(incoming: IO[bytes]) -> bytes:
    """Return the next message; raise EOFError if it is incomplete."""
    head = incoming.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    packed = incoming.read(length)
    if len(packed) < length:
        raise EOFError
    return packed


def serve(frames: Iterator[bytes], outgoing: BinaryIO) -> None:
    """Answer all jobs."""
    told = cast(_Told, pickle.loads(next(frames)))
    with using_cores(1), spelling_options():  # the parent spells arguments for its own surface
        for frame in frames:
            try:
                answer = _Answer(None, told.task(told.shared, pickle.loads(frame)))
            except InputError as error:
                answer = _Answer(str(error), None)
            packed = pickle.dumps(answer)
            outgoing.write(_LENGTH.pack(len(packed)) + packed)
            outgoing.flush()


def main() -> None:
    """Serve the parent process, and exit when it has exited."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a task's prints must not mix with answers
    frames: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                frames.put(_frame(incoming))
        os._exit(0)  # nobody waits for the running job

    Thread(target=listen, daemon=True).start()
    try:
        serve(iter(frames.get, b""), outgoing)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)
