"""Designs for an accuracy of each policy's own, and the price of one γ for all policies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from convex import convex_bracket
from instances import make_instance, seeds
from pacbandits.design import (
    DesignTask,
    Objective,
    Product,
    Shifted,
    price_by_argmax,
    solve_by_pricing,
    solve_enumerated,
    solve_listed,
)
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.records import Contexts


def gap_scores(instance, reference):
    worth = instance.population.weights[:, None] * instance.mean_rewards
    return worth[np.arange(len(worth)), reference(instance.population)][:, None] - worth


def best_of(instance):
    return instance.policies.policy(int(np.argmax(instance.values)))


@given(seed=seeds, floor=st.sampled_from([0.0, 0.3]))
@examples(30)
def test_a_listed_design_is_the_enumerated_one_where_gaps_are_linear(seed, floor):
    instance = make_instance(seed)
    best = best_of(instance)
    scale = Shifted(0.1, 0.25)
    task = DesignTask(
        instance.policies,
        instance.population,
        reference=best,
        gaps=gap_scores(instance, best),
        scale=scale,
        floor=floor / instance.policies.n_actions,
    )
    one = solve_enumerated(task)
    two = solve_listed(
        instance.policies,
        instance.population,
        reference=best,
        accuracy=scale(instance.values.max() - instance.values),
        floor=floor / instance.policies.n_actions,
    )
    assert one.converged
    assert two.converged
    assert two.lower <= one.upper * (1 + 1e-9)
    assert one.lower <= two.upper * (1 + 1e-9)


@given(seed=seeds)
@examples(20)
def test_a_listed_design_attains_its_upper_end_and_holds_the_optimum(seed):
    """For accuracies that come from no scores at all."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed)
    reference = instance.policies.policy(0)
    accuracy = 10.0 ** rng.uniform(-2, 0, size=len(instance.policies))
    solution = solve_listed(instance.policies, instance.population, reference=reference, accuracy=accuracy)
    p = np.ascontiguousarray(solution.design.propensities(instance.population))
    own = reference(instance.population)
    costs = Objective(own, instance.population.weights, np.ones_like(p)).costs(p)
    attained = (sum_scores(instance.policies.table, costs) / accuracy**2).max()
    assert attained <= solution.upper * (1 + 1e-9)
    assert solution.converged
    # Policies that act alike ask for the finest accuracy of them all: the copies must be told so one by one here.
    low, high = convex_bracket(
        instance.policies.table,
        own,
        urgency=1 / accuracy**2,
        weights=instance.population.weights,
        noise=np.ones_like(instance.mean_rewards),
        floor=0.0,
    )
    assert solution.lower <= high * (1 + 1e-6) + 1e-9
    assert low <= solution.upper * (1 + 1e-6) + 1e-9


def test_copies_use_the_finest_accuracy():
    """One context, two actions: V = 4 at p = ½, so the value is 4/d² with the least d among the copies."""
    policies = Finite([[0], [1], [1], [1]], n_actions=2)
    contexts = Contexts.finite(1)
    for accuracy in ([1.0, 0.5, 0.1, 0.3], [0.001, 0.1, 0.5, 0.3]):
        solution = solve_listed(policies, contexts, reference=policies.policy(0), accuracy=np.array(accuracy))
        assert solution.upper == pytest.approx(4 / 0.1**2, rel=1e-9)
        assert len(solution.design.support) == 1


def test_contexts_that_cannot_occur_play_no_part():
    policies = Finite([[0, 0], [0, 1], [1, 1]], n_actions=2)
    contexts = Contexts.finite(2, weights=[1.0, 0.0])
    solution = solve_listed(policies, contexts, reference=policies.policy(0), accuracy=np.array([1.0, 1e-9, 0.5]))
    assert solution.upper == pytest.approx(4 / 0.25, rel=1e-9)


