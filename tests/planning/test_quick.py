"""The quick answer: near to simulation, and more where there is more to prove."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import finished_logs

from pacbandits.planning import Limits
from pacbandits.planning import sample_sizes as quick
from pacbandits.planning.assumptions import RIVALS
from pacbandits.planning.sample_sizes import chance_by, estimate, foretold, people_of_log
from pacbandits.planning.simulated_trials import simulate, stopping_times
from pacbandits.problems.scenarios import Scenario
from tests.planning.cases import TWO_SCENARIOS, question, supposed, trees


def median(**options):
    s = supposed(scenarios=TWO_SCENARIOS[:1], **options)
    return foretold(estimate(s, draws=1, designs=False), s.shares, "uniform").median


def test_more_is_needed_to_prove_more():
    usual = median(epsilon=0.1)
    assert median(epsilon=0.05) > 2 * usual
    assert median(epsilon=0.1, delta=0.001) > usual
    assert median(epsilon=0.1, n_actions=5) > usual
    assert median(epsilon=0.1, policies="trees:depth=1") > usual
    assert median(epsilon=0.1, spread=0.1) < usual
    assert median(epsilon=10.0, baseline=30.0, reward_range=(0.0, 100.0)) == pytest.approx(usual, rel=1e-9)


def test_estimates_are_the_same_for_the_same_seed_and_say_what_is_to_gain():
    s = supposed(policies="trees:depth=1", scenarios=(*TWO_SCENARIOS, Scenario("segments", effect=0.4, share=0.5)))
    first = estimate(s, draws=1, designs=False)
    assert first == estimate(s, draws=1, designs=False)
    none, winner, segments = first
    assert none.gain == pytest.approx(0, abs=1e-12)
    assert winner.gain == pytest.approx(0, abs=1e-9)
    assert segments.gain == pytest.approx(0.2, abs=0.05)
    assert none.lower_bound is None  # ties
    assert max(one.gain_over_control for one in first) > 0.15


def test_a_design_is_never_foretold_to_cost_much_more():
    s = supposed(n_actions=4, policies="trees:depth=1")
    for one in estimate(s, draws=1):
        assert one.advantage >= 1
        assert one.medians["coda"] <= 1.08 * one.medians["uniform"]


def test_many_actions_and_features_are_estimated_by_fewer(monkeypatch):
    """Seconds, where 200 actions took minutes; the answer is that of all of them to a fifth."""
    s = supposed(n_actions=30, policies="trees:depth=1", scenarios=(Scenario("winner", effect=0.3),), epsilon=0.2)
    asked = []
    real = quick._estimate
    monkeypatch.setattr(quick, "_estimate", lambda p, *a, **o: asked.append(p.n_actions) or real(p, *a, **o))
    (few,) = estimate(s, draws=1, designs=False)
    monkeypatch.setattr(quick, "MAX_QUICK_ACTIONS", 30)
    (every,) = estimate(s, draws=1, designs=False)
    assert asked == [12, 30]
    assert few.medians["uniform"] == pytest.approx(every.medians["uniform"], rel=0.25)
    monkeypatch.setattr(quick, "MAX_QUICK_SPLITS", 8)
    assert quick._smaller(s).policies.log_size < s.policies.log_size
    priced = supposed(n_actions=30, policies="trees:depth=0,costs=" + "/".join("1" * 30) + ",budget=2")
    monkeypatch.setattr(quick, "MAX_QUICK_ACTIONS", 12)
    assert quick._smaller(priced).n_actions == 30  # its costs are of 30 actions


def test_a_finished_log_takes_more_where_leaders_lead_by_luck():
    deep, flat = supposed(policies="trees:depth=2,bins=32"), supposed()
    assert people_of_log(1000.0, deep, gap=0.0) == pytest.approx(1956)
    assert people_of_log(1000.0, deep, gap=9.0) == people_of_log(1000.0, flat, gap=0.0) == pytest.approx(1256)
    own = supposed(policies=trees(), n_actions=None)
    assert people_of_log(1000.0, own, gap=9.0) == pytest.approx(1000)  # no rows teach it


def test_chances_of_scenarios_add_up():
    s = supposed(scenarios=(replace(TWO_SCENARIOS[0], weight=3.0), TWO_SCENARIOS[1]))
    made = estimate(s, draws=1, designs=False)
    each = [chance_by((one,), s.shares, "uniform", 250.0) for one in made]
    assert chance_by(made, s.shares, "uniform", 250.0) == pytest.approx(0.75 * each[0] + 0.25 * each[1])
    assert chance_by(made, s.shares, "uniform", 0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("policies", ["trees:depth=0", "trees:depth=1"])
def test_the_quick_median_is_near_the_simulated_one(policies):
    """Over small problems, in three of four cases within a factor of 1.5 and never beyond 2.5."""
    ratios = []
    for n_actions, baseline, epsilon in ((2, 0.3, 0.1), (4, 0.2, 0.1), (6, 0.5, 0.15)):
        scenarios = (Scenario("none"), Scenario("winner", effect=0.2), Scenario("segments", effect=0.2))
        s = supposed(n_actions=n_actions, baseline=baseline, epsilon=epsilon, policies=policies, scenarios=scenarios)
        made = estimate(s)
        trials = simulate(s, question(s, most=10**6), limits=Limits(trials=7))
        for k in range(len(scenarios)):
            some = tuple(one for one in made if one.scenario == k)
            for one in RIVALS:
                simulated = float(np.median(stopping_times(trials, one, k)))
                ratios.append(foretold(some, s.shares, one).median / simulated)
    off = np.abs(np.log(ratios))
    assert (off <= np.log(1.5)).mean() >= 0.75, np.round(ratios, 2)
    assert off.max() <= np.log(2.5), np.round(ratios, 2)


@pytest.mark.slow
def test_certify_proves_what_a_plan_says_of_finished_logs():
    """On settings that nothing was fitted to: of logs of the planned sizes about half, and about 4 of 5, prove ε.

    Eight logs of two sizes in six settings: chance moves the shares of 48 by 7 and 6 points, settings by as much again.
    """
    found = []
    for seed in (7000, 7001, 7005, 7006, 7009, 7014):
        plan = finished_logs.planned(seed)
        made = plan.quantiles("certify")
        found.append([finished_logs.certified_share(plan, round(n), logs=8) for n in (made.median, made.p80)])
    half, most = np.mean(found, axis=0)
    assert 0.3 <= half <= 0.75, found
    assert 0.65 <= most <= 0.98, found
