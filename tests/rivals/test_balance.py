"""Estimates by centred rewards and with all rounds as one: what they are, and that they are better."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts, Log
from pacbandits.rivals.balance import Balance, best_by_centred_scores, mean_reward
from pacbandits.rivals.samplers import EvenSampler, RuleSampler
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan


def best_by_scores(policies, seen):
    """The policy of largest value, rewards weighted by 1/p as they are."""
    return policies.argmax(seen.contexts, seen.scores), 1


def fixed(chances):
    """The same chances (A,) in every context."""
    return RuleSampler(len(chances), lambda contexts: np.tile(chances, (len(contexts), 1)))


def by_feature(contexts):
    """Mostly the first action where the feature is negative, else mostly the second."""
    negative = contexts.features[:, :1] < 0
    return np.where(negative, [[0.9, 0.1]], [[0.2, 0.8]])


def test_plays_are_expected_of_all_rounds_also_where_contexts_are_new():
    contexts = Contexts.of([[-1.0], [1.0]])  # without ids, so that each row that comes is a context of its own
    balance, seen = Balance.nothing(contexts, n_actions=2), Seen.nothing(contexts, n_actions=2)
    for number, sampler in enumerate((EvenSampler(2), RuleSampler(2, by_feature))):
        came = contexts.take([0, 1, 1])
        log = Log.of(came, actions=[0, 1, 1], rewards=[1, 0, 1], propensities=sampler.propensities(came))
        seen = seen.with_log(log)
        balance = balance.with_round(Plan(number + 1, 0.1, sampler, samples=3), seen)
    assert len(seen.contexts) == 2 + 6
    negative, positive = 3 * np.array([1.4, 0.6]), 3 * np.array([0.7, 1.3])
    wanted = np.where(seen.contexts.features < 0, negative, positive)
    assert np.allclose(balance.expected, wanted)


def test_scores_add_up_to_the_estimate():
    contexts = Contexts.finite(1)
    log = Log.of(
        contexts.take([0] * 4), actions=[0, 0, 0, 1], rewards=[1, 0, 0.5, 1], propensities=np.full((4, 2), 0.5)
    )
    seen = Seen.nothing(contexts, n_actions=2).with_log(log)
    balance = Balance.nothing(contexts, n_actions=2).with_round(Plan(1, 0.1, EvenSampler(2), samples=4), seen)
    assert mean_reward(seen) == 2.5 / 4
    # n (V̂ − b) = Σ (r − b)/p, with p = 1/2.
    assert balance.scores(seen).tolist() == [[2 * (1.5 - 3 * 0.625), 2 * (1 - 0.625)]]
    assert mean_reward(Seen.nothing(contexts, n_actions=2)) == 0


def estimates(*, seed, rounds=(3, 12)):
    """Estimated values of an action whose chance falls like 1/t, rewards being fair coins: with 1/p̄, and with 1/p."""
    problem = Problem(
        "coins", "Fair coins.", Contexts.finite(1), [[0.5, 0.5]], Bernoulli(), Finite([[0], [1]], n_actions=2)
    )
    rng, out = np.random.default_rng(seed), []
    balance, seen = Balance.nothing(problem.population, n_actions=2), Seen.nothing(problem.population, n_actions=2)
    for number in range(max(rounds)):
        size = 10 * 2**number
        sampler = fixed(np.array([1 - 5 / size, 5 / size]))
        seen = seen.with_log(problem.interact(sampler, samples=size, rng=rng))
        balance = balance.with_round(Plan(number + 1, 0.1, sampler, samples=size), seen)
        if number + 1 in rounds:
            single = seen.scores[0, 1] - mean_reward(seen) * seen.inverses[0, 1]
            out.append([balance.scores(seen)[0, 1] / seen.samples, single / seen.samples])
    return out


@pytest.mark.thorough
def test_estimates_settle_where_exploration_falls_like_1_over_t():
    (balanced, single), (later, still) = np.std([estimates(seed=seed) for seed in range(60)], axis=0)
    assert later < 0.65 * balanced  # theory: half
    assert still > 0.7 * single  # theory: no better
    assert later == pytest.approx(0.5 / np.sqrt(5 * 12), rel=0.4)


def test_centred_rewards_find_the_best_policy_sooner():
    problem = load_problem("random:policies=100,contexts=20,actions=5")
    best, right = problem.value(problem.best_policy()), {best_by_scores: 0, best_by_centred_scores: 0}
    for seed in range(40):
        log = problem.interact(EvenSampler(5), samples=800, rng=np.random.default_rng(seed))
        seen = Seen.nothing(problem.population, n_actions=5).with_log(log)
        for rule in right:
            right[rule] += problem.value(rule(problem.policies, seen)[0]) > best - 1e-9
    assert right[best_by_centred_scores] >= 35
    assert right[best_by_scores] <= 30
