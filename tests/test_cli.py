"""The command line as a user meets it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from pacbandits import Certificate
from pacbandits import run as simulate
from pacbandits.cli.comparing import measure_within
from pacbandits.problems import load_problem
from pacbandits.records import Log
from pacbandits.report import Comparison

KEYS = {
    *("n_policies", "log_size", "n_contexts", "n_actions", "epsilon", "delta", "best_value", "min_gap"),
    *("rho_lower", "rho_upper", "rho_uniform", "rho_sigma_lower", "rho_sigma_upper"),
    *("lower_bound", "upper_bound", "minimax_bound", "disagreement_policy", "disagreement_cost_sensitive", "seconds"),
}


@pytest.fixture
def run(command):
    return command


@pytest.fixture
def problem_file(tmp_path):
    path = tmp_path / "problem.npz"
    np.savez(
        path,
        context_weights=[0.5, 0.5],
        mean_rewards=[[0.9, 0.1], [0.4, 0.6]],
        policy_actions=[[0, 1], [1, 1], [0, 0]],
    )
    return path


def test_hard_instance_in_json(run):
    code, out, _ = run("complexity", "hard:m=50,gap=1", "--epsilon", 0, "--delta", 0.05, "--json")
    assert code == 0
    got = json.loads(out)
    assert set(got) >= KEYS
    assert got["rho_lower"] == pytest.approx(100, rel=1e-6)
    assert got["rho_upper"] == pytest.approx(100, rel=1e-6)
    assert got["lower_bound"] == pytest.approx(200 * math.log(1 / (2.4 * 0.05)), rel=1e-6)
    assert got["minimax_bound"] == "Infinity"
    assert got["low_regret_bound"] == pytest.approx(2500 * math.log(1 / 0.12) ** 2 / (8 * math.log(50)), rel=1e-6)


def test_problem_file(run, problem_file):
    code, out, _ = run("complexity", problem_file, "--epsilon", 0.05, "--json")
    assert code == 0
    got = json.loads(out)
    assert got["n_policies"] == 3
    assert got["best_value"] == pytest.approx(0.75)
    assert got["min_gap"] == pytest.approx(0.1)
    # One context each way, disjoint: ½·4/max(gap, ε)² at p = ½; the closer policy decides.
    assert got["rho_upper"] == pytest.approx(2 / 0.1**2, rel=1e-6)


def test_trees_with_a_picture(run, tmp_path):
    figure = tmp_path / "design.png"
    spec = "trees:actions=4,features=4,contexts=300,bins=6,seed=3"
    code, out, _ = run("complexity", spec, "--figure", figure, "--tolerance", 0.1)
    assert code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "if " in out
    assert "needs a search of the class" in out


@pytest.mark.parametrize(
    "spec", ["trivial:contexts=4,actions=3", "two-of-many:policies=30,actions=5", "random", "linear"]
)
def test_every_table_and_picture(run, tmp_path, spec):
    code, out, err = run("complexity", spec, "--figure", tmp_path / "p.svg")
    assert code == 0, err
    assert "lower bound" in out
    assert (tmp_path / "p.svg").stat().st_size > 1000


def test_another_class(run):
    code, out, _ = run(
        "complexity", "trees:contexts=200,features=3,actions=3", "--policies", "trees:depth=1,bins=4", "--json"
    )
    assert code == 0
    assert json.loads(out)["log_size"] == pytest.approx(math.log(9) + 2 * math.log(3))


def test_one_policy_and_ties(run, tmp_path):
    path = tmp_path / "tie.npz"
    np.savez(path, context_weights=[1.0], mean_rewards=[[0.5, 0.5]], policy_actions=[[0], [1]])
    code, out, _ = run("complexity", path, "--epsilon", 0, "--json")
    assert code == 0
    got = json.loads(out)
    assert got["rho_lower"] == got["rho_upper"] == got["lower_bound"] == "Infinity"
    assert "tie" in got["notes"]["rho"]
    code, out, _ = run("complexity", path, "--epsilon", 0, "--figure", tmp_path / "tie.png")
    assert code == 0
    assert "∞" in out
    np.savez(path, context_weights=[1.0], mean_rewards=[[0.5, 0.2]], policy_actions=[[1]])
    code, out, _ = run("complexity", path, "--epsilon", 0, "--figure", tmp_path / "one.png")
    assert code == 0
    assert "nothing to learn" in out
    assert (tmp_path / "one.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["complexity", "hrad"], "did you mean 'hard'"),
        (["complexity", "hard:mm=3"], "did you mean 'm'"),
        (["complexity", "hard:m=one"], "m must be an integer"),
        (["complexity", "hard", "--epsilon", "-0.1"], "epsilon must be 0 or more, got -0.1"),
        (["complexity", "hard", "--epsilon", "nan"], "epsilon must be"),
        (["complexity", "hard", "--delta", "1"], "delta must lie strictly between 0 and 1, got 1.0"),
        (["complexity", "hard", "--delta", "0"], "delta must lie"),
        (["complexity", "hard", "--tolerance", "0"], "tolerance must be positive"),
        (["complexity", "hard", "--figure", "picture.bmp"], "must end in .png"),
        (["complexity", "hard", "--figure", "no/such/folder/a.png"], "does not exist"),
        (["complexity", "hard", "--policies", "tree"], "did you mean 'trees'"),
        (["complexity", "hard", "--policies", "trees"], "have none"),
        (["complexity", "trees", "--policies", "trees:dept=1"], "did you mean 'depth'"),
        (["complexity", "missing.npz"], "missing.npz"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_option_is_exit_code_2(run):
    code, _, err = run("complexity", "hard", "--epsilom", "0.1")
    assert code == 2
    assert "epsilon" in err


def test_problems_are_listed(run):
    code, out, _ = run("problems")
    assert code == 0
    for name in ("hard", "random", "two-of-many", "trees", "trivial", "linear"):
        assert name in out
    code, out, _ = run("problems", "--json")
    assert code == 0
    assert json.loads(out)["hard"]["options"]["m"]["default"] == 10


def test_installed_command_and_version():
    done = subprocess.run(
        [sys.executable, "-m", "pacbandits.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip()


RUN_KEYS = {
    *("algorithm", "problem", "seed", "epsilon", "delta", "samples", "rounds", "oracle_calls", "value_gap", "correct"),
    *("stopped", "guarantee", "seconds", "history", "reason", "policy", "words"),
}
SMALL = "hard:m=6,noise=bernoulli"


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


def test_runs_on_trees_and_files(run, problem_file):
    spec = "trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1"
    code, out, _ = run("run", spec, "--algorithm", "coda-paper", "--epsilon", 0.4, "--offline", 40, "--json")
    assert code == 0
    got = json.loads(out)
    assert got["algorithm"] == "coda-paper"
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


def test_algorithms_are_listed(run):
    code, out, _ = run("algorithms")
    assert code == 0
    for words in ("rage", "rage-free", "coda-paper", "assumes", "guarantees", "(ε, δ)-PAC", "any: one γ a policy"):
        assert words in out
    code, out, _ = run("algorithms", "--json")
    assert code == 0
    got = json.loads(out)
    assert set(got) >= {"rage", "rage-free", "coda-paper"}
    words = {"name", "source", "classes", "assumes", "guarantees", "samples"}
    assert set(got["rage"]) == words | {"certifies", "keeps_state", "options"}
    assert set(got["rage"]["options"]) == {"scale"}
    assert [name for name, one in got.items() if one["certifies"]] == ["coda", "uniform", "linear-rage"]
    assert [name for name, one in got.items() if one["keeps_state"]] == ["coda", "uniform"]


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
        ([SMALL, "--epsilon", "0"], "needs an epsilon above 0"),
        ([SMALL, "--epsilon", "-1"], "needs an epsilon above 0"),
        ([SMALL, "--epsilon", "nan"], "needs an epsilon above 0"),
        ([SMALL, "--repeat", "0"], "repeat must be 1 or more, got 0"),
        ([SMALL, "--seed", "-1"], "seed must be 0 or more, got -1"),
        ([SMALL, "--max-samples", "0"], "max-samples must be 1 or more, got 0"),
        ([SMALL, "--algorithm", "rage", "--scale", "0"], "scale must be a number above 0, got 0.0"),
        ([SMALL, "--algorithm", "rage", "--scale", "inf"], "scale must be a number above 0, got inf"),
        ([SMALL, "--scale", "0.5"], "coda has no option 'scale' (known: floor, growth, pilot, precision)"),
        ([SMALL, "--certificate", "x.json", "--repeat", "2"], "leave out --repeat"),
        ([SMALL, "--algorithm", "coda-paper", "--solver", "bogus"], "solver must be ratio or fw-gd, got 'bogus'"),
        ([SMALL, "--algorithm", "rage", "--solver", "fw-gd"], "rage has no option 'solver'"),
        (
            ["trees", "--algorithm", "coda-paper", "--solver", "fw-gd"],
            "needs a class that can be listed, and Trees cannot",
        ),
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
    assert any("learnt from the contexts of the log" in words for words in said)
    assert not any("was fixed before the log was seen" in words for words in said)
    before = tmp_path / "before.parquet"
    load_problem(spec).population.write(before)
    out = run("certify", log, "--policies", "trees:bins=4", "--contexts", before, "--epsilon", 0.4, "--json")[1]
    assert not any("learnt from" in words for words in json.loads(out)["assumptions"])
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


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("empty.json", "", "is not JSON"),
        ("other.json", "{}", "not a pacbandits certificate"),
        ("half.json", '{"kind": "pacbandits certificate"}', "the certificate lacks 'policy'"),
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


TRIAL = ("run", "two-of-many:actions=8,policies=40,contexts=20", "--epsilon", 0.1, "--seed", 3)


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


def test_a_run_against_another_in_a_table_with_a_picture(run, tmp_path):
    figure, proof, log = tmp_path / "trial.png", tmp_path / "proof.json", tmp_path / "log.parquet"
    code, out, err = run(*TRIAL, "--against", "uniform", "--figure", figure, "--certificate", proof, "--log", log)
    assert (code, err) == (0, "")
    for words in ("coda on two-of-many", "coda against uniform", "times fewer", "truly below", "a yardstick"):
        assert words in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.stat().st_size > 10_000
    assert run("verify", proof, log)[0] == 0


def test_a_rival_that_certifies_nothing_is_left_out_of_the_picture(run, tmp_path):
    figure = tmp_path / "trial.svg"
    code, out, err = run("run", SMALL, "--epsilon", 0.3, "--against", "rage", "--figure", figure)
    assert code == 0
    assert err == "rage has certified nothing, and the picture leaves it out\n"
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
    assert "takes more than 0 s; pacbandits complexity does it" in got["yardsticks"]["notes"]["union_price"]


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "unifrom"], "unknown algorithm 'unifrom'; did you mean 'uniform'?"),
        (["--against", "coda"], "names the algorithm that runs anyway"),
        (["--against", "uniform", "--repeat", "2"], "--against sets one run beside another; leave out --repeat"),
        (["--figure", "trial.png", "--repeat", "2"], "a figure is of one run; leave out --repeat"),
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
    assert any("learnt from the contexts of the log" in words for words in got["assumptions"])
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


@pytest.fixture
def clicks(tmp_path):
    """A CSV of 3,000 people of two places, three actions played with 0.2, 0.3 and 0.5, and rewards from 0 to 10."""
    rng = np.random.default_rng(0)
    place, action = rng.integers(2, size=3000), rng.choice(3, size=3000, p=[0.2, 0.3, 0.5])
    reward = 10 * (rng.random(3000) < np.where(action == 2 * place, 0.9, 0.1))
    path = tmp_path / "clicks.csv"
    people = enumerate(zip(place, action, reward, strict=True))
    rows = [f"{'ca'[p]},{p + i % 3},{a},{r},{(0.2, 0.3, 0.5)[a]}" for i, (p, a, r) in people]
    path.write_text("place,age,action,reward,propensity\n" + "\n".join(rows) + "\n")
    return path


READING = ("--least-propensity", 0.2, "--reward-range", 0, 10)


def test_a_csv_is_certified_and_verified_as_it_was_read(run, clicks, tmp_path):
    proof = tmp_path / "proof.json"
    code, out, _ = run("certify", clicks, "--epsilon", 0.3, "--ordered", *READING, "--certificate", proof, "--json")
    got = json.loads(out)
    assert code == 0
    assert "every action was always played with probability 0.2 or more" in got["assumptions"]
    assert "rewards lie in [0, 10], mapped to [0, 1]: an epsilon of 1 stands for 10" in got["assumptions"]
    assert "place is a" in got["words"]
    code, out, _ = run("verify", proof, clicks)
    assert code == 0
    assert out.startswith("good: ")
    code, out, _ = run("verify", proof, clicks, "--least-propensity", 0.1)
    assert code == 3
    assert "digest differs" in out
    assert "does not say that it assumes: every action was always played with probability 0.1" in out
    whole = json.loads(proof.read_text())
    assert whole["reading"] == {"least_propensity": 0.2, "reward_range": [0, 10]}
    for reading, words in (({"least": 1}, "says 'least'"), ([1], "it was altered"), ({"reward_range": 3}, "altered")):
        proof.write_text(json.dumps(whole | {"reading": reading}))
        code, out, err = run("verify", proof, clicks)
        assert (code, out) == (2, "")
        assert words in err
    del whole["reading"]
    proof.write_text(json.dumps(whole))
    assert run("verify", proof, clicks)[0] == 2
    assert run("verify", proof, clicks, *READING)[0] == 0


def test_contexts_of_before_may_have_more_labels_than_the_log(run, clicks, tmp_path):
    """Labels are known by their words and features by their names, whatever codes and order they have in a file."""
    before, proof = tmp_path / "before.csv", tmp_path / "proof.json"
    before.write_text("age,place\n1,a\n2,b\n3,c\n0,c\n")
    options = ("--contexts", before, "--policies", "trees:depth=1", "--epsilon", 0.3, *READING, "--certificate", proof)
    code, out, _ = run("certify", clicks, *options, "--json")
    assert code == 0
    got = json.loads(out)
    assert not any("learnt from" in words for words in got["assumptions"])
    assert got["words"].splitlines() == ["if place is a: action 2", "else: action 0"]
    assert run("verify", proof, clicks)[0] == 0


def test_lines_of_vowpal_wabbit_and_feedback_of_open_bandit(run, tmp_path):
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(600):
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
        n_rounds=600,
        n_actions=2,
        context=np.array([[line["c"]["User"]["good"]] for line in lines], dtype=float),
        action=actions,
        position=np.arange(600) % 2,
        reward=1 - np.array([line["_label_cost"] for line in lines]),
        pscore=np.where(actions == 0, 0.3, 0.7),
    )
    options = ("certify", tmp_path / "feedback.npz", "--policies", "trees:depth=1", "--epsilon", 0.4)
    assert "choose one (--position 0)" in run(*options)[2]
    code, out, _ = run(*options, "--position", 1, "--json")
    assert code == 0
    assert json.loads(out)["samples"] == 300


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "rewards must lie in [0, 1]"),
        (["--reward-range", 0, 10], "state what each action's was at least, always"),
        (["--reward-range", 10, 0], "from a number to a larger one"),
        ([*READING, "--actions", 2], "action 2 was played, but there are 2 actions"),
        ([*READING, "--actions", 0], "actions must be 1 or more, got 0"),
        ([*READING, "--actions", 6], "a least propensity of 0.2 cannot be that of each of 6 actions"),
        ([*READING, "--position", 0], "has no positions"),
        (["--least-propensity", 0.4, "--reward-range", 0, 10], "a least propensity of 0.4"),
        (["--least-propensity", 0.3, "--reward-range", 0, 10], "below the least propensity 0.3"),
    ],
)
def test_what_a_log_lacks_is_said_in_one_line(run, clicks, options, words):
    code, out, err = run("certify", clicks, *options)
    assert (code, out) == (2, "")
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
    monkeypatch.setattr("pacbandits.cli.shared.os.access", lambda path, _: "locked" not in str(path))
    code, out, err = run("run", SMALL, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_certify_refuses_a_bad_place_before_it_reads(run, tmp_path):
    """There is no log either, which would be said if it had been looked for."""
    code, out, err = run("certify", tmp_path / "log.csv", "--certificate", tmp_path / "nodir" / "x.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "does not exist; make it first" in err


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
    assert f"the log lacks the features 'action', 'reward' of {before}; a file of contexts must hold features" in err


def test_a_log_that_lost_a_row_is_not_the_one_that_was_certified(run, tmp_path):
    proof, log, less = tmp_path / "proof.json", tmp_path / "log.parquet", tmp_path / "less.parquet"
    assert run("run", SMALL, "--epsilon", 0.3, "--certificate", proof, "--log", log)[0] == 0
    pq.write_table(pq.read_table(log).slice(1), less)
    code, out, err = run("verify", proof, less)
    assert (code, err) == (3, "")
    assert "digest differs" in out
    assert len(Log.read(less)) == len(Log.read(log)) - 1


def test_a_run_that_goes_on_says_so(run, tmp_path):
    options = (*TRIAL, "--state", tmp_path / "trial", "--json")
    code, out, err = run(*options, "--max-samples", 1000)
    assert (code, err) == (3, "")
    before = json.loads(out)["samples"]
    assert before > 0
    code, out, err = run(*options)
    assert (code, err) == (0, f"resuming after {before:,} samples\n")
    assert json.loads(out)["samples"] > before


def test_an_approximate_certificate_says_what_it_does_before_the_first_draw(run, clicks, monkeypatch):
    told = []
    monkeypatch.setattr("rich.status.Status.update", lambda _, words: told.append(words))
    run("certify", clicks, *READING, "--asymptotic", "--draws", 20)
    assert told[0] == "predicting rewards of 3,000 interactions"
    assert told[1] == "bootstrap of 3,000 interactions: draw 1 of 20"
