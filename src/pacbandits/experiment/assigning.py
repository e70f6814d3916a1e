"""Assigning: who comes gets an action, drawn by the open round's design; the answer is stored before it is told.

Everything is decided within one transaction by what stands in the database and by draws that belong to rows, so it
makes no difference which server decides, or in what batches people come.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.errors import InputError, plain
from pacbandits.experiment import tables
from pacbandits.experiment.chain import id_of, mark_of
from pacbandits.experiment.database import Connection
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.people import Assignment, AssignmentRequest
from pacbandits.experiment.refusals import NotCollecting
from pacbandits.experiment.store import PAUSED, TAKING_IN, StoredExperiment, Transaction
from pacbandits.experiment.stored_rows import AssignmentRow, Standing, check_unit

UNITS_ASKED_AT_ONCE = 500  # of a database, in one query
ROWS_DRAWN_AT_ONCE = 1024
HOLDOUT, ACTION = 0, 1  # what the two draws of a row are for
_T = tables.assignments.c
_OF_UNITS = sa.select(tables.assignments).where(_T.unit.in_(sa.bindparam("units", expanding=True)))
# SQLite would rather read all of an experiment than two of its trees; the plus keeps it from the first.
_OF_EXPERIMENT = {
    True: sa.literal_column("+assignments.experiment", sa.Text) == sa.bindparam("experiment"),
    False: _T.experiment == sa.bindparam("experiment"),
}


class Assigner:
    """Assigns for one experiment; what it remembers is only what never changes."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, protocol = stored, stored.protocol
        self._names, self._of_units = protocol.actions, _OF_UNITS.where(_OF_EXPERIMENT[stored.database.sqlite])
        self._sticky = protocol.visits == "sticky"
        self._standard_row = np.eye(len(self._names))[protocol.standard_action]

    def assign(self, requests: Sequence[AssignmentRequest], *, at: int) -> list[Assignment | InputError]:
        """An assignment for each, or why there is none; stored when this returns."""
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
        """Fill in what is wanted."""
        known = self._known(transaction.connection, list(dict.fromkeys(units[number] for number in wanted)))
        fresh: list[int] = []
        visits: list[int] = []
        coming: dict[str, int] = {}
        again: list[tuple[int, str]] = []
        for number in wanted:
            unit = units[number]
            before = known.get(unit)
            if self._sticky and before is not None:
                out[number] = self._answer(before, new=False)
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
            drawn = self._draw(transaction, fresh, visits, units, features, known)
            for number, made in zip(fresh, drawn, strict=True):
                out[number] = self._answer(made, new=True)
                known[made.unit] = made
        for number, unit in again:
            out[number] = self._answer(known[unit], new=False)

    def _draw(
        self,
        transaction: Transaction,
        fresh: list[int],
        visits: list[int],
        units: list[str],
        features: FloatArray,
        known: Mapping[str, AssignmentRow],
    ) -> list[AssignmentRow]:
        """Assignments for those who have none, one after the other; rounds that are full make way for the next."""
        stored, standing, count = self._stored, transaction.standing, len(fresh)
        first = standing.rows
        if len(stored.known_rounds) <= standing.round:
            stored.rounds(transaction.connection)
        now = stored.known_rounds[standing.round]
        some = np.ascontiguousarray(features[fresh])
        drawn = draws(stored.protocol.drawn_seed, first=first, count=count)
        held = _stay_held(drawn[:, HOLDOUT] < stored.protocol.holdout, [units[number] for number in fresh], known)
        drawn_for = now.sampler.propensities(stored.contexts(some))
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
            )
            transaction.assign(made, mark_of(stored.secret, made.unit))
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
        """The last assignment of each unit that has one."""
        found: dict[str, AssignmentRow] = {}
        for start in range(0, len(units), UNITS_ASKED_AT_ONCE):
            asked = {"experiment": self._stored.name, "units": units[start : start + UNITS_ASKED_AT_ONCE]}
            for values in connection.execute(self._of_units, asked):
                row = AssignmentRow(*values)
                if row.unit not in found or row.visit > found[row.unit].visit:
                    found[row.unit] = row
        return found

    def _answer(self, made: AssignmentRow, *, new: bool) -> Assignment:
        probabilities: list[float] = np.frombuffer(made.propensities, dtype="<f8").tolist()
        return Assignment(
            id=id_of(self._stored.secret, made.row),
            unit=made.unit,
            action=self._names[made.action],
            propensity=probabilities[made.action],
            propensities=dict(zip(self._names, probabilities, strict=True)),
            round=made.round,
            new=new,
            holdout=bool(made.holdout),
        )


def choose(propensities: FloatArray, drawn: FloatArray) -> IntArray:
    """The action (n,) that a draw (n,) in [0, 1) stands for, by its propensities (n, A): never one of probability 0."""
    bounds = np.cumsum(propensities, axis=1)
    bounds /= bounds[:, -1:]
    return (bounds <= drawn[:, None]).sum(axis=1).astype(np.int64)


def _stay_held(drawn: BoolArray, units: list[str], known: Mapping[str, AssignmentRow]) -> BoolArray:
    """Who of these is of the holdout (n,): whoever was at their first visit; drawn (n,): what new ones are."""
    stays = {unit: bool(one.holdout) for unit, one in known.items()}
    return np.array([stays.setdefault(unit, bool(own)) for unit, own in zip(units, drawn, strict=True)])


def refused(standing: Standing) -> NotCollecting:
    """Why nobody new is taken in."""
    why = f": {plain(standing.reason)}" if standing.reason else ""
    remedy = "resume it" if standing.state == PAUSED else "give them what its result says"
    return NotCollecting(
        f"the experiment '{plain(standing.name)}' is {standing.state}{why}; it takes in nobody new: {remedy}"
    )


@lru_cache(maxsize=16)
def _block(seed: int, number: int) -> FloatArray:
    out = np.random.default_rng([seed, number]).random((ROWS_DRAWN_AT_ONCE, 2))
    out.setflags(write=False)
    return out


def draws(seed: int, *, first: int, count: int) -> FloatArray:
    """Two draws in [0, 1) for each of the rows from the first on (count, 2)."""
    blocks = range(first // ROWS_DRAWN_AT_ONCE, (first + count - 1) // ROWS_DRAWN_AT_ONCE + 1) if count else range(0)
    parts = [_block(seed, number) for number in blocks]
    if not parts:
        return np.empty((0, 2))
    start = first - blocks[0] * ROWS_DRAWN_AT_ONCE
    return np.concatenate(parts)[start : start + count]
