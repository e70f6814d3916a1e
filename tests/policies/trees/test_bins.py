"""Bins: where features are cut, and what the tests between them say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies import Bins
from pacbandits.policies.trees.bins import cut
from pacbandits.policies.trees.tree_policy import Is
from pacbandits.records import Contexts


def test_cuts_fall_between_values_and_respect_weights() -> None:
    equal = np.full(4, 0.25)
    assert cut(np.array([3.0, 1.0, 1.0, 2.0]), equal, bins=3) == (1.5, 2.5)
    assert cut(np.array([7.0] * 4), equal, bins=3) == ()
    assert cut(np.arange(8.0), np.full(8, 1 / 8), bins=4) == (1.5, 3.5, 5.5)
    # The weight sits on the first four values, and so do the cuts.
    weights = np.array([0.24] * 4 + [0.01] * 4)
    assert cut(np.arange(8.0), weights, bins=4) == (0.5, 1.5, 2.5)
    # A value most rows share gets a bin of its own.
    values_ = np.concatenate([np.linspace(-1, -0.5, 20), np.zeros(900), np.linspace(1, 2, 80)])
    thresholds = cut(values_, np.full(1000, 1e-3), bins=8)
    assert thresholds == (-0.25, 0.5)
    # Between neighbouring floats the lower one is the threshold.
    low, high = 1.0, np.nextafter(1.0, 2.0)
    assert cut(np.array([low, high]), np.full(2, 0.5), bins=2) == (low,)
    huge = np.finfo(float).max
    assert cut(np.array([-huge, huge]), np.full(2, 0.5), bins=2) == (0.0,)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.integers(2, 9))
def test_codes_are_what_the_tests_say(column: list[float], bins: int) -> None:
    contexts = Contexts.of(np.array(column)[:, None])
    learned = Bins.learn(contexts, bins=bins)
    assert learned.n_splits <= bins - 1
    assert (learned.n_splits == 0) == (len(set(column)) == 1)
    if len(set(column)) <= bins:
        assert learned.n_splits == len(set(column)) - 1
    # The thresholds themselves go left.
    thresholds = [t for feature in learned.features for t in feature.thresholds]
    for asked in (contexts, Contexts.of(np.array([*thresholds, 0.0])[:, None])):
        codes = learned.encode(asked)
        for split in range(learned.n_splits):
            np.testing.assert_array_equal(codes[:, 0] <= split, learned.test(split)(asked))


def test_splits_of_categories() -> None:
    features = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 2.0]])
    contexts = Contexts.of(features, names=["one", "two", "three"], categories=[["a"], ["a", "b"], ["a", "b", "c"]])
    bins = Bins.learn(contexts)
    assert [f.n_splits for f in bins.features] == [1, 3]
    assert [bins.test(i) for i in range(4)] == [Is("two", "a"), *(Is("three", x) for x in "abc")]
