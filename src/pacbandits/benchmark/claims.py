"""Check the claims about `coda` against the results, case by case.

Where the best design saves much (uniform exploration's ρ is at least twice the optimum's), `coda` must be the first by
certified stopping; elsewhere it may take at most 1.1 times the samples of the first.

The first of many rivals is also the luckiest: of twenty equal ones, whose medians are known to a tenth, the smallest is
a fifth below its value in other runs. So there is a second ratio, in one half of the seeds, to the rival that the other
half selects. That one favours us: few seeds often select a rival that is not the best. The truth lies between.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.benchmark.cases import Row
from pacbandits.benchmark.results import (
    CaseFacts,
    Description,
    Failure,
    Key,
    Misfit,
    read_description,
    read_facts,
    read_failures,
    read_misfits,
    read_rows,
    task_of,
)
from pacbandits.benchmark.standings import (
    BOOTSTRAP_DRAWS,
    BOOTSTRAP_SEED,
    OURS,
    CaseStanding,
    IntervalEstimate,
    Score,
    Stopped,
    number,
    quantile_interval,
    standings,
)

Bracket = tuple[float, float]
LARGE_RATIO = 2.0
TOLERATED_RATIO = 1.1
SPLITS, SPLIT_SEED = 400, 11


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on the claim for a case.

    case: its name.
    uniform_over_best: a bracket on uniform exploration's ρ over the optimum's; None if unknown.
    ours: the score of `coda` with its defaults.
    rival: the best other algorithm with its best options, by certified stopping.
    ratio: our median over the rival's, with an interval; 0 if only we stop, NaN if nobody does.
    held_out: the ratio to a rival selected by other seeds, see `held_out_ratio`; NaN if there are too few.
    allowed: the largest ratio that satisfies the claim.
    """

    case: str
    uniform_over_best: Bracket | None
    ours: Score
    rival: Score
    ratio: IntervalEstimate
    held_out: float
    allowed: float

    @property
    def large(self) -> bool:
        """Whether the best design certainly saves much here."""
        return self.uniform_over_best is not None and self.uniform_over_best[0] >= LARGE_RATIO

    @property
    def kept(self) -> bool | None:
        """Whether the medians satisfy the claim; None if nobody stops."""
        return None if math.isnan(self.ratio.value) else self.ratio.value <= self.allowed

    @property
    def beyond_chance(self) -> bool:
        """Whether the whole interval over seeds is on the same side of the allowed ratio."""
        if self.kept is None:
            return False
        return self.ratio.high <= self.allowed if self.kept else self.ratio.low > self.allowed

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        bracket = self.uniform_over_best
        return {
            "case": self.case,
            "uniform_over_best": None if bracket is None else [x if math.isfinite(x) else None for x in bracket],
            "rival": self.rival.spec,
            "ratio": self.ratio.to_json(),
            "held_out_ratio": number(self.held_out),
            "allowed": self.allowed,
            "kept": self.kept,
            "beyond_chance": self.beyond_chance,
        }


def verdicts(found: Sequence[CaseStanding], *, ratios: Mapping[str, Bracket | None]) -> tuple[ClaimVerdict, ...]:
    """Return the verdict on every case with certificates that we played; ratios: of ρ, by case."""
    made = (verdict(one, uniform_over_best=ratios.get(one.case)) for one in found if one.row.certified)
    return tuple(one for one in made if one is not None)


def verdict(found: CaseStanding, *, uniform_over_best: Bracket | None) -> ClaimVerdict | None:
    """Return the verdict on a case; None if we did not play it, or nobody else did."""
    lines = found.lines("certified")
    ours = next((line.default or line.best for line in lines if line.entry == OURS), None)
    rivals = [line.best for line in lines if line.entry != OURS]
    if ours is None or ours.certified is None or not rivals:
        return None
    rival = rivals[0]
    assert rival.certified is not None
    large = uniform_over_best is not None and uniform_over_best[0] >= LARGE_RATIO
    allowed = 1.0 if large else TOLERATED_RATIO
    ratio = _ratio(ours.certified, rival.certified)
    held_out = held_out_ratio(ours, [score for score in found.scores if score.entry != OURS])
    return ClaimVerdict(found.case, uniform_over_best, ours, rival, ratio, held_out, allowed)


