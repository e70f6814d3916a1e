"""Assignments and rewards: draw an action for a unit, store it, and record its outcomes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.checks import number as check_number
from pacbandits.checks import shown, text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.assignment_records import (
    Assignment,
    AssignmentRequest,
    Outcome,
    Recorded,
    Report,
    draw_nonce,
    id_of,
    is_id,
    row_in,
)
from pacbandits.experiment.database import Connection, Contradiction, NotCollecting, UnknownAssignment
from pacbandits.experiment.draws import ACTION, HOLDOUT, choose, draws, unit_draws
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.store import PAUSED, TAKING_IN, StoredExperiment, Transaction
from pacbandits.experiment.stored_rows import FIRST_METRIC, GUARDRAIL, REWARD, AssignmentRow, Standing, check_unit
from pacbandits.records import Metric

# Assignment: an action is drawn by the open round's design and stored before it is returned.
#
# One transaction decides everything from the database and from random numbers of the unit (or of the row), so that the
# result depends neither on the server nor on the batches in which requests arrive.


UNITS_ASKED_AT_ONCE = 500  # in one query
_T = tables.assignments.c
_OF_UNITS = sa.select(tables.assignments).where(_T.unit.in_(sa.bindparam("units", expanding=True)))
# SQLite would scan the whole experiment by its primary key; the plus makes it use the index on units instead.
_OF_EXPERIMENT = {
    True: sa.literal_column("+assignments.experiment", sa.Text) == sa.bindparam("experiment"),
    False: _T.experiment == sa.bindparam("experiment"),
}


class Assigner:
    """Assigns actions for one experiment; it caches only immutable state."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, protocol = stored, stored.protocol
        self._names, self._of_units = protocol.actions, _OF_UNITS.where(_OF_EXPERIMENT[stored.database.sqlite])
        self._sticky = protocol.visits == "sticky"
        self._standard_row = np.eye(len(self._names))[protocol.standard_action]

    def assign(self, requests: Sequence[AssignmentRequest], *, at: int | None) -> list[Assignment | InputError]:
        """Return an assignment or an error for each request; assignments are stored when this returns."""
        encoded = self._stored.encoder.encode([request.context for request in requests])
        ids, features = encoded.ids, encoded.features
        features = features if ids is None else np.column_stack([features, ids.astype(np.float64)])
        out: list[Assignment | InputError | None] = [encoded.errors.get(number) for number in range(len(requests))]
        units: list[str] = []
        for number, request in enumerate(requests):
            units.append(secrets.token_hex(12) if request.unit is None else request.unit)
            try:
                check_unit(units[number])
            except InputError as error:
                out[number] = out[number] or error
        wanted = [number for number, one in enumerate(out) if one is None]
        if wanted:
            with self._stored.writing(at=at) as transaction:
                self._assign(transaction, wanted, units, features, out)
        done = [one for one in out if one is not None]
        assert len(done) == len(out)
        return done

    def _assign(
        self,
        transaction: Transaction,
        wanted: list[int],
        units: list[str],
        features: FloatArray,
        out: list[Assignment | InputError | None],
    ) -> None:
        """Set `out` for the wanted requests, in one transaction."""
        stored = [self._stored.pseudonym(unit) for unit in units]
        known = self._known(transaction.connection, list(dict.fromkeys(stored[number] for number in wanted)))
        fresh: list[int] = []
        visits: list[int] = []
        coming: dict[str, int] = {}
        again: list[tuple[int, str]] = []
        for number in wanted:
            unit = stored[number]
            before = known.get(unit)
            if self._sticky and before is not None:
                out[number] = self._answer(before, units[number], new=False)
            elif transaction.standing.state not in TAKING_IN:
                out[number] = refused(transaction.standing)
            elif self._sticky and unit in coming:
                again.append((number, unit))
            else:
                visit = coming.get(unit, -1 if before is None else before.visit) + 1
                coming[unit] = visit
                fresh.append(number)
                visits.append(visit)
        if fresh:
            drawn = self._draw(transaction, fresh, visits, stored, features, known)
            for number, made in zip(fresh, drawn, strict=True):
                out[number] = self._answer(made, units[number], new=True)
                known[made.unit] = made
        for number, unit in again:
            out[number] = self._answer(known[unit], units[number], new=False)

    def _draw(
        self,
        transaction: Transaction,
        fresh: list[int],
        visits: list[int],
        units: list[str],
        features: FloatArray,
        known: Mapping[str, AssignmentRow],
    ) -> list[AssignmentRow]:
        """Draw and append an assignment for each fresh request, in order; a full round is continued by a new one.

        units: as stored.
        """
        stored, standing, count, nonce = self._stored, transaction.standing, len(fresh), draw_nonce()
        first = standing.rows
        if len(stored.known_rounds) <= standing.round:
            stored.rounds(transaction.connection)
        now = stored.known_rounds[standing.round]
        some = np.ascontiguousarray(features[fresh])
        marks = [stored.mark(units[number]) for number in fresh]
        drawn = (
            unit_draws(stored.protocol.drawn_seed, marks, visits)
            if stored.protocol.draws == "unit"
            else draws(stored.protocol.drawn_seed, first=first, count=count)
        )
        held = _stay_held(drawn[:, HOLDOUT] < stored.protocol.holdout, [units[number] for number in fresh], known)
        drawn_for = now.sampler.propensities(stored.contexts(some, checked=True))
        propensities = np.where(held[:, None], self._standard_row, drawn_for)
        actions = choose(propensities, drawn[:, ACTION])
        out: list[AssignmentRow] = []
        filled, planned = standing.round_rows, standing.planned
        for i, (number, action, holdout) in enumerate(zip(fresh, actions.tolist(), held.tolist(), strict=True)):
            row = first + i
            if not holdout:
                if filled >= planned:
                    now = transaction.open_round(now.continued(rows=row))
                    filled, planned = 0, now.planned
                filled += 1
            made = AssignmentRow(
                experiment=stored.name,
                row=row,
                sequence=transaction.sequence,
                unit=units[number],
                visit=visits[i],
                round=now.number,
                action=action,
                holdout=int(holdout),
                at=transaction.at,
                features=some[i].tobytes(),
                propensities=propensities[i].tobytes(),
                nonce=nonce,
            )
            transaction.assign(made, marks[i])
            out.append(made)
        transaction.changes |= {
            "rows": first + count,
            "held_out": standing.held_out + int(held.sum()),
            "round": now.number,
            "round_rows": filled,
            "planned": planned,
        }
        return out

    def _known(self, connection: Connection, units: list[str]) -> dict[str, AssignmentRow]:
        """Return the last assignment of each unit that has one."""
        found: dict[str, AssignmentRow] = {}
        for start in range(0, len(units), UNITS_ASKED_AT_ONCE):
            asked = {"experiment": self._stored.name, "units": units[start : start + UNITS_ASKED_AT_ONCE]}
            for values in connection.execute(self._of_units, asked):
                row = AssignmentRow(*values)
                if row.unit not in found or row.visit > found[row.unit].visit:
                    found[row.unit] = row
        return found

    def _answer(self, made: AssignmentRow, unit: str, *, new: bool) -> Assignment:
        probabilities: list[float] = np.frombuffer(made.propensities, dtype="<f8").tolist()
        return Assignment(
            id=id_of(self._stored.secret, made.row, unit=made.unit, nonce=made.nonce),
            unit=unit,
            action=self._names[made.action],
            propensity=probabilities[made.action],
            propensities=dict(zip(self._names, probabilities, strict=True)),
            round=made.round,
            new=new,
            holdout=bool(made.holdout),
        )


