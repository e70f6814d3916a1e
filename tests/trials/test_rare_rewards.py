"""Rare rewards: bets lose more to them than variances tell, and explorations are priced by what they lose."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.design import DesignTask, Shifted, price_propensities
from pacbandits.policies.trees import Trees
from pacbandits.problems.scenarios import Outcome, Scenario
from pacbandits.records import Contexts
from pacbandits.simulation import run
from pacbandits.trials.coda import price_for_bets, skewed_variances, variances

RARE, COMMON = Outcome(0.065), Outcome(0.5)


def least_cost(mean, stake, *, points=400_001):
    """What the best control variate leaves of what a bet loses to noise, by trying them all; as a variance."""
    g = np.linspace(0.0, 1.0, points)[1:-1]
    g = g[1.0 - stake * (1.0 - g) > 0]
    growth = (1.0 - mean) * np.log1p(stake * g) + mean * np.log(1.0 - stake * (1.0 - g))
    return 2.0 * float(((g - mean) - growth / stake).min()) / stake


@pytest.mark.parametrize("mean", [0.001, 0.03, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("stake", [0.01, 0.3, 1.0, 4.0, 50.0])
def test_skewed_variances_are_what_the_best_control_variate_leaves(mean, stake):
    got = float(skewed_variances(np.array([mean]), np.array([stake]))[0])
    plain = float(variances(np.array([mean]))[0])
    assert got == pytest.approx(max(least_cost(mean, stake), plain), rel=2e-4)


def test_small_stakes_lose_what_variances_tell_and_large_ones_more_to_rare_rewards():
    means = np.linspace(0.03, 0.97, 20)
    np.testing.assert_allclose(skewed_variances(means, np.full(20, 1e-4)), means * (1 - means), rtol=1e-3)
    for stake in (1e-9, 0.1, 1.0, 30.0, 1e9):
        assert (skewed_variances(means, np.full(20, stake)) >= variances(means)).all()
    rare = skewed_variances(np.full(4, 0.03), np.array([0.01, 0.5, 1.5, 5.0]))
    assert rare[1] > 1.05 * rare[0]
    assert rare.max() > 1.3 * rare[0]
    assert np.isfinite(skewed_variances(np.array([0.0, 1.0]), np.array([3.0, 3.0]))).all()


def problem_of(outcome, *, n=100, seed=0, effect=0.1):
    """Ten actions, one of them better, for people whom trees of one cut tell apart."""
    rng = np.random.default_rng(seed)
    people = Contexts.of(rng.normal(size=(n, 3)), ids=np.arange(n))
    policies = Trees.learn(people, n_actions=10, depth=1)
    return Scenario("winner", effect=effect).draw(people, policies, outcome=outcome, rng=rng)


@pytest.mark.parametrize("outcome", [RARE, COMMON])
def test_prices_rise_by_what_rare_rewards_of_rarely_played_actions_cost(outcome):
    problem = problem_of(outcome)
    means = problem.mean_rewards
    best = problem.best_policy()
    own = means[np.arange(100), best(problem.population)]
    task = DesignTask(
        problem.policies,
        problem.population,
        reference=best,
        gaps=problem.population.weights[:, None] * (own[:, None] - means),
        scale=Shifted(0.06, 0.6),
        noise=variances(means),
    )
    even = np.full(means.shape, 0.1)
    seldom = np.where(np.arange(10) < 2, 0.46, 0.01) * np.ones((100, 1))
    for played in (even, seldom):
        plain = max(price_propensities(task, played).upper, 1.0)
        price, calls = price_for_bets(task, played, means, guess=plain)
        assert price >= plain * (1 - 1e-9)
        assert calls >= 1
        if outcome is COMMON:
            assert price == pytest.approx(plain)  # variances tell enough of rewards that are not rare
        elif played is seldom:
            assert price > 1.2 * plain


@pytest.mark.slow
def test_coda_takes_no_more_than_twice_the_samples_of_uniform_where_rewards_are_rare():
    """By variances alone it took up to a hundred times as many."""
    for seed in range(4):
        problem = problem_of(RARE, n=500, seed=seed)
        taken = {
            name: run(problem, algorithm=name, epsilon=0.06, delta=0.05, rng=np.random.default_rng(seed)).samples
            for name in ("coda", "uniform")
        }
        assert taken["coda"] <= 2 * taken["uniform"], taken
