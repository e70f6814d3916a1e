"""Linear Thompson sampling: chances against the normal distribution, both deviations, its draws, and regret."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from pacbandits.errors import InputError
from pacbandits.problems import load_problem
from pacbandits.records import Log
from pacbandits.rivals.lin_ts import LinTs
from tests.rivals.regret import answers, easy, play, slope


def after_one_round(**options):
    """A state after plays of two actions in one of two contexts, where the second has paid more."""
    problem = easy(contexts=2, actions=2)
    algorithm = LinTs(0.1, 0.1, **options)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = Log.of(
        problem.population.take([0] * 10),
        actions=[0] * 7 + [1] * 3,
        rewards=[1, 1, 0, 0, 0, 0, 0, 1, 1, 0],
        propensities=plan.sampler.propensities(problem.population.take([0] * 10)),
    )
    return problem, algorithm, algorithm.absorb(state, plan, log)


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_chances_are_those_of_being_the_best(spread):
    problem, algorithm, state = after_one_round(spread=spread, draws=20_000)
    chances = algorithm.design(state).sampler.propensities(problem.population)
    deviation = spread * 0.5 * math.sqrt(1 / 8 + 1 / 4)
    wanted = norm.cdf((2 / 4 - 2 / 8) / deviation)
    assert chances[0, 1] == pytest.approx(wanted, abs=0.015)
    assert chances[1, 1] == pytest.approx(0.5, abs=0.015)


def test_chances_are_whole_shares_of_the_draws_and_change_from_round_to_round():
    problem = easy(contexts=6)
    algorithm = LinTs(0.1, 0.1, draws=40, budget=200)
    states, plans = play(algorithm, problem)
    tables = [plan.sampler.propensities(problem.population) for plan in plans]
    assert all(np.allclose(40 * table, np.rint(40 * table)) for table in tables)
    assert not np.array_equal(tables[0], tables[1])
    # By draws of its own, and not by what was learnt alone.
    later = algorithm.design(replace(states[0], round_number=1)).sampler.propensities(problem.population)
    assert not np.array_equal(later, tables[0])
    again = algorithm.design(states[0]).sampler.propensities(problem.population)
    assert np.array_equal(again, tables[0])
    other = LinTs(0.1, 0.1, draws=40, budget=200, seed=1)
    assert not np.array_equal(other.design(states[0]).sampler.propensities(problem.population), tables[0])


def test_each_context_by_itself_has_the_chances_it_has_among_others():
    problem = load_problem("linear:dimension=3,actions=4,contexts=20,policies=15,seed=1")
    sampler = play(LinTs(0.1, 0.1, budget=100), problem)[1][-1].sampler
    table = sampler.propensities(problem.population)
    for i in range(20):
        assert np.array_equal(sampler.propensities(problem.population.take([i]))[0], table[i])


def test_many_contexts_are_drawn_piece_by_piece_and_alike(monkeypatch):
    problem, algorithm, state = after_one_round()
    sampler = algorithm.design(state).sampler
    whole = sampler.propensities(problem.population)
    monkeypatch.setattr("pacbandits.rivals.lin_ts.ENTRIES_AT_A_TIME", 28)
    assert np.allclose(sampler.propensities(problem.population), whole)


def test_the_deviation_is_that_of_noise_or_of_the_theory():
    _, algorithm, state = after_one_round(spread=0.3)
    assert algorithm.design(state).sampler.scale == pytest.approx(0.15)
    theory = LinTs(0.1, 0.1, spread=0.3, radius="theory")
    assert theory.design(state).sampler.scale == pytest.approx(0.15 * math.sqrt(9 * math.log(10 / 0.1)))
    linear = load_problem("linear:dimension=3,actions=4,contexts=20,policies=15,seed=1")
    start = theory.start(linear.policies, linear.population)
    assert theory.deviation(start.memory, samples=50) == pytest.approx(0.15 * math.sqrt(27 * math.log(500)))


@pytest.mark.thorough
def test_regret_grows_slower_than_the_root_and_the_answer_is_right():
    problem = easy()
    assert slope(LinTs(0.01, 0.1, budget=20_000, growth=0.2), problem, runs=2) < 0.45
    assert answers(LinTs(0.01, 0.1, budget=1000, growth=0.3), problem, runs=6) == 6


@pytest.mark.thorough
def test_linear_rewards_are_learnt_through_features():
    problem = load_problem("linear:dimension=3,actions=4,contexts=40,policies=60,seed=1")
    assert answers(LinTs(0.01, 0.1, budget=2000, growth=0.3), problem, runs=5, within=0.001) == 5


def test_what_makes_no_sense_is_refused():
    for wrong, words in (
        ({"spread": 0.0}, "spread must be positive"),
        ({"draws": 0}, "draws must be"),
        ({"seed": -1}, "seed must be"),
        ({"radius": "wide"}, "radius must be constant or theory"),
    ):
        with pytest.raises(InputError, match=words):
            LinTs(0.1, 0.1, **wrong)