def test_nothing_to_learn():
    policies = Finite([[0, 1], [0, 1]], n_actions=2)
    solution = solve_listed(policies, Contexts.finite(2), reference=policies.policy(0), accuracy=np.ones(2))
    assert solution.lower == solution.upper == 0
    assert "nothing to learn" in solution.note
    with pytest.raises(InputError, match="tolerance must be positive"):
        solve_listed(policies, Contexts.finite(2), reference=policies.policy(0), accuracy=np.ones(2), tolerance=0.0)


def test_the_product_scale():
    scale = Product(0.2, 0.25)
    gaps = np.array([0.0, 0.4, 1.0, -0.5])
    assert np.allclose(scale(gaps) ** 2, 0.2 * (0.2 + 0.25 * np.maximum(gaps, 0)))
    for epsilon, slope in ((0.2, 0.0), (0.2, np.inf), (-1.0, 0.5), (np.nan, 0.5)):
        with pytest.raises(InputError):
            Product(epsilon, slope)


@given(
    epsilon=st.floats(1e-3, 1),
    slope=st.floats(1e-2, 10),
    lines=st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 10)), min_size=1, max_size=4),
)
@examples(100)
def test_the_peaks_of_the_product_scale_bound_an_envelope(epsilon, slope, lines):
    """The least of some lines, one of them level, over ε(ε + aΔ) is largest at 0, at a crossing or at a peak."""
    scale = Product(epsilon, slope)
    c, s = (np.array(part) for part in zip(*lines, (11.0, 0.0), strict=True))  # a level line, as pricing always has
    crossings = [(c[j] - c[i]) / (s[i] - s[j]) for i in range(len(c)) for j in range(len(c)) if abs(s[i] - s[j]) > 1e-9]
    where = np.array([0.0, *(x for x in crossings if x > 0), *scale.peaks(c, s)])

    def ratio(gaps):
        return (c[:, None] + s[:, None] * gaps).min(axis=0) / scale(gaps) ** 2

    grid = np.concatenate([np.linspace(0, 20, 400), 10.0 ** np.linspace(-4, 6, 200)])
    assert ratio(grid).max() <= ratio(where).max() * (1 + 1e-6)


@given(seed=seeds)
@examples(60)
def test_pricing_by_argmax_is_exact_for_the_product_scale(seed):
    """Its maximum is a vertex of the hull of (Δ, V), which an argmax sees; for the shifted scale it need not be."""
    rng = np.random.default_rng(seed)
    instance = make_instance(seed, n_policies=40, n_contexts=6, n_actions=4)
    best = best_of(instance)
    own = best(instance.population)
    gaps = gap_scores(instance, best)
    p = rng.dirichlet(np.ones(4), size=6) * 0.9 + 0.1 / 4
    costs = Objective(own, instance.population.weights, np.ones_like(p)).costs(p)
    scale = Product(float(10 ** rng.uniform(-3, 0)), float(rng.choice([0.25, 1.0])))
    variances, true_gaps = sum_scores(instance.policies.table, costs), sum_scores(instance.policies.table, gaps)
    most = (variances / scale(true_gaps) ** 2).max()
    price = price_by_argmax(instance.policies)(instance.population, costs, gaps, scale)
    assert price.upper >= most * (1 - 1e-9)
    assert price.upper <= most * (1 + 2e-3)
    assert price.attained == pytest.approx(most, rel=2e-3)


def test_pricing_by_argmax_alone_solves_the_product_design():
    instance = make_instance(31, n_policies=60, n_contexts=6, n_actions=4, awkward=False)
    best = best_of(instance)
    task = DesignTask(
        instance.policies,
        instance.population,
        reference=best,
        gaps=gap_scores(instance, best),
        scale=Product(0.05, 0.25),
    )
    by_list = solve_enumerated(task)
    by_argmax = solve_by_pricing(task, pricing=price_by_argmax(instance.policies), tolerance=0.01)
    assert by_argmax.converged
    assert by_argmax.lower <= by_list.upper * (1 + 1e-9)
    assert by_argmax.upper >= by_list.lower * (1 - 1e-9)
