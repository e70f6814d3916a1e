"""Check the claims about `coda` against the results, case by case.

Where the best design saves much (uniform exploration's ρ is at least twice the optimum's), `coda` must be the first by
certified stopping; elsewhere it may take at most 1.1 times the samples of the first.

The first of many rivals is also the luckiest: of twenty equal ones, whose medians are known to a tenth, the smallest is
a fifth below its value in other runs. So there is a second ratio, in one half of the seeds, to the rival that the other
half selects; cases won and lost beyond chance are counted by its 95 % interval. That one favours us a little: few seeds
may select a rival that is not the best. The truth lies between the two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
    behind,
    is_ours,
    number,
    quantile_interval,
    standings,
)

Bracket = tuple[float, float]
LARGE_RATIO = 2.0
TOLERATED_RATIO = 1.1
SPLIT_SEED, SPLIT_CONFIDENCE = 11, 0.95
MIN_SPLIT_RUNS = 4


@dataclass(frozen=True, eq=False)
class HeldOutRatio:
    """Our median over that of a rival that other seeds selected.

    ratio: with a 95 % interval.
    draws (D,): of the ratio by a bootstrap over seeds, rivals selected anew in each.
    rivals: the number of algorithms, with their options, among which the rival is selected.
    selected: the one that is selected most often.
    """

    ratio: IntervalEstimate
    draws: FloatArray
    rivals: int
    selected: str

    @property
    def outcome(self) -> str:
        """Whether the whole interval is below 1 (won), above it (lost), or neither (level)."""
        return "won" if self.ratio.high < 1.0 else "lost" if self.ratio.low > 1.0 else "level"

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        chosen = {"rivals": self.rivals, "selected": self.selected, "outcome": self.outcome}
        return {"ratio": self.ratio.to_json(), **chosen}


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on the claim for a case.

    case: its name.
    uniform_over_best: a bracket on uniform exploration's ρ over the optimum's; None if unknown.
    ours: the score of `coda` with its defaults.
    rival: the best other algorithm with its best options, by certified stopping.
    ratio: our median over the rival's, with an interval; 0 if only we stop, NaN if nobody does.
    held_out: the ratio to a rival selected by other seeds, see `held_out_ratio`; None if there are too few.
    allowed: the largest ratio that satisfies the claim.
    """

    case: str
    uniform_over_best: Bracket | None
    ours: Score
    rival: Score
    ratio: IntervalEstimate
    held_out: HeldOutRatio | None
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
            "held_out_ratio": None if self.held_out is None else number(self.held_out.ratio.value),
            "held_out": None if self.held_out is None else self.held_out.to_json(),
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
    rival = found.best_other("certified")
    if ours is None or ours.certified is None or rival is None:
        return None
    assert rival.certified is not None
    large = uniform_over_best is not None and uniform_over_best[0] >= LARGE_RATIO
    allowed = 1.0 if large else TOLERATED_RATIO
    ratio = _ratio(ours.certified, rival.certified)
    held_out = held_out_ratio(ours, [score for score in found.scores if not is_ours(score.entry)])
    return ClaimVerdict(found.case, uniform_over_best, ours, rival, ratio, held_out, allowed)


def held_out_ratio(ours: Score, rivals: Sequence[Score]) -> HeldOutRatio | None:
    """Return our median over that of a rival selected by other seeds, with a 95 % interval.

    In each of many draws the runs of every algorithm are split at random into two halves. One half selects the rival
    and its options, by the smallest median; it is compared with us in the other half; then the halves change places,
    and the ratio is the geometric mean of the two. The value is the median over draws. The interval is by a bootstrap
    of all runs, of ours and of the rival that was selected in a draw: how far their ratio moves, around the value.

    Rivals with fewer than half as many runs as ours are left out; None if none is left, or runs are few.
    """
    compared = [one for one in rivals if 2 * len(one.seeds) >= len(ours.seeds)]
    if not compared or len(ours.seeds) < MIN_SPLIT_RUNS:
        return None
    rng = np.random.default_rng([SPLIT_SEED, len(ours.seeds)])
    mine, theirs = _halves(ours, rng), np.stack([_halves(one, rng) for one in compared])
    picked = theirs.argmin(axis=0)  # (2, D), by each half
    other = np.take_along_axis(theirs, picked[None, ::-1], axis=0)[0]  # in a half, the one that the other selects
    with np.errstate(invalid="ignore"):  # NaN where neither stops
        split = np.exp((np.log(mine) - np.log(other)).mean(axis=0))
        drawn = np.stack([_medians(_stopped(one), rng) for one in compared])[picked[0], np.arange(BOOTSTRAP_DRAWS)]
        fixed = np.array([_stopped(one).samples.value for one in compared])[picked[0]]
        fixed[np.isinf(fixed)] = np.nan  # a rival whose runs mostly do not stop: nothing tells how far it moves
        moved = np.log(_medians(_stopped(ours), rng) / _stopped(ours).samples.value) - np.log(drawn / fixed)
    split = split[~np.isnan(split)]
    if not len(split):
        return None
    value = float(np.quantile(split, 0.5, method="lower"))
    draws = value * np.exp(np.where(np.isnan(moved), 0.0, moved)) if 0.0 < value < math.inf else np.full(1, value)
    interval = quantile_interval(draws, value=value, confidence=SPLIT_CONFIDENCE)
    chosen = int(np.bincount(picked.ravel()).argmax())
    return HeldOutRatio(interval, draws, len(compared), compared[chosen].spec)


def _halves(score: Score, rng: np.random.Generator) -> FloatArray:
    """Return the medians (2, D) of the two halves of random splits of runs."""
    times = np.asarray(_stopped(score).times)
    order = rng.permuted(np.tile(times, (BOOTSTRAP_DRAWS, 1)), axis=1)
    cut = len(times) // 2
    return np.stack([np.median(half, axis=1) for half in (order[:, :cut], order[:, cut:])])


def _stopped(score: Score) -> Stopped:
    assert score.certified is not None
    return score.certified


def mean_ratio(found: Sequence[HeldOutRatio]) -> IntervalEstimate:
    """Return the geometric mean of ratios over cases, with an interval by their draws."""
    logs = [np.log(one.draws[: min(len(other.draws) for other in found)]) for one in found]
    value = math.exp(sum(math.log(one.ratio.value) for one in found) / len(found))
    return quantile_interval(np.exp(np.mean(logs, axis=0)), value=value, confidence=SPLIT_CONFIDENCE)


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
        """The keys of all requested runs, without those of algorithms that refused, or that are clearly behind."""
        left_out = {(one.suite, one.case, one.algorithm) for one in self.misfits}
        for name in (name for name, suite in self.description.suites.items() if suite.screened):
            left_out |= {(name, one.case, spec) for one in self.standings for spec in behind(_times_of(one))}
        played = {task_of(row).key for row in self.rows}
        return frozenset(key for key in self.description.wanted() if key in played or key[:3] not in left_out)

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


def _times_of(found: CaseStanding) -> dict[str, tuple[float, ...]]:
    """Return when runs were certified, by the spec of the algorithm."""
    return {score.spec: score.certified.times for score in found.scores if score.certified is not None}


def read_findings(*folders: str | Path) -> BenchmarkFindings:
    """Return the findings of folders of results, which may still grow; of a run in several, that of the first counts.

    An algorithm that refused a case in one folder, for want of a package, may have played it in another.
    """
    by_key = {task_of(row).key: row for one in reversed(folders) for row in read_rows(one)}
    rows = [by_key[key] for key in sorted(by_key)]
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
