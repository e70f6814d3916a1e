"""Regions that a tree cuts out."""

from __future__ import annotations

import numpy as np

from pacbandits.rewards import Additive, Regions
from tests.rewards.logs import LABELS, by_region, error, uniform_log


def test_regions_find_what_depends_on_two_features_together():
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(by_region(x), x, seed=1)
    regions = Regions.learn(log.contexts).fit(log)
    assert error(regions, log.contexts, by_region(x)) < 0.05
    assert error(regions, log.contexts, by_region(x)) < 0.5 * error(
        Additive.learn(log.contexts).fit(log), log.contexts, by_region(x)
    )
    assert 3 <= len(regions.root) <= 6


def test_regions_see_labels():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(3, size=3000), rng.normal(size=3000)])
    means = np.column_stack([np.where(x[:, 0] == 1, 0.8, 0.3), np.full(3000, 0.5)])
    log = uniform_log(means, x, seed=1, categories=[LABELS, None])
    fitted = Regions.learn(log.contexts).fit(log)
    assert len(fitted.root) == 2
    assert error(fitted, log.contexts, means) < 0.03


def test_there_is_one_region_where_there_is_nothing_to_see():
    x = np.random.default_rng(0).normal(size=(2000, 6))
    many = [len(Regions.learn(log.contexts).fit(log).root) for log in _of_noise(x)]
    assert sum(size > 1 for size in many) <= 2


def _of_noise(x):
    return [uniform_log(np.full((len(x), 8), 0.5), x, seed=seed) for seed in range(10)]


def test_an_action_seldom_seen_in_a_region_borrows_from_the_region_above():
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(by_region(x), x, seed=1)
    corner = (x[:, 0] > 0) & (x[:, 1] > 0)
    rare = log.only(~(corner & (log.actions == 1)))
    found = Regions.learn(rare.contexts).fit(rare).predict(log.contexts)[corner, 1]
    assert 0.5 < found.mean() < 0.7  # of action 1 everywhere else: 0.6
