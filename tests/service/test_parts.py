"""What operators see: readiness and metrics of every part, and reasons in the server log."""

from __future__ import annotations

import io
import json
import math
import re
import sqlite3
import sys
import threading
from collections import namedtuple

import pytest
import sqlalchemy as sa

from pacbandits.errors import InputError
from pacbandits.experiment import worker
from pacbandits.experiment.database import Database, beat, end, heartbeats
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.extra import Tracing, tracing
from pacbandits.service import parts as watching
from pacbandits.service.event_log import Journal, Meters
from pacbandits.service.parts import PartWatch
from pacbandits.service.server import Supervised
from tests.service.cases import ADMIN, refused, serving


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "KEEP_SECONDS", -1.0)
    with serving(tmp_path) as asked:
        asked.create()
        asked.assign()
        asked.database = Database(tmp_path / "experiments.db")
        yield asked
        asked.database.close()


def metric(service, name):
    text = service.get("/metrics", key=None).text
    return float(re.search(rf"^pacbandits_{name}(?:{{.*?}})? (\S+)$", text, re.MULTILINE)[1])


def test_readiness_and_metrics_tell_of_worker_and_analyses(service):
    answer = service.get("/readyz", key=None)
    assert answer.status_code == 200  # assignments are stored, so it is ready
    assert answer.json()["warnings"] == ["no worker process runs, so that nothing is analysed"]
    assert metric(service, "workers") == 0
    assert metric(service, "worker_heartbeat_seconds") == math.inf
    beat(service.database, id="worker-1", kind="worker", body={"errors": 3})
    assert service.get("/readyz", key=None).json()["warnings"] == []
    assert (metric(service, "workers"), metric(service, "worker_errors")) == (1, 3)
    assert metric(service, "worker_heartbeat_seconds") < 10
    assert metric(service, "analyses") == 0
    assert metric(service, "analysis_lag_rows") == 1
    with Experiment.open(service.database, "checkout") as experiment:
        given = experiment.assign({"age": 31, "country": "DE"}, unit="x")
        experiment.record(given.id, reward=1)
        experiment.advance(at_once=True)
    assert (metric(service, "analyses"), metric(service, "analysis_lag_rows")) == (1, 0)
    service.assign("u-3")
    assert (metric(service, "analysis_lag_rows"), metric(service, "analysis_lag_ratio")) == (1, 1.5)
    assert metric(service, "experiments") == 1
    assert "checkout" not in service.get("/metrics", key=None).text
    end(service.database, id="worker-1")
    assert metric(service, "workers") == 0


def test_a_worker_that_is_silent_for_long_is_gone(service):
    beat(service.database, id="worker-1", kind="worker", body={})
    with service.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE service_heartbeats SET at = at - 60000000")
    assert metric(service, "workers") == 0
    assert metric(service, "worker_heartbeat_seconds") == pytest.approx(60, abs=20)
    with service.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE service_heartbeats SET at = at - 9000000000")
    beat(service.database, id="worker-2", kind="worker", body={})
    assert "worker-1" not in {one.id for one in heartbeats(service.database)}


def test_a_full_disk_is_not_ready(service, monkeypatch):
    """As SQLite says it, and before that by what is left."""
    left = namedtuple("left", "free")(2**20)
    with monkeypatch.context() as patched:
        patched.setattr(watching.shutil, "disk_usage", lambda _: left)
        assert refused(service.get("/readyz", key=None), 503, "the disk of the database has 1 MB left")
        assert metric(service, "disk_free_bytes") == 2**20
    full = sa.exc.OperationalError("UPDATE …", {}, sqlite3.OperationalError("database or disk is full"))

    def fails(*_, **__):
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(watching, "beat", fails)
        assert refused(service.get("/readyz", key=None), 503, "stores nothing: database or disk is full")
        assert (metric(service, "writable"), metric(service, "database_up")) == (0, 1)
    assert service.get("/readyz", key=None).status_code == 200
    with monkeypatch.context() as patched:
        patched.setattr(Database, "skew", fails)
        assert refused(service.get("/readyz", key=None), 503, "does not answer: database or disk is full")
        assert metric(service, "database_up") == 0


