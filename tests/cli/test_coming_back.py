"""People who come back, from a CSV to a report."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv as csv
import pytest

import pacbandits as pb
from pacbandits.logs.readers import log_of
from pacbandits.records.log import digest_log

ASKED = ("--action", "variant", "--reward", "bought", "--split", "uniform")
PEOPLE = 700


def lines_of(seed=3):
    """Visits of people to a shop, in order of time: the young like a discount, the others do not."""
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(PEOPLE), rng.integers(1, 5, PEOPLE)))
    age, arm = rng.integers(18, 80, PEOPLE)[who], rng.integers(0, 2, len(who))
    bought = rng.random(len(who)) < np.where((age < 40) == (arm == 1), 0.8, 0.3)
    names, rows = ("plain", "discount"), enumerate(zip(who, age, arm, bought, strict=True))
    return ["user_id,age,variant,bought,hour", *(f"u{i},{a},{names[v]},{b:d},{t}" for t, (i, a, v, b) in rows)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "visits.csv"
    path.write_text("\n".join(lines_of()) + "\n")
    return path


@pytest.mark.thorough
def test_from_visits_to_a_report(run, shop, tmp_path):
    proof, page = tmp_path / "proof.json", tmp_path / "report.md"
    asked = (*ASKED, "--unit", "user_id", "--without", "hour")
    code, out, _ = run("certify", shop, *asked, "--certificate", proof, "--report", page, "--json")
    assert code == 0
    got, rows = json.loads(out), len(lines_of()) - 1
    assert (got["samples"], got["rows"], got["units"], got["shuffled"]) == (rows, rows, PEOPLE, True)
    assert got["worth"]["units"] == PEOPLE
    assert any("how often and in what contexts a person came" in words for words in got["assumptions"])
    assert not any("user_id" in words for words in got["assumptions"])
    report = page.read_text()
    assert f"{rows:,} visits of {PEOPLE} people, {rows / PEOPLE:.3g} each; evidence counts people" in report
    assert "✓ **Are there returning users?** yes, and that is accounted for" in report
    assert "more people like these" in report
    assert "however often one looks" not in report
    code, out, _ = run("verify", proof, shop)
    assert code == 0
    assert "good: except with probability 0.05" in out
    own = json.loads(run("evaluate", proof, shop, "--json")[1])
    assert (own["own_log"], own["units"], own["value"]) == (True, PEOPLE, got["worth"]["value"])
    table = " ".join(run("certify", shop, *asked)[1].split())
    assert f"{rows:,} visits of {PEOPLE} people" in table
    # Without the weights nothing is left of the proof.
    forged = json.loads(proof.read_text())
    del forged["reading"]["unit"]
    proof.write_text(json.dumps(forged))
    code, out, _ = run("verify", proof, shop)
    assert code == 3
    assert "by the log its rows are of no people" in out


@pytest.mark.thorough
def test_without_the_unit_it_is_said(run, shop, tmp_path):
    page = tmp_path / "report.md"
    code, out, _ = run("certify", shop, *ASKED, "--without", "hour,user_id", "--report", page, "--json")
    assert code == 0
    got, rows = json.loads(out), len(lines_of()) - 1
    words = f"{rows:,} rows are of {PEOPLE} values of 'user_id', and taken for independent all the same"
    assert any(said.startswith(words) for said in got["assumptions"])
    assert f"• **Are there returning users?** {words}" in page.read_text()
    assert got["units"] is None


@pytest.mark.thorough
def test_in_order(run, shop, tmp_path):
    asked = (*ASKED, "--time", "hour", "--unit", "user_id")
    got = json.loads(run("certify", shop, *asked, "--json")[1])
    assert (got["ordered"], got["shuffled"], got["units"]) == (True, False, PEOPLE)
    assert got["samples"] < got["rows"] == len(lines_of()) - 1
    left = got["rows"] - got["samples"]
    assert any(words.startswith(f"{left:,} rows of ") for words in got["assumptions"])
    lines, path = lines_of(), tmp_path / "visits.csv"
    path.write_text("\n".join([f"{lines[0]},rule", *(f"{line},plain" for line in lines[1:])]) + "\n")
    told = " ".join(run("evaluate", "column:rule", path, *asked)[1].split())
    assert got["samples"] == PEOPLE
    assert f"{PEOPLE} people, one visit each" in told
    assert f"that {left:,} rows of " in told
    assert "that the value of a policy is its reward at the first visit of a person" in told


def test_a_data_frame_and_ids_too_large_for_floats(shop):
    table = csv.read_csv(shop)
    big = [2**62 + int(value.as_py()[1:]) for value in table["user_id"]]
    asked = {"action": "variant", "reward": "bought", "split": "uniform", "without": ["hour"], "unit": "user_id"}
    log = log_of(table.set_column(0, "user_id", [big]), **asked)
    assert log.n_units == PEOPLE
    assert digest_log(log) == digest_log(log_of(table, **asked))
    made = pb.certify(table, "trees:depth=1", **asked).certificate
    assert made.units == PEOPLE


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--unit", "user"), "there is no column 'user'; did you mean 'user_id'?"),
        (("--unit", "variant"), "the column 'variant' is used twice"),
        (("--unit", "user_id", "--asymptotic"), "takes every row for another person"),
    ],
)
def test_what_is_wrong_is_one_line(run, shop, options, words):
    code, out, err = run("certify", shop, *ASKED, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_missing_unit_is_named_by_its_line(run, tmp_path):
    lines = lines_of()
    for row in (4, 9):
        lines[row] = lines[row][lines[row].index(",") :]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")  # the last first
    code, _, err = run("certify", path, *ASKED, "--unit", "user_id", "--time", "hour")
    assert code == 2
    assert f"line {len(lines) - 9 + 1} has no value in column 'user_id', as do 1 more" in err
