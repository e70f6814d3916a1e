"""The search for deep trees against the best of depth 2, the best of depth 3 found root by root, and itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies.trees import DeepTrees, TreePolicy, Trees
from pacbandits.policies.trees.search import Effort
from pacbandits.policies.trees.tree_policy import AtMost, Is, Node, TreeSplit, leaves
from pacbandits.records import Contexts
from tests.examples import examples
from tests.policies.trees.deep_cases import best_value, few_roots, larger, planted, search_of, small_problems, value


@examples(40)
@given(small_problems())
def test_the_best_of_depth_three_is_found_when_roots_are_few(problem: tuple[Contexts, np.ndarray]) -> None:
    contexts, scores = problem
    trees = DeepTrees.learn(contexts, n_actions=scores.shape[1], bins=5)
    policy = trees.argmax(contexts, scores)
    assert value(policy, contexts, scores) == pytest.approx(best_value(trees.bins, contexts, scores, depth=3), abs=1e-9)
    assert trees.has(policy)
    assert trees.shortfall(contexts, scores) == 0.0


@examples(60)
@given(small_problems(), st.integers(3, 6), st.booleans())
def test_never_worse_than_depth_two(problem: tuple[Contexts, np.ndarray], depth: int, few: bool) -> None:
    contexts, scores = problem
    effort = few_roots(1) if few else Effort()
    trees = DeepTrees.learn(contexts, n_actions=scores.shape[1], depth=depth, bins=5, effort=effort)
    shallow = Trees(trees.bins, n_actions=scores.shape[1], depth=2).argmax(contexts, scores)
    policy = trees.argmax(contexts, scores)
    assert trees.has(policy)
    gain = value(policy, contexts, scores) - value(shallow, contexts, scores)
    assert gain >= -1e-9
    # More tests only where they gain.
    assert gain > 1e-9 or len(leaves(policy.root)) <= len(leaves(shallow.root))


@pytest.mark.thorough
@pytest.mark.parametrize("signal", [0.0, 2.0], ids=["noise", "structure"])
@pytest.mark.parametrize("depth", [3, 4])
def test_search_comes_close_to_the_best(depth: int, signal: float) -> None:
    """Part of what the best tree gains on depth 2 that the search leaves, on average; with roots to choose from."""
    left_over: list[float] = []
    for seed in range(12 if depth == 3 else 3):
        contexts, scores = larger(seed, signal=signal)
        bins = 5 if depth == 3 else 3
        trees = DeepTrees.learn(contexts, n_actions=3, depth=depth, bins=bins, effort=few_roots(6))
        assert trees.bins.n_splits > 6
        found = value(trees.argmax(contexts, scores), contexts, scores)
        best = best_value(trees.bins, contexts, scores, depth=depth)
        base = best_value(trees.bins, contexts, scores, depth=2)
        assert found <= best + 1e-9
        if depth == 3:
            assert trees.shortfall(contexts, scores) == pytest.approx(best - found, abs=1e-9)
        left_over.append((best - found) / (best - base))
    assert np.mean(left_over) < 0.05
    assert max(left_over) < 0.4


def test_shortfall_is_seen_when_the_search_misses() -> None:
    seen = [
        DeepTrees.learn(contexts, n_actions=3, bins=5, effort=few_roots(1)).shortfall(contexts, scores)
        for contexts, scores in map(larger, range(6))
    ]
    assert max(seen) > 0.1
    assert min(seen) >= 0.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("few", [False, True])
def test_a_clear_tree_of_depth_three_is_found_again(seed: int, few: bool) -> None:
    contexts, noise = larger(seed, n=600, n_actions=8)
    effort = few_roots(Effort.least_roots // 2) if few else Effort()
    trees = DeepTrees.learn(contexts, n_actions=8, bins=6, effort=effort)
    rng = np.random.default_rng(seed)
    truth = TreePolicy(planted(trees.bins, rng, depth=3, n_actions=8), n_actions=8)
    scores = 1e-3 * noise
    scores[np.arange(600), truth(contexts)] += 1.0
    np.testing.assert_array_equal(trees.argmax(contexts, scores)(contexts), truth(contexts))


def test_what_depth_two_can_solve_is_left_to_it() -> None:
    contexts, noise = larger(3)
    for depth in (3, 5, 8):
        trees = DeepTrees.learn(contexts, n_actions=3, depth=depth, bins=6)
        shallow = Trees(trees.bins, n_actions=3, depth=2)
        truth = shallow.argmax(contexts, noise)
        scores = np.eye(3)[truth(contexts)]
        assert trees.argmax(contexts, scores) == shallow.argmax(contexts, scores)


def test_three_tests_that_help_only_together() -> None:
    features = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    contexts = Contexts.of(features)
    parity = features.sum(axis=1).astype(int) % 2
    scores = np.eye(2)[parity]
    assert isinstance(Trees.learn(contexts, n_actions=2).argmax(contexts, scores).root, int)
    for depth in (3, 4):
        policy = DeepTrees.learn(contexts, n_actions=2, depth=depth).argmax(contexts, scores)
        np.testing.assert_array_equal(policy(contexts), parity)


def test_negative_and_tiny_scores() -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, bins=5)
    for change in (-np.abs(scores), 1e-200 * scores, 1e200 * scores):
        found = value(trees.argmax(contexts, change), contexts, change)
        assert found == pytest.approx(best_value(trees.bins, contexts, change, depth=3), rel=1e-9, abs=0)


@pytest.mark.first(2)
@pytest.mark.parametrize("depth", [3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_local_search_rises_to_where_no_part_can_be_bettered(seed: int, depth: int) -> None:
    contexts, scores = larger(seed)
    trees = DeepTrees.learn(contexts, n_actions=3, depth=depth, bins=5)
    search, rows = search_of(trees, contexts, scores), np.arange(len(contexts))
    start = planted(trees.bins, np.random.default_rng(seed), depth=depth, n_actions=3)
    end = search.settled(start, rows, depth)
    reached = value(TreePolicy(end, 3), contexts, scores)
    assert reached > value(TreePolicy(start, 3), contexts, scores)
    assert reached == pytest.approx(search.value(end, rows))
    assert search.settled(end, rows, depth) == end
    assert trees.has(TreePolicy(end, 3))
    tests = [trees.bins.test(split) for split in range(trees.bins.n_splits)]
    others = [TreePolicy(other, 3) for other in neighbours(end, tests, 3)]
    assert len(others) > len(tests)
    assert max(value(other, contexts, scores) for other in others) <= reached + 1e-9


def neighbours(node: Node, tests: list[AtMost | Is], n_actions: int) -> list[Node]:
    """All trees that differ from this one in one test or in one action."""
    if isinstance(node, int):
        return list(range(n_actions))
    return [
        *(TreeSplit(test, node.then, node.otherwise) for test in tests),
        *(TreeSplit(node.test, other, node.otherwise) for other in neighbours(node.then, tests, n_actions)),
        *(TreeSplit(node.test, node.then, other) for other in neighbours(node.otherwise, tests, n_actions)),
    ]


def test_branches_without_effect_are_pruned() -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, bins=5)
    search, rows = search_of(trees, contexts, scores), np.arange(len(contexts))
    inner, first = trees.argmax(contexts, scores).root, trees.bins.test(0)
    assert isinstance(inner, TreeSplit)
    assert search.pruned(inner, rows) == inner
    # Asked again, the first test has one outcome; and what follows it here is the same.
    assert search.pruned(TreeSplit(first, inner, TreeSplit(first, 1, inner)), rows) == inner
    again = TreeSplit(inner.test, TreeSplit(inner.test, inner.then, 2), TreeSplit(inner.test, 1, inner.otherwise))
    assert search.pruned(again, rows) == inner
    nobody = rows[first(contexts)]
    assert search.pruned(TreeSplit(first, 2, inner), nobody) == 2
