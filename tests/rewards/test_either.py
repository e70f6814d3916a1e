"""The better of two models."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.rewards import Additive, Either, Regions
from tests.rewards.logs import by_region, by_sum, uniform_log


@pytest.mark.parametrize(("means", "better"), [(by_region, Regions), (by_sum, Additive)])
def test_of_two_models_the_better_one_is_kept(means, better):
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(means(x), x, seed=1)
    model = Either(Regions.learn(log.contexts), Additive.learn(log.contexts))
    assert np.array_equal(
        model.fit(log).predict(log.contexts), better.learn(log.contexts).fit(log).predict(log.contexts)
    )
