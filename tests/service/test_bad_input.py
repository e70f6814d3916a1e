"""What is wrong is refused with the right status and a sentence, and nothing is stored."""

from __future__ import annotations

import json

import pytest

from pacbandits.errors import InputError, spelling_options
from pacbandits.service.messages import refusal_of
from tests.service.cases import ADMIN, SOMEBODY, protocol, refused

ASSIGN, REWARD, CREATE = "/experiments/checkout/assignments", "/experiments/checkout/rewards", "/experiments"
GOOD = {"unit": "x", "context": SOMEBODY}

ASSIGNMENTS = [
    ({**GOOD, "context": {**SOMEBODY, "agee": 3}}, "'agee', which is no column"),
    ({**GOOD, "context": {"age": 31}}, "lacks 'country'"),
    ({**GOOD, "context": {"age": 31, "contry": "DE"}}, "'contry' may be meant"),
    ({**GOOD, "context": {"age": "31", "country": "DE"}}, "'age' must be a number"),
    ({**GOOD, "context": {"age": True, "country": "DE"}}, "'age' must be a number"),
    ({**GOOD, "context": {"age": None, "country": "DE"}}, "'age' is null"),
    ({**GOOD, "context": {"age": 31, "country": "XX"}}, "'country' is 'XX'"),
    ({**GOOD, "context": {"age": 31, "country": 7}}, "'country' must be text"),
    ({**GOOD, "context": {"age": [31], "country": "DE"}}, "'context.age' must be text, a finite number"),
    ({**GOOD, "context": [31, "DE"]}, "'context': input should be"),
    ({**GOOD, "context": {"age": 31, "country": "D\0E"}}, "'context.country'"),
    ({**GOOD, "unit": 17}, "'unit': input should be a valid string"),
    ({**GOOD, "unit": ""}, "'unit': a unit is a text of 1 to 256 characters"),
    ({**GOOD, "unit": "x" * 257}, "'unit': a unit is a text of 1 to 256 characters"),
    ({**GOOD, "unit": "a\0b"}, "'unit': a unit is a text of 1 to 256 characters"),
    ({**GOOD, "units": "x"}, "'units' means nothing here"),
    ({"unit": "x"}, "'context' is missing"),
    ({"assignments": []}, "'assignments'"),
    ({"assignments": {}}, "'assignments'"),
    ({"assignments": [GOOD, {"unit": "y"}]}, "'assignments[1].context' is missing"),
    ({"assignments": [GOOD], "more": 1}, "'more' means nothing here"),
    ([GOOD], "the body"),
    (7, "the body"),
    (None, "the body"),
]
RAW = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b'{"unit": "x", "context": {"age": NaN, "country": "DE"}}', "'context.age' must be text, a finite number"),
    (b'{"unit": "x", "context": {"age": Infinity, "country": "DE"}}', "'context.age' must be"),
    (b'{"unit": "x", "context": {"age": 1e999, "country": "DE"}}', "'context.age' must be"),
    (b'{"unit": "\\ud800", "context": {"age": 31, "country": "DE"}}', "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b'{"unit": "x", "context": {"age": 1' + b"0" * 5_000 + b', "country": "DE"}}', ""),
]


@pytest.mark.first(5)
@pytest.mark.parametrize(("body", "words"), ASSIGNMENTS)
def test_an_assignment_that_cannot_be(service, body, words):
    before = service.records()
    assert refused(service.post(ASSIGN, raw=json.dumps(body).encode()), 422, words)
    assert service.records() == before


@pytest.mark.parametrize(("raw", "words"), RAW, ids=range(len(RAW)))
def test_a_body_that_is_none(service, raw, words):
    before = service.records()
    assert refused(service.post(ASSIGN, raw=raw), 422, words)
    assert service.records() == before


def test_a_reward_that_cannot_be(service):
    id = service.assign("rewarded")["id"]
    before = service.records()
    for told, status, words in (
        ({"assignment": id, "reward": 1.5}, 422, "a reward of 1.5 is outside"),
        ({"assignment": id, "reward": -0.1}, 422, "outside"),
        ({"assignment": id, "reward": "1"}, 422, "'reward'"),
        ({"assignment": id, "reward": True}, 422, "'reward'"),
        ({"assignment": id}, 422, "says nothing"),
        ({"assignment": id, "reward": 1, "guardrail": 1}, 422, "no guardrail"),
        ({"assignment": id, "reward": 1, "rewards": 1}, 422, "'rewards'"),
        ({"assignment": id, "reward": 1, "metrics": {"returned": 0}}, 422, "'returned' is no metric"),
        ({"assignment": id, "reward": 1, "metrics": {"returned": "0"}}, 422, "'metrics.returned'"),
        ({"assignment": id, "reward": 1, "metrics": [0]}, 422, "'metrics'"),
        ({"reward": 1}, 422, "'assignment' is missing"),
        ({"assignment": 3, "reward": 1}, 422, "'assignment'"),
        ({"assignment": "0-0123456789abcdef0123", "reward": 1}, 404, "no assignment"),
        ({"assignment": "ffffff-0123456789abcdef0123", "reward": 1}, 404, "no assignment"),
        ({"assignment": "nonsense", "reward": 1}, 404, "no assignment"),
        ({"rewards": [{"assignment": id, "reward": 1}, {"assignment": id, "reward": 0}]}, 409, "before, and now"),
    ):
        assert refused(service.post(REWARD, told), status, words), told
    raw = b'{"assignment": "%s", "reward": NaN}' % id.encode()
    assert refused(service.post(REWARD, raw=raw), 422, "'reward'")
    assert service.records() == before