def _stay_held(drawn: BoolArray, units: list[str], known: Mapping[str, AssignmentRow]) -> BoolArray:
    """Return which units (n,) are in the holdout: as at their first visit, or as drawn (n,) for new ones."""
    stays = {unit: bool(one.holdout) for unit, one in known.items()}
    return np.array([stays.setdefault(unit, bool(own)) for unit, own in zip(units, drawn, strict=True)])


def refused(standing: Standing) -> NotCollecting:
    """Return the error for a new unit when the experiment is paused or stopped."""
    why = f": {plain(standing.reason)}" if standing.reason else ""
    remedy = "resume it" if standing.state == PAUSED else "give them what its result says"
    return NotCollecting(
        f"the experiment '{plain(standing.name)}' is {standing.state}{why}; it takes in nobody new: {remedy}"
    )


# Recording of outcomes: once each, in any order; a repeated report changes nothing, a contradicting one is refused.
#
# With a window, a reward reported after it is stored but does not count.


ROWS_ASKED_AT_ONCE = 500  # in one query
_ROWS = sa.bindparam("rows", expanding=True, type_=sa.BigInteger)
_EXPERIMENT = sa.bindparam("experiment", type_=sa.Text)
_A, _O = tables.assignments.c, tables.outcomes.c
_ASSIGNED = sa.select(_A.row, _A.at, _A.unit, _A.nonce).where(_A.experiment == _EXPERIMENT, _A.row.in_(_ROWS))
_KNOWN = sa.select(_O.row, _O.kind, _O.value, _O.late).where(_O.experiment == _EXPERIMENT, _O.row.in_(_ROWS))


