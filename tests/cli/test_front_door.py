"""From anyone's CSV to a policy that they can defend: certify, verify, evaluate and a report."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from typing import get_type_hints

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.alarms import AssumptionCheck, alarm_words, look
from pacbandits.cli.application import app
from pacbandits.policies.trees.constraints import share_words
from pacbandits.report.result_facts import Price

HEAD = "user_id,age,country,variant,revenue,converted,shown_at"
ARMS = ("discount", "plain", "story")


@pytest.fixture(scope="module")
def test_csv(tmp_path_factory):
    """An A/B/n test in which the young like a discount and the others a story."""
    rng = np.random.default_rng(5)
    n = 2400
    age, arm = rng.integers(18, 80, n), rng.integers(0, 3, n)
    chance = np.where(arm == 0, np.where(age < 40, 0.7, 0.2), np.where(arm == 2, np.where(age < 40, 0.2, 0.6), 0.3))
    bought = rng.random(n) < chance
    country = rng.choice(["DE", "FR"], n)
    rows = [
        f"u{i:05d},{age[i]},{country[i]},{ARMS[arm[i]]},{40 * bought[i]},{int(bought[i])},2026-01-{1 + i // 120:02d}"
        for i in range(n)
    ]
    path = tmp_path_factory.mktemp("front") / "test.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


ASKED = ("--action", "variant", "--reward", "converted", "--split", "uniform")


def test_from_a_csv_to_a_report(run, test_csv, tmp_path):
    proof, page, text = tmp_path / "ours.json", tmp_path / "report.html", tmp_path / "report.md"
    options = ("--control", "plain", "--certificate", proof, "--report", page, "--json")
    code, out, _ = run("certify", test_csv, *ASKED, *options)
    assert code == 0
    got = json.loads(out)
    assert got["control"] == "plain"
    assert "over plain (estimate +" in got["answer"][0]
    assert got["improvement"]["recommended"] == "rule"
    lines = [line.split(",") for line in test_csv.read_text().splitlines()[1:]]
    for arm in got["arms"]:
        mine = [int(line[5]) for line in lines if line[3] == arm["action"]]
        assert (arm["rows"], arm["mean"]) == (len(mine), pytest.approx(np.mean(mine)))
    assert got["action_names"] == list(ARMS)
    assert got["certified_epsilon"] < 0.15
    assert got["certified_epsilon"] <= got["epsilon"] <= 1.01 * got["certified_epsilon"]
    assert got["shuffled"] is True
    assert any("they were shuffled" in words for words in got["assumptions"])
    assert any("'user_id' was left out" in words for words in got["assumptions"])
    assert any("'shown_at' was left out, as it tells when rows occurred" in words for words in got["assumptions"])
    assert any("'revenue' was left out, as its name is that of an outcome" in words for words in got["assumptions"])
    assert "discount" in got["words"]
    assert "story" in got["words"]
    assert got["worth"]["over_best_single_action"]["low"] > 0.05
    assert got["outlook"]["epsilon"] < got["certified_epsilon"]
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert not re.search(r"""(src|href)=["']?(http|//)""", html)  # it needs nothing else
    for words in ("Which action for whom", "<svg", "discount", "<h2>Checks</h2>", "How to verify it"):
        assert words in html
    assert "nats" not in html.split("Appendix")[0]
    assert "<title>Which action for whom, for the largest mean converted?</title>" in html
    assert "<pre>pacbandits verify ours.json test.csv</pre>" in html
    assert "<h2>Results by action</h2>" in html
    code, out, _ = run("certify", test_csv, *ASKED, "--report", text)
    assert code == 0
    assert re.search(rf"rows with plain +{got['arms'][1]['rows']}, mean converted", out)
    assert "| action | rows | share | mean converted |" in text.read_text()
    assert "--certificate proof.json\npacbandits verify proof.json test.csv" in text.read_text()
    assert "| group | rows | gets | discount | plain | story |" in text.read_text()
    code, out, _ = run("verify", proof, test_csv)
    assert code == 0
    assert "good: except with probability 0.05" in out
    code, out, _ = run("evaluate", proof, test_csv, "--control", "plain", "--json")
    own = json.loads(out)
    assert (code, own["own_log"]) == (0, True)
    assert own["value"] == got["worth"]["value"]
    table = run("evaluate", proof, test_csv, "--control", "plain")[1]
    assert "gain over always plain" in table
    assert "mean converted of the policy" in table
    assert "chosen by this log" in " ".join(table.split())


