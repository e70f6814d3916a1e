"""Estimators as policy classes: what the reductions promise, and what is left when there is nothing to learn."""

from __future__ import annotations

import math
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from instances import seeds
from pacbandits.errors import InputError
from pacbandits.paper.oracles.constrained import relaxed_argmax
from pacbandits.policies import PolicyClass, Trees, Trivial
from pacbandits.policies.base import ClosedClass, EnumeratedClass, FrontierClass
from pacbandits.policies.learners import Learned, LearnedPolicy, OneHot
from pacbandits.policies.learners.estimators import SameForAll
from pacbandits.policies.learners.reductions import LearningTask, Votes, by_classification, by_pairs, by_regression
from pacbandits.records import Contexts
from pacbandits.simulation import run
from tests.policies.brute import values

CLASSIFIERS = ("classification", "pairs")
SMALL = {
    "regression": DecisionTreeRegressor(max_depth=2),
    "classification": DecisionTreeClassifier(max_depth=2),
    "pairs": DecisionTreeClassifier(max_depth=2),
}
kinds = st.sampled_from(sorted(SMALL))


def learned(estimator, reduction, *, n_actions=3, **options):
    return Learned(estimator, n_actions=n_actions, reduction=reduction, log_size=10.0, **options)


def small(kind, *, n_actions=3):
    return learned(SMALL[kind], kind, n_actions=n_actions)


def worth(policy, contexts, scores):
    return float(values(policy(contexts)[None], scores)[0])


def plane(n, *, d=3, seed=0):
    return Contexts.of(np.random.default_rng(seed).normal(size=(n, d)))


def acts_alike(one, other, contexts):
    np.testing.assert_array_equal(one(contexts), other(contexts))


def awkward(seed, *, whole=False):
    """A few contexts with repeated features, a number and a category, and signed scores."""
    rng = np.random.default_rng(seed)
    n, n_actions = int(rng.integers(1, 25)), int(rng.integers(1, 5))
    features = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 3, n)]).astype(float)
    contexts = Contexts.of(features, names=["age", "place"], categories=[None, ("n", "e", "s")])
    scores = rng.integers(-3, 4, (n, n_actions)).astype(float) if whole else rng.normal(size=(n, n_actions))
    if rng.random() < 0.3:
        scores[rng.random(n) < 0.5] = 1.0
    return contexts, scores


# What argmax promises


@settings(max_examples=60)
@given(kind=kinds, seed=seeds, whole=st.booleans())
def test_no_constant_policy_is_better(kind, seed, whole):
    contexts, scores = awkward(seed, whole=whole)
    policy = small(kind, n_actions=scores.shape[1]).argmax(contexts, scores)
    assert worth(policy, contexts, scores) >= scores.sum(axis=0).max() - 1e-9


@settings(max_examples=40)
@given(kind=kinds, seed=seeds, power=st.sampled_from([-900, -3, 4, 900]))
def test_only_differences_between_the_actions_of_a_row_count(kind, seed, power):
    """Whole scores and shifts, and factors that are powers of two, so that nothing is rounded."""
    contexts, scores = awkward(seed, whole=True)
    shifts = np.random.default_rng(seed + 1).integers(-50, 50, (len(contexts), 1))
    policies = small(kind, n_actions=scores.shape[1])
    one = policies.argmax(contexts, scores)
    acts_alike(one, policies.argmax(contexts, scores + shifts), contexts)
    acts_alike(one, policies.argmax(contexts, np.ldexp(scores, power)), contexts)


@settings(max_examples=40)
@given(kind=st.sampled_from(CLASSIFIERS), seed=seeds)
def test_repeated_contexts_count_as_their_sum(kind, seed):
    contexts, scores = awkward(seed, whole=True)
    _, first, which = np.unique(contexts.features, axis=0, return_index=True, return_inverse=True)
    sums = np.zeros((len(first), scores.shape[1]))
    np.add.at(sums, which.reshape(-1), scores)
    policies = small(kind, n_actions=scores.shape[1])
    acts_alike(policies.argmax(contexts, scores), policies.argmax(contexts.take(first), sums), contexts)


