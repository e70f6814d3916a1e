"""A process that advances experiments, beside the servers that assign and record.

    python -m pacbandits.experiment.worker DATABASE [NAME]

It may be killed at any time: what it has done is in the database, and the next one goes on from there.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

from pacbandits.errors import InputError
from pacbandits.experiment.database import Database
from pacbandits.experiment.experiment import Experiment

PAUSE_SECONDS = 0.5  # between two polls for work
DATABASE_VARIABLE = "PACBANDITS_DATABASE"
NICENESS = 10  # so that requests to the server have priority over designing
_log = logging.getLogger("pacbandits.worker")


def work(database: Database, name: str | None, stopped: threading.Event, *, pause: float = PAUSE_SECONDS) -> None:
    """Advance all experiments, or only the one named, until `stopped` is set."""
    opened: dict[str, Experiment] = {}
    while not stopped.is_set():
        busy = False
        for one in database.names() if name is None else (name,):
            if stopped.is_set():
                return
            try:
                if one not in opened:
                    opened[one] = Experiment.open(database, one)
                busy |= opened[one].advance()
            except InputError as error:  # an error in one experiment must not block the others
                _log.warning("experiment %s cannot go on: %s", one, error)
        stopped.wait(0.0 if busy else pause)


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, or until the parent process ends."""
    parser = argparse.ArgumentParser(prog="python -m pacbandits.experiment.worker", description=__doc__)
    told = os.environ.get(DATABASE_VARIABLE)
    words = f"a file of SQLite, or postgresql://…; by default what {DATABASE_VARIABLE} says, which others cannot read"
    parser.add_argument("database", nargs="?" if told else None, default=told, help=words)
    parser.add_argument("name", nargs="?", help="of one experiment; all by default")
    parser.add_argument("--parent", type=int, help="the process without which it ends")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with suppress(AttributeError, OSError):
        os.nice(NICENESS)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if given.parent is not None:
        threading.Thread(target=_follow, args=(given.parent, stopped), daemon=True).start()
    try:
        work(Database(given.database), given.name, stopped)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _follow(parent: int, stopped: threading.Event) -> None:
    """Set `stopped` when the parent process has ended."""
    while not stopped.wait(1.0):
        if os.getppid() != parent:
            stopped.set()


if __name__ == "__main__":
    sys.exit(main())