SAID = {"action": "variant", "reward": "converted", "split": "uniform"}


def test_counts_that_do_not_fit_the_split_come_before_drift(test_csv):
    log, _ = pb.read_log(test_csv, **(SAID | {"split": "discount=20%,plain=20%,story=60%"}))
    alarms = alarm_words(look(log))
    assert alarms[0].startswith("signs of a sample-ratio mismatch: ")
    assert "if the split is wrong, correct it" in alarms[0]
    both = alarm_words([AssumptionCheck(kind, 9.0, 5.0, "there", "rows") for kind in ("drift", "sample ratio")])
    assert [words.partition(":")[0] for words in both] == ["signs of a sample-ratio mismatch", "signs of drift"]
    assert both[1].endswith("; the mismatch may be all that is behind this")


def test_limits_are_told_as_shares_of_people():
    assert Price(0.26, 0.25, ("story",)).figure == ("share who get story", "26 % (at most 25 %)")
    assert "story for 26 % of all rows of the log; the limit is 25 % of" in Price(0.26, 0.25, ("story",)).mark().words
    assert Price(0.26, 0.25).figure[0] == "mean cost in the log"
    assert share_words([1, 0, 1], 0.25) == "treat at most 25 %"
    assert share_words([0, 0, 1], 0.25) == "give action 2 to at most 25 %"
    assert share_words([0, 1, 2], 0.25) == ""


def test_a_date_that_moves_on_is_a_feature_and_no_drift(test_csv):
    """Rows stand in the order of the day that is decided by, too."""
    log, said = pb.read_log(test_csv, **SAID, time="shown_at", keep=["shown_at"])
    assert log.contexts.names == ("age", "country", "shown_at weekday", "shown_at days since 1970-01-01")
    assert not any("'shown_at' was left out" in words for words in said)
    drift, ratio = look(log)
    assert not drift.alarm
    assert "2 segments of contexts" in drift.looked_at  # age and country, and no day
    assert "4 segments of contexts" in ratio.looked_at
    assert look(replace(log, dates=()))[0].alarm


@pytest.mark.thorough
def test_distances_are_in_the_units_of_rewards(run, test_csv):
    options = ("--action", "variant", "--reward", "revenue", "--split", "uniform", "--reward-range", 0, 40, "--json")
    in_euros = json.loads(run("certify", test_csv, *options)[1])
    plain = json.loads(run("certify", test_csv, *ASKED, "--json")[1])
    assert in_euros["certified_epsilon"] == pytest.approx(40 * plain["certified_epsilon"])
    assert in_euros["worth"]["value"]["high"] == pytest.approx(40 * plain["worth"]["value"]["high"])
    code, _, err = run("certify", test_csv, *options, "--epsilon", 40)
    assert code == 2
    assert "an epsilon of 40 is no less than all that rewards can differ by, from 0 to 40" in err
    code, _, err = run("certify", test_csv, "--action", "variant", "--reward", "revenue", "--split", "uniform")
    assert code == 2
    assert "as in --reward-range 0 40" in err


@pytest.mark.thorough
def test_rows_in_the_order_of_a_column(run, test_csv):
    got = json.loads(run("certify", test_csv, *ASKED, "--time", "shown_at", "--json")[1])
    assert (got["ordered"], got["shuffled"]) == (True, False)
    assert any("stand in the order in which they occurred" in words for words in got["assumptions"])


