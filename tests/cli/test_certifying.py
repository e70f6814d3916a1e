"""`pacbandits certify` and `verify`."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from pacbandits import Certificate, InputError
from pacbandits.problems import load_problem
from pacbandits.records import Log
from tests.cli.cases import SMALL


@pytest.mark.thorough
def test_a_run_its_certificate_and_who_checks_it(run, tmp_path):
    """Run, verify; certify the same log, verify; and what is altered is refused."""
    proof, log = tmp_path / "proof.json", tmp_path / "log.parquet"
    spec = "trees:contexts=80,features=3,bins=4,actions=3,competitive=2"
    code, out, _ = run("run", spec, "--epsilon", 0.3, "--certificate", proof, "--log", log, "--json")
    assert code == 0
    got = json.loads(out)
    assert got["algorithm"] == "coda"
    assert got["certificate"]["certified"] is True
    assert run("verify", proof, log)[:2][0] == 0
    code, out, _ = run("verify", proof, log, "--json")
    assert (code, json.loads(out)["good"]) == (0, True)
    second = tmp_path / "second.json"
    code, out, _ = run(
        "certify", log, "--policies", "trees:bins=4", "--epsilon", 0.4, "--certificate", second, "--json"
    )
    assert code in (0, 3)
    assert json.loads(out)["certified"] is (code == 0)
    assert run("verify", second, log)[0] == 0
    said = json.loads(out)["assumptions"]
    assert any("rows taught it, and those rows prove nothing" in words for words in said)
    assert not any("was fixed before the log was seen" in words for words in said)
    before = tmp_path / "before.parquet"
    load_problem(spec).population.write(before)
    out = run("certify", log, "--policies", "trees:bins=4", "--contexts", before, "--epsilon", 0.4, "--json")[1]
    said = json.loads(out)["assumptions"]
    assert any("learnt from 80 contexts" in words and "fixed before the log was seen" in words for words in said)
    altered = json.loads(proof.read_text())
    (tmp_path / "altered.json").write_text(json.dumps(altered | {"epsilon": 0.01}))
    code, _, err = run("verify", tmp_path / "altered.json", log)
    assert code == 2
    assert "does not follow from its figures" in err
    altered |= replace(Certificate.from_json(altered), epsilon=0.01).to_json()
    (tmp_path / "altered.json").write_text(json.dumps(altered))
    code, out, _ = run("verify", tmp_path / "altered.json", log)
    assert code == 3
    assert "nothing is certified" in out
    table = Log.read(log)
    rewards = table.rewards.copy()
    rewards[0] = 1 - rewards[0]
    replace(table, rewards=rewards).write(tmp_path / "other.parquet")
    code, out, _ = run("verify", proof, tmp_path / "other.parquet")
    assert code == 3
    assert "its digest differs" in out


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("empty.json", "", "is not JSON"),
        ("other.json", "{}", "not a pacbandits certificate"),
        ("half.json", '{"kind": "pacbandits certificate"}', "the certificate lacks 'checks'"),
    ],
)
def test_a_bad_certificate_is_one_line(run, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    code, out, err = run("verify", tmp_path / name, tmp_path / "log.parquet")
    assert (code, out) == (2, "")
    assert words in err
    code, _, err = run("certify", tmp_path / "none.parquet")
    assert code == 2
    assert "no file" in err


@pytest.mark.thorough
def test_an_approximate_certificate_is_labelled_and_cannot_be_verified(run, tmp_path):
    spec = "trees:contexts=80,features=3,bins=4,actions=3,competitive=2"
    log, about = tmp_path / "log.parquet", tmp_path / "about.json"
    assert run("run", spec, "--epsilon", 0.3, "--log", log)[0] == 0
    asked = ("certify", log, "--policies", "trees:bins=4", "--epsilon", 0.4, "--asymptotic", "--draws", 20)
    code, out, _ = run(*asked, "--seed", 3, "--json", "--certificate", about)
    got = json.loads(out)
    assert code == (0 if got["certified"] else 3)
    assert (got["kind"], got["draws"], got["seed"]) == ("pacbandits asymptotic certificate", 20, 3)
    assert got["assumptions"][0].startswith("this approximation, which is no proof")
    assert any("rows taught it, and those rows prove nothing" in words for words in got["assumptions"])
    assert run(*asked)[1].startswith("an approximate certificate, which is not a proof")
    code, out, err = run("verify", about, log)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "approximate certificate" in err
    for wrong, words in (
        ((*asked[:-1], 5), "draws must be 1/delta = 20 or more, got 5"),
        (("certify", log, "--draws", 50), "--draws 50 is an option of --asymptotic"),
        ((*asked, "--seed", -1), "--seed must be 0 or more, got -1"),
    ):
        code, out, err = run(*wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err


READING = ("--least-propensity", 0.2, "--reward-range", 0, 10)


def test_a_csv_is_certified_and_verified_as_it_was_read(run, clicks, tmp_path):
    proof = tmp_path / "proof.json"
    code, out, _ = run("certify", clicks, "--epsilon", 0.3, "--ordered", *READING, "--certificate", proof, "--json")
    got = json.loads(out)
    assert code == 0
    assert "every action was always played with probability 0.2 or more" in got["assumptions"]
    assert "rewards lie in [0, 10]" in got["assumptions"]
    assert "place is a" in got["words"]
    code, out, _ = run("verify", proof, clicks)
    assert code == 0
    assert out.startswith("good: ")
    code, out, _ = run("verify", proof, clicks, "--least-propensity", 0.1)
    assert code == 3
    assert "digest differs" in out
    assert "every action was always played with probability 0.1" in " ".join(out.split())
    whole = json.loads(proof.read_text())
    assert whole["reading"] == {"least_propensity": 0.2, "reward_range": [0, 10]}
    for reading, words in (({"least": 1}, "says 'least'"), ([1], "an object"), ({"reward_range": 3}, "a list")):
        proof.write_text(json.dumps(whole | {"reading": reading}))
        code, out, err = run("verify", proof, clicks)
        assert (code, out) == (2, "")
        assert words in err
    del whole["reading"]
    proof.write_text(json.dumps(whole))
    assert run("verify", proof, clicks)[0] == 2
    assert run("verify", proof, clicks, *READING)[0] == 0


@pytest.mark.thorough
def test_contexts_of_before_may_have_more_labels_than_the_log(run, clicks, tmp_path):
    """Labels are known by their words and features by their names, whatever codes and order they have in a file."""
    before, proof = tmp_path / "before.csv", tmp_path / "proof.json"
    before.write_text("age,place\n1,a\n2,b\n3,c\n0,c\n")
    options = ("--contexts", before, "--policies", "trees:depth=1", "--epsilon", 0.3, *READING, "--certificate", proof)
    code, out, _ = run("certify", clicks, *options, "--json")
    assert code == 0
    got = json.loads(out)
    assert any("was learnt from 4 contexts" in words for words in got["assumptions"])
    assert got["words"].splitlines() == ["if place is a: action 2", "else: action 0"]
    assert run("verify", proof, clicks)[0] == 0


@pytest.mark.thorough
def test_lines_of_vowpal_wabbit_and_feedback_of_open_bandit(run, tmp_path):
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(1200):
        good, chosen = int(rng.integers(2)), int(rng.choice(2, p=[0.3, 0.7]))
        cost = float(rng.random() < (0.1 if chosen == good else 0.9))
        lines.append(
            {
                "_label_cost": cost,
                "_label_probability": [0.3, 0.7][chosen],
                "_label_Action": chosen + 1,
                "a": [chosen + 1, 2 - chosen],
                "c": {"User": {"good": good}, "_multi": [{}, {}]},
                "p": [[0.3, 0.7][chosen], [0.7, 0.3][chosen]],
            }
        )
    (tmp_path / "log.dsjson").write_text("\n".join(json.dumps(line) for line in lines))
    code, out, err = run("certify", tmp_path / "log.dsjson", "--epsilon", 0.3)
    assert (code, out) == (2, "")
    assert "as in --reward-range -1 0" in err
    proof = tmp_path / "proof.json"
    code, out, _ = run(
        *("certify", tmp_path / "log.dsjson", "--policies", "trees:depth=1", "--epsilon", 0.3),
        *("--reward-range", -1, 0, "--certificate", proof, "--json"),
    )
    assert code == 0
    assert json.loads(out)["words"].splitlines() == ["if User.good ≤ 0.5: action 0", "else: action 1"]
    assert run("verify", proof, tmp_path / "log.dsjson")[0] == 0
    actions = np.array([line["_label_Action"] - 1 for line in lines])
    np.savez(
        tmp_path / "feedback.npz",
        n_rounds=1200,
        n_actions=2,
        context=np.array([[line["c"]["User"]["good"]] for line in lines], dtype=float),
        action=actions,
        position=np.arange(1200) % 2,
        reward=1 - np.array([line["_label_cost"] for line in lines]),
        pscore=np.where(actions == 0, 0.3, 0.7),
    )
    options = ("certify", tmp_path / "feedback.npz", "--policies", "trees:depth=1", "--epsilon", 0.4)
    assert "choose one (--position 0)" in run(*options)[2]
    code, out, _ = run(*options, "--position", 1, "--json")
    assert code == 0
    assert json.loads(out)["samples"] == 600


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "rewards must lie in [0, 1]"),
        (["--reward-range", 10, 0], "from a number to a larger one"),
        ([*READING, "--actions", 2], "--actions 2 excludes"),
        ([*READING, "--actions", 0], "actions must be 1 or more, got 0"),
        ([*READING, "--actions", 6], "a minimum propensity of 0.2 is impossible with 6 actions"),
        ([*READING, "--position", 0], "has no positions"),
        (["--least-propensity", 0.4, "--reward-range", 0, 10], "a minimum propensity of 0.4"),
        (["--least-propensity", 0.3, "--reward-range", 0, 10], "below the minimum propensity 0.3"),
        ([*READING, "--epsilon", "30%"], "--epsilon was given in percent (30%), but rewards lie between 0 and 10"),
    ],
)
def test_what_a_log_lacks_is_said_in_one_line(run, clicks, options, words):
    code, out, err = run("certify", clicks, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_certify_refuses_a_bad_place_before_it_reads(run, tmp_path):
    """There is no log either, which would be said if it had been looked for."""
    code, out, err = run("certify", tmp_path / "log.csv", "--certificate", tmp_path / "nodir" / "x.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "does not exist; make it first" in err


def test_certify_tries_a_place_before_it_reads_and_leaves_nothing_there(run, tmp_path, monkeypatch):
    """As in /proc, where permissions allow what the file system refuses."""
    place = tmp_path / "places" / "x.html"
    place.parent.mkdir()

    def refuse(**_):
        raise OSError(2, "No such file or directory")

    with monkeypatch.context() as patched:
        patched.setattr("tempfile.TemporaryFile", refuse)
        code, out, err = run("certify", tmp_path / "log.csv", "--report", place)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "x.html" in err
    assert "cannot be written (No such file or directory); name another place" in err
    assert "log.csv" not in run("certify", tmp_path / "log.csv", "--report", place.parent)[2]
    assert "log.csv" in run("certify", tmp_path / "log.csv", "--report", place)[2]
    place.write_text("before", encoding="utf-8")
    assert "log.csv" in run("certify", tmp_path / "log.csv", "--report", place)[2]
    assert [one.name for one in place.parent.iterdir()] == ["x.html"]
    assert place.read_text(encoding="utf-8") == "before"


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_the_answer_is_printed_before_files_are_written(run, clicks, tmp_path, monkeypatch, as_json):
    def full(*_):
        raise InputError("cannot write x.md: No space left on device")

    monkeypatch.setattr("pacbandits.report.result_report.write_report", full)
    code, out, err = run("certify", clicks, *READING, "--report", tmp_path / "x.md", *as_json)
    assert code == 2
    assert "No space left" in err
    assert "ecommendation" in out


@pytest.mark.thorough
def test_an_uncertified_certificate_is_genuine_and_not_good(run, clicks, tmp_path):
    proof = tmp_path / "proof.json"
    for epsilon, code, opening in ((0.3, 0, "good: except"), (0.01, 3, "genuine: not certified at 0.01")):
        assert run("certify", clicks, "--epsilon", epsilon, *READING, "--certificate", proof)[0] == code
        again, out, _ = run("verify", proof, clicks)
        assert again == 0
        assert out.startswith(opening)
        got = json.loads(run("verify", proof, clicks, "--json")[1])
        assert (got["good"], got["certified"]) == (True, code == 0)


def test_contexts_with_other_columns_than_features_are_refused(run, clicks, tmp_path):
    before = tmp_path / "before.csv"
    before.write_text("age,place,action,reward\n1,a,0,1\n2,b,1,0\n3,c,1,1\n")
    code, out, err = run("certify", clicks, *READING, "--contexts", before)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (
        "the log lacks the features 'action', 'reward' of the contexts; contexts must hold features of the log" in err
    )


def test_a_log_that_lost_a_row_is_not_the_one_that_was_certified(run, tmp_path):
    proof, log, less = tmp_path / "proof.json", tmp_path / "log.parquet", tmp_path / "less.parquet"
    assert run("run", SMALL, "--epsilon", 0.3, "--certificate", proof, "--log", log)[0] == 0
    pq.write_table(pq.read_table(log).slice(1), less)
    code, out, err = run("verify", proof, less)
    assert (code, err) == (3, "")
    assert "digest differs" in out
    assert len(Log.read(less)) == len(Log.read(log)) - 1


@pytest.mark.thorough
def test_an_approximate_certificate_says_what_it_does_before_the_first_draw(run, clicks, monkeypatch):
    told = []
    monkeypatch.setattr("rich.status.Status.update", lambda _, words: told.append(words))
    run("certify", clicks, *READING, "--asymptotic", "--draws", 20)
    assert told[0] == "predicting rewards of 3,000 interactions"
    assert told[1] == "bootstrap of 3,000 interactions: draw 1 of 20"


def test_what_is_left_out_of_contexts_is_said(run, clicks, tmp_path):
    """Before anything else is found wrong with them."""
    before = tmp_path / "before.csv"
    before.write_text("user_id,place,other\n" + "".join(f"{i},c,{i % 3}\n" for i in range(5)))
    code, out, err = run("certify", clicks, *READING, "--contexts", before)
    assert (code, out) == (2, "")
    assert f"{before}: the column 'user_id' was left out, as its name is that of an identifier" in err
