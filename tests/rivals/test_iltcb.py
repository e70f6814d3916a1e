"""ILOVETOCONBANDITS: its formulas, what it plays, its constraints along a run, and its regret."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacbandits.problems import load_problem
from tests.rivals.oracle_cases import centred, easy, made, random_problem, regret_slope, states_of
from tests.rivals.test_coordinate_descent import losses_and_variances


def test_the_least_probability_and_the_slope_are_the_published_ones():
    problem = random_problem(0)  # 25 policies, 4 actions, δ = 0.1
    asked = made("ilovetoconbandits", problem).constraint(problem.policies, 10_000)
    floor = math.sqrt(math.log(16 * 10_000**2 * 25 / 0.1) / (4 * 10_000))
    assert asked.floor == pytest.approx(floor)
    assert asked.slope == pytest.approx(1 / (100 * floor))
    tuned = made("ilovetoconbandits:mu=0.1,psi=2", problem).constraint(problem.policies, 10_000)
    assert tuned.floor == pytest.approx(floor / 10)
    assert tuned.slope == pytest.approx(10 / (2 * floor))
    for early in (0, 1, 50):
        assert made("ilovetoconbandits", problem).constraint(problem.policies, early).floor == 1 / 8


def test_it_plays_the_weights_the_best_policy_and_anything():
    problem = random_problem(1)
    algorithm = made("ilovetoconbandits:psi=1,mu=0.1,budget=2000", problem)
    states, _ = states_of(algorithm, problem)
    state = states[-2]
    floor, kept = algorithm.constraint(problem.policies, state.samples).floor, state.memory
    expected = np.full((6, 4), floor)
    keep = 1 - 4 * floor
    for context in range(6):
        for policy, weight in zip(kept.policies, kept.weights, strict=True):
            expected[context, policy.table[context]] += keep * weight
        expected[context, kept.best.table[context]] += keep * (1 - kept.weights.sum())
    assert np.allclose(algorithm.design(state).sampler.propensities(problem.population), expected, atol=1e-12)
    assert kept.weights.sum() < 1


@pytest.mark.first(1)
@pytest.mark.parametrize("options", ["", ":psi=1,mu=0.1"])
def test_the_constraints_hold_after_every_round(options):
    problem = random_problem(2)
    algorithm = made(f"ilovetoconbandits{options}", problem)
    for state in states_of(algorithm, problem)[0][1::8]:
        asked = algorithm.constraint(problem.policies, state.samples)
        losses, variances = losses_and_variances(problem.policies, centred(state.seen), state.memory, floor=asked.floor)
        assert (variances <= (8 + asked.slope * losses) * (1 + 1e-6)).all()
        best = problem.policies.table.tolist().index(state.policy.table.tolist())
        assert losses[best] == pytest.approx(0, abs=1e-12)


@pytest.mark.thorough
def test_regret_grows_like_the_root_of_time():
    slope, right = regret_slope("ilovetoconbandits:psi=1,mu=0.1,growth=0.3,budget=30000", easy())
    assert 0.2 < slope < 0.65
    assert right == 3


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["ilovetoconbandits:psi=1,mu=0.1", "randomized-ucb"])
def test_large_rewards_are_no_noise(name):
    """Weighted by 1/p as they are, rewards make policies look good that were followed often by chance.

    Weighted as they are, 9 and 10 of these 20 answers were the best policy.
    """
    problem = load_problem("random:policies=100,contexts=20,actions=10,skew=1,seed=2")
    best, right = problem.value(problem.best_policy()), 0
    for seed in range(20):
        last = states_of(
            made(f"{name}{',' if ':' in name else ':'}budget=1700,growth=0.3", problem), problem, seed=seed
        )
        right += problem.value(last[0][-1].policy) > best - 1e-9
    assert right >= 15


def test_it_works_through_the_oracle_where_policies_cannot_be_listed():
    problem = load_problem("trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1")
    algorithm = made("ilovetoconbandits:psi=1,mu=0.1,growth=0.5,budget=20000", problem)
    states, regret = states_of(algorithm, problem)
    best = problem.value(problem.best_policy())
    assert best - problem.value(states[-1].policy) < 0.02
    early = np.searchsorted([state.samples for state in states[1:]], 500)
    assert (regret[-1] - regret[-2]) / (states[-1].samples - states[-2].samples) < 0.5 * regret[early] / 500
    assert states[-1].oracle_calls > 2 * len(states)
