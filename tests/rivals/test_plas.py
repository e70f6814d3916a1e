"""PLAS: shares by the variance of rewards, scores row by row, and answers that become the best."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.rivals.plas import Plas, shares
from pacbandits.rivals.regression import fit_ridge
from pacbandits.rivals.seen import Seen
from pacbandits.simulation import run


def problem_of(means, table):
    means = np.array(means)
    policies = Finite(table, n_actions=means.shape[1])
    return Problem("few", "Few contexts.", Contexts.finite(len(means)), means, Bernoulli(), policies)


def played(algorithm, problem, seed=0):
    """The last state, and all logs."""
    rng, logs = np.random.default_rng(seed), []
    state = algorithm.start(problem.policies, problem.population)
    while (plan := algorithm.design(state)) is not None:
        logs.append(problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        state = algorithm.absorb(state, plan, logs[-1])
    return state, logs


def test_two_actions_are_played_by_their_deviations_and_more_by_their_variances():
    assert shares(np.array([[0.16, 0.01]])) == pytest.approx(np.array([[0.8, 0.2]]))
    assert shares(np.array([[0.16, 0.02, 0.02]])) == pytest.approx(np.array([[0.8, 0.1, 0.1]]))
    assert shares(np.full((3, 4), 0.2)) == pytest.approx(np.full((3, 4), 0.25))


@pytest.mark.first(1)
@pytest.mark.parametrize("means", [[[0.5, 0.02], [0.98, 0.5]], [[0.5, 0.02, 0.9], [0.98, 0.5, 0.1]]])
def test_plays_come_to_be_in_proportion_to_the_truth(means):
    problem = problem_of(means, np.zeros((1, 2), dtype=int))
    state, _ = played(Plas(0.1, 0.1, budget=20_000), problem)
    variances = np.maximum(problem.mean_rewards * (1 - problem.mean_rewards), 0.01)
    target = shares(variances)
    algorithm = Plas(0.1, 0.1, budget=10**6)
    sampler = algorithm.play(state).sampler
    assert sampler.propensities(problem.population) == pytest.approx(target, abs=0.03)
    assert state.seen.plays / state.seen.counts[:, None] == pytest.approx(target, abs=0.05)


def test_before_anything_is_seen_all_actions_are_alike_and_sure_rewards_are_played_still():
    problem = problem_of([[0.0, 1.0, 0.5]], [[0], [1]])
    algorithm = Plas(0.1, 0.1, budget=5000, floor=0.02)
    first = algorithm.design(algorithm.start(problem.policies, problem.population))
    assert first.sampler.propensities(problem.population) == pytest.approx(np.full((1, 3), 1 / 3))
    state, _ = played(algorithm, problem)
    least = algorithm.play(state).sampler.propensities(problem.population)
    assert least[0, 0] == pytest.approx(0.02 / (0.25 + 2 * 0.02), abs=0.005)
    assert least[0, 1] == pytest.approx(0.02 / (0.25 + 2 * 0.02), abs=0.005)


def test_scores_by_past_predictions_are_those_of_every_row_by_the_fit_before_its_round():
    problem = problem_of([[0.3, 0.6], [0.8, 0.4]], [[0, 1], [1, 0], [0, 0]])
    state, logs = played(Plas(0.1, 0.1, budget=60, growth=1.0, predictions="past"), problem)
    by_hand, seen = np.zeros((2, 2)), Seen.nothing(problem.population, n_actions=2)
    for log in logs:
        model = np.zeros((2, 2))
        if seen.samples:
            model = fit_ridge(seen, coordinates=state.memory.coordinates).predict(problem.population)
        for context, action, reward, chance, repeats in zip(
            log.contexts.ids, log.actions, log.rewards, log.played_propensities, log.repeats, strict=True
        ):
            by_hand[context] += repeats * model[context]
            by_hand[context, action] += repeats * (reward - model[context, action]) / chance
        seen = seen.with_log(log)
    assert len(logs) > 2
    assert state.memory.scores == pytest.approx(by_hand)
    best = problem.policies.argmax(problem.population, by_hand)
    assert state.policy.describe() == best.describe()


@pytest.mark.thorough
@pytest.mark.parametrize("predictions", ["all", "past"])
def test_the_answer_becomes_the_best_policy_at_the_rate_of_the_root_of_the_budget(predictions):
    rng = np.random.default_rng(3)
    problem = problem_of(rng.uniform(0.3, 0.7, size=(6, 3)), rng.integers(3, size=(40, 6)))
    budgets, gaps = (50, 3200), []
    for budget in budgets:
        algorithm = Plas(0.1, 0.1, budget=budget, growth=1.0, predictions=predictions)
        gaps.append(np.mean([run(problem, algorithm=algorithm, rng=seed).value_gap for seed in range(40)]))
    slope = np.log(gaps[1] / gaps[0]) / np.log(budgets[1] / budgets[0])
    assert slope < -0.35  # its standard error over so many runs is 0.07, and -1/2 is what is expected


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="floor must"):
        Plas(0.1, 0.1, floor=0.0)
    with pytest.raises(InputError, match="predictions must be all or past, got 'none'"):
        Plas(0.1, 0.1, predictions="none")
