"""Steering while something else goes on: after a certificate, during a look, in several threads, by two clocks."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from pacbandits import verify
from pacbandits.certificate import Certificate
from pacbandits.certificate.certificate import LED
from pacbandits.errors import InputError
from pacbandits.experiment import steering as advancing
from pacbandits.experiment import store
from pacbandits.experiment.assignment_records import AssignmentRequest, Report
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import ExperimentProtocol, LateRule
from pacbandits.experiment.store import StoredExperiment
from pacbandits.service.dashboard.sentences import headline
from pacbandits.service.dashboard.status import JsonView
from tests.experiment.cases import people, protocol
from tests.experiment.live import Played, mean_of

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


# Experiments that stop by a proven gain over their control.

GAIN = {"stop": "gain", "control": "standard"}


def test_what_stops_an_experiment_is_sealed():
    made = protocol(**GAIN, gain=0.05)
    told = made.to_json()
    assert (told["stop"], told["gain"], told["standard"]) == ("gain", 0.05, "standard")
    again = ExperimentProtocol.from_json(told, contexts=made.contexts)
    assert (again.stop, again.gain, again.digest) == ("gain", 0.05, made.digest)
    assert {"stop", "gain"} & set(protocol(control="standard").to_json()) == set()
    assert protocol(stop="epsilon").digest == protocol().digest != protocol(**GAIN).digest
    trial, _ = protocol(**GAIN, reward_range=(0, 50), epsilon=5, gain=10).trial()
    assert (trial.improve_on, trial.gain) == (0, 0.2)
    assert protocol().trial()[0].improve_on is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stop": "gain"}, "name it as 'control'"),
        ({"stop": "gian"}, "did you mean .gain."),
        ({"gain": 0.1}, 'add stop = "gain", or leave it out'),
        ({**GAIN, "gain": 1.0}, "gain must be"),
        ({**GAIN, "gain": -0.1}, "gain must be"),
        ({**GAIN, "algorithm": "coda:answer=single"}, "leave out single, or improve_on"),
    ],
)
def test_a_stop_that_cannot_be_sealed_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        protocol(**options)


def test_a_control_cannot_be_withdrawn_where_gains_are_over_it():
    with pytest.raises(InputError, match="'standard' is the control that gains are over, and cannot be withdrawn"):
        protocol(**GAIN).trial(["standard"])
    assert protocol(**GAIN).trial(["discount"])[0].improve_on == 0


def stopped_by_gain(path, *, days=14, mean=mean_of, **options):
    """Play an experiment until it stops by a gain; return it with the statuses after each day."""
    played, statuses = Played(path, GAIN | options), []
    while len(statuses) < days and (not statuses or statuses[-1]["state"] == "collecting"):
        played.day(350, mean=mean)
        statuses.append(played.advance())
    return played, statuses


@pytest.mark.thorough
def test_an_experiment_stops_by_a_gain_that_verifies_and_is_audited(tmp_path):
    played, statuses = stopped_by_gain(tmp_path / "e.db")
    claim, result = statuses[-1]["claim"], played.experiment.result()
    assert statuses[-1]["state"] == "certified"
    assert claim["certified"]
    assert result.certified
    assert 0 < claim["proven_gain"] <= 0.35
    assert not any(one["claim"] and one["claim"]["certified"] for one in statuses[:-1])
    assert headline(JsonView(statuses[-1])).startswith("Proven: ")
    assert "more a person than “standard”" in headline(JsonView(statuses[-1]))
    assert "No gain over “standard” is proven yet" in headline(JsonView(statuses[0]))
    played.day(50)
    played.experiment.advance(at_once=True)
    assert played.experiment.result().look == result.look
    played.experiment.export(tmp_path / "record.parquet")
    record, policies = read_record(tmp_path / "record.parquet"), played.experiment.protocol.policy_class
    made = Certificate.from_json({k: v for k, v in result.certificate.items() if k != "class"}, policies)
    assert verify(made, made.of(record.log), policies).good
    found = audit(record, made)
    assert found.good
    assert any("sealed class, control and guardrails" in words for words in found.checked)
    other = replace(made, delta=made.delta / 2)
    assert not any("sealed class" in words for words in audit(record, other).checked)


@pytest.mark.thorough
def test_a_gain_with_a_violated_guardrail_or_of_a_withdrawn_action_stops_nothing(tmp_path):
    played, statuses = stopped_by_gain(
        tmp_path / "e.db", days=3, mean=lambda action, _: 0.9 if action == "discount" else 0.1
    )
    assert statuses[-1]["state"] == "certified"
    played.experiment.withdraw("discount", "harm")
    assert played.experiment.result().policy is None
    played.day(400, mean=lambda *_: 0.1)
    status = played.advance()
    assert status["state"] == "collecting"
    assert "discount" not in (status["claim"] or {"words": ""})["words"]
    harmful = Played(tmp_path / "f.db", GAIN | {"metrics": ["returned"], "guardrails": ["returned <= control + 0.1"]})
    for _ in range(3):
        rng, contexts = harmful.rng, [{"age": int(harmful.rng.integers(18, 80)), "country": "DE"} for _ in range(400)]
        given = harmful.experiment.assign_many([AssignmentRequest(None, one) for one in contexts])
        harmful.experiment.record_many(
            [
                Report(
                    one.id,
                    float(rng.random() < (0.1 if one.action == "standard" else 0.9)),
                    metrics={"returned": 0.0 if one.action == "standard" else 1.0},
                )
                for one in given
            ]
        )
        harmful.now += timedelta(days=1)
        status = harmful.advance()
    assert status["claim"]["proven_gain"] is None
    assert status["state"] == "collecting"
