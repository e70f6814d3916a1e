"""What the best policy itself takes (ε = 0), beside half of the least gap: medians of coda and uniform.

python -m benchmarks.best [runs] [problem ...]
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table

PROBLEMS = (
    "hard:m=6,noise=bernoulli",
    "trivial:contexts=4,actions=3,gap=0.4,seed=2",
    "two-of-many:actions=6,policies=40",
    "random",
)
DELTA = 0.05


def play(spec: str, algorithm: str, epsilon: float, seed: int) -> tuple[int, bool]:
    """The samples of one run, and whether its answer was right."""
    done = pb.run(spec, algorithm=algorithm, epsilon=epsilon, delta=DELTA, rng=seed)
    return done.samples, done.correct


def main(runs: int, problems: tuple[str, ...]) -> None:
    loaded = [pb.load_problem(spec) for spec in problems]
    measured = [pb.measure(one, one.policies, epsilon=0.0, delta=DELTA) for one in loaded]
    jobs = [
        (spec, algorithm, epsilon, seed)
        for spec, one in zip(problems, measured, strict=True)
        for algorithm in ("coda", "uniform")
        for epsilon in (0.0, one.gap_epsilon / 2)
        for seed in range(runs)
    ]
    with ProcessPoolExecutor() as pool:
        samples, right = zip(*pool.map(play, *zip(*jobs, strict=True)), strict=True)
    medians = np.median(np.reshape(samples, (len(problems), -1, runs)), axis=2)
    wrong = len(right) - sum(right)
    rows = [
        [f"`{spec}`", f"{one.gap_epsilon:.4f}", *(f"{median:,.0f}" for median in found), f"{one.union_price:,.0f}"]
        for spec, one, found in zip(problems, measured, medians, strict=True)
    ]
    both = [f"`{name}`, ε = {epsilon}" for name in ("coda", "uniform") for epsilon in ("0", "half of it")]
    head = [f"δ = {DELTA:g}, medians of {runs} runs", "least gap", *both, "2ρ_σ log(\\|Π\\|/δ)"]
    print_table("The best itself", head, rows)
    print(f"wrong: {wrong}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, tuple(sys.argv[2:]) or PROBLEMS)
