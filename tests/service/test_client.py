"""The client and the OpenFeature provider, against a real server on the loopback."""

from __future__ import annotations

import io

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

from pacbandits.errors import InputError
from pacbandits.service import client as client_module
from pacbandits.service.application import create_app
from pacbandits.service.client import Client, ServiceError
from pacbandits.service.event_log import Journal
from pacbandits.service.openfeature import PacbanditsProvider
from tests.service.cases import ACTIONS, ADMIN, SOMEBODY, people, protocol
from tests.service.servers import listening


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    app = create_app(tmp_path_factory.mktemp("client") / "x.db", admin_key=ADMIN, journal=Journal(io.StringIO()))
    with listening(app) as found:
        yield found


@pytest.fixture(scope="module")
def keys(address):
    with Client(address, ADMIN) as client:
        made = client.create(protocol())
        client.create(protocol(name="switch", actions=["off", "on"]))
        client.create(protocol(name="price", actions=["9", "12", "15"]))
        every = client.ask("POST", "/experiments/checkout/keys", {"scope": "assign steer"})
    return {one["scope"]: one["key"] for one in (*made["keys"], every)}


@pytest.fixture
def remote(address, keys):
    with Client(address, keys["assign steer"]) as client:
        yield client.experiment("checkout")


@pytest.mark.thorough
def test_a_whole_experiment_through_the_client(address, keys, remote, tmp_path):
    made = remote.assign(SOMEBODY, unit="u-17")
    assert made.new
    assert made.action in ACTIONS
    assert not remote.assign(SOMEBODY, unit="u-17").new
    assert remote.record(made.id, reward=1).outcome == "recorded"
    assert remote.record(made.id, reward=np.float64(1)).outcome == "repeated"
    with pytest.raises(ServiceError, match="reported as 1 before") as error:
        remote.record(made.id, reward=0)
    assert error.value.status == 409
    several = remote.assign_many([*people(5), {"age": 3}], [f"s-{i}" for i in range(6)])
    assert isinstance(several[-1], InputError)
    assert [one.unit for one in several[:-1]] == [f"s-{i}" for i in range(5)]
    told = remote.record_many({one.id: 0.5 for one in several[:-1]})
    assert [(one.id, one.reward, one.outcome) for one in told] == [(o.id, 0.5, "recorded") for o in several[:-1]]
    assert remote.assign({"age": np.int64(31), "country": "DE"}).new
    assert remote.status()["assigned"] == 7
    assert remote.result()["certified"] is False
    assert remote.design()["actions"] == ACTIONS
    assert remote.seal()["records"] >= 13
    assert pq.read_table(remote.export(tmp_path / "log.parquet")).num_rows == 7
    assert remote.steer("pause", reason="to see")["state"] == "paused"
    assert remote.steer("resume", reason="seen")["state"] == "collecting"
    with Client(address, keys["read"]) as reading:
        assert reading.experiments() == ["checkout"]
        with pytest.raises(ServiceError, match="may only read"):
            reading.experiment("checkout").assign(SOMEBODY)


@pytest.mark.thorough
def test_what_cannot_be_sent_is_told_before_it_is(remote):
    for context, words in (({"age": float("nan"), "country": "DE"}, "NaN"), ({"age": object()}, "cannot be sent")):
        with pytest.raises(InputError, match=words):
            remote.assign(context)
    with pytest.raises(InputError, match="2 contexts and 1 units"):
        remote.assign_many([SOMEBODY, SOMEBODY], ["u"])
    for wrong in ("localhost:8000", "ftp://host", "http://", "", "nonsense"):
        with pytest.raises(InputError, match="no address of a service"):
            Client(wrong, "key")


class Faulty(httpx.BaseTransport):
    """A way to a server on which the first requests get lost: before they arrive, after, or with an error."""

    def __init__(self, faults):
        self.faults, self.bodies, self.real = list(faults), [], httpx.HTTPTransport()

    def handle_request(self, request):
        self.bodies.append(request.content)
        fault = self.faults.pop(0) if self.faults else None
        if fault == "before":
            raise httpx.ConnectError("refused")
        if isinstance(fault, int):
            return httpx.Response(fault, json={"error": "later"}, headers={"Retry-After": "3"})
        answer = self.real.handle_request(request)
        if fault == "after":
            answer.close()
            raise httpx.ReadError("broken off")
        return answer

    def close(self):
        self.real.close()


