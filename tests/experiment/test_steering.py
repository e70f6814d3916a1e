"""Steering while something else goes on: after a certificate, during a look, in several threads, by two clocks."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from pacbandits.certificate import Certificate
from pacbandits.certificate.certificate import LED
from pacbandits.experiment import steering as advancing
from pacbandits.experiment import store
from pacbandits.experiment.assignment_records import AssignmentRequest, Report
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import LateRule
from pacbandits.experiment.store import StoredExperiment
from tests.experiment.cases import people
from tests.experiment.live import Played

PERSON = {"age": 30, "country": "DE"}


def certified(path, **options):
    """An experiment that was played until it was certified."""
    played = Played(path, {"epsilon": 0.2, **options})
    for _ in range(20):
        played.day(400)
        if played.advance()["state"] == "certified":
            return played
    pytest.fail("not certified")


@pytest.mark.thorough
def test_what_is_withdrawn_after_the_certificate_makes_another_one_without_it(tmp_path):
    played = certified(tmp_path / "e.db")
    before = played.experiment.result()
    assert "discount" in before.words
    played.experiment.withdraw("discount", "sold out")
    assert played.experiment.status().state == "collecting"
    assert played.experiment.result().policy is None  # what is proven takes what nobody may get any more
    for _ in range(10):
        played.day(400)
        if played.advance()["state"] == "certified":
            break
    after = played.experiment.result()
    assert after.certified
    assert "discount" not in after.words
    played.experiment.export(tmp_path / "export.parquet")
    made = Certificate.from_json(after.certificate)
    assert audit(read_record(tmp_path / "export.parquet"), made).faults == ()
    assert {one.action for one in played.day(50)} <= {"standard", "free shipping"}


@pytest.mark.thorough
def test_leaders_that_were_chosen_again_are_derived_again(tmp_path):
    played = Played(tmp_path / "e.db", {"policies": "trees:depth=2", "epsilon": 0.2})
    played.day(300)
    played.advance()
    played.experiment.withdraw("free shipping", "sold out")
    played.day(100)
    played.advance()
    played.experiment.export(tmp_path / "export.parquet")
    made = Certificate.from_json(played.experiment.result().certificate)
    found = audit(read_record(tmp_path / "export.parquet"), made)
    assert found.good
    assert LED in made.assumptions
    assert LED not in found.left_to_assume(made.assumptions)
    without = replace(read_record(tmp_path / "export.parquet"), contexts=None)
    assert any("--contexts" in fault for fault in audit(without, made).faults)
    assert audit(without, made, contexts=played.experiment.protocol.contexts).good
    assert not audit(without, made, contexts=people(100, seed=1)).good


def test_what_is_withdrawn_while_a_look_is_made_is_not_deployed_by_it(tmp_path, monkeypatch):
    played = Played(tmp_path / "e.db", {"epsilon": 0.3})
    look = advancing.find_out

    def withdrawn_meanwhile(*given):
        found = look(*given)
        certificate = None if found.state is None else found.state.certificate
        if certificate is not None and certificate.certified and not found.withdrawn:
            played.experiment.withdraw("discount", "harm")
        return found

    monkeypatch.setattr(advancing, "find_out", withdrawn_meanwhile)
    for _ in range(10):
        played.day(300)
        played.experiment.advance(at_once=True)
        if played.experiment.status().to_json()["withdrawn"]:
            break
    assert played.experiment.status().to_json()["withdrawn"] == ["discount"]
    assert played.experiment.status().state == "collecting"
    assert "discount" not in {one.action for one in played.day(100)}


def test_rewards_that_come_after_the_end_are_looked_at(tmp_path):
    played = Played(tmp_path / "e.db")
    given = played.day(300, told=0)
    played.experiment.stop("enough")
    played.experiment.record_many([Report(one.id, float(one.action == "discount")) for one in given])
    assert played.experiment.advance()
    status = played.experiment.status().to_json()
    assert status["state"] == "stopped"
    assert status["claim"]["samples"] == 300
    assert not played.experiment.advance()  # nothing is new


def test_whoever_is_of_the_holdout_is_so_at_every_visit(tmp_path):
    experiment = Played(tmp_path / "e.db", {"holdout": 0.4, "visits": "each"}).experiment
    first = experiment.assign_many([AssignmentRequest(f"u-{n % 40}", PERSON) for n in range(80)])
    again = experiment.assign_many([AssignmentRequest(f"u-{n}", PERSON) for n in range(40)])
    held = {one.unit: one.holdout for one in first[:40]}
    assert 5 < sum(held.values()) < 35
    assert all(one.holdout == held[one.unit] for one in (*first, *again))
    assert all(one.action == "standard" for one in (*first, *again) if one.holdout)


def test_a_reward_of_minus_nothing_does_not_break_the_seal(tmp_path):
    played = Played(tmp_path / "e.db")
    given = played.day(30, told=0)
    assert played.experiment.record(given[0].id, reward=-0.0).outcome == "recorded"
    assert played.experiment.record(given[0].id, reward=0.0).outcome == "repeated"
    played.experiment.pause("an entry tells the head")
    played.experiment.export(tmp_path / "export.parquet", look=0)
    found = audit(read_record(tmp_path / "export.parquet"))
    assert found.good
    assert found.head == played.experiment.seal().head


@pytest.mark.thorough
def test_clocks_that_differ_make_no_time_that_goes_back(tmp_path):
    played = Played(tmp_path / "e.db", {"late": LateRule("window", window_seconds=3600)})
    given = played.day(300, told=0)
    begun = played.now - timedelta(days=1)
    slow = Experiment.open(tmp_path / "e.db", "checkout", clock=lambda: begun)
    played.advance()  # by its clock all windows are over, and all rewards are known to be nothing
    assert slow.record(given[0].id, reward=1.0).outcome == "late"
    new = slow.assign(PERSON)
    assert slow.record(new.id, reward=1.0).outcome == "recorded"
    played.advance()
    played.experiment.export(tmp_path / "export.parquet")
    assert audit(read_record(tmp_path / "export.parquet")).faults == ()


def test_rounds_that_are_read_in_several_threads_stand_there_once(tmp_path, monkeypatch):
    played = Played(tmp_path / "e.db")
    played.day(700)
    opened, made = StoredExperiment.open(played.experiment.database, "checkout"), store.round_from_json

    def slowly(*given, **more):
        time.sleep(0.01)
        return made(*given, **more)

    monkeypatch.setattr(store, "round_from_json", slowly)

    def ask():
        with played.experiment.database.reading() as connection:
            opened.rounds(connection)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(opened.known_rounds) > 1
    assert [one.number for one in opened.known_rounds] == list(range(len(opened.known_rounds)))


def test_after_a_withdrawal_no_rule_that_may_use_the_action_is_shown(tmp_path):
    """The last analysis was before it: what it says of rules is out of date, its counts are not."""
    played = Played(tmp_path / "e.db")
    played.day(200)
    before = played.advance()
    assert before["policy"] is not None
    played.experiment.withdraw("discount", "margins")
    after = played.experiment.status().to_json()
    assert [after[name] for name in ("claim", "policy", "leaves", "value", "to_go")] == [None] * 5
    assert after["arms"] == before["arms"]
    assert after["analysis"] == before["analysis"]
    played.day(100)
    assert played.advance()["policy"] is not None
