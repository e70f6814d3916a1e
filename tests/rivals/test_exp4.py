"""EXP4: weights and chances by hand, rates, sums without ids, regret, its answer, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import load_problem
from pacbandits.records import Contexts, Log
from pacbandits.rivals.exp4 import Exp4, ExpertMixture, exponential_weights
from pacbandits.rivals.samplers import EvenSampler
from pacbandits.trials.protocol import Plan
from tests.rivals.regret import answers, easy, play, slope


class Signs:
    """Two policies of a feature: its sign, and the other one. A listed class that asks for no ids."""

    n_actions, log_size, exact = 2, math.log(2), True

    def __len__(self):
        return 2

    def actions(self, contexts):
        positive = contexts.features[:, 0] > 0
        return np.stack([positive, ~positive]).astype(np.uint8)

    def policy(self, index):
        return Sign(index)

    def argmax(self, contexts, scores):
        rows = np.arange(len(contexts))
        return Sign(int(np.argmax([scores[rows, actions].sum() for actions in self.actions(contexts)])))


class Sign:
    """The sign of a feature, or the other one."""

    n_actions = 2

    def __init__(self, index):
        self.index = index

    def __call__(self, contexts):
        return Signs().actions(contexts)[self.index].astype(np.int64)

    def describe(self):
        return f"sign {self.index}"

    def to_json(self):
        return {"kind": "sign", "index": self.index}


def test_chances_are_those_of_the_formula():
    policies, contexts = Finite([[0, 1], [0, 2], [1, 1]], n_actions=3), Contexts.finite(2)
    algorithm = Exp4(0.1, 0.1, explore=0.5, rate=2.0)
    state = algorithm.start(policies, contexts)
    earned = np.array([30.0, 10.0, 0.0])
    plan = algorithm.design(replace(state, samples=400, memory=np.stack([earned, np.zeros(3)])))
    published = math.sqrt(3 * math.log(3) / ((math.e - 1) * 400))
    gamma, eta = 0.5 * published, 2 * published / 3
    w = np.exp(eta * earned) / np.exp(eta * earned).sum()
    wanted = (1 - gamma) * np.array([[w[0] + w[1], w[2], 0], [0, w[0] + w[2], w[1]]]) + gamma / 3
    assert np.allclose(plan.sampler.propensities(contexts), wanted, rtol=1e-12, atol=0)
    assert w[0] > w[1] > w[2]
    assert plan.details["explored"] == pytest.approx(gamma)
    # At first everything is explored.
    assert np.allclose(Exp4(0.1, 0.1).design(state).sampler.propensities(contexts), 1 / 3)


def test_weights_bear_any_totals():
    weights = exponential_weights(np.array([1e9, 1e9 - 1, 0.0, -1e9]), rate=1.0)
    assert weights.tolist() == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0, 0])
    assert np.allclose(exponential_weights(np.full(5, -1e12), rate=3.0), 0.2)


def test_a_mixture_counts_every_policy_by_its_weight():
    rng = np.random.default_rng(0)
    policies, weights = Finite(rng.integers(0, 4, size=(30, 6)), n_actions=4), rng.dirichlet(np.ones(30))
    found = ExpertMixture(policies, weights, 0.02).propensities(Contexts.finite(6))
    one_hot = np.eye(4)[policies.table]
    assert np.allclose(found, 0.92 * np.einsum("k,kca->ca", weights, one_hot) + 0.02)


def test_weights_are_by_rewards_less_their_mean():
    """One context, of which the first action had 30 rewards of 40 at p = 1/2, and the second 10 of 20: b = 2/3."""
    policies, contexts = Finite([[0], [1]], n_actions=2), Contexts.finite(1)
    algorithm = Exp4(0.1, 0.1)
    log = Log.of(
        contexts.take([0, 0, 0, 0]),
        actions=[0, 0, 1, 1],
        rewards=[1.0, 0.0, 1.0, 0.0],
        propensities=np.full((4, 2), 0.5),
        repeats=[30, 10, 10, 10],
    )
    plan = Plan(1, 0.1, EvenSampler(2), samples=60)
    state = algorithm.absorb(algorithm.start(policies, contexts), plan, log)
    rate = math.sqrt(2 * math.log(2) / ((math.e - 1) * 60)) / 2
    ratio = math.exp(rate * 2 * ((30 - 40 * 2 / 3) - (10 - 20 * 2 / 3)))
    assert algorithm.design(state).sampler.weights == pytest.approx([ratio / (1 + ratio), 1 / (1 + ratio)])


def test_what_policies_would_have_earned_is_weighted_by_1_over_p():
    problem = easy()
    algorithm = Exp4(0.01, 0.1, budget=400)
    rng, state = np.random.default_rng(1), algorithm.start(problem.policies, problem.population)
    totals = np.zeros((2, len(problem.policies)))
    while (plan := algorithm.design(state)) is not None:
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        follows = problem.policies.table[:, log.contexts.ids] == log.actions
        weights = log.repeats / log.played_propensities
        totals += np.stack([follows @ (weights * log.rewards), follows @ weights])
        state = algorithm.absorb(state, plan, log)
        assert np.allclose(state.memory, totals)


def test_contexts_without_ids_are_counted_once_each():
    contexts = Contexts.of([[-1.0], [1.0], [2.0]])
    algorithm, totals = Exp4(0.01, 0.1, budget=100), np.zeros((2, 2))
    state, rng = algorithm.start(Signs(), contexts), np.random.default_rng(0)
    for _ in range(3):
        plan = algorithm.design(state)
        came = contexts.take(rng.integers(0, 3, size=plan.samples))
        chances = plan.sampler.propensities(came)
        actions = (rng.random(plan.samples) > chances[:, 0]).astype(np.int64)
        rewards = (actions == Sign(0)(came)).astype(float)
        log = Log.of(came, actions=actions, rewards=rewards, propensities=chances)
        state = algorithm.absorb(state, plan, log)
        inverses = 1.0 / log.played_propensities
        totals += [[rewards @ inverses, 0.0], [rewards @ inverses, (1.0 - rewards) @ inverses]]
        assert np.allclose(state.memory, totals)
    assert state.policy.index == 0


@pytest.mark.thorough
def test_regret_grows_no_faster_than_the_root():
    problem = easy()
    assert 0.15 < slope(Exp4(0.01, 0.1, budget=10_000, growth=0.2), problem, runs=2) < 0.55
    assert answers(Exp4(0.01, 0.1, budget=1000, growth=0.3), problem, runs=6) == 6


def test_weight_moves_to_the_best_policy():
    problem = easy()
    states, plans = play(Exp4(0.01, 0.1, budget=10_000), problem)
    weights = plans[-1].sampler.weights
    assert weights.argmax() == len(problem.policies) - 1
    assert weights.max() > 0.9
    assert states[-1].history[-1]["largest_weight"] == weights.max()


def test_classes_that_cannot_be_listed_and_too_long_lists_are_refused():
    trees = load_problem("trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1")
    with pytest.raises(InputError, match=r"exp4 keeps a figure for each policy, and \w+ cannot be listed"):
        Exp4(0.1, 0.1).start(trees.policies, trees.population)
    many = Finite(np.zeros((200_001, 1), dtype=int), n_actions=2)
    with pytest.raises(InputError, match="at most 200,000 of them, and the class has 200,001"):
        Exp4(0.1, 0.1).start(many, Contexts.finite(1))
    for option in ("explore", "rate"):
        with pytest.raises(InputError, match=f"{option} must be positive"):
            Exp4(0.1, 0.1, **{option: 0.0})


def test_a_plan_of_even_play_is_not_its_own():
    problem, algorithm = easy(), Exp4(0.01, 0.1, budget=3000)
    state = play(algorithm, problem)[0][-2]
    plan = algorithm.design(state)
    log = problem.interact(EvenSampler(3), samples=plan.samples, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="has propensity"):
        algorithm.absorb(state, Plan(plan.round_number, plan.epsilon, plan.sampler, plan.samples), log)
