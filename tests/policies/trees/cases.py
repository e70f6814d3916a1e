"""Contexts, scores and a tree that the tests of trees share."""

from __future__ import annotations

import numpy as np

from pacbandits.policies import TreePolicy
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreeSplit
from pacbandits.records import Contexts


def larger(seed: int = 0, *, n: int = 400, n_actions: int = 4) -> tuple[Contexts, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 4, n)])
    contexts = Contexts.of(
        features, names=["age", "dose", "load", "region"], categories=[None, None, None, ("n", "e", "s", "w")]
    )
    first = np.tanh(features[:, :3] @ rng.normal(size=(3, n_actions))) + (features[:, 3:] == np.arange(n_actions))
    return contexts, first, -first + 0.2 * rng.normal(size=(n, n_actions))


def same_front(one: object, other: object) -> None:
    np.testing.assert_array_equal(one.first, other.first)
    np.testing.assert_array_equal(one.second, other.second)
    assert one.exact == other.exact
    assert [one.policy(i) for i in range(len(one))] == [other.policy(i) for i in range(len(other))]


TREE = TreePolicy(
    root=TreeSplit(AtMost("age", 34.5), TreeSplit(Is("region", "north"), 2, 0), 1),
    n_actions=3,
)
