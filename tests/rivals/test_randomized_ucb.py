"""RandomizedUCB: its formulas, and that the weights meet the published constraint for mixtures of policies too."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.rivals.oracle_cases import centred, easy, made, random_problem, regret_slope, states_of
from tests.rivals.test_coordinate_descent import losses_and_variances


def test_the_least_probability_and_the_slope_follow_from_the_published_constants():
    problem = random_problem(0)  # 25 policies, 4 actions, δ = 0.1
    asked = made("randomized-ucb", problem).constraint(problem.policies, 10_000)
    size = 2 * math.log(25 * 10_000 / 0.1)
    assert asked.floor == pytest.approx(math.sqrt(size / (2 * 4 * 10_000)))
    # The line reaches 4A where the published bound has its kink, t Δ²/(180 C) = 4A.
    kink = math.sqrt(4 * 4 * 180 * size / 10_000)
    assert 2 * 4 + asked.slope * kink == pytest.approx(4 * 4)
    less = made("randomized-ucb:confidence=0.01", problem).constraint(problem.policies, 10_000)
    assert less.floor == pytest.approx(asked.floor / 10)
    assert less.slope == pytest.approx(asked.slope * 10)
    assert made("randomized-ucb", problem).constraint(problem.policies, 0).floor == 1 / 8


@pytest.mark.first(1)
@pytest.mark.parametrize("confidence", [1.0, 0.01, 0.0001])
def test_the_published_program_is_solved_as_nearly_as_it_asks(confidence):
    """The worst mixture is of two policies: points (E Δ, E V) of mixtures fill a polygon, and the bound is convex."""
    problem = random_problem(3)
    algorithm = made(f"randomized-ucb:confidence={confidence}", problem)
    share = np.linspace(0, 1, 41)
    beyond = False
    for state in states_of(algorithm, problem)[0][1::8]:
        t, floor = state.samples, algorithm.constraint(problem.policies, state.samples).floor
        size = confidence * 2 * math.log(25 * t / 0.1)
        losses, variances = losses_and_variances(problem.policies, centred(state.seen), state.memory, floor=floor)
        mixed = losses[:, None, None] * share + losses[None, :, None] * (1 - share)
        explored = variances[:, None, None] * share + variances[None, :, None] * (1 - share)
        assert (explored <= np.maximum(4 * 4, t * mixed**2 / (180 * size)) * (1 + 1e-6)).all()
        beyond |= bool((variances > 4 * 4).any())
        policies, weights = state.memory.mixture()
        table = problem.policies.table.tolist()
        objective = weights @ losses[[table.index(policy.table.tolist()) for policy in policies]]
        assert objective <= math.sqrt(720 * 4 * size / t) * (1 + 1e-9)
    assert beyond is (confidence < 0.01)  # so that bad policies were let go where that is permitted


@pytest.mark.thorough
def test_regret_grows_like_the_root_of_time():
    slope, right = regret_slope("randomized-ucb:confidence=0.0001,growth=0.3,budget=30000", easy())
    assert 0.2 < slope < 0.65
    assert right == 3
