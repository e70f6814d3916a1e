"""Column generation and pricing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import epsilons, make_instance, seeds
from pacbandits import load_problem
from pacbandits.complexity import measure_gaps
from pacbandits.design import (
    Clipped,
    DesignTask,
    Objective,
    Shifted,
    price_by_argmax,
    price_by_frontier,
    solve_by_pricing,
    solve_enumerated,
)
from pacbandits.policies import Finite, Trivial


@given(seed=seeds, epsilon=epsilons)
@examples(60)
def test_both_pricings_bound_the_worst_ratio(seed, epsilon):
    """Frontier pricing finds the maximum, argmax pricing an upper bound that some policy nearly reaches on the hull."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    contexts, policies = instance.population, instance.policies
    gaps = measure_gaps(instance, policies)
    objective = Objective(gaps.best_actions, contexts.weights, np.ones_like(instance.mean_rewards))
    costs = objective.costs(
        rng.dirichlet(np.ones(policies.n_actions), size=len(contexts)) * 0.9 + 0.1 / policies.n_actions
    )
    rows = np.arange(len(contexts))
    for scale in (Clipped(epsilon), Shifted(epsilon, 0.25)):
        table = policies.table
        variances = np.array([costs[rows, row].sum() for row in table])
        accuracy = scale(np.array([gaps.scores[rows, row].sum() for row in table]))
        worst = (variances / accuracy**2).max()
        exact = price_by_frontier(policies)(contexts, costs, gaps.scores, scale)
        hull = price_by_argmax(policies)(contexts, costs, gaps.scores, scale)
        assert exact.upper == pytest.approx(worst, rel=1e-6, abs=1e-12)
        assert exact.attained == pytest.approx(worst, rel=1e-6, abs=1e-12)
        assert hull.upper >= worst * (1 - 1e-12)
        assert hull.attained <= worst * (1 + 1e-9)
        assert len(hull.policies) == hull.oracle_calls


def tree_problem(spec, epsilon):
    problem = load_problem(spec)
    gaps = measure_gaps(problem, problem.policies)
    arguments = {"reference": gaps.best, "gaps": gaps.scores, "scale": Clipped(epsilon)}
    return problem, gaps, arguments


@pytest.mark.thorough
@pytest.mark.parametrize("floor", [0.0, 0.02])
def test_the_design_attains_its_upper_end_over_all_trees(floor):
    """Propensities computed anew from the design's policies, priced anew over the whole class."""
    problem, gaps, arguments = tree_problem("trees:actions=5,features=4,contexts=300,bins=8,seed=4", 0.05)
    pricing = price_by_frontier(problem.policies)
    solution = solve_by_pricing(
        DesignTask(problem.policies, problem.population, floor=floor, **arguments), pricing=pricing, tolerance=0.02
    )
    assert solution.converged, solution.note
    p = solution.design.propensities(problem.population)
    assert p.min() >= floor - 1e-12
    assert p.sum(axis=1) == pytest.approx(np.ones(len(p)))
    objective = Objective(gaps.best_actions, problem.population.weights, np.ones_like(p))
    again = pricing(problem.population, objective.costs(p), gaps.scores, arguments["scale"])
    assert again.upper == pytest.approx(solution.upper, rel=1e-6)


@pytest.mark.thorough
def test_argmax_alone_gives_a_wider_but_valid_bracket():
    problem, _, arguments = tree_problem("trees:actions=4,features=3,contexts=200,bins=6,seed=5", 0.05)
    exact = solve_by_pricing(
        DesignTask(problem.policies, problem.population, **arguments),
        pricing=price_by_frontier(problem.policies),
        tolerance=0.01,
    )
    hull = solve_by_pricing(
        DesignTask(problem.policies, problem.population, **arguments),
        pricing=price_by_argmax(problem.policies),
        tolerance=0.01,
        max_rounds=15,
    )
    assert exact.converged
    assert hull.lower <= exact.upper
    assert exact.lower <= hull.upper
    if not hull.converged:
        assert hull.note


@pytest.mark.thorough
def test_a_rounded_frontier_keeps_the_bracket_valid():
    """The trivial class at a resolution far too coarse, against its enumeration."""
    for seed in range(5):
        instance = make_instance(seed, n_contexts=6, n_actions=3, awkward=False)
        contexts = instance.population
        coarse = Trivial(6, 3, resolution=4)
        gaps = measure_gaps(instance, coarse)
        arguments = {"reference": gaps.best, "gaps": gaps.scores, "scale": Clipped(0.05)}
        listed = solve_enumerated(
            DesignTask(Finite(list(product(range(3), repeat=6)), n_actions=3), contexts, **arguments)
        )
        rounded = solve_by_pricing(
            DesignTask(coarse, contexts, **arguments), pricing=price_by_frontier(coarse), max_rounds=20
        )
        assert rounded.lower <= listed.upper * (1 + 1e-9)
        assert listed.lower <= rounded.upper * (1 + 1e-9)


@pytest.mark.slow
def test_a_hundred_thousand_contexts_to_five_per_cent():
    problem, _, arguments = tree_problem("trees:actions=10,features=10,contexts=100000,bins=32,seed=1", 0.05)
    solution = solve_by_pricing(
        DesignTask(problem.policies, problem.population, **arguments),
        pricing=price_by_frontier(problem.policies),
        tolerance=0.05,
    )
    assert solution.converged, solution.note
