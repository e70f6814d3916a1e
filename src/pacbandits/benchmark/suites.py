"""Suites as constants: which problems, which algorithms with which knobs, how many seeds."""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.benchmark.cases import Case, Entry, Task
from pacbandits.benchmark.separation import SEPARATION_CASES, SEPARATION_ENTRIES


@dataclass(frozen=True)
class Suite:
    """What a command plays.

    name: what the command calls it.
    description: what it is for, in a line.
    cases: problems, and what is asked of them.
    entries: algorithms; those that refuse a case are left out of it.
    seeds: how many runs of each.
    """

    name: str
    description: str
    cases: tuple[Case, ...]
    entries: tuple[Entry, ...]
    seeds: int

    def tasks(self) -> tuple[Task, ...]:
        """All runs, case by case, all entries with one seed before the next: so what is there early can be compared."""
        return tuple(
            Task(self.name, case, entry, seed)
            for case in self.cases
            for seed in range(self.seeds)
            for entry in self.entries
        )


QUICK = Suite(
    "quick",
    "small problems, published defaults: minutes",
    (
        Case("trivial 4/3", "trivial:contexts=4,actions=3,gap=0.3", 0.1, 0.1, 20_000),
        Case("two-of-many 10", "two-of-many:actions=10,policies=100,contexts=20", 0.1, 0.1, 40_000),
    ),
    (Entry("coda", "coda"), Entry("uniform", "uniform"), Entry("epoch-greedy", "epoch-greedy")),
    10,
)
SEPARATION = Suite(
    "separation",
    "the paper's hard instance, m up to 1,000, low regret against us: an hour of a core",
    SEPARATION_CASES,
    SEPARATION_ENTRIES,
    20,
)
SUITES: dict[str, Suite] = {suite.name: suite for suite in (QUICK, SEPARATION)}