def test_regression_by_stakes_does_not_tell_a_context_twice_from_scores_twice_as_large():
    contexts, rng = plane(30), np.random.default_rng(1)
    scores = rng.normal(size=(30, 3))
    twice = np.arange(30) < 10
    doubled = np.where(twice[:, None], 2 * scores, scores)
    which = np.concatenate([np.arange(30), np.arange(10)])
    repeated = np.concatenate([scores, scores[:10]])
    tasks = [LearningTask.of(contexts.features, w, s) for w, s in ((np.arange(30), doubled), (which, repeated))]
    by_count, by_stake = zip(*(by_regression(Ridge(), task) for task in tasks), strict=True)
    grid = rng.normal(size=(500, 3))
    np.testing.assert_array_equal(by_stake[0](grid), by_stake[1](grid))
    assert (by_count[0](grid) != by_count[1](grid)).any()


def test_regression_by_counts_fits_the_rows_as_they_were_given():
    """Against ordinary least squares on all rows, repeated or not."""
    rng = np.random.default_rng(2)
    distinct = rng.normal(size=(12, 2))
    which = rng.integers(0, 12, 60)
    which[:12] = np.arange(12)
    scores = rng.normal(size=(60, 3)) + distinct[which] @ rng.normal(size=(2, 3))
    rule = by_regression(LinearRegression(), LearningTask.of(distinct, which, scores))[0]
    design = np.column_stack([np.ones(60), distinct[which]])
    coefficients, *_ = np.linalg.lstsq(design, scores, rcond=None)
    grid = rng.normal(size=(300, 2))
    wanted = np.argmax(np.column_stack([np.ones(300), grid]) @ coefficients, axis=1)
    np.testing.assert_array_equal(rule(grid), wanted)


@settings(max_examples=50)
@given(seed=seeds)
def test_the_weight_of_what_a_classifier_gets_right_is_the_gain_of_its_policy(seed):
    rng = np.random.default_rng(seed)
    features, scores = np.arange(6.0)[:, None], rng.normal(size=(6, 4))
    seen = {}

    class Spy(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, sample_weight=None):
            seen.setdefault("first", (X, y, sample_weight))
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    task = LearningTask.of(features, np.arange(6), scores)
    (rule, _) = by_classification(Spy(), task)
    X, y, weights = seen["first"]
    actions = rng.integers(0, 4, 6)
    right = rule.actions[y] == actions[X[:, 0].astype(int)]
    gain = (scores[np.arange(6), actions] - scores.min(axis=1)).sum()
    whole = (scores - scores.min(axis=1, keepdims=True)).sum()
    assert weights[right].sum() / weights.sum() == pytest.approx(gain / whole)
    assert weights.sum() == pytest.approx(6)


@settings(max_examples=200)
@given(seed=seeds, n_actions=st.integers(2, 7))
def test_votes_lose_at_most_the_weight_of_pairs_decided_wrongly(seed, n_actions):
    rng = np.random.default_rng(seed)
    scores = rng.choice([rng.normal(size=n_actions), rng.integers(0, 3, n_actions)])
    pairs = list(combinations(range(n_actions), 2))
    upset = rng.random(len(pairs)) < rng.random()
    won = np.array([scores[b] > scores[a] for a, b in pairs]) ^ upset
    elected = Votes(tuple(SameForAll(float(second)) for second in won), n_actions)(np.zeros((1, 1)))[0]
    wrong = sum(abs(scores[a] - scores[b]) for (a, b), bad in zip(pairs, upset, strict=True) if bad)
    assert scores.max() - scores[elected] <= wrong + 1e-12


def test_votes_go_to_the_first_of_equals():
    circle = Votes((SameForAll(0), SameForAll(1), SameForAll(0)), 3)  # 0 beats 1, 2 beats 0, 1 beats 2
    np.testing.assert_array_equal(circle(np.zeros((2, 1))), [0, 0])


def test_pairs_are_labelled_and_weighted_by_their_difference():
    """Two actions, one feature: the best stump by hand."""
    features = np.arange(4.0)[:, None]
    scores = np.array([[0.0, 5.0], [0.0, -1.0], [0.0, 2.0], [0.0, -3.0]])
    task = LearningTask.of(features, np.arange(4), scores)
    for reduction in (by_pairs, by_classification):
        (rule,) = reduction(DecisionTreeClassifier(max_depth=1, criterion="gini", random_state=0), task)
        np.testing.assert_array_equal(rule(features), [1, 1, 1, 0])


