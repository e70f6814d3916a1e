"""Whatever is asked, within what the OpenAPI says and beyond it: no 5xx, and no answer that it does not describe."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from pacbandits.service.application import create_app
from pacbandits.service.client import Client
from pacbandits.service.event_log import Journal
from tests.service.cases import ADMIN, SOMEBODY, protocol
from tests.service.servers import listening

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
NEVER = ("/experiments/{name}/stop",)  # it would end what the others ask of
QUICK = ("assignments", "rewards", "pause", "keys", "{name}")  # what the last words of a few addresses are
MODES = {"within": schemathesis.GenerationMode.POSITIVE, "beyond": schemathesis.GenerationMode.NEGATIVE}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    app = create_app(tmp_path_factory.mktemp("schema") / "x.db", admin_key=ADMIN, journal=Journal(io.StringIO()))
    with listening(app) as address, Client(address, ADMIN) as client:
        client.create(protocol())
        client.experiment("checkout").assign(SOMEBODY)
        yield app, address


def ask_everything(app, address, *, examples, mode, only=None):
    """Ask every operation so many times; which of them were answered how."""
    seen = set()
    with requests.Session() as session:
        for found in schemathesis.openapi.from_dict(app.openapi()).get_all_operations():
            operation = found.ok()
            if operation.path not in NEVER and (only is None or operation.path.rpartition("/")[2] in only):
                seen |= ask_often(operation, session, address, examples=examples, mode=mode)
    return seen


def ask_often(operation, session, address, *, examples, mode):
    seen = set()

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        if "name" in case.path_parameters and len(repr(case.body)) % 4:
            case.path_parameters["name"] = "checkout"
        answer = case.call(base_url=address, session=session, headers={"Authorization": f"Bearer {ADMIN}"})
        seen.add((operation.label, answer.status_code))
        case.validate_response(answer, checks=CHECKS)

    with suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
        ask()
    return seen


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
def test_every_answer_is_described(served, mode):
    seen = ask_everything(*served, examples=2, mode=MODES[mode], only=QUICK)
    assert {label.split("/")[-1] for label, _ in seen} == set(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_answer_is_described_however_often_one_asks(served, mode):
    ask_everything(*served, examples=300, mode=MODES[mode])
