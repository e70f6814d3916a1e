"""Start and stop the server, its worker process, and the demonstration."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from types import FrameType

import numpy as np
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from pacbandits.allocation import load_machine_code
from pacbandits.errors import InputError, plain
from pacbandits.experiment import worker
from pacbandits.experiment.database import Database
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.extra import tracing
from pacbandits.experiment.protocol import ExperimentProtocol, GuardrailRule, LateRule
from pacbandits.records import Contexts
from pacbandits.rewards.registry import load_machine_code as load_predictions
from pacbandits.service.access import ADMIN, ADMIN_KEY_VARIABLE, FIRST_START, Keys, ProxySignIn, Service
from pacbandits.service.application import create_app
from pacbandits.service.connections import guarded, raise_descriptor_limit
from pacbandits.service.event_log import Journal, Meters
from pacbandits.service.limits import ServiceLimits

# The worker process, which closes rounds, analyses and designs: started, restarted and ended by the server.


ENDING_SECONDS = 5.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
HEALTHY_SECONDS = 60.0  # a worker that ran longer is restarted after the shortest pause


class Supervised:
    """A worker process for a database, restarted whenever it ends, until `close`."""

    def __init__(self, database: str, *, journal: Journal, meters: Meters) -> None:
        self._database, self._journal, self._meters = database, journal, meters
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_running, name="pacbandits supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the worker: terminate it, or kill it after a timeout. The next worker repeats what was not stored."""
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
            if self._over.is_set():  # closed while the worker was starting
                self._process.terminate()
            if self._process.stderr is not None:
                with self._process.stderr as lines:
                    for line in lines:
                        self._journal.relay(line.decode("utf-8", "replace"))
            code = self._process.wait()
            if self._over.is_set():
                return
            self._meters.worker_restarts.inc()
            self._journal.write("the worker ended", code=code)
            pause = (
                FIRST_PAUSE_SECONDS
                if monotonic() - started > HEALTHY_SECONDS
                else min(2 * pause, LONGEST_PAUSE_SECONDS)
            )
            self._over.wait(pause)


def start_worker(database: str) -> subprocess.Popen[bytes]:
    """Start a worker that ends when this process ends, for whatever reason.

    The database URL, which may hold a password, is passed in the environment: all users can read command lines.
    """
    started = subprocess.Popen(
        [sys.executable, "-m", worker.__name__, "--parent", str(os.getpid())],
        env=os.environ | {worker.DATABASE_VARIABLE: database},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,  # whatever it writes there becomes lines of the server log
        # Its own process group: a keyboard interrupt goes to the server, which then ends the worker. Not its own
        # session: Linux divides CPU time between sessions first, so niceness would have no effect.
        process_group=0,
    )
    with suppress(AttributeError, OSError):  # on Windows, and if it has ended
        os.setpriority(os.PRIO_PROCESS, started.pid, worker.NICENESS)  # from its start, before it has imported anything
    return started


# `pacbandits serve`: the service on a port, with its worker process.


DEFAULT_HOST, DEFAULT_PORT, DEFAULT_DATABASE = "127.0.0.1", 8000, "pacbandits.db"
GRACE_SECONDS = 20  # to answer accepted requests at shutdown
SWITCH_SECONDS = 0.001  # thread switch interval, so that writing and answering threads alternate quickly
KERNEL_DELAY_SECONDS = 3.0  # without machine code, a few hundred assignments are no slower
COLLECTOR_THRESHOLDS = (50_000, 20, 20)  # of the garbage collector's three generations
_BACKLOG = 2048


@dataclass(frozen=True)
class Serving:
    """The options of `serve`.

    database: the path of an SQLite file, or a URL.
    host, port: address to listen on; port 0 for any free one.
    worker: whether to start the worker process, which closes rounds and designs.
    limits: limits on bodies, batches and rates.
    demo: whether to run the demonstration with simulated visitors.
    """

    database: str | Path = DEFAULT_DATABASE
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    worker: bool = True
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    demo: bool = False


def serve(asked: Serving) -> None:
    """Serve until a signal ends the process; then answer the accepted requests and return.

    The URL, and the admin key if it is new, go to standard output; the server log goes to standard error.
    """
    with _listen(asked.host, asked.port) as listening:
        _serve(asked, listening)


