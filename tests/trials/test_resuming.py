"""Runs that were stopped go on as if they had never stopped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.trials.saving_cases import (
    FINITE,
    KINDS,
    TREES,
    TRIVIAL,
    direct,
    same_logs,
)

from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.policies import Finite
from pacbandits.problems import Problem, load_problem
from pacbandits.records import Log
from pacbandits.simulation import run
from pacbandits.trials.coda import Coda

RUN = {"algorithm": "coda", "epsilon": 0.12, "delta": 0.1}


def without_time(done):
    return {key: value for key, value in done.to_json().items() if key != "seconds"}


@pytest.mark.thorough
@pytest.mark.parametrize(("spec", "rng"), [(FINITE, np.random.Philox), (TRIVIAL, np.random.MT19937), (TREES, 3)])
def test_a_run_in_pieces_is_a_run_in_one(spec, rng, tmp_path):
    def draw():
        return rng if isinstance(rng, int) else np.random.Generator(rng(5))

    problem, options = load_problem(spec), RUN | {"offline_contexts": 40}
    whole = run(problem, rng=draw(), **options)
    assert whole.rounds > 2
    for budget in (1, whole.history[0]["samples"], whole.history[1]["total"]):
        part = run(problem, rng=draw(), state=tmp_path / "trial", max_samples=budget, **options)
        assert part.stopped == "budget"
        assert part.samples <= budget
    smaller = run(problem, rng=draw(), state=tmp_path / "trial", max_samples=1, **options)
    assert smaller.reason.endswith("and 0 are left")
    for _ in range(2):  # the second time there is nothing left to do
        done = run(problem, rng=draw(), state=tmp_path / "trial", **options)
        assert without_time(done) == without_time(whole)
        same_logs(done.log, whole.log)


@pytest.mark.thorough
def test_an_interrupted_round_is_played_again(tmp_path, monkeypatch):
    problem = load_problem(TRIVIAL)
    whole = run(problem, rng=1, **RUN)
    interact, absorb, design = Problem.interact, Coda.absorb, Coda.design
    ends, designed = [("played", 0), ("learnt", 0), ("played", 1), ("learnt", 2)], []

    def stop_once(*where):
        if where in ends:
            ends.remove(where)
            raise KeyboardInterrupt

    def playing(self, *arguments, round_number, **options):
        log = interact(self, *arguments, round_number=round_number, **options)
        stop_once("played", round_number)
        return log

    def learning(self, state, *arguments):
        after = absorb(self, state, *arguments)
        stop_once("learnt", state.round_number)
        return after

    def designing(self, state, **options):
        designed.append(state.round_number)
        return design(self, state, **options)

    monkeypatch.setattr(Problem, "interact", playing)
    monkeypatch.setattr(Coda, "absorb", learning)
    monkeypatch.setattr(Coda, "design", designing)
    for rounds in (0, 0, 1, 2):
        part = run(problem, rng=1, state=tmp_path / "trial", **RUN)
        assert (part.stopped, part.rounds) == ("interrupted", rounds)
        assert part.history == whole.history[:rounds]
        assert load_state(tmp_path / "trial")[1].round_number == rounds
    assert not ends
    done = run(problem, rng=1, state=tmp_path / "trial", **RUN)
    assert without_time(done) == without_time(whole)
    assert designed == [0, 0, 0, 1, 1, 2, *range(2, whole.rounds + 1)]  # no finished round is designed again


@pytest.mark.thorough
def test_a_file_of_another_run_is_refused(tmp_path):
    problem, other = load_problem(FINITE), load_problem(FINITE + ",seed=8")
    path = tmp_path / "state"
    options = RUN | {"rng": 1, "max_samples": 2000}
    run(problem, state=path, **options)
    moved = replace(problem, mean_rewards=problem.mean_rewards[::-1])
    fewer = Finite(problem.policies.table[:-1], n_actions=10)
    named = Finite(problem.policies.table, n_actions=10, names=[str(i) for i in range(20)])
    before = path.read_bytes()
    for one, policies, changes, words in (
        (other, None, {}, rf"its problem was {problem.name}, and is {other.name} now"),
        (moved, None, {}, r"its problem's digest was \w+, and is \w+ now"),
        (problem, fewer, {}, "its policy class was another"),
        (problem, named, {}, "its policy class was another"),
        (problem, None, {"algorithm": "uniform"}, "its algorithm was coda, and is uniform now"),
        (problem, None, {"epsilon": 0.2}, r"its epsilon was 0\.12, and is 0\.2 now"),
        (problem, None, {"delta": 0.2}, r"its delta was 0\.1, and is 0\.2 now"),
        (problem, None, {"rng": 2}, "its seed was 1, and is 2 now"),
        (problem, None, {"rng": np.random.default_rng(1)}, "its seed was 1, and is None now"),
        (problem, None, {"offline_contexts": 9}, "its number of offline contexts was None, and is 9 now"),
    ):
        words = f"holds another run: {words}; take another file, or the same options as before"
        with pytest.raises(InputError, match=words):
            run(one, policies, state=path, **(options | changes))
    assert path.read_bytes() == before
    with pytest.raises(
        InputError, match="the state of rage cannot be kept, only that of a trial: coda, uniform, or your own"
    ):
        run(problem, state=tmp_path / "new", **(options | {"algorithm": "rage"}))
    assert not (tmp_path / "new").exists()
    asked = {name: value for name, value in options.items() if name != "rng"}
    for offline in (None, 9):
        new = tmp_path / f"new {offline}"
        first = run(problem, state=new, rng=np.random.default_rng(0), offline_contexts=offline, **asked)
        for other in (np.random.default_rng(1), np.random.Generator(np.random.SFC64(0))):
            with pytest.raises(InputError, match="begun with other random numbers"):
                run(problem, state=new, rng=other, offline_contexts=offline, **asked)
        again = run(problem, state=new, rng=np.random.default_rng(0), offline_contexts=offline, **asked)
        assert without_time(again) == without_time(first)
    algorithm, _, states, _ = direct("coda", FINITE)
    save_state(path, algorithm, states[1])
    with pytest.raises(InputError, match="holds a state that no run has left there; take another file"):
        run(problem, state=path, **options)


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_the_command_stops_by_its_budget_and_goes_on(name, command, tmp_path):
    asked = ("run", TREES, "--algorithm", name, "--epsilon", 0.15, "--seed", 2, "--json")
    code, out, _ = command(*asked, "--log", tmp_path / "whole.parquet")
    whole = json.loads(out)
    assert code == 0
    kept = (*asked, "--state", tmp_path / "state")
    for budget in (10, 1000):
        code, out, _ = command(*kept, "--max-samples", budget)
        assert code == 3
        assert json.loads(out)["stopped"] == "budget"
    for _ in range(2):
        code, out, _ = command(*kept, "--log", tmp_path / "parts.parquet")
        assert code == 0
        assert json.loads(out) | {"seconds": 0} == whole | {"seconds": 0}
        same_logs(Log.read(tmp_path / "parts.parquet"), Log.read(tmp_path / "whole.parquet"))
    for more, words in (
        (("--repeat", 2), "a file stores the state of one run; leave out --repeat or --state"),
        (("--delta", 0.2), "its delta was 0.05, and is 0.2 now; take another file, or the same options as before"),
        (("--algorithm", "coda-paper"), "the state of coda-oracle cannot be kept"),
    ):
        code, out, err = command(*kept, *more)
        assert (code, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1
