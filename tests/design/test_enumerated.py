"""The enumerated solver against an independent convex solver, and against itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from convex import convex_bracket
from instances import make_instance, seeds
from pacbandits.design import Clipped, DesignTask, Objective, Shifted, solve_enumerated
from pacbandits.design.weights import solve_weights
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts


def gap_scores(instance, best):
    worth = instance.population.weights[:, None] * instance.mean_rewards
    actions = best(instance.population)
    return worth[np.arange(len(worth)), actions][:, None] - worth


def best_of(instance):
    return instance.policies.policy(int(np.argmax(instance.values)))


@pytest.mark.thorough
@given(seed=seeds)
@examples(40)
def test_bracket_holds_the_convex_optimum(seed):
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    best = best_of(instance)
    epsilon = float(10 ** rng.uniform(-3, 0))
    noise = None if seed % 2 else instance.noise_variance
    floor = 0.0 if seed % 3 else 0.5 / instance.policies.n_actions
    solution = solve_enumerated(
        DesignTask(
            instance.policies,
            instance.population,
            reference=best,
            gaps=gap_scores(instance, best),
            scale=Clipped(epsilon),
            noise=noise,
            floor=floor,
        )
    )
    low, high = convex_bracket(
        instance.policies.table,
        best(instance.population),
        urgency=1 / np.maximum(instance.values.max() - instance.values, epsilon) ** 2,
        weights=instance.population.weights,
        noise=np.ones_like(instance.mean_rewards) if noise is None else noise,
        floor=floor,
    )
    assert solution.converged
    assert solution.lower <= solution.upper
    weights = instance.population.weights
    if weights[weights > 0].min() > 1e-3:
        assert high <= low * 1.02 + 1e-9  # the other solver did its work
    assert solution.lower <= high * (1 + 1e-9)
    assert low <= solution.upper * (1 + (1e-9 if floor == 0 else 1e-4))


@given(seed=seeds)
@examples(15)
def test_bracket_holds_on_badly_scaled_instances(seed):
    """Urgencies over eight orders of magnitude, skewed weights, policies that coincide."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n_contexts=6, n_actions=4, n_policies=20)
    contexts = instance.population
    table = np.unique(instance.policies.table[1:], axis=0)
    reference = instance.policies.table[0].astype(np.int64)
    table = table[(table != reference)[:, contexts.weights > 0].any(axis=1)]
    if len(table) == 0:
        return
    urgency = 10 ** rng.uniform(0, 8, size=len(table))
    noise = np.ones_like(instance.mean_rewards)
    objective = Objective(reference, contexts.weights, noise)
    solved = solve_weights(objective, np.ascontiguousarray(table), urgency, tolerance=1e-6)
    low, high = convex_bracket(table, reference, urgency=urgency, weights=contexts.weights, noise=noise)
    assert solved.gap <= 1e-6
    assert solved.lower <= high * (1 + 1e-9)
    assert low <= solved.upper * (1 + 1e-9)
    assert solved.upper <= high * (1 + 1e-6)  # never worse than the other solver


@given(seed=seeds)
@examples(40)
def test_the_design_attains_the_upper_end(seed):
    """Propensities computed anew from the sparse weighting give exactly the ratio that was promised."""
    instance = make_instance(seed)
    best = best_of(instance)
    contexts = instance.population
    solution = solve_enumerated(
        DesignTask(
            instance.policies, contexts, reference=best, gaps=gap_scores(instance, best), scale=Shifted(0.1, 0.25)
        )
    )
    p = solution.design.propensities(contexts)
    q = best(contexts)
    rows = np.arange(len(contexts))
    ratios = []
    for row in instance.policies.table.astype(np.int64):
        differ = (row != q) & (contexts.weights > 0)
        at = rows[differ]
        variance = (contexts.weights[at] * (1 / p[at, row[at]] + 1 / p[at, q[at]])).sum()
        gap = instance.values.max() - contexts.weights @ instance.mean_rewards[rows, row]
        ratios.append(variance / (0.1 + 0.25 * gap) ** 2)
    assert max(ratios) == pytest.approx(solution.upper, rel=1e-6)


