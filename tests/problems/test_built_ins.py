"""What each built-in problem promises of its own."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.problems import Bernoulli, Gaussian, Problem, list_problems, load_problem
from pacbandits.problems.hard import hard, hard_coins
from pacbandits.problems.linear import linear
from pacbandits.problems.random_policies import random_policies
from pacbandits.problems.trees import COMPETITIVE_LOSSES, SMOOTH_AMPLITUDE, trees
from pacbandits.problems.trivial import trivial
from pacbandits.problems.two_of_many import two_of_many
from pacbandits.rivals.samplers import EvenSampler
from pacbandits.rivals.seen import Seen


def values(problem: Problem) -> np.ndarray:
    scores = problem.population.weights[:, None] * problem.mean_rewards
    return problem.policies.values(problem.population, scores)


@pytest.mark.parametrize(("m", "gap"), [(2, 1.0), (10, 0.3), (50, 1.0)])
def test_hard_has_the_values_of_the_paper(m: int, gap: float) -> None:
    problem = hard(m=m, gap=gap)
    assert isinstance(problem.noise, Gaussian)
    assert (problem.noise_variance == 1).all()
    assert problem.n_actions == 2
    assert np.array_equal(problem.policies.table, np.eye(m))
    expected = np.full(m, gap * (1 - 2 / m))
    expected[0] = gap
    assert np.allclose(values(problem), expected, rtol=0, atol=1e-12)


def test_random_policies_are_distinct_and_one_is_skilled() -> None:
    problem = random_policies(policies=200, contexts=30, actions=5, skill=1.0, seed=4)
    assert problem.policies.table.shape == (200, 30)
    assert len(np.unique(problem.policies.table, axis=0)) == 200
    assert values(problem).max() == pytest.approx(problem.mean_rewards.max(axis=1).mean())
    chance = random_policies(policies=200, contexts=30, actions=5, skill=0.0, seed=4)
    assert values(chance).max() < values(problem).max()


def test_random_policies_can_be_all_there_are() -> None:
    problem = random_policies(policies=16, contexts=4, actions=2)
    assert len(np.unique(problem.policies.table, axis=0)) == 16
    assert load_problem("random:policies=1,contexts=1,actions=1").mean_rewards.shape == (1, 1)


@pytest.mark.parametrize("spec", ["random:policies=17,contexts=4,actions=2", "two-of-many:contexts=3,policies=40"])
def test_more_policies_than_there_are_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match=r"there are not .* distinct policies.*ask for fewer"):
        load_problem(spec)


def test_skew_makes_weights_uneven() -> None:
    spread = [random_policies(skew=skew, seed=3).population.weights.max() for skew in (0.0, 0.1, 10.0)]
    assert spread[0] == pytest.approx(1 / 20)
    assert spread[0] < spread[1] < spread[2]
    assert random_policies(skew=1000.0).population.weights.min() > 0


@pytest.mark.parametrize("seed", [0, 1])
def test_good_policies_differ_between_two_actions_only(seed: int) -> None:
    problem = two_of_many(actions=12, policies=300, contexts=40, good=0.4, seed=seed)
    table, gaps = problem.policies.table, values(problem).max() - values(problem)
    good = gaps < 0.1
    assert good.sum() == 120
    assert len(np.unique(table, axis=0)) == 300
    assert gaps[good].max() < 0.06
    assert np.sort(gaps)[1] > 0
    assert gaps[~good].min() > 0.15
    assert all(len(np.unique(column)) == 2 for column in table[good].T)
    assert len(np.unique(table[~good])) == 12
    assert 0.3 <= problem.mean_rewards.min() < problem.mean_rewards.max() <= 0.7
    assert isinstance(problem.noise, Bernoulli)
    best = np.argmax(values(problem))
    assert np.array_equal(table[best], problem.mean_rewards.argmax(axis=1))


def test_two_of_many_rewards_a_design_far_beyond_a_randomised_trial() -> None:
    """At ε = 0.05 a plain design that favours the good pair needs 5 times fewer samples than uniform."""
    problem = load_problem("two-of-many")
    table = problem.policies.table.astype(int)
    value = values(problem)
    rows, best = np.arange(table.shape[1]), table[value.argmax()]
    price = 1 / np.maximum(value.max() - value, 0.05) ** 2
    good = value > value.max() - 0.1
    pair = np.zeros_like(problem.mean_rewards)
    for policy in table[good]:
        pair[rows, policy] = 0.5

    def cost(propensities: np.ndarray) -> float:
        inverse = 1 / propensities
        variance = ((inverse[rows, table] + inverse[rows, best]) * (table != best)) @ problem.population.weights
        return float((price * variance).max())

    uniform = np.full_like(pair, 1 / problem.n_actions)
    assert cost(uniform) / cost(0.7 * pair + 0.3 * uniform) > 5


@pytest.mark.parametrize(
    "spec", ["trees:actions=8,features=6,seed=3", "trees:actions=16,competitive=3", "trees:features=1"]
)
def test_trees_have_competitive_actions_and_no_perfect_tree(spec: str) -> None:
    problem = load_problem(spec)
    top = problem.mean_rewards.max(axis=1)
    margin = COMPETITIVE_LOSSES[1] + 2 * SMOOTH_AMPLITUDE  # of competitive actions to the best, and of no others
    near = (problem.mean_rewards >= top[:, None] - margin).sum(axis=1)
    assert (near == 3).all()
    # Not the same three everywhere, and not one of them best throughout.
    assert len(np.unique(problem.mean_rewards.argmax(axis=1))) > 3
    best = problem.value(problem.best_policy())
    assert best < top.mean() - 0.005
    assert best > problem.mean_rewards.mean(axis=0).max() + 0.01


def test_trees_have_features_of_several_kinds() -> None:
    problem = trees(features=12, contexts=300)
    population = problem.population
    assert len(set(population.names)) == 12
    assert population.names[:4] == ("age", "income", "visits", "region")
    assert population.categories[3] == ("north", "south", "east", "west")
    assert population.names[10] == "age2"
    scales = population.features.std(axis=0)
    assert scales.max() > 1000 * scales.min()
    assert all(labels is None for labels in trees(features=3, contexts=300).population.categories)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_trees_pass_depth_and_bins_to_the_class(depth: int) -> None:
    problem = trees(depth=depth, contexts=300, bins=4)
    coarse = trees(depth=depth, contexts=300, bins=8)
    assert problem.policies.log_size <= coarse.policies.log_size
    assert problem.value(problem.best_policy()) <= coarse.value(coarse.best_policy()) + 0.02


def test_trees_need_enough_actions() -> None:
    with pytest.raises(InputError, match="competitive must be at most the number of actions, got 9 of 8"):
        trees(competitive=9)


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.9])
def test_trivial_keeps_the_least_lead(gap: float) -> None:
    problem = trivial(contexts=500, actions=6, gap=gap)
    assert isinstance(problem.policies, Trivial)
    ordered = np.sort(problem.mean_rewards, axis=1)
    assert (ordered[:, -1] - ordered[:, -2]).min() >= gap
    assert problem.value(problem.best_policy()) == pytest.approx(ordered[:, -1].mean())


def test_trivial_with_one_action() -> None:
    assert trivial(contexts=3, actions=1).mean_rewards.shape == (3, 1)


@pytest.mark.parametrize("dimension", [2, 5])
def test_linear_is_exactly_linear(dimension: int) -> None:
    problem = linear(dimension=dimension, seed=2)
    truth = problem.realizable
    assert truth is not None
    assert truth.features.shape == (200, 10, dimension)
    assert truth.parameter.shape == (dimension,)
    assert np.array_equal(truth.features @ truth.parameter, problem.mean_rewards)
    assert 0.04 < problem.mean_rewards.min() < problem.mean_rewards.max() < 0.96


def test_linear_policies_include_the_best_and_do_not_repeat() -> None:
    problem = linear(seed=2)
    assert isinstance(problem.policies, Finite)
    table = problem.policies.table
    assert len(np.unique(table, axis=0)) == len(table) > 100
    assert np.array_equal(table[0], problem.mean_rewards.argmax(axis=1))
    assert values(problem).argmax() == 0
    near = linear(seed=2, spread=0.1)
    assert (values(near).max() - values(near)).mean() < (values(problem).max() - values(problem)).mean()


@pytest.mark.parametrize(("m", "gap"), [(2, 0.25), (5, 0.1), (16, 0.5)])
def test_hard_with_coins_is_the_hard_instance_shifted_and_turned_round(m, gap):
    paper, coins = hard(m=m, gap=gap), hard_coins(m=m, gap=gap)
    assert np.allclose(coins.mean_rewards[::-1], paper.mean_rewards + 0.5 - gap)
    assert np.allclose(values(coins), [*(0.5 - 2 * gap / m for _ in range(m - 1)), 0.5])
    assert coins.mean_rewards.max() + gap <= 1  # what the proof compares with is a coin too


def test_wrong_actions_that_never_pay_leave_nothing_to_learn_and_wrong_coins_do():
    held = {}
    for name, problem in {"hard": hard(m=16, gap=0.5, noise="bernoulli"), "hard-coins": hard_coins(m=16)}.items():
        log = problem.interact(EvenSampler(2), samples=64, rng=np.random.default_rng(5))
        scores = Seen.nothing(problem.population, n_actions=2).with_log(log).scores
        held[name] = problem.value(problem.policies.argmax(problem.population, scores)) == problem.value(
            problem.best_policy()
        )
    assert held == {"hard": True, "hard-coins": False}


def test_every_built_in_is_listed_with_its_options() -> None:
    listed = {problem.name: problem for problem in list_problems()}
    made_up = {"hard", "hard-coins", "random", "two-of-many", "trees", "trivial", "linear"}
    assert set(listed) == made_up | {"digits", "wine", "iris", "breast-cancer", "actg175"}
    for problem in listed.values():
        assert "\n" not in problem.description
        for option in problem.options:
            assert option.meaning
            assert option.check(option.default) == option.default
            assert type(option.default) is {"integer": int, "number": float, "choice": str}[option.kind]
    assert [option.name for option in listed["hard"].options] == ["m", "gap", "noise", "variance"]