def test_the_server_log_says_why_a_database_fails(service, monkeypatch):
    def fails(*_, **__):
        raise sa.exc.OperationalError(
            "INSERT …", {"unit": "a-secret"}, sqlite3.OperationalError("disk I/O error\nmore")
        )

    monkeypatch.setattr(Experiment, "assign_many", fails)
    answer = service.post("/experiments/checkout/assignments", {"context": {"age": 31, "country": "DE"}})
    assert answer.status_code == 503
    lines = [json.loads(line) for line in service.journal().splitlines()]
    (told,) = [line for line in lines if line["event"] == "could not write"]
    assert (told["error"], told["reason"]) == ("OperationalError", "disk I/O error")
    assert "a-secret" not in service.journal()
    assert metric(service, "write_errors_total") == 1


def test_whatever_a_worker_writes_becomes_lines_of_json(tmp_path, monkeypatch):
    """A crash of the interpreter, or of an import, too."""
    from pacbandits.service import server

    written, begun, started = io.StringIO(), threading.Event(), []
    code = 'import sys; print(\'{"event": "mine"}\', file=sys.stderr); print(file=sys.stderr); 1 / 0'

    def start(_):
        if begun.is_set():
            supervised._over.wait(10)
        begun.set()
        started.append(server.subprocess.Popen([sys.executable, "-c", code], stderr=server.subprocess.PIPE))
        return started[-1]

    monkeypatch.setattr(server, "start_worker", start)
    journal, meters = Journal(written), Meters()
    supervised = Supervised("x.db", journal=journal, meters=meters)
    while "the worker ended" not in written.getvalue():
        journal._flush()
    supervised.close()
    journal.close()
    for one in started:
        one.stderr.close()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert lines[0] == {"event": "mine"}
    assert any("ZeroDivisionError" in line.get("text", "") for line in lines)
    assert b"pacbandits_worker_restarts_total 1.0" in meters.text()


def test_a_worker_s_own_errors_are_lines_of_json(tmp_path, monkeypatch, capfd):
    Database(tmp_path / "e.db", create=True).close()
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker.os, "nice", lambda _: 0)

    def fails(*_, **__):
        raise ZeroDivisionError("with data")

    monkeypatch.setattr(worker, "work", fails)
    assert worker.main([str(tmp_path / "e.db")]) == 1
    assert worker.main([str(tmp_path / "none.db")]) == 2
    failed, missing = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert (failed["event"], failed["error"]) == ("the worker failed", "ZeroDivisionError")
    assert "with data" not in json.dumps(failed)
    assert "there is no database" in missing["reason"]


def test_one_experiment_that_fails_blocks_no_other(tmp_path, monkeypatch, capfd):
    from tests.experiment.cases import protocol

    database = Database(tmp_path / "e.db", create=True)
    for name in ("a", "b"):
        Experiment.create(database, protocol(name=name))
    stopped, advanced, report = threading.Event(), [], worker.WorkerReport()

    def advance(self):
        advanced.append(self.name)
        if len(advanced) > 5:
            stopped.set()
        if self.name == "a":
            raise InputError("it is broken")
        if len(advanced) == 2:
            raise KeyError("a row")
        return False

    monkeypatch.setattr(Experiment, "advance", advance)
    worker.work(database, None, stopped, pause=0.0, report=report)
    assert advanced[:4] == ["a", "b", "a", "b"]
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(line["experiment"], line.get("reason", line.get("error"))) for line in lines] == [
        ("a", "it is broken"),  # once
        ("b", "KeyError"),
    ]
    assert report.errors >= 3
    database.close()


