"""`pacbandits bench`: a suite into a folder, what is said of it, and sentences for slips."""

from __future__ import annotations

import json

import pytest

from pacbandits.benchmark.results import read_description, read_rows
from pacbandits.benchmark.suites import SUITES
from tests.benchmark.cases import EASY, REFUSED, TINY


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(SUITES, "tiny", TINY)


def test_a_suite_is_played_told_and_taken_up_again(run, tmp_path):
    out = tmp_path / "results"
    code, said, err = run("bench", "tiny", "--out", out, "--jobs", 0)
    assert (code, err) == (0, "")
    assert "8 of 8 runs are done, 8 of them new" in said
    assert f"pacbandits report {out}" in said.replace("\n", "")
    assert f"linear-rage does not play easy: {REFUSED}" in " ".join(said.split())
    rows = read_rows(out)
    code, said, err = run("bench", "tiny", "--out", out, "--jobs", 0, "--json")
    assert "8 of 8 runs are done already" in err
    told = json.loads(said)
    assert (code, told["done"], told["played"], told["failures"]) == (0, 8, 0, [])
    first = told["runs"][0]
    assert (first["case"], first["algorithm"], first["runs"]) == ("easy", "uniform", 2)
    times = sorted(row.certified_at for row in rows if (row.case, row.algorithm) == ("easy", "uniform"))
    assert times[0] <= first["certified"]["samples"]["value"] <= times[1]
    commands = [session.command for session in read_description(out).sessions]
    assert commands[0] == "pacbandits bench tiny --out results --jobs 0"  # and not where it lies
    assert run("bench", "tiny", "--out", out, "--jobs", 0, "--fresh")[1].count("8 of them new") == 1


def test_a_part_of_a_suite(run, tmp_path):
    asked = ("--case", "ea*", "--entry", "uniform", "--seeds", 3, "--jobs", 0, "--json")
    told = json.loads(run("bench", "tiny", "--out", tmp_path, *asked)[1])
    assert (told["wanted"], len(told["runs"]), told["runs"][0]["runs"]) == (3, 1, 3)
    assert {(row.case, row.algorithm) for row in read_rows(tmp_path)} == {("easy", "uniform")}


def test_what_there_is_to_play(run):
    code, said, _ = run("bench", "--list")
    assert (code, "tiny" in said, "quick" in said) == (0, True, True)
    assert EASY.problem in run("bench", "tiny", "--list")[1]
    assert json.loads(run("bench", "tiny", "--list", "--json")[1])["tiny"]["seeds"] == 2


@pytest.mark.thorough
def test_runs_that_fail_have_a_code_of_their_own(run, tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("in the middle of it")

    monkeypatch.setattr("pacbandits.benchmark.runs.Course.note_round", broken)
    asked = ("--out", tmp_path, "--jobs", 0, "--seeds", 1, "--case", "easy")
    code, said, err = run("bench", "tiny", *asked)
    assert code == 3
    assert "2 of the runs failed" in err
    assert "uniform on easy, seed 0, failed: ZeroDivisionError: in the middle of it" in " ".join(said.split())
    monkeypatch.undo()
    monkeypatch.setitem(SUITES, "tiny", TINY)
    assert run("bench", "tiny", *asked)[0] == 0


def test_an_interruption_says_how_to_go_on(run, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pacbandits.benchmark.runs.Course.note_round", interrupted)
    code, _, err = run("bench", "tiny", "--out", tmp_path, "--jobs", 0)
    assert code == 130
    assert "interrupted; finished runs are stored in" in err
    assert "Repeat the command without --fresh" in err


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("quik", "--out", "x"), "there is no suite 'quik'; did you mean 'quick'?"),
        (("--out", "x"), "name a suite: pacbandits bench quick --out results"),
        (("tiny",), "for the results: pacbandits bench tiny --out results"),
        (("tiny", "--out", "x", "--case", "eesy"), "the suite 'tiny' has no case 'eesy'; did you mean 'easy'?"),
        (("tiny", "--out", "x", "--entry", "unifrom"), "has no entry 'unifrom'; did you mean 'uniform'?"),
        (("tiny", "--out", "x", "--seeds", "0"), "--seeds must be 1 or more, got 0"),
        (("tiny", "--out", "x", "--within", "0"), "--within must be positive and finite, got 0"),
        (("tiny", "--out", "x", "--jobs", "-1"), "--jobs must be 0 or more, got -1"),
        (("tiny", "--out", "."), "holds other things ('letter.txt'); take a new folder for results"),
        (("tiny", "--out", "letter.txt"), "letter.txt is a file; name a folder for results"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_made(run, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("dear")
    code, out, err = run("bench", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
