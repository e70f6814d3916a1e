"""The search for linear policies against the best there is, planted policies and itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies import Linear, LinearPolicy
from pacbandits.policies.features import Crossed, FeatureMap, Given
from pacbandits.policies.linear.policy import act, rows_of
from pacbandits.policies.linear.search import Ground
from pacbandits.records import Contexts
from tests.examples import examples
from tests.policies.linear.cases import draw_people, value, with_phi


def small_searches() -> list[tuple[Contexts, np.ndarray, int]]:
    rng = np.random.default_rng(7)
    out = []
    for _ in range(20):
        for numbers, labels, n_actions, levels in ((1, 0, 3, 3), (2, 0, 2, 4), (1, 3, 2, 2)):
            contexts = draw_people(rng, 60, numbers, labels)
            out.append((contexts, rng.normal(size=(60, n_actions)), levels))
    return out


@pytest.mark.slow
def test_the_search_finds_nearly_always_the_best() -> None:
    hits = 0
    problems = small_searches()
    for contexts, scores, levels in problems:
        n_actions = scores.shape[1]
        exact = Linear.learn(contexts, n_actions=n_actions, levels=levels)
        assert exact.exact
        rough = Linear.learn(contexts, n_actions=n_actions, levels=levels, oracle="search")
        best = value(exact.argmax(contexts, scores), contexts, scores)
        found = value(rough.argmax(contexts, scores), contexts, scores)
        assert found <= best + 1e-9
        hits += found >= best - 1e-9
    assert hits >= 0.95 * len(problems)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["blocks", "given"])
def test_the_search_recovers_planted_policies(kind: str) -> None:
    recovered = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        contexts = draw_people(rng, 400, 3) if kind == "blocks" else with_phi(rng.normal(size=(400, 4, 8)))
        policies = Linear.learn(contexts, n_actions=4, levels=2, oracle="search")
        theta = rng.integers(-2, 3, policies.map.dimension)
        planted = LinearPolicy(policies.map, tuple(theta.tolist()))(contexts)
        scores = np.zeros((400, 4))
        scores[np.arange(400), planted] = rng.random(400)
        found = policies.argmax(contexts, scores)
        assert value(found, contexts, scores) >= 0.98 * scores.sum()
        recovered += (found(contexts) == planted).all()
    assert recovered >= 7


@pytest.mark.thorough
@examples(40)
@given(st.integers(0, 2**32))
def test_the_search_is_never_worse_than_one_action(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(1, 6))
    contexts = draw_people(rng, int(rng.integers(1, 40)), int(rng.integers(1, 4)), int(rng.choice([0, 2, 4])))
    policies = Linear.learn(contexts, n_actions=n_actions, levels=int(rng.integers(1, 4)), oracle="search")
    scores = rng.normal(size=(len(contexts), n_actions)) + 3 * rng.normal(size=n_actions)
    assert value(policies.argmax(contexts, scores), contexts, scores) >= scores.sum(axis=0).max() - 1e-9


@pytest.mark.parametrize("levels", [1, 20])
@pytest.mark.parametrize("kind", ["relative", "blocks", "last without", "shared", "given"])
def test_constant_policies_are_known_before_any_search(levels: int, kind: str) -> None:
    """Each action that some direction of its own features singles out can be taken always."""
    contexts = draw_people(np.random.default_rng(0), 50, 2)
    table = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.1], [-1.0, -1.0, 0.0], [0.0, 0.1, 1.0]])
    maps: dict[str, FeatureMap] = {
        "relative": Crossed.blocks(contexts, n_actions=4, relative=True),
        "blocks": Crossed.blocks(contexts, n_actions=4),
        "last without": Crossed.shared(contexts, np.eye(4)[:, :3]),
        "shared": Crossed.shared(contexts, table),
        "given": Given(4, 3),
    }
    features = maps[kind]
    if kind == "given":
        noise = 0.01 * np.random.default_rng(1).normal(size=(50, 4, 3))
        contexts = with_phi(table + noise)
    ground = Ground.of(rows_of(features, contexts), levels=levels)
    always = {int(row[0]) for row in ground.actions if (row == row[0]).all()}
    assert always == {0, 1, 2, 3}
    np.testing.assert_array_equal(ground.actions, [act(ground.rows, theta) for theta in ground.pool])
    assert np.abs(ground.pool).max() <= levels


def test_the_search_ignores_what_is_added_to_a_row() -> None:
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 200, 4)
    policies = Linear.learn(contexts, n_actions=4, oracle="search")
    scores = rng.integers(-5, 6, (200, 4)).astype(float)
    shifted = scores + rng.integers(-50, 50, (200, 1))
    assert policies.argmax(contexts, scores).parameter == policies.argmax(contexts, shifted).parameter
    assert policies.argmax(contexts, scores * 2.0**-700).parameter == policies.argmax(contexts, scores).parameter


@pytest.mark.thorough
def test_equal_scores_give_equal_policies() -> None:
    """Whatever was asked before."""
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 5000, 3)
    scores, other = rng.normal(size=(2, 5000, 3))
    once = Linear.learn(contexts, n_actions=3, oracle="search")
    first = once.argmax(contexts, scores)
    once.argmax(contexts, other)
    again = Linear.learn(contexts, n_actions=3, oracle="search").argmax(contexts.take(np.arange(5000)), scores)
    assert once.argmax(contexts, scores).parameter == first.parameter == again.parameter


@pytest.mark.thorough
def test_many_rows_are_sampled_and_then_polished() -> None:
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 9000, 3)
    policies = Linear.learn(contexts, n_actions=3, levels=2, oracle="search")
    theta = rng.integers(-2, 3, policies.map.dimension)
    planted = LinearPolicy(policies.map, tuple(theta.tolist()))(contexts)
    scores = rng.normal(size=(9000, 3)) * 0.1
    scores[np.arange(9000), planted] += 1.0
    found = policies.argmax(contexts, scores)
    assert value(found, contexts, scores) >= scores[np.arange(9000), planted].sum() * 0.99