def held_out_ratio(ours: Score, rivals: Sequence[Score]) -> float:
    """Return our median over that of a rival selected by other seeds: the median over splits of the seeds.

    In each split, half of the seeds select the rival and its options, by the smallest median; it is compared with us
    in the other half. Rivals that were not played with all of our seeds are left out.
    """
    of_rivals = [_times(one) for one in rivals if one.seeds == ours.seeds]
    mine, n = _times(ours), len(ours.seeds)
    if not of_rivals or n < 4:
        return math.nan
    theirs, rng = np.array(of_rivals), np.random.default_rng([SPLIT_SEED, n])
    found: list[float] = []
    for _ in range(SPLITS):
        order = rng.permutation(n)
        chosen = int(np.median(theirs[:, order[: n // 2]], axis=1).argmin())
        above, below = (float(np.median(one[order[n // 2 :]])) for one in (mine, theirs[chosen]))
        if math.isfinite(above) or math.isfinite(below):
            found.append(above / below)
    return median_low(found) if found else math.nan


def _times(score: Score) -> FloatArray:
    """Return when the certificate accepts, by seed."""
    assert score.certified is not None
    return np.asarray(score.certified.times)


def _ratio(ours: Stopped, theirs: Stopped) -> IntervalEstimate:
    """Return the ratio of two medians, with quantiles of a bootstrap over seeds."""
    mine, other = ours.samples.value, theirs.samples.value
    value = mine / other if math.isfinite(mine) or math.isfinite(other) else math.nan
    rng = np.random.default_rng([BOOTSTRAP_SEED, ours.runs, theirs.runs])
    above, below = _medians(ours, rng), _medians(theirs, rng)
    known = np.isfinite(above) | np.isfinite(below)
    if not known.any():
        return IntervalEstimate(value, 0.0, math.inf)
    return quantile_interval(above[known] / below[known], value=value)


def _medians(one: Stopped, rng: np.random.Generator) -> FloatArray:
    """Return medians (D,) of stopping times over resampled seeds."""
    times = np.asarray(one.times)
    return np.median(times[rng.integers(len(times), size=(BOOTSTRAP_DRAWS, len(times)))], axis=1)


# All findings of a folder of results, for tables, figures and JSON.


@dataclass(frozen=True)
class BenchmarkFindings:
    """The findings of a benchmark.

    rows: all runs.
    standings: by case.
    facts: theoretical measurements of cases, by name.
    verdicts: on our claims.
    misfits: algorithms that refused a case.
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
        """Return the findings from rows and the other results."""
        told = description or Description()
        order = [case.name for suite in told.suites.values() for case in suite.cases]
        found = standings(rows, cases=order)
        known = {one.case: one for one in facts}
        kept = verdicts(found, ratios={name: one.uniform_over_best for name, one in known.items()})
        return cls(tuple(rows), found, known, kept, tuple(misfits), tuple(failures), told)

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of all algorithms in tables."""
        return tuple(dict.fromkeys(score.entry for one in self.standings for score in one.scores))

    def verdict(self, case: str) -> ClaimVerdict | None:
        """Return the verdict on a case, if any."""
        return next((one for one in self.verdicts if one.case == case), None)

    @property
    def wanted(self) -> frozenset[Key]:
        """The keys of all requested runs, without those of algorithms that refused."""
        refused = {(one.suite, one.case, one.algorithm) for one in self.misfits}
        return frozenset(key for key in self.description.wanted() if key[:3] not in refused)

    @property
    def lacking(self) -> Mapping[str, int]:
        """The number of missing runs by case; empty if none are missing."""
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


def read_findings(*folders: str | Path) -> BenchmarkFindings:
    """Return the findings of folders of results, which may still grow; of a run in several, that of the first counts.

    An algorithm that refused a case in one folder, for want of a package, may have played it in another.
    """
    rows = list({task_of(row).key: row for one in reversed(folders) for row in read_rows(one)}.values())
    played = {(row.suite, row.case, row.algorithm) for row in rows}
    misfits = {(one.suite, one.case, one.algorithm): one for folder in folders for one in read_misfits(folder)}
    description = Description()
    for told in map(read_description, folders):
        description = replace(description, version=told.version)
        for suite in told.suites.values():
            description = description.with_suite(suite)
        for session in told.sessions:
            description = description.with_session(session)
    return BenchmarkFindings.of(
        rows,
        facts=[one for folder in reversed(folders) for one in read_facts(folder)],
        misfits=[one for key, one in misfits.items() if key not in played],
        failures=[one for folder in folders for one in read_failures(folder)],
        description=description,
    )
