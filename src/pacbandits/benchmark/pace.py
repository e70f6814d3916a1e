"""Estimate the time left of a suite from the runs so far; cases and algorithms differ by factors of hundreds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from pacbandits.benchmark.rows import Row

Kind = tuple[str, str]  # a case and the spec of an algorithm


@dataclass
class Pace:
    """What runs took, of earlier commands and of this one.

    runs: how many, by kind.
    seconds: of a core, by kind.
    spent: seconds of a core by this command, which tell what else its time goes into, and how many cores it has.
    """

    runs: Counter[Kind] = field(default_factory=Counter[Kind])
    seconds: defaultdict[Kind, float] = field(default_factory=lambda: defaultdict(float))
    spent: float = 0.0

    def note(self, row: Row, *, now: bool) -> None:
        """Add a run; now: of this command."""
        kind, seconds = (row.case, row.algorithm), row.seconds + row.seconds_certifying
        self.runs[kind] += 1
        self.seconds[kind] += seconds
        self.spent += seconds if now else 0.0

    def time_left(self, waiting: Mapping[Kind, int], *, elapsed: float, processes: int) -> float | None:
        """Seconds until so many runs of each kind are played; None while nothing is known.

        A kind that was not played takes as long as those of its case, a case that was not as long as the others.

        elapsed: seconds since this command began. processes: that it plays with, which tells before its first run ends.
        """
        if not self.runs:
            return None
        of_case, runs_of_case = defaultdict[str, float](float), Counter[str]()
        for kind, runs in self.runs.items():
            of_case[kind[0]] += self.seconds[kind]
            runs_of_case[kind[0]] += runs
        overall = sum(self.seconds.values()) / self.runs.total()

        def expected(kind: Kind) -> float:
            if self.runs[kind]:
                return self.seconds[kind] / self.runs[kind]
            case = kind[0]
            return of_case[case] / runs_of_case[case] if runs_of_case[case] else overall

        core_seconds = sum(count * expected(kind) for kind, count in waiting.items() if count)
        return core_seconds * (elapsed / self.spent if self.spent else 1.0 / max(processes, 1))