def test_watching_costs_little(tmp_path):
    """Parts are looked at once in a while, however often they are asked for."""
    database = Database(tmp_path / "e.db", create=True)
    watch = PartWatch(database)
    assert watch.look() is watch.look()
    database.close()


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_spans_of_requests_and_analyses_name_nobody(service, monkeypatch, tmp_path):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    spans, provider = memory.InMemorySpanExporter(), sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(spans))
    monkeypatch.setattr(tracing, "tracer", None)
    service.assign("u-before")  # while traces are off, there are none
    tracing.use(provider)
    shelf = service.client.app.state.service.shelf
    (tmp_path / "log.parquet").touch()
    monkeypatch.setattr(shelf, "_export", lambda name: (tmp_path / "log.parquet", 0.0))
    at, somebody = "/experiments/checkout", {"age": 41234.0625, "country": "FR"}
    headers = {"Authorization": f"Bearer {ADMIN}", "traceparent": PARENT, "tracestate": "who=somebody"}
    asked = {"assignments": [{"unit": "ada@example.org", "context": somebody}, {"unit": "u-2", "context": somebody}]}
    made = service.client.request("POST", f"{at}/assignments", json=asked, headers=headers).json()["assignments"]
    service.post(f"{at}/rewards", {"assignment": made[0]["id"], "reward": 0.0006875})
    service.get(f"{at}/export")
    refused(service.post("/experiments/bob@example.org/rewards", {"assignment": "x", "reward": 1}), 404, "bob")
    service.get("/healthz", key=None)
    stopped, steps = threading.Event(), iter([True, InputError("no"), InputError("no")])

    def advance(_):
        step = next(steps, stopped)
        if step is stopped:
            stopped.set()
        if isinstance(step, InputError):
            raise step
        return step is True

    monkeypatch.setattr(Experiment, "advance", advance)
    worker.work(service.database, None, stopped, pause=0.0)
    found = {(span.name, span.status.is_ok): span for span in spans.get_finished_spans()}
    names = [f"POST {at}/assignments", f"POST {at}/rewards", f"GET {at}/export", "analysis"]
    wanted = {(name.replace("checkout", "{name}"), True) for name in names} | {("analysis", False)}
    assert found.keys() == wanted
    assert len(spans.get_finished_spans()) == 6  # the same error of an analysis is one span
    first = found[f"POST {at}/assignments".replace("checkout", "{name}"), True]
    assert f"{first.context.trace_id:032x}" == PARENT[3:35]
    about = {"http.request.method": "POST", "http.route": "/experiments/{name}/assignments"}
    about |= {"http.response.status_code": 200, "pacbandits.experiment": "checkout", "pacbandits.rows": 2}
    assert dict(first.attributes) == about
    assert (first.end_time - first.start_time) / 1e9 < 60
    everything = "".join(span.to_json() for span in spans.get_finished_spans())
    # Numbers that no time of day has as a part.
    for private in ("example.org", "u-2", "41234.0625", "FR", "0.0006875", made[0]["id"], ADMIN, "somebody", "country"):
        assert private not in everything


def test_traces_are_off_unless_variables_ask_for_them_and_the_extra_is_there(monkeypatch):
    def say(event, **fields):
        said.append((event, fields))

    known = {name for name in sys.modules if name.startswith("opentelemetry")}  # other tests may have imported them
    for missing in known | {"opentelemetry", "opentelemetry.sdk"}:
        monkeypatch.setitem(sys.modules, missing, None)
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    for environment, lines in (
        ({}, 0),
        ({"OTEL_SERVICE_NAME": "shop"}, 0),
        (endpoint | {"OTEL_SDK_DISABLED": "true"}, 0),
        (endpoint | {"OTEL_TRACES_EXPORTER": "none"}, 0),
        (endpoint, 1),
    ):
        said, own = [], Tracing()
        own.start(say, environment)
        assert own.tracer is None
        assert len(said) == lines
    assert said[0][0] == "traces are off"
    assert said[0][1]["reason"].endswith("pip install 'pacbandits[telemetry]'")


def test_an_exporter_of_traces_that_is_not_installed_is_named():
    pytest.importorskip("opentelemetry.sdk.trace")
    said = []
    Tracing().start(lambda event, **fields: said.append(fields["reason"]), {"OTEL_TRACES_EXPORTER": "pigeon"})
    assert said[0].startswith("no exporter of traces 'pigeon' is installed; there is console")
