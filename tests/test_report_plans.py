"""Plans for people: sentences, tables, pictures and pages say what the plan says, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pacbandits.planning import Affordable, Traffic
from pacbandits.problems.scenarios import Scenario
from pacbandits.report.html import render_html
from pacbandits.report.markdown import render_markdown
from pacbandits.report.plan_report import (
    answer,
    budget_rows,
    gain_rows,
    happened_rows,
    main_rows,
    people,
    plan_document,
    plan_figure,
    scenario_rows,
)
from tests.planning.cases import by_hand, estimated, played

QUICK = (estimated(0, bound=20.0), estimated(1, coda=400.0, uniform=800.0, bound=40.0))
TRIALS = tuple(
    played(k, n, one, (n + 1) * 100 * (1 + k), periods=float((n + 1) * (1 + k)))
    for k in range(2)
    for n in range(6)
    for one in ("coda", "uniform")
)
NASTY = (Scenario("none", name="<b>|none"), Scenario("winner", effect=0.4, name="$x^2$ & more"))
AFFORDED = Affordable(500, 0.31, 1, None, 40.0, {0: 120.0, 1: 340.0})


def test_numbers_of_people_promise_two_digits():
    assert [people(n) for n in (7.4, 1234.0, 98_765.0, float("inf"))] == ["7", "1,200", "99,000", "not done"]


def test_the_answer_in_sentences():
    quick, simulated = by_hand(QUICK), replace(by_hand(QUICK, TRIALS, traffic="100/week"), budget=300)
    assert "This is a quick estimate" in answer(quick)[-1]
    assert "raises the mean reward from 30 % to 70 % (+133 %)" in answer(quick)[0]
    assert "within 0.25 of the best" in answer(quick)[1]
    _, first, plain, log, budget, basis = answer(simulated)
    assert people(simulated.quantiles("certify").p80) in log
    assert "certify FILE" in log
    assert f"about {people(simulated.quantiles('coda').median)} people (" in first
    assert "weeks) in the middle case" in first
    assert "weeks) in four cases of five" in first
    assert people(simulated.quantiles("uniform").p80) in plain
    assert f"{100 * simulated.chance(300):.0f} %" in budget
    assert "12 simulated trials" in basis
    assert "only roughly" in basis


def test_rows_of_tables_are_those_of_the_plan():
    plan = by_hand(QUICK, TRIALS, traffic=Traffic(100, "week", batched=True))
    rows = list(main_rows(plan))
    assert [row[0] for row in rows] == [
        "adaptive trial (coda)",
        "",
        "plain randomised trial",
        "",
        "finished log, by certify",
        "",
    ]
    made = plan.quantiles("coda")
    # Of 12 trials the longest is all that is known of 19 of 20.
    assert rows[0][1:] == (people(made.median), people(made.p80), f"≥ {people(made.p95)}")
    assert all(cell.endswith(("week", "weeks")) for cell in rows[1][1:])
    assert [cell.startswith("≥") for cell in rows[1][1:]] == [False, False, True]
    assert not any("≥" in cell for row in main_rows(by_hand(QUICK)) for cell in row)
    assert [row[0] for row in scenario_rows(plan)] == ["none", "winner"]
    in_words = ["every action alike", "one action better for everybody"]
    assert [row[0] for row in scenario_rows(plan, in_words=True)] == in_words
    assert all("(" in row[1] for row in scenario_rows(plan))  # what was foretold
    assert len(list(gain_rows(plan))) == 4
    assert list(gain_rows(by_hand(QUICK))) == []
    undone = by_hand(QUICK, tuple(replace(one, done=False) for one in TRIALS), traffic="100/week")
    assert next(iter(main_rows(undone)))[1] == "not done"


def test_what_a_budget_affords_in_words():
    assert list(budget_rows(by_hand(QUICK), AFFORDED)) == [
        ("ε proven in 4 of 5 cases", "0.31 (wanted: 0.25)"),
        ("enough at ε = 0.25 for", "not even two actions, with this class"),
        ("or, with all actions, for", "not even one action for all"),
        ("middle case with one action for all", "120 people"),
        ("middle case with trees of depth 1", "340 people"),
        ("one action less saves", "about 40 people"),
    ]
    enough = dict(budget_rows(by_hand(QUICK), replace(AFFORDED, epsilon=0.25)))
    assert enough["enough at ε = 0.25 for"] == "all actions and this class"
    none = dict(budget_rows(by_hand(QUICK), replace(AFFORDED, epsilon=None)))
    assert none["ε proven in 4 of 5 cases"] == "none, by so few (wanted: 0.25)"
    assert none["enough at ε = 0.25 for"] == "not even two actions, with this class"


def test_long_times_are_told_to_two_digits():
    long = tuple(replace(one, medians=dict.fromkeys(one.medians, 1000000.0)) for one in QUICK)
    rows = list(main_rows(by_hand(long, traffic="3/day")))
    assert rows[1][1] == "330,000 days"
    assert "In 1 day the chance" in " ".join(answer(replace(by_hand(QUICK, traffic="3/day"), deadline=1.0)))


@pytest.mark.thorough
def test_pages_hold_the_words_and_escape_names():
    traffic = Traffic(100, "week", delay=1)
    plan = replace(by_hand(QUICK, TRIALS, traffic=traffic, scenarios=NASTY), source="<i>people</i>.csv", budget=500)
    made = plan_document(plan, AFFORDED)
    page, text = render_html(made), render_markdown(made)
    for words in (
        "What will the trial cost?",
        "What 500 people afford",
        "No way to explore needs fewer than 30 people",
    ):
        assert words in page
        assert words in text
    assert "<b>|none" not in page
    assert "&lt;b&gt;|none" in page
    assert "<i>people" not in page
    assert "reward that the trial costs" in page
    assert "reward that the trial costs" in text
    assert "reward lost" not in render_markdown(plan_document(replace(plan, trials=()), drawn=False))
    assert page.count("<img alt=") == page.count("data:image/svg+xml;base64,") == 1


@pytest.mark.first(1)
@pytest.mark.parametrize("trials", [(), TRIALS, tuple(replace(one, done=False) for one in TRIALS)])
def test_pictures_show_chances_scenarios_and_what_is_proven(trials):
    traffic = Traffic(100, "week", batched=True, delay=1)
    plan = replace(by_hand(QUICK, trials, traffic=traffic, scenarios=NASTY), budget=500)
    figure = plan_figure(plan)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[0] == "Chance to be done"
    assert titles[1] == "How many people, if this is true"
    assert any(title.startswith("How near to the best is proven") for title in titles) is bool(trials)
    assert "2 actions, a rule within 0.25 of the best one, 95 % confidence" in figure.get_suptitle()
    chances = list(figure.axes[0].get_lines()[0].get_ydata())
    assert chances == sorted(chances)


def test_planned_against_happened():
    rows = happened_rows(by_hand(QUICK, TRIALS), samples=300, algorithm="coda", certified=0.1234)
    part = by_hand(QUICK, TRIALS).chance(300)
    assert rows[1][2] == "300"
    assert rows[2][1:] == (f"{100 * part:.0f} % of planned trials", "yes")
    late = happened_rows(by_hand(QUICK, TRIALS), samples=300, algorithm="coda", certified=0.3)
    assert late[2][2] == "no"
    assert rows[3] == ("distance to the best (ε)", "0.25", "0.123 is proven")
    assert len(happened_rows(by_hand(QUICK), samples=300, algorithm="rage", certified=None)) == 3
