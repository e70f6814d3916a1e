"""Pair designs: propensities on any contexts, against a direct computation of the closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from pacbandits.errors import InputError
from pacbandits.paper.pairs import PairDesign
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts


def direct(table: np.ndarray, pairs: np.ndarray, weights: np.ndarray, n_actions: int) -> np.ndarray:
    """x_{c,a} = Σ κ · 1{exactly one of π(c), π'(c) is a}, as the formula reads."""
    mass = np.zeros((table.shape[1], n_actions))
    for (i, j), weight in zip(pairs, weights, strict=True):
        for c in range(table.shape[1]):
            for a in range(n_actions):
                mass[c, a] += weight * ((table[i, c] == a) != (table[j, c] == a))
    return mass


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 0.3, 1.0]))
def test_propensities_are_the_closed_form_and_respect_the_floor(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    n_actions, n, size, m = (int(x) for x in rng.integers(1, [6, 7, 7, 9]))
    policies = Finite(rng.integers(n_actions, size=(size, n)), n_actions=n_actions)
    pairs = rng.integers(size, size=(m, 2))
    weights = rng.exponential(size=m) * rng.integers(0, 2, size=m) * 10.0 ** rng.integers(-6, 7)
    design = PairDesign(tuple(policies.policy(i) for i in range(size)), pairs, weights, floor=share / n_actions)
    propensities = design.propensities(Contexts.finite(n))
    assert propensities.shape == (n, n_actions)
    assert np.allclose(propensities.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert propensities.min() >= share / n_actions
    if share == 0:
        root = np.sqrt(direct(policies.table, pairs, weights, n_actions))
        total = root.sum(axis=1, keepdims=True)
        expected = np.where(total > 0, root / np.where(total > 0, total, 1), 1 / n_actions)
        assert np.allclose(propensities, expected, rtol=1e-9, atol=1e-12)


class AtLeast:
    """A policy on features: plays `action` when the feature is at least a threshold, else 0."""

    n_actions = 3

    def __init__(self, threshold: float, action: int) -> None:
        self.threshold, self.action = threshold, action
        self.calls = 0

    def __call__(self, contexts: Contexts) -> np.ndarray:
        self.calls += 1
        return np.where(contexts.features[:, 0] >= self.threshold, self.action, 0)

    def describe(self) -> str:
        return "a threshold"

    def to_json(self) -> dict[str, Any]:
        return {}


def test_propensities_on_contexts_never_seen() -> None:
    support = (AtLeast(1, 1), AtLeast(2, 2), AtLeast(9, 1))
    design = PairDesign(support, pairs=[[0, 2], [1, 2], [0, 1]], weights=[4.0, 1.0, 0.0])
    propensities = design.propensities(Contexts.of([[0.0], [1.0], [2.0], [1e6]]))
    root5 = np.sqrt(5.0)
    assert propensities[0].tolist() == [1 / 3, 1 / 3, 1 / 3]
    assert propensities[1] == pytest.approx([0.5, 0.5, 0.0])
    assert propensities[2] == pytest.approx(np.array([root5, 2, 1]) / (root5 + 3))
    assert propensities[3] == pytest.approx([0.0, 0.5, 0.5])
    assert [policy.calls for policy in support] == [1, 1, 1]


def test_many_contexts_are_each_treated_alike() -> None:
    design = PairDesign((AtLeast(1, 1), AtLeast(2, 2)), pairs=[[0, 1]], weights=[1.0], floor=0.1)
    features = np.tile([[0.0], [1.0], [2.0]], (700, 1))
    expected = np.tile(design.propensities(Contexts.of([[0.0], [1.0], [2.0]])), (700, 1))
    assert np.array_equal(design.propensities(Contexts.of(features)), expected)


def test_no_pairs_are_played_uniformly() -> None:
    policy = Finite([[0, 1]], n_actions=4).policy(0)
    design = PairDesign((policy,), pairs=np.empty((0, 2), dtype=np.int64), weights=np.empty(0))
    assert np.array_equal(design.propensities(Contexts.finite(2)), np.full((2, 4), 0.25))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"support": ()}, "has no policies"),
        ({"support": (AtLeast(0, 1), Finite([[0]], n_actions=2).policy(0))}, "same number of actions"),
        ({"pairs": [[0, 2]]}, "pairs must be between 0 and 1, got 2"),
        ({"pairs": [0, 1]}, r"pairs must have shape \(1, 2\), got \(2,\)"),
        ({"weights": [1.0, 2.0]}, r"pairs must have shape \(2, 2\), got \(1, 2\)"),
        ({"weights": [-1.0]}, "pair weights must not be negative"),
        ({"weights": [np.nan]}, "pair weights must be finite"),
        ({"floor": 0.6}, "floor must lie between 0 and 1/2"),
        ({"floor": np.nan}, "floor must lie between 0 and 1/2"),
    ],
)
def test_refuses_what_does_not_fit(changes: dict[str, Any], message: str) -> None:
    policies = Finite([[0], [1]], n_actions=2)
    parts: dict[str, Any] = {
        "support": (policies.policy(0), policies.policy(1)),
        "pairs": [[0, 1]],
        "weights": [1.0],
    }
    with pytest.raises(InputError, match=message):
        PairDesign(**(parts | changes))
