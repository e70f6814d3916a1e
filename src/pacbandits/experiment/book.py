"""The book of an experiment: one transaction's records, numbered, chained and stored together."""

from __future__ import annotations

import json
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
from pacbandits.experiment.database import Connection, Row, Standing
from pacbandits.experiment.extra import sqlalchemy as sa

Json = dict[str, Any]
REWARD, GUARDRAIL = 0, 1  # kinds of outcomes


class Book:
    """What one transaction adds to an experiment; `close` stores it.

    at: when, in microseconds; no earlier than any record before.
    """

    def __init__(self, connection: Connection, standing: Standing, *, at: int) -> None:
        self.at = max(at, int(standing.seen_until))  # servers' clocks differ; in the record time never goes back
        self.name: str = standing.name
        self.sequence = int(standing.sequence)
        self.head = bytes(standing.head)
        self.changes: dict[str, Any] = {}
        self._connection = connection
        self._assigned: list[tuple[Any, ...]] = []
        self._outcomes: list[tuple[Any, ...]] = []
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
        sequence, at = self.sequence, self.at
        self._assigned.append(
            (self.name, row, sequence, unit, visit, round_number, action, holdout, at, features, propensities)
        )
        record = assignment_bytes(
            self.sequence, row, mark, visit, round_number, action, holdout, self.at, features, propensities
        )
        self._link(ASSIGNMENT, record)

    def report(self, row: int, kind: int, value: float, *, late: bool) -> None:
        """Add what came of an assignment."""
        self._outcomes.append((self.name, row, kind, self.sequence, value, int(late), self.at))
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
        if self._assigned:
            insert_many(self._connection, tables.assignments, self._assigned)
        if self._outcomes:
            insert_many(self._connection, tables.outcomes, self._outcomes)
        if self._entries:
            self._connection.execute(sa.insert(tables.entries), self._entries)
        changes = self.changes | {"sequence": self.sequence, "head": self.head, "seen_until": self.at}
        query = sa.update(tables.standings).where(tables.standings.c.name == self.name)
        self._connection.execute(query.values(changes))

    def _link(self, kind: bytes, record: bytes) -> None:
        self.head = linked(self.head, kind, record)
        self.sequence += 1


def body_of(row: Row) -> Json:
    """What an entry says."""
    return json.loads(row.body)


def insert_many(connection: Connection, table: sa.Table, rows: list[tuple[Any, ...]]) -> None:
    """Store rows, whose values stand in the order of the table's columns; past what SQLAlchemy would do for each."""
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    names = ", ".join(connection.dialect.identifier_preparer.quote(column.name) for column in table.c)
    marks = ", ".join([mark] * len(table.c))
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", rows)
