"""Yardsticks of rows made by hand, whose answers are known."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from scipy import stats

from pacbandits.benchmark.standings import (
    certified_stopping,
    cost,
    good_on_grid,
    grid,
    oracle_stopping,
    own_stopping,
    regret_at,
    within,
)
from pacbandits.errors import InputError
from pacbandits.rivals.base import next_checkpoint
from tests.benchmark.hand_made import made, seeds, unproven


def test_the_grid_is_that_on_which_rivals_play():
    points = grid(1000, growth=0.05)
    assert points[0] == 10
    assert all(next_checkpoint(a, growth=0.05) == b for a, b in pairwise(points))
    assert next_checkpoint(points[-1], growth=0.05) > 1000
    assert grid(9, growth=0.05) == ()


def test_a_gap_that_is_epsilon_but_for_rounding_is_within():
    assert within(0.1 + 1e-12, 0.1)
    assert not within(0.1001, 0.1)


def test_a_run_holds_its_last_answer_and_nothing_before_the_first_look():
    row = made(points=(15, 30), gaps=(0.05, 0.3), leader_gaps=(0.3, 0.0), regrets=(1.0, 2.0))
    points = (10, 20, 40, 80)
    assert good_on_grid(row, reading="own", points=points).tolist() == [False, True, False, False]
    assert good_on_grid(row, reading="pooled", points=points).tolist() == [False, False, True, True]
    refused = unproven(points=(), gaps=(), leader_gaps=(), regrets=(), samples=0)
    assert not good_on_grid(refused, reading="own", points=points).any()


def test_oracle_stopping_is_the_least_point_at_which_enough_seeds_are_good():
    late = {"gaps": (0.3, 0.3, 0.0), "leader_gaps": (0.3, 0.3, 0.0)}
    # Of ten runs nine are enough at δ = 0.1: one that is late does not count, two do.
    one_late = [*seeds(9), made(9, **late)]
    two_late = [*seeds(8), made(8, **late), made(9, **late)]
    assert oracle_stopping(one_late).samples.value == 20
    assert oracle_stopping(two_late).samples.value == 40
    assert oracle_stopping(seeds(10)).held == 1.0


def test_oracle_stopping_takes_the_sooner_of_two_readings_and_says_which():
    rows = seeds(10, leader_gaps=(0.0, 0.0, 0.0))
    assert oracle_stopping(rows).reading == "pooled"
    assert oracle_stopping(rows).samples.value == 10
    assert oracle_stopping(seeds(10)).reading == "own"
    without = seeds(10, leader_gaps=(), certified=False)
    assert oracle_stopping(without).samples.value == 20


def test_what_is_never_good_is_beyond_everything_that_was_played():
    rows = [*seeds(8), *(unproven(seed, gaps=(0.3,) * 3, leader_gaps=(0.3,) * 3) for seed in (8, 9))]
    found = oracle_stopping(rows)
    assert found.samples.value == math.inf
    assert found.samples.low == 20  # draws without the two are good
    assert found.samples.high == math.inf
    assert found.held == 0.8
    assert found.to_json()["samples"] == {"value": None, "low": 20.0, "high": None}


def test_the_bootstrap_repeats_itself_and_holds_what_it_found():
    late = {"gaps": (0.3, 0.3, 0.0), "leader_gaps": (0.3, 0.3, 0.0)}
    rows = [*seeds(9), made(9, **late)]
    first, again = oracle_stopping(rows), oracle_stopping(rows)
    assert first == again
    assert (first.samples.low, first.samples.high) == (20, 40)


def test_certified_stopping_is_a_median_with_those_that_never_stop():
    rows = [made(seed, certified_at=10 * seed + 10) for seed in range(8)] + [unproven(8), unproven(9)]
    found = certified_stopping(rows)
    assert found.samples.value == 55
    assert (found.samples.low, found.samples.high) == (20, math.inf)
    assert (found.runs, found.stopped, found.wrong) == (10, 8, 0)
    assert certified_stopping(seeds(3, certified=False)) is None


def test_wrong_certificates_are_counted_with_an_exact_bound():
    rows = [*seeds(18), made(18, certified_gap=0.2), made(19, certified_gap=0.11)]
    found = certified_stopping(rows)
    assert found.wrong == 2
    theirs = stats.binomtest(2, 20).proportion_ci(confidence_level=0.9, method="exact")
    assert (found.error.low, found.error.high) == pytest.approx((theirs.low, theirs.high))


def test_proofs_of_an_algorithm_of_its_own():
    rows = [*seeds(6, own_at=30, own_gap=0.0), made(6, own_at=20, own_gap=0.3), made(7)]
    found = own_stopping(rows)
    assert found.samples.value == 30
    assert (found.stopped, found.wrong) == (7, 1)


def test_regret_grows_evenly_within_rounds_and_by_the_gap_after_the_end():
    row = made(certified_gap=0.02)
    assert [regret_at(row, n) for n in (0, 5, 10, 15, 30, 40)] == [0.0, 1.5, 3.0, 4.0, 6.0, 7.0]
    assert regret_at(row, 140) == pytest.approx(7.0 + 100 * 0.02)
    assert regret_at(unproven(gaps=(0.3, 0.2, 0.1)), 50) == pytest.approx(8.0)


def test_costs_are_medians_and_a_mean():
    rows = [made(seed, seconds=float(seed), decision_microseconds=math.nan if seed else 3.0) for seed in range(3)]
    found = cost(rows, samples=30)
    assert found.lost.value == 6.0
    assert found.seconds == 1.0
    assert found.microseconds_a_sample == 1e6 / 40
    assert found.decision_microseconds == 3.0
    assert found.to_json()["lost"] == {"value": 6.0, "low": 6.0, "high": 6.0}


@pytest.mark.parametrize(
    "rows", [[], [made(0), made(1, epsilon=0.2)], [made(0), made(0)], [made(0), made(1, case="other")]]
)
def test_runs_that_cannot_be_put_together_are_refused_in_a_line(rows):
    with pytest.raises(InputError, match=r"no runs|more than their seeds"):
        oracle_stopping(rows)
