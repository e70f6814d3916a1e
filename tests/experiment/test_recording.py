"""Recording: once each, in any order; a repeat is no news, a contradiction an error, and all of a batch or nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pacbandits.errors import InputError
from pacbandits.experiment.assignment_records import Report
from pacbandits.experiment.database import Contradiction, UnknownAssignment
from pacbandits.experiment.protocol import GuardrailRule, LateRule
from tests.experiment.live import Played

YOUNG = {"age": 25, "country": "DE"}


@pytest.fixture
def played(tmp_path):
    return Played(tmp_path / "e.db", {"reward_range": (-10, 40), "epsilon": 5})


def rewards(played):
    return played.experiment.status().to_json()["rewards"]


def test_a_reward_comes_once_and_again_without_harm(played):
    given = played.experiment.assign(YOUNG, unit="u")
    assert played.experiment.record(given.id, reward=12.5).outcome == "recorded"
    assert played.experiment.record(given.id, reward=12.5).outcome == "repeated"
    with pytest.raises(Contradiction, match=r"12\.5 before, and now as 13"):
        played.experiment.record(given.id, reward=13)
    assert rewards(played) == {"in": 1, "awaited": 0, "missed": 0, "late": 0}


def test_a_batch_is_stored_whole_or_not_at_all(played):
    one, other = played.experiment.assign([YOUNG, YOUNG], units=["u", "v"])
    for bad, error in (
        (Report("7f-0123456789abcdef0123", 1.0), UnknownAssignment),
        (Report(other.id, 41.0), InputError),
        (Report(other.id, float("nan")), InputError),
        (Report(one.id, 2.0), Contradiction),
        (Report(other.id), InputError),
        (Report(other.id, 1.0, guardrail=0.0), InputError),
    ):
        with pytest.raises(error):
            played.experiment.record_many([Report(one.id, 1.0), bad])
        assert rewards(played)["in"] == 0
    assert [one.outcome for one in played.experiment.record_many([Report(one.id, 1.0), Report(one.id, 1.0)])] == [
        "recorded",
        "repeated",
    ]


@pytest.mark.first(5)
@pytest.mark.parametrize("given", ["", "0", "0-", "zz-00", "-", "0-00000000000000000000", "1" * 400, "0-é", "\ud800"])
def test_ids_that_were_never_given_out_are_unknown(played, given):
    played.experiment.assign(YOUNG, unit="u")
    with pytest.raises(UnknownAssignment, match="no assignment"):
        played.experiment.record(given, reward=1.0)


def test_ids_of_another_experiment_are_unknown(tmp_path, played):
    other = Played(tmp_path / "f.db").experiment.assign(YOUNG, unit="u")
    played.experiment.assign(YOUNG, unit="u")
    with pytest.raises(UnknownAssignment):
        played.experiment.record(other.id, reward=1.0)


def test_after_its_window_a_reward_is_kept_and_does_not_count(tmp_path):
    played = Played(tmp_path / "e.db", {"late": LateRule("window", window_seconds=3600)})
    early, late, never = played.experiment.assign([YOUNG] * 3, units=["u", "v", "w"])
    played.now += timedelta(minutes=59)
    assert played.experiment.record(early.id, reward=1.0).outcome == "recorded"
    played.now += timedelta(minutes=2)
    assert played.experiment.record(late.id, reward=1.0).outcome == "late"
    assert played.experiment.record(late.id, reward=1.0).outcome == "late"  # it still does not count
    assert rewards(played) == {"in": 1, "awaited": 0, "missed": 2, "late": 1}
    assert never.id != late.id


def test_a_window_that_was_over_at_a_look_stays_over(tmp_path):
    """Whatever the clocks of servers say: what a look has taken for missing is never there later."""
    played = Played(tmp_path / "e.db", {"late": LateRule("window", window_seconds=3600)})
    given = played.experiment.assign(YOUNG, unit="u")
    played.now += timedelta(hours=2)
    played.experiment.advance(at_once=True)
    played.now -= timedelta(hours=1, minutes=30)  # another server, whose clock is slow
    assert played.experiment.record(given.id, reward=1.0).outcome == "late"


@pytest.mark.thorough
def test_a_guardrail_that_is_exceeded_pauses(tmp_path):
    rule = GuardrailRule("complaint", 0.05)
    played = Played(tmp_path / "e.db", {"guardrail": rule, "epsilon": 0.05})
    played.day(200, guardrail=lambda action: 0.03)
    assert played.advance()["state"] == "collecting"
    played.day(400, guardrail=lambda action: 0.4 if action == "discount" else 0.03)
    status = played.advance()
    assert status["state"] == "paused"
    assert "complaint" in status["reason"]
    assert "discount" in status["reason"]
    played.experiment.withdraw("discount", "people complain")
    played.experiment.resume("without the discount")
    assert played.advance()["state"] == "collecting"
    assert {one.action for one in played.day(100)} == {"standard", "free shipping"}
