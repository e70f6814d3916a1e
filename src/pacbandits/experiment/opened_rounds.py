"""Rounds in the database: reading those that were opened, and opening the next."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from pacbandits.experiment import tables
from pacbandits.experiment.book import Book, body_of
from pacbandits.experiment.database import Connection
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.policies.base import PolicyClass


class Rounds:
    """The rounds of an experiment, read as they come; for several threads."""

    def __init__(self, name: str, policies: PolicyClass) -> None:
        self._name, self._policies, self._lock = name, policies, Lock()
        self.all: list[Round] = []

    def read(self, connection: Connection) -> list[Round]:
        """All rounds; those that were read before are not read again."""
        t = tables.entries.c
        with self._lock:
            last = self.all[-1].sequence if self.all else -1
            query = sa.select(t.sequence, t.at, t.body).where(t.experiment == self._name, t.kind == ROUND)
            for row in connection.execute(query.where(t.sequence > last).order_by(t.sequence)):
                made = round_from_json(body_of(row), self.all, self._policies, opened=row.at, sequence=row.sequence)
                self.all.append(made)
        return self.all


def open_round(book: Book, new: Round) -> Round:
    """Write a round down; from then on it is the open one. The round as it stands then."""
    placed = replace(new, opened=book.at, sequence=book.sequence)
    book.enter(ROUND, placed.to_json())
    book.changes |= {"round": new.number, "round_rows": 0, "planned": new.planned}
    return placed
