"""What the best policy itself takes (ε = 0), beside half of the least gap: medians of coda and uniform.

python -m benchmarks.best [runs] [problem ...]
"""

from __future__ import annotations

import sys

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


def main(runs: int, problems: tuple[str, ...]) -> None:
    rows: list[list[str]] = []
    wrong = 0
    for spec in problems:
        problem = pb.load_problem(spec)
        measured = pb.measure(problem, problem.policies, epsilon=0.0, delta=DELTA)
        row = [f"`{spec}`", f"{measured.gap_epsilon:.4f}"]
        for algorithm in ("coda", "uniform"):
            for epsilon in (0.0, measured.gap_epsilon / 2):
                done = [
                    pb.run(problem, algorithm=algorithm, epsilon=epsilon, delta=DELTA, rng=seed) for seed in range(runs)
                ]
                wrong += sum(not one.correct for one in done)
                row.append(f"{np.median([one.samples for one in done]):,.0f}")
        rows.append([*row, f"{measured.union_price:,.0f}"])
    both = [f"`{name}`, ε = {epsilon}" for name in ("coda", "uniform") for epsilon in ("0", "half of it")]
    head = [f"δ = {DELTA:g}, medians of {runs} runs", "least gap", *both, "2ρ_σ log(\\|Π\\|/δ)"]
    print_table("The best itself", head, rows)
    print(f"wrong: {wrong}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, tuple(sys.argv[2:]) or PROBLEMS)