# What estimators find


def planted(kind, contexts, *, n_actions, seed):
    """Scores under which a linear or a tree policy is the best of all maps."""
    rng = np.random.default_rng(seed)
    x = contexts.features
    if kind == "linear":
        return np.column_stack([x, np.ones(len(x))]) @ rng.normal(size=(x.shape[1] + 1, n_actions))
    leaf = 2 * (x[:, 0] > 0.2) + np.where(x[:, 0] > 0.2, x[:, 1] > -0.3, x[:, 2] > 0.4)
    best = np.array([0, 1, 2, 0])[leaf] % n_actions
    scores = rng.uniform(-2, -1, size=(len(x), n_actions))
    scores[np.arange(len(x)), best] = rng.uniform(0, 3, size=len(x))
    return scores


FINDERS = [
    ("linear", LinearRegression(), "regression", 1.0),
    ("linear", Ridge(alpha=1e-6), "regression", 0.999),
    ("linear", LogisticRegression(C=100.0, max_iter=1000), "pairs", 0.99),
    ("linear", make_pipeline(StandardScaler(), LogisticRegression(C=100.0, max_iter=1000)), CLASSIFIERS, 0.99),
    ("tree", DecisionTreeClassifier(max_depth=3), "classification", 1.0),
    ("tree", DecisionTreeClassifier(max_depth=3), "pairs", 1.0),
    ("tree", DecisionTreeRegressor(max_depth=3), "regression", 0.95),
    ("tree", GradientBoostingClassifier(n_estimators=20), "classification", 0.97),
    ("tree", GradientBoostingRegressor(n_estimators=20), "regression", 0.95),
    ("tree", KNeighborsClassifier(3), "pairs", 0.75),
]


@pytest.mark.parametrize(("truth", "estimator", "reduction", "share"), FINDERS)
def test_planted_policies_are_found(truth, estimator, reduction, share):
    contexts = plane(300)
    scores = planted(truth, contexts, n_actions=3, seed=3)
    policy = learned(estimator, reduction).argmax(contexts, scores)
    constant, best = scores.sum(axis=0).max(), scores.max(axis=1).sum()
    assert isinstance(policy, LearnedPolicy)
    assert worth(policy, contexts, scores) >= constant + share * (best - constant) - 1e-9
    fresh = plane(200, seed=9)
    actions = policy(fresh)
    assert actions.dtype == np.int64
    assert actions.shape == (200,)
    assert set(actions.tolist()) <= {0, 1, 2}


def test_two_reductions_are_as_good_as_the_better_one():
    contexts = plane(150)
    scores = np.random.default_rng(5).normal(size=(150, 4)) + planted("linear", contexts, n_actions=4, seed=5)
    found = [
        worth(learned(SMALL["pairs"], r, n_actions=4).argmax(contexts, scores), contexts, scores)
        for r in (*CLASSIFIERS, CLASSIFIERS)
    ]
    assert found[2] == pytest.approx(max(found[:2]))
    assert found[0] != pytest.approx(found[1])


def test_weights_reach_an_estimator_however_it_takes_them():
    """Nine rows that say 0 weigh less than one that says 1, at the same place but for a hair."""
    features = np.linspace(0, 1e-3, 10)[:, None]
    scores = np.zeros((10, 2))
    scores[:9, 0], scores[9, 1] = 1.0, 100.0
    contexts = Contexts.of(np.concatenate([features, features + 5]))
    scores = np.concatenate([scores, np.tile([5.0, 0.0], (10, 1))])
    stump = DecisionTreeClassifier(max_depth=1)
    for estimator in (stump, make_pipeline(StandardScaler(), stump), WithoutWeights(depth=1)):
        policy = learned(estimator, "classification", n_actions=2).argmax(contexts, scores)
        np.testing.assert_array_equal(policy(contexts), [1] * 10 + [0] * 10)


