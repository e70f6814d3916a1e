"""Recording what came of assignments: once each, in any order; a repeat changes nothing, a contradiction is refused.

With a window, a reward is what came within it. One that comes later is kept, so that nothing is lost, and does not
count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pacbandits.checks import number, text
from pacbandits.errors import InputError, plain
from pacbandits.experiment import tables
from pacbandits.experiment.book import Book
from pacbandits.experiment.chain import row_of
from pacbandits.experiment.database import Connection, Database
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.fixed import Fixed
from pacbandits.experiment.people import Outcome, Recorded, Report
from pacbandits.experiment.refusals import Contradiction, UnknownAssignment
from pacbandits.experiment.stored_rows import GUARDRAIL, REWARD

ROWS_ASKED_AT_ONCE = 500  # of a database, in one query
_WORDS = {REWARD: "reward", GUARDRAIL: "guardrail"}
_ROWS = sa.bindparam("rows", expanding=True, type_=sa.BigInteger)
_EXPERIMENT = sa.bindparam("experiment", type_=sa.Text)
_A, _O = tables.assignments.c, tables.outcomes.c
_ASSIGNED = sa.select(_A.row, _A.at).where(_A.experiment == _EXPERIMENT, _A.row.in_(_ROWS))
_KNOWN = sa.select(_O.row, _O.kind, _O.value, _O.late).where(_O.experiment == _EXPERIMENT, _O.row.in_(_ROWS))


class Recorder:
    """Records for one experiment."""

    def __init__(self, database: Database, fixed: Fixed) -> None:
        self._database, self._fixed = database, fixed

    def record(self, reports: Sequence[Report], *, at: int) -> list[Recorded]:
        """What was done with each report; all are stored when this returns, or none.

        Raises:
            UnknownAssignment: For an id that this experiment never gave out.
            Contradiction: For a second report that differs from the first.
            InputError: For a value that cannot be.
        """
        rows = [self._row(report) for report in reports]
        if not rows:
            return []
        window = self._fixed.window
        with self._database.writing(self._fixed.name) as (connection, standing):
            assigned = self._assigned(connection, rows)
            known = self._known(connection, rows)
            book = Book(connection, standing, at=at)
            out: list[Recorded] = []
            counted, late = int(standing.rewards), int(standing.too_late)
            for report, row in zip(reports, rows, strict=True):
                if row not in assigned:
                    raise unknown_assignment(report.id)
                over = window is not None and book.at > assigned[row] + window
                outcome: Outcome = "repeated"
                for kind, value in ((REWARD, report.reward), (GUARDRAIL, report.guardrail)):
                    if value is None:
                        continue
                    value = float(value) + 0.0  # -0.0 is 0: not all databases keep its sign, which would be hashed
                    before = known.get((row, kind))
                    if before is not None:
                        if before[0] != value:
                            raise _contradiction(report, kind, before[0], value)
                        outcome = "late" if before[1] else outcome
                        continue
                    past = over and kind == REWARD
                    book.report(row, kind, value, late=past)
                    known[row, kind] = value, past
                    outcome = "late" if past or outcome == "late" else "recorded"
                    if kind == REWARD:
                        counted, late = counted + (not past), late + past
                out.append(Recorded(report.id, report.reward, outcome))
            if book.sequence > standing.sequence:
                book.changes |= {"rewards": counted, "too_late": late}
                book.close()
        return out

    def _row(self, report: Report) -> int:
        """The row that a report is of, if its values can be."""
        protocol = self._fixed.protocol
        if report.reward is None and report.guardrail is None:
            raise InputError(f"the report of '{plain(report.id)}' says nothing; give a reward")
        low, high = protocol.reward_range
        _check(report.reward, "reward", low, high)
        if report.guardrail is not None and protocol.guardrail is None:
            raise InputError("the experiment has no guardrail; report the reward alone")
        _check(report.guardrail, "guardrail", 0.0, 1.0)
        row = row_of(self._fixed.secret, text(report.id, name="the id of an assignment"))
        if row is None:
            raise unknown_assignment(report.id)
        return row

    def _assigned(self, connection: Connection, rows: list[int]) -> dict[int, int]:
        """When each of these rows was assigned."""
        found: dict[int, int] = {}
        for asked in self._parts(rows):
            found.update((row, at) for row, at in connection.execute(_ASSIGNED, asked))
        return found

    def _known(self, connection: Connection, rows: list[int]) -> dict[tuple[int, int], tuple[float, bool]]:
        """What was reported of these rows before, and whether that was too late."""
        found: dict[tuple[int, int], tuple[float, bool]] = {}
        for asked in self._parts(rows):
            for row, kind, value, late in connection.execute(_KNOWN, asked):
                found[row, kind] = float(value), bool(late)
        return found

    def _parts(self, rows: list[int]) -> Iterator[dict[str, object]]:
        for start in range(0, len(rows), ROWS_ASKED_AT_ONCE):
            yield {"experiment": self._fixed.name, "rows": rows[start : start + ROWS_ASKED_AT_ONCE]}


def unknown_assignment(given: object) -> UnknownAssignment:
    """That nobody was given that id."""
    return UnknownAssignment(f"there is no assignment '{plain(given)}' in this experiment; report the id that it gave")


def _check(value: float | None, name: str, low: float, high: float) -> None:
    if value is None:
        return
    if not low <= number(value, name=f"the {name}") <= high:
        raise InputError(
            f"a {name} of {value:g} is outside of what it can be, {low:g} to {high:g}; correct it (the protocol fixed "
            "the range before the experiment began)"
        )


def _contradiction(report: Report, kind: int, before: float, value: float) -> Contradiction:
    return Contradiction(
        f"the {_WORDS[kind]} of '{plain(report.id)}' was reported as {before:g} before, and now as {value:g}; the "
        "first stands, as what was used cannot be taken back"
    )
