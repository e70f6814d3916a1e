"""How many interactions a proof takes: medians and 90th percentiles of coda and uniform, with a lottery and without.

python -m benchmarks.proofs [runs] [problem ...]
python -m benchmarks.proofs times

Runs go on in two processes at a time; the seconds are those of the processor. `times` takes one run after the other
instead, on an otherwise idle machine, and tells seconds by the clock.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table

PROBLEMS = (
    "trees:actions=16,competitive=3",
    "trees:actions=10,competitive=2,seed=3",
    "two-of-many",
    "digits",
    "hard:m=10,gap=0.5,noise=bernoulli",
    "random:actions=2",
)
ALGORITHMS = ("uniform", "coda", "coda:answer=single")
LEVEL = 0.05
LARGE = "trees:actions=26,features=16,contexts=20000"
MANY_ROWS = 100_000


class Done(NamedTuple):
    """What came of a run: interactions, whether it was right, policies in its answer, and seconds of the processor."""

    samples: int
    right: bool
    policies: int
    seconds: float


def play(spec: str, algorithm: str, seed: int) -> Done:
    """One run."""
    start = time.process_time()
    done = pb.run(spec, algorithm=algorithm, epsilon=LEVEL, delta=LEVEL, rng=seed)
    count = len(done.policy.policies) if isinstance(done.policy, pb.Lottery) else 1
    return Done(done.samples, done.correct, count, time.process_time() - start)


def main(runs: int, problems: tuple[str, ...]) -> None:
    rows: list[list[str]] = []
    with ProcessPoolExecutor(2) as pool:
        for spec, algorithm in product(problems, ALGORITHMS):
            done = list(pool.map(play, [spec] * runs, [algorithm] * runs, range(runs)))
            samples = [one.samples for one in done]
            rows.append(
                [
                    f"`{spec}`",
                    algorithm,
                    f"{np.median(samples):,.0f}",
                    f"{np.quantile(samples, 0.9):,.0f}",
                    f"{np.median([one.policies for one in done]):.0f}",
                    f"{sum(not one.right for one in done)} of {runs}",
                    f"{np.median([one.seconds for one in done]):.0f}",
                ]
            )
            print(*rows[-1], flush=True, file=sys.stderr)
    header = ["problem", "algorithm", "median", "90th percentile", "policies", "wrong", "CPU seconds"]
    print_table(f"ε = δ = {LEVEL}, {runs} runs each", header, rows)


def times() -> None:
    """How long runs take by the clock, and one certificate of many rows."""
    rows: list[list[str]] = []
    for spec, epsilon, runs in (("trees:actions=16,competitive=3", 0.05, 9), (LARGE, 0.1, 3)):
        problem = pb.load_problem(spec)
        pb.run(problem, algorithm="coda", epsilon=0.5, delta=LEVEL, rng=0)  # compiles
        seconds: list[float] = []
        for seed in range(runs):
            start = time.perf_counter()
            pb.run(problem, algorithm="coda", epsilon=epsilon, delta=LEVEL, rng=seed)
            seconds.append(time.perf_counter() - start)
        words = f"{np.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"
        rows.append([f"coda on `{spec}`, ε = {epsilon}, {runs} runs", words])
    rows.append([f"the certificate after a round, of {MANY_ROWS:,} rows", f"{_time_of_certificate():.2f}"])
    print_table("Seconds: medians, and the least and most", ["what", "seconds"], rows)


def _time_of_certificate() -> float:
    """Of a uniform trial's third round: data laid out, a leader chosen, the wealth of every policy bounded."""
    problem, trial, rng = (
        pb.load_problem(PROBLEMS[0]),
        pb.Uniform(0.01, LEVEL, pilot=MANY_ROWS // 3),
        np.random.default_rng(0),
    )
    state, seconds = trial.start(problem.policies, problem.population), 0.0
    while state.samples < MANY_ROWS:
        plan = trial.design(state)
        assert plan is not None
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng, round_number=state.round_number)
        start = time.perf_counter()
        state = trial.absorb(state, plan, log)
        seconds = time.perf_counter() - start
    return seconds


if __name__ == "__main__" and sys.argv[1:] == ["times"]:
    times()
elif __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9, tuple(sys.argv[2:]) or PROBLEMS)
