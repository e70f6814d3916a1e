"""What a command has played so far, and what there is to play, as tables on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.benchmark.results import Failure, Misfit
from pacbandits.benchmark.rows import Row
from pacbandits.benchmark.suites import Suite
from pacbandits.benchmark.yardsticks import Stopped, certified_stopping
from pacbandits.errors import count_of, one_line
from pacbandits.report.benchmark.words import NONE, show_stopping

MAX_SENTENCES = 12  # of those who refused, or failed


@dataclass(frozen=True)
class Played:
    """Runs of an algorithm on a case.

    case, entry, algorithm, role: which.
    most: interactions that each may take.
    runs: how many there are.
    certified: when our certificate accepts; None where none is made.
    """

    case: str
    entry: str
    algorithm: str
    role: str
    most: int
    runs: int
    certified: Stopped | None

    def to_json(self) -> dict[str, Any]:
        """As what JSON knows."""
        which = {"case": self.case, "entry": self.entry, "algorithm": self.algorithm, "role": self.role}
        certified = None if self.certified is None else self.certified.to_json()
        return which | {"most": self.most, "runs": self.runs, "certified": certified}


def played(rows: Iterable[Row], suite: Suite) -> tuple[Played, ...]:
    """What there is of a suite, case by case; of rows neither lists nor other suites are looked at."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.suite == suite.name:
            groups.setdefault((row.case, row.algorithm), []).append(row)
    out: list[Played] = []
    for case in suite.cases:
        for entry in suite.entries:
            of = groups.get((case.name, entry.spec))
            if of:
                found = certified_stopping(of)
                out.append(Played(case.name, entry.name, entry.spec, entry.role, case.most, len(of), found))
    return tuple(out)


def played_table(done: Sequence[Played], *, misfits: Sequence[Misfit], failures: Sequence[Failure]) -> RenderableType:
    """When runs were certified, by case and algorithm, and who did not play."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("case", "algorithm"):
        table.add_column(name)
    for name in ("runs", "certified", "median interactions until then"):
        table.add_column(name, justify="right")
    before = ""
    for one in done:
        found = one.certified
        share, median = NONE, NONE
        if found is not None:
            share, median = f"{found.stopped} of {found.runs}", show_stopping(found.samples, most=one.most)
        table.add_row("" if one.case == before else one.case, one.algorithm, f"{one.runs}", share, median)
        before = one.case
    refused = [f"{one.algorithm} does not play {one.case}: {one.words}" for one in misfits]
    failed = [f"{_run(one)} failed: {one.words}" for one in failures]
    return Group(table, *_sentences(refused, style="dim"), *_sentences(failed, style="red"))


def _run(one: Failure) -> str:
    return f"{one.algorithm} on {one.case}, seed {one.seed}," if one.algorithm else f"the measurement of {one.case}"


def _sentences(words: Sequence[str], *, style: str) -> list[RenderableType]:
    """A few sentences, and how many more there are."""
    shown: list[RenderableType] = [Text(one_line(one), style=style) for one in words[:MAX_SENTENCES]]
    if len(words) > MAX_SENTENCES:
        shown.append(Text(f"… and {count_of(len(words) - MAX_SENTENCES, 'more like these', 'more like these')}"))
    return shown


def suites_table(suites: Iterable[Suite]) -> RenderableType:
    """The suites, in a line each."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("suite", "cases", "algorithms", "seeds", "runs", "what it is for"):
        table.add_column(name, justify="left" if name in ("suite", "what it is for") else "right")
    for one in suites:
        counts = (len(one.cases), len(one.entries), one.seeds, len(one.tasks()))
        table.add_row(one.name, *(f"{count:,}" for count in counts), one.description)
    return table


def suite_table(suite: Suite) -> RenderableType:
    """The cases and the algorithms of a suite."""
    cases = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("case", "problem", "ε", "δ", "at most"):
        cases.add_column(name, justify="left" if name in ("case", "problem") else "right")
    for case in suite.cases:
        problem = case.problem + (f", {case.policies}" if case.policies else "")
        cases.add_row(case.name, problem, f"{case.epsilon:g}", f"{case.delta:g}", f"{case.most:,}")
    entries = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("entry", "algorithm", "knobs"):
        entries.add_column(name)
    for entry in suite.entries:
        entries.add_row(entry.name, entry.spec, "published" if entry.role == "default" else "tuned")
    return Group(Text(f"{suite.description}; {count_of(suite.seeds, 'seed')}\n"), cases, Text(), entries)
