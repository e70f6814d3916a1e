"""Features as estimators see them: categories become columns, and an encoding may be one's own."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies.learners import OneHot
from pacbandits.records import Contexts
from tests.policies.learners.cases import (
    SMALL,
    learned,
    small,
)


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
