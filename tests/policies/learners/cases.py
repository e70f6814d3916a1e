"""Small estimators as policy classes, contexts and scores for them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from pacbandits.policies.learners import Learned
from pacbandits.records import Contexts
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