def _serve(asked: Serving, listening: socket.socket) -> None:
    journal = Journal()
    tracing.start(journal.write)
    admin = os.environ.get(ADMIN_KEY_VARIABLE) or None
    proxy = ProxySignIn.from_environment(os.environ)
    app = create_app(asked.database, admin_key=admin, limits=asked.limits, journal=journal, proxy=proxy)
    service: Service = app.state.service
    _settle_admin(service.keys, from_environment=admin is not None)
    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    url = f"http://{host}:{listening.getsockname()[1]}"
    _prepare()
    _load_later()
    limits = replace(asked.limits, max_connections=raise_descriptor_limit(asked.limits))
    config = uvicorn.Config(
        app,
        loop="uvloop" if find_spec("uvloop") else "auto",
        http=guarded(AutoHTTPProtocol, limits),
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    url_of_database = service.shelf.database.full_url
    worker = Supervised(url_of_database, journal=journal, meters=service.meters) if asked.worker else None
    print(f"serving on {url}", flush=True)
    visitors = _demonstrate(asked.database, url) if asked.demo else None
    # uvicorn handles signals while it runs, and raises them again when it is done; by then there is nothing left to do.
    signal.signal(signal.SIGTERM, _ignore)
    try:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        if visitors is not None:
            visitors.terminate()
        if worker is not None:
            worker.close()


def _settle_admin(keys: Keys, *, from_environment: bool) -> None:
    """Print a new admin key if there is none; with one from the environment, withdraw that of the first start."""
    if not keys.has_admin:
        print(f"the admin's key, shown only now: {keys.make('', ADMIN, label=FIRST_START)[0]}")
    elif from_environment:
        for one in keys.of(""):
            if one.label == FIRST_START:
                keys.withdraw(one.id)
                print(f"the admin's key of the first start, pb_{one.id}_…, is withdrawn: {ADMIN_KEY_VARIABLE} is used")


def _demonstrate(database: str | Path, url: str) -> subprocess.Popen[bytes]:
    """Start the simulated visitors of the demonstration, and print where to watch."""
    from pacbandits.service.dashboard.routes import PREFIX

    key = prepare(database)
    print(f"watch the experiment '{NAME}': {url}{PREFIX}/, and sign in with the key {key}", flush=True)
    print("made-up visitors come until you interrupt (Ctrl-C)", flush=True)
    return drive(url, key, database)


def _prepare() -> None:
    """Switch threads often, and collect garbage rarely and never among the objects that exist now."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    gc.enable()  # `pacbandits serve` disables it while it imports


def _load_later() -> None:
    """Load the machine code for many assignments at once, after those that wait for a server that starts again."""
    timer = threading.Timer(KERNEL_DELAY_SECONDS, lambda: (load_machine_code(), load_predictions()))
    timer.daemon = True
    timer.start()


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal that was handled already."""


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise InputError if the address cannot be used."""
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


# The demonstration: a shop's checkout with simulated visitors. Experiment, database, service and dashboard are real.


NAME = "checkout"
ACTIONS = ("standard", "discount", "free shipping", "gift")
VISITORS, SEED = 2_000, 7
# Traffic: a simulated visitor every 20 ms, who buys within some seconds or not at all.
RATE, DELAY_SECONDS, LOST_SHARE, RETURNING_SHARE, MOST_PEOPLE = 50, 2, 0.02, 0.1, 200_000
TRUTH = "segments:effect=0.25,baseline=0.3"


def visitors(count: int = VISITORS, *, seed: int = SEED) -> Contexts:
    """Return contexts of simulated past visitors."""
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(rng.gamma(9.0, 4.5, count)), 16, 90)
    country = rng.choice(4, size=count, p=[0.45, 0.25, 0.2, 0.1])
    device = (rng.random(count) < 0.75 - 0.006 * (age - 16)).astype(np.float64)
    visits = rng.poisson(2.5, count)
    return Contexts.of(
        np.column_stack([age, country, device, visits]),
        names=["age", "country", "device", "earlier visits"],
        categories=[None, ("DE", "FR", "AT", "PL"), ("desktop", "phone"), None],
    )


def demo_protocol() -> ExperimentProtocol:
    """Return the protocol of the demonstration: which offer to make to whom at the checkout."""
    return ExperimentProtocol(
        name=NAME,
        contexts=visitors(),
        actions=ACTIONS,
        policies="trees:depth=2",
        epsilon=0.05,
        seed=SEED,
        holdout=0.05,
        rehearsal=True,
        late=LateRule("window", window_seconds=30),
        guardrail=GuardrailRule("complaint", 0.05),
    )


def prepare(path: str | Path) -> str:
    """Create the demonstration's experiment in a database, unless it exists; return a new key to assign and read."""
    database = Database(path, create=True)
    if NAME not in database.names():
        Experiment.create(database, demo_protocol())
    elif not Experiment.open(database, NAME).protocol.rehearsal:
        raise InputError(f"the experiment '{NAME}' is not a demonstration; name another file with --database")
    return Keys(database).make(NAME, "assign read")[0]


def drive(url: str, key: str, path: str | Path) -> subprocess.Popen[bytes]:
    """Start a process that simulates visitors, up to MOST_PEOPLE of them."""
    asked = {
        "--url": url,
        "--key": key,
        "--problem": TRUTH,
        "--rate": RATE,
        "--people": MOST_PEOPLE,
        "--delay": DELAY_SECONDS,
        "--lost": LOST_SHARE,
        "--returning": RETURNING_SHARE,
        "--database": path,
        "--seed": SEED,
    }
    words = [str(word) for pair in asked.items() for word in pair]
    command = [sys.executable, "-m", "pacbandits", "experiment", "drive", NAME, *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
