"""Looks: what they show before anything is in, while rewards are out, and when all is proven."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

import pacbandits as pb
from pacbandits.certificate import Interval, Worth
from pacbandits.experiment.analyses import ToGo, _value, leaves_of, look_forward, mean_reward, people_a_day
from pacbandits.experiment.exports import _alarms
from pacbandits.experiment.protocol import GuardrailRule
from pacbandits.planning.assumptions import Forecast
from pacbandits.policies.trees.tree_policy import AtMost, Is, IsMissing, TreePolicy, TreeSplit
from tests.experiment.cases import ACTIONS, protocol
from tests.experiment.live import Played

FORETOLD = Forecast((900.0, 1200.0, None), (4.0, 6.0, None), 1500.0)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """An experiment with all that there can be: before anything, on its way, and done."""
    options = {"epsilon": 0.25, "holdout": 0.2, "guardrail": GuardrailRule("complaint", 0.2), "plan": FORETOLD}
    live = Played(tmp_path_factory.mktemp("looks") / "a.db", options)
    found = {"empty": live.experiment.status().to_json()}
    live.day(guardrail=lambda _: 0.05, told=0.0)
    found["awaited"] = live.advance()
    for _ in range(12):
        live.day(guardrail=lambda _: 0.05, told=0.97)
        found["way"], found["done"] = found.get("done"), live.advance()
        if found["done"]["state"] == "certified":
            break
    return found


@pytest.mark.thorough
def test_before_anything_is_in_nothing_is_said(seen):
    assert seen["empty"]["claim"] is None
    out = seen["awaited"]
    assert out["value"] is None
    assert [arm["rewards_in"] for arm in out["arms"]] == [0, 0, 0]
    assert sum(arm["assigned"] for arm in out["arms"]) + out["holdout_assigned"] == 200
    assert out["health"]["awaited_share"] == 1.0
    assert out["to_go"]["plan"] == FORETOLD.to_json()
    json.dumps(out, allow_nan=False)


@pytest.mark.thorough
def test_what_is_proven_and_likely_is_told_in_the_end(seen):
    out = seen["done"]
    assert out["state"] == "certified"
    claim, value = out["claim"], out["value"]
    assert claim["certified"]
    assert claim["certified_epsilon"] <= 0.25
    assert claim["delta"] == pytest.approx(0.05 * 0.9)
    assert any("may be anything" in words for words in claim["assumptions"])
    for part in ("policy", "standard", "lift"):
        assert value[part]["low"] < value[part]["estimate"] < value[part]["high"]
    assert value["standard"]["low"] < 0.3 < value["standard"]["high"]
    assert (out["to_go"]["samples"], out["to_go"]["days"]) == (0, 0.0)
    assert 0.2 < out["to_go"]["plain_trial"] / claim["samples"] < 20
    assert out["policy"]["kind"] in ("tree", "mixture")
    json.dumps(out, allow_nan=False)


@pytest.mark.thorough
def test_arms_leaves_and_health_are_those_of_the_rows(seen):
    out = seen["done"]
    arms, leaves, health = out["arms"], out["leaves"], out["health"]
    assert sum(arm["share"] for arm in arms) == pytest.approx(1.0)
    assert arms[0]["mean"] == pytest.approx(0.3, abs=0.12)
    assert sum(leaf["share"] for leaf in leaves) == pytest.approx(1.0)
    assert all(sum(leaf["shares"].values()) == pytest.approx(1.0) for leaf in leaves)
    assert leaves[0]["where"].startswith("age ≤")
    assert (leaves[0]["action"], len(leaves)) == ("discount", 2)
    assert {check["name"] for check in health["checks"]} == {"drift", "sample ratio"}
    assert not any(check["alarm"] for check in health["checks"])
    assert [test["of"] for test in health["guardrail"]["tests"]] == ["all", *ACTIONS]
    assert 0.0 < health["least_propensity"] <= 1 / 3


@pytest.mark.thorough
def test_on_the_way_it_is_told_how_far_it_is(seen):
    out = seen["way"]
    assert out["claim"] is None or not out["claim"]["certified"]
    more = out["to_go"]["samples"]
    assert more is None or out["to_go"]["days"] == pytest.approx(more / 160, rel=0.3)


@pytest.mark.thorough
def test_the_holdout_is_compared_between_bounds(seen):
    compared = seen["done"]["holdout_compared"]
    for part, rows in (("holdout", seen["done"]["holdout_assigned"]), ("experiment", None)):
        one = compared[part]
        assert one["low"] < one["mean"] < one["high"]
        assert rows is None or one["rows"] <= rows
    assert compared["holdout"]["low"] < 0.3 < compared["holdout"]["high"]


@pytest.mark.thorough
def test_without_an_action_that_was_withdrawn(tmp_path):
    live = Played(tmp_path / "a.db", {"epsilon": 0.4})
    live.day(250)
    live.advance()
    live.experiment.withdraw("free shipping", "sold out")
    for _ in range(4):
        live.day(250)
        out = live.advance()
    assert [arm["withdrawn"] for arm in out["arms"]] == [False, False, True]
    assert out["arms"][2]["assigned"] < 120
    assert out["claim"]["delta"] == pytest.approx(0.05 * 0.1 * 0.5 / 3)
    assert "free shipping" not in out["claim"]["words"]
    assert out["claim"]["certified"]
    assert 0 < out["to_go"]["plain_trial"] < 5000
    # Who verifies makes the class again from the contexts, unless it has fewer actions than the protocol says.
    assert live.experiment.result().certificate["learning"] is None


@pytest.mark.thorough
def test_bounds_on_means_hold_at_all_times_whatever_is_still_out():
    """At every look the bounds hold for the mean of all rewards, though bad ones are reported late or never."""
    rng, mean, delta, wrong = np.random.default_rng(0), 0.3, 0.2, 0
    for _ in range(25):
        rewards = (rng.random(400) < mean).astype(float)
        known = np.where((rewards > 0) | (rng.random(400) < 0.7), np.arange(400) // 100 + 1, -1)
        late = np.where(known < 0, np.nan, rewards)
        bad = False
        for n in (100, 400):
            log = pb.Log.of(
                pb.Contexts.of(np.zeros((n, 1))),
                actions=np.zeros(n, dtype=int),
                rewards=late[:n],
                propensities=np.ones((n, 1)),
                rounds=np.arange(n) // 100,
                known=known[:n],
            )
            found = mean_reward(log, delta=delta)
            bad |= not found["low"] <= mean <= found["high"]
        wrong += bad
    assert wrong <= binom.ppf(0.999, 25, delta)


def test_leaves_are_said_in_words():
    tree = TreeSplit(
        AtMost("age", 40.5),
        TreeSplit(Is("country", "DE"), 1, 0),
        TreeSplit(AtMost("income", 3.0, missing=False), 2, TreeSplit(IsMissing("income"), 1, 0)),
    )
    features = [[30, 1, 1], [30, 0, 1], [50, 0, 2], [50, 0, np.nan], [50, 0, 4]]
    names, labels = ["age", "country", "income"], [None, ("AT", "DE"), None]
    log = pb.Log.of(
        pb.Contexts.of(features, names=names, categories=labels),
        actions=[1, 0, 0, 2, 2],
        rewards=np.zeros(5),
        propensities=np.full((5, 3), 1 / 3),
    )
    found = leaves_of(TreePolicy(tree, 3), log, ACTIONS)
    assert [one.where for one in found] == [
        "age ≤ 40.5 and country is DE",
        "age ≤ 40.5 and country is not DE",
        "age > 40.5 and income ≤ 3 (missing: no)",
        "age > 40.5 and income is missing or > 3 and income is missing",
        "age > 40.5 and income is missing or > 3 and income is not missing",
    ]
    assert [one.share for one in found] == [0.2] * 5
    assert found[0].shares == {"standard": 0.0, "discount": 1.0, "free shipping": 0.0}
    everybody = leaves_of(TreePolicy(2, 3), log, ACTIONS)
    assert [(one.where, one.share, one.action) for one in everybody] == [("everybody", 1.0, "free shipping")]
    listed = pb.Finite([[0, 1]], n_actions=3).policy(0)
    of_ids = replace(log, contexts=replace(log.contexts, ids=np.array([0, 1, 1, 0, 0])))
    assert [one.where for one in leaves_of(listed, of_ids, ACTIONS)] == [
        "where it says standard",
        "where it says discount",
    ]


def test_traffic_is_that_of_the_last_week():
    day = round(timedelta(days=1).total_seconds() * 1e6)
    at = np.concatenate([np.arange(100), 20 * day + np.arange(70) * (day // 10)])
    assert people_a_day(at, now=27 * day) == pytest.approx(10.0)
    assert people_a_day(at[:5], now=27 * day) is None
    assert people_a_day(np.arange(50), now=60) is None
    assert people_a_day(at[:100], now=27 * day) is None


def test_before_the_first_reward_the_plan_is_all_there_is():
    trial_class = protocol().policy_class
    assert look_forward(None, None, trial_class, a_day=None, plan=None) is None
    found = look_forward(None, None, trial_class, a_day=10.0, plan=FORETOLD)
    assert found == ToGo(None, None, 1500, FORETOLD)


def test_a_plain_trial_takes_as_many_as_it_has_taken():
    """Where exploration was uniform, a plain trial would have taken the same."""
    problem = pb.load_problem("trees:contexts=60,features=2,bins=4,actions=3,competitive=2")
    done = pb.run(problem, algorithm="uniform", epsilon=0.3, delta=0.05, rng=1)
    found = look_forward(done.certificate, done.log, problem.policies, a_day=50, plan=None)
    assert found.plain_trial == done.certificate.samples


def test_a_status_begins_with_what_speaks_against_the_claim():
    """As of the last look; what was found when the claim was made counts where that look tells nothing."""
    checks = [{"alarm": True, "words": "signs of drift"}, {"alarm": False, "words": "no sign"}]
    claim = {"alarms": ["signs of a mismatch"]}
    assert _alarms(claim, {"health": {"checks": checks}, "value": None}) == ["signs of drift"]
    assert _alarms(claim, {"health": None, "value": {"alarms": ["an interval is empty"]}}) == ["an interval is empty"]
    assert _alarms(claim, {}) == ["signs of a mismatch"]
    assert _alarms(None, {}) == []


def test_an_interval_that_is_empty_is_not_turned_round():
    empty = Interval(0.0205, 0.02, 0.0)
    worth = Worth(empty, (empty, empty), empty, (empty, empty), 0.05, False, 10, None, ())
    told = _value(SimpleNamespace(standard_action=0, standard="a"), worth)
    assert told["words"].startswith("the policy earns 0.02 (empty interval) on average and 'a' 0.02 (empty interval)")
    assert "is right" not in told["words"]
    assert told["alarms"] == list(worth.alarms)
    assert told["lift"] == {"low": None, "estimate": 0.02, "high": None, "standard_error": None}
