"""What estimators find, and how they are handled: weights, pipelines, seeds, and estimators from elsewhere."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pacbandits.errors import InputError
from pacbandits.policies.learners import LearnedPolicy
from pacbandits.records import Contexts
from tests.policies.learners.cases import (
    CLASSIFIERS,
    SMALL,
    acts_alike,
    learned,
    plane,
    planted,
    small,
    worth,
)

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


@pytest.mark.first(7)
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


def test_what_an_estimator_cannot_do_is_told_in_a_sentence():
    with pytest.raises(InputError, match="KNeighborsClassifier could not predict: "):
        learned(KNeighborsClassifier(50), "classification").argmax(
            plane(10), np.random.default_rng(0).normal(size=(10, 3))
        )


def test_scikit_learn_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"needs scikit-learn; pip install 'pacbandits\[learn\]'"):
        small("pairs")