@pytest.mark.thorough
def test_what_gets_lost_is_asked_again_and_done_once(address, keys, monkeypatch):
    slept = []
    monkeypatch.setattr(client_module.time, "sleep", slept.append)
    faulty = Faulty(["before", "after", 503, 429])
    with Client(address, keys["assign steer"], transport=faulty) as client:
        remote = client.experiment("checkout")
        before = remote.status()["assigned"]
        faulty.faults = ["before", "after", 503, 429]
        faulty.bodies = []
        made = remote.assign(SOMEBODY)
        assert len(faulty.bodies) == 5
        assert len(set(faulty.bodies)) == 1  # also somebody without a name is the same one each time
        assert not made.new  # it was made the second time, whose answer got lost
        assert remote.status()["assigned"] == before + 1
        assert slept[-2:] == [3.0, 3.0]
        faulty.faults = ["after"]
        assert remote.record(made.id, reward=1).outcome == "repeated"
        faulty.faults = ["before"] * 9
        with pytest.raises(ServiceError, match="cannot be reached") as error:
            remote.assign(SOMEBODY)
        assert error.value.status == 0


@pytest.fixture
def flags(address):
    api.set_provider_and_wait(PacbanditsProvider(Client(address, ADMIN, retries=0)))
    yield api.get_client()
    api.shutdown()


def somebody(unit="f-1", **more):
    return EvaluationContext(unit, SOMEBODY | more)


def test_a_flag_is_an_assignment(flags, remote):
    details = flags.get_string_details("checkout", "standard", somebody())
    made = remote.assign(SOMEBODY, unit="f-1")
    assert (details.value, details.variant, details.reason) == (made.action, made.action, Reason.SPLIT)
    told = dict(details.flag_metadata)
    assert (told["assignment"], told["propensity"], told["round"]) == (made.id, made.propensity, made.round)
    assert (told["new"], len(told["seal"])) == (True, 64)
    assert flags.get_string_value("checkout", "standard", somebody()) == made.action
    reported = TrackingEventDetails(value=1.0, attributes={"assignment": made.id})
    flags.track("checkout", somebody(), reported)
    assert remote.record(made.id, reward=1).outcome == "repeated"


def test_flags_of_other_kinds_are_read_from_the_names_of_actions(flags):
    seen = {flags.get_boolean_value("switch", False, somebody(f"s-{i}")) for i in range(20)}
    assert seen == {True, False}
    assert flags.get_integer_value("price", 0, somebody()) in (9, 12, 15)
    assert flags.get_float_value("price", 0.0, somebody()) in (9.0, 12.0, 15.0)


@pytest.mark.first(4)
@pytest.mark.parametrize(
    ("flag", "context", "code"),
    [
        ("nowhere", somebody(), ErrorCode.FLAG_NOT_FOUND),
        ("checkout", EvaluationContext(None, SOMEBODY), ErrorCode.TARGETING_KEY_MISSING),
        ("checkout", None, ErrorCode.TARGETING_KEY_MISSING),
        ("checkout", EvaluationContext("u", {"age": 31}), ErrorCode.INVALID_CONTEXT),
        ("checkout", somebody(age="old"), ErrorCode.INVALID_CONTEXT),
        ("checkout", somebody(age=float("nan")), ErrorCode.INVALID_CONTEXT),
        ("checkout", somebody(more=1), ErrorCode.INVALID_CONTEXT),
    ],
)
def test_what_goes_wrong_gives_the_default_and_why(flags, flag, context, code):
    details = flags.get_string_details(flag, "standard", context)
    assert (details.value, details.error_code, details.reason) == ("standard", code, Reason.ERROR)
    assert details.error_message


def test_a_kind_that_the_actions_are_not(flags):
    for details in (
        flags.get_boolean_details("checkout", True, somebody()),
        flags.get_integer_details("switch", 3, somebody()),
        flags.get_object_details("checkout", {"a": 1}, somebody()),
    ):
        assert details.error_code == ErrorCode.TYPE_MISMATCH
    assert flags.get_object_value("checkout", {"a": 1}, somebody()) == {"a": 1}


def test_a_service_that_is_away_or_an_experiment_that_is_paused_keeps_nobody_waiting(flags, remote):
    remote.steer("pause", reason="to see")
    try:
        details = flags.get_string_details("checkout", "standard", somebody("nobody"))
    finally:
        remote.steer("resume", reason="seen")
    assert (details.value, details.error_code) == ("standard", ErrorCode.GENERAL)
    assert "to see" in details.error_message
    away = PacbanditsProvider(Client("http://127.0.0.1:1", "key", retries=0))
    details = away.resolve_string_details("checkout", "standard", somebody())
    assert (details.value, details.error_code) == ("standard", ErrorCode.PROVIDER_NOT_READY)
    away.shutdown()