def test_a_pipeline_hands_the_weights_themselves_to_its_last_step():
    seen = []

    class Spy(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append((len(X), sample_weight))
            return super().fit(X, y, sample_weight=sample_weight)

    contexts = Contexts.of(np.arange(4.0)[:, None])
    scores = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [6.0, 0.0]])
    inner = make_pipeline(StandardScaler(), Spy())
    learned(make_pipeline(StandardScaler(), inner), "pairs", n_actions=2).argmax(contexts, scores)
    ((n, weights),) = seen
    assert n == 4
    np.testing.assert_allclose(np.sort(weights), [1 / 3, 2 / 3, 1, 2])


class WithoutWeights(ClassifierMixin, BaseEstimator):
    """A tree of which one cannot ask that examples differ in weight."""

    def __init__(self, depth=1):
        self.depth = depth

    def fit(self, X, y):
        self.tree = DecisionTreeClassifier(max_depth=self.depth, min_samples_leaf=5, random_state=0).fit(X, y)
        return self

    def predict(self, X):
        return self.tree.predict(X)


class Unlabelled:
    """Fits and predicts, and is nothing of scikit-learn's: whether it classifies it does not say."""

    def get_params(self, deep=True):
        return {}

    def set_params(self, **parameters):
        return self

    def fit(self, X, y, sample_weight=None):
        self.inner = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, y, sample_weight=sample_weight)
        return self

    def predict(self, X):
        return self.inner.predict(X)


def test_an_estimator_from_elsewhere():
    contexts = plane(80)
    scores = planted("tree", contexts, n_actions=3, seed=0)
    policy = learned(Unlabelled(), "regression").argmax(contexts, scores)
    assert worth(policy, contexts, scores) > scores.sum(axis=0).max() + 1
    with pytest.raises(InputError, match="labels from Unlabelled"):  # fractions are no labels
        learned(Unlabelled(), "pairs").argmax(contexts, np.random.default_rng(0).normal(size=(80, 3)))


# The same every time


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: make_pipeline(StandardScaler(), e)], ids=["bare", "pipeline"])
def test_the_oracle_is_deterministic(wrap):
    contexts = plane(60)
    scores = np.random.default_rng(0).normal(size=(60, 3))
    one, other = (
        learned(wrap(RandomForestClassifier(5, max_depth=2)), "classification").argmax(contexts, scores)
        for _ in range(2)
    )
    fresh = plane(300, seed=4)
    acts_alike(one, other, fresh)
    seeded = learned(wrap(RandomForestClassifier(5, max_depth=2, random_state=7)), "classification")
    assert (seeded.argmax(contexts, scores)(fresh) != one(fresh)).any()


def test_the_estimator_given_stays_as_it_was():
    estimator = RandomForestClassifier(3)
    policies = learned(estimator, "classification")
    policies.argmax(plane(20), np.random.default_rng(0).normal(size=(20, 3)))
    assert estimator.random_state is None
    assert not hasattr(estimator, "estimators_")
    estimator.set_params(n_estimators=9)
    assert policies.estimator.n_estimators == 3


@pytest.mark.parametrize("kind", SMALL)
def test_weights_and_order_of_contexts_play_no_part(kind):
    contexts = plane(40)
    scores = np.random.default_rng(0).integers(-9, 9, (40, 3)).astype(float)
    policies = small(kind)
    policy = policies.argmax(contexts, scores)
    weights = np.random.default_rng(1).dirichlet(np.ones(40))
    acts_alike(policy, policies.argmax(Contexts.of(contexts.features, weights=weights), scores), contexts)
    order = np.random.default_rng(2).permutation(40)
    acts_alike(policy, policies.argmax(contexts.take(order), scores[order]), plane(300, seed=8))
    np.testing.assert_array_equal(policy(contexts.take(order)), policy(contexts)[order])


