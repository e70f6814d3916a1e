"""One trial of a plan: the same wherever it is played, in whole periods, with rewards when they come."""

from __future__ import annotations

import pickle
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.engines import processes
from pacbandits.errors import InputError
from pacbandits.planning import PlayedTrial, Traffic
from pacbandits.planning import simulated_trials as pool
from pacbandits.planning.assumptions import RIVALS
from pacbandits.planning.simulated_trials import TrialQuestion, play_one
from pacbandits.problems import load_problem
from pacbandits.records import Design
from tests.planning.cases import played, question, supposed


def same(one, other):
    """Two trials, but for how long they took."""
    return replace(one, seconds=0.0) == replace(other, seconds=0.0)


@pytest.fixture(scope="module")
def freely():
    """Trials of both algorithms in both scenarios, without traffic."""
    s = supposed()
    return {(k, one): play_one(s, question(s), k, 0, one) for k in range(2) for one in RIVALS}


def test_a_trial_is_done_and_says_how_it_went(freely):
    for (scenario, algorithm), one in freely.items():
        assert (one.scenario, one.number, one.algorithm) == (scenario, 0, algorithm)
        assert one.done
        assert one.correct
        assert one.curve[-1][0] == one.samples
        assert one.curve[-1][1] <= 0.25
        assert [n for n, _ in one.curve] == sorted(n for n, _ in one.curve)
        assert one.periods is None
        assert one.best_over_constant == pytest.approx(0, abs=1e-12)  # one action for all is all there is
        assert PlayedTrial.from_json(one.to_json()) == one
    winner, none = freely[1, "uniform"], freely[0, "uniform"]
    assert none.lost == pytest.approx(0, abs=1e-9)  # every action is alike
    # Half of the people get the worse action, by 0.4.
    assert winner.lost / winner.samples == pytest.approx(0.2, abs=0.06)


def test_the_same_seed_gives_the_same_trial(freely):
    s = supposed()
    again = play_one(s, question(s), 1, 0, "coda")
    assert same(again, freely[1, "coda"])
    assert not same(play_one(supposed(seed=1), question(s), 1, 0, "coda"), again)


@pytest.mark.first(2)
@pytest.mark.parametrize("policies", ["trees:depth=0", "trees:depth=1", "linear"])
def test_what_is_supposed_can_be_handed_to_another_process_also_after_use(policies):
    s = supposed(policies=policies)
    s.problem(1, 0).best_policy()
    assert pool._can_be_handed_over(s, question(s))
    there, _ = pickle.loads(pickle.dumps((s, question(s))))
    np.testing.assert_array_equal(there.problem(1, 0).mean_rewards, s.problem(1, 0).mean_rewards)


@pytest.mark.slow
def test_a_trial_is_the_same_in_another_process_and_these_end_with_whoever_asked(freely, monkeypatch):
    started, s = [], supposed()
    start = subprocess.Popen
    monkeypatch.setattr(processes.subprocess, "Popen", lambda *a, **o: started.append(start(*a, **o)) or started[-1])
    coming = pool.play_all(s, question(s), iter([(1, 0, "coda"), (1, 0, "uniform")] * 20), processes=2)
    elsewhere = [next(coming) for _ in range(3)]
    coming.close()
    assert all(same(one, freely[one.scenario, one.algorithm]) for one in elsewhere)
    assert len(started) == 2
    assert all(one.poll() is not None for one in started)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_trial_lasts_for_whole_periods_and_waits_for_its_rewards(freely, delay):
    s = supposed(traffic=Traffic(60, "day", batched=True, delay=delay))
    for algorithm in RIVALS:
        one = play_one(s, question(s), 1, 0, algorithm)
        assert one.done
        assert one.samples % 60 == 0
        assert one.periods == one.samples / 60  # people come as long as it lasts
        assert all(n % 60 == 0 for n, _ in one.curve)
        # The first people's rewards are known a delay after their round, and nothing before.
        assert one.curve[0][0] >= 60 * (1 + delay)
        assert one.periods >= 1 + delay


def test_late_rewards_take_more_people():
    def people(delay):
        s = supposed(traffic=Traffic(60, "day", batched=True, delay=delay))
        return sum(play_one(s, question(s), 1, number, "uniform").samples for number in range(3))

    assert people(4) >= people(0) + 3 * 60


