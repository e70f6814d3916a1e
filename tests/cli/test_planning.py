"""`pacbandits plan`: the answers of a plan, in tables and as JSON, in pictures and files; and sentences for slips."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacbandits.planning import load_plan
from pacbandits.planning import simulated_trials as pool

SMALL = ("--actions", 2, "--policies", "trees:depth=0", "--epsilon", 0.25, "--baseline", 0.3)
TINY_SCENARIOS = """
actions = 2
policies = "trees:depth=0"
epsilon = 0.25
baseline = 0.3

[[scenario]]
kind = "none"

[[scenario]]
kind = "winner"
effect = 0.4
weight = 3
name = "a clear winner"
"""


@pytest.fixture
def customers(tmp_path):
    """A CSV of 60 people: age, some missing, and a place."""
    rng = np.random.default_rng(0)
    rows = [f"{'' if i % 7 == 0 else rng.integers(18, 80)},{['north', 'south', 'east'][i % 3]}" for i in range(60)]
    path = tmp_path / "customers.csv"
    path.write_text("age,place\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def scenarios(tmp_path):
    path = tmp_path / "scenarios.toml"
    path.write_text(TINY_SCENARIOS)
    return path


@pytest.fixture
def pilot(tmp_path):
    """A CSV of 200 people of a pilot with two arms."""
    rng = np.random.default_rng(1)
    arm = rng.choice(["old", "new"], size=200)
    cured = rng.random(200) < np.where(arm == "new", 0.8, 0.3)
    path = tmp_path / "pilot.csv"
    rows = [f"{rng.integers(18, 80)},{a},{int(c)}" for a, c in zip(arm, cured, strict=True)]
    path.write_text("age,arm,cured\n" + "\n".join(rows) + "\n")
    return path


def flat(words):
    return " ".join(words.split())


@pytest.mark.thorough
def test_a_quick_plan_in_tables_and_as_json(run, customers):
    asked = ("plan", customers, *SMALL, "--traffic", "200/week", "--quick")
    code, out, err = run(*asked)
    assert code == 0, err
    words = flat(out)
    assert "To find a rule within 0.25 of the best one, and to prove it with 95 % confidence" in words
    assert "This is a quick estimate" in words
    for one in (
        "adaptive trial (coda)",
        "plain randomised trial",
        "in 19 of 20",
        "weeks",
        "segments",
        "200 people",
    ):
        assert one in words
    code, out, _ = run(*asked, "--json")
    assert code == 0
    got = json.loads(out)
    assert not got["simulated"]
    median = got["coda"]["people"]["median"]
    assert f"takes about {float(f'{median:.2g}'):,.0f} people" in words
    assert got["coda"]["periods"]["0.5"] == pytest.approx(median / 200)
    assert set(got["uniform"]["by_scenario"]) == {"none", "winner", "segments"}
    assert got["supposed"]["actions"] == "2"
    assert all(flat(one) in words for one in got["findings"])


@pytest.mark.thorough
def test_scenarios_from_a_file_simulated_with_everything_written(run, customers, scenarios, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "cores", lambda: 1)  # processes of their own are slow to start
    files = {name: tmp_path / f"plan.{name}" for name in ("png", "html", "json")}
    asked = ("plan", customers, "--scenarios", scenarios, "--trials", 2, "--keep", tmp_path / "kept")
    more = ("--figure", files["png"], "--report", files["html"], "--out", files["json"])
    code, out, err = run(*asked, *more)
    assert code == 0, err
    assert "quick answer (median number of users): " in err
    words, page = flat(out), files["html"].read_text()
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    for one in ("a clear winner", "reward that the trial costs"):
        assert one in words
    for one in ("What will the trial cost?", "a clear winner", "data:image/svg+xml", "75&nbsp;%"):
        assert one in page
    plan = load_plan(files["json"])
    assert plan.simulated
    assert len(plan.trials) == 8
    assert plan.source == str(customers)
    assert plan.supposed.shares == (0.25, 0.75)
    code, out, err = run(*asked, "--json")  # goes on with what was kept: nothing more is played
    assert code == 0, err
    got = json.loads(out)
    assert got["simulated"]
    assert got["coda"]["people"]["trials"] == 4
    assert got["coda"]["people"] == plan.quantiles("coda").to_json()
    assert got["coda"]["means"]["lost"] == pytest.approx(plan.means("coda").lost)
    assert "a clear winner" in got["coda"]["by_scenario"]
    assert err == ""


@pytest.mark.thorough
def test_columns_of_people_are_chosen_as_those_of_a_log(run, customers, tmp_path):
    lines = customers.read_text().splitlines()
    rows = [f"{line},u{i:04d}" for i, line in enumerate(lines[1:])]
    customers.write_text(f"{lines[0]},user_id\n" + "\n".join(rows) + "\n")
    plan = tmp_path / "plan.json"
    for options, names in (
        ((), ("age", "place")),
        (("--without", "age"), ("place",)),
        (("--features", "age"), ("age",)),
        (("--features", "+user_id"), ("age", "place", "user_id")),
    ):
        code, _, err = run("plan", customers, *SMALL, "--quick", "--out", plan, *options)
        assert code == 0, err
        assert load_plan(plan).supposed.people.names == names
        assert ("user_id" in err) == (options in ((), ("--without", "age")))


def test_a_pilot_with_a_control_by_name_and_a_budget(run, pilot, tmp_path):
    report = tmp_path / "plan.md"
    asked = ("plan", pilot, "--action", "arm", "--reward", "cured", "--split", "uniform", "--control", "old", "--quick")
    code, out, err = run(*asked, "--policies", "trees:depth=0", "--epsilon", 0.2, "--budget", 300, "--report", report)
    assert code == 0, err
    assert "what 200 rows of a pilot make likely" in flat(out)
    assert "With 300 people the chance to be done is" in flat(out)
    text = report.read_text()
    assert "# What will the trial cost?" in text
    assert "| what the pilot makes likely" in text
    assert "## What 300 people afford" in text
    code, out, err = run(*asked, "--policies", "trees:depth=0", "--budget", 300, "--json")  # without --epsilon
    assert code == 0, err
    assert 0 < json.loads(out)["epsilon"] < 0.5


SLIPS = [
    (("--actions", 2, "--baseline", 0.3), "give the tolerance (--epsilon)"),
    (("--epsilon", 0.1, "--baseline", 0.3), "number of actions (--actions)"),
    (("--actions", 2, "--epsilon", 0.1), "give the baseline (--baseline)"),
    ((*SMALL, "--baseline", 3), "--baseline must lie between 0 and 1"),
    ((*SMALL, "--epsilon", 2), "--epsilon must be below 1, the width of the reward range; got 2"),
    ((*SMALL, "--effect", 0.9), "lead beyond 1, the largest reward"),
    ((*SMALL, "--delay", 2), "--delay needs the traffic; add --traffic 4000/week"),
    ((*SMALL, "--batched"), "--batched needs the traffic"),
    ((*SMALL, "--delay", -1, "--traffic", "9/day"), "--delay, in periods of the traffic, must be"),
    ((*SMALL, "--traffic", "lots"), "such as 4000/week; got 'lots'"),
    ((*SMALL, "--traffic", "1/day"), "2 actions are too many for 1 people a day"),
    ((*SMALL, "--control", "placebo"), "--control 'placebo' is not an action; give its number, from 0"),
    ((*SMALL, "--control", 7), "--control must be"),
    ((*SMALL, "--figure", "plan.gif"), "plan.gif"),
    ((*SMALL, "--report", "plan.doc"), "plan.doc"),
    ((*SMALL, "--out", "plan.txt"), "a plan is written as JSON; name it plan.json"),
    ((*SMALL, "--out", "none/plan.json"), "the folder of 'none/plan.json' does not exist"),
    ((*SMALL, "--split", "uniform"), "--split is for the log of a pilot; add --action and --reward"),
    ((*SMALL, "--features", "+agee"), "there is no column 'agee' to keep; did you mean 'age'?"),
    ((*SMALL, "--without", "ages"), "there is no column 'ages' to leave out"),
    ((*SMALL, "--scenarios", "none.toml"), "none.toml"),
    ((*SMALL, "--trials", 0), "--trials must be"),
    ((*SMALL, "--minutes", -1), "--minutes must be"),
    ((*SMALL, "--budget", 0), "--budget must be"),
    ((*SMALL, "--basline", 0.3), "No such option: --basline"),
    ((*SMALL, "--policies", "tree:depth=1"), "unknown policy class 'tree'"),
]


@pytest.mark.first(2)
@pytest.mark.parametrize(("options", "words"), SLIPS, ids=[words[:40] for _, words in SLIPS])
def test_a_slip_gets_a_sentence_and_leaves_nothing(run, customers, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("plan", customers, *options)
    assert code == 2
    assert flat(words) in flat(err.replace("│", " "))
    assert "Traceback" not in err
    assert out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["customers.csv"]


@pytest.mark.thorough
def test_contexts_and_pilots_that_cannot_be(run, tmp_path, pilot):
    alike = tmp_path / "alike.csv"
    alike.write_text("age\n" + "30\n" * 9)
    code, _, err = run("plan", alike, *SMALL)
    assert code == 2
    assert "treat them differently" in flat(err) or "age" in err
    asked = ("plan", pilot, "--action", "arm", "--reward", "cured", "--split", "uniform", "--epsilon", 0.2)
    code, _, err = run(*asked, "--control", "od")
    assert code == 2
    assert "--control 'od' is not an action; did you mean 'old'" in flat(err)
    code, _, err = run(*asked, "--baseline", 0.3)
    assert code == 2
    assert "a pilot determines --baseline and --spread; leave them out" in flat(err)


@pytest.mark.thorough
def test_the_chance_to_be_done_by_a_date(run, customers, tmp_path):
    asked = ("plan", customers, *SMALL, "--quick", "--by", 3)
    kept = tmp_path / "plan.json"
    code, out, err = run(*asked, "--traffic", "200/week", "--out", kept)
    assert code == 0, err
    assert "In 3 weeks the chance to be done is" in flat(out)
    plan = load_plan(kept)
    assert plan.deadline == 3
    assert plan.chance_in(3) == pytest.approx(plan.chance(600))
    code, _, err = run(*asked)
    assert code == 2
    assert "--by needs the traffic; add --traffic" in err


@pytest.mark.thorough
def test_a_trial_is_started_from_a_plan_and_compared_with_it(run, customers, scenarios, tmp_path):
    kept = tmp_path / "plan.json"
    assert run("plan", customers, "--scenarios", scenarios, "--quick", "--out", kept)[0] == 0
    log, asked = tmp_path / "log.parquet", ("run", kept, "--scenario", "a clear winner", "--seed", 2)
    code, out, err = run(*asked, "--log", log, "--algorithm", "uniform")
    assert code == 0, err
    assert "Plan and outcome" in out
    assert "scenario a clear winner" in flat(out)
    code, out, _ = run(*asked, "--json")
    said = json.loads(out)
    assert said["epsilon"] == 0.25
    assert said["planned"][1][0] == "people"
    assert said["planned"][1][2] == f"{said['samples']:,}"
    report = tmp_path / "report.html"
    certified = ("certify", log, "--policies", "trees:depth=0", "--contexts", customers, "--plan", kept)
    code, out, err = run(*certified, "--epsilon", 0.25, "--report", report)
    assert code in (0, 3), err
    assert "Plan and outcome" in out
    assert "Plan and outcome" in report.read_text()
    for words, options in (
        ("no scenario 'winnner'", ("run", kept, "--scenario", "winnner")),
        ("--scenario needs a plan", ("run", "trees", "--scenario", "winner")),
        ("is not a pacbandits plan", ("run", scenarios.with_suffix(".json"))),
    ):
        scenarios.with_suffix(".json").write_text('{"format": "else"}')
        code, _, err = run(*options)
        assert code == 2
        assert words in err


def test_rates_may_be_given_in_percent(command, customers, tmp_path):
    usual = ("plan", customers, "--actions", 2, "--policies", "trees:depth=0", "--quick", "--json")
    shares = ("--variation", "30%", "--share", "30%", "--delta", "5%", "--effect", "+50%")
    code, percent, err = command(*usual, "--baseline", "30%", "--epsilon", "10 %", *shares)
    assert code == 0, err
    assert json.loads(percent)["effects"] == [pytest.approx(0.15)]
    plain = ("--variation", 0.3, "--share", 0.3, "--delta", 0.05, "--effect", 0.15)
    assert json.loads(command(*usual, "--baseline", 0.3, "--epsilon", 0.1, *plain)[1]) == json.loads(percent)
    stated = tmp_path / "stated.toml"
    stated.write_text('baseline = "30%"\nepsilon = "10%"\neffect = "+50%"\n')
    assert json.loads(command(*usual, "--scenarios", stated)[1]) == json.loads(percent)


@pytest.mark.parametrize(("words", "said"), [("5,5%", "write 5.5%"), ("many", "is no number"), ("1/0", "divides by 0")])
def test_what_is_no_rate_is_named(command, customers, words, said):
    code, _, err = command("plan", customers, "--actions", 2, "--baseline", words, "--epsilon", 0.1)
    assert code == 2
    assert "--baseline" in err
    assert said in flat(err)


def test_the_effect_stands_first_and_several_are_told(command, customers):
    code, out, err = command("plan", customers, *SMALL[:4], "--baseline", "5%", "--epsilon", "2%", "--quick")
    assert code == 0, err
    assert flat(out).startswith("Supposed: a better action raises the mean reward from 5 % to 6 % (+20 %).")
    assert "certify FILE" in flat(out)
    assert "5.5 % (+10 %)" in out
    assert "6.5 % (+30 %)" in out


GAIN = ("--actions", 2, "--policies", "trees:depth=0", "--baseline", "20%", "--effect", "+40%", "--quick")


def test_a_plan_for_a_gain_in_words_and_as_json(run, customers, tmp_path):
    code, out, err = run("plan", customers, *GAIN, "--improve-on", "control", "--traffic", "200/week", "--budget", 900)
    assert code == 0, err
    words = flat(out)
    assert words.startswith("Supposed: a better action raises the mean reward from 20 %, under the control, to 28 %")
    assert "To prove a gain over the control (action 0) with 95 % confidence in 80 % of tests takes about" in words
    assert "An ordinary A/B test of the same power takes about 700 rows" in words
    assert "times as many" in words
    assert "With 900 rows the chance to prove a gain is" in words
    out_file = tmp_path / "gain.json"
    code, out, err = run("plan", customers, *GAIN, "--improve-on", 1, "--power", "90%", "--json", "--out", out_file)
    assert code == 0, err
    found = json.loads(out)
    assert (found["improve_on"], found["power"], found["simulated"]) == (1, 0.9, False)
    assert found["ratio"] == pytest.approx(found["rows"] / found["ordinary_test_rows"])
    assert [one["effect"] for one in found["by_effect"]] == pytest.approx([0.04, 0.08, 0.12])
    assert json.loads(out_file.read_text())["answer"]["rows"] == found["rows"]
    code, _, err = run("run", out_file)
    assert code == 2
    assert "this plan is to prove a gain" in flat(err)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--improve-on", "email"), "--improve-on 'email' is not an action; give its number, from 0"),
        (("--improve-on", 7), "--improve-on must be"),
        (("--improve-on", 1, "--control", 0), "--improve-on '1' and --control name two actions, and are one"),
        (("--improve-on", "control", "--epsilon", 0.1), "--epsilon 0.1 is for a plan to find the best policy"),
        (("--epsilon", 0.1, "--power", 0.9), "--power is for a plan to prove a gain; add --improve-on control"),
        (("--improve-on", "control", "--keep", "kept"), "--keep stores simulated trials"),
    ],
)
def test_slips_in_a_plan_for_a_gain_are_told(run, customers, options, words):
    code, _, err = run("plan", customers, *GAIN, *options)
    assert code == 2
    assert words in flat(err)


@pytest.mark.thorough
def test_a_pilot_needs_its_control_by_name(run, pilot):
    asked = ("plan", pilot, "--action", "arm", "--reward", "cured", "--policies", "trees:depth=0", "--quick")
    code, _, err = run(*asked, "--improve-on", "control")
    assert code == 2
    assert "--improve-on control needs the control; say which action it is with --control (new, old)" in flat(err)
    code, out, err = run(*asked, "--improve-on", "control", "--control", "old")
    assert code == 0, err
    assert "over the control (old)" in flat(out)


def test_the_rows_of_a_pilot_may_count(run, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "pilot.csv"
    rows = [f"{rng.integers(18, 80)},{'ab'[i % 2]},{int(rng.random() < 0.3 + 0.2 * (i % 2))}" for i in range(80)]
    path.write_text("age,arm,cured\n" + "\n".join(rows) + "\n")
    asked = ("plan", path, "--action", "arm", "--reward", "cured", "--policies", "trees:depth=0", "--epsilon", 0.2)
    code, out, _ = run(*asked, "--quick", "--split", "uniform", "--count-pilot", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["supposed"]["pilot"] == "its 80 rows count as the first of the trial; people are those to come"
    plain = json.loads(run(*asked, "--quick", "--split", "uniform", "--json")[1])
    assert found["uniform"]["people"]["median"] < plain["uniform"]["people"]["median"]
    code, _, err = run(*asked, "--quick", "--count-pilot")
    assert code == 2
    assert "'propensity' is missing" in err