# Nothing to learn


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize(
    ("scores", "action"),
    [
        (np.zeros((5, 3)), 0),
        (np.tile([[7.0], [1.0], [0.0], [-2.0], [1e9]], (1, 3)), 0),
        (np.tile([1.0, 4.0, 2.0], (5, 1)), 1),
        (np.tile([-1.0, -4.0, -1.0], (5, 1)), 0),
        (np.array([[0.0, 0.0, 1.0]]), 2),
        (np.full((5, 1), -3.0), 0),
        (np.array([[0.1, 0.1, 0.1 + 1e-17]] * 4 + [[0.0, 3.0, 0.0]]), 1),
    ],
    ids=["zero", "row constants", "one best", "tie", "one row", "one action", "one row that tells"],
)
def test_nothing_to_learn(kind, scores, action):
    contexts = plane(len(scores))
    policy = small(kind, n_actions=scores.shape[1]).argmax(contexts, scores)
    np.testing.assert_array_equal(policy(contexts), action)
    assert policy.describe() == f"always action {action}"
    assert policy.to_json()["root"] == {"action": action}  # a constant policy needs no estimator, and has a form


@pytest.mark.parametrize("kind", SMALL)
def test_actions_that_are_never_best_and_pairs_that_never_differ(kind):
    contexts = Contexts.of(np.arange(6.0)[:, None])
    scores = np.zeros((6, 4))
    scores[:3, 3] = scores[3:, 1] = 2.0
    scores[:, 2] = -1.0
    policy = small(kind, n_actions=4).argmax(contexts, scores)
    np.testing.assert_array_equal(policy(contexts), [3, 3, 3, 1, 1, 1])


@pytest.mark.parametrize("reduction", CLASSIFIERS)
def test_a_classifier_that_wants_two_labels_is_not_asked_about_one(reduction):
    """Action 1 is everywhere better than action 0, and action 2 is the best of some contexts."""
    contexts = Contexts.of(np.arange(8.0)[:, None])
    scores = np.tile([0.0, 1.0, 0.0], (8, 1))
    scores[6:, 2] = 9.0
    estimator = LogisticRegression(C=1e3)
    with pytest.raises(ValueError, match="at least 2 classes"):
        estimator.fit(contexts.features, np.ones(8))
    policy = learned(estimator, reduction).argmax(contexts, scores)
    np.testing.assert_array_equal(policy(contexts), [1] * 6 + [2] * 2)
    always = learned(estimator, reduction).argmax(contexts, scores[:, :2] @ np.eye(2, 3))
    assert always.describe() == "always action 1"


@pytest.mark.parametrize("largest", [1e-320, 1e308])
def test_scores_at_the_ends_of_the_range(largest):
    contexts = Contexts.of(np.arange(4.0)[:, None])
    scores = largest * np.array([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]])
    for kind in SMALL:
        np.testing.assert_array_equal(small(kind, n_actions=2).argmax(contexts, scores)(contexts), [0, 0, 1, 1])


# Features


def test_categories_become_columns_and_unknown_labels_none():
    contexts = Contexts.of(
        [[30.0, 0.0], [40.0, 2.0]], names=["age", "place"], categories=[None, ("north", "east", "south")]
    )
    encode = OneHot.learn(contexts)
    np.testing.assert_array_equal(encode(contexts), [[30, 1, 0, 0], [40, 0, 0, 1]])
    other = Contexts.of(
        [[0.0, 1.0, 50.0], [1.0, 0.0, 60.0]],
        names=["place", "extra", "age"],
        categories=[("south", "moon"), ("a", "b"), None],
    )
    np.testing.assert_array_equal(encode(other), [[50, 0, 0, 1], [60, 0, 0, 0]])
    with pytest.raises(InputError, match="lack the feature 'place'"):
        encode(Contexts.of([[1.0]], names=["age"]))
    with pytest.raises(InputError, match="'place' must hold labels"):
        encode(Contexts.of([[1.0, 2.0]], names=["age", "place"]))


@pytest.mark.parametrize("kind", SMALL)
def test_a_policy_on_a_category(kind):
    rng = np.random.default_rng(0)
    labels = ("a", "b", "c", "d")
    codes = rng.integers(0, 4, 60).astype(float)
    contexts = Contexts.of(
        np.column_stack([rng.normal(size=60), codes]), names=["x", "place"], categories=[None, labels]
    )
    scores = np.tile([0.0, -1.0, -1.0], (60, 1))
    scores[codes == 2] = [-1.0, 0.0, -1.0]  # no order of the labels would do
    policy = small(kind).argmax(contexts, scores)
    np.testing.assert_array_equal(policy(contexts), (codes == 2).astype(int))
    turned = Contexts.of(
        np.column_stack([codes == 1, np.zeros(60)]), names=["place", "x"], categories=[("c", "elsewhere"), None]
    )
    np.testing.assert_array_equal(policy(turned), (codes != 1).astype(int))


