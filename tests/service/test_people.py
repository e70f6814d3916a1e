"""Assigning and recording over HTTP: once each, in any order, stored before it is answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from pacbandits.experiment.experiment import Experiment
from tests.service.cases import ACTIONS, SOMEBODY, refused

AT = "/experiments/checkout/assignments"
REWARDS = "/experiments/checkout/rewards"


def test_somebody_is_assigned_once_and_the_reward_is_recorded_once(service):
    made = service.assign("u-17")
    assert made["new"]
    assert made["action"] in ACTIONS
    assert made["propensities"][made["action"]] == made["propensity"] == pytest.approx(1 / 3)
    assert sum(made["propensities"].values()) == pytest.approx(1)
    assert len(made["seal"]) == 64
    again = service.assign("u-17", context={"age": 77, "country": "AT"})
    assert {**again, "new": True, "seal": ""} == {**made, "seal": ""}
    assert not again["new"]
    told = {"assignment": made["id"], "reward": 1}
    assert service.post(REWARDS, told).json() == {"assignment": made["id"], "outcome": "recorded"}
    assert service.post(REWARDS, told).json() == {"assignment": made["id"], "outcome": "repeated"}
    before = service.records()
    assert refused(service.post(REWARDS, {**told, "reward": 0.5}), 409, "reported as 1 before")
    assert service.records() == before


def test_assignments_and_rewards_pass_by_the_framework(service, monkeypatch):
    """Its layers would cost an eighth of the CPU time of a request."""
    monkeypatch.setattr(service.client.app.gate, "_app", None)
    made = service.assign("u-19")
    assert service.post(REWARDS, {"assignment": made["id"], "reward": 1}).json()["outcome"] == "recorded"


def test_what_the_issue_shows_with_curl_works(service):
    """Without a content type that says JSON, as curl sends it."""
    raw = b'{"unit": "u-18", "context": {"age": 31, "country": "DE"}}'
    headers = {"Authorization": f"Bearer {service.keys['assign']}", "Content-Type": "application/x-www-form-urlencoded"}
    answer = service.client.request("POST", AT, content=raw, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["unit"] == "u-18"


def test_people_without_a_name_never_come_back(service):
    one, other = (service.post(AT, {"context": SOMEBODY}).json() for _ in range(2))
    assert one["new"]
    assert other["new"]
    assert one["unit"] != other["unit"]


def test_a_batch_is_answered_entry_by_entry(service):
    entries = [{"unit": f"b-{i % 3}", "context": SOMEBODY} for i in range(4)]
    entries.insert(1, {"unit": "b-9", "context": {"age": 31}})
    answer = service.post(AT, {"assignments": entries})
    assert answer.status_code == 200
    told = answer.json()["assignments"]
    assert "lacks 'country'" in told[1]["error"]
    assert [one["unit"] for one in told if "error" not in one] == ["b-0", "b-1", "b-2", "b-0"]
    assert told[0]["id"] == told[-1]["id"]
    before = service.records()
    assert refused(service.post(AT, {"assignments": entries[1:2]}), 422, "lacks 'country'")
    assert service.records() == before


def test_a_large_batch_is_stored_in_parts_and_answered_in_order(service):
    entries = [{"unit": f"large-{i}", "context": SOMEBODY} for i in range(2_500)]
    told = service.post(AT, {"assignments": entries}).json()["assignments"]
    assert [one["unit"] for one in told] == [one["unit"] for one in entries]
    assert len({one["id"] for one in told}) == 2_500


def test_rewards_in_a_batch_are_stored_all_or_none(service):
    made = [service.assign(f"r-{i}")["id"] for i in range(3)]
    before = service.records()
    wrong = [{"assignment": id, "reward": 1} for id in made] + [{"assignment": "0-00", "reward": 1}]
    assert refused(service.post(REWARDS, {"rewards": wrong}), 404, "no assignment '0-00'")
    assert service.records() == before
    told = service.post(REWARDS, {"rewards": wrong[:-1]}).json()["rewards"]
    assert told == [{"assignment": id, "outcome": "recorded"} for id in made]
    assert service.records() == before + 3


def test_many_at_once_share_transactions_and_get_each_their_own(service):
    """One that is wrong spoils nobody else's."""
    made = [service.assign(f"m-{i}")["id"] for i in range(24)]
    writer = service.client.app.state.service.shelf._writers["checkout"]
    record_many, sizes = writer.experiment.record_many, []
    writer.experiment.record_many = lambda reports: (sizes.append(len(reports)), record_many(reports))[1]

    def report(i):
        return service.post(REWARDS, {"assignment": made[i] if i % 6 else "1-beef", "reward": i / 24})

    try:
        with ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(report, range(24)))
    finally:
        del writer.experiment.record_many
    assert [answer.status_code for answer in answers] == [200 if i % 6 else 404 for i in range(24)]
    assert all(answer.json()["assignment"] == made[i] for i, answer in enumerate(answers) if i % 6)
    assert max(sizes) > 1  # some went together


