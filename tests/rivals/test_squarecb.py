"""Inverse gap weighting and SquareCB: formulas by hand, either model, and regret."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.problems import load_problem
from pacbandits.rivals.inverse_gaps import inverse_gaps, linear_entropy
from pacbandits.rivals.squarecb import SquareCb
from tests.rivals.oracle_cases import easy, made, regret_slope, states_of


def test_inverse_gaps_by_hand():
    means = np.array([[0.9, 0.4, 0.8], [0.1, 0.1, 0.1]])
    expected = [1 / (3 + 10 * 0.5), 1 / (3 + 10 * 0.1)]
    found = inverse_gaps(means, gamma=10.0)
    assert found[0] == pytest.approx([1 - sum(expected), *expected])
    assert found[1] == pytest.approx([1 / 3] * 3)
    # Among two of three only.
    some = inverse_gaps(means[:1], gamma=10.0, candidates=np.array([[False, True, True]]))
    assert some[0] == pytest.approx([0.0, 1 / (2 + 10 * 0.4), 1 - 1 / (2 + 10 * 0.4)])
    alone = inverse_gaps(means, gamma=10.0, candidates=np.array([[False, True, False], [False, False, True]]))
    assert alone.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_inverse_gaps_are_probabilities_and_follow_the_order_of_predictions():
    rng = np.random.default_rng(0)
    means, candidates = rng.random((200, 7)), rng.random((200, 7)) < 0.6
    candidates[:, 0] = True
    for gamma in (0.0, 1.0, 1e3, 1e9):
        found = inverse_gaps(means, gamma=gamma, candidates=candidates)
        assert found.sum(axis=1) == pytest.approx(1)
        assert (found[~candidates] == 0).all()
        assert (found[candidates] > 0).all()
        best = np.where(candidates, means, -1).argmax(axis=1)
        assert (found[np.arange(200), best] >= found.max(axis=1) - 1e-12).all()
        rest = np.where(candidates, means, -1.0)
        rest[np.arange(200), best] = -1.0
        second = rest.argmax(axis=1)
        others = found.copy()
        others[np.arange(200), best] = 0.0
        assert (others[np.arange(200), second] >= others.max(axis=1) - 1e-12).all()


def test_the_rate_is_the_published_one():
    problem = easy()  # a mean for each of 12 contexts and actions
    algorithm = made("squarecb:gamma=2", problem)
    regret = 12 * math.log(1 + 5000 / 12) + math.log(2 / 0.1)
    assert linear_entropy(12, 5000) == pytest.approx(12 * math.log(1 + 5000 / 12))
    rate = algorithm.rate(n_actions=3, dimension=12, samples=5000)
    assert rate == pytest.approx(2 * math.sqrt(3 * 5000 / regret))
    states, _ = states_of(made("squarecb:gamma=2,budget=3000", problem), problem)
    plan = algorithm.design(states[-2])
    assert plan.details["gamma"] == algorithm.rate(n_actions=3, dimension=12, samples=states[-2].samples)
    seen = states[-2].seen
    means = np.clip(seen.sums / (1.0 + seen.plays), 0, 1)
    played = plan.sampler.propensities(problem.population)
    assert np.allclose(played, inverse_gaps(means, gamma=plan.details["gamma"]))


def test_at_first_all_actions_are_alike():
    problem = easy()
    for model in ("linear", "house"):
        algorithm = made(f"squarecb:model={model}", problem)
        plan = algorithm.design(algorithm.start(problem.policies, problem.population))
        assert np.allclose(plan.sampler.propensities(problem.population), 1 / 3)


@pytest.mark.first(1)
@pytest.mark.parametrize("model", ["linear", "house"])
def test_regret_grows_like_the_root_of_time(model):
    slope, right = regret_slope(f"squarecb:gamma=10,model={model},growth=0.3,budget=30000", easy())
    assert 0.2 < slope < 0.7
    assert right == 3


@pytest.mark.first(1)
@pytest.mark.parametrize("model", ["linear", "house"])
def test_features_tell_of_contexts_that_never_came(model):
    """With features, 2000 interactions with 2000 contexts are enough for a good policy."""
    problem = load_problem("trees:actions=3,contexts=2000,features=3,depth=1,bins=4,competitive=2")
    states, regret = states_of(made(f"squarecb:gamma=10,model={model},growth=0.5,budget=4000", problem), problem)
    best = problem.value(problem.best_policy())
    worst = best - problem.value(states[0].policy)
    assert best - problem.value(states[-1].policy) < 0.5 * worst
    assert (regret[-1] - regret[-2]) / (states[-1].samples - states[-2].samples) < 0.7 * regret[0] / 10


def test_models_that_there_are_not():
    with pytest.raises(InputError, match="model must be linear or house, got 'forest'"):
        SquareCb(0.1, 0.1, model="forest")
