"""The process that closes rounds, looks and designs, beside the one that answers: started, kept, and ended with it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from time import monotonic

from pacbandits.experiment import worker
from pacbandits.service.journal import Journal

ENDING_SECONDS = 5.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
HEALTHY_SECONDS = 60.0  # after which a worker that ends is started again at once


class Supervised:
    """A worker for a database that is started again when it ends, until it is told to end."""

    def __init__(self, database: str, *, journal: Journal) -> None:
        self._database, self._journal = database, journal
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_running, name="pacbandits supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the worker: it is asked to, and after a while made to. What it has not stored, the next one does."""
        self._over.set()
        process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(timeout=ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(timeout=ENDING_SECONDS)

    def _keep_running(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._over.is_set():
            started = monotonic()
            self._process = start_worker(self._database)
            if self._over.is_set():  # while it was being started
                self._process.terminate()
            code = self._process.wait()
            if self._over.is_set():
                return
            self._journal.write("the worker ended", code=code)
            pause = (
                FIRST_PAUSE_SECONDS
                if monotonic() - started > HEALTHY_SECONDS
                else min(2 * pause, LONGEST_PAUSE_SECONDS)
            )
            self._over.wait(pause)


def start_worker(database: str) -> subprocess.Popen[bytes]:
    """A worker that ends with this process, however this one ends.

    The database, which may hold a password, goes through the environment: command lines are there for all to read.
    """
    return subprocess.Popen(
        [sys.executable, "-m", worker.__name__, "--parent", str(os.getpid())],
        env=os.environ | {worker.DATABASE_VARIABLE: database},
        stdin=subprocess.DEVNULL,
        # A group of its own: an interrupt from the keyboard is for the server, which then ends this. No session of its
        # own: Linux shares processors out between sessions first, and that it is nice would then be of no use.
        process_group=0,
    )
