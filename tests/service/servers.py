"""Real servers on the loopback: within this process, or in one of their own that can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import uvicorn

from tests.service.cases import ADMIN

STARTING_SECONDS = 60


@contextmanager
def listening(app):
    """The address of an application that runs in a thread of its own."""
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="on")
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


class Server:
    """`pacbandits serve` in a process of its own.

    address: where it answers. lines: what it said before that.
    """

    def __init__(self, database, *options, port=0, admin=ADMIN):
        environment = os.environ | {"PACBANDITS_ADMIN_KEY": admin or ""}
        command = [sys.executable, "-m", "pacbandits", "serve", "--database", str(database), "--port", str(port)]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith("serving on "):
                break
        else:
            raise AssertionError(f"the server did not start: {self.process.wait()}")
        self.address = self.lines[-1].removeprefix("serving on ")

    def kill(self):
        """As when the power fails."""
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def stop(self):
        """As an operator does it; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
