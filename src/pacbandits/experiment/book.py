"""The book of an experiment: one transaction's records, numbered, chained and stored together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pacbandits.experiment import tables
from pacbandits.experiment.chain import ASSIGNMENT, ENTRY, OUTCOME, canonical, linked
from pacbandits.experiment.database import Connection, Row
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.stored_rows import AssignmentRow, EntryRow, OutcomeRow, Standing

Json = dict[str, Any]


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
        self._assigned: list[AssignmentRow] = []
        self._outcomes: list[OutcomeRow] = []
        self._entries: list[EntryRow] = []

    def assign(self, made: AssignmentRow, mark: bytes) -> None:
        """Add an assignment with the sequence number and the time of this book; mark: what stands for its unit."""
        self._assigned.append(made)
        self._link(ASSIGNMENT, made.sealed(mark))

    def report(self, row: int, kind: int, value: float, *, late: bool) -> None:
        """Add what came of an assignment."""
        made = OutcomeRow(self.name, row, kind, self.sequence, value, int(late), self.at)
        self._outcomes.append(made)
        self._link(OUTCOME, made.sealed())

    def enter(self, kind: str, body: Json) -> None:
        """Add any other entry."""
        previous = self.head
        made = EntryRow(self.name, self.sequence, kind, self.at, canonical(body), previous, b"")
        self._link(ENTRY, made.sealed())
        self._entries.append(made._replace(head=self.head))

    def close(self) -> None:
        """Store everything, with what changes in where the experiment stands."""
        insert_many(self._connection, tables.assignments, self._assigned)
        insert_many(self._connection, tables.outcomes, self._outcomes)
        insert_many(self._connection, tables.entries, self._entries)
        changes = self.changes | {"sequence": self.sequence, "head": self.head, "seen_until": self.at}
        query = sa.update(tables.standings).where(tables.standings.c.name == self.name)
        self._connection.execute(query.values(changes))

    def _link(self, kind: bytes, record: bytes) -> None:
        self.head = linked(self.head, kind, record)
        self.sequence += 1


def body_of(row: Row) -> Json:
    """What an entry says."""
    return json.loads(row.body)


def insert_many(connection: Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Store rows, whose values stand in the order of the table's columns; past what SQLAlchemy would do for each."""
    if not rows:
        return
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    names = ", ".join(connection.dialect.identifier_preparer.quote(column.name) for column in table.c)
    marks = ", ".join([mark] * len(table.c))
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", list(rows))
