"""What was seen nearby."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards import Additive, Constant, Neighbours, Regions, model_from_json
from pacbandits.rewards.base import action_means
from pacbandits.rewards.neighbours import MIN_ANCHORS, anchor_limit
from tests.rewards.logs import LABELS, draw, error, uniform_log


def by_ring(x):
    """Two actions that change places at a distance from the middle, which neither few regions nor sums can tell."""
    far = np.hypot(x[:, 0], x[:, 1]) > 1.2
    wave = 0.35 * np.sin(4 * x[:, 0] * x[:, 1])
    return np.column_stack([np.where(far, 0.6, 0.4) + wave, np.where(far, 0.4, 0.6) - wave])


def likeness_by_hand(one, other, log):
    """Of contexts with a number and a category."""
    x = log.contexts.features[:, 0]
    mean = np.average(x, weights=log.repeats)
    deviation = np.sqrt(np.average((x - mean) ** 2, weights=log.repeats))
    square = ((one[0] - other[0]) / deviation) ** 2 + 2.0 * (one[1] != other[1])
    return 0.5 * np.exp(-np.sqrt(square / 2)) + 0.5 * np.exp(-square)


def test_neighbours_by_hand():
    """Kriging of what remains of the action's mean: of contexts that differ, each with its rows' mean and number."""
    log = draw(3, n=60)
    strength = 2.0
    found = Neighbours((strength,)).fit(log).predict(log.contexts)
    means, features = action_means(log), log.contexts.features
    for action in (0, 1):
        mine = log.actions == action
        places = np.unique(features[mine], axis=0)
        here = [mine & (features == place).all(axis=1) for place in places]
        counts = np.array([log.repeats[rows].sum() for rows in here])
        seen = np.array([np.average(log.rewards[rows], weights=log.repeats[rows]) for rows in here]) - means[action]
        among = np.array([[likeness_by_hand(one, other, log) for other in places] for one in places])
        weights = np.linalg.solve(among + np.diag(strength / counts), seen)
        asked = np.array([[likeness_by_hand(one, other, log) for other in places] for one in features])
        np.testing.assert_allclose(found[:, action], np.clip(means[action] + asked @ weights, 0.02, 0.98), atol=1e-5)
    np.testing.assert_allclose(found[:, 2], np.clip(means[2], 0.02, 0.98))


def test_neighbours_find_what_regions_and_sums_do_not():
    x = np.random.default_rng(0).normal(size=(6000, 2))
    means = by_ring(x)
    log = uniform_log(means[:4000], x[:4000], seed=1)
    new = Contexts.of(x[4000:])
    found = error(Neighbours().fit(log), new, means[4000:])
    for other in (Regions.learn(log.contexts), Additive.learn(log.contexts)):
        assert found < 0.7 * error(other.fit(log), new, means[4000:])
    assert found < 0.65 * error(Constant(action_means(log)), new, means[4000:])


def test_the_strength_follows_the_noise():
    """Coin flips that depend on nothing are pulled to their mean, rewards without noise are remembered."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3))[rng.integers(300, size=2000)]
    noise = uniform_log(np.full((2000, 2), 0.5), x, seed=3)
    assert np.abs(Neighbours().fit(noise).predict(noise.contexts) - 0.5).max() < 0.15
    assert np.abs(Neighbours((0.05,)).fit(noise).predict(noise.contexts) - 0.5).max() > 0.3
    sure = (by_ring(x) > 0.5).astype(float)
    told = uniform_log(sure, x, seed=4)
    remembered = error(Neighbours().fit(told), told.contexts, sure)
    assert remembered < 0.08 < 0.3 * error(Neighbours((20.0,)).fit(told), told.contexts, sure)


@pytest.mark.thorough
def test_of_many_contexts_some_are_anchors_whatever_the_order_of_rows():
    x = np.random.default_rng(0).normal(size=(2500, 2))
    log = uniform_log(by_ring(x), x, seed=1)
    limit = anchor_limit(len(log), n_actions=2)
    model = Neighbours((1.0,))
    fitted = model.fit(log)
    assert limit < len(fitted.anchors) <= 2 * limit < len(log)
    order = np.random.default_rng(1).permutation(len(log))
    np.testing.assert_allclose(
        model.fit(log.take(order)).predict(log.contexts), fitted.predict(log.contexts), atol=1e-9
    )
    # The rows of other contexts count: without them the predictions are worse.
    few = log.take(np.arange(2 * limit))
    assert error(fitted, log.contexts, by_ring(x)) < 0.9 * error(model.fit(few), log.contexts, by_ring(x))


