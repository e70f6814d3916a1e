"""Quantiles of few trials: they hold what they say of a fresh one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from pacbandits.planning.simulated_trials import Quantiles, quantile, quantiles


@pytest.mark.first(1)
@pytest.mark.parametrize("m", [9, 19])
def test_a_fresh_draw_falls_between_two_quantiles_as_often_as_they_say(m):
    rng, times, hits = np.random.default_rng(m), 3_000, 0
    for _ in range(times):
        drawn = np.exp(0.4 * rng.standard_normal(m))
        low, high = (quantile(drawn.tolist(), [1.0] * m, share) for share in (0.1, 0.9))
        hits += low <= math.exp(0.4 * rng.standard_normal()) <= high
    # Exact, as a tenth of m + 1 is a whole number and both are values that were drawn; refused once in a million times.
    assert binom.ppf(5e-7, times, 0.8) <= hits <= binom.ppf(1 - 5e-7, times, 0.8)


def test_the_ith_of_m_values_stands_at_i_of_m_and_one():
    values = [1.0, 2.0, 4.0, 8.0]
    for i, value in enumerate(values):
        assert quantile(values[::-1], [3.0] * 4, (i + 1) / 5) == pytest.approx(value)
    assert quantile(values, [1.0] * 4, 0.5) == pytest.approx(math.sqrt(8))  # midway on a logarithmic scale
    assert quantile(values, [1.0] * 4, 0.01) == 1.0
    assert quantile(values, [1.0] * 4, 0.99) == 8.0


def test_weights_count_like_repetitions():
    plain = quantile([1.0] * 30 + [5.0] * 10, [1.0] * 40, 0.5)
    assert plain == quantile([1.0, 5.0] * 10, [3.0, 1.0] * 10, 0.5) == 1.0
    assert quantile([1.0, 5.0] * 10, [1.0, 3.0] * 10, 0.5) == 5.0


def test_what_was_not_done_is_beyond_every_number():
    values = [10.0] * 12 + [math.inf] * 8
    made = quantiles(values)
    assert (made.median, made.p80, made.p95, made.known_to, made.trials) == (10.0, math.inf, math.inf, math.inf, 20)
    assert quantile([1.0, 2.0, math.inf], [1.0] * 3, 0.6) == math.inf  # between a number and none is none
    assert made.to_json() == {"median": 10.0, "p80": None, "p95": None, "known_to": None, "trials": 20}


def test_nothing_at_all_has_quantiles_too():
    assert quantile([0.0, 0.0, 1.0], [1.0] * 3, 0.75) == 1.0
    assert 0 < quantile([0.0, 0.0, 1.0], [1.0] * 3, 0.7) < 1.0
    assert quantile([0.0, 0.0, 0.0], [1.0] * 3, 0.5) == 0.0


def test_more_trials_are_known_better_and_few_are_not_known():
    rng = np.random.default_rng(3)
    drawn = np.exp(0.3 * rng.standard_normal(2_000))
    assert quantiles(drawn[:5].tolist()).known_to == math.inf
    errors = [quantiles(drawn[:m].tolist()).known_to for m in (30, 300, 2_000)]
    assert errors[0] > errors[1] > errors[2] > 0
    assert errors[2] < 0.04
    assert quantiles([7.0] * 50).known_to == 0


def test_the_error_of_quantiles_is_not_understated():
    """In nine of ten samples the median and the 80 % quantile are where they are said to be, or nearly."""
    rng, times, good = np.random.default_rng(8), 400, 0
    truth = np.exp(0.5 * np.array([0.0, 0.8416]))
    for _ in range(times):
        made = quantiles(np.exp(0.5 * rng.standard_normal(60)).tolist())
        off = [max(a / b, b / a) - 1 for a, b in zip((made.median, made.p80), truth, strict=True)]
        good += max(off) <= made.known_to
    assert good >= binom.ppf(1e-6, times, 0.85)


def test_an_estimate_is_known_to_nothing():
    assert Quantiles(1.0, 2.0, 3.0).to_json()["trials"] == 0
