"""Plans as files: what is read is what was written, and what was altered is refused in a sentence."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.planning import Traffic, load_plan, save_plan
from pacbandits.planning.plan_files import read_scenarios
from pacbandits.planning.study_plan import StudyPlan
from pacbandits.policies.trees import Trees
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import Scenario
from pacbandits.records import Contexts, Log
from tests.planning.cases import by_hand, estimated, played, supposed

QUICK = (estimated(0), estimated(1, bound=30.0))
TRIALS = tuple(
    played(k, n, one, 100, periods=3.0, done=n < 2) for k in range(2) for n in range(3) for one in ("coda", "uniform")
)


def mixed_people(n=60):
    """Numbers of which some are missing, and labels."""
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random(n) < 0.3, np.nan, rng.random(n))
    return Contexts.of(
        np.column_stack([numbers, rng.integers(3, size=n)]),
        names=["age", "place"],
        categories=[None, ["Köln", "Rome", "a|b"]],
        weights=rng.dirichlet(np.ones(n)),
    )


def test_a_plan_comes_back_as_it_was(tmp_path):
    contexts = mixed_people()
    s = supposed(
        contexts,
        policies=Trees.learn(contexts, n_actions=4, depth=1),
        n_actions=None,
        scenarios=(Scenario("none", weight=2.0), Scenario("few", effect=5.0, matter=3, name="three")),
        baseline=20.0,
        spread=4.0,
        epsilon=2.5,
        reward_range=(0.0, 60.0),
        variation=0.1,
        traffic=Traffic(70, "day", batched=True, delay=2),
        control=3,
        seed=9,
    )
    plan = StudyPlan(s, QUICK, TRIALS, 10_000, source="people.csv", budget=500)
    path = tmp_path / "plan.json"
    save_plan(path, plan)
    again = load_plan(path)
    assert (again.estimates, again.trials) == (plan.estimates, plan.trials)
    assert (again.max_samples, again.source, again.budget) == (10_000, "people.csv", 500)
    b = again.supposed
    for name in ("epsilon", "delta", "outcome", "scenarios", "control", "traffic", "seed", "spec"):
        assert getattr(b, name) == getattr(s, name)
    np.testing.assert_array_equal(b.people.features, s.people.features)
    np.testing.assert_allclose(b.people.weights, s.people.weights, rtol=1e-15)
    assert (b.people.names, b.people.categories) == (s.people.names, s.people.categories)
    np.testing.assert_array_equal(b.problem(1, 2).mean_rewards, s.problem(1, 2).mean_rewards)
    save_plan(tmp_path / "again.json", again)
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert json.loads(path.read_text())["answer"]["coda"]["people"]["p95"] is None  # not done


def test_a_pilot_comes_back_too(tmp_path):
    rng = np.random.default_rng(1)
    log = Log.of(
        mixed_people(),
        actions=np.arange(60) % 2,
        rewards=rng.random(60),
        propensities=np.full((60, 2), 0.5),
        action_names=["old", "new"],
        reward_range=(-5.0, 20.0),
    )
    s = supposed(log, n_actions=None, baseline=None, scenarios=(PilotEffects(log, 2.0, "last year"),), epsilon=5.0)
    save_plan(tmp_path / "plan.json", StudyPlan(s, (estimated(0),), (), 10_000))
    b = load_plan(tmp_path / "plan.json").supposed
    assert (b.scenarios[0].name, b.scenarios[0].weight) == ("last year", 2.0)
    assert repr(b.scenarios) == repr(s.scenarios)  # with the digest of the log
    assert b.outcome == s.outcome
    np.testing.assert_array_equal(b.problem(0, 1).mean_rewards, s.problem(0, 1).mean_rewards)


def put(value, at):
    """A change of what stands at a place of the file."""

    def change(plan):
        *path, last = at
        for key in path:
            plan = plan[key]
        plan[last] = value

    return change


def take(*at):
    def change(plan):
        *path, last = at
        for key in path:
            plan = plan[key]
        del plan[last]

    return change


@pytest.mark.first(11)
@pytest.mark.parametrize(
    "change",
    [
        put("pacbandits plan 9", ["format"]),
        put(1, ["more"]),
        take("supposed"),
        take("max_samples"),
        put(0, ["max_samples"]),
        put(-1, ["budget"]),
        put([], ["estimates"]),
        put(9, ["estimates", 0, "scenario"]),
        put(0, ["estimates", 1, "scenario"]),
        put(-3.0, ["estimates", 0, "medians", "coda"]),
        put(9, ["trials", 0, "scenario"]),
        put("rage", ["trials", 0, "algorithm"]),
        put([], ["trials", 0, "curve"]),
        put("x", ["supposed", "epsilon"]),
        put(2.0, ["supposed", "epsilon"]),
        put(7.0, ["supposed", "outcome", "baseline"]),
        put("winer", ["supposed", "scenarios", 1, "kind"]),
        put([], ["supposed", "scenarios"]),
        put(5, ["supposed", "control"]),
        put({"people": 0, "period": "day", "batched": False, "delay": 0}, ["supposed", "traffic"]),
        put([[1.0]], ["supposed", "people", "columns"]),
        put(["x"], ["supposed", "people", "columns", 0]),
        put([0.5], ["supposed", "people", "weights"]),
        put({}, ["supposed", "policies"]),
    ],
)
def test_a_plan_that_was_altered_is_refused(tmp_path, change):
    path = tmp_path / "plan.json"
    save_plan(path, by_hand(QUICK, TRIALS))
    plan = json.loads(path.read_text())
    change(plan)
    path.write_text(json.dumps(plan))
    with pytest.raises(InputError, match=r"plan\.json"):
        load_plan(path)


def test_what_is_no_plan_is_refused(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(InputError, match="this is not a pacbandits plan"):
        load_plan(other)
    with pytest.raises(InputError, match=r"none\.json"):
        load_plan(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"a plan is written as JSON; name it .*plan\.json"):
        save_plan(tmp_path / "plan.txt", by_hand(QUICK))
    with pytest.raises(InputError, match="cannot write"):
        save_plan(tmp_path / "none" / "plan.json", by_hand(QUICK))


def test_the_answer_in_json_is_that_of_the_plan():
    plan = by_hand(QUICK, TRIALS, traffic="50/day")
    answer = plan.to_json()["answer"]
    assert answer["simulated"]
    assert answer["findings"] == list(plan.findings())
    for one in ("coda", "uniform"):
        assert answer[one]["people"] == plan.quantiles(one).to_json()
        assert answer[one]["people_estimated"]["median"] == plan.foretold(one).median
        assert set(answer[one]["by_scenario"]) == {"none", "winner"}
        assert answer[one]["periods"]["0.5"] == pytest.approx(plan.periods(one, 0.5))
        assert answer[one]["periods"]["0.95"] is None
        assert answer[one]["periods"]["period"] == "day"
    assert math.isinf(plan.quantiles("coda").p95)


FILE = """
actions = 4
baseline = 0.05
epsilon = 0.02
reward_range = [0, 1]
traffic = "4000/week"
delay = 1

