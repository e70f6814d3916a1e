"""`pacbandits run` and `algorithms`."""

from __future__ import annotations

import json

import pytest

from tests.cli.cases import RUN_KEYS, SMALL, TRIAL


@pytest.mark.first(1)
@pytest.mark.parametrize("algorithm", ["rage", "rage-free", "coda-paper"])
def test_a_run_in_json(run, algorithm):
    arguments = ("run", SMALL, "--algorithm", algorithm, "--epsilon", 0.3, "--delta", 0.1, "--seed", 7, "--json")
    code, out, _ = run(*arguments)
    assert code == 0
    got = json.loads(out)
    assert set(got) >= RUN_KEYS
    assert got["algorithm"] == algorithm
    assert got["problem"] == "hard:m=6,gap=1.0,noise=bernoulli"
    assert (got["seed"], got["epsilon"], got["delta"]) == (7, 0.3, 0.1)
    assert got["stopped"] == "done"
    assert got["correct"] is True
    assert got["rounds"] == len(got["history"]) >= 1
    assert got["samples"] == sum(figures["samples"] for figures in got["history"])
    assert got["guarantee"].startswith("except with probability 0.1 the policy is within 0.3")
    again = json.loads(run(*arguments)[1])
    del got["seconds"], again["seconds"]
    assert got == again


@pytest.mark.thorough
def test_a_single_policy_can_be_asked_of_any_algorithm(run):
    """Of coda it is a choice; others have none."""
    trees = ("run", "trees:actions=4,features=3,contexts=200,bins=5", "--epsilon", "0.3", "--json")
    assert json.loads(run(*trees)[1])["policy"]["kind"] == "mixture"
    assert json.loads(run(*trees, "--single")[1])["policy"]["kind"] == "tree"
    code, out, _ = run("run", SMALL, "--algorithm", "rage", "--epsilon", "0.3", "--single", "--json")
    assert code == 0
    assert json.loads(out)["policy"]["kind"] == "table"


def test_repeated_runs_are_a_list(run):
    code, out, _ = run("run", SMALL, "--algorithm", "rage", "--epsilon", 0.3, "--repeat", 3, "--seed", 4, "--json")
    assert code == 0
    got = json.loads(out)
    assert [one["seed"] for one in got] == [4, 5, 6]
    assert all(set(one) >= RUN_KEYS for one in got)


def test_tables_of_runs(run):
    code, out, _ = run("run", SMALL, "--algorithm", "rage", "--epsilon", 0.3, "--seed", 1)
    assert code == 0
    for words in (
        "rage on hard:m=6",
        "ε = 0.3, δ = 0.05, seed 1",
        "rounds",
        "rho",
        "policy 0",
        "below the best",
        "right",
    ):
        assert words in out
    code, out, _ = run("run", SMALL, "--algorithm", "rage", "--epsilon", 0.3, "--repeat", 4)
    assert code == 0
    for words in ("seeds 0 to 3", "4 of 4", "δ allows 0.05 of them", "samples, median", "promise"):
        assert words in out
    code, out, _ = run("run", SMALL, "--algorithm", "rage", "--epsilon", 0.3, "--delta", 1e-20, "--repeat", 2)
    assert code == 0
    assert "δ allows 1e-20 of them" in out
    assert "except with probability 1e-20" in " ".join(out.split())
    code, out, _ = run("run", SMALL, "--epsilon", 2)
    assert code == 0
    assert "0 in 0 rounds" in out


@pytest.mark.thorough
def test_runs_on_trees_and_files(run, problem_file):
    spec = "trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1"
    code, out, _ = run("run", spec, "--algorithm", "coda-paper", "--epsilon", 0.4, "--offline", 40, "--json")
    assert code == 0
    got = json.loads(out)
    assert got["algorithm"] == "coda-oracle"  # what coda-paper is where a class cannot be listed
    assert got["oracle_calls"] > 0
    assert "40 contexts stand well enough" in got["guarantee"]
    code, out, _ = run("run", problem_file, "--algorithm", "rage", "--epsilon", 0.3, "--json")
    assert code == 0
    assert json.loads(out)["problem"].endswith(problem_file.name)
    code, out, _ = run("run", SMALL, "--policies", "trivial", "--algorithm", "rage", "--epsilon", 0.9, "--json")
    assert code == 0
    assert json.loads(out)["correct"] is True
    code, out, _ = run("run", SMALL, "--algorithm", "coda-paper", "--solver", "fw-gd", "--epsilon", 0.4, "--json")
    assert code == 0
    assert "solver_gap" in json.loads(out)["history"][0]


