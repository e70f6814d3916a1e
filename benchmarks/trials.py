"""What coda saves: against the plain randomised trial with the same certificate, and against the paper's constants.

Medians over seeds; the paper's algorithm is run once, as it asks for about the same number each time.

python -m benchmarks.trials [runs]
"""

from __future__ import annotations

import statistics
import sys

import pacbandits as pb
from benchmarks.measuring import print_table

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


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
