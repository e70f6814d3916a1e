"""Cell means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards import CellMeans
from pacbandits.rewards.base import action_means
from tests.rewards.logs import draw


def test_cell_means_by_hand():
    contexts = Contexts.of(np.empty((4, 0)), ids=[7, 7, 7, 2])
    propensities = np.full((4, 3), 1 / 3)
    log = Log.of(contexts, actions=[0, 0, 1, 0], rewards=[1, 0, 1, 1], propensities=propensities, repeats=[3, 1, 2, 4])
    overall = (9 + 0.5) / (10 + 1)
    means = np.array([(7 + 2 * overall) / (8 + 2), (2 + 2 * overall) / (2 + 2), overall])
    assert action_means(log) == pytest.approx(means)
    fitted = CellMeans(strength=4).fit(log)
    found = fitted.predict(Contexts.of(np.empty((3, 0)), ids=[7, 2, 100]))
    wanted = [(3 + 4 * means[0]) / 8, (2 + 4 * means[1]) / 6, means[2]]
    assert found[0] == pytest.approx(wanted)
    assert found[1] == pytest.approx([(4 + 4 * means[0]) / 8, means[1], means[2]])
    assert found[2] == pytest.approx(means)  # a context that was never seen
    assert fitted.predict(Contexts.of(np.empty((2, 0)), ids=[0, 5])) == pytest.approx(np.tile(means, (2, 1)))


def test_cell_means_need_ids():
    log = draw(0)
    bare = replace(log, contexts=replace(log.contexts, ids=None))
    with pytest.raises(InputError, match="needs contexts with ids"):
        CellMeans().fit(bare)
    with pytest.raises(InputError, match="no ids"):
        CellMeans().fit(log).predict(bare.contexts)
