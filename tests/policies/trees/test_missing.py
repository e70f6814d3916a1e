"""Trees on numbers some of which are missing: against every tree of small classes, in words and in files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError
from pacbandits.policies import Bins, DeepTrees, TreePolicy, Trees
from pacbandits.policies.trees.bins import NumberBins
from pacbandits.policies.trees.constraints import trees_from_json
from pacbandits.policies.trees.tree_policy import AtMost, IsMissing, TreeSplit
from pacbandits.records import Contexts
from tests.examples import examples
from tests.policies.brute import all_behaviours, maximal, values

NAN = math.nan


def asked(contexts: Contexts) -> list[np.ndarray]:
    """Every question on numbers that there is, answered one by one: whether x ≤ t, whether it is missing, and both."""
    out: list[np.ndarray] = []
    for j, labels in enumerate(contexts.categories):
        column = [float(x) for x in contexts.features[:, j]]
        if labels is not None:
            out.extend(np.array([x == code for x in column]) for code in range(len(labels)))
            continue
        gone = np.array([x != x for x in column])
        for t in sorted({x for x in column if x == x})[:-1]:
            small = np.array([x == x and x <= t for x in column])
            out.append(small)
            if gone.any():
                out.append(small | gone)
        if gone.any():
            out.append(gone)
    return out


@st.composite
def patchy_problems(draw: st.DrawFn) -> tuple[Contexts, np.ndarray, np.ndarray, int]:
    """Contexts of a few features, most of them with holes, two scores with ties, and a depth."""
    n, d, n_actions = draw(st.integers(1, 8)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns, categories = [], []
    for _ in range(d):
        kind = draw(st.sampled_from(["holes", "holes", "empty", "one", "whole", "category"]))
        categories.append(("n", "e", "s") if kind == "category" else None)
        values_ = rng.integers(0, 3, n).astype(float)
        if kind == "one":
            values_[:] = 2.0
        if kind in ("holes", "one"):
            values_[rng.random(n) < 0.4] = NAN
        columns.append(np.full(n, NAN) if kind == "empty" else values_)
    whole = draw(st.booleans())
    scores = rng.integers(-2, 3, (2, n, n_actions)).astype(float) if whole else rng.normal(size=(2, n, n_actions))
    contexts = Contexts.of(np.column_stack(columns), categories=categories)
    return contexts, scores[0], scores[1], draw(st.integers(0, 2))


@examples(100)
@given(patchy_problems())
def test_the_best_tree_and_the_frontier_are_those_of_all_trees(
    problem: tuple[Contexts, np.ndarray, np.ndarray, int],
) -> None:
    contexts, first, second, depth = problem
    trees = Trees.learn(contexts, n_actions=first.shape[1], depth=depth, bins=5)
    everything = all_behaviours(asked(contexts), len(contexts), n_actions=first.shape[1], depth=depth)
    behaviours = {tuple(row) for row in everything}
    policy = trees.argmax(contexts, first)
    actions = policy(contexts)
    assert trees.has(policy)
    assert values(actions[None], first)[0] == pytest.approx(values(everything, first).max(), abs=1e-9)
    assert tuple(actions) in behaviours
    assert trees.log_size >= np.log(len(everything)) - 1e-12
    wanted = maximal(values(everything, first).round(9), values(everything, second).round(9))
    front = trees.frontier(contexts, first, second)
    assert front.exact
    np.testing.assert_allclose(np.column_stack([front.first, front.second]), wanted, atol=1e-8)
    for i in range(len(front)):
        found = front.policy(i)
        assert trees.has(found)
        assert values(found(contexts)[None], first)[0] == pytest.approx(front.first[i], abs=1e-9)
        assert values(found(contexts)[None], second)[0] == pytest.approx(front.second[i], abs=1e-9)


@examples(50)
@given(patchy_problems())
def test_codes_are_what_the_tests_say(problem: tuple[Contexts, np.ndarray, np.ndarray, int]) -> None:
    contexts = problem[0]
    bins = Bins.learn(contexts, bins=5)
    assert Bins.from_json(json.loads(json.dumps(bins.to_json()))) == bins
    assert len(bins.places) == bins.n_splits
    thresholds = [t for one in bins.features if isinstance(one, NumberBins) for t in one.thresholds]
    others = np.full((len(thresholds) + 2, contexts.n_features), NAN)
    others[:-1] = np.array([*thresholds, 9.0])[:, None]
    numbers = [j for j, labels in enumerate(contexts.categories) if labels is None]
    for asked_of in (contexts, Contexts.of(others[:, numbers], names=[contexts.names[j] for j in numbers])):
        known = Bins(tuple(one for one in bins.features if one.name in asked_of.names))
        codes = known.encode(asked_of)
        for split in range(known.n_splits):
            np.testing.assert_array_equal(
                known.sent_left(split)[codes[:, known.locate(split)[0]]], known.test(split)(asked_of)
            )


def test_deep_trees_find_the_best_of_depth_three() -> None:
    rng = np.random.default_rng(3)
    features = rng.integers(0, 3, (120, 3)).astype(float)
    features[rng.random((120, 3)) < 0.3] = NAN
    contexts = Contexts.of(features)
    gone = np.isnan(features)
    right = np.where(gone[:, 0] | (features[:, 0] <= 0), gone[:, 1], (features[:, 2] <= 1) & ~gone[:, 1])
    scores = np.eye(2)[right.astype(int)] + 0.1 * rng.normal(size=(120, 2))
    trees = DeepTrees.learn(contexts, n_actions=2)
    policy = trees.argmax(contexts, scores)
    assert trees.has(policy)
    assert trees.shortfall(contexts, scores) == 0.0
    np.testing.assert_array_equal(policy(contexts), right)


def test_words() -> None:
    ages = Contexts.of([[20.0], [30.0], [40.0], [NAN]], names=["age"])
    trees = Trees.learn(ages, n_actions=2, depth=1)
    assert trees.bins.features == (NumberBins("age", (25.0, 35.0), missing=True),)
    assert trees.bins.n_splits == 5
    for wanted, words in (
        ([0, 1, 1, 1], "age ≤ 25 (missing: no)"),
        ([0, 0, 1, 0], "age is missing or ≤ 35"),
        ([1, 1, 1, 0], "age is missing"),
    ):
        policy = trees.argmax(ages, np.eye(2)[wanted])
        assert policy.describe() == f"if {words}: action 0\nelse: action 1"
        assert TreePolicy.from_json(json.loads(json.dumps(policy.to_json()))) == policy
    assert trees.details(ages) == ("age is missing, or ≤ 25, 35",)
    old = ages.take([2, 3])
    assert trees.details(old) == ("age is missing, or ≤ 25, 35 (all rows answer 2 of these 5 questions alike)",)
    assert Trees.learn(old, n_actions=2).details(old) == ("age is missing",)
    assert trees_from_json(trees.to_json()).to_json() == trees.to_json()


def test_what_was_never_missing_fails_every_test_when_it_is() -> None:
    whole = Contexts.of([[20.0], [40.0]], names=["age"])
    trees = Trees.learn(whole, n_actions=2, depth=1)
    assert trees.bins.to_json() == [{"name": "age", "thresholds": [30.0]}]
    patchy = Contexts.of([[20.0], [NAN]], names=["age"])
    policy = trees.argmax(patchy, np.eye(2))
    assert policy.root == TreeSplit(AtMost("age", 30.0), 0, 1)
    assert policy.describe() == "if age ≤ 30: action 0\nelse: action 1"
    np.testing.assert_array_equal(policy(patchy), [0, 1])
    front = trees.frontier(patchy, np.eye(2), -np.eye(2))
    assert front.first[0] == 2.0


def test_as_many_bins_as_there_may_be() -> None:
    column = np.arange(400.0)
    column[7] = NAN
    trees = Trees.learn(Contexts.of(column[:, None]), n_actions=2, depth=1, bins=256)
    assert trees.bins.features[0].n_bins == 256
    assert trees.bins.encode(Contexts.of([[NAN], [0.0], [1e9]])).ravel().tolist() == [0, 1, 255]
    with pytest.raises(InputError, match="has 257 bins"):
        NumberBins("x", tuple(range(255)), missing=True)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"at_most": 1.0, "missing": 1}, "'missing' of the node of a tree must be true or false, got 1"),
        ({"at_most": 1.0, "missing": None}, "'missing' of the node of a tree must be true or false, got null"),
        ({"is": "a", "missing": True}, "says 'missing', which means nothing here"),
        ({"is_missing": False}, "can only be true"),
        ({"is_missing": "yes"}, "must be true or false, got the text 'yes'"),
        ({"is_missing": True, "at_most": 1.0}, "one of 'at_most', 'is' and 'is_missing'"),
        ({"is_missing": True, "missing": True}, "says 'missing', which means nothing here"),
    ],
)
def test_damaged_nodes_are_refused(node: dict[str, object], words: str) -> None:
    root = {"feature": "x", "then": {"action": 0}, "else": {"action": 1}, **node}
    with pytest.raises(InputError, match=words) as caught:
        TreePolicy.from_json({"kind": "tree", "n_actions": 2, "root": root})
    assert "\n" not in str(caught.value)


def test_damaged_bins_are_refused() -> None:
    for bad in (1, "yes", None, [True]):
        with pytest.raises(InputError, match="'missing' of the binned feature must be true or false"):
            Bins.from_json([{"name": "x", "thresholds": [1.0], "missing": bad}])
    with pytest.raises(InputError, match="'missing' of the binned feature can only be true"):
        Bins.from_json([{"name": "x", "thresholds": [1.0], "missing": False}])
    with pytest.raises(InputError, match="says 'missing'"):
        Bins.from_json([{"name": "x", "labels": ["a", "b"], "missing": True}])


def test_questions_that_say_the_same_are_told_apart_by_what_was_missing() -> None:
    contexts = Contexts.of([[1.0], [NAN]], names=["x"])
    for test, passed in (
        (AtMost("x", 2.0), [True, False]),
        (AtMost("x", 2.0, missing=False), [True, False]),
        (AtMost("x", 2.0, missing=True), [True, True]),
        (IsMissing("x"), [False, True]),
    ):
        np.testing.assert_array_equal(test(contexts), passed)
