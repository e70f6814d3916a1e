"""Plans to prove a gain over the control: the rows that `certify --control` takes, beside an ordinary A/B test's."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.errors import InputError
from pacbandits.planning.gain_plan import (
    MIN_TESTS,
    GainPlan,
    SimulatedTest,
    betting_rows,
    finished_log,
    play_test,
    refine_gain_plan,
    rows_needed,
)
from pacbandits.problems.scenarios import Scenario
from pacbandits.report.html import render_html
from pacbandits.report.plan_report import gain_answer, gain_document, gain_figure, happened
from tests.planning.cases import ONE_AFTER_ANOTHER, people

USUAL = {"n_actions": 2, "policies": "trees:depth=1", "baseline": 0.2, "effect": 0.08, "improve_on": 0}


def quick(contexts=None, **options) -> GainPlan:
    """A small plan without simulation."""
    return pb.plan(people() if contexts is None else contexts, **{**USUAL, **options, "simulated": False})


def with_tests(plan, needed, rows=1000):
    """The plan with simulated tests by hand."""
    return replace(plan, tests=tuple(SimulatedTest(0, k, rows, 0.08, -0.01, n) for k, n in enumerate(needed)))


def pilot(lift, n=400):
    """The log of a pilot with two named arms."""
    rng = np.random.default_rng(0)
    actions = np.arange(n) % 2
    rewards = (rng.random(n) < 0.3 + lift * actions).astype(float)
    log = pb.Log.of(people(n), actions=actions, rewards=rewards, propensities=np.full((n, 2), 0.5))
    return replace(log, action_names=("old", "new"))


def test_an_ordinary_test_takes_what_the_textbook_says():
    plan = quick(policies="trees:depth=0", variation=0.0)
    variance = 0.2 * 0.8 + 0.28 * 0.72
    assert plan.ordinary() == pytest.approx(2 * (1.6449 + 0.8416) ** 2 * variance / 0.08**2, rel=0.002)
    assert plan.ordinary_chance(plan.ordinary()) == pytest.approx(0.8, abs=1e-3)
    assert plan.ratio == pytest.approx(plan.rows / plan.ordinary())
    assert 2.0 < plan.ratio < 3.5
    three = quick(policies="trees:depth=0", variation=0.0, n_actions=3)  # two comparisons share δ
    assert three.ordinary() == pytest.approx(3 * (1.9600 + 0.8416) ** 2 * variance / 0.08**2, rel=0.002)


def test_rows_fall_with_the_effect_and_grow_with_the_power():
    plan = quick()
    assert plan.rows_for(0.5) < plan.rows == plan.rows_for(0.8) < plan.rows_for(0.95)
    assert plan.chance(plan.rows) == pytest.approx(0.8, abs=0.01)
    assert plan.chance(0) == 0.0 == plan.chance(200)  # the first 256 rows only teach the class
    rows = [found for found, _ in plan.by_effect().values()]
    assert rows == sorted(rows, reverse=True)
    assert rows[1] == plan.rows
    assert quick(power=0.95).rows == plan.rows_for(0.95)
    assert quick(delta=0.01).rows > plan.rows


@pytest.mark.parametrize("control", [0, 2])
def test_the_control_is_never_the_better_action(control):
    for kind, gain in (("winner", 0.1), ("segments", 0.03), ("few", 0.1)):
        scenarios = (Scenario(kind, effect=0.1, share=0.3),)
        supposed = quick(people(400), n_actions=4, improve_on=control, effect=None, scenarios=scenarios).supposed
        for number in range(4):
            problem = supposed.problem(0, number)
            values = problem.population.weights @ problem.mean_rewards
            best = problem.value(problem.best_policy())
            assert best - values[control] == pytest.approx(gain, abs=0.004)
            assert kind == "segments" or values[control] == pytest.approx(values.min())


def test_a_share_of_people_is_a_gain_that_an_ordinary_test_cannot_find():
    plan = quick(share=0.4, effect=0.2)
    assert plan.supposed.scenarios == (Scenario("segments", effect=0.2, share=0.4),)
    assert plan.estimates[0].gain == pytest.approx(0.08, abs=0.01)
    assert math.isfinite(plan.rows)
    assert plan.ordinary() == math.inf
    assert plan.ratio is None
    words = gain_answer(plan)
    assert "to 40 % (+100 %) for 40 % of people" in words[0]
    assert "No ordinary A/B test has that power" in words[2]


def test_rows_that_a_log_would_have_needed_are_its_own_just_where_it_proves_a_gain():
    asked = quick().supposed
    for low in (-0.05, -0.001, 0.0, 0.001, 0.05, 0.2):
        needed = rows_needed(1500, low=low, gain=0.08, asked=asked)
        assert (needed <= 1500.5) == (low >= 0)
    assert rows_needed(1500, low=0.1, gain=0.0, asked=asked) == math.inf
    near = rows_needed(40_000, low=-0.02, gain=0.08, asked=asked)  # five fourths of the distance
    assert betting_rows(near, asked)[0] == pytest.approx(25 / 16 * betting_rows(40_000, asked)[0], rel=0.01)


def test_simulated_tests_replace_the_quick_answer_if_there_are_enough():
    plan = quick()
    assert not with_tests(plan, [900.0] * (MIN_TESTS - 1)).simulated
    needed = [500.0 + 100.0 * k for k in range(19)]
    made = with_tests(plan, needed)
    assert made.simulated
    assert made.rows == pytest.approx(2000.0)  # the 16th of 19
    assert made.samples.trials == 19
    assert made.chance(1400) == pytest.approx(10 / 19)
    far = with_tests(plan, [5000.0] * 9, rows=5000).tests
    assert replace(made, tests=(*made.tests, *far)).rows == 5000.0  # those of another size no longer count
    assert "19 simulated tests" in gain_answer(made)[-1]


def test_effects_that_a_pilot_makes_likely():
    clear = quick(pilot(0.4), n_actions=None, baseline=None, effect=None)
    assert clear.control == "old"
    assert math.isfinite(clear.rows)
    assert "over the control (old)" in gain_answer(clear)[1]
    assert "certify FILE --control 'old'" in gain_answer(clear)[1]
    doubtful = quick(pilot(0.0), n_actions=None, baseline=None, effect=None, improve_on=1, policies="trees:depth=0")
    assert doubtful.rows == math.inf
    assert "nothing is better than the control" in doubtful.findings()[0]
    assert "A gain is proven in fewer than 80 % of tests" in doubtful.findings()[1]
    assert "is not possible" in gain_answer(doubtful)[1]
    with pytest.raises(InputError, match="no policy of this class gains over the control"):
        quick(pilot(0.4), n_actions=None, baseline=None, effect=None, improve_on=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0.1}, "epsilon=0.1 is for a plan to find the best policy"),
        ({"improve_on": 2}, "improve_on must be"),
        ({"control": 1}, "improve_on names action 0 and control action 1, which are one action; leave one"),
        ({"power": 1.0}, "power must be"),
        (
            {"effect": None, "scenarios": (Scenario("none"),)},
            "there is no gain to prove; add a scenario with an effect",
        ),
        ({"share": 0.3, "policies": "trees:depth=0"}, "no policy of this class gains over the control"),
        ({"folder": "kept"}, "folder is for simulated trials"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_a_sentence(options, words):
    with pytest.raises(InputError, match=words):
        quick(**options)


def test_a_plan_is_written_and_read_again(tmp_path):
    scenarios = (Scenario("none"), Scenario("winner", effect=0.1))
    made = with_tests(quick(effect=None, scenarios=scenarios, traffic="400/week"), [900.0, math.inf] + [1000.0] * 8)
    assert "no gain to prove: scenario none" in made.findings()[0]
    path = tmp_path / "gain.json"
    pb.save_plan(path, replace(made, budget=2000))
    again = pb.load_gain_plan(path)
    assert (again.rows, again.ratio, again.tests, again.budget) == (made.rows, made.ratio, made.tests, 2000)
    assert again.to_json() == json.loads(path.read_text())
    with pytest.raises(InputError, match="this plan is to prove a gain"):
        pb.load_plan(path)


@pytest.mark.thorough
def test_the_page_and_the_figure():
    made = replace(quick(traffic="400/week", budget=2000), deadline=6.0, source="customers.csv")
    page = render_html(gain_document(made, drawn=False))
    for words in (
        "How many rows prove a gain?",
        "ordinary A/B test",
        "weeks",
        "With 2,000 rows the chance",
        "In 6 weeks",
    ):
        assert words in page
    figure = gain_figure(made)
    assert len(figure.axes[0].lines) == 3


def test_a_plan_is_compared_with_a_log_whose_gain_cannot_be_proven():
    """A control was named: the log proves no gain over it, as its rows have no order."""
    log = pilot(0.4)
    chances = np.where(np.arange(len(log))[:, None] % 2 == 0, [0.4, 0.6], [0.6, 0.4])
    found = pb.certify(replace(log, propensities=chances), "trees:depth=0", control="old").found.question
    assert found.obstacle is not None
    assert [row[2] for row in happened(quick(), found, log)][1:] == ["no", "none is proven"]


@pytest.mark.thorough
def test_a_simulation_and_the_log_that_is_compared_with_it():
    options = {"effect": 0.4, "policies": "trees:depth=0"}
    made = refine_gain_plan(quick(**options), limits=replace(ONE_AFTER_ANOTHER, trials=MIN_TESTS))
    assert made.simulated
    again = play_test(made.supposed, (0, 3, made.tests[3].rows))
    assert again == made.tests[3]
    log = finished_log(made.supposed.problem(0, 99), 1500, np.random.default_rng(1))
    found = pb.certify(log, "trees:depth=0", control="0").found.question
    rows = happened(made, found, log)
    assert rows[0][2] == "1,500"
    assert rows[1][2] == "yes"
    assert rows[2][1] == "+40 points"
    with pytest.raises(InputError, match="none was asked for; name it by control"):
        happened(made, pb.certify(log, "trees:depth=0", epsilon=0.5).found.question, log)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"share": 0.5, "effect": 0.3}, {"n_actions": 3, "effect": 0.12}])
def test_certify_proves_a_gain_as_often_as_planned(options):
    """Real `certify` runs on fresh logs of the planned size: 32 of 40 are expected to prove a gain."""
    plan = pb.plan(people(400), **{**USUAL, **options}, limits=pb.Limits(trials=64, processes=1))
    assert plan.rows == pytest.approx(plan.foretold(0.8), rel=0.5)
    proven = 0
    for number in range(40):
        log = finished_log(plan.supposed.problem(0, 1000 + number), round(plan.rows), np.random.default_rng(number))
        made = pb.certify(log, "trees:depth=1", control="0").certificate
        assert made.improvement is not None
        proven += made.improvement.recommended is not None
    assert 24 <= proven <= 39  # 3 standard errors of the count and of the planned size
