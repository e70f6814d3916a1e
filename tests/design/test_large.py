"""Designs over many contexts: the bracket is true on all of them, whoever adds up."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from instances import make_instance
from pacbandits import Contexts, InputError, Linear, Trees, open_contexts
from pacbandits.compiled import using_cores
from pacbandits.design import Clipped, DesignTask, Objective, Shifted, price_propensities, solve_design
from pacbandits.design.large import LargeTask, solve_large_design
from pacbandits.design.large.questions import DesignCostSums, whole_weights
from pacbandits.design.large.solve import sampled_rows
from pacbandits.engines import ContextsSource, Local
from pacbandits.engines.base import count_blocks
from pacbandits.policies.summation import summing
from pacbandits.policies.trees.bins import Forest
from pacbandits.policies.trees.histograms import TreeLimits
from pacbandits.policies.trees.tree_policy import Is, TreePolicy, TreeSplit

EPSILON = 0.05


@dataclass(frozen=True)
class Means:
    """Mean rewards that step at 0 in some features."""

    seed: int
    n_actions: int

    def __call__(self, contexts):
        rng = np.random.default_rng(self.seed)
        steps = rng.normal(0.0, 0.1, size=(contexts.n_features, self.n_actions))
        level = rng.uniform(0.3, 0.6, size=self.n_actions)
        return np.clip(level + (np.nan_to_num(contexts.features) > 0) @ steps, 0.0, 1.0)


@dataclass(frozen=True)
class Variances:
    """Those of coin flips."""

    means: Means

    def __call__(self, contexts):
        means = self.means(contexts)
        return means * (1 - means)


def people(n, *, seed=0, features=3):
    return Contexts.of(np.random.default_rng(seed).normal(size=(n, features)))


def trees_for(contexts, *, n_actions=4, bins=6, depth=2):
    return Trees.learn(contexts, n_actions=n_actions, depth=depth, bins=bins)


def in_memory(task, contexts, *, reference):
    """The same problem with everything in memory."""
    means = task.means(contexts)
    gaps = (means[np.arange(len(contexts)), reference(contexts)][:, None] - means) / len(contexts)
    noise = None if task.noise is None else task.noise(contexts)
    return DesignTask(
        task.policies, contexts, reference=reference, gaps=gaps, scale=task.scale, noise=noise, floor=task.floor
    )


@pytest.mark.thorough
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize(("noisy", "floor"), [(False, 0.0), (True, 0.02)])
def test_the_bracket_holds_on_all_contexts_and_the_design_attains_it(depth, noisy, floor):
    """Both ends computed anew in memory, on all contexts, of which the solver had seen few."""
    contexts, means = people(5_000), Means(1, 4)
    task = LargeTask(
        trees_for(contexts, depth=depth),
        ContextsSource(contexts),
        means=means,
        scale=Shifted(EPSILON, 0.5),
        noise=Variances(means) if noisy else None,
        floor=floor,
    )
    found = solve_large_design(task, sample_rows=500)
    assert found.converged, found.note
    assert (found.n_contexts, found.n_sampled) == (5_000, 500)
    whole = in_memory(task, contexts, reference=found.design.reference)
    p = found.design.propensities(contexts, noise=whole.noise)
    assert p.min() >= floor - 1e-12
    price = price_propensities(whole, p)
    assert price.attained <= found.upper
    assert found.upper == pytest.approx(price.upper, rel=1e-5)
    exact = solve_design(whole, tolerance=0.01)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert found.upper <= 1.06 * exact.upper


@pytest.mark.thorough
def test_the_lower_end_is_what_the_weights_of_a_design_prove():
    contexts = people(3_000)
    task = LargeTask(trees_for(contexts), ContextsSource(contexts), means=Means(2, 4), scale=Clipped(EPSILON))
    found = solve_large_design(task, max_passes=2, tolerance=0.03)
    whole = in_memory(task, contexts, reference=found.design.reference).possible
    actions = np.stack([policy(contexts) for policy in found.design.support]).astype(np.uint8)
    kappa, rows = found.design.weights, np.arange(len(contexts))
    gaps = np.array([whole.gaps[rows, row].sum() for row in actions])
    value = whole.objective.evaluate(actions, kappa)[0] / (kappa @ task.scale(gaps) ** 2)
    assert found.lower == pytest.approx(value, rel=1e-5)
    assert found.lower <= value


@pytest.mark.thorough
def test_the_reference_is_the_best_policy_on_all_contexts_unless_one_is_given():
    contexts = people(4_000)
    policies, means = trees_for(contexts), Means(3, 4)
    best = policies.argmax(contexts, means(contexts))
    task = LargeTask(policies, ContextsSource(contexts), means=means, scale=Clipped(EPSILON))
    assert solve_large_design(task, sample_rows=300, tolerance=0.2).design.reference == best
    other = TreePolicy(2, n_actions=4)
    given = LargeTask(
        policies, ContextsSource(contexts), means=means, scale=Shifted(EPSILON, 0.5), reference=other, floor=0.01
    )
    found = solve_large_design(given, sample_rows=300, tolerance=0.1)
    whole = in_memory(given, contexts, reference=other)
    assert found.design.reference == other
    assert price_propensities(whole, found.design.propensities(contexts)).upper == pytest.approx(found.upper, rel=1e-5)


class Uneven(ContextsSource):
    """Blocks in runs of one, whatever is asked for."""

    def stripes(self, *, most_blocks):
        return [range(number, number + 1) for number in reversed(range(count_blocks(self.n_rows)))]


@pytest.mark.thorough
def test_few_passes_do_and_every_way_of_adding_up_gives_the_same_bits():
    contexts = people(140_000, features=2)
    policies, means = trees_for(contexts, n_actions=3, bins=8), Means(4, 3)

    def solve(source, cores):
        with using_cores(cores):
            task = LargeTask(policies, source, means=means, scale=Clipped(EPSILON))
            return solve_large_design(task, sample_rows=1_000, engine=Local("threads"))

    one, two = solve(ContextsSource(contexts), 1), solve(Uneven(contexts), 2)
    assert one.converged
    assert one.passes <= 5
    assert (one.lower, one.upper, one.passes) == (two.lower, two.upper, two.passes)
    assert one.design.support == two.design.support
    assert np.array_equal(one.design.weights, two.design.weights)


@pytest.mark.thorough
def test_files_give_the_same_bits_as_memory(tmp_path):
    contexts = people(10_000, features=2)
    contexts.write(tmp_path / "people.parquet")
    policies, means = trees_for(contexts, n_actions=3), Means(4, 3)

    def solve(source):
        return solve_large_design(LargeTask(policies, source, means=means, scale=Clipped(0.1)), sample_rows=500)

    here, there = solve(contexts), solve(open_contexts(tmp_path / "people.parquet", features=contexts.names))
    assert (here.lower, here.upper, here.passes) == (there.lower, there.upper, there.passes)
    assert here.design.support == there.design.support


@pytest.mark.thorough
def test_correcting_the_sample_narrows_the_bracket_that_it_left():
    contexts = people(30_000)
    task = LargeTask(trees_for(contexts), ContextsSource(contexts), means=Means(5, 4), scale=Clipped(EPSILON))
    first = solve_large_design(task, sample_rows=400, max_passes=2)
    assert not first.converged
    assert "2 passes" in first.note
    more = solve_large_design(task, sample_rows=400)
    assert more.converged
    assert more.gap < first.gap / 2


def test_a_question_can_be_sent_elsewhere():
    contexts = people(2_000)
    policies = trees_for(contexts)
    task = LargeTask(policies, ContextsSource(contexts), means=Means(6, 4), scale=Clipped(EPSILON))
    design = solve_large_design(task, tolerance=0.3, max_passes=2).design
    question = DesignCostSums.of(
        design, summing=summing(policies), noise=Variances(Means(6, 4)), floor=0.0, n_rows=2_000
    )
    here = Local("threads").ask(task.source, question, what="")
    there = Local("threads").ask(task.source, pickle.loads(pickle.dumps(question)), what="")
    assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))
    noise = Variances(Means(6, 4))(contexts)
    objective = Objective(design.reference(contexts), contexts.weights, noise)
    rows, costs = np.arange(2_000), objective.costs(design.propensities(contexts, noise=noise))
    by_sums, sums = summing(policies), np.ldexp(summing(policies).finish(here[0]), -question.cost_bits) / 2_000
    for policy in design.support[:20]:
        one = by_sums.policies.attained(by_sums.contexts, sums, policy)
        assert one == pytest.approx(costs[rows, policy(contexts)].sum(), rel=1e-6)
        assert one >= costs[rows, policy(contexts)].sum() * (1 - 1e-12)


def test_a_forest_is_its_trees_one_by_one():
    rng = np.random.default_rng(7)
    features = np.column_stack([rng.normal(size=(500, 2)), rng.integers(0, 3, size=500)])
    features[rng.random(500) < 0.1, 0] = np.nan
    contexts = Contexts.of(features, names=["a", "b", "c"], categories=[None, None, ("x", "y", "z")])
    policies = Trees.learn(contexts, n_actions=5, bins=6)
    tests = list(policies.bins.places)
    assert any(isinstance(test, Is) for test in tests)

    def side():
        return (
            int(rng.integers(5))
            if rng.random() < 0.3
            else TreeSplit(pick(), int(rng.integers(5)), int(rng.integers(5)))
        )

    def pick():
        return tests[rng.integers(len(tests))]

    roots = [TreeSplit(pick(), side(), side()) for _ in range(200)] + [
        3,
        TreeSplit(tests[0], TreeSplit(tests[1], 0, 1), 2),
    ]
    trees = [TreePolicy(root, n_actions=5) for root in roots]
    weights = rng.integers(1, 2**40, size=len(trees))
    mass, expected = np.zeros((500, 5), dtype=np.int64), np.zeros((500, 5), dtype=np.int64)
    Forest.of(trees, weights, policies.bins, n_actions=5).add_weights(policies.bins.encode(contexts), mass)
    for tree, weight in zip(trees, weights, strict=True):
        expected[np.arange(500), tree(contexts)] += weight
    assert np.array_equal(mass, expected)
    deep = TreeSplit(tests[0], TreeSplit(tests[1], TreeSplit(tests[2], 0, 1), 2), 3)
    with pytest.raises(InputError, match="depth 2 or less"):
        Forest.of([TreePolicy(deep, n_actions=5)], weights[:1], policies.bins, n_actions=5)


@dataclass(frozen=True)
class Table:
    """Mean rewards by the id of a context."""

    rewards: np.ndarray

    def __call__(self, contexts):
        return self.rewards[contexts.ids]


def test_classes_over_a_finite_set_of_contexts_are_designed_for_by_sums_too():
    instance = make_instance(11, n_policies=25, n_contexts=8, n_actions=3, awkward=False)
    ids = np.random.default_rng(1).integers(0, 8, size=20_000)
    contexts = Contexts.of(np.empty((20_000, 0)), ids=ids)
    task = LargeTask(
        instance.policies, ContextsSource(contexts), means=Table(instance.mean_rewards), scale=Clipped(0.1)
    )
    found = solve_large_design(task, sample_rows=2_000, tolerance=0.02)
    assert found.converged, found.note
    exact = solve_design(in_memory(task, contexts, reference=found.design.reference))
    assert found.lower <= exact.upper * (1 + 1e-6)
    assert exact.lower <= found.upper * (1 + 1e-6)


def test_nothing_to_learn_is_said():
    contexts = people(2_000)
    one = LargeTask(
        trees_for(contexts, n_actions=1), ContextsSource(contexts), means=Means(1, 1), scale=Clipped(EPSILON)
    )
    found = solve_large_design(one)
    assert (found.lower, found.upper, found.gap) == (0.0, 0.0, 0.0)
    assert "nothing to learn" in found.note


@pytest.mark.thorough
def test_a_rounded_frontier_keeps_the_bracket_true():
    """With few points a side the frontier is rounded outward, and lines through sums bound what it overstates."""
    contexts = people(3_000)
    exact = trees_for(contexts)
    few = Trees(exact.bins, n_actions=4, limits=TreeLimits(pairs=1, side_points=5))
    task = LargeTask(few, contexts, means=Means(1, 4), scale=Shifted(EPSILON, 0.5))
    found = solve_large_design(task, sample_rows=500, max_passes=3)
    whole = in_memory(replace(task, policies=exact), contexts, reference=found.design.reference)
    price = price_propensities(whole, found.design.propensities(contexts))
    assert price.attained <= found.upper
    gaps = whole.possible.gaps
    assert not few.frontier(contexts, whole.possible.objective.costs(np.full((3_000, 4), 0.25)), -gaps).exact
    assert found.lower <= solve_design(whole, tolerance=0.05).upper


def test_sums_that_would_not_fit_are_refused_beforehand(monkeypatch):
    contexts = people(100)
    monkeypatch.setattr("pacbandits.design.large.solve.free_memory_bytes", lambda: 20_000)
    with pytest.raises(InputError, match=r"sums over contexts would take .* MB.*take fewer features"):
        solve_large_design(LargeTask(trees_for(contexts), contexts, means=Means(1, 4), scale=Clipped(EPSILON)))


def test_a_sample_is_spread_over_all_rows():
    rows = sampled_rows(1_000_003, 1_000)
    assert (np.diff(rows) > 0).all()
    assert (np.bincount(rows * 10 // 1_000_003, minlength=10) == 100).all()
    assert np.array_equal(rows, sampled_rows(1_000_003, 1_000))
    assert np.array_equal(sampled_rows(5, 10), np.arange(5))


def test_bad_values_are_named():
    contexts = people(100)
    policies, source = trees_for(contexts), ContextsSource(contexts)
    good = {"means": Means(1, 4), "scale": Clipped(EPSILON)}
    with pytest.raises(InputError, match="epsilon above 0"):
        LargeTask(policies, source, **good | {"scale": Clipped(0.0)})
    with pytest.raises(InputError, match="means must be a function of contexts, got int"):
        LargeTask(policies, source, **good | {"means": 3})
    with pytest.raises(InputError, match="mean rewards must lie between 0 and 1, got 2"):
        solve_large_design(LargeTask(policies, source, **good | {"means": lambda c: np.full((len(c), 4), 2.0)}))
    with pytest.raises(InputError, match="noise variances must lie between 0 and 1, got -1"):
        solve_large_design(LargeTask(policies, source, **good, noise=lambda c: np.full((len(c), 4), -1.0)))
    with pytest.raises(InputError, match=r"Linear.*all rows at once"):
        solve_large_design(LargeTask(Linear.learn(contexts, n_actions=4), source, **good))
    with pytest.raises(InputError, match="max_passes"):
        solve_large_design(LargeTask(policies, source, **good), max_passes=1)


def test_whole_weights_keep_a_design_what_it_is():
    contexts = people(300)
    policies = trees_for(contexts)
    task = LargeTask(policies, ContextsSource(contexts), means=Means(8, 4), scale=Clipped(EPSILON))
    whole = in_memory(task, contexts, reference=policies.argmax(contexts, task.means(contexts)))
    design = solve_design(whole, tolerance=0.1).design
    again = whole_weights(design)
    assert (again.weights == np.rint(again.weights)).all()
    assert again.propensities(contexts) == pytest.approx(design.propensities(contexts), abs=1e-5)