def test_an_encoding_of_ones_own():
    contexts = Contexts.finite(8)
    scores = np.zeros((8, 2))
    scores[:4, 1] = 1.0
    scores[4:, 1] = -1.0

    def number(contexts):
        return contexts.require_ids(below=8)[:, None].astype(float)

    policy = learned(SMALL["pairs"], "pairs", n_actions=2, encode=number).argmax(contexts, scores)
    np.testing.assert_array_equal(policy(contexts), [1] * 4 + [0] * 4)
    assert policy.describe().startswith("the action that wins most of 1 pair,")
    with pytest.raises(InputError, match="have no features"):
        learned(SMALL["pairs"], "pairs", n_actions=2).argmax(contexts, scores)
    for bad, words in ((lambda c: np.empty((8, 0)), "no columns"), (lambda c: np.ones(8), "shape")):
        with pytest.raises(InputError, match=words):
            learned(SMALL["pairs"], "pairs", n_actions=2, encode=bad).argmax(contexts, scores)


# Words


def test_a_small_tree_is_told_as_it_acts():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 80).astype(float)
    contexts = Contexts.of(
        np.column_stack([rng.integers(18, 80, 80), codes]), names=["age", "place"], categories=[None, ("a", "b", "c")]
    )
    best = np.where(codes == 1, 2, contexts.features[:, 0] <= 50)
    scores = np.eye(3)[best.astype(int)]
    policy = small("classification").argmax(contexts, scores)
    np.testing.assert_array_equal(policy(contexts), best)
    lines = policy.describe().splitlines()
    assert [line.strip() for line in lines[-1:]] == ["else: action 0"]
    assert lines[0] == "if place is b: action 2"
    assert lines[2].startswith("    if age ≤ 50") or lines[2].startswith("    if age ≤ 51")


@pytest.mark.parametrize(
    ("estimator", "reduction", "words"),
    [
        (Ridge(), "regression", "the action with the largest of 3 predictions, one Ridge an action"),
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            "pairs",
            "the action that wins most of 3 pairs, one LogisticRegression a pair of actions",
        ),
        (
            DecisionTreeClassifier(max_leaf_nodes=9),
            "classification",
            "the action that one DecisionTreeClassifier predicts",
        ),
    ],
)
def test_others_are_told_in_a_sentence_and_have_no_json(estimator, reduction, words):
    contexts = plane(100)
    scores = np.random.default_rng(0).normal(size=(100, 3)) + planted("linear", contexts, n_actions=3, seed=0)
    policy = learned(estimator, reduction).argmax(contexts, scores)
    assert policy.describe() == words
    with pytest.raises(InputError, match="no code is ever loaded from a file"):
        policy.to_json()


# What is refused


def test_interface():
    policies = small("pairs")
    assert isinstance(policies, PolicyClass)
    assert not policies.exact
    assert policies.log_size == 10.0
    # It does not know its own: two fits that act alike on some contexts need not elsewhere.
    assert not isinstance(policies, ClosedClass | EnumeratedClass | FrontierClass)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_actions": 0}, "n_actions must be 1 or more"),
        ({"log_size": 0.0}, "log_size must be positive and finite, got 0.0"),
        ({"log_size": math.inf}, "log_size must be positive and finite"),
        ({"log_size": math.nan}, "log_size must be positive and finite"),
        ({"reduction": ()}, "at least one reduction"),
        ({"reduction": "pair"}, "unknown reduction 'pair'; did you mean 'pairs'"),
        ({"reduction": "regression"}, "'regression' needs a regressor, and DecisionTreeClassifier is a classifier"),
        ({"reduction": ("pairs", "regression")}, "use classification or pairs"),
        ({"estimator": Ridge()}, "'pairs' needs a classifier, and Ridge is a regressor; use regression"),
        ({"estimator": DecisionTreeClassifier}, r"an instance, such as DecisionTreeClassifier\(\)"),
        ({"estimator": "tree"}, "must have get_params"),
    ],
)
def test_wrong_arguments_are_refused(change, words):
    given = {"estimator": SMALL["pairs"], "n_actions": 3, "reduction": "pairs", "log_size": 5.0} | change
    with pytest.raises(InputError, match=words):
        Learned(given.pop("estimator"), **given)


