"""Learned policies in words."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pacbandits.errors import InputError
from pacbandits.records import Contexts
from tests.policies.learners.cases import (
    learned,
    plane,
    planted,
    small,
)


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
