"""Curves over m whose growth is known, and a small separation that is played."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import optimize

from pacbandits.benchmark.cases import Entry, Task
from pacbandits.benchmark.runs import play
from pacbandits.benchmark.separation import SHAPES, Family, first_risen, hard_instance, separations
from pacbandits.benchmark.standings import grid
from pacbandits.benchmark.suites import SUITES
from pacbandits.complexity import measure
from pacbandits.problems import load_problem
from pacbandits.report.benchmark.separation import separation_figures, separation_tables
from tests.benchmark.hand_made import made

SIZES = (8, 16, 32, 64, 128, 256, 512)
COINS = Family(coins=True, gap=0.25, variance=0.0, delta=0.1)
UNIT = Family(coins=False, gap=1.0, variance=1.0, delta=0.1)
DEFAULTS = {"epsilon": 0.0, "growth": 0.1, "certified": False, "leader_gaps": ()}


@cache
def points_up_to(most):
    return grid(most, growth=0.1)


def run_right_from(samples, m, seed, *, most=10**8, entry="rival", problem="hard-coins:m={m},gap=0.25", **changed):
    """A run that is wrong before so many interactions and right from then on, and loses a reward at each of them."""
    points = points_up_to(most)
    gaps = tuple(0.0 if n >= samples else 0.5 / m for n in points)
    told = {"case": f"m {m}", "problem": problem.format(m=m), "most": most, "entry": entry, "algorithm": entry}
    ends = {"certified_at": None, "certified_gap": None, "regrets": tuple(map(float, points))}
    return made(seed, points=points, gaps=gaps, **(DEFAULTS | told | ends | changed))


def runs_that_grow_like(shape, *, constant=30.0, seeds=20, **changed):
    rng = np.random.default_rng(3)
    return [
        run_right_from(constant * SHAPES[shape](np.float64(m)) * rng.lognormal(sigma=0.2), m, seed, **changed)
        for m in SIZES
        for seed in range(seeds)
    ]


@pytest.mark.first(1)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_that_made_the_runs_is_found_with_its_slope_and_constant(shape):
    (found,) = separations(runs_that_grow_like(shape))
    (curve,) = found.curves
    assert found.sizes == SIZES
    assert curve.nearest_shape == shape
    assert curve.slope.low <= found.shape_slope(shape) <= curve.slope.high
    assert curve.slope.high - curve.slope.low < 0.15
    # Nine of ten runs are right at exp(1.28 · 0.2) times the median, and at the next point of the grid.
    assert curve.fits[shape].constant == pytest.approx(30 * math.exp(1.28 * 0.2) * 1.05, rel=0.12)
    assert curve.fits[shape].misses < 1.15
    assert curve.lost_slope == pytest.approx(curve.slope.value, abs=0.01)  # what is lost is the number of interactions


def test_slopes_of_shapes_are_those_of_powers_and_logarithms():
    (found,) = separations(runs_that_grow_like("m log m", seeds=2))
    assert found.shape_slope("m^1.5") == pytest.approx(1.5)
    assert found.shape_slope("m log m") + found.shape_slope("m²/log m") == pytest.approx(3.0)
    assert 1.15 < found.shape_slope("m log m") < 1.35


def test_the_first_point_of_counts_made_to_rise_is_that_of_isotonic_regression():
    rng = np.random.default_rng(0)
    rising = np.linspace(2, 11, 12)
    counts = np.clip(np.rint(rising + rng.normal(scale=2.5, size=(300, 12))), 0, 10)
    for row, found in zip(counts, first_risen(counts, enough=9), strict=True):
        made = optimize.isotonic_regression(row).x
        there = np.flatnonzero(made >= 9 - 1e-9)
        assert found == (there[0] if len(there) else len(row))
    assert first_risen(np.array([[9.0, 9.0], [0.0, 9.0], [9.0, 0.0]]), enough=9).tolist() == [0, 1, 2]


def test_an_m_that_is_not_reached_is_infinite_and_left_out_of_the_fit():
    rows = [row for row in runs_that_grow_like("m log m") if "m=512" not in row.problem]
    rows += [run_right_from(math.inf if seed < 3 else 10, 512, seed) for seed in range(20)]
    (found,) = separations(rows)
    (curve,) = found.curves
    assert curve.points[-1].samples.value == curve.points[-1].lost == math.inf
    assert [point.m for point in curve.reached] == list(SIZES[:-1])
    assert curve.nearest_shape == "m log m"
    assert any("> 100,000,000" in cell for cell in separation_tables(rows)[0].rows[0])


def test_one_m_that_is_reached_has_no_slope():
    rows = [run_right_from(100 if m == 8 else math.inf, m, seed) for m in (8, 16) for seed in range(3)]
    (curve,) = separations(rows)[0].curves
    assert math.isnan(curve.slope.value)
    assert curve.fits == {}
    assert "—" in separation_tables(rows)[1].rows[0]


def test_trials_have_a_second_curve_of_when_it_is_proven():
    rows = [
        run_right_from(20 * m, m, seed, entry="coda", certified_at=100 * m + seed, certified_gap=0.0)
        for m in SIZES
        for seed in range(5)
    ]
    right, proven = separations(rows)[0].curves
    assert (right.until, proven.until) == ("right", "proven")
    assert [point.samples.value for point in proven.points] == [100 * m + 2 for m in SIZES]
    assert right.slope.value == pytest.approx(1.0, abs=0.05)


def test_the_policy_that_leads_counts_as_an_answer_where_there_is_one():
    late = [run_right_from(1000, m, seed) for m in (8, 16) for seed in range(5)]
    leading = (0.0,) * len(late[0].points)
    leads = [run_right_from(1000, m, seed, leader_gaps=leading, certified=True) for m in (8, 16) for seed in (0, 1)]
    ours_alone = [replace(row, certified=False) for row in leads]  # where only ours would have such an answer
    assert {point.samples.value for point in separations(ours_alone)[0].curves[0].points} == {1069.0}
    assert {point.samples.value for point in separations(late)[0].curves[0].points} == {1069.0}  # of the grid
    assert {point.samples.value for point in separations(leads)[0].curves[0].points} == {10.0}


@pytest.mark.parametrize(
    ("changed", "family"),
    [
        ({}, (COINS, 8)),
        ({"problem": "hard-coins:m=9"}, (COINS, 9)),
        ({"problem": "hard"}, (UNIT, 10)),
        ({"problem": "hard:m=8,gap=0.5,variance=4"}, (Family(coins=False, gap=0.5, variance=4.0, delta=0.1), 8)),
        ({"problem": "hard:m=8,noise=bernoulli"}, None),  # nothing is left to learn there
        ({"problem": "hard:m=8,variance=0"}, None),
        ({"problem": "trivial:contexts=4"}, None),
        ({"problem": "mine.npz"}, None),
        ({"policies": "trees:depth=1"}, None),
        ({"epsilon": 0.1}, None),  # then more policies than the best one will do
    ],
)
def test_only_hard_instances_asked_for_the_best_policy_count(changed, family):
    assert hard_instance(run_right_from(100, 8, 0, **changed)) == family


def test_families_are_told_apart_and_other_rows_left_out():
    coins = runs_that_grow_like("m log m", seeds=2)
    unit = runs_that_grow_like("m²/log m", seeds=2, problem="hard:m={m}")
    found = separations([*coins, made(), *unit])
    assert [one.family for one in found] == [COINS, UNIT]
    assert separations([made()]) == ()
    assert separations([run_right_from(10, 8, 0)]) == ()  # a single m shows no growth


def test_bounds_by_hand():
    confidence, divergence = math.log(1 / 0.24), 0.5 * math.log(3.0)  # kl(1/4, 3/4) = (1/2) log 3
    assert COINS.divergence() == pytest.approx(divergence)
    assert COINS.least_regret(40) == pytest.approx(40 * 0.25 * confidence / divergence)
    assert COINS.low_regret_bound(40) == pytest.approx((10 * confidence / divergence) ** 2 / (2 * math.log(40)))
    assert UNIT.low_regret_bound(40) == pytest.approx(40**2 * confidence**2 / (8 * math.log(40)))
    assert UNIT.lower_bound(40) == pytest.approx(4 * 40 * confidence)


@pytest.mark.parametrize(("family", "spec"), [(COINS, "hard-coins:m=12,gap=0.25"), (UNIT, "hard:m=12")])
def test_the_bound_for_all_algorithms_is_that_of_the_measured_instance(family, spec):
    problem = load_problem(spec)
    known = measure(problem, problem.policies, epsilon=0.0, delta=0.1).lower_bound
    assert 0.97 * known <= family.lower_bound(12) <= known * (1 + 1e-6)


def test_the_suite_asks_for_the_best_policy_of_instances_that_differ_in_m_alone():
    suite = SUITES["separation"]
    rows = [made(problem=case.problem, epsilon=case.epsilon, delta=case.delta) for case in suite.cases]
    assert [hard_instance(row) for row in rows] == [(COINS, m) for m in (8, 16, 32, 64, 128, 256, 512, 1000)]
    assert {"coda", "uniform", "exp4", "ilovetoconbandits"} <= {entry.spec for entry in suite.entries}


@pytest.mark.thorough
def test_tables_and_figures_show_every_curve_and_both_bounds():
    rows = [*runs_that_grow_like("m log m", entry="coda"), *runs_that_grow_like("m²/log m", entry="exp4")]
    samples, growth = separation_tables(rows)
    assert [row[0] for row in samples.rows][:2] == ["coda", "exp4"]
    assert all(row[0].startswith("at least") for row in samples.rows[2:])
    assert len(samples.head) == 1 + len(SIZES)
    assert ["◂" in cell for cell in growth.rows[0]] == [False, False, True, False, False, False]
    assert ["◂" in cell for cell in growth.rows[1]] == [False, False, False, False, True, False]
    (figure,) = separation_figures(rows)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(labels) == 4
    assert labels[0].startswith("exp4  1.7")  # the steepest first


def test_an_m_that_is_not_reached_is_marked_among_interactions_alone():
    rows = [run_right_from(math.inf if m == 32 else 10 * m, m, seed) for m in (8, 16, 32) for seed in range(3)]
    (figure,) = separation_figures(rows)
    marked = [
        [at for line in axis.lines if line.get_marker() == "2" for at in line.get_xydata().tolist()]
        for axis in figure.axes
    ]
    assert marked == [[[32.0, 1e8]], []]


@pytest.mark.slow
def test_low_regret_takes_ever_more_times_what_even_play_takes():
    even = Entry("even play", "epoch-greedy:explore=1000000")
    small, large = (replace(SUITES["separation"].cases[i], most=40 * m**2) for i, m in ((1, 16), (4, 128)))
    rows = [
        play(Task("small", case, entry, seed))
        for case in (small, large)
        for entry in (even, Entry("exp4", "exp4"))
        for seed in range(10)
    ]
    played = {curve.entry: curve for curve in separations(rows)[0].curves}
    ratios = [b.samples.value / a.samples.value for a, b in zip(*(one.points for one in played.values()), strict=True)]
    assert ratios[1] > 3 * ratios[0] > 3
    assert played["exp4"].slope.value > 1.6 > played["even play"].slope.value
    # What is lost until then grows alike with both, and is more than must be.
    for curve in played.values():
        assert all(point.lost > COINS.least_regret(point.m) for point in curve.points)
        assert 0.7 < curve.lost_slope < 1.6
