"""Recording what came of assignments: once each, in any order; a repeat changes nothing, a contradiction is refused.

With a window, a reward is what came within it. One that comes later is kept, so that nothing is lost, and does not
count.
"""

from __future__ import annotations

from collections.abc import Sequence

from pacbandits.checks import number, text
from pacbandits.errors import InputError, plain
from pacbandits.experiment import tables
from pacbandits.experiment.chain import row_of
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.people import Outcome, Recorded, Report
from pacbandits.experiment.refusals import Contradiction, UnknownAssignment
from pacbandits.experiment.store import StoredExperiment
from pacbandits.experiment.stored_rows import GUARDRAIL, REWARD

ROWS_ASKED_AT_ONCE = 500  # of a database, in one query
_WORDS = {REWARD: "reward", GUARDRAIL: "guardrail"}
_ROWS = sa.bindparam("rows", expanding=True, type_=sa.BigInteger)
_EXPERIMENT = sa.bindparam("experiment", type_=sa.Text)
_A, _O = tables.assignments.c, tables.outcomes.c
_ASSIGNED = sa.select(_A.row, _A.at).where(_A.experiment == _EXPERIMENT, _A.row.in_(_ROWS))
_KNOWN = sa.select(_O.row, _O.kind, _O.value, _O.late).where(_O.experiment == _EXPERIMENT, _O.row.in_(_ROWS))


def record_reports(stored: StoredExperiment, reports: Sequence[Report], *, at: int) -> list[Recorded]:
    """What was done with each report; all are stored when this returns, or none.

    Raises:
        UnknownAssignment: For an id that this experiment never gave out.
        Contradiction: For a second report that differs from the first.
        InputError: For a value that cannot be.
    """
    rows = [_row_of(stored, report) for report in reports]
    if not rows:
        return []
    window = stored.window
    with stored.writing(at=at) as transaction:
        standing = transaction.standing
        asked = [
            {"experiment": stored.name, "rows": rows[start : start + ROWS_ASKED_AT_ONCE]}
            for start in range(0, len(rows), ROWS_ASKED_AT_ONCE)
        ]
        ask = transaction.connection.execute
        assigned: dict[int, int] = {row: moment for some in asked for row, moment in ask(_ASSIGNED, some)}
        known: dict[tuple[int, int], tuple[float, bool]] = {
            (row, kind): (float(value), bool(late)) for some in asked for row, kind, value, late in ask(_KNOWN, some)
        }
        out: list[Recorded] = []
        counted, late = standing.rewards, standing.too_late
        for report, row in zip(reports, rows, strict=True):
            if row not in assigned:
                raise unknown_assignment(report.id)
            over = window is not None and transaction.at > assigned[row] + window
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
                transaction.report(row, kind, value, late=past)
                known[row, kind] = value, past
                outcome = "late" if past or outcome == "late" else "recorded"
                if kind == REWARD:
                    counted, late = counted + (not past), late + past
            out.append(Recorded(report.id, report.reward, outcome))
        if transaction.sequence > standing.sequence:
            transaction.changes |= {"rewards": counted, "too_late": late}
    return out


def _row_of(stored: StoredExperiment, report: Report) -> int:
    """The row that a report is of, if its values can be."""
    protocol = stored.protocol
    if report.reward is None and report.guardrail is None:
        raise InputError(f"the report of '{plain(report.id)}' says nothing; give a reward")
    low, high = protocol.reward_range
    _check(report.reward, "reward", low, high)
    if report.guardrail is not None and protocol.guardrail is None:
        raise InputError("the experiment has no guardrail; report the reward alone")
    _check(report.guardrail, "guardrail", 0.0, 1.0)
    row = row_of(stored.secret, text(report.id, name="the id of an assignment"))
    if row is None:
        raise unknown_assignment(report.id)
    return row


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
