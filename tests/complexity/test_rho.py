"""ρ against closed forms, enumeration, an independent convex solver, and on the awkward cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from convex import convex_bracket
from instances import Instance, epsilons, make_instance, seeds
from pacbandits.complexity import measure_gaps, measure_lower_rho, measure_rho, measure_uniform_rho
from pacbandits.complexity.rho import relax_trivial
from pacbandits.design import Clipped, DesignTask, Objective, price_by_argmax, price_by_frontier, solve_by_pricing
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.problems import load_problem
from pacbandits.records import Contexts


def rho_of(instance, policies=None, *, epsilon, noise=None, **options):
    policies = instance.policies if policies is None else policies
    gaps = measure_gaps(instance, policies)
    return measure_rho(policies, instance.population, gaps, epsilon=epsilon, noise=noise, **options)


def enumerate_maps(n_contexts, n_actions):
    return Finite(list(itertools.product(range(n_actions), repeat=n_contexts)), n_actions=n_actions)


@pytest.mark.parametrize("m", [2, 3, 10, 50])
@pytest.mark.parametrize("gap", [1.0, 0.3, 1e-3])
def test_hard_instance(m, gap):
    problem = load_problem(f"hard:m={m},gap={gap}")
    solution = rho_of(problem, epsilon=0.0)
    assert solution.lower == pytest.approx(2 * m / gap**2, rel=1e-6)
    assert solution.upper == pytest.approx(2 * m / gap**2, rel=1e-6)


@pytest.mark.thorough
@given(seed=seeds, epsilon=epsilons)
@examples(25)
def test_agrees_with_a_convex_solver(seed, epsilon):
    instance = make_instance(seed)
    values = instance.values
    best = int(np.argmax(values))
    for noise in (np.ones_like(instance.mean_rewards), instance.noise_variance):
        solution = rho_of(instance, epsilon=epsilon, noise=noise)
        low, high = convex_bracket(
            instance.policies.table,
            instance.policies.table[best],
            urgency=1 / np.maximum(values[best] - values, epsilon) ** 2,
            weights=instance.population.weights,
            noise=noise,
        )
        assert solution.lower <= high * (1 + 1e-9)
        assert low <= solution.upper * (1 + 1e-9)


@given(seed=seeds)
@examples(25)
def test_trivial_closed_form_agrees_with_enumeration(seed):
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n_contexts=int(rng.integers(1, 5)), n_actions=int(rng.integers(2, 4)))
    n, a = instance.mean_rewards.shape
    noise = None if seed % 2 else instance.noise_variance
    listed = rho_of(instance, enumerate_maps(n, a), epsilon=0.0, noise=noise)
    closed = rho_of(instance, Trivial(n, a), epsilon=0.0, noise=noise)
    assert closed.lower <= listed.upper * (1 + 1e-9)
    assert listed.lower <= closed.upper * (1 + 1e-9)


@given(seed=seeds, epsilon=epsilons)
@examples(25)
def test_trivial_class_through_its_oracle_agrees_with_enumeration(seed, epsilon):
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n_contexts=int(rng.integers(1, 6)), n_actions=int(rng.integers(2, 4)))
    n, a = instance.mean_rewards.shape
    noise = None if seed % 2 else instance.noise_variance
    listed = rho_of(instance, enumerate_maps(n, a), epsilon=epsilon, noise=noise)
    oracle = rho_of(instance, Trivial(n, a), epsilon=epsilon, noise=noise)
    assert oracle.converged
    assert oracle.lower <= listed.upper * (1 + 1e-9)
    assert listed.lower <= oracle.upper * (1 + 1e-9)


@pytest.mark.thorough
@given(seed=seeds, epsilon=epsilons)
@examples(25)
def test_brackets_from_either_oracle_hold_the_enumerated_value(seed, epsilon):
    """Column generation on a class that could have been listed: both pricings must give valid brackets."""
    instance = make_instance(seed)
    gaps = measure_gaps(instance, instance.policies)
    listed = rho_of(instance, epsilon=epsilon)
    for pricing in (price_by_frontier(instance.policies), price_by_argmax(instance.policies)):
        solution = solve_by_pricing(
            DesignTask(
                instance.policies, instance.population, reference=gaps.best, gaps=gaps.scores, scale=Clipped(epsilon)
            ),
            pricing=pricing,
        )
        assert solution.lower <= listed.upper * (1 + 1e-9)
        assert listed.lower <= solution.upper * (1 + 1e-9)
    exact = solve_by_pricing(
        DesignTask(
            instance.policies, instance.population, reference=gaps.best, gaps=gaps.scores, scale=Clipped(epsilon)
        ),
        pricing=price_by_frontier(instance.policies),
    )
    assert exact.converged, exact.note


@given(seed=seeds, epsilon=epsilons)
@examples(25)
def test_uniform_exploration(seed, epsilon):
    """By the definition; and never worse than |A|/2 times the optimum, never better than it."""
    instance = make_instance(seed)
    gaps = measure_gaps(instance, instance.policies)
    low, uniform = measure_uniform_rho(instance.policies, instance.population, gaps, epsilon=epsilon)
    a = instance.policies.n_actions
    weights, values = instance.population.weights, instance.values
    q = instance.policies.table[int(np.argmax(values))]
    expected = max(
        2 * a * weights[row != q].sum() / max(values.max() - value, epsilon) ** 2
        for row, value in zip(instance.policies.table, values, strict=True)
    )
    assert low == uniform == pytest.approx(expected, rel=1e-6)
    solution = rho_of(instance, epsilon=epsilon)
    assert solution.lower <= uniform * (1 + 1e-9)
    assert uniform <= a / 2 * solution.upper * (1 + 1e-6)


def test_more_accuracy_costs_more():
    instance = make_instance(3, n_contexts=6, n_actions=4, n_policies=30, awkward=False)
    values = [rho_of(instance, epsilon=e).upper for e in (0.3, 0.1, 0.03, 0.01)]
    assert values == sorted(values)


def test_lower_bound_form_is_between_a_quarter_and_all_of_rho():
    instance = make_instance(4, n_contexts=6, n_actions=3, n_policies=8, awkward=False)
    gaps = measure_gaps(instance, instance.policies)
    epsilon = gaps.minimum / 2
    shifted = measure_lower_rho(instance.policies, instance.population, gaps, epsilon=epsilon)
    plain = rho_of(instance, epsilon=epsilon)
    assert plain.lower / 4 <= shifted.upper
    assert shifted.lower <= plain.upper


def simple(table, rewards, weights=None, n_actions=2):
    rewards = np.array(rewards, dtype=float)
    return Instance(
        population=Contexts.finite(len(rewards), weights=weights),
        mean_rewards=rewards,
        noise_variance=np.ones_like(rewards),
        policies=Finite(table, n_actions=n_actions),
    )


def test_two_policies_by_hand():
    """One context, two actions, gap g: 1/p + 1/(1 − p) is least at 1/2, so ρ = 4/g²."""
    instance = simple([[0], [1]], [[0.7, 0.2]])
    assert rho_of(instance, epsilon=0.0).upper == pytest.approx(4 / 0.25, rel=1e-9)
    assert rho_of(instance, epsilon=0.8).upper == pytest.approx(4 / 0.64, rel=1e-9)


def test_duplicates_change_nothing():
    rewards = [[0.7, 0.2], [0.1, 0.4]]
    once = rho_of(simple([[0, 1], [1, 1], [1, 0]], rewards), epsilon=0.0)
    thrice = rho_of(simple([[0, 1], [1, 1], [0, 1], [1, 1], [1, 0], [0, 1]], rewards), epsilon=0.0)
    assert thrice.upper == pytest.approx(once.upper, rel=1e-6)


def test_tie_for_the_best():
    instance = simple([[0], [1]], [[0.5, 0.5]])
    at_zero = rho_of(instance, epsilon=0.0)
    assert at_zero.lower == at_zero.upper == np.inf
    assert "tie" in at_zero.note
    assert rho_of(instance, epsilon=0.1).upper == pytest.approx(400, rel=1e-9)
    trivial = rho_of(instance, Trivial(1, 2), epsilon=0.0)
    assert trivial.upper == np.inf
    assert rho_of(instance, Trivial(1, 2), epsilon=0.1).upper == pytest.approx(400, rel=1e-2)


def test_context_of_zero_weight_is_as_if_absent():
    with_it = simple([[0, 0], [1, 1], [0, 1]], [[0.7, 0.2], [0.0, 1.0]], weights=[1.0, 0.0])
    without = simple([[0], [1]], [[0.7, 0.2]])
    assert rho_of(with_it, epsilon=0.0).upper == pytest.approx(rho_of(without, epsilon=0.0).upper, rel=1e-9)
    assert measure_gaps(with_it, with_it.policies).minimum == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("table", "rewards", "n_actions"),
    [([[1]], [[0.7, 0.2]], 2), ([[0], [0]], [[0.7]], 1), ([[0], [0]], [[0.7, 0.2]], 2)],
)
def test_one_policy_or_one_action_costs_nothing(table, rewards, n_actions):
    instance = simple(table, rewards, n_actions=n_actions)
    solution = rho_of(instance, epsilon=0.0)
    assert (solution.lower, solution.upper) == (0, 0)
    gaps = measure_gaps(instance, instance.policies)
    assert gaps.minimum == np.inf
    assert measure_uniform_rho(instance.policies, instance.population, gaps, epsilon=0.0) == (0, 0)


def test_one_action_in_the_trivial_class():
    instance = simple([[0, 0]], [[0.7], [0.2]], n_actions=1)
    assert rho_of(instance, Trivial(2, 1), epsilon=0.0).upper == 0
    assert rho_of(instance, Trivial(2, 1), epsilon=0.1).upper == 0


def test_noiseless_rewards_cost_nothing_when_weighted_by_noise():
    instance = simple([[0, 0], [1, 1]], [[1.0, 0.0], [0.0, 0.0]])
    assert rho_of(instance, epsilon=0.0, noise=np.zeros((2, 2))).upper == 0
    assert rho_of(instance, Trivial(2, 2), epsilon=0.1, noise=np.zeros((2, 2))).upper == 0


@pytest.mark.thorough
@given(seed=seeds)
@examples(25)
def test_designs_of_the_trivial_class_attain_their_upper_end_without_noise_too(seed):
    rng = np.random.default_rng(seed)
    n, a = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    instance = make_instance(seed, n_contexts=n, n_actions=a, awkward=False)
    noise = np.where(rng.random((n, a)) < 0.4, 0.0, instance.noise_variance)
    contexts, trivial = instance.population, Trivial(n, a)
    gaps = measure_gaps(instance, trivial)
    relaxed = relax_trivial(trivial, contexts, gaps, epsilon=0.05, noise=noise)
    closed = rho_of(instance, trivial, epsilon=0.0, noise=noise)
    assert relaxed[0] is not None
    rows, q = np.arange(n), gaps.best_actions
    for design, upper, epsilon in ((closed.design, closed.upper, 0.0), (*relaxed[:2], 0.05)):
        costs = Objective(q, contexts.weights, noise).costs(design.propensities(contexts, noise=noise))
        for row in itertools.product(range(a), repeat=n):
            if (np.array(row) != q).any():
                accuracy = max(gaps.scores[rows, row].sum(), epsilon)
                assert costs[rows, row].sum() <= upper * accuracy**2 * (1 + 1e-6)


def test_a_tie_between_sure_rewards_is_not_called_infinite():
    instance = simple([[0, 0], [1, 0], [0, 1]], [[1.0, 1.0], [0.5, 0.2]])
    noise = np.array([[0.0, 0.0], [1.0, 1.0]])
    for policies in (instance.policies, Trivial(2, 2)):
        solution = rho_of(instance, policies, epsilon=0.0, noise=noise)
        assert (solution.lower, solution.upper) == (0.0, np.inf)
        assert "tie" in solution.note
        assert rho_of(instance, policies, epsilon=0.0, noise=1 - noise).lower == np.inf
