"""A plan's answers: from what was foretold, or from what was simulated; and what it says plainly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.planning import Traffic
from tests.planning.cases import TWO_SCENARIOS, by_hand, estimated, played

QUICK = (estimated(0), estimated(1, coda=400.0, uniform=400.0))
# Of each scenario and algorithm three trials; coda takes 100, 200, 300 or twice that, uniform twice as many.
TRIALS = tuple(
    played(scenario, number, one, (number + 1) * 100 * (1 + scenario) * (1 + (one == "uniform")))
    for scenario in range(2)
    for number in range(3)
    for one in ("coda", "uniform")
)


@pytest.mark.parametrize("trials", [(), TRIALS])
@pytest.mark.parametrize("traffic", [None, Traffic(70, batched=True), Traffic(70, delay=2)])
def test_chances_rise_with_people_and_agree_with_quantiles(trials, traffic):
    plan = by_hand(QUICK, trials, traffic=traffic)
    counts = np.linspace(0, 4_000, 60)
    for one in ("coda", "uniform"):
        chances = [plan.chance(float(n), one) for n in counts]
        assert chances == sorted(chances)
        assert chances[0] == 0
        assert chances[-1] > 0.99
        made = plan.quantiles(one)
        assert 0 < made.median <= made.p80 <= made.p95
        assert plan.chance(made.median + 1, one) >= 0.5 - 1e-6 or trials
    assert plan.simulated is bool(trials)
    assert plan.samples["coda"] == plan.quantiles("coda")


def test_simulated_answers_weigh_scenarios_by_how_likely_they_are():
    plan = by_hand(QUICK, TRIALS)
    assert plan.quantiles("coda", 0).median == 200
    assert plan.quantiles("uniform", 1).median == 800
    assert plan.chance(200) == pytest.approx(0.5 * 2 / 3 + 0.5 / 3)
    likely = (replace(TWO_SCENARIOS[0], weight=3.0), TWO_SCENARIOS[1])
    assert by_hand(QUICK, TRIALS, scenarios=likely).chance(200) == pytest.approx(0.75 * 2 / 3 + 0.25 / 3)
    assert by_hand(QUICK, TRIALS, scenarios=likely).means("coda").correct == pytest.approx(1.0)


def test_a_scenario_without_a_trial_leaves_the_quick_answer():
    for some in (TRIALS[:6], tuple(one for one in TRIALS if one.algorithm == "coda"), TRIALS[:-3]):
        plan = by_hand(QUICK, some)
        assert plan.simulated is (some == TRIALS[:-3])
        if not plan.simulated:
            assert plan.samples == by_hand(QUICK).samples
            assert plan.quantiles("coda", 0) == plan.foretold("coda", 0)
            assert plan.means("coda") is None
            with pytest.raises(InputError, match="not simulated"):
                plan.curve("coda")


def test_the_quick_answer_is_a_mixture_of_scenarios():
    plan = by_hand(QUICK)
    assert plan.foretold("coda", 0).median == pytest.approx(100, rel=1e-4)
    assert plan.foretold("coda", 1).median == pytest.approx(400, rel=1e-4)
    assert plan.chance(200) == pytest.approx(0.5, abs=0.01)  # the one is done, the other is not
    assert plan.foretold("uniform").median > plan.foretold("uniform", 0).median


def test_time_is_told_by_traffic():
    assert by_hand(QUICK).periods("coda", 0.5) is None
    with pytest.raises(InputError, match="needs the traffic"):
        by_hand(QUICK).chance_in(3)
    for trials in ((), TRIALS):
        freely = by_hand(QUICK, trials, traffic="50/day")
        assert freely.periods("coda", 0.8) == pytest.approx(freely.quantiles("coda").p80 / 50)
        assert freely.chance_in(4) == freely.chance(200)
        assert freely.periods("coda", 0.5) < freely.periods("coda", 0.7) < freely.periods("coda", 0.8)
        batched = by_hand(QUICK, trials, traffic=Traffic(100, "day", batched=True))
        assert batched.periods("coda", 0.8) == math.ceil(batched.quantiles("coda").p80 / 100 - 1e-9)
        assert batched.chance_in(4.7) == batched.chance_in(4) == batched.chance(400)
    late, soon = (by_hand(QUICK, traffic=Traffic(100, "day", batched=True, delay=delay)) for delay in (3, 0))
    assert late.periods("coda", 0.8) == soon.periods("coda", 0.8) + 3
    assert late.samples["coda"].p80 == soon.samples["coda"].p80 + 300  # who comes meanwhile takes part
    assert late.chance_in(7) == soon.chance_in(4) > 0
    assert late.chance_in(3.9) == 0
    for share in (0.0, 1.0, 1.5):
        with pytest.raises(InputError, match="share"):
            late.periods("coda", share)


def test_what_is_proven_gets_better_with_people():
    people, bands = by_hand(QUICK, TRIALS).curve("coda")
    assert people.shape == (60,)
    assert bands.shape == (3, 60)
    assert (np.diff(people) > 0).all()
    assert (np.diff(bands, axis=1) <= 1e-12).all()
    assert (np.diff(bands, axis=0) >= -1e-12).all()
    assert bands[:, -1] == pytest.approx([0.2] * 3)


def test_means_are_in_the_units_of_rewards():
    units = by_hand(QUICK, TRIALS, reward_range=(0.0, 50.0), baseline=15.0, epsilon=10.0)
    assert units.means("coda").lost == pytest.approx(50.0)
    assert units.means("coda").over_control == pytest.approx(5.0)
    assert units.curve("coda")[1][0, -1] == pytest.approx(10.0)
    assert units.largest_gain == pytest.approx(50.0 * max(one.best_over_constant for one in units.trials))
    assert replace(units, trials=()).largest_gain == pytest.approx(25.0)


def said(plan):
    return " ".join(plan.findings())


def test_findings_say_when_a_plain_trial_will_do():
    assert "A plain randomised trial suffices" in said(by_hand((estimated(uniform=105.0), estimated(1, uniform=105.0))))
    plan = by_hand((estimated(), estimated(1)))
    assert "saves about 50 % of the people" in said(plan)
    assert "plain randomised" not in said(plan)
    never = tuple(replace(one, done=False) for one in TRIALS)
    assert "plain randomised" not in said(by_hand(QUICK, never))  # neither is done
    assert "had not finished after 10,000 users" in said(by_hand(QUICK, never))


def test_quantiles_of_batches_are_whole_periods():
    trials = [played(k, n, one, 100 * (n + 1)) for k in range(2) for n in range(7) for one in ("coda", "uniform")]
    plan = by_hand(QUICK, trials, traffic=Traffic(100, "week", batched=True))
    for made in (plan.quantiles("coda"), plan.quantiles("coda", 0)):
        assert [people % 100 for people in (made.median, made.p80, made.p95)] == [0, 0, 0]
    made = plan.quantiles("coda")
    assert [plan.periods("coda", share) for share in (0.5, 0.8)] == [made.median / 100, made.p80 / 100]


def test_what_few_trials_differ_by_is_not_taken_for_a_saving():
    alike = (estimated(uniform=105.0), estimated(1, uniform=105.0))

    def simulated(trials):
        cases = ((k, n, one) for k in range(2) for n in range(trials) for one in ("coda", "uniform"))
        return by_hand(alike, [played(k, n, one, (100 + n) * (1 + (one == "uniform"))) for k, n, one in cases])

    assert "suffices (by the quick answer, as yet):" in said(simulated(2))
    assert "saves about 50 % of the people." in said(simulated(40))


def test_findings_say_when_personalising_cannot_pay_and_when_it_is_only_not_proven():
    none, some = (estimated(gain=0.0), estimated(1, gain=0.0)), (estimated(gain=0.2), estimated(1, gain=0.0))
    assert "Personalisation has no benefit here" in said(by_hand(none, policies="trees:depth=1"))
    unproven = said(by_hand(some, policies="trees:depth=1"))
    assert "A proof at ε = 0.25 cannot show that personalising pays" in unproven
    assert "earns up to 0.2 a person more" in unproven
    assert "cannot pay" not in unproven
    assert "ersonalising" not in said(by_hand(some))  # nobody is told apart as it is
    assert "ersonalising" not in said(by_hand(QUICK, policies="trees:depth=1"))


def test_a_finished_log_follows_the_plain_trials_that_were_simulated():
    quick = by_hand((estimated(log=400.0), estimated(1, log=400.0)))
    assert quick.samples["certify"].median == pytest.approx(400, rel=1e-3)
    assert quick.chance(400, "certify") == pytest.approx(0.5)
    cases = [(k, n, one) for k in range(2) for n in range(3) for one in ("coda", "uniform")]
    longer = by_hand(quick.estimates, [played(k, n, one, 1000) for k, n, one in cases], traffic="100/week")
    assert longer.quantiles("certify").median == pytest.approx(2000, rel=1e-3)  # twice the plain trial, as foretold
    assert longer.foretold("certify").median == pytest.approx(400, rel=1e-2)
    assert longer.periods("certify", 0.5) == pytest.approx(20, rel=1e-2)
    assert longer.chance(2000, "certify") == pytest.approx(0.5, abs=0.01)
    undone = by_hand(quick.estimates, [played(k, n, one, 1000, done=False) for k, n, one in cases])
    assert undone.quantiles("certify").median == pytest.approx(400, rel=1e-3)


def test_findings_say_when_an_effect_is_too_small_and_when_it_takes_years():
    small = (TWO_SCENARIOS[0], replace(TWO_SCENARIOS[1], effect=0.2))
    assert "The effect of 0.2 (scenario 'winner') is no more than ε = 0.25" in said(by_hand(QUICK, scenarios=small))
    assert "no more than ε" not in said(by_hand(QUICK))
    assert "years in one of five cases" in said(by_hand(QUICK, traffic="10/month"))
    assert "years" not in said(by_hand(QUICK, traffic="100/month"))


def test_the_lower_bound_is_a_mean_or_none():
    both = (estimated(bound=10.0), estimated(1, bound=30.0))
    likely = (replace(TWO_SCENARIOS[0], weight=3.0), TWO_SCENARIOS[1])
    assert by_hand(both).lower_bound == pytest.approx(20)
    assert by_hand(both, scenarios=likely).lower_bound == pytest.approx(15)
    assert by_hand((estimated(bound=10.0), estimated(1))).lower_bound is None


def test_a_budget_must_be_said():
    with pytest.raises(InputError, match="you can afford: affordable"):
        by_hand(QUICK).affordable()
    with pytest.raises(InputError, match="budget"):
        by_hand(QUICK).affordable(0)
