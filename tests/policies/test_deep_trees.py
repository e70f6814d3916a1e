"""Deep trees against the best of depth 2, against the best of depth 3 found root by root, and against themselves."""

from __future__ import annotations

import gc
import itertools
import json
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.policies.base import ClosedClass, FrontierClass, PolicyClass
from pacbandits.policies.registry import class_from_json, class_to_json, load_policies, policy_from_json
from pacbandits.policies.trees import Bins, DeepTrees, TreePolicy, Trees
from pacbandits.policies.trees.growth import DeepSearch, Effort
from pacbandits.policies.trees.roots import leading, shortlist
from pacbandits.policies.trees.tree import AtMost, Branch, Is, Node, leaves
from pacbandits.records import Contexts
from tests.policies.brute import all_actions, sides, values


def value(policy: TreePolicy, contexts: Contexts, scores: np.ndarray) -> float:
    return float(values(policy(contexts)[None], scores)[0])


def best_value(bins: Bins, contexts: Contexts, scores: np.ndarray, *, depth: int) -> float:
    """The value of the best tree: every test at the root, and below it the best trees of a level less."""
    shallow = Trees(bins, n_actions=scores.shape[1], depth=min(depth, 2))
    best = value(shallow.argmax(contexts, scores), contexts, scores)
    for left in sides(bins, contexts) if depth > 2 else []:
        parts = [np.flatnonzero(side) for side in (left, ~left) if side.any()]
        below = (best_value(bins, contexts.take(rows), scores[rows], depth=depth - 1) for rows in parts)
        best = max(best, sum(below))
    return best


def few_roots(count: int) -> Effort:
    """The effort of a search that tries few roots, as it does when there are very many."""
    return Effort(root_sums=0, node_sums=0, least_roots=count)


