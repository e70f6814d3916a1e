"""Explore-then-commit: how long it explores, that it commits for good, and the power of its regret."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.rivals.explore_then_commit import ExploreThenCommit
from tests.rivals.regret import answers, easy, play, regret


def test_it_explores_as_often_as_the_rule_says_and_then_commits_for_good():
    problem = easy()
    algorithm = ExploreThenCommit(0.01, 0.1, budget=3000, explore=0.7)
    wanted = math.ceil(0.7 * 3000 ** (2 / 3) * (3 * math.log(9 / 0.1)) ** (1 / 3))
    assert algorithm.exploration(problem.policies) == wanted
    states, plans = play(algorithm, problem)
    before = [state.samples for state in states[:-1]]
    assert wanted in before  # a round ends where exploration does
    committed = states[before.index(wanted)].policy
    for plan, samples in zip(plans, before, strict=True):
        chances = plan.sampler.propensities(problem.population)
        if samples < wanted:
            assert np.allclose(chances, 1 / 3)
        else:
            assert np.array_equal(chances, np.eye(3)[committed(problem.population)])
    assert states[-1].policy is committed
    assert states[-1].samples == 3000
    assert states[-1].oracle_calls == 1 + before.index(wanted)


@pytest.mark.thorough
def test_whatever_comes_after_the_commitment_is_not_learnt_from():
    """Of this little exploration some runs commit to a wrong policy, and stay with it."""
    problem = easy()
    algorithm = ExploreThenCommit(0.01, 0.1, budget=2000, explore=0.02, growth=0.5)
    assert answers(algorithm, problem, runs=8) <= 4
    assert answers(ExploreThenCommit(0.01, 0.1, budget=2000, growth=0.5), problem, runs=8) == 8


def test_regret_grows_with_the_budget_like_its_power_of_two_thirds():
    """Where the commitment is right nothing is lost later, and regret is what exploration loses."""
    problem = easy()
    ends = [
        regret(problem, play(ExploreThenCommit(0.01, 0.1, budget=budget), problem, seed=3)[1])[0][-1]
        for budget in (3000, 24_000)
    ]
    assert math.log(ends[1] / ends[0]) / math.log(8) == pytest.approx(2 / 3, abs=0.02)


def test_a_large_share_explores_throughout():
    problem = easy()
    algorithm = ExploreThenCommit(0.01, 0.1, budget=300, explore=100.0)
    assert algorithm.exploration(problem.policies) == 300
    assert all(plan.details["explored"] == 1 for plan in play(algorithm, problem)[1])
    with pytest.raises(InputError, match="explore must be positive"):
        ExploreThenCommit(0.1, 0.1, explore=-1.0)