@pytest.mark.parametrize(("rows", "n_actions"), [(1, 1), (10_000, 10), (10**5, 16), (10**9, 2), (100, 10**6)])
def test_the_work_of_a_fit_is_bounded(rows, n_actions):
    limit = anchor_limit(rows, n_actions=n_actions)
    assert limit == MIN_ANCHORS or (rows * limit**2 <= 2.5e9 and n_actions * limit**3 <= 6e8)
    assert limit >= MIN_ANCHORS


def test_predictions_do_not_depend_on_what_else_is_asked():
    log = draw(5)
    fitted = Neighbours().fit(log)
    whole = fitted.predict(log.contexts)
    order = np.random.default_rng(0).permutation(len(log))
    np.testing.assert_allclose(fitted.predict(log.contexts.take(order)), whole[order], atol=1e-12)
    np.testing.assert_allclose(fitted.predict(log.contexts.take([7])), whole[[7]], atol=1e-12)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e-320, 5.0])
def test_odd_numbers_are_far_away_or_do_not_count(value):
    """A feature that never varies says nothing, one beyond all measure neither; none of them is an error."""
    log = draw(1)
    features = log.contexts.features.copy()
    features[:, 0] = value
    features[0, 0] *= -1.0 if abs(value) > 1e300 else 1.0
    odd = replace(log, contexts=replace(log.contexts, features=features))
    for asked in (odd.contexts, log.contexts):
        found = Neighbours().fit(odd).predict(asked)
        assert ((found >= 0.02) & (found <= 0.98)).all()
    assert np.isfinite(Neighbours().fit(log).predict(odd.contexts)).all()


def test_contexts_nearer_than_rounding():
    x = 1.0 + 1e-15 * np.arange(40)[:, None] % 3e-15
    log = uniform_log(np.full((40, 2), 0.5), np.hstack([x, np.arange(40)[:, None] % 2]), seed=0)
    assert np.isfinite(Neighbours((1e-9,)).fit(log).predict(log.contexts)).all()


def test_as_many_repeats_as_can_be_counted():
    log = draw(0)
    many = replace(log, repeats=log.repeats * 10**15)
    assert np.isfinite(Neighbours().fit(many).predict(log.contexts)).all()


def test_neighbours_refuse_other_features():
    log = draw(0)
    fitted = Neighbours().fit(log)
    with pytest.raises(InputError, match="the model is of 2 features, but the contexts have 1"):
        fitted.predict(Contexts.of([[1.0]]))
    other = Contexts.of([[0.0, 1.0]], names=["x", "place"], categories=[None, LABELS[:2]])
    with pytest.raises(InputError, match="feature 'place' has other labels than those the model was made for"):
        fitted.predict(other)


@pytest.mark.parametrize(
    ("strengths", "message"),
    [
        ([], "must be a list with a length between 1 and 8, got 0 entries"),
        ([1.0] * 9, "must be a list with a length between 1 and 8, got 9 entries"),
        ([0.0], "of 1e-09 or more, got 0.0"),
        ([1.0, 1e10], "must be at most 1e\\+09"),
        ([True], "must be a number, got true"),
        (2.0, "must be a list, got 2.0"),
    ],
)
def test_damaged_strengths_are_refused(strengths, message):
    with pytest.raises(InputError, match=message):
        model_from_json({"kind": "neighbours", "strengths": strengths})
    with pytest.raises(InputError, match="'pull', which means nothing here"):
        model_from_json({"kind": "neighbours", "strengths": [1.0], "pull": 2})


def test_an_action_played_in_one_context_only():
    log = Log.of(
        Contexts.of([[0.0], [1.0], [2.0]]), actions=[0, 1, 1], rewards=[1, 0, 1], propensities=np.full((3, 2), 0.5)
    )
    found = Neighbours((1.0,)).fit(log).predict(log.contexts)
    assert found[0, 0] > found[2, 0] > action_means(log)[0]  # what is seen carries, the less the farther
    assert found[1, 1] < found[2, 1]
