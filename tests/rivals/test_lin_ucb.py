"""LinUCB: upper ends by hand, both radii, ties, regret, and that bounds of the theory hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.problems import load_problem
from pacbandits.records import Contexts, Log, RewardBounds
from pacbandits.rivals.lin_ucb import LinUcb
from tests.rivals.regret import answers, easy, play, slope


def after_one_round(**options):
    """A state after ten plays in one of two contexts, of which the first action was played six times and paid three."""
    problem = easy(contexts=2)
    algorithm = LinUcb(0.1, 0.1, **options)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = Log.of(
        problem.population.take([0] * 10),
        actions=[0] * 6 + [1] * 3 + [2],
        rewards=[1, 1, 1, 0, 0, 0, 0, 0, 1, 0],
        propensities=np.full((10, 3), 1 / 3),
    )
    return problem, algorithm, algorithm.absorb(state, plan, log)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_upper_ends_are_those_of_the_formula(alpha):
    problem, algorithm, state = after_one_round(alpha=alpha)
    sampler = algorithm.design(state).sampler
    reach = alpha * (1 + math.sqrt(math.log(2 / 0.1) / 2))
    wanted = [3 / 7 + reach / math.sqrt(7), 1 / 4 + reach / 2, reach / math.sqrt(2)]
    assert sampler.upper(problem.population)[0].tolist() == pytest.approx(wanted)
    # Of the other context nothing is known, and all actions are alike.
    chances = sampler.propensities(problem.population)
    assert chances[0].tolist() == ([1, 0, 0] if alpha < 1 else [0, 0, 1])
    assert np.allclose(chances[1], 1 / 3)


def test_the_radius_of_the_theory_shares_delta_among_all_means():
    problem, algorithm, state = after_one_round(radius="theory", alpha=0.5)
    beta = [0.5 * math.sqrt(2 * math.log(6 * math.sqrt(1 + n) / 0.1)) + 1 for n in (6, 3, 1)]
    wanted = [3 / 7 + beta[0] / 2 / math.sqrt(7), 1 / 4 + beta[1] / 4, beta[2] / 2 / math.sqrt(2)]
    assert algorithm.design(state).sampler.upper(problem.population)[0].tolist() == pytest.approx(wanted)


def test_noise_beyond_the_unit_widens_the_radius():
    wide = LinUcb(0.1, 0.1, rewards=RewardBounds(5.0, in_unit=False, proxy=4.0))
    state = wide.start(easy().policies, easy().population)
    assert wide.design(state).sampler.constant == pytest.approx(1 + 2 * math.sqrt(2 * math.log(20)))
    assert LinUcb(0.1, 0.1, rewards=RewardBounds(5.0, in_unit=False)).noise == 5.0


def test_actions_with_the_same_features_share_alike_whichever_contexts_are_asked():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(40, 3, 5))
    phi[:, 2] = phi[:, 1]
    problem = load_problem("linear:dimension=5,actions=3,contexts=40,policies=10,seed=1")
    contexts = Contexts.finite(40, phi=phi)
    algorithm = LinUcb(0.1, 0.1)
    sampler = algorithm.design(algorithm.start(problem.policies, contexts)).sampler
    chances = sampler.propensities(contexts)
    assert np.array_equal(chances[:, 1], chances[:, 2])
    assert set(chances[:, 1].tolist()) == {0.0, 0.5}
    assert all(np.array_equal(sampler.propensities(contexts.take([i]))[0], chances[i]) for i in range(40))


@pytest.mark.thorough
@pytest.mark.parametrize("radius", ["constant", "theory"])
def test_regret_grows_slower_than_the_root_and_the_answer_is_right(radius):
    problem = easy()
    assert slope(LinUcb(0.01, 0.1, budget=20_000, radius=radius), problem, runs=1) < 0.55
    assert answers(LinUcb(0.01, 0.1, budget=1500, radius=radius, growth=0.3), problem, runs=6) == 6


def test_linear_rewards_are_learnt_through_features():
    problem = load_problem("linear:dimension=3,actions=4,contexts=40,policies=60,seed=1")
    assert answers(LinUcb(0.01, 0.1, budget=2000, alpha=0.3, growth=0.3), problem, runs=5, within=0.001) == 5


def outside(*, alpha, runs=20):
    """Runs in which an upper end was ever below the mean reward."""
    problem, count = easy(), 0
    for seed in range(runs):
        _, plans = play(LinUcb(0.1, 0.2, budget=600, radius="theory", alpha=alpha, growth=0.5), problem, seed=seed)
        count += any((plan.sampler.upper(problem.population) < problem.mean_rewards).any() for plan in plans)
    return count


@pytest.mark.thorough
def test_bounds_of_the_theory_hold_and_narrower_ones_do_not():
    """The ridge term makes room for means as large as 1, so that they hold with room to spare."""
    assert outside(alpha=1.0) <= 8  # δ is 0.2
    assert outside(alpha=0.3) > 8


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="alpha must be positive"):
        LinUcb(0.1, 0.1, alpha=0.0)
    with pytest.raises(InputError, match="radius must be constant or theory, got 'wide'"):
        LinUcb(0.1, 0.1, radius="wide")
