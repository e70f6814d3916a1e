"""A log sorted into cells holds the same rows, and finds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import seeds
from pacbandits.paper.estimators import Cells
from pacbandits.records import Contexts, Log


@pytest.mark.parametrize("with_ids", [True, False])
@given(seed=seeds)
@examples(30)
def test_every_row_is_in_its_cell(seed, with_ids):
    rng = np.random.default_rng(seed)
    n, n_actions = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    features = rng.integers(3, size=(n, 2)).astype(float)
    ids = (features @ [3, 1]).astype(int)
    log = Log.of(
        Contexts.of(features, ids=ids if with_ids else None),
        actions=rng.integers(n_actions, size=n),
        rewards=rng.random(n),
        propensities=rng.dirichlet(np.ones(n_actions), size=n) * 0.9 + 0.1 / n_actions,
        repeats=rng.integers(1, 9, size=n),
    )
    cells = Cells.of(log)
    assert cells.samples == log.samples
    assert len(cells.contexts) == len(np.unique(ids))
    assert cells.starts[0] == 0
    assert cells.starts[-1] == n
    seen = 0
    for c in range(len(cells.contexts)):
        here = (features == cells.contexts.features[c]).all(axis=1)
        for a in range(n_actions):
            rows = slice(cells.starts[c * n_actions + a], cells.starts[c * n_actions + a + 1])
            want = here & (log.actions == a)
            assert np.array_equal(cells.rewards[rows], log.rewards[want])
            assert np.array_equal(cells.repeats[rows], log.repeats[want])
            assert np.array_equal(cells.propensities[rows], log.propensities[want, a])
            seen += want.sum()
    assert seen == n
