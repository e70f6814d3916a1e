"""The class of deep trees: what it says of itself, what it holds and what it refuses."""

from __future__ import annotations

import gc
import itertools
import json
import weakref

import numpy as np
import pytest

from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import class_from_json, class_to_json, load_policies, policy_from_json
from pacbandits.policies.trees import Bins, DeepTrees, TreePolicy, Trees
from pacbandits.policies.trees.tree_policy import AtMost, Is, Node, TreeSplit
from pacbandits.records import Contexts
from tests.policies.brute import all_actions, sides
from tests.policies.trees.deep_cases import larger, planted


@pytest.mark.first(1)
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


@pytest.mark.first(1)
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


@pytest.mark.thorough
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
        node: Node = TreeSplit(asked, action, 1)
        for _ in range(depth):
            node = TreeSplit(test, 0, node)
        assert trees.has(TreePolicy(node, 4)) == (action < 3 and asked == test)
    assert trees.has(TreePolicy(2, 3))
    assert not trees.has(TreePolicy(3, 4))
    assert not trees.has(policy_from_json({"kind": "table", "name": "t", "n_actions": 3, "actions": [0, 1]}))


def test_what_the_class_says_of_itself() -> None:
    trees = DeepTrees.learn(larger()[0], n_actions=3)
    assert isinstance(trees, PolicyClass)
    assert trees.checks_membership
    assert not trees.has_frontier
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
    for depth in (2, 9, -1, 10**8):
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
    for depth, message in (
        (9, "from 3 to 8, got 9"),
        (10**8, "from 3 to 8, got 100000000"),
        ("3", "'depth' .* must be a whole number"),
        (-1, "0 or more, got -1"),
    ):
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
