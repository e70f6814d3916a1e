"""What policies vary by whatever is played: it counts in their variance, and no design changes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import make_instance, seeds
from pacbandits import load_problem
from pacbandits.complexity import measure_gaps
from pacbandits.design import (
    DesignTask,
    Objective,
    Shifted,
    price_by_frontier,
    price_propensities,
    solve_by_pricing,
    solve_enumerated,
)
from pacbandits.errors import InputError


def task_of(problem, *, spread, epsilon=0.1):
    gaps = measure_gaps(problem, problem.policies)
    return DesignTask(
        problem.policies,
        problem.population,
        reference=gaps.best,
        gaps=gaps.scores,
        scale=Shifted(epsilon, 0.6),
        spread=spread,
    )


@given(seed=seeds)
@examples(40)
def test_the_objective_adds_it_where_policies_differ_from_the_reference(seed):
    """V against its formula; G is the weighted sum of V, and V its gradient."""
    rng = np.random.default_rng(seed)
    n_policies, n_contexts, n_actions = 6, 5, 3
    table = rng.integers(n_actions, size=(n_policies, n_contexts)).astype(np.uint8)
    reference, weights = rng.integers(n_actions, size=n_contexts), rng.dirichlet(np.ones(n_contexts))
    noise, spread = rng.random((n_contexts, n_actions)) + 0.1, rng.random((n_contexts, n_actions))
    objective = Objective(reference, weights, noise, floor=0.05, spread=spread)
    kappa = rng.exponential(size=n_policies)
    p, rows = objective.propensities(table, kappa), np.arange(n_contexts)
    at = noise / p
    each = weights * (at[rows, table] + at[rows, reference]) + spread[rows, table]
    expected = np.where(table != reference, each, 0.0).sum(axis=1)
    value, variances = objective.evaluate(table, kappa)
    assert variances == pytest.approx(expected, rel=1e-9)
    assert value == pytest.approx(float(kappa @ expected), rel=1e-9)
    assert objective.costs(p)[rows, table].sum(axis=1) == pytest.approx(expected, rel=1e-9)
    step = 1e-6 * np.eye(n_policies)[0]
    slope = (objective.evaluate(table, kappa + step)[0] - objective.evaluate(table, kappa - step)[0]) / 2e-6
    assert slope == pytest.approx(expected[0], rel=1e-4, abs=1e-6)


def test_the_solution_is_priced_with_it_and_no_other_exploration_is_cheaper():
    rng = np.random.default_rng(1)
    instance = make_instance(3, n_contexts=8, n_actions=3, awkward=False)
    spread = instance.population.weights[:, None] * rng.random((8, 3)) * 5
    task = task_of(instance, spread=spread)
    solution = solve_enumerated(task, tolerance=1e-4)
    p = solution.design.propensities(instance.population)
    assert price_propensities(task, p).upper == pytest.approx(solution.upper, rel=1e-6)
    others = [rng.dirichlet(np.ones(3), size=8) for _ in range(50)]
    others += [0.9 * p + 0.1 * other for other in others]
    assert min(price_propensities(task, other).upper for other in others) >= solution.lower
    assert solution.lower > solve_enumerated(replace(task, spread=None), tolerance=1e-4).upper


@pytest.mark.thorough
def test_columns_reach_the_same_bracket_over_trees():
    problem = load_problem("trees:actions=4,features=3,contexts=200,bins=6,seed=5")
    means = problem.mean_rewards
    spread = problem.population.weights[:, None] * (means - means.max(axis=1, keepdims=True)) ** 2 * 40
    task = task_of(problem, spread=spread)
    solution = solve_by_pricing(task, pricing=price_by_frontier(problem.policies), tolerance=0.02)
    assert solution.converged, solution.note
    again = price_propensities(task, solution.design.propensities(problem.population))
    assert again.upper == pytest.approx(solution.upper, rel=1e-6)
    without = solve_by_pricing(
        replace(task, spread=None), pricing=price_by_frontier(problem.policies), tolerance=0.02
    ).design.propensities(problem.population)
    assert price_propensities(task, without).upper > solution.upper  # it changes what is played, not the price alone


def test_a_negative_spread_is_refused():
    instance = make_instance(3, n_contexts=8, n_actions=3, awkward=False)
    with pytest.raises(InputError, match="the spread of policies must not be negative, got -1"):
        task_of(instance, spread=np.full((8, 3), -1.0))
