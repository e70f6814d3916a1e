"""Sums of steps."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards import Additive
from pacbandits.rewards.base import action_means
from tests.rewards.logs import LABELS, draw


def test_additive_by_hand():
    """One number cut at 0 and one category: ridge regression on what remains of the action's mean."""
    log = draw(3, n=60)
    model = Additive(((0.0,), 3), strength=2.0)
    found = model.fit(log).predict(log.contexts)
    x, place = log.contexts.features.T
    steps = np.column_stack([x <= 0, x > 0, place == 0, place == 1, place == 2]).astype(float)
    means = action_means(log)
    for action in (0, 1):
        mine = log.actions == action
        rows = np.repeat(np.flatnonzero(mine), log.repeats[mine])
        padded = np.vstack([steps[rows], np.sqrt(2.0) * np.eye(5)])
        target = np.concatenate([log.rewards[rows] - means[action], np.zeros(5)])
        slope = np.linalg.lstsq(padded, target, rcond=None)[0]
        np.testing.assert_allclose(found[:, action], np.clip(means[action] + steps @ slope, 0.02, 0.98), atol=1e-9)
    np.testing.assert_allclose(found[:, 2], np.clip(means[2], 0.02, 0.98))


def test_additive_finds_an_additive_truth_and_takes_any_context():
    rng = np.random.default_rng(0)
    contexts = Contexts.of(
        np.column_stack([rng.normal(size=20_000), rng.integers(3, size=20_000)]), categories=[None, LABELS]
    )
    x, place = contexts.features.T
    means = np.column_stack([0.3 + 0.2 * (x > 0) + 0.1 * place, 0.5 - 0.1 * place])
    actions = rng.integers(2, size=len(contexts))
    rewards = rng.random(len(contexts)) < means[np.arange(len(contexts)), actions]
    log = Log.of(contexts, actions=actions, rewards=rewards, propensities=np.full((len(contexts), 2), 0.5))
    model = Additive.learn(contexts)
    fitted = model.fit(log)
    assert np.abs(fitted.predict(contexts) - means).mean() < 0.03
    # Far outside what was seen, and a label that the log does not have.
    assert fitted.predict(Contexts.of([[1e9, 0.0], [-1e9, 2.0]], categories=[None, LABELS])).shape == (2, 2)
    few = log.only(place < 2)
    unseen = model.fit(few).predict(Contexts.of([[0.5, 2.0]], categories=[None, LABELS]))
    assert ((unseen > 0.02) & (unseen < 0.98)).all()


def test_additive_refuses_other_features():
    log = draw(0)
    fitted = Additive.learn(log.contexts).fit(log)
    with pytest.raises(InputError, match="the model is of 2 features, but the contexts have 1"):
        fitted.predict(Contexts.of([[1.0]]))


def test_additive_cuts_fewer_steps_of_many_features():
    rng = np.random.default_rng(0)
    for d in (1, 25, 100, 600):
        model = Additive.learn(Contexts.of(rng.normal(size=(50, d))))
        assert len(model.cuts) == d
        assert all(not isinstance(c, int) and 1 <= len(c) <= 15 for c in model.cuts)
        assert sum(len(c) + 1 for c in model.cuts) <= max(400, 2 * d)


@pytest.mark.parametrize("labels", [("north", "south"), None])
def test_additive_on_contexts_that_do_not_know_all_labels(labels):
    """A sentence; not an error of matrix shapes."""
    log = draw(0)
    fitted = Additive.learn(log.contexts).fit(log)
    contexts = Contexts.of([[0.0, 1.0]], names=["x", "place"], categories=[None, labels])
    with pytest.raises(InputError, match="feature 'place' has other labels than those the model was made for"):
        fitted.predict(contexts)
