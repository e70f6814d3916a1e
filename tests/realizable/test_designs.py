"""Designs for linear rewards against an independent convex solver, on skewed and collinear features, and by search."""

from __future__ import annotations

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import seeds
from pacbandits.errors import InputError
from pacbandits.realizable.features import change_coordinates
from pacbandits.realizable.policy_search import LinearPolicies, PolicyCosts, proven_cost, search_design
from pacbandits.realizable.pool_design import PoolOptions, solve_pool, solve_targets

FINE = PoolOptions(tolerance=1e-4, max_iterations=20_000)


def make_pool(seed):
    """Features, weights and directions, small and awkward: skewed sizes and weights, contexts that cannot occur."""
    rng = np.random.default_rng(seed)
    n, a, d = int(rng.integers(1, 9)), int(rng.integers(2, 5)), int(rng.integers(1, 5))
    phi = rng.standard_normal((n, a, d)) * np.exp(rng.choice([0.0, 1.0]) * rng.standard_normal(d))
    weights = rng.dirichlet(np.full(n, rng.choice([0.3, 5.0])))
    if n > 1 and rng.random() < 0.3:
        weights[rng.integers(n)] = 0.0
        weights /= weights.sum()
    policies = rng.integers(0, a, size=(int(rng.integers(1, 12)), n))
    rows = np.arange(n)
    points = np.array([weights @ (phi[rows, policy] - phi[rows, 0]) for policy in policies])
    accuracies = rng.uniform(0.1, 1.0, size=len(points))
    return phi, weights, points, accuracies


def information(phi, weights, propensities, noise=None):
    noise = np.ones(phi.shape[:2]) if noise is None else noise
    return np.einsum("c,ca,cai,caj->ij", weights, propensities / noise, phi, phi)


def value_at(phi, weights, points, accuracies, propensities, noise=None):
    """max_k ‖x_k‖²_{A⁻¹}/d_k², straight from the definition."""
    inverse = np.linalg.pinv(information(phi, weights, propensities, noise), rcond=1e-13)
    return (np.einsum("ki,ij,kj->k", points, inverse, points) / accuracies**2).max()


def convex_value(phi, weights, points, accuracies, *, noise, floor=0.0):
    """The optimum by cvxpy: v_k through matrix_frac."""
    n, a, d = phi.shape
    unit = value_at(phi, weights, points, accuracies, np.full((n, a), 1 / a), noise)
    p, t, matrix = cp.Variable((n, a)), cp.Variable(), cp.Variable((d, d), symmetric=True)
    flat = phi.reshape(-1, d)
    mass = cp.multiply(cp.reshape(p, (n * a,), order="C"), (weights[:, None] / noise).reshape(-1))
    scaled = points / accuracies[:, None] / np.sqrt(unit)
    rows = [cp.matrix_frac(x, matrix) <= t for x in scaled if np.abs(x).max() > 1e-12]
    made = matrix == flat.T @ cp.diag(mass) @ flat
    problem = cp.Problem(cp.Minimize(t), [*rows, made, cp.sum(p, axis=1) == 1, p >= floor])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver=cp.CLARABEL)
    return float(problem.value) * unit


@pytest.mark.thorough
@given(seed=seeds)
@examples(20)
def test_agrees_with_a_convex_solver(seed):
    phi, weights, points, accuracies = make_pool(seed)
    if np.abs(points).max() < 1e-9:
        return
    rng = np.random.default_rng(seed)
    noise = None if seed % 2 else rng.uniform(0.05, 1.0, size=phi.shape[:2])
    solution = solve_pool(phi, weights, points, accuracies, noise=noise, options=FINE)
    assert solution.converged
    assert solution.upper == pytest.approx(
        value_at(phi, weights, points, accuracies, solution.propensities, noise), rel=1e-6
    )
    exact = convex_value(phi, weights, points, accuracies, noise=np.ones(phi.shape[:2]) if noise is None else noise)
    assert solution.lower <= exact * (1 + 1e-5)
    assert exact <= solution.upper * (1 + 1e-5)
    np.testing.assert_allclose(solution.propensities.sum(axis=1), 1)
    assert solution.multipliers.sum() == pytest.approx(1)


@pytest.mark.thorough
@given(seed=seeds)
@examples(20)
def test_a_floor_is_kept_and_priced(seed):
    phi, weights, points, accuracies = make_pool(seed)
    if np.abs(points).max() < 1e-9:
        return
    floor = 0.4 / phi.shape[1]
    solution = solve_pool(phi, weights, points, accuracies, options=replace(FINE, floor=floor))
    assert solution.converged
    assert solution.propensities.min() >= floor * (1 - 1e-9)
    exact = convex_value(phi, weights, points, accuracies, noise=np.ones(phi.shape[:2]), floor=floor)
    assert solution.lower <= exact * (1 + 1e-5)
    assert exact <= solution.upper * (1 + 1e-5)


