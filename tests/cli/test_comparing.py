"""`pacbandits run --against` and `--figure`."""

from __future__ import annotations

import json

import pytest

from pacbandits import run as simulate
from pacbandits.cli.comparison import measure_within
from pacbandits.problems import load_problem
from pacbandits.report import Comparison
from tests.cli.cases import RUN_KEYS, SMALL, TRIAL


@pytest.mark.thorough
def test_a_run_against_another_in_json(run):
    code, out, err = run(*TRIAL, "--against", "uniform", "--json")
    assert code == 0, err
    got = json.loads(out)
    assert set(got) == {"run", "against", "times_fewer", "yardsticks"}
    assert [got[key]["algorithm"] for key in ("run", "against")] == ["coda", "uniform"]
    for key in ("run", "against"):
        assert set(got[key]) >= RUN_KEYS
        assert (got[key]["seed"], got[key]["epsilon"], got[key]["delta"]) == (3, 0.1, 0.05)
    assert got["times_fewer"] == got["against"]["samples"] / got["run"]["samples"]
    measured = json.loads(run("complexity", TRIAL[1], "--epsilon", 0.1, "--json")[1])
    for name in ("lower_bound", "confidence_price", "union_price"):
        assert got["yardsticks"][name] == measured[name]
    assert "no theorem" in got["yardsticks"]["notes"]["lower_bound"]
    alone = [json.loads(run(*TRIAL, "--algorithm", name, "--json")[1]) for name in ("coda", "uniform")]
    assert [one["samples"] for one in alone] == [got[key]["samples"] for key in ("run", "against")]


@pytest.mark.thorough
def test_a_run_against_another_in_a_table_with_a_picture(run, tmp_path):
    figure, proof, log = tmp_path / "trial.png", tmp_path / "proof.json", tmp_path / "log.parquet"
    code, out, err = run(*TRIAL, "--against", "uniform", "--figure", figure, "--certificate", proof, "--log", log)
    assert (code, err) == (0, "")
    for words in ("coda on two-of-many", "coda against uniform", "times fewer", "truly below", "a yardstick"):
        assert words in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.stat().st_size > 10_000
    assert run("verify", proof, log)[0] == 0


@pytest.mark.thorough
def test_a_rival_that_certifies_nothing_is_left_out_of_the_picture(run, tmp_path):
    figure = tmp_path / "trial.svg"
    code, out, err = run("run", SMALL, "--epsilon", 0.3, "--against", "rage", "--figure", figure)
    assert code == 0
    assert err == "the figure leaves out rage, which has certified nothing\n"
    assert "coda against rage" in out
    assert figure.stat().st_size > 1000
    code, out, _ = run("run", SMALL, "--epsilon", 0.3, "--figure", figure, "--json")
    assert code == 0
    assert json.loads(out)["algorithm"] == "coda"


def test_a_rival_gets_the_options_it_has_a_use_for(run):
    options = ("--epsilon", 0.4, "--algorithm", "coda-paper", "--solver", "fw-gd", "--scale", 2, "--json")
    code, out, err = run("run", SMALL, *options, "--against", "uniform")
    assert code == 0, err
    assert json.loads(out)["against"]["stopped"] == "done"
    code, out, _ = run("run", SMALL, "--epsilon", 0.3, "--against", "rage", "--max-samples", 500, "--json")
    assert code == 3
    got = json.loads(out)
    assert (got["run"]["stopped"], got["against"]["stopped"], got["times_fewer"]) == ("done", "budget", None)


@pytest.mark.thorough
def test_yardsticks_that_take_too_long_are_left_out():
    problem, told = load_problem(TRIAL[1]), []
    options = {"epsilon": 0.1, "delta": 0.05, "tell": told.append}
    measured, why = measure_within(600.0, problem, problem.policies, **options)
    assert measured is not None
    assert all(words.startswith("measuring the problem: ") for words in told)
    assert told
    assert why == ""
    measured, why = measure_within(0.0, problem, problem.policies, **options)
    assert measured is None
    one, two = (simulate(problem, algorithm=name, epsilon=0.1, delta=0.05, rng=3) for name in ("coda", "uniform"))
    got = Comparison(one, two, measured, why).to_json()
    assert got["yardsticks"]["union_price"] is None
    assert "takes more than 0 s; use pacbandits complexity" in got["yardsticks"]["notes"]["union_price"]


def test_an_interrupted_run_needs_no_rival(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pacbandits.problems.base.Problem.interact", interrupt)
    code, out, _ = run(*TRIAL, "--against", "uniform", "--json")
    assert code == 130
    got = json.loads(out)
    assert got["run"]["stopped"] == "interrupted"
    assert got["against"] is None
    assert "interrupted" in got["yardsticks"]["notes"]["union_price"]


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "unifrom"], "unknown algorithm 'unifrom'; did you mean 'uniform'?"),
        (["--against", "coda"], "names the algorithm that runs anyway"),
        (["--against", "uniform", "--repeat", "2"], "two single runs; leave out --repeat"),
        (["--figure", "trial.png", "--repeat", "2"], "a figure shows one run; leave out --repeat"),
        (["--figure", "trial.bmp"], "must end in .png"),
        (["--figure", "no/such/folder/a.png"], "does not exist"),
        (
            ["--figure", "trial.png", "--algorithm", "rage"],
            "rage certifies nothing; name one that does as --algorithm or --against",
        ),
        (
            ["--figure", "trial.png", "--algorithm", "rage", "--against", "rage-free"],
            "rage and rage-free certify nothing",
        ),
        (["--figure", "trial.png", "--algorithm", "rgae"], "did you mean 'rage'?"),
    ],
)
def test_a_bad_comparison_is_one_line_before_anything_runs(run, arguments, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pacbandits.problems.base.Problem.interact", None)
    code, out, err = run("run", SMALL, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
