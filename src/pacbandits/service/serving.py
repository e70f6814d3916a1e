"""`pacbandits serve`: the service on a port, with its worker beside it."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import uvicorn

from pacbandits.errors import InputError, plain
from pacbandits.service.admission import Service
from pacbandits.service.application import create_app
from pacbandits.service.journal import Journal
from pacbandits.service.keys import ADMIN_KEY_VARIABLE
from pacbandits.service.limits import ServiceLimits
from pacbandits.service.supervising import Supervised

DEFAULT_HOST, DEFAULT_PORT, DEFAULT_DATABASE = "127.0.0.1", 8000, "pacbandits.db"
GRACE_SECONDS = 20  # in which what was accepted is answered when the server is told to end
SWITCH_SECONDS = 0.001  # after which the thread that writes lets the one that answers go on, and the other way round
COLLECTOR_THRESHOLDS = (50_000, 20, 20)  # objects made, and collections of younger ones, before the next collection
_BACKLOG = 2048


@dataclass(frozen=True)
class Serving:
    """What to serve, and where.

    database: the path of a file, or a URL.
    host, port: where it listens; port 0 for any that is free.
    worker: whether to start the process that closes rounds and designs.
    limits: on bodies, batches and rates.
    demo: whether to make up an experiment and its visitors.
    """

    database: str | Path = DEFAULT_DATABASE
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    worker: bool = True
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    demo: bool = False


def serve(asked: Serving) -> None:
    """Answer until told to end by a signal: then answer what was accepted, and leave.

    The address goes to standard output, and the admin's key if it is a new one; everything else is journal, on standard
    error.
    """
    with _listen(asked.host, asked.port) as listening:
        _serve(asked, listening)


def _serve(asked: Serving, listening: socket.socket) -> None:
    journal = Journal()
    admin = os.environ.get(ADMIN_KEY_VARIABLE) or None
    app = create_app(asked.database, admin_key=admin, limits=asked.limits, journal=journal)
    service: Service = app.state.service
    if not service.keys.has_admin:
        key, _ = service.keys.make("", "admin")
        print(f"the admin's key, shown only now: {key}")
    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    url = f"http://{host}:{listening.getsockname()[1]}"
    _prepare()
    config = uvicorn.Config(
        app,
        loop="uvloop" if find_spec("uvloop") else "auto",
        http="httptools" if find_spec("httptools") else "auto",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    worker = Supervised(service.shelf.database.full_url, journal=journal) if asked.worker else None
    print(f"serving on {url}", flush=True)
    visitors = _demonstrate(asked.database, url) if asked.demo else None
    # The server takes signals while it runs, and raises them once more when it is done: by then all is in order.
    signal.signal(signal.SIGTERM, _ignore)
    try:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        if visitors is not None:
            visitors.terminate()
        if worker is not None:
            worker.close()


def _demonstrate(database: str | Path, url: str) -> subprocess.Popen[bytes]:
    """Start the visitors of the demonstration, and say where to watch."""
    from pacbandits.service.dashboard.routes import PREFIX
    from pacbandits.service.demo import NAME, drive, prepare

    key = prepare(database)
    print(f"watch the experiment '{NAME}': {url}{PREFIX}/, and sign in with the key {key}", flush=True)
    print("made-up visitors come until you interrupt (Ctrl-C)", flush=True)
    return drive(url, key, database)


def _prepare() -> None:
    """Let threads take turns often, and the collector of garbage look seldom, and never at what stays to the end."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """What to do at a signal that was heeded already."""


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError):
        raise InputError(f"there is no host '{plain(host)}' to listen on; take 127.0.0.1, or 0.0.0.0 for all") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is taken; name another one with --port") from None
        raise InputError(f"cannot listen on '{plain(host)}' port {port}: {plain(error.strerror or error)}") from None
    made.set_inheritable(False)
    return made
