"""The whole record, its notes and its consistency."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import Instance, epsilons, make_instance, seeds
from pacbandits import InputError, Trees, Trivial, load_problem, measure
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts


@pytest.mark.thorough
@given(seed=seeds, epsilon=epsilons)
@examples(25)
def test_numbers_are_consistent(seed, epsilon):
    instance = make_instance(seed)
    m = measure(instance, instance.policies, epsilon=epsilon, delta=0.05)
    assert m.rho_lower <= m.rho_upper
    assert m.rho_sigma_lower <= m.rho_sigma_upper
    assert m.rho_sigma_upper <= m.rho_upper * (0.25 + 1e-6)  # Bernoulli variances are at most 1/4
    assert m.rho_lower <= m.rho_uniform * (1 + 1e-9)
    assert m.best_value == pytest.approx(instance.values.max())
    if m.lower_bound is not None:
        assert m.lower_bound <= m.confidence_price * (1 + 1e-6)
    shown = m.to_json()
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    for name in ("lower_bound", "lower_bound_paper", "trivial_lower_bound", "low_regret_bound"):
        assert (shown[name] is None) == (name in m.notes)
    missing = {name for name, value in shown.items() if value is None}
    assert missing <= m.notes.keys()  # whatever is missing says why
    numbers = shown.keys() - {"best_policy"}
    assert all(getattr(m, name) == shown[name] or math.isinf(getattr(m, name)) for name in numbers)


def test_groups_and_names_say_the_same():
    """Every number has one name in the JSON, and one place in a group."""
    problem = load_problem("trivial:contexts=4,actions=3,gap=0.4,seed=2")
    m = measure(problem, problem.policies, epsilon=0.0, delta=0.05)
    groups = {
        "rho_": {"lower": m.rho.lower, "upper": m.rho.upper, "uniform": m.rho.uniform},
        "rho_sigma_": {"lower": m.rho_sigma.lower, "upper": m.rho_sigma.upper, "uniform": m.rho_sigma.uniform},
        "": asdict(m.instance) | asdict(m.samples),
        "trivial_": {f"{name}_bound": value for name, value in asdict(m.trivial).items()},
        "disagreement_": asdict(m.disagreement),
    }
    flat = {prefix + name: value for prefix, group in groups.items() for name, value in group.items()}
    effort = {"converged", "tolerance", "oracle_calls", "support", "seconds"}
    assert flat.keys() | effort | {"notes", "best_policy"} == m.to_json().keys()
    assert all(getattr(m, name) == value for name, value in flat.items())
    assert m.solution is m.rho.solution
    assert m.sigma_solution is m.rho_sigma.solution


def test_one_solution_is_counted_once():
    """With unit noise ρ_σ is ρ, and its oracle calls are the same calls."""
    problem = load_problem("trees:actions=3,features=2,contexts=60,bins=4,depth=1,seed=2")
    weighted = measure(problem, problem.policies, epsilon=0.1, delta=0.05)
    assert weighted.oracle_calls == weighted.solution.oracle_calls + weighted.sigma_solution.oracle_calls > 0
    unit = SimpleNamespace(
        population=problem.population,
        mean_rewards=problem.mean_rewards,
        noise_variance=np.ones_like(problem.mean_rewards),
    )
    same = measure(unit, problem.policies, epsilon=0.1, delta=0.05)
    assert same.rho_sigma is same.rho
    assert same.oracle_calls == weighted.solution.oracle_calls


def test_measuring_says_what_it_does():
    problem = load_problem("trees:actions=3,features=2,contexts=60,bins=4,depth=1,seed=2")
    told: list[str] = []
    measure(problem, problem.policies, epsilon=0.1, delta=0.05, progress=told.append)
    assert told[0] == "gaps"
    assert told[-1] == "bounds"
    assert {text.split(":")[0] for text in told} == {"gaps", "ρ", "ρ_σ", "bounds"}
    assert any(text.startswith("ρ_σ: round 1: between ") for text in told)


def test_lower_bound_needs_a_single_right_answer():
    instance = make_instance(4, n_contexts=6, n_actions=3, n_policies=8, awkward=False)
    values = np.sort(instance.values)
    gap = values[-1] - values[-2]
    below = measure(instance, instance.policies, epsilon=gap / 2, delta=0.05)
    above = measure(instance, instance.policies, epsilon=gap * 2, delta=0.05)
    at_zero = measure(instance, instance.policies, epsilon=0.0, delta=0.05)
    assert at_zero.lower_bound == pytest.approx(2 * at_zero.rho_sigma_lower * math.log(1 / 0.12))
    assert at_zero.lower_bound_paper is None
    unit = replace(instance, noise_variance=np.ones_like(instance.noise_variance))
    printed = measure(unit, instance.policies, epsilon=0.0, delta=0.05)
    assert printed.lower_bound_paper == pytest.approx(at_zero.rho_lower * math.log(1 / 0.12))
    assert 0 < below.lower_bound < at_zero.lower_bound
    assert above.lower_bound is None
    assert "ε-optimal" in above.notes["lower_bound"]


def test_large_delta_leaves_no_lower_bound():
    problem = load_problem("hard:m=5")
    assert measure(problem, problem.policies, epsilon=0.0, delta=0.9).lower_bound == 0.0


def test_trees_agree_with_their_enumeration():
    """A class of stumps small enough to list, measured both ways."""
    problem = load_problem("trees:actions=3,features=2,contexts=60,bins=4,depth=1,seed=2")
    trees = problem.policies
    assert isinstance(trees, Trees)
    rows = []
    for split in range(trees.bins.n_splits):
        left = trees.bins.test(split)(problem.population)
        rows += [np.where(left, a, b) for a in range(3) for b in range(3)]
    listed = Finite(np.unique(rows, axis=0), n_actions=3)
    for epsilon in (0.0, 0.02, 0.2):
        one = measure(problem, trees, epsilon=epsilon, delta=0.1)
        two = measure(problem, listed, epsilon=epsilon, delta=0.1)
        assert one.min_gap == pytest.approx(two.min_gap, abs=1e-12)
        assert one.best_value == pytest.approx(two.best_value)
        assert one.converged
        assert one.rho_lower <= two.rho_upper * (1 + 1e-9)
        assert two.rho_lower <= one.rho_upper * (1 + 1e-9)
        assert one.rho_sigma_lower <= two.rho_sigma_upper * (1 + 1e-9)
        assert two.rho_sigma_lower <= one.rho_sigma_upper * (1 + 1e-9)
        assert one.rho_uniform == pytest.approx(two.rho_uniform, rel=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_depth_two_trees_agree_with_their_enumeration(seed):
    problem = load_problem(f"trees:actions=2,competitive=2,features=2,contexts=40,bins=3,depth=2,seed={seed}")
    trees = problem.policies
    assert isinstance(trees, Trees)
    tests = [trees.bins.test(split)(problem.population) for split in range(trees.bins.n_splits)]
    rows = set()
    for root in tests:
        for left in tests:
            for right in tests:
                for leaves in np.ndindex(2, 2, 2, 2):
                    row = np.where(root, np.where(left, leaves[0], leaves[1]), np.where(right, leaves[2], leaves[3]))
                    rows.add(tuple(row))
    listed = Finite(sorted(rows), n_actions=2)
    for epsilon in (0.0, 0.05):
        one = measure(problem, trees, epsilon=epsilon, delta=0.1)
        two = measure(problem, listed, epsilon=epsilon, delta=0.1)
        assert one.min_gap == pytest.approx(two.min_gap, abs=1e-12)
        assert one.converged
        assert one.rho_lower <= two.rho_upper * (1 + 1e-9)
        assert two.rho_lower <= one.rho_upper * (1 + 1e-9)


@pytest.mark.slow
def test_trivial_class_of_many_contexts():
    problem = load_problem("trivial:contexts=200,actions=4,seed=1,noise=gaussian,variance=1")
    at_zero = measure(problem, problem.policies, epsilon=0.0, delta=0.05)
    assert at_zero.converged
    assert at_zero.trivial_lower_bound is not None
    assert at_zero.trivial_lower_bound <= at_zero.lower_bound_paper * (1 + 1e-9)
    loose = measure(problem, problem.policies, epsilon=0.05, delta=0.05, tolerance=0.05)
    assert loose.converged, loose.notes
    assert loose.rho_upper <= at_zero.rho_upper


def test_rewards_must_fit_the_class():
    problem = load_problem("hard:m=4")
    with pytest.raises(InputError, match="mean_rewards has shape"):
        measure(problem, Trivial(4, 3), epsilon=0.1, delta=0.1)


def test_nothing_to_learn_needs_no_samples():
    problem = load_problem("hard:m=4")
    m = measure(problem, Finite([[0, 1, 0, 1]], n_actions=2), epsilon=0.0, delta=0.1)
    assert (m.rho_upper, m.lower_bound, m.upper_bound) == (0.0, 0.0, 0.0)


def test_tiny_delta_is_finite():
    problem = load_problem("hard:m=4")
    m = measure(problem, problem.policies, epsilon=0.1, delta=1e-315)
    assert math.isfinite(m.upper_bound)
    assert math.isfinite(m.confidence_price)
    assert math.isfinite(m.minimax_bound)


@pytest.mark.parametrize("epsilon", [1e-200, 1e200])
def test_epsilon_must_have_a_square(epsilon):
    problem = load_problem("hard:m=4")
    with pytest.raises(InputError, match="epsilon must be 0 or between"):
        measure(problem, problem.policies, epsilon=epsilon, delta=0.1)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_trivial_class_wants_each_context_once(epsilon):
    rewards = np.array([[0.9, 0.1], [0.2, 0.7], [0.3, 0.4]])
    contexts = Contexts.of(np.empty((3, 0)), ids=[0, 0, 1], weights=[0.25, 0.25, 0.5])
    instance = Instance(contexts, rewards, np.ones((3, 2)), Finite([[0, 0]], n_actions=2))
    with pytest.raises(InputError, match="lists a context id twice"):
        measure(instance, Trivial(2, 2), epsilon=epsilon, delta=0.1)


def test_a_tie_costs_infinitely_much_whatever_delta():
    instance = Instance(Contexts.finite(1), np.array([[0.5, 0.5]]), np.ones((1, 2)), Finite([[0], [1]], n_actions=2))
    m = measure(instance, Trivial(1, 2), epsilon=0.0, delta=0.4)
    assert m.lower_bound == m.trivial_lower_bound == math.inf
    assert measure(instance, Trivial(1, 2), epsilon=0.0, delta=0.45).lower_bound == 0.0
