"""Everything that a folder of results shows, for tables, figures and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pacbandits.benchmark.claims import ClaimVerdict, verdicts
from pacbandits.benchmark.descriptions import Description, Key
from pacbandits.benchmark.facts import CaseFacts
from pacbandits.benchmark.results import (
    Failure,
    Misfit,
    read_description,
    read_facts,
    read_failures,
    read_misfits,
    read_rows,
    task_of,
)
from pacbandits.benchmark.rows import Row
from pacbandits.benchmark.standings import CaseStanding, standings


@dataclass(frozen=True)
class BenchmarkFindings:
    """What came of a benchmark.

    rows: all runs.
    standings: case by case.
    facts: what theory says of cases, by name.
    verdicts: what we claim, kept or broken.
    misfits: who refused which case.
    failures: runs that ended in an error.
    description: suites, commands and environments.
    """

    rows: tuple[Row, ...]
    standings: tuple[CaseStanding, ...]
    facts: Mapping[str, CaseFacts]
    verdicts: tuple[ClaimVerdict, ...]
    misfits: tuple[Misfit, ...] = ()
    failures: tuple[Failure, ...] = ()
    description: Description = field(default_factory=Description)

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        *,
        facts: Sequence[CaseFacts] = (),
        misfits: Sequence[Misfit] = (),
        failures: Sequence[Failure] = (),
        description: Description | None = None,
    ) -> BenchmarkFindings:
        """The findings of rows, and of what is known beside them."""
        told = description or Description()
        order = [case.name for suite in told.suites.values() for case in suite.cases]
        found = standings(rows, cases=order)
        known = {one.case: one for one in facts}
        kept = verdicts(found, ratios={name: one.uniform_over_best for name, one in known.items()})
        return cls(tuple(rows), found, known, kept, tuple(misfits), tuple(failures), told)

    @property
    def entries(self) -> tuple[str, ...]:
        """All algorithms, as tables call them."""
        return tuple(dict.fromkeys(score.entry for one in self.standings for score in one.scores))

    def verdict(self, case: str) -> ClaimVerdict | None:
        """What we claim of a case, if anything."""
        return next((one for one in self.verdicts if one.case == case), None)

    @property
    def wanted(self) -> frozenset[Key]:
        """The keys of all runs that were asked for, but for those of algorithms that refused."""
        refused = {(one.suite, one.case, one.algorithm) for one in self.misfits}
        return frozenset(key for key in self.description.wanted() if key[:3] not in refused)

    @property
    def lacking(self) -> Mapping[str, int]:
        """How many runs are not in, by case; empty where all are."""
        return Counter(case for _, case, _, _ in self.wanted - {task_of(row).key for row in self.rows})

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        lacking = self.lacking
        wanted = len(self.wanted)
        unfinished = {
            "runs": wanted - sum(lacking.values()),
            "wanted": wanted,
            "lacking": dict(sorted(lacking.items())),
        }
        return {
            "unfinished": unfinished if lacking else None,
            "version": self.description.version,
            "runs": len(self.rows),
            "cases": [one.to_json() | {"finished": one.case not in lacking} for one in self.standings],
            "claims": [one.to_json() | {"finished": one.case not in lacking} for one in self.verdicts],
            "facts": [one.to_json() for one in self.facts.values()],
            "refused": [{"case": one.case, "algorithm": one.algorithm, "words": one.words} for one in self.misfits],
            "failed": [{"case": one.case, "algorithm": one.algorithm, "seed": one.seed} for one in self.failures],
        }


def read_findings(folder: str | Path) -> BenchmarkFindings:
    """The findings of a folder of results, which may still be added to."""
    return BenchmarkFindings.of(
        read_rows(folder),
        facts=read_facts(folder),
        misfits=read_misfits(folder),
        failures=read_failures(folder),
        description=read_description(folder),
    )
