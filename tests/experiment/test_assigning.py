"""Assigning: sticky, stored before it is told, and the same whoever asks in whatever batches."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.experiment.assignment_records import AssignmentRequest
from pacbandits.experiment.assignments import choose, draws
from pacbandits.experiment.database import AlreadyThere, NotCollecting, UnknownExperiment
from pacbandits.experiment.experiment import Experiment, list_experiments
from tests.experiment.cases import ACTIONS, protocol
from tests.experiment.live import BEGUN, Played

YOUNG, OLD = {"age": 25, "country": "DE"}, {"age": 70, "country": "AT"}


@pytest.fixture
def experiment(tmp_path):
    with Experiment.create(tmp_path / "e.db", protocol(), clock=lambda: BEGUN) as made:
        yield made


def stored(experiment):
    return experiment.status().assigned


def test_a_unit_keeps_its_action_whatever_it_comes_with(experiment):
    first = experiment.assign(YOUNG, unit="u-1")
    again = experiment.assign(OLD, unit="u-1")
    assert first.new
    assert not again.new
    assert (again.id, again.action, again.propensities) == (first.id, first.action, first.propensities)
    assert stored(experiment) == 1


def test_a_unit_that_comes_twice_in_one_batch_has_one_action(experiment):
    one, other, third = experiment.assign([YOUNG, OLD, YOUNG], units=["u", "v", "u"])
    assert one.id == third.id
    assert (one.new, other.new, third.new) == (True, True, False)
    assert stored(experiment) == 2


def test_without_a_unit_everybody_is_another(experiment):
    assert experiment.assign(YOUNG).id != experiment.assign(YOUNG).id
    assert stored(experiment) == 2


def test_batches_and_processes_make_no_difference(tmp_path):
    """The same seed and the same events make the same decisions: one by one, by two who take turns, or all at once."""
    people = [AssignmentRequest(f"u{i}", YOUNG if i % 2 else OLD) for i in range(450)]
    whole = Experiment.create(tmp_path / "a.db", protocol(), clock=lambda: BEGUN).assign_many(people)
    Experiment.create(tmp_path / "b.db", protocol(), clock=lambda: BEGUN)
    turns = [Experiment.open(tmp_path / "b.db", "checkout", clock=lambda: BEGUN) for _ in range(2)]
    parts = [turns[k % 2].assign_many(people[start : start + 45]) for k, start in enumerate(range(0, 450, 45))]
    split = [one for part in parts for one in part]
    assert [(one.action, one.round, one.propensities) for one in split] == [
        (one.action, one.round, one.propensities) for one in whole
    ]


@pytest.mark.thorough
def test_decisions_are_the_same_after_restarts(tmp_path):
    """With rewards and designs, an experiment that is opened anew after each day decides as one that stays open."""
    heads = []
    for name, anew in (("a.db", False), ("b.db", True)):
        played = Played(tmp_path / name, {"seed": 5})
        actions = []
        for _ in range(4):
            actions += [one.action for one in played.day(150)]
            played.advance()
            if anew:
                played.experiment = Experiment.open(tmp_path / name, "checkout", clock=lambda p=played: p.now)
        heads.append((actions, played.experiment.status().to_json()["curve"]))
    assert heads[0] == heads[1]


def test_draws_follow_the_probabilities(experiment):
    given = experiment.assign([YOUNG] * 3000, units=[f"u{i}" for i in range(3000)])
    shares = [np.mean([one.action == action for one in given]) for action in ACTIONS]
    assert np.allclose(shares, 1 / 3, atol=0.04)
    assert np.allclose([one.propensity for one in given], 1 / 3)


def test_an_action_of_probability_0_is_never_drawn():
    rows = np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])
    for drawn in (0.0, 0.25, 0.4999999, 0.5, np.nextafter(1.0, 0.0)):
        actions = choose(rows, np.full(3, drawn))
        assert (rows[np.arange(3), actions] > 0).all()


def test_draws_belong_to_rows():
    whole = draws(7, first=0, count=3000)
    assert np.array_equal(draws(7, first=1000, count=100), whole[1000:1100])
    assert np.array_equal(draws(7, first=2040, count=30), whole[2040:2070])
    assert not np.array_equal(draws(8, first=0, count=10), whole[:10])
    assert draws(7, first=5, count=0).shape == (0, 2)


def test_the_holdout_gets_the_standard_action_and_is_not_counted(tmp_path):
    played = Played(tmp_path / "e.db", {"holdout": 0.3, "standard": "discount"})
    given = played.day(600)
    held = [one for one in given if one.holdout]
    assert 120 < len(held) < 240
    assert {one.action for one in held} == {"discount"}
    assert {one.propensity for one in held} == {1.0}
    status = played.advance()
    assert status["holdout_assigned"] == len(held)
    assert status["curve"][-1]["samples"] == 600 - len(held)


@pytest.mark.thorough
def test_several_visits_are_drawn_anew_and_the_first_counts(tmp_path):
    played = Played(tmp_path / "e.db", {"visits": "each"})
    given = [played.experiment.assign(YOUNG, unit=f"u{i % 40}") for i in range(120)]
    assert len({one.id for one in given}) == 120
    assert all(one.new for one in given)
    actions = {}
    for one in given:
        actions.setdefault(one.unit, set()).add(one.action)
    assert any(len(some) > 1 for some in actions.values())
    for one in given:
        played.experiment.record(one.id, reward=1.0)
    assert played.advance()["curve"][-1]["samples"] == 40


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"age": 25}, "country"),
        ({"age": 25, "country": "DE", "size": 3}, "size"),
        ({"age": "old", "country": "DE"}, "age"),
        ({"age": float("nan"), "country": "DE"}, "age"),
        ({"age": 25, "country": "XX"}, "XX"),
        ({}, "age"),
    ],
)
def test_nobody_is_stored_with_a_context_that_is_none(experiment, context, words):
    with pytest.raises(InputError, match=words):
        experiment.assign(context, unit="u")
    with pytest.raises(InputError, match=words):
        experiment.assign([YOUNG, context], units=["u", "v"])
    good, bad = experiment.assign_many([AssignmentRequest("w", YOUNG), AssignmentRequest("x", context)])
    assert isinstance(bad, InputError)
    assert good.unit == "w"
    assert stored(experiment) == 1


@pytest.mark.parametrize("unit", ["", "x" * 257, "a\x00b", "\ud800"])
def test_a_unit_is_a_short_text(experiment, unit):
    with pytest.raises(InputError, match="unit"):
        experiment.assign(YOUNG, unit=unit)
    assert stored(experiment) == 0


def test_paused_and_stopped_experiments_take_in_nobody_new(experiment):
    first = experiment.assign(YOUNG, unit="u")
    experiment.pause("prices are wrong")
    with pytest.raises(NotCollecting, match="prices are wrong"):
        experiment.assign(YOUNG, unit="v")
    assert experiment.assign(YOUNG, unit="u").id == first.id
    assert experiment.record(first.id, reward=1.0).outcome == "recorded"
    experiment.resume("prices are right")
    assert experiment.assign(YOUNG, unit="v").new
    experiment.stop("out of money")
    with pytest.raises(NotCollecting, match="stopped"):
        experiment.assign(YOUNG, unit="w")
    with pytest.raises(NotCollecting, match="cannot be resumed"):
        experiment.resume("found some")


def test_names_are_taken_once_and_must_be_known(tmp_path, experiment):
    with pytest.raises(AlreadyThere, match="checkout"):
        Experiment.create(tmp_path / "e.db", protocol())
    with pytest.raises(UnknownExperiment, match="checkout"):
        Experiment.open(tmp_path / "e.db", "chekout")
    with pytest.raises(UnknownExperiment, match="no database"):
        Experiment.open(tmp_path / "other.db", "checkout")
    Experiment.create(tmp_path / "e.db", protocol(name="another"))
    assert list_experiments(tmp_path / "e.db") == ("another", "checkout")


def test_a_data_frame_is_a_batch(experiment):
    pa = pytest.importorskip("pyarrow")
    frame = pa.table({"age": [25, 70], "country": ["DE", "AT"]})
    one, other = experiment.assign(frame, units=["u", "v"])
    assert (one.unit, other.unit) == ("u", "v")


@pytest.mark.thorough
def test_rounds_close_by_count_by_clock_and_by_hand(tmp_path):
    played = Played(tmp_path / "e.db", {"round_hours": 48})
    round_of = lambda: played.experiment.status().to_json()["round"]  # noqa: E731
    with pytest.raises(InputError, match="nobody"):
        played.experiment.close_round("why not")
    played.day(50)
    assert round_of()["kind"] == "design"
    played.now += timedelta(days=1)
    played.experiment.advance()
    assert (round_of()["number"], round_of()["kind"]) == (1, "continued")
    played.day(200, told=1.0)
    played.advance()
    assert round_of()["kind"] == "design"
    number = round_of()["number"]
    played.day(1)
    played.experiment.close_round("it is Friday")
    assert (round_of()["number"], round_of()["kind"]) == (number + 1, "continued")
    planned = Played(tmp_path / "f.db").experiment
    given = planned.assign([YOUNG] * 201, units=[f"u{i}" for i in range(201)])
    assert [one.round for one in given] == [0] * 200 + [1]