[[scenario]]
kind = "segments"
effect = 0.04
share = 0.25
weight = 2

[[scenario]]
kind = "few"
effect = 0.04
matter = 3
name = "three of many"
"""


def test_scenarios_in_a_file(tmp_path):
    path = tmp_path / "scenarios.toml"
    path.write_text(FILE)
    given = read_scenarios(path)
    assert given.pop("scenarios") == (
        Scenario("segments", effect=0.04, share=0.25, weight=2.0),
        Scenario("few", effect=0.04, matter=3, name="three of many"),
    )
    assert given == {
        "n_actions": 4,
        "baseline": 0.05,
        "epsilon": 0.02,
        "reward_range": (0.0, 1.0),
        "traffic": "4000/week",
        "delay": 1,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; start with"),
        ("# only a remark\n", "is empty; start with"),
        ("baselin = 0.05", "unknown key 'baselin'; did you mean 'baseline'"),
        ("baseline = 'five'", "'baseline': 'five' is no number"),
        ("baseline = 'nan'", "'baseline' must be finite"),
        ("baseline = true", "'baseline' must be a number"),
        ("actions = 2.5", "'actions' must be a whole number"),
        ("baseline = ", "is not TOML"),
        ("reward_range = [1]", "'reward_range'"),
        ("scenario = 3", r"scenarios are tables: \[\[scenario\]\]"),
        ("[[scenario]]\neffect = 1", "scenario 1 lacks its kind"),
        ("[[scenario]]\nkind = 'winer'", "no scenario 'winer'; did you mean 'winner'"),
        (
            "[[scenario]]\nkind = 'none'\n[[scenario]]\nkind = 'winner'\nefect = 1",
            "scenario 2 has an unknown key 'efect'; did you",
        ),
        ("[[scenario]]\nkind = 'winner'\neffect = true", "effect of scenario 1 must be a number"),
        ("[[scenario]]\nkind = 'winner'", "the effect of scenario 'winner' must be above 0"),
        ("[[scenario]]\nkind = 'few'\neffect = 0.1\nmatter = 1.5", "matter of scenario 1 must be a whole number"),
    ],
)
def test_a_slip_in_the_file_is_named(tmp_path, text, words):
    path = tmp_path / "scenarios.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"scenarios\.toml.*{words}"):
        read_scenarios(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml.*cannot be read"):
        read_scenarios(tmp_path / "none.toml")
    (tmp_path / "other.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"other\.toml.*not text in UTF-8"):
        read_scenarios(tmp_path / "other.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InputError, match=r"large\.toml.*more than 1,048,576 bytes"):
        read_scenarios(tmp_path / "large.toml")
