"""What coda saves: against the plain randomised trial with the same certificate, and against the paper's constants.

Medians over seeds; the paper's algorithm is run once, as it asks for about the same number each time.

python -m benchmarks.trials [runs]

What an experiment takes, beside the same trial in simulation: both meet the same people, with the same random numbers
and rewards. An experiment keeps a tenth of δ for withdrawals; at that δ the trial in simulation should be the same.

python -m benchmarks.trials live [pairs] [processes]      1 pair on six problems: some three minutes of processor time
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import using_cores
from pacbandits.confidence import withdrawal_part
from pacbandits.experiment import analyses
from pacbandits.experiment.assignment_records import AssignmentRequest, Report
from pacbandits.experiment.context_encoding import Encoder
from pacbandits.experiment.draws import ACTION, choose, draws
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.store import COLLECTING, History

PROBLEMS = (
    "two-of-many",
    "trees:actions=16,competitive=3",
    "hard:m=10,gap=0.5,noise=bernoulli",
    "random:actions=2",
)


def main(runs: int) -> None:
    rows: list[list[str]] = []
    for spec in PROBLEMS:
        problem = pb.load_problem(spec)
        median: dict[str, float] = {}
        wrong = 0
        for algorithm in ("uniform", "coda"):
            done = [pb.run(problem, algorithm=algorithm, epsilon=0.05, delta=0.05, rng=seed) for seed in range(runs)]
            median[algorithm] = statistics.median(one.samples for one in done)
            wrong += sum(not one.correct for one in done)
            seconds = statistics.median(one.seconds for one in done)
        paper = pb.run(problem, algorithm="coda-paper", epsilon=0.05, delta=0.05, rng=0)
        assert paper.stopped == "done"
        wrong += not paper.correct
        price = pb.measure(problem, problem.policies, epsilon=0.05, delta=0.05, tolerance=0.02).union_price
        rows.append(
            [
                f"`{spec}`",
                f"{median['uniform']:,.0f}",
                f"{median['coda']:,.0f}",
                f"{median['uniform'] / median['coda']:.2f}",
                f"{price:,.0f}",
                f"{median['coda'] / price:.2f}",
                f"{paper.samples:.2g}",
                f"{paper.samples / median['coda']:,.0f}",
                f"{wrong} of {2 * runs + 1}",
                f"{seconds:.1f}",
            ]
        )
    print_table(
        f"ε = δ = 0.05, medians of {runs} runs",
        [
            "problem",
            "uniform",
            "coda",
            "times fewer",
            "2ρ_σ log(|Π|/δ)",
            "coda over that",
            "coda-paper",
            "times more",
            "wrong",
            "seconds (coda)",
        ],
        rows,
    )


# An experiment beside the same trial in simulation.


MAX_PEOPLE = 200_000  # of one run
LIVE_PROBLEMS = (  # with the ε asked for, and the largest number of pairs; the dearest first
    ("trees:actions=16,competitive=3", 0.1, 10),
    ("trees:actions=6,competitive=2", 0.1, 30),
    ("iris", 0.1, 30),
    ("two-of-many:actions=6", 0.1, 30),
    ("random:actions=4", 0.1, 30),
    ("hard:m=10,gap=0.5,noise=bernoulli", 0.1, 30),
)


class People(NamedTuple):
    """Who comes to a trial, in order: their contexts (n,), and the rewards (n, A) that each action would earn."""

    where: IntArray
    rewards: FloatArray

    @classmethod
    def of(cls, problem: pb.Problem, seed: int) -> People:
        rng = np.random.default_rng([seed, 1])
        where = rng.choice(len(problem.population), size=MAX_PEOPLE, p=problem.population.weights)
        luck = rng.random(MAX_PEOPLE)
        return cls(where, (luck[:, None] < problem.mean_rewards[where]).astype(np.float64))


def simulate(problem: pb.Problem, people: People, *, epsilon: float, delta: float, seed: int) -> list[int]:
    """Play coda in simulation; return the size of each round."""
    trial = pb.Coda(epsilon, delta)
    state, sizes = trial.start(problem.policies, problem.population), list[int]()
    while (plan := trial.design(state)) is not None:
        first, n = state.samples, plan.samples
        where = people.where[first : first + n]
        contexts = problem.population.take(where)
        p = plan.sampler.propensities(contexts)
        actions = choose(p, draws(seed, first=first, count=n)[:, ACTION])
        rewards = people.rewards[first : first + n][np.arange(n), actions]
        rounds_of, repeats = np.full(n, state.round_number), np.ones(n, dtype=np.int64)
        state = trial.absorb(state, plan, pb.Log(contexts, actions, rewards, p, rounds_of, repeats))
        sizes.append(n)
    return sizes


def drive_experiment(problem: pb.Problem, people: People, *, epsilon: float, delta: float, seed: int) -> list[int]:
    """Drive an experiment whose rewards are known at once; return the size of each round."""
    by_id = problem.policies.n_contexts > 0
    known = problem.population if by_id else replace(problem.population, ids=None)
    contexts = Encoder.of(known).decode(known.features, known.ids)
    names = tuple(f"action {number}" for number in range(problem.n_actions))
    options = {"contexts": known, "actions": names, "policies": problem.policies, "epsilon": epsilon, "delta": delta}
    protocol = ExperimentProtocol(name="live", seed=seed, **options)
    forecasts = patch.object(analyses, "look_forward", return_value=None)  # which take longest, and change no round
    with (
        forecasts,
        tempfile.TemporaryDirectory() as folder,
        Experiment.create(Path(folder) / "live.db", protocol) as live,
    ):
        came = 0
        while (status := live.status().to_json())["state"] == COLLECTING:
            n = max(1, status["round"]["planned"] - status["round"]["assigned"])
            coming = range(came, came + n)
            asked = [AssignmentRequest(f"person {i}", contexts[int(people.where[i])]) for i in coming]
            given = live.assign_many(asked)
            live.record_many(
                [
                    Report(one.id, float(people.rewards[i, names.index(one.action)]))
                    for i, one in zip(coming, given, strict=True)
                ]
            )
            came += n
            while live.advance():
                pass
        with live.database.reading() as connection:
            return [int(n) for n in np.bincount(History(live._stored).read(connection).rounds)]


def pair(spec: str, epsilon: float, seed: int) -> tuple[int, int, int, bool]:
    """Return what one pair took: simulated, simulated at the δ of the experiment, and live.

    Also return whether all rounds of the experiment were those of the trial in simulation at its δ.
    """
    problem, delta = _seeded(spec, seed), 0.05
    people, part = People.of(problem, seed), delta * withdrawal_part(problem.n_actions, 0)
    with using_cores(1):
        plain = simulate(problem, people, epsilon=epsilon, delta=delta, seed=seed)
        same = simulate(problem, people, epsilon=epsilon, delta=part, seed=seed)
        live = drive_experiment(problem, people, epsilon=epsilon, delta=delta, seed=seed)
    found = sum(plain), sum(same), sum(live), same == live
    print(f"{spec} seed {seed}:", *found, file=sys.stderr, flush=True)
    return found


def _seeded(spec: str, seed: int) -> pb.Problem:
    """Return the problem with this seed, if it takes one."""
    try:
        return pb.load_problem(f"{spec}{',' if ':' in spec else ':'}seed={seed}")
    except pb.InputError:
        return pb.load_problem(spec)


def live(pairs: int = 1, processes: int = 2) -> None:
    """Print a table of paired runs, and one line for each pair as it is done."""
    columns: list[list[str]] = []
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        tasks = [
            (spec, [pool.submit(pair, spec, epsilon, seed) for seed in range(min(pairs, most))])
            for spec, epsilon, most in LIVE_PROBLEMS
        ]
        logs = np.zeros((0, 2))
        for spec, runs in tasks:
            found = np.array([one.result() for one in runs], dtype=np.float64)
            own = np.log(found[:, 1:3] / found[:, :1])
            logs = np.vstack([logs, own])
            medians = [f"{np.median(found[:, j]):,.0f}" for j in (0, 2)]
            columns.append([f"`{spec}`", *medians, *_ratios(own), f"{found[:, 3].sum():.0f} of {len(runs)}"])
    columns.append(["all", "", "", *_ratios(logs), ""])
    head = ["problem", "simulated", "live", "live ÷ simulated", "simulated at 0.9 δ ÷ at δ", "same rounds"]
    print_table("δ = 0.05; ratios are geometric means ± a standard error", head, columns)


def _ratios(logs: FloatArray) -> list[str]:
    """Return the geometric mean of each column of ratios, in the order of the table, with its standard error."""
    means, errors = np.exp(logs.mean(axis=0)), logs.std(axis=0, ddof=min(1, len(logs) - 1)) / math.sqrt(len(logs))
    return [f"{means[j]:.3f} ± {means[j] * errors[j]:.3f}" for j in (1, 0)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["live"]:
        live(*(int(one) for one in sys.argv[2:]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
