"""What `bench` prints: the runs so far, and the suites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pacbandits.benchmark.results import Failure, Misfit
from pacbandits.benchmark.rows import Row
from pacbandits.benchmark.suites import Suite
from pacbandits.benchmark.yardsticks import Stopped, certified_stopping
from pacbandits.errors import count_of
from pacbandits.report.benchmark.words import NONE, show_stopping
from pacbandits.report.document import Document, Kind, Note, Table, Text

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


def played_document(done: Sequence[Played], *, misfits: Sequence[Misfit], failures: Sequence[Failure]) -> Document:
    """Return when runs were certified, by case and algorithm, and which did not play."""
    rows: list[tuple[str, ...]] = []
    before = ""
    for one in done:
        found = one.certified
        share, median = NONE, NONE
        if found is not None:
            share, median = f"{found.stopped} of {found.runs}", show_stopping(found.samples, most=one.most)
        rows.append(("" if one.case == before else one.case, one.algorithm, f"{one.runs}", share, median))
        before = one.case
    head = ("case", "algorithm", "runs", "certified", "median interactions until then")
    refused = [f"{one.algorithm} does not play {one.case}: {one.words}" for one in misfits]
    failed = [f"{_run(one)} failed: {one.words}" for one in failures]
    return Document(
        "", (Table(head, tuple(rows), sides=("left", "left")), *_notes(refused, "remark"), *_notes(failed, "warning"))
    )


def _run(one: Failure) -> str:
    return f"{one.algorithm} on {one.case}, seed {one.seed}," if one.algorithm else f"the measurement of {one.case}"


def _notes(words: Sequence[str], kind: Kind) -> Iterable[Note]:
    """Yield a few sentences, and how many more there are."""
    yield from (Note(kind, one) for one in words[:MAX_SENTENCES])
    if len(words) > MAX_SENTENCES:
        more = count_of(len(words) - MAX_SENTENCES, "more like these", "more like these")
        yield Note("remark", f"… and {more}")


def suites_document(suites: Iterable[Suite]) -> Document:
    """Return the suites, a line each."""
    rows = tuple(
        (
            one.name,
            f"{len(one.cases):,}",
            f"{len(one.entries):,}",
            f"{one.seeds:,}",
            f"{len(one.tasks()):,}",
            one.description,
        )
        for one in suites
    )
    head = ("suite", "cases", "algorithms", "seeds", "runs", "what it is for")
    return Document("", (Table(head, rows, sides=("left", "right", "right", "right", "right", "wrap")),))


def suite_document(suite: Suite) -> Document:
    """Return the cases and the algorithms of a suite."""
    cases = tuple(
        (
            case.name,
            case.problem + (f", {case.policies}" if case.policies else ""),
            f"{case.epsilon:g}",
            f"{case.delta:g}",
            f"{case.most:,}",
        )
        for case in suite.cases
    )
    entries = tuple((one.name, one.spec, "published" if one.role == "default" else "tuned") for one in suite.entries)
    blocks = (
        Text(f"{suite.description}; {count_of(suite.seeds, 'seed')}\n"),
        Table(("case", "problem", "ε", "δ", "at most"), cases, sides=("left", "wrap")),
        Table(("entry", "algorithm", "knobs"), entries, sides=("left", "left", "left")),
    )
    return Document("", blocks)
