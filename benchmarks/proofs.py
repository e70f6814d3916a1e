"""How many interactions a proof takes: medians and 90th percentiles of coda and uniform, with a lottery and without.

python -m benchmarks.proofs [runs] [problem ...]

Runs go on in two processes at a time; the seconds are those of the processor.
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


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9, tuple(sys.argv[2:]) or PROBLEMS)