@given(seed=seeds)
@examples(40)
def test_weak_duality_and_the_closed_form(seed):
    """G(κ) is the minimum over designs of Σ κ V: no random design does better, and its own design attains it."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    contexts, table = instance.population, instance.policies.table
    objective = Objective(table[0].astype(np.int64), contexts.weights, instance.noise_variance)
    kappa = rng.dirichlet(np.ones(len(table)))
    value, variances = objective.evaluate(table, kappa)
    assert value == pytest.approx(float(kappa @ variances), rel=1e-9)
    for _ in range(5):
        costs = objective.costs(rng.dirichlet(np.ones(instance.policies.n_actions), size=len(contexts)))
        other = sum(k * costs[np.arange(len(contexts)), row].sum() for k, row in zip(kappa, table, strict=True))
        assert other >= value * (1 - 1e-9)


def test_policies_that_act_alike_leave_nothing_to_learn():
    contexts = Contexts.finite(2, weights=[1.0, 0.0])
    policies = Finite([[0, 0], [0, 1]], n_actions=2)  # they differ only where no context can occur
    solution = solve_enumerated(
        DesignTask(policies, contexts, reference=policies.policy(0), gaps=np.zeros((2, 2)), scale=Clipped(0.1))
    )
    assert (solution.lower, solution.upper) == (0.0, 0.0)
    assert solution.converged
    assert "nothing to learn" in solution.note


def test_tolerance_must_be_positive():
    policies = Finite([[0], [1]], n_actions=2)
    task = DesignTask(
        policies, Contexts.finite(1), reference=policies.policy(0), gaps=np.zeros((1, 2)), scale=Clipped(0.1)
    )
    with pytest.raises(InputError, match="tolerance must be positive"):
        solve_enumerated(task, tolerance=0.0)


def test_a_tie_at_zero_epsilon_is_infinite():
    contexts = Contexts.finite(1)
    policies = Finite([[0], [1]], n_actions=2)
    solution = solve_enumerated(
        DesignTask(policies, contexts, reference=policies.policy(0), gaps=np.zeros((1, 2)), scale=Clipped(0.0))
    )
    assert solution.lower == solution.upper == np.inf
    assert "ties" in solution.note


def test_an_unreached_tolerance_is_admitted():
    instance = make_instance(5, n_contexts=8, n_actions=5, n_policies=30, awkward=False)
    best = best_of(instance)
    solution = solve_enumerated(
        DesignTask(
            instance.policies, instance.population, reference=best, gaps=gap_scores(instance, best), scale=Clipped(0.01)
        ),
        tolerance=1e-9,
        max_evaluations=5,
    )
    assert not solution.converged
    assert solution.gap > 1e-9
    assert "stopped" in solution.note


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"floor": 0.6}, "floor must lie"),
        ({"gaps": np.zeros((3, 2))}, "gap scores must have shape"),
        ({"gaps": np.full((2, 2), np.nan)}, "must be finite"),
        ({"noise": -np.ones((2, 2))}, "must not be negative"),
    ],
)
def test_bad_task_gets_a_sentence(change, message):
    policies = Finite([[0, 0], [1, 1]], n_actions=2)
    arguments = {"reference": policies.policy(0), "gaps": np.zeros((2, 2)), "scale": Clipped(0.1)} | change
    with pytest.raises(InputError, match=message):
        solve_enumerated(DesignTask(policies, Contexts.finite(2), **arguments))


@pytest.mark.first(2)
@pytest.mark.parametrize(("seed", "tolerance"), [(2346, 1e-6), (2718, 1e-6), (2824, 1e-5)])
def test_near_copies_do_not_stall_the_last_digits(seed, tolerance):
    """Policies told apart on contexts of tiny weight; without transfers these stop at 1.2e-4, 2.2e-4 and 1.1e-5."""
    instance = make_instance(seed)
    best = best_of(instance)
    solution = solve_enumerated(
        DesignTask(
            instance.policies,
            instance.population,
            reference=best,
            gaps=gap_scores(instance, best),
            scale=Clipped([0.001, 0.05, 0.3][seed % 3]),
            noise=instance.noise_variance,
        ),
        tolerance=tolerance,
    )
    assert solution.converged