@pytest.mark.thorough
def test_times_that_leave_open_how_they_are_written(run, test_csv, tmp_path):
    """The days from the 1st to the 12th of January, written with slashes; and the rows stand in no order."""
    lines = [line for line in test_csv.read_text().splitlines()[1:] if line[-2:] <= "12"]
    mixed = [lines[k] for k in np.random.default_rng(0).permutation(len(lines))]
    path, proof = tmp_path / "test.csv", tmp_path / "proof.json"
    path.write_text("\n".join([HEAD, *(f"{line[:-10]}{line[-2:]}/01/2026" for line in mixed)]) + "\n")
    code, _, err = run("certify", path, *ASKED, "--time", "shown_at")
    assert code == 2
    assert "--time-format '%d/%m/%Y' or --time-format '%m/%d/%Y'" in " ".join(err.split())
    told = ("--time", "shown_at", "--time-format", "%d/%m/%Y")
    made = json.loads(run("certify", path, *ASKED, *told, "--certificate", proof, "--json")[1])
    assert (made["ordered"], made["alarms"]) == (True, [])
    code, out, _ = run("verify", proof, path, "--json")
    assert (code, json.loads(out)["good"]) == (0, True)
    assert json.loads(out)["reading"]["time_format"] == "%d/%m/%Y"
    got = json.loads(run("evaluate", proof, path, "--json")[1])
    assert got["own_log"] is True


@pytest.mark.thorough
def test_notices_stand_before_the_answer_and_in_json(run, test_csv, tmp_path):
    path = tmp_path / "test.csv"
    head, *lines = test_csv.read_text().splitlines()
    path.write_text("\n".join([f"{head},study", *(f"{line},1" for line in lines[:600])]) + "\n")
    said = "the column 'study' was left out, as it has one value in all rows"
    assert run("certify", path, *ASKED)[1].startswith(f"note: {said}")
    got = json.loads(run("certify", path, *ASKED, "--json")[1])
    assert got["notices"][0].startswith(said)
    assert not any("study" in words for words in got["assumptions"])


