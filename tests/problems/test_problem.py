"""What every problem promises: valid, reproducible, and sampled as its truth says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.problems import Bernoulli, Gaussian, Problem, RealizableTruth, list_problems, load_problem
from pacbandits.records import Contexts, Mixture

NAMES = [problem.name for problem in list_problems()]
SPECS = [
    *NAMES,
    "random:skew=2",
    "trivial:skew=5,noise=gaussian,variance=0.5",
    "hard:noise=bernoulli,gap=0.5",
]
RARE = 1e-6  # how often a statistical test may fail by chance, over fresh seeds


def example(**changes: object) -> Problem:
    parts = {
        "name": "example",
        "description": "Two contexts, two actions.",
        "population": Contexts.finite(2, weights=[0.25, 0.75]),
        "mean_rewards": np.array([[0.0, 0.5], [0.25, 1.0]]),
        "noise": Bernoulli(),
        "policies": Finite([[0, 1], [1, 1]], n_actions=2),
    }
    return Problem(**(parts | changes))


@pytest.mark.first(7)
@pytest.mark.parametrize("spec", SPECS)
def test_is_valid_and_says_what_it_is(spec: str) -> None:
    problem = load_problem(spec)
    n = len(problem.population)
    assert problem.mean_rewards.shape == problem.noise_variance.shape == (n, problem.n_actions)
    assert problem.mean_rewards.min() >= 0
    assert problem.mean_rewards.max() <= 1
    assert problem.noise_variance.min() >= 0
    assert np.array_equal(problem.population.ids, np.arange(n))
    assert problem.population.weights.min() > 0
    assert problem.policies.n_actions == problem.n_actions
    assert problem.description.endswith(".")
    assert problem.value(problem.best_policy()) <= problem.population.weights @ problem.mean_rewards.max(axis=1) + 1e-12


@pytest.mark.first(7)
@pytest.mark.parametrize("spec", SPECS)
def test_its_name_spells_out_the_options_and_makes_the_same_problem(spec: str) -> None:
    problem = load_problem(spec)
    again = load_problem(problem.name)
    assert again.name == problem.name
    assert len(problem.name) > len(spec)
    assert np.array_equal(again.mean_rewards, problem.mean_rewards)
    assert np.array_equal(again.population.weights, problem.population.weights)
    assert np.array_equal(again.population.features, problem.population.features)
    assert again.value(again.best_policy()) == problem.value(problem.best_policy())
    if isinstance(problem.policies, Finite):
        assert np.array_equal(again.policies.table, problem.policies.table)


@pytest.mark.parametrize("name", [p.name for p in list_problems() if any(o.name == "seed" for o in p.options)])
def test_another_seed_makes_another_problem(name: str) -> None:
    first, second = load_problem(f"{name}:seed=1"), load_problem(f"{name}:seed=2")
    assert not np.array_equal(first.mean_rewards, second.mean_rewards)


@pytest.mark.first(11)
@pytest.mark.parametrize("spec", SPECS)
def test_draws_are_reproducible_from_the_generator(spec: str) -> None:
    problem = load_problem(spec)
    draws = []
    for _ in range(2):
        rng = np.random.default_rng(5)
        contexts = problem.contexts(50, rng)
        draws.append((contexts.ids, problem.rewards(contexts, np.zeros(50, dtype=int), rng)))
    assert np.array_equal(draws[0][0], draws[1][0])
    assert np.array_equal(draws[0][1], draws[1][1])


@pytest.mark.first(11)
@pytest.mark.parametrize("spec", SPECS)
def test_contexts_come_with_the_right_frequencies(spec: str) -> None:
    problem = load_problem(spec)
    n, size = 20_000, len(problem.population)
    drawn = problem.contexts(n, np.random.default_rng(7))
    assert np.array_equal(drawn.features, problem.population.features[drawn.ids])
    assert np.allclose(drawn.weights, 1 / n)
    counts = np.bincount(drawn.ids, minlength=size)
    weights = problem.population.weights
    level = RARE / (2 * size)
    assert (binom.cdf(counts, n, weights) >= level).all()
    assert (binom.sf(counts - 1, n, weights) >= level).all()


@pytest.mark.first(11)
@pytest.mark.parametrize("spec", SPECS)
def test_rewards_have_the_right_means_and_variances(spec: str) -> None:
    problem = load_problem(spec)
    rng = np.random.default_rng(11)
    n = 20_000
    contexts = problem.contexts(n, rng)
    actions = rng.integers(problem.n_actions, size=n)
    rewards = problem.rewards(contexts, actions, rng)
    residuals = rewards - problem.mean_rewards[contexts.ids, actions]
    sigma = np.sqrt(problem.noise_variance.max())
    # Hoeffding (range 1 is 1/2-subgaussian) or the normal tail, for each action.
    scale = 0.5 if isinstance(problem.noise, Bernoulli) else sigma
    for action in range(problem.n_actions):
        played = residuals[actions == action]
        assert abs(played.mean()) <= scale * math.sqrt(2 * math.log(2 * problem.n_actions / RARE) / len(played))
    variance = problem.noise_variance[contexts.ids, actions].mean()
    if isinstance(problem.noise, Bernoulli):
        assert np.isin(rewards, [0, 1]).all()
        bound = math.sqrt(math.log(2 / RARE) / (2 * n))
    else:  # the upper tail of χ² with n degrees of freedom (Laurent and Massart)
        x = math.log(2 / RARE)
        bound = sigma**2 * (2 * math.sqrt(x / n) + 2 * x / n)
    assert abs(np.mean(residuals**2) - variance) <= bound


def test_deterministic_rewards_are_exact() -> None:
    problem = load_problem("hard:noise=bernoulli")
    rng = np.random.default_rng(0)
    contexts = problem.contexts(100, rng)
    rewards = problem.rewards(contexts, np.zeros(100, dtype=int), rng)
    assert np.array_equal(rewards, (contexts.ids != 0).astype(float))


def test_value_and_best_policy() -> None:
    problem = example()
    assert problem.value(problem.policies.policy(0)) == 0.25 * 0.0 + 0.75 * 1.0
    assert problem.value(problem.best_policy()) == 0.25 * 0.5 + 0.75 * 1.0


def test_the_gain_of_what_is_like_the_control_is_exactly_zero() -> None:
    problem = load_problem("trivial:contexts=7,actions=3,seed=1")
    control = np.full((3, 7), 2)
    same = Finite(control, n_actions=3).policy(0)
    assert problem.gain(same, 2) == problem.gain(Mixture((same, same, same), (0.1, 0.2, 0.7)), 2) == 0.0
    best = problem.best_policy()
    for policy in (best, Mixture((same, best), (0.25, 0.75))):
        assert problem.gain(policy, 2) == pytest.approx(problem.value(policy) - problem.value(same), rel=1e-12)


def test_noise_variance_of_each_noise() -> None:
    assert np.array_equal(example().noise_variance, [[0, 0.25], [0.1875, 0]])
    assert np.array_equal(example(noise=Gaussian(0.5)).noise_variance, np.full((2, 2), 0.5))
    given = np.array([[1.0, 2.0], [3.0, 0.0]])
    assert np.array_equal(example(noise=Gaussian(given)).noise_variance, given)


def test_gaussian_rewards_may_be_any_numbers() -> None:
    problem = example(mean_rewards=[[-3.0, 5.0], [2.0, 0.0]], noise=Gaussian(0.0))
    contexts = problem.population
    assert np.array_equal(problem.rewards(contexts, [1, 0], np.random.default_rng(0)), [5, 2])


def test_is_frozen() -> None:
    problem = example()
    for array in (problem.mean_rewards, problem.noise_variance, problem.population.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        problem.name = "other"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean_rewards": [[0.0, 1.5], [0.0, 0.0]]}, r"\[0, 1\].*entry \(0, 1\) is 1.5; give noise_variance"),
        ({"mean_rewards": [[0.0, -0.1], [0.0, 0.0]]}, r"entry \(0, 1\) is -0.1"),
        ({"mean_rewards": [[0.0, np.nan], [0.0, 0.0]]}, "must be finite"),
        ({"mean_rewards": [[0.0, 0.5]]}, r"shape \(2, any\), got \(1, 2\)"),
        ({"mean_rewards": np.zeros((2, 0))}, "at least one action"),
        ({"mean_rewards": np.zeros((2, 3))}, "policies have 2 actions, but mean_rewards has 3 columns"),
        ({"population": Contexts.of([[1.0], [2.0]])}, "ids 0 to 1"),
        ({"population": Contexts.of([[1.0], [2.0]], ids=[1, 0])}, "ids 0 to 1"),
        ({"policies": Finite([[0, 1, 1]], n_actions=2)}, "tables over 3 contexts, but the problem has 2"),
        ({"policies": Trivial(5, 2)}, "tables over 5 contexts, but the problem has 2"),
        ({"noise": Gaussian(np.ones((3, 2)))}, r"noise_variance has shape \(3, 2\)"),
        ({"realizable": RealizableTruth(np.ones((2, 2, 1)), np.ones(1))}, "product of the linear features"),
        ({"realizable": RealizableTruth(np.ones((3, 2, 1)), np.ones(1))}, "product of the linear features"),
    ],
)
def test_refuses_what_does_not_fit(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        example(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variance", "message"),
    [
        (-1.0, "negative"),
        (np.nan, "finite"),
        ([1.0, 2.0], "one number or have shape"),
        ([[1.0, -2.0]], "negative"),
    ],
)
def test_refuses_a_bad_variance(variance: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Gaussian(variance)


def test_refuses_bad_draws() -> None:
    problem = example()
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="1 or more, got 0"):
        problem.contexts(0, rng)
    with pytest.raises(InputError, match="between 0 and 1, got 2"):
        problem.rewards(problem.population, [0, 2], rng)
    with pytest.raises(InputError, match="context id 4 is unknown"):
        problem.rewards(Contexts.of([[0.0]], ids=[4]), [0], rng)
    with pytest.raises(InputError, match="carry no ids"):
        problem.rewards(Contexts.of([[0.0]]), [0], rng)


def test_refuses_a_parameter_of_the_wrong_length() -> None:
    with pytest.raises(InputError, match=r"linear parameter must have shape \(3,\), got \(2,\)"):
        RealizableTruth(np.ones((2, 2, 3)), np.ones(2))
