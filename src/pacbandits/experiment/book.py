"""The book of an experiment: one transaction's records, numbered, chained and stored together."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pacbandits.experiment import tables
from pacbandits.experiment.chain import (
    ASSIGNMENT,
    ENTRY,
    OUTCOME,
    assignment_bytes,
    canonical,
    entry_bytes,
    linked,
    outcome_bytes,
)
from pacbandits.experiment.database import Connection, Row
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.statements import Statement

Json = dict[str, Any]
REWARD, GUARDRAIL = 0, 1  # kinds of outcomes
_ADD = {
    table: Statement(sa.insert(table).values({column.name: sa.bindparam(column.name) for column in table.c}))
    for table in (tables.assignments, tables.outcomes, tables.entries)
}


class Book:
    """What one transaction adds to an experiment; `close` stores it."""

    def __init__(self, connection: Connection, standing: Row, *, at: int) -> None:
        self.at = at
        self.name: str = standing.name
        self.sequence = int(standing.sequence)
        self.head = bytes(standing.head)
        self.changes: dict[str, Any] = {}
        self._connection = connection
        self._assigned: list[dict[str, Any]] = []
        self._outcomes: list[dict[str, Any]] = []
        self._entries: list[dict[str, Any]] = []

    def assign(
        self,
        row: int,
        unit: str,
        mark: bytes,
        visit: int,
        round_number: int,
        action: int,
        holdout: int,
        features: bytes,
        propensities: bytes,
    ) -> None:
        """Add an assignment."""
        self._assigned.append(
            {
                "experiment": self.name,
                "row": row,
                "sequence": self.sequence,
                "unit": unit,
                "visit": visit,
                "round": round_number,
                "action": action,
                "holdout": holdout,
                "at": self.at,
                "features": features,
                "propensities": propensities,
            }
        )
        record = assignment_bytes(
            self.sequence, row, mark, visit, round_number, action, holdout, self.at, features, propensities
        )
        self._link(ASSIGNMENT, record)

    def report(self, row: int, kind: int, value: float, *, late: bool) -> None:
        """Add what came of an assignment."""
        self._outcomes.append(
            {
                "experiment": self.name,
                "row": row,
                "kind": kind,
                "sequence": self.sequence,
                "value": value,
                "late": int(late),
                "at": self.at,
            }
        )
        self._link(OUTCOME, outcome_bytes(self.sequence, row, kind, int(late), value, self.at))

    def enter(self, kind: str, body: Json) -> None:
        """Add any other entry."""
        words, previous, sequence = canonical(body), self.head, self.sequence
        self._link(ENTRY, entry_bytes(sequence, self.at, kind, words))
        self._entries.append(
            {
                "experiment": self.name,
                "sequence": sequence,
                "kind": kind,
                "at": self.at,
                "body": words,
                "previous": previous,
                "head": self.head,
            }
        )

    def close(self) -> None:
        """Store everything, with what changes in where the experiment stands."""
        rows = {tables.assignments: self._assigned, tables.outcomes: self._outcomes, tables.entries: self._entries}
        for table, added in rows.items():
            if added:
                _ADD[table].run_many(self._connection, added)
        changes = self.changes | {"sequence": self.sequence, "head": self.head}
        _change(tuple(sorted(changes))).run(self._connection, changes | {"of": self.name})

    def _link(self, kind: bytes, record: bytes) -> None:
        self.head = linked(self.head, kind, record)
        self.sequence += 1


@cache
def _change(columns: tuple[str, ...]) -> Statement:
    """What changes these columns of an experiment's own row."""
    values = {column: sa.bindparam(column) for column in columns}
    row = tables.experiments.c.name == sa.bindparam("of")
    return Statement(sa.update(tables.experiments).where(row).values(values))


def body_of(row: Row) -> Json:
    """What an entry says."""
    return json.loads(row.body)