def test_a_budget_ends_in_exit_code_3(run):
    code, out, _ = run("run", SMALL, "--epsilon", 0.3, "--max-samples", 10, "--json")
    assert code == 3
    got = json.loads(out)
    assert got["stopped"] == "budget"
    assert got["samples"] == 0
    assert got["guarantee"].startswith("none")
    code, out, _ = run("run", SMALL, "--epsilon", 0.3, "--max-samples", 10)
    assert code == 3
    assert "stopped early (budget): round 1 asks for" in " ".join(out.split())
    code, out, _ = run("run", SMALL, "--epsilon", 0.3, "--max-samples", 10, "--repeat", 2)
    assert code == 3
    assert "0 of 2" in out


@pytest.mark.first(1)
@pytest.mark.parametrize("algorithm", ["rage", "rage-free", "coda-paper"])
def test_rounds_beyond_all_counting_end_in_words(run, algorithm):
    code, out, err = run("run", SMALL, "--algorithm", algorithm, "--epsilon", 0.3, "--scale", 1e308, "--json")
    assert (code, out) == (2, "")
    assert "the round would need infinitely many interactions" in err
    assert err.count("\n") == 1
    code, out, _ = run("run", SMALL, "--algorithm", algorithm, "--epsilon", 0.3, "--scale", 1e50, "--json")
    assert code == 3
    got = json.loads(out)
    assert got["stopped"] == "memory"
    assert "more than can be counted" in got["reason"]
    code, out, _ = run("run", SMALL, "--algorithm", algorithm, "--epsilon", 0.3, "--scale", 1e50, "--repeat", 2)
    assert code == 3
    assert "stopped early: round 1: a round of" in " ".join(out.split())


def test_the_bar_counts_runs(run, monkeypatch):
    """Also runs of one round, after which the round number does not fall."""
    shown = []

    def update(self, task_id, **changes):
        shown.append((changes["description"].split(",")[0], changes["completed"]))

    monkeypatch.setattr("rich.progress.Progress.update", update)
    code, _, _ = run("run", SMALL, "--algorithm", "rage-free", "--epsilon", 0.6, "--repeat", 3, "--json")
    assert code == 0
    words = [description for description, _ in shown]
    assert list(dict.fromkeys(words)) == ["run 1 of 3", "run 2 of 3", "run 3 of 3"]
    assert [done for _, done in shown] == sorted(done for _, done in shown)
    assert {int(done) for _, done in shown} == {0, 1, 2}
    shown.clear()
    assert run("run", SMALL, "--epsilon", 2, "--json")[0] == 0
    assert [done for _, done in shown] == [0]


