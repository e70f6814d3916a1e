"""Designs over many contexts: how long, how many passes, how wide a bracket, and how much memory.

python -m benchmarks.scale_designs                          10⁵ and 10⁶ contexts, on the cores of this machine
python -m benchmarks.scale_designs 10000000                 so many
python -m benchmarks.scale_designs 1000000 --engine dask    by worker processes (or cuda, on a card)

Contexts have 10 features of 32 bins each, there are 10 actions, and trees of depth 2. Blocks of contexts are drawn when
they are asked for, as if read from a file: memory does not grow with their number.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.measuring import in_subprocess, print_table
from pacbandits.design import Clipped
from pacbandits.design.large import LargeTask, solve_large_design
from pacbandits.engines import ROWS_PER_BLOCK
from pacbandits.engines.base import Aggregation, Engine, Source, Sums, even_stripes, log_of_contexts
from pacbandits.engines.registry import ENGINES, using_engine
from pacbandits.policies import Trees
from pacbandits.records import Contexts, Log

EPSILON, TOLERANCE = 0.05, 0.05
FEATURES, BINS, ACTIONS = 10, 32, 10


@dataclass(frozen=True)
class Drawn:
    """Contexts of independent normal features, each block from a seed of its own."""

    n_rows: int

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        for number in range(first, last):
            size = min(ROWS_PER_BLOCK, self.n_rows - number * ROWS_PER_BLOCK)
            features = np.random.default_rng([1, number]).standard_normal((size, FEATURES))
            yield log_of_contexts(Contexts.of(features))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)


@dataclass(frozen=True)
class Means:
    """Mean rewards that step up or down where one of three features of an action's own is positive."""

    def __call__(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng(1)
        which = rng.integers(0, FEATURES, size=(ACTIONS, 3))
        steps = np.zeros((FEATURES, ACTIONS))
        for action, features in enumerate(which):
            steps[features, action] = rng.normal(0.0, 0.08, size=3)
        level = 0.3 + 0.05 * rng.normal(size=ACTIONS)
        return np.clip(level + (contexts.features > 0) @ steps, 0.0, 1.0)


@dataclass
class Timed:
    """An engine, and how many seconds each question took it."""

    engine: Engine
    seconds: list[float] = field(default_factory=list[float])

    @property
    def name(self) -> str:
        return self.engine.name

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        began = time.perf_counter()
        sums = self.engine.ask(source, question, what=what)
        self.seconds.append(time.perf_counter() - began)
        return sums


def solve(n_contexts: int, engine: str, sample_rows: int, aloud: bool) -> dict[str, Any]:
    """Seconds, passes and bracket, after a small problem that has everything compiled."""

    def tell(words: str) -> None:
        if aloud:
            print(f"{time.perf_counter() - began:8.1f} s  {words}", flush=True)

    def task(n: int) -> LargeTask:
        return LargeTask(policies, Drawn(n), means=Means(), scale=Clipped(EPSILON))

    first = next(Drawn(ROWS_PER_BLOCK).blocks(0, 1)).contexts
    policies = Trees.learn(first, n_actions=ACTIONS, depth=2, bins=BINS)
    with using_engine(engine) as adding:
        solve_large_design(task(2_000), tolerance=1.0, engine=adding)
        timed, began = Timed(adding), time.perf_counter()
        found = solve_large_design(
            task(n_contexts), engine=timed, tolerance=TOLERANCE, sample_rows=sample_rows, progress=tell
        )
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "lower": found.lower,
        "upper": found.upper,
        "gap": found.gap,
        "passes": " + ".join(f"{one:.1f}" for one in timed.seconds),
        "support": len(found.design.support),
        "note": found.note,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contexts", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--engine", default="stream", choices=list(ENGINES))
    parser.add_argument("--sample", type=int, default=2**14)
    parser.add_argument("--aloud", action="store_true", help="Say how far it is.")
    given = parser.parse_args()
    rows = []
    for n in given.contexts:
        got, memory = in_subprocess(solve, n, given.engine, given.sample, given.aloud)
        rows.append(
            [
                f"{n:,}",
                f"{got['lower']:.5g} … {got['upper']:.5g}",
                f"{got['gap']:.1%}",
                f"{got['seconds']:.1f} s",
                f"{got['passes']} s",
                f"{got['support']}",
                f"{memory:.0f} MB",
            ]
        )
    print_table(
        f"Designs over many contexts, {FEATURES} features × {BINS} bins × {ACTIONS} actions, {given.engine}",
        ["contexts", "bracket on ρ", "gap", "time", "of which passes", "support", "peak memory"],
        rows,
    )


if __name__ == "__main__":
    main()
