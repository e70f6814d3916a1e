"""Intervals over seeds: exact ones against scipy's, and all of them for how often they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pacbandits.benchmark.standings import mean_interval, median_interval, quantile_interval, share_interval


@pytest.mark.parametrize(("count", "runs"), [(0, 10), (1, 10), (3, 20), (19, 20), (20, 20), (7, 200)])
def test_shares_have_the_limits_of_clopper_and_pearson(count, runs):
    theirs = stats.binomtest(count, runs).proportion_ci(confidence_level=0.9, method="exact")
    ours = share_interval(count, runs)
    assert ours.value == count / runs
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_no_runs_say_nothing_of_a_share():
    ours = share_interval(0, 0)
    assert math.isnan(ours.value)
    assert (ours.low, ours.high) == (0.0, 1.0)


@pytest.mark.parametrize("runs", [5, 8, 10, 20, 31])
def test_medians_lie_between_the_narrowest_order_statistics_that_will_do(runs):
    ours = median_interval([float(i) for i in range(1, runs + 1)])
    k = int(ours.low)
    assert ours.high == runs + 1 - k
    assert 2 * stats.binom.cdf(k - 1, runs, 0.5) <= 0.1 < 2 * stats.binom.cdf(k, runs, 0.5)
    assert ours.value == (runs + 1) / 2


def test_medians_hold_as_often_as_they_say():
    draws = np.random.default_rng(1).exponential(size=(2000, 20))
    held = [m.low <= math.log(2) <= m.high for m in (median_interval(list(row)) for row in draws)]
    assert 0.88 <= np.mean(held) <= 0.98


def test_few_runs_say_nothing_of_a_median():
    ours = median_interval([3.0, 1.0, 2.0, 4.0])
    assert (ours.value, ours.low, ours.high) == (2.5, 0.0, math.inf)


def test_what_was_cut_off_counts_as_longer():
    ours = median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, math.inf, math.inf])
    assert (ours.value, ours.low, ours.high) == (5.5, 2.0, math.inf)
    assert median_interval([1.0, 2.0, math.inf, math.inf]).value == math.inf
    assert ours.to_json() == {"value": 5.5, "low": 2.0, "high": None}


def test_means_have_students_limits():
    values = [1.0, 4.0, 2.0, 7.0]
    low, high = stats.t.interval(0.9, 3, loc=3.5, scale=stats.sem(values))
    ours = mean_interval(values)
    assert (ours.value, ours.low, ours.high) == pytest.approx((3.5, low, high))
    assert mean_interval([2.0]).high == math.inf


def test_quantiles_of_draws_may_be_infinite():
    draws = np.array([10.0] * 90 + [math.inf] * 10)
    ours = quantile_interval(draws, value=10.0)
    assert (ours.low, ours.high) == (10.0, math.inf)
    assert quantile_interval(np.arange(101.0), value=50.0).low == 5.0
    assert quantile_interval(np.arange(101.0), value=50.0).high == 95.0
