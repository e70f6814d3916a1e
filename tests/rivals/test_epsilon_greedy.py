"""ε-greedy: the share it explores, the policy it plays else, and regret that grows like a logarithm."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.rivals.epsilon_greedy import EpsilonGreedy
from tests.rivals.regret import answers, easy, play, slope


def test_what_is_explored_falls_like_1_over_t_and_else_the_best_policy_is_played():
    problem = easy()
    algorithm = EpsilonGreedy(0.01, 0.1, budget=2000, explore=0.2, gap=0.3)
    states, plans = play(algorithm, problem)
    for state, plan in zip(states, plans, strict=False):
        share = min(1.0, 0.2 * 3 / (0.09 * max(state.samples, 1)))
        wanted = (1 - share) * np.eye(3)[state.policy(problem.population)] + share / 3
        assert np.allclose(plan.sampler.propensities(problem.population), wanted)
        assert plan.details["explored"] == pytest.approx(share)
    assert plans[0].details["explored"] == 1
    assert plans[-1].details["explored"] < 0.005


@pytest.mark.thorough
def test_regret_grows_far_slower_than_the_root():
    problem = easy()
    assert slope(EpsilonGreedy(0.01, 0.1, budget=20_000, growth=0.2), problem, runs=3) < 0.3
    assert answers(EpsilonGreedy(0.01, 0.1, budget=1000, growth=0.3), problem, runs=6) == 6


@pytest.mark.thorough
def test_with_hardly_any_exploration_it_often_stays_with_a_wrong_policy():
    problem = easy(contexts=8, actions=4, gap=0.2)
    little = answers(EpsilonGreedy(0.01, 0.1, budget=1500, explore=0.002, growth=0.4), problem, runs=8)
    enough = answers(EpsilonGreedy(0.01, 0.1, budget=1500, explore=1.0, growth=0.4), problem, runs=8)
    assert little <= 4
    assert enough >= 6


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="explore must be positive"):
        EpsilonGreedy(0.1, 0.1, explore=0.0)
    for gap in (0.0, 1.5):
        with pytest.raises(InputError, match="gap must be"):
            EpsilonGreedy(0.1, 0.1, gap=gap)