def test_a_reward_after_its_window_is_gone_alone_and_late_among_others(service, monkeypatch):
    service.create(name="windowed", late={"rule": "window", "window": "1 hour", "missing": 0})
    made = [service.assign(f"w-{i}", name="windowed")["id"] for i in range(3)]
    writer = service.client.app.state.service.shelf._writers["windowed"]
    monkeypatch.setattr(writer.experiment, "_clock", lambda: datetime.now(UTC) + timedelta(hours=2))
    at = "/experiments/windowed/rewards"
    assert refused(service.post(at, {"assignment": made[0], "reward": 1}), 410, "after its window")
    told = service.post(at, {"rewards": [{"assignment": id, "reward": 1} for id in made[1:]]})
    assert [one["outcome"] for one in told.json()["rewards"]] == ["late", "late"]
    assert service.get("/experiments/windowed").json()["rewards"]["late"] == 3


def test_metrics_come_with_the_reward(service):
    measured = {
        "metrics": ["returned", ["minutes", 0, 600]],
        "guardrails": ["returned <= control"],
        "control": "discount",
    }
    service.create(name="measured", **measured)
    id, at = service.assign("m", name="measured")["id"], "/experiments/measured/rewards"
    told = {"assignment": id, "reward": 1, "metrics": {"returned": 0, "minutes": 12.5}}
    before = service.records("measured")
    assert refused(service.post(at, {"assignment": id, "reward": 1}), 422, "metric 'returned' is missing")
    assert refused(service.post(at, told | {"metrics": {"returned": 0, "minutes": 601}}), 422, "outside")
    assert service.records("measured") == before
    assert [service.post(at, told).json()["outcome"] for _ in range(2)] == ["recorded", "repeated"]
    assert refused(service.post(at, told | {"metrics": {"returned": 1, "minutes": 12.5}}), 409, "metric 'returned'")
    assert service.records("measured") == before + 3
    status = service.get("/experiments/measured").json()
    assert (status["standard"], status["guardrails"]) == ("discount", ["returned <= control"])


def test_what_was_answered_is_in_the_database(service, tmp_path):
    """Another process would find it: nothing is kept in memory alone."""
    made = service.assign("durable")
    service.post(REWARDS, {"assignment": made["id"], "reward": 0.25})
    other = Experiment.open(service.client.app.state.service.shelf.database.full_url, "checkout")
    again = other.assign(SOMEBODY, unit="durable")
    assert (again.id, again.action, again.new) == (made["id"], made["action"], False)
    assert other.record(made["id"], reward=0.25).outcome == "repeated"
    other.close()


def test_a_paused_experiment_takes_in_nobody_new(service):
    keys = service.create(name="paused")
    known = service.assign("old", name="paused")
    at = "/experiments/paused"
    assert service.post(f"{at}/pause", {"reason": "a holiday"}, key=keys["steer"]).json()["state"] == "paused"
    assert refused(service.post(f"{at}/assignments", {"unit": "new", "context": SOMEBODY}), 409, "a holiday")
    assert service.assign("old", name="paused")["id"] == known["id"]
    assert service.post(f"{at}/rewards", {"assignment": known["id"], "reward": 1}).status_code == 200
    assert service.post(f"{at}/resume", {"reason": "it is over"}).json()["state"] == "collecting"
    assert service.assign("new", name="paused")["new"]
    assert service.post(f"{at}/close-round", {"reason": "to see"}).status_code == 200
    assert refused(service.post(f"{at}/withdraw", {"action": "discout", "reason": "stock"}), 422, "did you mean")
    assert service.post(f"{at}/withdraw", {"action": "discount", "reason": "stock"}).status_code == 200
    assert service.assign("after", name="paused")["propensities"]["discount"] == 0
    assert service.post(f"{at}/stop", {"reason": "enough"}).json()["state"] == "stopped"
    assert refused(service.post(f"{at}/resume", {"reason": "again"}), 409, "stopped")