@pytest.mark.thorough
def test_a_policy_of_anybodys(run, test_csv, tmp_path):
    lines = test_csv.read_text().splitlines()
    theirs = [
        f"{lines[0]},rule",
        *(f"{line},{'discount' if int(line.split(',')[1]) < 40 else 'story'}" for line in lines[1:]),
    ]
    path = tmp_path / "test.csv"
    path.write_text("\n".join(theirs) + "\n")
    got = json.loads(run("evaluate", "column:rule", path, *ASKED, "--json")[1])
    assert got["value"]["low"] < 0.64 < got["value"]["high"]
    assert (got["own_log"], got["shuffled"]) == (False, True)
    told = " ".join(run("evaluate", "column:rule", path, *ASKED)[1].split())
    assert "nor when the log ended depended on earlier rows" in told
    assert "everybody was given one of the 3 actions at random" in told
    same = json.loads(run("evaluate", "always:plain", path, *ASKED, "--json")[1])
    assert (same["value"], same["policy"]) == (same["single_actions"][same["actions"].index("plain")], "always plain")
    code, _, err = run("evaluate", "always:plane", path, *ASKED)
    assert code == 2
    assert "'plane', which is no action; did you mean 'plain'" in err
    code, _, err = run("evaluate", "column:country", path, *ASKED)
    assert code == 2
    assert "column 'country' contains 'DE', which is not an action" in err


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--action", "variants"), "there is no column 'variants'; did you mean 'variant'?"),
        (("--split", "even"), "the split 'even' is neither 'uniform' nor a share for each action"),
        (("--split", "discount=0.5,plain=0.5"), "the split has no share for 'story'; give one for each action"),
        (("--split", "discount=0.5,plain=0.4,story=0.2"), "sum to 1.1; they must sum to 1"),
        (("--split", "discount=x,plain=0.4,story=0.2"), "the share of 'discount' is 'x'"),
        (("--report", "report.pdf"), "must end in .html"),
        (("--reward", "variant"), "is used twice; name it once"),
        (("--features", "age,contry"), "there is no column 'contry'; did you mean 'country'?"),
        (("--time", "when"), "there is no column 'when'"),
        (("--ordered", "--shuffle"), "need no shuffle; leave one of them out"),
        (("--asymptotic", "--report", "a.html"), "--report needs a proof"),
    ],
)
def test_what_is_wrong_is_one_line(run, test_csv, options, words):
    code, out, err = run("certify", test_csv, *ASKED, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.fixture(scope="module")
def changed(test_csv, tmp_path_factory):
    """Makes the same file with one line changed, and tells where."""

    def change(old, new, *, every=False):
        lines = test_csv.read_text().splitlines()
        which = [i for i, line in enumerate(lines) if old in line and i > 300]
        for i in which if every else which[:1]:
            lines[i] = lines[i].replace(old, new)
        path = tmp_path_factory.mktemp("changed") / "test.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return change


@pytest.mark.thorough
def test_a_label_that_comes_once_is_one_more_label(run, changed, tmp_path):
    """Also one that the rows from which the reward model is cut have not shown."""
    path, proof = changed(",DE,", ",Zed,"), tmp_path / "proof.json"
    asked = (*ASKED, "--features", "age,country", "--certificate", proof)
    assert run("certify", path, *asked)[0] == 0
    assert run("verify", proof, path)[1].startswith("good")
    assert "read with --action variant --reward converted --split uniform" in run("verify", proof, path)[1]


@pytest.mark.thorough
def test_actions_of_other_names_are_not_taken_for_the_policys(run, test_csv, changed, tmp_path):
    proof = tmp_path / "proof.json"
    assert run("certify", test_csv, *ASKED, "--certificate", proof)[0] == 0
    other = changed(",story,", ",letter,", every=True)
    lines = other.read_text().splitlines()
    other.write_text("\n".join([lines[0], *(line for line in lines[1:] if ",story," not in line)]) + "\n")
    code, _, err = run("evaluate", proof, other)
    assert code == 2
    assert "the policy decides between discount, plain, story, and the log has discount, letter, plain" in err


@pytest.mark.thorough
def test_the_answer_comes_first_and_what_is_proven_does_not_depend_on_what_was_asked(run, test_csv):
    out = run("certify", test_csv, *ASKED)[1]
    assert out.startswith("Recommendation: use the rule below")
    found = {
        epsilon: json.loads(run("certify", test_csv, *ASKED, "--epsilon", epsilon, "--json")[1])["certified_epsilon"]
        for epsilon in ("0.9", "0.02")
    }
    assert max(found.values()) < 1.15 * min(found.values())


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--split", "discount=0.2,plain=0.3,story=0.2,poster=0.3"),
            "gives 'poster' a share of 0.3, but no row has it",
        ),
        (("--never", "plain: country == UK", "--control", "story"), "names 'UK', which is not a label of 'country'"),
        (("--epsilon", "1"), "an epsilon of 1 is no less than all that rewards can differ by"),
    ],
)
def test_what_cannot_be_meant_is_refused(run, test_csv, options, words):
    code, _, err = run("certify", test_csv, *ASKED, *options)
    assert code == 2
    assert words in " ".join(err.split())


@pytest.mark.thorough
def test_two_equals_signs_are_one(run, test_csv):
    asked = (*ASKED, "--control", "story", "--json")
    one, two = (run("certify", test_csv, *asked, "--never", f"plain: country {sign} FR")[1] for sign in ("=", "=="))
    assert json.loads(one)["learning"]["spec"] == json.loads(two)["learning"]["spec"]


RATES = {"epsilon", "delta", "baseline", "share", "variation", "least_propensity", "smallest_leaf", "max_treated"}
RATES |= {"lost", "repeated", "returning", "guardrail"}


def test_every_option_that_takes_a_rate_takes_percent():
    found = set()
    for command in commands_of(app):
        for name, hint in get_type_hints(inspect.unwrap(command), include_extras=True).items():
            if name in RATES and not (name == "guardrail" and command.__name__ == "certify_log"):  # there, a sentence
                found.add(name)
                (option,) = hint.__metadata__
                assert option.parser("5%") == option.parser("1/20") == pytest.approx(0.05), (command.__name__, name)
    assert found == RATES


def commands_of(one):
    """The functions behind the commands of an application, and of those within it."""
    yield from (command.callback for command in one.registered_commands)
    for group in one.registered_groups:
        yield from commands_of(group.typer_instance)
