"""`pacbandits complexity` and `problems`, and the command itself."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

KEYS = {
    *("n_policies", "log_size", "n_contexts", "n_actions", "epsilon", "delta", "best_value", "min_gap"),
    *("rho_lower", "rho_upper", "rho_uniform", "rho_sigma_lower", "rho_sigma_upper"),
    *("lower_bound", "upper_bound", "minimax_bound", "disagreement_policy", "disagreement_cost_sensitive", "seconds"),
}


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


@pytest.mark.thorough
def test_trees_with_a_picture(run, tmp_path):
    figure = tmp_path / "design.png"
    spec = "trees:actions=4,features=4,contexts=300,bins=6,seed=3"
    code, out, _ = run("complexity", spec, "--figure", figure, "--tolerance", 0.1)
    assert code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "if " in out
    assert "needs a search of the class" in out


@pytest.mark.first(1)
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


@pytest.mark.thorough
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


@pytest.mark.first(3)
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
