"""How many interactions a proof takes: coda and uniform, of a mixture or a single policy, and the paper's algorithm.

python -m benchmarks.proofs [runs] [problem ...]
python -m benchmarks.proofs times

Medians and, in brackets, 90th percentiles; the paper's algorithm is run once, as it asks for about the same number each
time. All cores are used. `times` takes one run after the other instead, on an otherwise idle machine, and tells seconds
by the clock.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

import pacbandits as pb
from benchmarks.measuring import power, print_table

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
    """What came of a run: interactions, and whether it was right."""

    samples: int
    right: bool


def play(spec: str, algorithm: str, seed: int) -> Done:
    """One run."""
    done = pb.run(spec, algorithm=algorithm, epsilon=LEVEL, delta=LEVEL, rng=seed)
    return Done(done.samples, done.correct)


def price(spec: str) -> float:
    """2ρ_σ log(|Π|/δ), what a union bound would pay at the best design; 0 where rewards carry no noise."""
    problem = pb.load_problem(spec)
    return pb.measure(problem, problem.policies, epsilon=LEVEL, delta=LEVEL, tolerance=0.02).union_price


def main(runs: int, problems: tuple[str, ...]) -> None:
    rows: list[list[str]] = []
    jobs = [(spec, algorithm, seed) for spec in problems for algorithm in ALGORITHMS for seed in range(runs)]
    jobs += [(spec, "coda-paper", 0) for spec in problems]
    with ProcessPoolExecutor() as pool:
        yardsticks = pool.map(price, problems)
        outcomes = dict(zip(jobs, pool.map(play, *zip(*jobs, strict=True)), strict=True))
        wrong = sum(not one.right for one in outcomes.values())
        for spec, yardstick in zip(problems, yardsticks, strict=True):
            samples = {
                algorithm: [outcomes[spec, algorithm, seed].samples for seed in range(runs)] for algorithm in ALGORITHMS
            }
            uniform, coda = (float(np.median(samples[name])) for name in ("uniform", "coda"))
            rows.append([f"`{spec}`", spread(samples["uniform"]), spread(samples["coda"]), f"{uniform / coda:.1f}"])
            rows[-1] += [spread(samples["coda:answer=single"])]
            rows[-1] += [f"{yardstick:,.0f}", f"{coda / yardstick:.2g}"] if yardstick > 0 else ["–", "–"]
            rows[-1] += [power(outcomes[spec, "coda-paper", 0].samples)]
    head = [f"ε = δ = {LEVEL}", "uniform", "coda", "times fewer", "coda, a single policy"]
    head += ["2ρ_σ log(\\|Π\\|/δ)", "coda over that", "coda-paper"]
    print_table(f"{runs} runs each; {wrong} wrong answers", head, rows)


def spread(samples: list[int]) -> str:
    return f"{np.median(samples):,.0f} ({np.quantile(samples, 0.9):,.0f})"


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