@given(seed=seeds)
@examples(50)
def test_the_lower_end_is_below_every_design(seed):
    phi, weights, points, accuracies = make_pool(seed)
    coarse = solve_pool(phi, weights, points, accuracies, options=PoolOptions(max_iterations=1 + seed % 7))
    rng = np.random.default_rng(seed)
    for concentration in (0.1, 0.5, 1.0, 10.0):
        propensities = rng.dirichlet(np.full(phi.shape[1], concentration), size=len(phi))
        assert coarse.lower <= value_at(phi, weights, points, accuracies, np.maximum(propensities, 1e-6)) * (1 + 1e-6)
    assert coarse.lower <= coarse.upper


@given(seed=seeds)
@examples(25)
def test_coordinates_do_not_matter(seed):
    phi, weights, points, accuracies = make_pool(seed)
    rng = np.random.default_rng(seed)
    d = phi.shape[2]
    plain = solve_pool(phi, weights, points, accuracies, options=PoolOptions(tolerance=1e-3))
    turned = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-3, 4, size=d)
    wide = np.concatenate([turned, turned @ rng.standard_normal((d, 2))], axis=1)  # d + 2 features of rank d
    for change in (turned, wide):
        other = solve_pool(phi @ change, weights, points @ change, accuracies, options=PoolOptions(tolerance=1e-3))
        assert other.lower <= plain.upper * (1 + 1e-6)
        assert plain.lower <= other.upper * (1 + 1e-6)


@given(seed=seeds)
@examples(25)
def test_contexts_may_be_split(seed):
    phi, weights, points, accuracies = make_pool(seed)
    share = np.random.default_rng(seed).uniform(0.1, 0.9)
    plain = solve_pool(phi, weights, points, accuracies, options=PoolOptions(tolerance=1e-3))
    twice = np.concatenate([phi, phi])
    halves = np.concatenate([share * weights, (1 - share) * weights])
    split = solve_pool(twice, halves, points, accuracies, options=PoolOptions(tolerance=1e-3))
    assert split.lower <= plain.upper * (1 + 1e-9)
    assert plain.lower <= split.upper * (1 + 1e-9)


def test_one_direction_in_one_context_has_a_closed_form():
    # x = φ(1) − φ(0) for orthogonal features: (1/p₀ + 1/p₁) is least at ½ each.
    solution = solve_pool(np.eye(2)[None], [1.0], [[-1.0, 1.0]], [0.5], options=PoolOptions(tolerance=1e-6))
    assert solution.lower == pytest.approx(16.0, rel=1e-5)
    assert solution.upper == pytest.approx(16.0, rel=1e-5)
    np.testing.assert_allclose(solution.propensities, 0.5, atol=1e-3)


def test_what_has_no_noise_costs_nothing():
    # The first feature is learned at once; what is left is 1/p of the second, with p = 1 in the limit.
    solution = solve_pool(
        np.eye(2)[None], [1.0], [[-1.0, 1.0]], [1.0], noise=[[0.0, 0.3]], options=PoolOptions(tolerance=1e-4)
    )
    assert solution.lower == pytest.approx(0.3, rel=1e-3)
    assert solution.upper == pytest.approx(0.3, rel=1e-3)
    silent = solve_pool(np.eye(2)[None], [1.0], [[-1.0, 1.0]], [1.0], noise=[[0.0, 0.0]])
    assert (silent.lower, silent.upper) == (0.0, 0.0)


def test_nothing_to_learn():
    for phi, points in ((np.zeros((3, 2, 2)), np.zeros((4, 2))), (np.ones((3, 2, 2)), np.empty((0, 2)))):
        solution = solve_pool(phi, np.full(3, 1 / 3), points, np.ones(len(points)))
        assert (solution.lower, solution.upper, solution.iterations) == (0.0, 0.0, 0)
        np.testing.assert_allclose(solution.propensities, 0.5)


def test_many_directions_are_sifted():
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((30, 3, 3))
    weights = np.full(30, 1 / 30)
    points, accuracies = rng.standard_normal((500, 3)), rng.uniform(0.5, 1.0, size=500)
    plain = solve_pool(phi, weights, points, accuracies, options=PoolOptions(tolerance=1e-3))
    sifted = solve_pool(phi, weights, points, accuracies, options=PoolOptions(tolerance=1e-3, max_at_once=60))
    assert sifted.converged
    assert (sifted.multipliers > 0).sum() < len(points) == (plain.multipliers > 0).sum()
    assert sifted.upper == pytest.approx(value_at(phi, weights, points, accuracies, sifted.propensities), rel=1e-6)
    assert sifted.lower <= plain.upper
    assert plain.lower <= sifted.upper