def test_wrong_scores_are_refused():
    contexts, good = plane(6), np.random.default_rng(0).normal(size=(6, 3))
    bad = good.copy()
    bad[2, 1] = np.nan
    for scores in (bad, good[:-1], good[:, :2], good[0]):
        with pytest.raises(InputError):
            small("pairs").argmax(contexts, scores)


def test_what_an_estimator_cannot_do_is_told_in_a_sentence():
    with pytest.raises(InputError, match="KNeighborsClassifier could not predict: "):
        learned(KNeighborsClassifier(50), "classification").argmax(
            plane(10), np.random.default_rng(0).normal(size=(10, 3))
        )


def test_scikit_learn_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"needs scikit-learn; pip install 'pacbandits\[learn\]'"):
        small("pairs")


# In use


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_the_constrained_oracle_keeps_its_limit(kind, share):
    contexts, rng = plane(40, d=2), np.random.default_rng(7)
    scores = rng.normal(size=(40, 3)) + planted("linear", contexts, n_actions=3, seed=1)
    budget = np.column_stack([np.zeros(40), rng.uniform(0.5, 1, 40), rng.uniform(0, 1, 40)])
    limit = share * budget.max(axis=1).sum()
    choice = relaxed_argmax(small(kind), contexts, scores, budget=budget, limit=limit)
    assert worth(choice.policy, contexts, budget) <= limit + 1e-9
    assert worth(choice.policy, contexts, scores) == pytest.approx(choice.value)
    assert choice.value > scores[:, 0].sum()  # of the action that costs nothing


@pytest.mark.parametrize("kind", SMALL)
@settings(max_examples=10)
@given(seed=seeds)
def test_an_estimator_that_can_tell_all_contexts_apart_is_exact(kind, seed):
    """The argmax against the best action of each row, the constrained one against the class of all maps."""
    rng = np.random.default_rng(seed)
    contexts = Contexts.of(rng.normal(size=(9, 2)), ids=np.arange(9))
    scores, budget = rng.normal(size=(9, 3)), rng.random((9, 3))
    policies = learned(SMALL[kind].__class__(), kind)
    np.testing.assert_array_equal(policies.argmax(contexts, scores)(contexts), scores.argmax(axis=1))
    limit = float(rng.uniform(budget.min(axis=1).sum(), budget.max(axis=1).sum()))
    mine, all_maps = (
        relaxed_argmax(p, contexts, scores, budget=budget, limit=limit) for p in (policies, Trivial(9, 3))
    )
    assert mine.value == pytest.approx(all_maps.value)
    assert mine.bound == pytest.approx(all_maps.bound)


def test_a_trial_runs_to_its_certificate():
    tree = DecisionTreeClassifier(max_depth=2)
    size = 3 * math.log(300 * 3) + 4 * math.log(3)
    policies = Learned(tree, n_actions=3, reduction="classification", log_size=size)
    done = run("trees:actions=3,features=3,contexts=300", policies, algorithm="uniform", epsilon=0.3, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.certificate is not None
    assert done.certificate.certified
    assert done.certificate.log_size == size
    assert "argmax oracle, which is not exact" in done.guarantee
    assert done.value_gap <= 0.3


def test_greedy_trees_do_not_find_more_than_the_exact_search():
    """On a grid of few values, where both may cut at the same places."""
    rng = np.random.default_rng(0)
    contexts = Contexts.of(rng.integers(0, 4, (50, 3)).astype(float))
    exact = Trees.learn(contexts, n_actions=3, depth=2)
    greedy = small("classification")
    shares = []
    for seed in range(10):
        scores = np.random.default_rng(seed).normal(size=(50, 3))
        best = worth(exact.argmax(contexts, scores), contexts, scores)
        found = worth(greedy.argmax(contexts, scores), contexts, scores)
        assert found <= best + 1e-9
        shares.append(found / best)
    assert np.mean(shares) > 0.7
