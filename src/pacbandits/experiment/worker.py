"""Processes beside the servers that assign and record: one advances experiments and delivers webhooks, another writes
exports.

    python -m pacbandits.experiment.worker DATABASE [NAME]
    python -m pacbandits.experiment.worker --exports

The first may be killed at any time: what it has done is in the database, and the next one goes on from there. The
second is asked by lines on its standard input.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from time import process_time, time_ns
from types import FrameType
from typing import IO

from pacbandits.errors import InputError
from pacbandits.experiment.database import BEAT_SECONDS, Database, beat, describe_failure, end
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.extra import exc, tracing
from pacbandits.experiment.webhooks import keep_delivering

PAUSE_SECONDS = 0.5  # between two polls for work
DATABASE_VARIABLE = "PACBANDITS_DATABASE"
NICENESS, EXPORT_NICENESS = 10, 5  # so that requests to the server have priority; somebody waits for an export
ENDING_SECONDS = 3.0  # for attempts to deliver webhooks that were begun
IDLE_SECONDS = 60  # after which the process that writes exports ends, as it may have grown large


# The process that advances experiments and delivers webhooks, and the one that writes exports.


class WorkerReport:
    """The worker's log, as JSON lines on standard error, and its counts, for its heartbeats."""

    def __init__(self) -> None:
        self.advances, self.errors = 0, 0
        self._said: dict[str, str] = {}

    def say(self, event: str, **fields: object) -> None:
        """Write a line."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        with suppress(OSError, ValueError):  # the reader has gone
            sys.stderr.write(json.dumps({"at": at, "event": event, **fields}, default=str) + "\n")
            sys.stderr.flush()

    def refused(self, name: str, error: Exception) -> bool:
        """Count an error of an experiment, and write it unless it is the same as the last one; return whether it is."""
        self.errors += 1
        words = str(error) if isinstance(error, InputError) else type(error).__name__
        new = self._said.get(name) != words
        if new:
            self._said[name] = words
            told = {"reason": words} if isinstance(error, InputError) else describe_failure(error)
            self.say("the experiment cannot go on", experiment=name, **told)
        return new


def work(
    database: Database,
    name: str | None,
    stopped: threading.Event,
    *,
    pause: float = PAUSE_SECONDS,
    report: WorkerReport | None = None,
) -> None:
    """Advance all experiments, or only the one named, until `stopped` is set; an error in one blocks no other."""
    opened: dict[str, Experiment] = {}
    report = report or WorkerReport()
    while not stopped.is_set():
        busy = False
        for one in database.names() if name is None else (name,):
            if stopped.is_set():
                return
            begun, done, failed = time_ns(), False, False
            try:
                if one not in opened:
                    opened[one] = Experiment.open(database, one)
                done = opened[one].advance()
                busy |= done
                report.advances += busy
            except (InputError, ValueError, ArithmeticError, LookupError) as error:
                failed = report.refused(one, error)
            if done or failed:
                tracing.record("analysis", begun, failed=failed, **{"pacbandits.experiment": one})
        stopped.wait(0.0 if busy else pause)


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, or until the parent process ends."""
    parser = argparse.ArgumentParser(prog="python -m pacbandits.experiment.worker", description=__doc__)
    told = os.environ.get(DATABASE_VARIABLE)
    words = f"a file of SQLite, or postgresql://…; by default what {DATABASE_VARIABLE} says, which others cannot read"
    parser.add_argument("database", nargs="?", default=told, help=words)
    parser.add_argument("name", nargs="?", help="of one experiment; all by default")
    parser.add_argument("--parent", type=int, help="the process without which it ends")
    parser.add_argument("--exports", action="store_true", help="write the exports that standard input asks for")
    given = parser.parse_args(arguments)
    with suppress(AttributeError, OSError):
        os.nice(max(0, (EXPORT_NICENESS if given.exports else NICENESS) - os.nice(0)))
    if given.exports:
        write_exports(sys.stdin, sys.stdout)
        return 0
    if given.database is None:
        parser.error("the database is missing")
    stopped, report = threading.Event(), WorkerReport()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if given.parent is not None:
        threading.Thread(target=_follow, args=(given.parent, stopped), daemon=True).start()
    tracing.start(report.say)
    try:
        database = Database(given.database)
        with _beating(database, stopped, report), _delivering(database, given.name, stopped, report):
            work(database, given.name, stopped, report=report)
    except InputError as error:
        report.say("the worker cannot start", reason=str(error))
        return 2
    except Exception as error:  # last resort: one line of JSON, and the next worker goes on
        report.say("the worker failed", **describe_failure(error))
        return 1
    return 0


def write_exports(requests: IO[str], answers: IO[str]) -> None:
    """Write the exports that lines of JSON ask for, with database, name and path; answer each with a line of JSON.

    It ends with the requests; and SIGALRM ends the process after IDLE_SECONDS without one.
    """
    alarm: Callable[[int], object] = getattr(signal, "alarm", lambda _: None)  # not on Windows
    alarm(IDLE_SECONDS)
    for line in requests:
        alarm(0)
        answers.write(json.dumps(_write_export(**json.loads(line))) + "\n")
        answers.flush()
        alarm(IDLE_SECONDS)


def _write_export(database: str, name: str, path: str) -> dict[str, object]:
    begun = process_time()
    try:
        with Experiment.open(database, name) as experiment:
            experiment.export(path)
    except InputError as error:
        return {"refused": type(error).__name__, "words": str(error)}
    except Exception as error:  # whatever it is, the server must be told
        return {"failed": describe_failure(error), "unseen": isinstance(error, exc.SQLAlchemyError)}
    return {"seconds": process_time() - begun}


@contextmanager
def _beating(database: Database, stopped: threading.Event, report: WorkerReport) -> Generator[None]:
    """Write heartbeats during the block, in a thread of their own: an analysis may take minutes."""
    identity, over = f"worker-{os.getpid()}-{secrets.token_hex(4)}", threading.Event()

    def keep_beating() -> None:
        while not (over.is_set() or stopped.is_set()):
            with suppress(exc.SQLAlchemyError, InputError):  # the next one may succeed
                beat(database, id=identity, kind="worker", body={"advances": report.advances, "errors": report.errors})
            over.wait(BEAT_SECONDS)

    keeper = threading.Thread(target=keep_beating, name="pacbandits heartbeat", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        with suppress(exc.SQLAlchemyError):
            end(database, id=identity)


@contextmanager
def _delivering(
    database: Database, name: str | None, stopped: threading.Event, report: WorkerReport
) -> Generator[None]:
    """Deliver webhooks during the block, in a thread of their own: an analysis may take minutes."""
    given = database, name, stopped, report.say
    deliverer = threading.Thread(target=keep_delivering, args=given, name="pacbandits webhooks", daemon=True)
    deliverer.start()
    try:
        yield
    finally:
        stopped.set()
        deliverer.join(ENDING_SECONDS)  # attempts that take longer are made again, by the next worker


def _follow(parent: int, stopped: threading.Event) -> None:
    """Set `stopped` when the parent process has ended."""
    while not stopped.wait(1.0):
        if os.getppid() != parent:
            stopped.set()


if __name__ == "__main__":
    sys.exit(main())
