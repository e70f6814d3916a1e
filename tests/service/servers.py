"""Real servers on the loopback: within this process, or in one of their own that can be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import uvicorn

from tests.service.cases import ADMIN

STARTING_SECONDS, ENDING_SECONDS = 60, 30
ROOT = Path(__file__).parents[2]


@contextmanager
def listening(app, **options):
    """The address of an application that runs in a thread of its own."""
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="on", **options)
    server = uvicorn.Server(config)
    bound = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=20)
    bound.close()


@cache
def zygote():
    """The one process of this test run that becomes servers; it ends when this one does, as its input then ends."""
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.service.zygote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert started.stdout.readline() == "ready\n"
    return started


class Server:
    """`pacbandits serve` in a process of its own.

    address: where it answers. lines: what it said before that. pid: of its process.
    """

    def __init__(self, database, *options, port=0, admin=ADMIN):
        with tempfile.NamedTemporaryFile(prefix="pacbandits-serve-", delete=False) as file:
            output = Path(file.name)
        asked = {
            "arguments": ["--database", str(database), "--port", str(port), *options],
            "environment": {"PACBANDITS_ADMIN_KEY": admin or ""},
            "output": str(output),
        }
        source = zygote()
        source.stdin.write(json.dumps(asked) + "\n")
        source.stdin.flush()
        self.pid = int(source.stdout.readline())
        try:
            self.lines = self._starting(output)
        finally:
            output.unlink()
        self.address = self.lines[-1].removeprefix("serving on ")

    def _starting(self, output):
        until = time.monotonic() + STARTING_SECONDS
        while time.monotonic() < until and self.alive:
            lines = output.read_text().splitlines()
            if lines and lines[-1].startswith("serving on "):
                return lines
            time.sleep(0.005)
        raise AssertionError(f"the server did not start: {output.read_text()}")

    @property
    def alive(self):
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self):
        """As when the power fails."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def stop(self):
        """As an operator does it."""
        os.kill(self.pid, signal.SIGTERM)
        self.wait()

    def wait(self):
        until = time.monotonic() + ENDING_SECONDS
        while self.alive:
            assert time.monotonic() < until, "the server did not end"
            time.sleep(0.005)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.alive:
            self.kill()
