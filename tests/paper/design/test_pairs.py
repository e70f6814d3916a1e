"""The design over pairs against brute force, an independent convex solver, and known answers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from convex import convex_ends
from instances import make_instance, seeds
from pacbandits.design.weights import solve_weights
from pacbandits.errors import InputError
from pacbandits.paper.pairs import PairObjective, pair_design, pair_disagreements, pair_variances, solve_pairs
from pacbandits.policies.finite import Finite
from pacbandits.problems import load_problem
from pacbandits.records import Contexts


def parts_of(table, weights, n_actions):
    """Of each pair, what stands above 1/p(a|c) in its V: (pairs, N, A), as the definition reads."""
    parts = []
    for one, other in combinations(table, 2):
        part = np.zeros((len(weights), n_actions))
        for c, nu in enumerate(weights):
            if one[c] != other[c]:
                part[c, one[c]] = part[c, other[c]] = nu
        parts.append(part)
    return np.array(parts)


@given(seed=seeds)
@examples(30)
def test_bracket_holds_the_convex_optimum(seed):
    instance = make_instance(seed, n_policies=2 + seed % 7)
    table, weights, n_actions = instance.policies.table, instance.population.weights, instance.policies.n_actions
    floor = [0.0, 0.0, 0.4, 1.0][seed % 4] / n_actions
    solution = solve_pairs(table, n_actions=n_actions, weights=weights, floor=floor)
    low, high = convex_ends(parts_of(table, weights, n_actions), floor=floor)
    assert solution.lower <= solution.upper
    assert solution.gap <= 1e-3
    if weights[weights > 0].min() > 1e-3:
        assert high <= low * 1.02 + 1e-9  # the other solver did its work
    assert solution.lower <= high * (1 + 1e-9)
    assert low <= solution.upper * (1 + (1e-9 if floor == 0 else 1e-4))


@given(seed=seeds)
@examples(40)
def test_the_propensities_attain_the_upper_end(seed):
    """Over every pair by brute force; they can be had again from the policies, and keep the floor."""
    instance = make_instance(seed)
    contexts, policies = instance.population, instance.policies
    floor = (seed % 3) / 4 / policies.n_actions
    solution = solve_pairs(
        policies.table, n_actions=policies.n_actions, weights=contexts.weights, tolerance=1e-4, floor=floor
    )
    assert solution.gap <= 1e-4
    assert solution.floor >= floor
    assert solution.propensities.min() >= solution.floor
    parts = parts_of(policies.table, contexts.weights, policies.n_actions)
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.nansum(parts / solution.propensities, axis=(1, 2)).max()
    assert worst == pytest.approx(solution.upper, rel=1e-9)
    design = pair_design([policies.policy(i) for i in range(len(policies))], solution)
    assert np.array_equal(design.propensities(contexts), solution.propensities)


@given(seed=seeds)
@examples(40)
def test_variances_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    table, weights, n_actions = instance.policies.table, instance.population.weights, instance.policies.n_actions
    p = rng.dirichlet(np.ones(n_actions), size=len(weights))
    variances = pair_variances(table, propensities=p, weights=weights)
    direct = (parts_of(table, weights, n_actions) / p).sum(axis=(1, 2))
    assert variances[np.triu_indices(len(table), 1)] == pytest.approx(direct, rel=1e-9)
    assert np.array_equal(variances, variances.T)
    assert not variances.diagonal().any()


@given(seed=seeds)
@examples(25)
def test_disagreements_are_those_of_the_definition(seed):
    instance = make_instance(seed)
    table, weights, n_actions = instance.policies.table, instance.population.weights, instance.policies.n_actions
    apart = pair_disagreements(table, n_actions=n_actions, weights=weights)
    direct = [[weights[one != other].sum() for other in table] for one in table]
    assert apart == pytest.approx(np.array(direct), rel=1e-12)
    # Where 1/p is 1/2 for every action, V says the same.
    halves = np.full((len(weights), n_actions), 2.0)
    assert np.array_equal(apart, pair_variances(table, propensities=halves, weights=weights))


def test_an_action_without_probability_cannot_be_judged():
    table = [[0, 0, 0], [1, 0, 2], [2, 0, 2]]
    p = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    variances = pair_variances(table, propensities=p, weights=[0.25, 0.75, 0.0])
    assert variances.tolist() == [[0.0, 1.0, np.inf], [1.0, 0.0, np.inf], [np.inf, np.inf, 0.0]]


@given(seed=seeds)
@examples(25)
def test_weak_duality_and_the_closed_form(seed):
    """G(κ) is the minimum over designs of Σ κ V: no random design does better, and its own design attains it."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n_policies=8)
    weights, n_actions = instance.population.weights, instance.policies.n_actions
    pairs = np.array(list(combinations(range(8), 2)))
    kappa = rng.dirichlet(np.ones(len(pairs)))
    objective = PairObjective(instance.policies.table, weights, n_actions)
    value, variances = objective.evaluate(pairs, kappa)
    parts = parts_of(instance.policies.table, weights, n_actions)
    at_own = np.nansum(np.where(parts > 0, parts / np.maximum(objective.propensities(pairs, kappa), 1e-300), 0), (1, 2))
    assert variances == pytest.approx(at_own, rel=1e-9)
    assert value == pytest.approx(float(kappa @ variances), rel=1e-9)
    for _ in range(5):
        p = rng.dirichlet(np.ones(n_actions), size=len(weights))
        assert kappa @ (parts / p).sum(axis=(1, 2)) >= value * (1 - 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_a_pool_of_pairs_agrees_with_all_pairs(seed):
    """Some actions are taken by few policies, some contexts hardly occur, and some policies are near-copies."""
    rng = np.random.default_rng(seed)
    n, a, k = 40, 6, 60
    table = rng.choice(a, size=(k, n), p=[0.5, 0.3, 0.1, 0.08, 0.01, 0.01]).astype(np.uint8)
    table[k // 2 :] = np.where(rng.random((k // 2, n)) < 0.05, table[k // 2 :], table[0])
    weights = rng.dirichlet(np.full(n, 0.3))
    solution = solve_pairs(table, n_actions=a, weights=weights, tolerance=1e-4)
    pairs = np.array(list(combinations(range(k), 2)))
    every = solve_weights(PairObjective(table, weights, a), pairs, np.ones(len(pairs)), tolerance=1e-4)
    assert solution.gap <= 1e-4
    assert solution.note == ""
    assert solution.lower <= every.upper
    assert every.lower <= solution.upper


@pytest.mark.parametrize("seed", [2310, 2878, 2998])
def test_tiny_weights_are_kept_as_solved(seed):
    """A context may be served by pairs of tiny weight alone; raising those stopped these at gaps of 1e-3 to 4e-2."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n_policies=int(rng.integers(2, 60)), n_contexts=int(rng.integers(1, 30)))
    solution = solve_pairs(
        instance.policies.table,
        n_actions=instance.policies.n_actions,
        weights=instance.population.weights,
        tolerance=1e-5,
    )
    assert solution.gap <= 1e-5


@pytest.mark.parametrize("m", [2, 3, 10, 100])
def test_the_hard_instance(m):
    """Each pair of rows differs on two contexts of two actions: p = 1/2 and V = (2/m)·4."""
    solution = solve_pairs(np.eye(m, dtype=np.int64), n_actions=2, weights=np.full(m, 1 / m), tolerance=1e-6)
    assert solution.lower <= 8 / m * (1 + 1e-12)
    assert 8 / m <= solution.upper
    assert solution.gap <= 1e-6
    assert solution.propensities == pytest.approx(np.full((m, 2), 0.5), abs=1e-3)


@pytest.mark.first(3)
@pytest.mark.parametrize("a", [2, 3, 17, 300])
def test_every_action_on_one_context(a):
    """The trivial class on one context: any pair of actions costs 1/p + 1/p', so p is uniform and ρ = 2A."""
    solution = solve_pairs(np.arange(a)[:, None], n_actions=a, weights=[1.0])
    assert solution.lower <= 2 * a * (1 + 1e-12)
    assert 2 * a <= solution.upper
    assert solution.gap <= 1e-3
    assert solution.propensities == pytest.approx(np.full((1, a), 1 / a), rel=0.05)


def test_two_policies_share_the_contexts_they_differ_on():
    """One pair, no choice: p = 1/2 on both actions, V = 4 P(differ); elsewhere nothing is asked."""
    table = [[0, 1, 2, 1], [0, 3, 0, 1]]
    solution = solve_pairs(table, n_actions=4, weights=[0.4, 0.2, 0.1, 0.3], tolerance=1e-9)
    assert solution.lower <= 1.2 * (1 + 1e-12)
    assert 1.2 <= solution.upper <= 1.2 * (1 + 1e-9)
    expected = [[0.25] * 4, [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0], [0.25] * 4]
    assert solution.propensities == pytest.approx(np.array(expected), abs=1e-8)
    assert solution.pairs.tolist() == [[0, 1]]


def test_the_largest_floor_is_uniform():
    instance = make_instance(3, n_policies=20, n_actions=4, awkward=False)
    weights = instance.population.weights
    solution = solve_pairs(instance.policies.table, n_actions=4, weights=weights, floor=0.25)
    uniform = np.full((len(weights), 4), 0.25)
    worst = pair_variances(instance.policies.table, propensities=uniform, weights=weights).max()
    assert solution.propensities == pytest.approx(uniform)
    assert solution.lower == pytest.approx(worst, rel=1e-3)
    assert solution.upper == pytest.approx(worst)


def test_contexts_that_cannot_occur_change_nothing():
    rng = np.random.default_rng(0)
    table, weights = rng.integers(4, size=(30, 12)), rng.dirichlet(np.ones(12))
    plain = solve_pairs(table, n_actions=4, weights=weights)
    wider = np.concatenate([rng.integers(4, size=(30, 5)), table], axis=1)
    solution = solve_pairs(wider, n_actions=4, weights=np.concatenate([np.zeros(5), weights]))
    assert (solution.lower, solution.upper) == (plain.lower, plain.upper)
    assert np.array_equal(solution.propensities[5:], plain.propensities)
    assert np.allclose(solution.propensities.sum(axis=1), 1)


@pytest.mark.parametrize("table", [[[0, 1, 2]], [[0, 1, 2]] * 4, [[0, 1, 2], [0, 1, 0]]])
def test_policies_that_act_alike_leave_nothing_to_learn(table):
    solution = solve_pairs(table, n_actions=3, weights=[0.5, 0.5, 0.0], floor=0.1)
    assert (solution.lower, solution.upper, solution.gap) == (0.0, 0.0, 0.0)
    assert np.array_equal(solution.propensities, np.full((3, 3), 1 / 3))
    assert "nothing to learn" in solution.note
    policies = Finite(table, n_actions=3)
    design = pair_design([policies.policy(i) for i in range(len(table))], solution)
    assert np.array_equal(design.propensities(Contexts.finite(3)), solution.propensities)


def test_good_policies_of_two_of_many_need_two_actions():
    """Among the good policies p = 1/2 on the pair of each context is about best; uniform costs ten times as much."""
    problem = load_problem("two-of-many:policies=200,good=1")
    table, weights = problem.policies.table, problem.population.weights
    solution = solve_pairs(table, n_actions=20, weights=weights)
    uniform = pair_variances(table, propensities=np.full((50, 20), 0.05), weights=weights).max()
    assert solution.gap <= 1e-3
    assert uniform / solution.upper == pytest.approx(10, rel=0.01)


def test_an_unreached_tolerance_is_admitted():
    rng = np.random.default_rng(1)
    table, weights = rng.integers(5, size=(100, 20)), rng.dirichlet(np.ones(20))
    solution = solve_pairs(table, n_actions=5, weights=weights, tolerance=1e-9, max_rounds=2)
    assert solution.gap > 1e-9
    assert solution.note == "stopped after 2 rounds"
    worst = pair_variances(table, propensities=solution.propensities, weights=weights).max()
    assert worst == pytest.approx(solution.upper, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be positive and finite, got 0.0"),
        ({"floor": 0.6}, "floor must lie between 0 and 1/2"),
        ({"n_actions": 0}, "n_actions must be 1 or more, got 0"),
        ({"weights": [1.0]}, r"context weights must have shape \(2,\), got \(1,\)"),
        ({"weights": [1.5, -0.5]}, "context weights must not be negative, got -0.5"),
        ({"actions": [[0, 2]]}, "actions must be between 0 and 1, got 2"),
        ({"actions": np.empty((0, 2))}, "at least one policy"),
        ({"max_rounds": 0}, "max_rounds must be 1 or more, got 0"),
    ],
)
def test_bad_input_gets_a_sentence(change, message):
    arguments = {"actions": [[0, 0], [1, 1]], "n_actions": 2, "weights": [0.5, 0.5]} | change
    with pytest.raises(InputError, match=message):
        solve_pairs(arguments.pop("actions"), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensities": [[0.5, 0.5]]}, r"propensities must have shape \(2, any\), got \(1, 2\)"),
        ({"propensities": [[1.5, -0.5]] * 2}, "propensities must not be negative, got -0.5"),
        ({"weights": [1.0]}, r"context weights must have shape \(2,\)"),
    ],
)
def test_bad_variances_get_a_sentence(change, message):
    arguments = {"propensities": [[0.5, 0.5]] * 2, "weights": [0.5, 0.5]} | change
    with pytest.raises(InputError, match=message):
        pair_variances([[0, 0], [1, 1]], **arguments)