def test_a_start_is_never_lost():
    phi, weights, points, accuracies = make_pool(3)
    good = solve_pool(phi, weights, points, accuracies, options=replace(FINE, tolerance=1e-5))
    again = solve_pool(
        phi, weights, points, accuracies, start=good.propensities, options=PoolOptions(tolerance=1e-2, max_iterations=1)
    )
    assert again.upper <= good.upper * (1 + 1e-3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": np.full((2, 2, 2), np.nan)}, "features must be finite"),
        ({"features": np.ones((2, 2))}, "features must have shape"),
        ({"weights": [0.5, 0.4]}, "context weights must sum to 1"),
        ({"directions": [[1.0]]}, "directions must have shape"),
        ({"directions": [[0.0, np.inf]]}, "directions must be finite"),
        ({"accuracies": [0.0]}, "accuracies must be positive"),
        ({"accuracies": [1.0, 1.0]}, "accuracies must have shape"),
        ({"features": np.ones((2, 2, 2)), "directions": [[1.0, -1.0]]}, "direction 0 is not in the span"),
        ({"noise": [[1.0, -1.0], [1.0, 1.0]]}, "noise variances must not be negative"),
        ({"noise": np.ones((2, 3))}, "noise variances must have shape"),
        ({"options": PoolOptions(floor=0.6)}, "floor must lie between 0 and 1/2"),
        ({"options": PoolOptions(tolerance=0.0)}, "tolerance must be positive"),
        ({"start": np.full((2, 2), 0.4)}, "start must be propensities"),
    ],
)
def test_errors_in_words(change, words):
    given_ = {
        "features": np.random.default_rng(0).standard_normal((2, 2, 2)),
        "weights": [0.5, 0.5],
        "directions": [[1.0, 0.0]],
        "accuracies": [1.0],
    } | change
    positional = [given_.pop(name) for name in ("features", "weights", "directions", "accuracies")]
    with pytest.raises(InputError, match=words):
        solve_pool(*positional, **given_)


def make_policies(seed, *, n=40, a=4, d=3, every=False):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((n, a, d))
    weights = rng.dirichlet(np.full(n, 2.0))
    theta = rng.standard_normal(d)
    best = (phi @ theta).argmax(axis=1)
    relative = phi - phi[np.arange(n), best][:, None]
    return change_coordinates(phi, weights), LinearPolicies(relative, weights, theta, every=every)


@pytest.mark.first(2)
@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_what_dense_directions_find(seed):
    where, policies = make_policies(seed, d=2 + seed % 2)
    epsilon = [0.05, 0.5][seed // 2]
    found = search_design(where, policies, epsilon=epsilon)
    assert found.upper <= found.lower * 1.01
    costs = PolicyCosts.of(policies, where, where.gather(found.solution.propensities), epsilon=epsilon)
    directions = np.random.default_rng(99).standard_normal((60_000, policies.rank))
    near = policies.parameter + directions[::2] * np.geomspace(1e-3, 10, 30_000)[:, None]
    dense = costs.ratios(policies.points(np.concatenate([directions, near]))).max()
    assert dense <= found.upper * 1.01
    assert found.upper <= proven_cost(costs, attained=found.upper) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_proven_end_covers_policies_that_are_not_linear(seed):
    rng = np.random.default_rng(seed)
    where, policies = make_policies(seed, n=6, a=3, d=3)
    costs = PolicyCosts.of(policies, where, rng.dirichlet(np.ones(3), size=6), epsilon=0.3)
    every = np.stack(np.meshgrid(*[np.arange(3)] * 6, indexing="ij"), axis=-1).reshape(-1, 6)
    points = np.array([policies.weights @ policies.relative[np.arange(6), actions] for actions in every])
    largest = costs.ratios(points).max()
    proven = proven_cost(costs, attained=largest)
    assert largest <= proven * (1 + 1e-9)
    # Mixtures of two of them, scaled to the same gap, come close to it.
    pairs = rng.integers(len(points), size=(2, 40_000))
    share = rng.random((40_000, 1))
    mixed = share * points[pairs[0]] + (1 - share) * points[pairs[1]]
    assert costs.ratios(mixed).max() <= proven * (1 + 1e-9)
    assert proven <= 2.5 * costs.ratios(mixed).max()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_changes_of_single_contexts_find_policies_that_are_not_linear(seed):
    where, policies = make_policies(seed, n=6, a=3, d=3, every=True)
    found = search_design(where, policies, epsilon=0.3)
    costs = PolicyCosts.of(policies, where, where.gather(found.solution.propensities), epsilon=0.3)
    every = np.stack(np.meshgrid(*[np.arange(3)] * 6, indexing="ij"), axis=-1).reshape(-1, 6)
    points = np.array([policies.weights @ policies.relative[np.arange(6), actions] for actions in every])
    assert costs.ratios(points).max() <= found.upper * 1.01
    targets = points @ where.change / np.maximum(policies.gaps(points), 0.3)[:, None]
    listed = solve_targets(where, targets, options=PoolOptions(tolerance=1e-3))
    assert found.lower <= listed.upper
    assert listed.lower <= found.upper * 1.01
