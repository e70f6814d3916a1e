"""`pacbandits serve` as an operator meets it: an address, a key once, an orderly end, and a worker that ends too."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.experiment.assignment_records import Report
from pacbandits.experiment.experiment import Experiment
from pacbandits.service import server as supervising
from pacbandits.service.client import Client, ServiceError
from pacbandits.service.event_log import Journal, Meters
from pacbandits.service.server import Serving, Supervised, serve
from tests.service.cases import SOMEBODY, people, protocol
from tests.service.servers import Server


def workers_of(process):
    """The processes that a process has started."""
    path = Path(f"/proc/{process}/task")
    return [int(one) for task in path.iterdir() for one in (task / "children").read_text().split()]


def test_a_server_from_its_start_to_its_end(tmp_path):
    """It prints its address and once the admin's key, answers what it has accepted, and then ends with its worker."""
    with Server(tmp_path / "x.db", admin=None) as server:
        key = server.lines[0].removeprefix("the admin's key, shown only now: ")
        assert key.startswith("pb_")
        with Client(server.address, key) as client:
            client.create(protocol())
            remote = client.experiment("checkout")
            made = remote.assign(SOMEBODY, unit="u-1")
            (worker,) = workers_of(server.pid)
            assert b"x.db" not in Path(f"/proc/{worker}/cmdline").read_bytes()  # it may hold a password
            answered, refused = [], []

            def keep_asking(number):
                with Client(server.address, key, retries=0) as own:
                    for i in range(10_000):
                        try:
                            answered.append(own.experiment("checkout").assign(SOMEBODY, unit=f"{number}-{i}").unit)
                        except ServiceError as error:
                            refused.append(error.status)
                            return

            threads = [threading.Thread(target=keep_asking, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            while len(answered) < 40:
                time.sleep(0.01)
            server.stop()
            for thread in threads:
                thread.join()
        assert set(refused) <= {0, 503}
        for _ in range(100):
            if not Path(f"/proc/{worker}").exists():
                break
            time.sleep(0.05)
        assert not Path(f"/proc/{worker}").exists()
    with Server(tmp_path / "x.db", "--no-worker", admin=None) as again:
        assert len(again.lines) == 1  # the key was shown before
        assert not workers_of(again.pid)
        with Client(again.address, key) as client:
            remote = client.experiment("checkout")
            assert remote.assign(SOMEBODY, unit="u-1").id == made.id
            assert remote.status()["assigned"] >= 1 + len(answered)
            assert not any(remote.assign(SOMEBODY, unit=unit).new for unit in answered[:50])
        assert httpx.get(f"{again.address}/readyz", trust_env=False).status_code == 200


def test_a_port_that_is_taken_and_a_host_that_is_none_are_told(tmp_path, command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = command("serve", "--port", port, "--database", tmp_path / "x.db")
    assert (code, err) == (2, f"pacbandits: port {port} is taken; name another one with --port\n")
    with pytest.raises(InputError, match="no host"):
        serve(Serving(tmp_path / "x.db", host="no such host", port=0))
    code, _, err = command("serve", "--port", 0, "--database", "mysql://x/y")
    assert code == 2
    assert "SQLite or PostgreSQL" in err
    assert err.count("\n") == 1


def test_a_worker_that_ends_is_started_again(tmp_path, monkeypatch):
    started = []

    def start(database):
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[-1]

    monkeypatch.setattr(supervising, "start_worker", start)
    monkeypatch.setattr(supervising, "FIRST_PAUSE_SECONDS", 0.01)
    supervised = Supervised(str(tmp_path / "x.db"), journal=Journal(io.StringIO()), meters=Meters())
    try:
        for count in (1, 2):
            while len(started) < count:
                time.sleep(0.01)
            started[-1].kill()
        while len(started) < 3:
            time.sleep(0.01)
    finally:
        supervised.close()
    assert all(process.poll() is not None for process in started)


def test_what_is_missing_is_named(monkeypatch, command):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.setattr("pacbandits.cli.serve.find_spec", lambda name: None if name == "fastapi" else True)
    code, _, err = command("serve")
    assert (code, err) == (2, "pacbandits: pacbandits serve needs fastapi; pip install 'pacbandits[service]'\n")


ANSWERED_FIRST = """
import sys
from pacbandits import cli
from pacbandits.service import dashboard, server
from tests.service.cases import serving
with serving(server.Path(sys.argv[1])) as service:
    for name in sys.argv[2:]:
        assert service.assign("somebody", name=name)["round"] > 0
loaded = [name for name in ("numba", "scipy", "matplotlib", "pandas") if name in sys.modules]
assert not loaded, loaded
"""


@pytest.mark.thorough
def test_the_first_assignment_needs_neither_numba_nor_scipy(tmp_path):
    """A server that is started again after a crash answers at once: to import and compile them takes seconds."""
    from tests.experiment.cases import protocol as made

    for name, policies in (("trees", "trees:depth=2"), ("linear", "linear")):
        with Experiment.create(
            tmp_path / "experiments.db", made(name=name, policies=policies, epsilon=0.05)
        ) as experiment:
            for day in range(8):  # the first designs may still be uniform exploration
                given, rng = experiment.assign(people(400)), np.random.default_rng(day)
                good = rng.random(len(given)) < [0.6 if one.action == "discount" else 0.3 for one in given]
                experiment.record_many([Report(one.id, float(x)) for one, x in zip(given, good, strict=True)])
                while experiment.payload()["kind"] == "continued":
                    experiment.advance(at_once=True)
                if "model" in experiment.payload()["sampler"]:
                    break
            assert "model" in experiment.payload()["sampler"]
    subprocess.run([sys.executable, "-c", ANSWERED_FIRST, str(tmp_path), "trees", "linear"], check=True)
