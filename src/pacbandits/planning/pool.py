"""Trials of a plan played by several processes at once, in any order: each is the same whoever plays it, and when."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import chain
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any

from pacbandits.compiled import cores
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError
from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.playing import Played, Question
from pacbandits.planning.worker import LENGTH, play_job, play_one

Job = tuple[int, int, str]  # scenario, number of its draw, algorithm
MAX_WAIT_SECONDS = 3600.0  # at a time


def play_all(
    supposed: Assumptions,
    asked: Question,
    jobs: Iterator[Job],
    *,
    processes: int | None = None,
    engine: DaskEngine | None = None,
    until: float = math.inf,
) -> Generator[Played]:
    """What comes of each job, as soon as it is known. With one process they are played in this one.

    Whoever stops asking stops the processes.

    engine: whose workers play, in place of processes of our own.
    until: when, by `time.monotonic`, trials are no longer waited for; with one process the last one is.
    """
    if engine is not None:
        yield from engine.each(play_job, (supposed, asked), jobs, until=until)
        return
    count = cores() if processes is None else processes
    packed = _packed(supposed, asked) if count > 1 else None
    if packed is None:  # one process, or a class that only this one knows
        for scenario, number, algorithm in jobs:
            yield play_one(supposed, asked, scenario, number, algorithm)
        return
    first = next(jobs, None)
    if first is None:  # nothing to start processes for
        return
    results: Queue[Played | Exception | None] = Queue()
    shared = _InTurn(chain([first], jobs))
    workers: list[_Worker] = []
    try:
        workers.extend(_Worker(packed, shared, results) for _ in range(count))  # one by one: each is ended below
        at_work = len(workers)
        while at_work:
            try:
                made = results.get(timeout=min(max(until - time.monotonic(), 0.0), MAX_WAIT_SECONDS))
            except Empty:
                if time.monotonic() >= until:
                    return
                continue
            if made is None:
                at_work -= 1
            elif isinstance(made, Exception):
                raise made
            else:
                yield made
    finally:
        for one in workers:
            one.end()


def _packed(supposed: Assumptions, asked: Question) -> bytes | None:
    """What a process must know; None where it cannot be handed over, as of a class that a script defines itself."""
    parts = (supposed.people, supposed.policies, *supposed.scenarios)
    if any(type(part).__module__ == "__main__" for part in parts):
        return None
    try:
        return pickle.dumps((supposed, asked))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


class _InTurn:
    """Jobs that several threads take from, one at a time."""

    def __init__(self, jobs: Iterator[Job]) -> None:
        self.jobs, self.lock = jobs, Lock()

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        with self.lock:
            return next(self.jobs)


class _Worker:
    """A process, and a thread that waits for its answers."""

    def __init__(self, packed: bytes, jobs: Iterator[Job], results: Queue[Played | Exception | None]) -> None:
        self.jobs, self.results = jobs, results
        # Each process has one core, and several threads of a library would only be in each other's way.
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-c", "from pacbandits.planning.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # an interruption is for the process that asked
        )
        self.packed = packed
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        """Hand over jobs one at a time."""
        into, out = self.process.stdin, self.process.stdout
        assert into is not None
        assert out is not None
        try:
            into.write(LENGTH.pack(len(self.packed)) + self.packed)
            for job in self.jobs:
                into.write(" ".join(map(str, job)).encode() + b"\n")
                into.flush()
                line = out.readline()
                if not line:
                    raise InputError("a process that played trials has ended before its time; is memory short?")
                self.results.put(_read(line))
        except Exception as error:
            self.results.put(error)
        finally:
            with suppress(OSError):
                into.close()
            self.results.put(None)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def _read(line: bytes) -> Played:
    said: dict[str, Any] = json.loads(line)
    if "error" in said:
        raise InputError(str(said["error"]))
    return Played.from_json(said)
