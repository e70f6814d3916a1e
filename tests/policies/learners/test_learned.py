"""Estimators as policy classes: what argmax promises, and what is left when there is nothing to learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from instances import seeds
from pacbandits.errors import InputError
from pacbandits.policies import PolicyClass
from pacbandits.policies.learners import Learned
from pacbandits.records import Contexts
from tests.examples import examples
from tests.policies.learners.cases import (
    CLASSIFIERS,
    SMALL,
    acts_alike,
    awkward,
    kinds,
    learned,
    plane,
    small,
    worth,
)


@examples(60)
@given(kind=kinds, seed=seeds, whole=st.booleans())
def test_no_constant_policy_is_better(kind, seed, whole):
    contexts, scores = awkward(seed, whole=whole)
    policy = small(kind, n_actions=scores.shape[1]).argmax(contexts, scores)
    assert worth(policy, contexts, scores) >= scores.sum(axis=0).max() - 1e-9


@pytest.mark.thorough
@examples(40)
@given(kind=kinds, seed=seeds, power=st.sampled_from([-900, -3, 4, 900]))
def test_only_differences_between_the_actions_of_a_row_count(kind, seed, power):
    """Whole scores and shifts, and factors that are powers of two, so that nothing is rounded."""
    contexts, scores = awkward(seed, whole=True)
    shifts = np.random.default_rng(seed + 1).integers(-50, 50, (len(contexts), 1))
    policies = small(kind, n_actions=scores.shape[1])
    one = policies.argmax(contexts, scores)
    acts_alike(one, policies.argmax(contexts, scores + shifts), contexts)
    acts_alike(one, policies.argmax(contexts, np.ldexp(scores, power)), contexts)


@examples(40)
@given(kind=st.sampled_from(CLASSIFIERS), seed=seeds)
def test_repeated_contexts_count_as_their_sum(kind, seed):
    contexts, scores = awkward(seed, whole=True)
    _, first, which = np.unique(contexts.features, axis=0, return_index=True, return_inverse=True)
    sums = np.zeros((len(first), scores.shape[1]))
    np.add.at(sums, which.reshape(-1), scores)
    policies = small(kind, n_actions=scores.shape[1])
    acts_alike(policies.argmax(contexts, scores), policies.argmax(contexts.take(first), sums), contexts)


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


# What is refused


def test_interface():
    policies = small("pairs")
    assert isinstance(policies, PolicyClass)
    assert not policies.exact
    assert policies.log_size == 10.0
    # It does not know its own: two fits that act alike on some contexts need not elsewhere.
    assert not any(getattr(policies, capability) for capability in PolicyClass.flags)


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