def test_an_interruption_ends_in_exit_code_130_with_what_is_known(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pacbandits.problems.base.Problem.interact", interrupt)
    code, out, _ = run("run", SMALL, "--epsilon", 0.3, "--json")
    assert code == 130
    assert json.loads(out)["stopped"] == "interrupted"
    code, out, _ = run("run", SMALL, "--epsilon", 0.3, "--repeat", 5, "--json")
    assert code == 130
    assert len(json.loads(out)) == 1


def test_scale_voids_the_guarantee(run):
    code, out, _ = run("run", SMALL, "--algorithm", "rage", "--epsilon", 0.3, "--scale", 0.001, "--json")
    assert code == 0
    assert json.loads(out)["guarantee"].startswith("void: sample sizes were multiplied by 0.001")


@pytest.mark.thorough
def test_algorithms_are_listed(run):
    code, out, _ = run("algorithms")
    assert code == 0
    for words in ("rage", "rage-free", "coda-paper", "assumes", "guarantees", "(ε, δ)-PAC", "else coda-oracle"):
        assert words in " ".join(out.split())
    code, out, _ = run("algorithms", "--json")
    assert code == 0
    got = json.loads(out)
    assert set(got) >= {"rage", "rage-free", "coda-paper"}
    words = {"name", "source", "classes", "assumes", "guarantees", "samples"}
    assert set(got["rage"]) == words | {"certifies", "keeps_state", "proves", "options"}
    assert set(got["rage"]["options"]) == {"scale"}
    assert [name for name, one in got.items() if one["certifies"]] == ["coda", "uniform", "linear-rage"]
    assert [name for name, one in got.items() if one["keeps_state"]] == ["coda", "uniform"]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([SMALL, "--algorithm", "rgae"], "unknown algorithm 'rgae'; did you mean 'rage'?"),
        ([SMALL, "--algorithm", "coda-papr"], "did you mean 'coda-paper'?"),
        (["trees", "--algorithm", "rage"], "coda-paper can run on it"),
        (["trees", "--algorithm", "rage-free"], "coda-paper can run on it"),
        (["hard"], "coda needs rewards in [0, 1]"),
        (["hard", "--algorithm", "coda-paper"], "coda-paper needs rewards in [0, 1]"),
        ([SMALL, "--delta", "0"], "delta must lie strictly between 0 and 1, got 0.0"),
        ([SMALL, "--delta", "1.5"], "delta must lie strictly between 0 and 1, got 1.5"),
        ([SMALL, "--delta", "nan"], "delta must lie strictly"),
        ([SMALL, "--delta", "95%"], "got 0.95: it is the probability of being wrong; for 95 % confidence use 0.05"),
        ([SMALL, "--epsilon", "-1"], "epsilon must be 0 or more, got -1.0"),
        ([SMALL, "--epsilon", "nan"], "epsilon must be a number, 0 or more, got nan"),
        (["trees:actions=3", "--epsilon", "0"], "ask for an epsilon above 0, or for a list of policies (Finite)"),
        ([SMALL, "--repeat", "0"], "repeat must be 1 or more, got 0"),
        ([SMALL, "--seed", "-1"], "seed must be 0 or more, got -1"),
        ([SMALL, "--max-samples", "0"], "max-samples must be 1 or more, got 0"),
        ([SMALL, "--algorithm", "rage", "--scale", "0"], "scale must be a number above 0, got 0.0"),
        ([SMALL, "--algorithm", "rage", "--scale", "inf"], "scale must be a number above 0, got inf"),
        ([SMALL, "--scale", "0.5"], "coda has no option 'scale' (known: answer, floor, growth, pilot, precision)"),
        ([SMALL, "--certificate", "x.json", "--repeat", "2"], "leave out --repeat"),
        ([SMALL, "--algorithm", "coda-paper", "--solver", "bogus"], "solver must be ratio or fw-gd, got 'bogus'"),
        ([SMALL, "--algorithm", "rage", "--solver", "fw-gd"], "rage has no option 'solver'"),
        ([SMALL, "--gain", "5%"], "name that action: --improve-on 0"),
        ([SMALL, "--improve-on", "0", "--epsilon", "0.1"], "--epsilon is about ε; leave one of them out"),
        ([SMALL, "--improve-on", "0", "--single"], "--single is about ε; leave one of them out"),
        ([SMALL, "--improve-on", "0", "--against", "uniform"], "--against is about ε; leave one of them out"),
        ([SMALL, "--improve-on", "9"], "improve_on, the number of an action, must be at most"),
        ([SMALL, "--improve-on", "0", "--algorithm", "rage"], "rage does not stop by a proven gain"),
        ([SMALL, "--offline", "0"], "offline must be 1 or more, got 0"),
        (["hrad"], "did you mean 'hard'"),
        ([SMALL, "--policies", "tree"], "did you mean 'trees'"),
        (["missing.npz"], "missing.npz"),
    ],
)
def test_a_bad_run_is_one_line_and_exit_code_2(run, arguments, words):
    code, out, err = run("run", *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_a_run_without_a_round_says_that_there_is_nothing_to_write(run, tmp_path):
    proof, log = tmp_path / "c.json", tmp_path / "l.parquet"
    code, out, err = run("run", SMALL, "--max-samples", 1, "--certificate", proof, "--log", log, "--json")
    assert code == 3
    assert json.loads(out)["stopped"] == "budget"
    assert err == f"no round was played, so there is nothing to write to {proof} and {log}\n"
    assert list(tmp_path.iterdir()) == []
    code, out, err = run("run", SMALL, "--max-samples", 1, "--log", log)
    assert (code, err.count("\n")) == (3, 1)
    assert "stopped early (budget)" in out


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--log", "nodir/x.parquet"], "the folder of 'nodir/x.parquet' does not exist; make it first"),
        (["--certificate", "nodir/x.json"], "the folder of 'nodir/x.json' does not exist; make it first"),
        (["--figure", "nodir/x.png"], "the folder of 'nodir/x.png' does not exist; make it first"),
        (["--certificate", "."], "'.' is a folder; name a file in it"),
        (["--log", "locked/x.parquet"], "the folder of 'locked/x.parquet' may not be written to"),
        (["--figure", "locked/x.png"], "the folder of 'locked/x.png' may not be written to"),
        (["--log", "x.csv"], "logs are written as Parquet; name it x.parquet"),
        (["--log", "x"], "logs are written as Parquet; name it x.parquet"),
        (
            ["--certificate", "x.json", "--algorithm", "rage"],
            "rage makes no certificate; these do: coda, uniform, linear-rage",
        ),
        (["--log", "x.parquet", "--algorithm", "rage"], "rage keeps no log; these do: coda, uniform, linear-rage"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_anything_runs(run, options, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pacbandits.problems.base.Problem.interact", None)
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("pacbandits.cli.console.os.access", lambda path, _: "locked" not in str(path))
    code, out, err = run("run", SMALL, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.thorough
def test_a_run_that_goes_on_says_so(run, tmp_path):
    options = (*TRIAL, "--state", tmp_path / "trial", "--json")
    code, out, err = run(*options, "--max-samples", 1000)
    assert (code, err) == (3, "")
    before = json.loads(out)["samples"]
    assert before > 0
    code, out, err = run(*options)
    assert (code, err) == (0, f"resuming after {before:,} samples\n")
    assert json.loads(out)["samples"] > before


@pytest.mark.thorough
def test_a_run_that_stops_by_a_gain_says_what_is_proven_and_verifies(run, tmp_path):
    spec, files = "trivial:contexts=2,actions=2,gap=0.6", (tmp_path / "proof.json", tmp_path / "log.parquet")
    asked = ("run", spec, "--improve-on", 1, "--gain", "10%")
    code, out, _ = run(*asked, "--certificate", files[0], "--log", files[1])
    words = " ".join(out.split())
    assert code == 0
    assert "stops by a proven gain of at least 0.1 over action 1" in words
    assert "proven gain" in words
    assert "more than action 1; and by itself" in words
    code, out, _ = run("verify", *files)
    assert code == 0
    assert "the gains over control follow from the log" in " ".join(out.split())
    code, out, _ = run(*asked, "--repeat", 2)
    assert code == 0
    assert "of those, wrong 0" in " ".join(out.split())
    assert "least true gain over action 1" in " ".join(out.split())
    code, out, _ = run("run", spec, "--improve-on", 0, "--max-samples", 250, "--json")
    assert code == 3
    assert json.loads(out)["proven_gain"] == 0


@pytest.mark.thorough
def test_a_run_begins_with_the_rows_of_a_pilot(run, tmp_path):
    asked = ("run", "trivial:contexts=4,actions=3,gap=0.4", "--epsilon", 0.2, "--algorithm", "uniform:pilot=60")
    pilot, log, proof = tmp_path / "pilot.parquet", tmp_path / "log.parquet", tmp_path / "proof.json"
    run(*asked, "--max-samples", 60, "--log", pilot)
    with_it = (*asked, "--seed", 1, "--pilot", pilot)
    code, out, err = run(*with_it, "--certificate", proof, "--log", log)
    assert (code, err) == (0, "")
    assert "60 of them of the pilot" in " ".join(out.split())
    code, out, _ = run("verify", proof, log)
    assert code == 0
    assert "rows of the pilot count in the order of their contents" in " ".join(out.split())
    found = json.loads(run(*with_it, "--json")[1])
    assert (found["pilot_samples"], found["certificate"]["pilot"]["samples"]) == (60, 60)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--split", "uniform"), "name its log: --pilot"),
        (("--pilot", "none.parquet"), "no file at none.parquet"),
        (("--pilot", "none.parquet", "--algorithm", "rage"), "not in rage"),
        (("--pilot", "none.parquet", "--against", "rage"), "not in rage"),
    ],
)
def test_a_pilot_that_cannot_count_is_refused_in_a_line(run, options, words):
    code, _, err = run("run", "trivial:contexts=4,actions=3", *options)
    assert code == 2
    assert words in " ".join(err.split())
