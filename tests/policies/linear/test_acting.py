"""What linear policies do: sums in one order, and rows that are alike kept once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies import LinearPolicy
from pacbandits.policies.features import Crossed, FeatureMap, Given
from pacbandits.policies.linear.policy import act, act_all, rows_of
from pacbandits.records import Contexts
from tests.examples import examples
from tests.policies.linear.cases import plain_actions, with_phi


@pytest.mark.thorough
@given(st.integers(0, 2**32), st.sampled_from(["blocks", "shared", "given"]))
@examples(60)
def test_all_kernels_add_up_in_the_same_order(seed: int, kind: str) -> None:
    """Also where ties are decided by the last bit: features are multiples of 0.1 here, which no double is."""
    rng = np.random.default_rng(seed)
    n, n_actions = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    tenths = rng.integers(-3, 4, (n, 2)) / 10
    contexts = Contexts.of(tenths, phi=rng.integers(-3, 4, (n, n_actions, 3)) / 10)
    features: FeatureMap = Given(n_actions, 3)
    if kind == "blocks":
        features = Crossed.blocks(contexts, n_actions=n_actions, relative=True)
    if kind == "shared":
        features = Crossed.shared(contexts, rng.integers(-3, 4, (n_actions, 2)) / 10)
    rows, phi = rows_of(features, contexts), features(contexts)
    parameters = rng.integers(-3, 4, (6, features.dimension))
    wanted = np.array([plain_actions(phi, theta) for theta in parameters])
    np.testing.assert_array_equal(rows.spread_out(act_all(rows, parameters)), wanted)
    for theta, actions in zip(parameters, wanted, strict=True):
        np.testing.assert_array_equal(rows.spread_out(act(rows, theta)), actions)


def test_rows_that_are_alike_are_kept_once() -> None:
    labels = Contexts.of(np.arange(50)[:, None] % 3, categories=[("a", "b", "c")])
    assert len(rows_of(Crossed.blocks(labels, n_actions=2), labels)) == 3
    some = with_phi(np.random.default_rng(0).normal(size=(4, 2, 3))).take([3, 1, 1, 3, 3])
    rows = rows_of(Given(2, 3), some)
    assert len(rows) == 2
    policy = LinearPolicy(Given(2, 3), (1, -1, 2))
    np.testing.assert_array_equal(policy(some), policy(with_phi(Given(2, 3)(some))))