def record_reports(stored: StoredExperiment, reports: Sequence[Report], *, at: int | None) -> list[Recorded]:
    """Store reports, all or none, and return the result of each.

    Raises:
        UnknownAssignment: If this experiment never issued an id.
        Contradiction: If a report differs from an earlier one.
        InputError: If a value is missing or out of range.
    """
    rows = [_row_of(stored, report) for report in reports]
    if not rows:
        return []
    window, columns = stored.window, stored.metric_columns
    with stored.writing(at=at) as transaction:
        standing = transaction.standing
        asked = [
            {"experiment": stored.name, "rows": rows[start : start + ROWS_ASKED_AT_ONCE]}
            for start in range(0, len(rows), ROWS_ASKED_AT_ONCE)
        ]
        ask = transaction.connection.execute
        assigned: dict[int, tuple[int, str, str]] = {
            row: tuple(of) for some in asked for row, *of in ask(_ASSIGNED, some)
        }
        known: dict[tuple[int, int], tuple[float, bool]] = {
            (row, kind): (float(value), bool(late)) for some in asked for row, kind, value, late in ask(_KNOWN, some)
        }
        out: list[Recorded] = []
        counted, late = standing.rewards, standing.too_late
        for report, row in zip(reports, rows, strict=True):
            if row not in assigned:
                raise unknown_assignment(report.id, standing)
            moment, unit, nonce = assigned[row]
            if not is_id(report.id, stored.secret, row, unit=unit, nonce=nonce):
                raise unknown_assignment(report.id, standing)
            over = window is not None and transaction.at > moment + window
            outcome: Outcome = "repeated"
            for kind, value in _outcomes_of(report, columns):
                value = float(value) + 0.0  # -0.0 becomes 0.0: not all databases keep the sign, which would be hashed
                before = known.get((row, kind))
                if before is not None:
                    if before[0] != value:
                        raise _contradiction(report, _name_of(kind, columns), before[0], value)
                    outcome = "late" if before[1] else outcome
                    continue
                past = over and kind != GUARDRAIL
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
    """Return the row of a report; raise InputError if its values are invalid."""
    protocol = stored.protocol
    _check_metrics(report, stored.metric_columns)
    if report.reward is None and report.guardrail is None:
        raise InputError(f"the report of '{plain(report.id)}' says nothing; give a reward")
    low, high = protocol.reward_range
    _check(report.reward, "reward", low, high)
    if report.guardrail is not None and protocol.guardrail is None:
        raise InputError("the experiment has no guardrail; report the reward alone")
    _check(report.guardrail, "guardrail", 0.0, 1.0)
    row = row_in(text(report.id, name="the id of an assignment"))
    if row is None:
        raise unknown_assignment(report.id)
    return row


def unknown_assignment(given: object, standing: Standing | None = None) -> UnknownAssignment:
    """Return the error for an id that was never issued, or whose assignment was lost."""
    lost = "; it may have been lost when the database went back to an earlier state"
    return UnknownAssignment(
        f"there is no assignment '{plain(given)}' in this experiment; report the id that it gave"
        f"{lost if standing is not None and standing.incarnation else ''}"
    )


def _check(value: float | None, name: str, low: float, high: float) -> None:
    if value is None:
        return
    if not low <= check_number(value, name=f"the {name}") <= high:
        raise InputError(
            f"a {name} of {value:g} is outside of what it can be, {low:g} to {high:g}; correct it (the protocol fixed "
            "the range before the experiment began)"
        )


def _check_metrics(report: Report, columns: Sequence[Metric]) -> None:
    """Raise InputError unless a report has all metrics with its reward, each in its range."""
    if report.metrics is not None and not isinstance(cast(object, report.metrics), Mapping):
        raise InputError(f"metrics are numbers by name, such as {{'returned': 0}}, got {shown(report.metrics)}")
    given: Mapping[str, float] = report.metrics or {}
    names = [one.name for one in columns]
    for name in given:
        if name not in names:
            hint = nearest(str(name), names) if names else "; it has none"
            raise InputError(f"'{plain(name)}' is no metric of the experiment{hint}")
    if given and report.reward is None:
        raise InputError(f"the metrics of '{plain(report.id)}' come without its reward; report them together")
    if report.reward is None:
        return
    for one in columns:
        if given.get(one.name) is None:
            raise InputError(
                f"the metric '{plain(one.name)}' is missing in the report of '{plain(report.id)}'; report every metric "
                "together with the reward"
            )
        _check(given[one.name], f"metric '{plain(one.name)}'", one.low, one.high)


def _outcomes_of(report: Report, columns: Sequence[Metric]) -> Iterator[tuple[int, float]]:
    """Yield kind and value of each outcome of a report: the reward, its metrics, and the guardrail."""
    if report.reward is not None:
        yield REWARD, report.reward
        for kind, one in enumerate(columns, start=FIRST_METRIC):
            yield kind, (report.metrics or {})[one.name]
    if report.guardrail is not None:
        yield GUARDRAIL, report.guardrail


def _name_of(kind: int, columns: Sequence[Metric]) -> str:
    """Return the name of a kind of outcome in messages."""
    if kind >= FIRST_METRIC:
        return f"metric '{plain(columns[kind - FIRST_METRIC].name)}'"
    return "reward" if kind == REWARD else "guardrail"


def _contradiction(report: Report, name: str, before: float, value: float) -> Contradiction:
    return Contradiction(
        f"the {name} of '{plain(report.id)}' was reported as {before:g} before, and now as {value:g}; the "
        "first stands, as what was used cannot be taken back"
    )
