"""What the service tells: status, result, seal, design, export, health and counts."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
from functools import partial

import pyarrow.parquet as pq
import pytest
from sqlalchemy.exc import OperationalError

import pacbandits as pb
from pacbandits.experiment.experiment import Experiment, delete_experiment
from pacbandits.service import parts as watching
from pacbandits.service.open_experiments import EXPORTER
from pacbandits.service.openapi import BODIES
from tests.service.cases import ACTIONS, ADMIN, SOMEBODY, people, refused, serving

AT = "/experiments/checkout"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """An experiment that some people took part in."""
    with serving(tmp_path_factory.mktemp("played")) as asked:
        asked.keys = asked.create()
        entries = [{"unit": f"p-{i}", "context": one} for i, one in enumerate(people(300, seed=1))]
        made = asked.post(f"{AT}/assignments", {"assignments": entries}).json()["assignments"]
        told = [{"assignment": one["id"], "reward": float(one["action"] == "discount")} for one in made]
        assert asked.post(f"{AT}/rewards", {"rewards": told}).status_code == 200
        yield asked


def test_status_and_result(played):
    status = played.get(AT).json()
    assert (status["name"], status["state"], status["assigned"]) == ("checkout", "collecting", 300)
    assert status["rewards"]["in"] == 300
    assert status["actions"] == ACTIONS
    assert played.get(f"{AT}/result").json()["certified"] is False


def test_the_seal_changes_with_every_record_and_comes_with_assignments(played):
    before = played.get(f"{AT}/seal").json()
    assert re.fullmatch("[0-9a-f]{64}", before["head"])
    assert before["records"] == 600 + len(before["entries"])
    played.assign("one more")
    after = played.get(f"{AT}/seal").json()
    assert after["head"] != before["head"]
    assert after["records"] == before["records"] + 1
    played.client.app.state.service.shelf._writers["checkout"]._sealed = 0.0
    assert played.assign("yet another")["seal"] == played.get(f"{AT}/seal").json()["head"]


def test_the_design_can_be_evaluated_elsewhere(played):
    told = played.get(f"{AT}/design").json()
    assert told["actions"] == ACTIONS
    assert told["features"] == ["age", "country"]


def test_the_export_is_a_log_that_is_read(played, tmp_path):
    answer = played.get(f"{AT}/export", key=played.keys["read"])
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.num_rows >= 300
    (tmp_path / "export.parquet").write_bytes(answer.content)
    log, _ = pb.read_log(tmp_path / "export.parquet")
    assert len(log) == table.num_rows
    assert "unit" not in table.column_names or not any("p-" in str(one) for one in table["unit"].to_pylist())


def test_an_export_is_written_by_another_process(played, monkeypatch):
    """In a thread of the server, assignments would wait for it."""

    def never(*_):
        raise AssertionError("this is the server's process")

    monkeypatch.setattr(Experiment, "export", never)
    assert played.get(f"{AT}/export").status_code == 200
    assert EXPORTER._process.pid != os.getpid()
    played.create(name="empty")
    assert refused(played.get("/experiments/empty/export"), 422, "nobody has been assigned anything yet")
    delete_experiment(played.client.app.state.service.shelf.database, "empty")  # as another server does it
    assert refused(played.get("/experiments/empty/export"), 404, "no experiment 'empty'")


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "status"), [(signal.SIGALRM, 200), (signal.SIGKILL, 500)])
def test_a_process_that_exports_may_end_at_any_moment(played, number, status):
    """Idle, or killed as it takes too much memory: then this export fails, and the next one is written."""
    assert played.get(f"{AT}/export").status_code == 200
    stopped = EXPORTER._process.pid
    os.kill(stopped, signal.SIGSTOP)  # it ends with the request in its pipe
    asking = threading.Timer(0.3, lambda: (os.kill(stopped, number), os.kill(stopped, signal.SIGCONT)))
    asking.start()
    assert played.get(f"{AT}/export").status_code == status
    asking.join()
    assert played.get(f"{AT}/export").status_code == 200
    assert EXPORTER._process.pid != stopped


def test_health_needs_no_key_and_tells_when_it_is_over(played, monkeypatch):
    for path in ("/healthz", "/readyz"):
        answer = played.get(path, key=None).json()
        assert {name: answer[name] for name in ("status", "version")} == {"status": "ok", "version": pb.__version__}
    service = played.client.app.state.service
    monkeypatch.setattr(service, "stopping", True)
    assert refused(played.get("/readyz", key=None), 503, "shut down")
    assert played.get("/healthz", key=None).status_code == 200


def test_a_database_that_does_not_answer_is_told(played, monkeypatch):
    def gone(*_):
        raise OperationalError("select", {}, Exception("gone"))

    service = played.client.app.state.service
    monkeypatch.setattr(watching, "KEEP_SECONDS", -1.0)
    monkeypatch.setattr(service.shelf.database, "skew", gone)
    assert refused(played.get("/readyz", key=None), 503, "does not answer")
    monkeypatch.setattr(service.shelf._writers["checkout"].experiment, "assign_many", gone)
    answer = played.post(f"{AT}/assignments", {"context": SOMEBODY})
    assert refused(answer, 503, "ask again")
    assert answer.headers["retry-after"] == "1"
    assert "OperationalError" in played.journal()


def test_what_nobody_foresaw_is_told_without_its_values(played, monkeypatch):
    def fails(*_):
        raise RuntimeError("a context with age 31")

    monkeypatch.setattr(played.client.app.state.service.shelf._writers["checkout"].experiment, "assign_many", fails)
    assert refused(played.post(f"{AT}/assignments", {"context": SOMEBODY}), 500, "server log says where")
    assert "RuntimeError" in played.journal()
    assert "age 31" not in played.journal()


def test_counts_name_no_experiment(played):
    text = played.get("/metrics", key=None).text
    assert 'pacbandits_answers_total{route="/experiments/{name}/assignments",status="200"}' in text
    assert float(re.search(r"^pacbandits_assigned_total (\S+)", text, re.MULTILINE)[1]) >= 300
    assert 'pacbandits_rewards_total{outcome="recorded"} 300.0' in text
    assert "pacbandits_waiting_rows 0.0" in text
    assert "checkout" not in text


def test_the_description_has_every_body_error_and_example(played):
    told = played.get("/openapi.json", key=None).json()
    assert {model.__name__ for model in BODIES} <= set(told["components"]["schemas"])
    for model in BODIES:
        assert told["components"]["schemas"][model.__name__]["examples"]
    for path, operations in told["paths"].items():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert answer["content"]["application/json"]["schema"]["$ref"].endswith("ErrorAnswer")
            keyed = path.startswith(("/experiments", "/keys"))
            assert operation["security"] == ([{"key": []}] if keyed else [])
            assert ("401" in operation["responses"]) is keyed


def test_what_is_accepted_is_answered_before_the_end(tmp_path):
    """Those who wait when the service ends have their answers, and these are stored."""
    with serving(tmp_path) as service:
        service.create()
        service.assign()
        shelf = service.client.app.state.service.shelf
        writer = shelf._writers["checkout"]
        entries = {"assignments": [{"unit": f"end-{i}", "context": SOMEBODY} for i in range(900)]}
        options = {"json": entries, "headers": {"Authorization": f"Bearer {ADMIN}"}}
        asking = partial(service.client._http.request, "POST", f"{AT}/assignments", **options)
        waiting = service.client._portal.start_task_soon(asking)
        while not writer._assigning.jobs and not waiting.done():
            pass
        writer.close()
        assert waiting.result().status_code == 200
        assert refused(service.post(f"{AT}/assignments", {"context": SOMEBODY}), 503, "shut down")
        assert service.get(AT).json()["assigned"] == 901
