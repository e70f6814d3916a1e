"""What the reductions promise: weights, votes and counts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from instances import seeds
from pacbandits.policies.learners.reductions import (
    LearningTask,
    SameForAll,
    Votes,
    by_classification,
    by_pairs,
    by_regression,
)
from tests.examples import examples
from tests.policies.learners.cases import (
    plane,
)


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


@examples(50)
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


@examples(200)
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