def test_an_id_of_another_experiment_is_unknown_here(service):
    service.create(name="foreign")
    id = service.assign("u", name="foreign")["id"]
    before = service.records()
    assert refused(service.post(REWARD, {"assignment": id, "reward": 1}), 404, "no assignment")
    assert service.records() == before


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({}, 409, "'checkout' already"),
        ({"name": "a b"}, 422, "no name for an experiment"),
        ({"name": "n", "epsilon": 0}, 422, "epsilon"),
        ({"name": "n", "epsilon": "0.1"}, 422, "'epsilon'"),
        ({"name": "n", "actions": ["one"]}, 422, "actions"),
        ({"name": "n", "policies": "tree"}, 422, "did you mean 'trees'"),
        ({"name": "n", "contexts": []}, 422, "'contexts'"),
        ({"name": "n", "contexts": "contexts.parquet"}, 422, "'contexts'"),
        ({"name": "n", "contexts": [{"age": 3}, {"age": "x"}]}, 422, "both text and numbers"),
        ({"name": "n", "contexts": [{}]}, 422, ""),
        ({"name": "n", "features": ["agee"]}, 422, "did you mean 'age'"),
        ({"name": "n", "late": {"rule": "window"}}, 422, "7 days"),
        ({"name": "n", "late": {"rule": "window", "window": "7 dogs"}}, 422, "no duration"),
        ({"name": "n", "rounds": {"hours": -1}}, 422, "hours"),
        ({"name": "n", "guardrail": {"name": "x"}}, 422, "'guardrail.most' is missing"),
        ({"name": "n", "holdout": 2}, 422, "holdout"),
        ({"name": "n", "control": "discout"}, 422, "'discount'"),
        ({"name": "n", "metrics": [3]}, 422, "'metrics[0]"),
        ({"name": "n", "metrics": [["minutes", 9]]}, 422, "a column and its range"),
        ({"name": "n", "guardrails": ["returned <= control"]}, 422, "list it in metrics"),
        ({"name": "n", "plan": "plan.json"}, 422, "'plan' is not accepted over HTTP"),
        ({"name": "n", "pilot": [], "contexts": []}, 422, "created by pacbandits experiment create FILE"),
        ({"name": "n", "pilot_split": "uniform"}, 422, "'pilot_split' is not accepted over HTTP"),
        ({"name": "n", "webhooks": []}, 422, "use pacbandits experiment webhooks add"),
        ({"name": "n", "problem": "trees", "more": 1}, 422, "(and 1 other place is wrong)"),
    ],
)
def test_an_experiment_that_cannot_be_created(service, changed, status, words):
    before = service.get("/experiments").json()
    assert refused(service.post(CREATE, protocol(**changed)), status, words)
    assert service.get("/experiments").json() == before


def test_a_misspelt_field_is_named_beside_the_missing_one(service):
    given = {("acton" if name == "actions" else name): value for name, value in protocol(name="n").items()}
    assert refused(service.post(CREATE, given), 422, "'actions' is missing; 'acton' may be meant for it")


def test_steering_says_why(service):
    for body, words in (({}, "'reason' is missing"), ({"reason": ""}, "say why"), ({"reason": "x" * 1001}, "say why")):
        assert refused(service.post("/experiments/checkout/pause", body), 422, words)
    assert service.get("/experiments/checkout").json()["state"] == "collecting"


def test_what_is_not_there_is_told(service):
    for name in ("nowhere", "a%00b", "x" * 500, "%F0%9F%98%80", ".."):
        for path in ("", "/seal", "/export", "/keys"):
            if name == ".." and path in ("", "/keys"):  # the client takes it for / and /keys
                continue
            assert service.get(f"/experiments/{name}{path}").status_code == 404
        answer = service.post(f"/experiments/{name}/assignments", GOOD)
        assert answer.status_code == 404
    assert refused(service.get("/nothing"), 404, "/openapi.json says what there is")
    assert refused(service.get(ASSIGN), 405, "other methods")
    assert service.get(ASSIGN).headers["allow"] == "POST"
    assert refused(service.ask("PUT", "/experiments/checkout"), 405, "other methods")
    for wrong in ({}, {"confirm": "other"}, {"confirm": "checkout", "reason": "x"}):
        assert service.ask("DELETE", "/experiments/checkout", wrong).status_code == 422
    assert refused(service.ask("DELETE", "/experiments/nowhere", {"confirm": "nowhere"}), 404, "nowhere")
    service.create(name="gone")
    service.assign("somebody", name="gone")
    assert refused(
        service.ask("DELETE", "/experiments/gone", {"confirm": "gone"}, key=service.keys["steer"]), 403, "admin"
    )
    assert service.ask("DELETE", "/experiments/gone", {"confirm": "gone"}).status_code == 200
    assert service.get("/experiments/gone").status_code == 404


def test_the_journal_says_what_was_done_and_not_to_whom(service):
    service.assign("somebody-secret", context={"age": 67, "country": "FR"})
    service.post(ASSIGN, {"unit": "somebody-secret", "context": {"age": "sixty-seven", "country": "FR"}})
    lines = [json.loads(line) for line in service.journal().splitlines()]
    assert {"at", "event", "method", "route", "status", "ms", "experiment", "key", "rows"} == set(lines[-2])
    assert (lines[-2]["status"], lines[-1]["status"]) == (200, 422)
    for word in ("somebody-secret", "sixty", '"FR"', ADMIN, service.keys["assign"]):
        assert word not in service.journal()


def test_arguments_are_spelled_as_names_though_a_command_serves():
    with spelling_options():
        refusal = refusal_of(InputError("a budget needs costs; add --max-cost 2, or --control NAME"))
    assert refusal is not None
    assert (refusal.status, refusal.sentence) == (422, 'a budget needs costs; add max_cost=2, or control="NAME"')
