"""coda against itself with one constant changed, on the same problems and seeds: which constants matter?

    python -m benchmarks.exploration 16 300 results.jsonl     # processes, seconds, where runs are stored
    python -m benchmarks.exploration table results.jsonl

Seeds are played in waves over all problems, until time is up; the table is of all pairs that were played.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.compiled import using_cores
from pacbandits.problems.scenarios import Outcome, Scenario
from pacbandits.trials import coda, trial

PROBLEMS = {  # with ε and δ
    "iris:flip=0.2": (0.1, 0.1),
    "wine:flip=0.2": (0.1, 0.1),
    "trees:actions=16,competitive=3": (0.1, 0.05),
    "trees:actions=6,competitive=2": (0.1, 0.05),
    "trees:actions=8,contexts=1000": (0.1, 0.1),
    "trees:actions=12,competitive=4,features=4,contexts=800,seed=5": (0.08, 0.05),
    "trees:actions=8,contexts=500,depth=1": (0.1, 0.1),
    "trees:actions=16,contexts=500,depth=1,seed=1": (0.1, 0.1),
    "two-of-many:actions=6,policies=40": (0.05, 0.05),
    "two-of-many:actions=10,policies=100,contexts=20": (0.05, 0.1),
    "two-of-many": (0.05, 0.1),
    "linear:dimension=4,actions=5,contexts=50,policies=60": (0.05, 0.1),
    "linear:seed=1": (0.05, 0.1),
    "random:policies=100,contexts=20,actions=10,skew=1,seed=2": (0.05, 0.1),
    "random:policies=200,contexts=20,actions=6,seed=1": (0.05, 0.1),
    "trivial:contexts=10,actions=8,gap=0.2": (0.1, 0.1),
    "trivial:contexts=20,actions=4,gap=0.1,skew=1": (0.1, 0.1),
    "hard-coins:m=16,gap=0.25": (0.02, 0.1),
    "rare:actions=6": (0.03, 0.05),
    "rare:actions=10": (0.03, 0.05),
}
CONSTANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "uniform exploration": {},
    "half of uniform exploration never": {"EVEN_SHARES": (0.0, 0.25)},
    "designs never mixed": {"EVEN_SHARES": (0.0,)},
    "whole gaps counted": {"COUNTED_GAP_SHARE": 1.0},
    "eight draws": {"SPLITS": 4},
    "two draws": {"SPLITS": 1},
    "design anew after 1.25 times the data": {"REDESIGN_GROWTH_FACTOR": 1.25},
    "stakes 1.4 times larger": {"stakes": 1.4},
    "floor 0.05": {"floor": 0.05},
    "experts 0.7, 1.4": {"EXPERT_MULTIPLIERS": (0.7, 1.4)},
    "experts 0.4, 0.8, 1.6": {"LEADERS_MULTIPLIERS": (0.4, 0.8, 1.6)},
}
MAX_PEOPLE, FIRST_SEED, MOST_SEEDS = 150_000, 1000, 40


class Job(NamedTuple):
    problem: str
    constants: str
    seed: int


def load(spec: str, seed: int) -> pb.Problem:
    """Return a problem; `rare` is one with rewards of 5 %, trees of depth 1, and one best action."""
    if not spec.startswith("rare:"):
        return pb.load_problem(spec)
    rng = np.random.default_rng(seed)
    people = pb.Contexts.of(rng.normal(size=(500, 3)), ids=np.arange(500))
    policies = pb.Trees.learn(people, n_actions=int(spec.split("=")[1]), depth=1)
    return Scenario("winner", effect=0.04).draw(people, policies, outcome=Outcome(0.05), rng=rng)


def play(job: Job) -> dict[str, Any]:
    """Play one trial; return its samples and seconds."""
    epsilon, delta = PROBLEMS[job.problem]
    changed = dict(CONSTANTS[job.constants])
    stakes, floor = changed.pop("stakes", 1.0), changed.pop("floor", coda.DEFAULT_FLOOR_SHARE)
    algorithm = pb.Coda(epsilon, delta, floor=floor)
    if job.constants == "uniform exploration":
        algorithm = pb.Uniform(epsilon, delta)
    usual = trial.Trial.scale
    with ExitStack() as stack:
        stack.enter_context(using_cores(1))
        stack.enter_context(patch.object(trial.Trial, "scale", lambda *given: stakes * usual(*given)))
        for name, value in changed.items():
            stack.enter_context(patch.object(coda if hasattr(coda, name) else trial, name, value))
        began = time.perf_counter()
        done = pb.run(load(job.problem, job.seed), algorithm=algorithm, rng=job.seed, max_samples=MAX_PEOPLE)
    seconds = time.perf_counter() - began
    return {**job._asdict(), "samples": done.samples, "seconds": seconds, "correct": done.correct}


def play_all(processes: int, seconds: float, into: str) -> None:
    """Play waves of seeds until time is up."""
    jobs = [
        Job(problem, constants, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS)
        for problem in PROBLEMS
        for constants in CONSTANTS
    ]
    for problem in ("iris:flip=0.2", "linear:seed=1", "trivial:contexts=10,actions=8,gap=0.2"):
        play(Job(problem, "as it is", 0))  # compiles
    until, fork = time.monotonic() + seconds, multiprocessing.get_context("fork")
    with fork.Pool(processes) as pool, Path(into).open("a", encoding="utf-8") as file:
        for row in _until(pool.imap_unordered(play, jobs), until):
            print(json.dumps(row), file=file, flush=True)


def _until(rows: Any, until: float) -> Iterator[dict[str, Any]]:
    while (left := until - time.monotonic()) > 0:
        try:
            yield rows.next(timeout=left)
        except (StopIteration, multiprocessing.TimeoutError):
            return


def print_ratios(paths: list[str]) -> None:
    """Print samples and seconds as a share of those with the constants as they are: means of logarithms over pairs."""
    rows = [json.loads(line) for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines()]
    played = {(row["problem"], row["constants"], row["seed"]): row for row in rows}
    table: list[list[str]] = []
    for constants in CONSTANTS:
        means, squares, seconds, worst = list[float](), list[float](), list[float](), (0.0, "")
        for problem in PROBLEMS:
            pairs = [
                (row, played[problem, "as it is", seed])
                for (which, name, seed), row in played.items()
                if (which, name) == (problem, constants) and (problem, "as it is", seed) in played
            ]
            if len(pairs) < 2 or constants == "as it is":
                continue
            logs = np.log([a["samples"] / b["samples"] for a, b in pairs])
            means.append(float(logs.mean()))
            squares.append(float(logs.var(ddof=1) / len(logs)))
            seconds.append(float(np.log([a["seconds"] / b["seconds"] for a, b in pairs]).mean()))
            worst = max(worst, (math.exp(means[-1]), problem))
        if means:
            error = math.sqrt(sum(squares)) / len(means)
            ratio = f"{math.exp(np.mean(means)):.3f} ± {error:.3f}"
            share = f"{math.exp(np.mean(seconds)):.2f}"
            table.append([constants, ratio, f"{worst[0]:.2f} (`{worst[1]}`)", share])
    wrong = sum(row["correct"] is False for row in rows)
    caption = f"{len(rows):,} runs, {wrong} wrong; samples as a share of those with the constants as they are"
    print_table(caption, ["change", "samples", "most on one problem", "seconds"], table)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print_ratios(sys.argv[2:])
    else:
        play_all(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