@st.composite
def small_problems(draw: st.DrawFn) -> tuple[Contexts, np.ndarray]:
    """Contexts of a few mixed features, and signed scores with ties."""
    n, d, n_actions = draw(st.integers(1, 25)), draw(st.integers(0, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = [draw(st.sampled_from(["number", "ties", "category"])) for _ in range(d)]
    columns = [rng.normal(size=n) if kind == "number" else rng.integers(0, 3, n) for kind in kinds]
    features = np.column_stack(columns) if columns else np.empty((n, 0))
    contexts = Contexts.of(features, categories=[("n", "e", "s") if kind == "category" else None for kind in kinds])
    whole = draw(st.booleans())
    return contexts, rng.integers(-2, 3, (n, n_actions)).astype(float) if whole else rng.normal(size=(n, n_actions))


def larger(seed: int = 0, *, n: int = 150, n_actions: int = 3, signal: float = 0.0) -> tuple[Contexts, np.ndarray]:
    """Mixed contexts, and scores that are noise but for a signal."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 4, n)])
    contexts = Contexts.of(features, names=["age", "dose", "region"], categories=[None, None, ("n", "e", "s", "w")])
    waves = np.sin(3 * features[:, :1] * features[:, 1:2] + features[:, 2:] + np.arange(n_actions))
    return contexts, rng.normal(size=(n, n_actions)) + signal * waves


def planted(bins: Bins, rng: np.random.Generator, *, depth: int, n_actions: int) -> Node:
    """A full tree of random tests, with leaves whose actions differ side by side."""
    if depth == 0:
        return int(rng.integers(n_actions))
    test = bins.test(int(rng.integers(bins.n_splits)))
    then, otherwise = (planted(bins, rng, depth=depth - 1, n_actions=n_actions) for _ in range(2))
    return Branch(test, then, (then + 1) % n_actions if depth == 1 and isinstance(then, int) else otherwise)


def search_of(trees: DeepTrees, contexts: Contexts, scores: np.ndarray) -> DeepSearch:
    return DeepSearch(trees.bins, trees.bins.encode(contexts), scores, trees.depth, trees.effort)


@settings(max_examples=40, deadline=None)
@given(small_problems())
def test_the_best_of_depth_three_is_found_when_roots_are_few(problem: tuple[Contexts, np.ndarray]) -> None:
    contexts, scores = problem
    trees = DeepTrees.learn(contexts, n_actions=scores.shape[1], bins=5)
    policy = trees.argmax(contexts, scores)
    assert value(policy, contexts, scores) == pytest.approx(best_value(trees.bins, contexts, scores, depth=3), abs=1e-9)
    assert trees.has(policy)
    assert trees.shortfall(contexts, scores) == 0.0


@settings(max_examples=60, deadline=None)
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
        *(Branch(test, node.then, node.otherwise) for test in tests),
        *(Branch(node.test, other, node.otherwise) for other in neighbours(node.then, tests, n_actions)),
        *(Branch(node.test, node.then, other) for other in neighbours(node.otherwise, tests, n_actions)),
    ]


@pytest.mark.parametrize("depth", [3, 4])
def test_neither_order_nor_repetition_of_rows_matters(depth: int) -> None:
    for seed in range(2):
        contexts, scores = larger(seed)
        scores = np.round(4 * scores)  # sums without rounding
        trees = DeepTrees.learn(contexts, n_actions=3, depth=depth, bins=6)
        policy = trees.argmax(contexts, scores)
        order = np.random.default_rng(seed).permutation(len(contexts))
        assert trees.argmax(contexts.take(order), scores[order]) == policy
        twice = np.repeat(np.arange(len(contexts)), 2)
        split = np.repeat(scores, 2, axis=0) / 2
        split[::2] += 0.25
        split[1::2] -= 0.25
        assert trees.argmax(contexts.take(twice), split) == policy


def test_rows_that_score_all_actions_alike_play_no_part() -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, bins=6)
    flat = np.random.default_rng(0).random(len(contexts)) < 0.5
    scores = np.where(flat[:, None], np.arange(len(contexts))[:, None], scores)
    rest = np.flatnonzero(~flat)
    assert trees.argmax(contexts, scores) == trees.argmax(contexts.take(rest), scores[rest])


@pytest.mark.parametrize("depth", [3, 4, 6])
def test_ties_and_cores_change_nothing(depth: int) -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, depth=depth, bins=6)
    assert trees.argmax(contexts, np.zeros_like(scores)).root == 0
    assert trees.argmax(contexts, np.tile([0.1, 0.3, 0.3 - 1e-17], (len(contexts), 1))).root == 1
    for given_scores in (scores, np.sign(np.round(scores))):
        with using_cores(1):
            alone = trees.argmax(contexts, given_scores)
        with using_cores(3):
            assert trees.argmax(contexts, given_scores.copy()) == alone


def test_one_action_and_nothing_to_test() -> None:
    contexts, _ = larger()
    for depth in (3, 8):
        assert DeepTrees.learn(contexts, n_actions=1, depth=depth).argmax(contexts, np.ones((150, 1))).root == 0
    flat = Contexts.of([[1.0], [1.0]])
    trees = DeepTrees.learn(flat, n_actions=5)
    scores = np.eye(5)[[3, 3]]
    assert trees.log_size == pytest.approx(np.log(5))
    assert trees.argmax(flat, scores).root == 3
    assert trees.argmax(flat, np.eye(5)[[3, 4]]).root == 3
    assert trees.shortfall(flat, scores) == 0.0


def test_negative_and_tiny_scores() -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, bins=5)
    for change in (-np.abs(scores), 1e-200 * scores, 1e200 * scores):
        found = value(trees.argmax(contexts, change), contexts, change)
        assert found == pytest.approx(best_value(trees.bins, contexts, change, depth=3), rel=1e-9, abs=0)


def test_log_size_counts_all_that_trees_do() -> None:
    contexts = Contexts.of(np.array(list(itertools.product([0.0, 1.0], repeat=3))))
    trees = DeepTrees.learn(contexts, n_actions=2)
    assert trees.log_size == pytest.approx(7 * np.log(3) + 8 * np.log(2))
    assert DeepTrees.learn(contexts, n_actions=2, depth=5).log_size == pytest.approx(31 * np.log(3) + 32 * np.log(2))
    shallow = all_actions(trees.bins, contexts, n_actions=2, depth=2)
    below = {tuple(row) for row in shallow}
    for left in sides(trees.bins, contexts):
        below |= {tuple(np.where(left, one, other)) for one, other in itertools.product(shallow, repeat=2)}
    assert len(below) == 2**8  # with three tests, whatever there is to do on eight contexts
    assert trees.log_size >= np.log(len(below))


def test_membership() -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, depth=4, bins=5)
    for depth in range(3, 7):
        other = DeepTrees(trees.bins, n_actions=3, depth=depth)
        full = planted(trees.bins, np.random.default_rng(0), depth=depth, n_actions=3)
        assert trees.has(TreePolicy(full, 3)) == (depth <= 4)
        assert other.has(TreePolicy(full, 3))
        assert other.has(other.argmax(contexts, scores))
    test = trees.bins.test(0)
    for depth, action, asked in itertools.product(range(4), (0, 3), (test, AtMost("age", 0.123), Is("region", "x"))):
        node: Node = Branch(asked, action, 1)
        for _ in range(depth):
            node = Branch(test, 0, node)
        assert trees.has(TreePolicy(node, 4)) == (action < 3 and asked == test)
    assert trees.has(TreePolicy(2, 3))
    assert not trees.has(TreePolicy(3, 4))
    assert not trees.has(policy_from_json({"kind": "table", "name": "t", "n_actions": 3, "actions": [0, 1]}))


def test_what_the_class_says_of_itself() -> None:
    trees = DeepTrees.learn(larger()[0], n_actions=3)
    assert isinstance(trees, PolicyClass)
    assert isinstance(trees, ClosedClass)
    assert not isinstance(trees, FrontierClass)
    assert trees.exact is False
    assert (trees.n_actions, trees.depth) == (3, 3)


@pytest.mark.parametrize("depth", [2, 3, 8])
def test_json_brings_the_class_back(depth: int) -> None:
    contexts, scores = larger()
    made = load_policies(f"trees:depth={depth},bins=5", contexts, n_actions=3)
    assert isinstance(made, Trees if depth == 2 else DeepTrees)
    back = class_from_json(json.loads(json.dumps(class_to_json(made))))
    assert type(back) is type(made)
    assert (back.bins, back.n_actions, back.depth) == (made.bins, 3, depth)
    assert back.log_size == made.log_size
    if depth == 3:
        policy = made.argmax(contexts, scores)
        assert back.argmax(contexts, scores) == policy
        assert policy_from_json(json.loads(json.dumps(policy.to_json()))) == policy


def test_bad_input_is_refused() -> None:
    contexts, scores = larger()
    for depth in (2, 9, -1):
        with pytest.raises(InputError, match=f"depth must be from 3 to 8, got {depth}; use Trees for depth 0, 1 or 2"):
            DeepTrees.learn(contexts, n_actions=3, depth=depth)
    with pytest.raises(InputError, match="n_actions must be 1 or more, got 0"):
        DeepTrees.learn(contexts, n_actions=0)
    with pytest.raises(InputError, match="at depth 3, but these have depth 4"):
        DeepTrees.learn(contexts, n_actions=3, depth=4).shortfall(contexts, scores)
    trees = DeepTrees.learn(contexts, n_actions=3)
    for bad in (scores[:-1], scores[:, :2], np.where(scores > 2, np.nan, scores)):
        for ask in (trees.argmax, trees.shortfall):
            with pytest.raises(InputError, match="scores"):
                ask(contexts, bad)
    described = class_to_json(trees)
    for depth, message in ((9, "from 3 to 8, got 9"), ("3", "depth must be a whole number"), (-1, "0, 1 or 2")):
        with pytest.raises(InputError, match=message):
            class_from_json({**described, "depth": depth})
    with pytest.raises(InputError, match="depth must be an integer from 0 to 8, got 9"):
        load_policies("trees:depth=9", contexts, n_actions=3)


def test_scores_of_any_layout_and_features_by_name() -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, bins=5)
    wanted = trees.argmax(contexts, scores)
    frozen = scores.copy()
    frozen.setflags(write=False)
    for same in (np.asfortranarray(scores), frozen, scores.tolist(), np.repeat(scores, 2, axis=1)[:, ::2]):
        assert trees.argmax(contexts, same) == wanted
    turned = Contexts.of(
        contexts.features[:, ::-1], names=contexts.names[::-1], categories=list(contexts.categories)[::-1]
    )
    assert trees.argmax(turned, scores) == wanted


def test_codes_are_kept_as_long_as_their_contexts() -> None:
    contexts, scores = larger()
    encoded: list[int] = []

    class CountedBins(Bins):
        def encode(self, contexts: Contexts) -> np.ndarray:
            encoded.append(len(contexts))
            return super().encode(contexts)

    trees = DeepTrees(CountedBins(Bins.learn(contexts, bins=5).features), n_actions=3)
    fresh = contexts.take(np.arange(150))
    assert trees.argmax(fresh, scores) == trees.argmax(fresh, scores)
    assert encoded == [150]
    alive = weakref.ref(fresh)
    del fresh
    gc.collect()
    assert alive() is None


@given(st.lists(st.integers(-3, 3), max_size=12), st.integers(0, 12))
def test_leading_takes_the_largest_and_of_ties_the_first(numbers: list[int], most: int) -> None:
    exact = np.array(numbers, dtype=float)
    exact[exact == -3] = -np.inf
    noisy = exact + 1e-12 * np.arange(len(exact))  # later ones larger, within the tie
    wanted = [i for i in np.argsort(-exact, kind="stable") if exact[i] > -np.inf][:most]
    assert leading(noisy, most=most, tie=1e-9) == wanted


def test_shortlist_begins_with_the_peaks() -> None:
    contexts = Contexts.of(
        [[float(i), float(i % 3)] for i in range(6)], names=["x", "c"], categories=[None, ("a", "b", "d")]
    )
    trees = DeepTrees.learn(contexts, n_actions=2)
    tie = search_of(trees, contexts, np.eye(2)[[0, 1, 0, 1, 0, 1]]).tie
    found = np.array([5.0, 4.0, 1.0, 2.0, 2.5, 0.5, 0.7, 0.6])  # five splits of x, then three of c
    assert shortlist(found, trees.bins.layout, most=5, tie=tie) == [0, 4, 6, 7, 5]
    assert shortlist(found, trees.bins.layout, most=7, tie=tie) == [0, 4, 6, 7, 5, 1, 3]


def test_branches_without_effect_are_pruned() -> None:
    contexts, scores = larger()
    trees = DeepTrees.learn(contexts, n_actions=3, bins=5)
    search, rows = search_of(trees, contexts, scores), np.arange(len(contexts))
    inner, first = trees.argmax(contexts, scores).root, trees.bins.test(0)
    assert isinstance(inner, Branch)
    assert search.pruned(inner, rows) == inner
    # Asked again, the first test has one outcome; and what follows it here is the same.
    assert search.pruned(Branch(first, inner, Branch(first, 1, inner)), rows) == inner
    again = Branch(inner.test, Branch(inner.test, inner.then, 2), Branch(inner.test, 1, inner.otherwise))
    assert search.pruned(again, rows) == inner
    nobody = rows[first(contexts)]
    assert search.pruned(Branch(first, 2, inner), nobody) == 2
