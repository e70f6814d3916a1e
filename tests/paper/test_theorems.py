"""Theorems, corollaries and lemmas of the paper that we rely on, as statements on random instances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from instances import epsilons, make_instance, seeds
from pacbandits.complexity import measure_disagreement, measure_gaps, measure_rho
from pacbandits.complexity.lower_bounds import least_divergence, lower_bound, minimax_bound, trivial_sum, upper_bound
from pacbandits.design import Objective
from pacbandits.policies.finite import Trivial
from pacbandits.problems import load_problem
from pacbandits.simulation import run


def variance(instance, row, q, p, noise=None):
    """V_π(p; q) as the package computes it."""
    objective = Objective(q, instance.population.weights, np.ones_like(p) if noise is None else noise)
    return float(objective.costs(p)[np.arange(len(p)), row].sum())


def random_design(rng, instance):
    n, a = instance.mean_rewards.shape
    return rng.dirichlet(np.ones(a), size=n) * 0.99 + 0.01 / a


@given(seed=seeds)
@examples(30)
def test_variance_is_a_norm_of_features(seed):
    """Lemma `B_3`: ‖φ_π − φ_q‖² in A(w)⁻¹ with one-hot features equals V_π(p; q)."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, awkward=False)
    n, a = instance.mean_rewards.shape
    weights = instance.population.weights
    p = random_design(rng, instance)
    covariance = np.diag((weights[:, None] * p).ravel())  # Σ w φφᵀ, φ(c, a) the unit vector of (c, a)
    row, q = instance.policies.table[1].astype(int), instance.policies.table[0].astype(int)
    features = np.zeros((2, n, a))
    features[0, np.arange(n), row] = weights
    features[1, np.arange(n), q] = weights
    difference = (features[0] - features[1]).ravel()
    norm = difference @ np.linalg.solve(covariance, difference)
    assert norm == pytest.approx(variance(instance, row, q, p), rel=1e-9, abs=1e-12)


