"""Scores of all algorithms on each case, with published defaults and with the best option of a grid.

The best knob is chosen by the same runs that it is then judged by, which favours whoever has a grid: rivals do, `coda`
is played with its defaults alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pacbandits.algorithms import profile_of
from pacbandits.benchmark.rows import Row
from pacbandits.benchmark.yardsticks import (
    Reached,
    RunCost,
    Stopped,
    certified_stopping,
    cost,
    oracle_stopping,
    own_stopping,
    same_setting,
)
from pacbandits.errors import InputError

Yardstick = Literal["certified", "oracle"]
OURS = "coda"
BASELINE = "uniform"


@dataclass(frozen=True)
class Score:
    """An algorithm with its options, on a case.

    entry, spec, role: what tables call it, with which options, and whether these are its defaults.
    seeds: of its runs.
    oracle: from when on enough runs hold a good policy.
    certified: when our certificate accepts; None where none is made.
    own: when a proof of its own does; None where it has none, or none but ours, and for knobs, which may break it.
    cost: what its runs cost.
    """

    entry: str
    spec: str
    role: str
    seeds: tuple[int, ...]
    oracle: Reached
    certified: Stopped | None
    own: Stopped | None
    cost: RunCost

    def by(self, yardstick: Yardstick) -> float:
        """The number of interactions by a yardstick, infinite where there is none."""
        if yardstick == "oracle":
            return self.oracle.samples.value
        return math.inf if self.certified is None else self.certified.samples.value

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {
            "entry": self.entry,
            "algorithm": self.spec,
            "role": self.role,
            "runs": len(self.seeds),
            "oracle": self.oracle.to_json(),
            "certified": None if self.certified is None else self.certified.to_json(),
            "own": None if self.own is None else self.own.to_json(),
            "cost": self.cost.to_json(),
        }


@dataclass(frozen=True)
class Line:
    """An algorithm in a table.

    entry: what the table calls it.
    default: with its published options; None if it was not played so.
    best: with the knob that does best by the yardstick, which may be the default.
    knobs: how many were tried.
    """

    entry: str
    default: Score | None
    best: Score
    knobs: int


@dataclass(frozen=True)
class CaseStanding:
    """All algorithms on a case.

    row: a run of it, for what was asked.
    samples: up to how many interactions lost reward is compared: the median of uniform play until it is certified.
    scores: one for each algorithm with its options.
    """

    row: Row
    samples: int
    scores: tuple[Score, ...]

    @property
    def case(self) -> str:
        """What tables call it."""
        return self.row.case

    @property
    def yardstick(self) -> Yardstick:
        """By what algorithms are put in order: certified stopping, where certificates are made."""
        return "certified" if self.row.certified else "oracle"

    def lines(self, yardstick: Yardstick) -> tuple[Line, ...]:
        """A line for each algorithm, the soonest first."""
        names = dict.fromkeys(score.entry for score in self.scores)
        lines: list[Line] = []
        for name in names:
            tried = [score for score in self.scores if score.entry == name]
            default = next((score for score in tried if score.role == "default"), None)
            lines.append(Line(name, default, min(tried, key=lambda one: order(one, yardstick)), len(tried)))
        return tuple(sorted(lines, key=lambda line: order(line.best, yardstick)))

    def line(self, entry: str, yardstick: Yardstick) -> Line | None:
        """That of one algorithm, if it was played."""
        return next((line for line in self.lines(yardstick) if line.entry == entry), None)

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        asked = ("case", "problem", "policies", "epsilon", "delta", "most")
        named = {name: getattr(self.row, name) for name in asked}
        return named | {"scores": [score.to_json() for score in self.scores]}


def order(score: Score, yardstick: Yardstick) -> tuple[float, float, bool, float]:
    """What comes first in a table: the yardstick, then how many runs stop, then a default, then the other yardstick."""
    stopped = 0 if yardstick == "oracle" or score.certified is None else score.certified.stopped
    other: Yardstick = "oracle" if yardstick == "certified" else "certified"
    return score.by(yardstick), -stopped, score.role != "default", score.by(other)


def standings(rows: Sequence[Row], *, cases: Sequence[str] = ()) -> tuple[CaseStanding, ...]:
    """Every case of the rows, and a run that two suites share once; cases: in which order, where that is known."""
    rows = list({_asked(row): row for row in reversed(rows)}.values())[::-1]
    played = list(dict.fromkeys(row.case for row in rows))
    known = [case for case in cases if case in played]
    listed = [*known, *(case for case in played if case not in known)]
    return tuple(standing([row for row in rows if row.case == case]) for case in listed)


def standing(rows: Sequence[Row]) -> CaseStanding:
    """All algorithms on the case that the rows are of."""
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda one: one.seed):
        groups.setdefault(row.algorithm, []).append(row)
    firsts = [same_setting(group) for group in groups.values()]
    if len({_asked(row)[:-2] for row in firsts}) > 1:
        raise InputError(f"runs of '{rows[0].case}' were not asked the same; play the case anew in a folder of its own")
    samples = _common_samples(groups.values())
    return CaseStanding(firsts[0], samples, tuple(_score(group, samples=samples) for group in groups.values()))


def _asked(row: Row) -> tuple[str | float, ...]:
    """What a run was asked: the case, who, and the seed."""
    of_case = (row.case, row.problem, row.policies, row.epsilon, row.delta, row.most, row.growth, row.certified)
    return (*of_case, row.algorithm, row.seed)


def _common_samples(groups: Iterable[Sequence[Row]]) -> int:
    """Until when lost reward is compared: the median of certified uniform play; all that may be played without it."""
    most = 0
    for rows in groups:
        most = rows[0].most
        found = certified_stopping(rows) if rows[0].entry == BASELINE else None
        if found is not None and math.isfinite(found.samples.value):
            return math.ceil(found.samples.value)
    return most


def _score(rows: Sequence[Row], *, samples: int) -> Score:
    row = rows[0]
    return Score(
        row.entry,
        row.algorithm,
        row.role,
        tuple(one.seed for one in rows),
        oracle_stopping(rows),
        certified_stopping(rows),
        own_stopping(rows) if row.role == "default" and _proves(rows) else None,
        cost(rows, samples=samples),
    )


def _proves(rows: Sequence[Row]) -> bool:
    """Whether an algorithm stops by a proof that is not ours, as it says or as its runs show."""
    try:
        profile = profile_of(rows[0].algorithm)
    except InputError:  # of another version of this package, or of somebody's own
        return any(row.own_at is not None and row.own_at != row.certified_at for row in rows)
    return profile.proves and not (profile.certifies and rows[0].certified)
