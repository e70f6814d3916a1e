"""ρ_lin against the agnostic ρ on one-hot features, enumerated linear policies, and theorems; and the command."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import make_instance, seeds
from pacbandits.arrays import FloatArray
from pacbandits.complexity import measure_gaps, measure_rho
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.policies.trees import Trees
from pacbandits.realizable.complexity import SearchEffort, log_cover, measure_realizable, minimax_bound, minimax_rho
from pacbandits.realizable.pool_design import PoolOptions, solve_pool
from pacbandits.records import Contexts

# A tenth of what is usual: instances here have a dozen contexts.
LITTLE = SearchEffort(max_directions=3_000, max_halved_cones=4_000)


@dataclass(frozen=True, eq=False)
class RealizableInstance:
    """A truth that is linear in features."""

    features: FloatArray
    parameter: FloatArray
    population: Contexts
    noise_variance: FloatArray

    @property
    def mean_rewards(self):
        return self.features @ self.parameter


def make_linear(seed, *, dimension=None, awkward=False):
    rng = np.random.default_rng(seed)
    n, a = int(rng.integers(1, 13)), int(rng.integers(2, 5))
    d = dimension or int(rng.integers(1, 5))
    features = rng.standard_normal((n, a, d))
    weights = rng.dirichlet(np.full(n, 3.0))
    if awkward:
        features *= np.exp(rng.standard_normal(d) * rng.choice([0.0, 2.0]))
        weights = rng.dirichlet(np.full(n, rng.choice([0.2, 3.0])))
        if rng.random() < 0.5:  # collinear: the span is smaller than the space
            features = features @ rng.standard_normal((d, d + 2))
        if rng.random() < 0.3:
            features[:, -1] = features[:, 0]
        if n > 1 and rng.random() < 0.3:
            weights[0] = 0.0
            weights /= weights.sum()
    parameter = rng.standard_normal(features.shape[2])
    parameter /= np.abs(features @ parameter).max()
    noise = rng.uniform(0.1, 1.0, size=(n, a))
    return RealizableInstance(features, parameter, Contexts.finite(n, weights=weights), noise)


def measured(instance, policies=None, *, epsilon, **options):
    return measure_realizable(
        instance, instance.features, policies, epsilon=epsilon, delta=0.05, effort=LITTLE, **options
    )


def turn(instance):
    """All linear policies of two dimensions, exactly: one direction between any two neighbouring critical angles."""
    phi = instance.features
    a = phi.shape[1]
    differences = (phi[:, :, None] - phi[:, None])[:, *np.triu_indices(a, 1)].reshape(-1, 2)
    angles = np.arctan2(differences[:, 1], differences[:, 0])
    critical = np.sort(np.concatenate([(angles + np.pi / 2) % (2 * np.pi), (angles - np.pi / 2) % (2 * np.pi)]))
    middles = (critical + np.append(critical[1:], critical[0] + 2 * np.pi)) / 2
    return actions_of(phi, np.stack([np.cos(middles), np.sin(middles)], axis=1))


def actions_of(phi, directions):
    return np.unique(np.argmax(np.einsum("cai,ki->kca", phi, directions), axis=2), axis=0)


def dense(instance, *, count=6_000):
    """Linear policies of very many directions, near the parameter and far from it."""
    rng = np.random.default_rng(5)
    steps = rng.standard_normal((count, instance.features.shape[2]))
    near = instance.parameter + steps[::2] * np.geomspace(1e-3, 3, count // 2)[:, None]
    return actions_of(instance.features, np.concatenate([steps, near]))


def listed_ends(instance, table, *, epsilon, noise=None, tolerance=1e-3):
    """Both ends of ρ over a table of policies, by the definition and the solver for a pool."""
    phi, weights, rows = instance.features, instance.population.weights, np.arange(len(instance.features))
    best = instance.mean_rewards.argmax(axis=1)
    points = np.array([weights @ (phi[rows, row] - phi[rows, best]) for row in table])
    points = points[np.abs(points).max(axis=1) > 1e-12]
    if len(points) == 0:
        return 0.0, 0.0
    accuracies = np.maximum(-points @ instance.parameter, epsilon)
    options = PoolOptions(tolerance=tolerance, max_iterations=20_000)
    solution = solve_pool(phi, weights, points, accuracies, noise=noise, options=options)
    return solution.lower, solution.upper


@pytest.mark.thorough
@given(seed=seeds)
@examples(2)
def test_one_hot_features_are_the_agnostic_problem(seed):
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n_contexts=int(rng.integers(1, 6)), n_actions=int(rng.integers(2, 4)))
    n, a = instance.mean_rewards.shape
    features = np.eye(n * a).reshape(n, a, n * a)
    noise = instance.noise_variance
    noise[rng.random((n, a)) < 0.2] = 0.0
    for policies in (instance.policies, Trivial(n, a)):
        gaps = measure_gaps(instance, policies)
        for epsilon in (0.0, 0.1):
            if epsilon == 0 and gaps.tied:
                continue
            ours = measure_realizable(instance, features, policies, epsilon=epsilon, delta=0.05, effort=LITTLE)
            assert ours.best_value == pytest.approx(gaps.best_value)
            for lower, upper, sigma in (
                (ours.rho_lower, ours.rho_upper, None),
                (ours.rho_sigma_lower, ours.rho_sigma_upper, noise),
            ):
                theirs = measure_rho(policies, instance.population, gaps, epsilon=epsilon, noise=sigma)
                assert lower <= theirs.upper * (1 + 1e-6)
                assert theirs.lower <= upper * (1 + 1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_all_linear_policies_of_the_plane(seed):
    instance = make_linear(seed, dimension=2)
    table = turn(instance)
    for epsilon in (0.0, 0.02, 0.2):
        ours = measured(instance, epsilon=epsilon)
        low, high = listed_ends(instance, table, epsilon=max(epsilon, 1e-15))
        assert ours.converged
        assert ours.rho_lower <= high
        assert low <= ours.rho_upper * (1 + 1e-3)
        assert ours.rho_upper <= ours.rho_proven * (1 + 1e-9)
        assert ours.exact == (epsilon == 0)
        low, high = listed_ends(instance, table, epsilon=max(epsilon, 1e-15), noise=instance.noise_variance)
        assert ours.rho_sigma_lower <= high
        assert low <= ours.rho_sigma_upper * (1 + 1e-3)


@pytest.mark.first(1)
@pytest.mark.parametrize("seed", range(4))
def test_all_linear_policies_of_space(seed):
    instance = make_linear(seed, dimension=3)
    table = dense(instance)
    for epsilon in (0.02, 0.2):
        ours = measured(instance, epsilon=epsilon)
        low, high = listed_ends(instance, table, epsilon=epsilon)
        assert ours.rho_lower <= high * 1.01  # the table may lack a policy
        assert low <= ours.rho_upper * 1.01
        listed = measured(instance, Finite(table, n_actions=instance.features.shape[1]), epsilon=epsilon)
        assert listed.exact
        assert listed.rho_lower <= high
        assert low <= listed.rho_upper == listed.rho_proven


@pytest.mark.thorough
@given(seed=seeds)
@examples(12)
def test_never_above_the_minimax_end(seed):
    instance = make_linear(seed, awkward=True)
    n, a, _ = instance.features.shape
    rng = np.random.default_rng(seed)
    most = minimax_rho(np.linalg.matrix_rank(instance.features.reshape(n * a, -1), tol=1e-9), epsilon=0.1)
    classes = [None, Trivial(n, a), Finite(rng.integers(0, a, size=(10, n)), n_actions=a)]
    ours = measured(instance, classes[seed % 3], epsilon=0.1)
    assert ours.rho_minimax <= most * (1 + 1e-9)
    assert ours.rho_lower <= ours.rho_upper <= most * 1.01
    assert ours.rho_proven <= most
    assert ours.rho_upper <= ours.rho_uniform * 1.01 + 1e-12


@pytest.mark.thorough
@given(seed=seeds)
@examples(4)
def test_neither_coordinates_nor_copies_matter(seed):
    instance = make_linear(seed, awkward=True)
    d = instance.features.shape[2]
    rng = np.random.default_rng(seed)
    change = rng.standard_normal((d, d))
    turned = RealizableInstance(
        instance.features @ change,
        np.linalg.solve(change, instance.parameter),
        instance.population,
        instance.noise_variance,
    )
    n = len(instance.features)
    share = rng.uniform(0.2, 0.8)
    weights = np.concatenate([share * instance.population.weights, (1 - share) * instance.population.weights])
    doubled = RealizableInstance(
        np.concatenate([instance.features] * 2),
        instance.parameter,
        Contexts.finite(2 * n, weights=weights),
        np.concatenate([instance.noise_variance] * 2),
    )
    for epsilon in (0.0, 0.1):
        plain = measured(instance, epsilon=epsilon)
        for other in (measured(turned, epsilon=epsilon), measured(doubled, epsilon=epsilon)):
            for one, two in ((plain, other), (other, plain)):
                assert one.rho_lower <= two.rho_upper * 1.001
                assert one.rho_sigma_lower <= two.rho_sigma_upper * 1.001


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_the_lower_bound_is_the_divergence_to_the_nearest_alternative(seed):
    instance = make_linear(seed, dimension=2)
    phi, noise, weights = instance.features, instance.noise_variance, instance.population.weights
    ours = measured(instance, epsilon=0.0, tolerance=1e-4)
    assert ours.lower_bound == pytest.approx(2 * ours.rho_sigma_lower * math.log(1 / (2.4 * 0.05)))
    best = instance.mean_rewards.argmax(axis=1)
    n, a, _ = phi.shape
    rng = np.random.default_rng(seed)

    def divergence(propensities):
        """Of one sample, from θ* to the nearest parameter under which some action beats that of π*."""
        scale = np.sqrt(weights[:, None] * propensities / (2 * noise)).reshape(-1)
        theta = cp.Variable(2)
        away = cp.sum_squares(cp.multiply(scale, phi.reshape(-1, 2) @ (theta - instance.parameter)))
        nearest = []
        for c in range(n):
            for i in set(range(a)) - {best[c]}:
                problem = cp.Problem(cp.Minimize(away), [(phi[c, i] - phi[c, best[c]]) @ theta >= 0])
                nearest.append(problem.solve(solver=cp.CLARABEL))
        return min(nearest)

    # No design makes n samples diverge by log(1/2.4δ) before the bound says so.
    for concentration in (0.2, 1.0, 5.0):
        one = divergence(rng.dirichlet(np.full(a, concentration), size=n))
        assert ours.lower_bound * one <= math.log(1 / (2.4 * 0.05)) * (1 + 1e-6)
    unit = RealizableInstance(phi, instance.parameter, instance.population, np.ones((n, a)))
    plain = measured(unit, epsilon=0.0, tolerance=1e-4)
    assert plain.rho_sigma_upper == plain.rho_upper
    noise = np.ones((n, a))
    assert plain.lower_bound * divergence(plain.propensities) == pytest.approx(math.log(1 / (2.4 * 0.05)), rel=1e-3)


def test_single_contexts_decide_at_zero_even_when_no_linear_policy_deviates_in_one():
    # Two contexts with the same features: a linear policy deviates in both or in none.
    phi = np.repeat(np.random.default_rng(0).standard_normal((1, 3, 2)), 2, axis=0)
    parameter = np.array([0.3, 0.2])
    instance = RealizableInstance(phi, parameter, Contexts.finite(2, weights=[0.3, 0.7]), np.ones((2, 3)))
    ours = measured(instance, epsilon=0.0, tolerance=1e-4)
    low, high = listed_ends(instance, turn(instance), epsilon=1e-15, tolerance=1e-4)
    assert ours.rho_lower <= high
    assert low <= ours.rho_upper
    assert len(turn(instance)) <= 3


def test_a_tie_is_infinite_at_zero_and_finite_above():
    phi = np.eye(3)[None]
    instance = RealizableInstance(phi, np.array([0.5, 0.5, 0.1]), Contexts.finite(1), np.ones((1, 3)))
    tied = measured(instance, epsilon=0.0)
    assert tied.rho_lower == tied.rho_upper == tied.lower_bound == math.inf
    assert "tie" in tied.notes["rho"]
    assert measured(instance, epsilon=0.1).rho_upper == pytest.approx(4 / 0.1**2, rel=0.02)
    # The same features under two names are no tie.
    copies = RealizableInstance(
        np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]), np.array([0.5, 0.1]), Contexts.finite(1), np.ones((1, 3))
    )
    assert measured(copies, epsilon=0.0).rho_upper == pytest.approx(4 / 0.4**2, rel=0.02)


def test_nothing_to_learn():
    for features in (np.zeros((2, 3, 2)), np.ones((2, 3, 2)), np.ones((2, 1, 2))):
        shape = features.shape[:2]
        instance = RealizableInstance(features, np.array([0.1, 0.2]), Contexts.finite(2), np.ones(shape))
        for policies in (None, Trivial(2, shape[1])):
            for epsilon in (0.0, 0.1):
                ours = measured(instance, policies, epsilon=epsilon)
                assert (ours.rho_lower, ours.rho_upper, ours.rho_uniform, ours.union_price) == (0.0, 0.0, 0.0, 0.0)
                assert "nothing to learn" in ours.notes["rho"]
                assert ours.converged


def test_noiseless_rewards():
    instance = RealizableInstance(np.eye(2)[None], np.array([1.0, 0.6]), Contexts.finite(1), np.array([[0.0, 0.24]]))
    ours = measured(instance, epsilon=0.0)
    assert ours.rho_upper == pytest.approx(4 / 0.16, rel=0.02)
    assert ours.rho_sigma_upper == pytest.approx(0.24 / 0.16, rel=0.02)
    assert "no noise" in ours.notes["rho_sigma"]
    silent = RealizableInstance(np.eye(2)[None], np.array([1.0, 0.0]), Contexts.finite(1), np.zeros((1, 2)))
    assert measured(silent, epsilon=0.0).rho_sigma_upper == 0.0
    assert "no noise" in measured(silent, epsilon=0.1).notes["rho_sigma"]


def test_prices_and_sizes():
    instance = make_linear(1, dimension=2)
    ours = measured(instance, epsilon=0.1)
    assert ours.log_cover == pytest.approx(2 * math.log(21)) == log_cover(2, epsilon=0.1)
    assert ours.log_size >= math.log(len(turn(instance)))
    union = min(ours.log_cover, ours.log_size) + math.log(20)
    assert ours.union_price == pytest.approx(2 * ours.rho_sigma_upper * union)
    assert ours.union_price_uniform == pytest.approx(2 * ours.rho_sigma_uniform * union)
    assert ours.confidence_price == pytest.approx(2 * ours.rho_sigma_upper * math.log(1 / 0.12))
    assert ours.lower_bound is None
    assert ours.rho_minimax == pytest.approx(800)
    assert ours.minimax_bound == pytest.approx(2 * (2 * math.log(10) + math.log(20)) * math.log(10) / 0.01)
    assert minimax_bound(2, epsilon=0.0, delta=0.05) == math.inf
    assert measured(instance, epsilon=0.0).log_cover == math.inf
    json.dumps(ours.to_json(), allow_nan=False)


def test_errors_in_words():
    instance = make_linear(0, dimension=2)
    n, a, _ = instance.features.shape
    with pytest.raises(InputError, match="features must have shape"):
        measure_realizable(instance, instance.features[:, :1], None, epsilon=0.1, delta=0.05)
    broken = instance.features.copy()
    broken[0, 0, 0] = np.nan
    with pytest.raises(InputError, match="features must be finite"):
        measure_realizable(instance, broken, None, epsilon=0.1, delta=0.05)
    bent = RealizableInstance(instance.features**2, instance.parameter, instance.population, instance.noise_variance)
    with pytest.raises(InputError, match=r"not linear in the features .*; leave out realizable"):
        measure_realizable(bent, instance.features, None, epsilon=0.1, delta=0.05)
    with pytest.raises(InputError, match="tolerance must be positive"):
        measured(instance, epsilon=0.1, tolerance=0.0)
    with pytest.raises(InputError, match=f"the policies have {a + 1} actions"):
        measured(instance, Trivial(n, a + 1), epsilon=0.1)
    trees = Trees.learn(Contexts.of(np.arange(n)[:, None], ids=np.arange(n)), n_actions=a, depth=1, bins=4)
    with pytest.raises(InputError, match="Trees cannot be listed"):
        measured(instance, trees, epsilon=0.1)


SPEC = "linear:dimension=3,actions=4,contexts=30,policies=20,seed=1"


@pytest.mark.thorough
@pytest.mark.parametrize("policies", [(), ("--policies", "linear"), ("--policies", "trivial")])
def test_command(command, tmp_path, policies):
    code, out, _ = command("complexity", SPEC, "--realizable", *policies, "--json")
    assert code == 0
    got = json.loads(out)
    assert got["policies"] == {(): "listed", "linear": "linear", "trivial": "all"}[policies[1:][0] if policies else ()]
    assert got["rho_lower"] <= got["rho_upper"] <= got["rho_lower"] * 1.01
    figure = tmp_path / "design.png"
    code, out, _ = command("complexity", SPEC, "--realizable", *policies, "--figure", figure)
    assert code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "uniform exploration" in out
    assert ("proven not to exceed" in out) == bool(policies)


def test_command_at_zero(command):
    code, out, _ = command("complexity", SPEC, "--realizable", "--policies", "linear", "--epsilon", 0)
    assert code == 0
    assert "Gaussian noise of this size" not in " ".join(out.split())  # these rewards are coin flips
    assert "a theorem for Gaussian noise only" in " ".join(out.split())
    code, out, _ = command(
        "complexity", f"{SPEC},noise=gaussian", "--realizable", "--policies", "linear", "--epsilon", 0
    )
    assert code == 0
    assert "Gaussian noise of this size" in " ".join(out.split())


def test_command_without_linear_rewards(command):
    code, _, error = command("complexity", "hard:m=5", "--realizable")
    assert code == 2
    assert "has no features in which rewards are linear; leave out --realizable" in " ".join(error.split())
