"""An estimator of the user's own for each action."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.rewards import PerAction
from pacbandits.rewards.base import action_means
from tests.rewards.logs import Line, draw


def test_per_action_fits_a_copy_for_each_action():
    log = draw(4)
    estimator = Line()
    found = PerAction(estimator, least=3).fit(log).predict(log.contexts)
    assert estimator.seen == 0
    for action in (0, 1):
        mine = log.actions == action
        rows = np.repeat(np.flatnonzero(mine), log.repeats[mine])
        own = Line().fit(log.contexts.features[rows], log.rewards[rows])
        np.testing.assert_allclose(found[:, action], np.clip(own.predict(log.contexts.features), 0.02, 0.98))
    assert found[:, 2] == pytest.approx(action_means(log)[2])


def test_per_action_takes_the_mean_of_what_was_seen_too_seldom():
    log = draw(5)
    seen = np.bincount(log.actions, weights=log.repeats, minlength=3)
    for least in (int(seen[0]), int(seen[0]) + 1):
        found = PerAction(Line(), least=least).fit(log).predict(log.contexts)
        assert (np.unique(found[:, 0]).size == 1) == (seen[0] < least)
    found = PerAction(Line(), least=10**6).fit(log).predict(log.contexts)
    np.testing.assert_allclose(found, np.tile(action_means(log), (len(log), 1)))