def test_traffic_without_batches_only_tells_the_time(freely):
    s = supposed(traffic="50/day")
    one = play_one(s, question(s), 1, 0, "uniform")
    assert one.samples == freely[1, "uniform"].samples
    assert one.periods == one.samples / 50


@pytest.mark.parametrize("traffic", [None, Traffic(40, batched=True), Traffic(40, delay=1)])
def test_a_trial_that_takes_too_many_people_is_given_up(traffic):
    s = supposed(epsilon=0.05, traffic=traffic)
    one = play_one(s, question(s, most=300), 0, 0, "uniform")
    assert not one.done
    assert 200 <= one.samples <= 300
    assert one.curve[-1][1] > 0.05


def test_a_trial_from_elsewhere_is_checked():
    good = played().to_json()
    assert PlayedTrial.from_json(good) == played()
    for bad in ({"samples": -1}, {"algorithm": "rage"}, {"curve": [[1]]}, {"done": 1}, {"extra": 1}):
        with pytest.raises(InputError):
            PlayedTrial.from_json(good | bad)
    with pytest.raises(InputError, match="coda and uniform, not 'rage'"):
        play_one(supposed(), question(supposed()), 0, 0, "rage")


def test_the_first_round_is_played_however_few_people_are_allowed():
    for traffic in (None, Traffic(5_000, batched=True)):
        s = supposed(traffic=traffic)
        assert play_one(s, question(s, most=10), 1, 0, "uniform").samples == (200 if traffic is None else 5_000)


def pilot_of(samples=300):
    """The rows of a pilot on a small problem of trees."""
    problem = load_problem("trees:actions=3,contexts=60,features=2,bins=4,depth=1,seed=2")
    rng = np.random.default_rng(0)
    return problem.interact(Design.uniform(problem.best_policy()), samples=samples, rng=rng)


def test_a_pilot_that_counts_leaves_fewer_people_to_come(tmp_path):
    asked = {"policies": "trees:depth=1", "epsilon": 0.15, "simulated": False}
    plain, counted = (pb.plan(pilot_of(), **asked, count_pilot=count) for count in (False, True))
    for one in ("coda", "uniform"):
        left = 1 - 300 / plain.estimates[0].medians["uniform"]
        assert counted.estimates[0].medians[one] == pytest.approx(left * plain.estimates[0].medians[one])
        assert counted.estimates[0].scatter > plain.estimates[0].scatter
    assert counted.foretold("certify").median == plain.foretold("certify").median
    assert ("pilot", "its 300 rows count as the first of the trial; people are those to come") in (
        counted.supposed.describe()
    )
    pb.save_plan(tmp_path / "plan.json", counted)
    rows = pb.load_plan(tmp_path / "plan.json").supposed.counted_pilot
    assert (rows.samples, rows.contexts.n_features) == (300, 2)
    again = counted.supposed.counted_pilot
    people = counted.supposed.people
    known = again.contexts.ids < len(people)
    assert np.array_equal(people.features[again.contexts.ids[known]], again.contexts.features[known])


def test_a_simulated_trial_begins_with_the_pilot():
    quick = pb.plan(pilot_of(), policies="trees:depth=1", epsilon=0.25, simulated=False, count_pilot=True)
    asked = TrialQuestion(0.25, 0.05, None, 0, 10_000)
    played = play_one(quick.supposed, asked, 0, 0, "uniform")
    alone = play_one(replace(quick.supposed, count_pilot=False), asked, 0, 0, "uniform")
    assert played.curve[0][0] == 0
    assert played.curve[0][1] < 1
    assert played.samples < alone.samples


def test_a_plan_without_a_pilot_to_count_is_refused():
    people = pilot_of().contexts
    with pytest.raises(pb.InputError, match="count_pilot needs a pilot"):
        pb.plan(people, n_actions=3, epsilon=0.1, baseline=0.3, simulated=False, count_pilot=True)
    with pytest.raises(pb.InputError, match="in which no pilot counts"):
        pb.plan(pilot_of(), improve_on=0, simulated=False, count_pilot=True)