@given(seed=seeds, share=st.floats(0, 1))
@examples(30)
def test_root_variance_is_convex_in_the_design(seed, share):
    """Lemma `primal_convex`: √V_π is convex in p, and so is V_π."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    row, q = instance.policies.table[1].astype(int), instance.policies.table[0].astype(int)
    one, two = random_design(rng, instance), random_design(rng, instance)
    between = math.sqrt(variance(instance, row, q, share * one + (1 - share) * two))
    ends = share * math.sqrt(variance(instance, row, q, one)) + (1 - share) * math.sqrt(variance(instance, row, q, two))
    assert between <= ends * (1 + 1e-9) + 1e-12


@given(seed=seeds)
@examples(30)
def test_lower_bound_divergence(seed):
    """Theorem `lower_bound`: the nearest instance on which π beats π* by ε is (Δ + ε)²/(2V_π) away, in nats a sample.

    The instance is written down, checked to do what it should, and no random one that does is nearer.
    """
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    weights, rewards, noise = instance.population.weights, instance.mean_rewards, instance.noise_variance + 0.01
    q = instance.policies.table[int(np.argmax(instance.values))].astype(int)
    row = instance.policies.table[1].astype(int)
    epsilon = float(rng.choice([0.0, 0.1]))
    p = random_design(rng, instance)
    v = variance(instance, row, q, p, noise)
    if v == 0:
        return
    rows = np.arange(len(weights))
    lead = weights @ (rewards[rows, q] - rewards[rows, row]) + epsilon
    direction = np.zeros_like(rewards)
    differ = np.flatnonzero((row != q) & (weights > 0))
    direction[differ, row[differ]] = 1.0
    direction[differ, q[differ]] = -1.0
    other = rewards + lead / v * direction * noise / p
    assert weights @ (other[rows, row] - other[rows, q]) == pytest.approx(epsilon, abs=1e-9)

    def divergence(means):
        return float((weights[:, None] * p * (means - rewards) ** 2 / (2 * noise)).sum())

    assert divergence(other) == pytest.approx(lead**2 / (2 * v), rel=1e-9)
    for _ in range(20):
        moved = rewards + rng.normal(size=rewards.shape) * rng.choice([0.1, 1.0])
        short = epsilon - weights @ (moved[rows, row] - moved[rows, q])
        moved = moved + max(short, 0) / v * direction * noise / p
        assert divergence(moved) >= divergence(other) * (1 - 1e-9)


def test_confidence_is_below_the_binary_divergence():
    """kl(1 − δ, δ) ≥ log(1/2.4δ), on which every lower bound rests."""
    for delta in np.linspace(1e-6, 0.5, 2000):
        kl = (1 - delta) * math.log((1 - delta) / delta) + delta * math.log(delta / (1 - delta))
        assert kl >= least_divergence(delta) - 1e-12


@given(seed=seeds, epsilon=epsilons)
@examples(30)
def test_rho_never_exceeds_its_minimax_value(seed, epsilon):
    """Theorem `upper_informal`, second part: ρ_{Π,ε} ≤ 2|A|/ε²; so the bounds are ordered too."""
    instance = make_instance(seed)
    gaps = measure_gaps(instance, instance.policies)
    rho = measure_rho(instance.policies, instance.population, gaps, epsilon=epsilon)
    a = instance.policies.n_actions
    assert rho.lower <= 2 * a / epsilon**2 * (1 + 1e-9)
    if epsilon < 0.5 and gaps.floor(epsilon) < 0.5:
        upper = upper_bound(rho.lower, log_size=3.0, delta=0.1, gap_floor=gaps.floor(epsilon))
        worst = minimax_bound(n_actions=a, log_size=3.0, delta=0.1, epsilon=epsilon)
        rounds = math.log2(1 / epsilon)
        assert upper <= 2 * worst / math.log(2) * (1 + math.log(max(rounds, 1)) / math.log(10))
        assert lower_bound(rho.lower, delta=0.1) <= 2 * upper


@pytest.mark.thorough
@given(seed=seeds, epsilon=epsilons)
@examples(60)
def test_disagreement_bounds_rho(seed, epsilon):
    """Corollary `disagree_coeff`, both inequalities, coefficients by brute force over a grid of radii."""
    instance = make_instance(seed)
    if seed % 2:  # make π* best everywhere, so that Δ_uniform > 0
        table = instance.policies.table
        best = int(np.argmax(instance.values))
        rows = np.arange(len(instance.population))
        instance.mean_rewards[rows, table[best]] = instance.mean_rewards.max(axis=1) + 0.1
    gaps = measure_gaps(instance, instance.policies)
    rho = measure_rho(instance.policies, instance.population, gaps, epsilon=epsilon)
    measured = measure_disagreement(instance.policies, instance.population, gaps)
    assert measured is not None
    a = instance.policies.n_actions
    cost = measured.cost_sensitive_bound(n_actions=a, epsilon=epsilon)
    assert cost is not None
    assert rho.lower <= cost * (1 + 1e-9)
    by_policy = measured.policy_bound(n_actions=a, epsilon=epsilon, uniform_gap=gaps.uniform)
    if 0 < gaps.uniform < np.inf:
        assert by_policy is not None
        assert rho.lower <= by_policy * (1 + 1e-9)
    else:
        assert by_policy is None

    weights, table, q = instance.population.weights, instance.policies.table, gaps.best_actions
    radius = np.array([weights[row != q].sum() for row in table])
    loss = gaps.best_value - instance.values
    for coefficient, measure in ((measured.policy(epsilon), radius), (measured.cost_sensitive(epsilon), loss)):
        brute = 0.0
        for level in [epsilon, *measure[measure > epsilon]]:
            near = table[measure <= level + 1e-12]
            brute = max(brute, weights[(near != q).any(axis=0)].sum() / level)
        assert coefficient == pytest.approx(brute, rel=1e-6)


@given(seed=seeds)
@examples(30)
def test_rho_is_finite_exactly_when_the_best_policy_is_unique(seed):
    """Corollary `disagree_coeff`, last part, at ε = 0."""
    instance = make_instance(seed)
    if seed % 3 == 0:
        instance.mean_rewards[:] = 0.5
    gaps = measure_gaps(instance, instance.policies)
    rho = measure_rho(instance.policies, instance.population, gaps, epsilon=0.0)
    weights, q = instance.population.weights, gaps.best_actions
    others = [v for v, row in zip(instance.values, instance.policies.table, strict=True) if weights[row != q].sum() > 0]
    unique = not others or max(others) < gaps.best_value - 1e-12
    assert math.isfinite(rho.upper) == unique


@pytest.mark.thorough
@given(seed=seeds)
@examples(30)
def test_trivial_class_between_its_bounds(seed):
    """Section `trivial`: max_c Σ Δ⁻²/ν_c ≤ ρ_{Π,0} ≤ 2 max_c Σ Δ⁻²/ν_c, with the sum of corrections row 16."""
    instance = make_instance(seed)
    n, a = instance.mean_rewards.shape
    trivial = Trivial(n, a)
    gaps = measure_gaps(instance, trivial)
    if gaps.tied:  # weights of 1e-20 leave gaps that no double can tell from zero
        return
    rho = measure_rho(trivial, instance.population, gaps, epsilon=0.0)
    by_action = instance.mean_rewards.max(axis=1, keepdims=True) - instance.mean_rewards
    total = trivial_sum(by_action, instance.population.weights)
    assert total <= rho.upper * (1 + 1e-9)
    assert rho.lower <= 2 * total * (1 + 1e-9)


@given(a=st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), b=st.tuples(st.floats(0.01, 1e3), st.floats(0.01, 1e3)))
def test_sums_of_deviations_are_easier_than_the_worst(a, b):
    """The inequality behind the trivial class: (a₁ + a₂)/(b₁ + b₂)² ≤ max(a₁/b₁², a₂/b₂²)."""
    assert sum(a) / sum(b) ** 2 <= max(a[0] / b[0] ** 2, a[1] / b[1] ** 2) * (1 + 1e-12)


@given(seed=seeds, epsilon=epsilons)
@examples(30)
def test_smoothing_adds_at_most_epsilon(seed, epsilon):
    """Lemma `E_9`: with η = ε²/|A|⁴, n ≥ log(1/δ)/ε and every γ_π below its bounds there, η adds at most ε to
    E(Σ_a √((λ ⊙ γ)ᵀ(t_a + η)))². Its proof gives that up to a constant; it is seen with constant 1."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    table, weights, a = instance.policies.table.astype(int), instance.population.weights, instance.policies.n_actions
    q, smoothing, per_sample = table[0], epsilon**2 / a**4, epsilon  # log(1/δ)/n
    differ = (table != q) @ weights
    with np.errstate(divide="ignore"):
        gamma = np.minimum(np.sqrt(per_sample / (2 * differ)), math.sqrt(per_sample / (a**2 * smoothing)))
    mass = rng.dirichlet(np.full(len(table), rng.choice([0.1, 1.0]))) * gamma * rng.uniform(0.5, 1.0, len(table))
    actions = np.arange(a)
    t = ((table[:, :, None] == actions) != (q[:, None] == actions)).astype(float)
    plain, smoothed = (
        weights @ np.sqrt(np.einsum("k,kca->ca", mass, t + eta)).sum(axis=1) ** 2 for eta in (0, smoothing)
    )
    assert 0 <= smoothed - plain <= epsilon


@pytest.mark.parametrize("seed", range(3))
def test_no_exploration_of_coda_costs_more_than_five_times_uniform(seed):
    """Every action has a fifth of its uniform probability or more in every round, so V ≤ 5 V(uniform) for all pairs."""
    problem = load_problem(f"two-of-many:actions=6,policies=20,contexts=10,seed={seed}")
    done = run(problem, algorithm="coda", epsilon=0.2, delta=0.1, rng=seed)
    assert done.log is not None
    played = done.log.propensities
    assert played.min() >= 0.2 / 6 - 1e-12
    assert played.max() > 1.5 / 6  # not uniform exploration
    rows = np.unique(done.log.contexts.ids, return_index=True)[1]
    p, ids = played[rows], done.log.contexts.ids[rows]
    table = np.asarray(problem.policies.actions(problem.population))[:, ids].astype(int)
    objective = Objective(table[0], problem.population.weights[ids], np.ones_like(p))
    even = objective.costs(np.full_like(p, 1 / 6))
    each = np.arange(len(rows))
    costs = objective.costs(p)
    for row in table:
        assert costs[each, row].sum() <= 5 * even[each, row].sum() + 1e-12
