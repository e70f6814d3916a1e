"""An experiment in its database: what never changes of it, its rounds, and transactions that add records.

A transaction takes the experiment's own row first. Its records are numbered and chained in the order in which they are
added, and stored together with the changed row.
"""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import text
from pacbandits.errors import InputError
from pacbandits.experiment import tables
from pacbandits.experiment.chain import ASSIGNMENT, ENTRY, OUTCOME, canonical, linked
from pacbandits.experiment.database import Connection, Database, names_in, read_standing, unknown
from pacbandits.experiment.encoding import Encoder
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.experiment.stored_rows import AssignmentRow, EntryRow, OutcomeRow, Standing
from pacbandits.fields import Json
from pacbandits.records import Contexts

COLLECTING, CERTIFIED, PAUSED, STOPPED = "collecting", "certified", "paused", "stopped"  # states of an experiment
TAKING_IN = (COLLECTING, CERTIFIED)


class Transaction:
    """What one transaction adds to an experiment; `close` stores it.

    connection: of the transaction.
    standing: where the experiment stood when it began.
    at: when it is, in microseconds; no earlier than any record before.
    sequence, head: of the chain, with all that was added.
    changes: of the experiment's row, by column.
    """

    def __init__(self, connection: Connection, standing: Standing, *, at: int) -> None:
        self.connection, self.standing = connection, standing
        self.at = max(at, standing.seen_until)  # servers' clocks differ; in the record time never goes back
        self.sequence, self.head = standing.sequence, bytes(standing.head)
        self.changes: dict[str, Any] = {}
        self._assigned: list[AssignmentRow] = []
        self._outcomes: list[OutcomeRow] = []
        self._entries: list[EntryRow] = []

    def assign(self, made: AssignmentRow, mark: bytes) -> None:
        """Add an assignment with the present sequence number and time; mark: what stands for its unit."""
        self._assigned.append(made)
        self._link(ASSIGNMENT, made.sealed(mark))

    def report(self, row: int, kind: int, value: float, *, late: bool) -> None:
        """Add what came of an assignment."""
        made = OutcomeRow(self.standing.name, row, kind, self.sequence, value, int(late), self.at)
        self._outcomes.append(made)
        self._link(OUTCOME, made.sealed())

    def enter(self, kind: str, body: Json) -> None:
        """Add any other entry."""
        made = EntryRow(self.standing.name, self.sequence, kind, self.at, canonical(body), self.head, b"")
        self._link(ENTRY, made.sealed())
        self._entries.append(made._replace(head=self.head))

    def open_round(self, new: Round) -> Round:
        """Add a round, which is the open one from then on; return it with its time and sequence number."""
        placed = replace(new, opened=self.at, sequence=self.sequence)
        self.enter(ROUND, placed.to_json())
        self.changes |= {"round": new.number, "round_rows": 0, "planned": new.planned}
        return placed

    def close(self) -> None:
        """Store the records and the changes; nothing where there are none."""
        insert_many(self.connection, tables.assignments, self._assigned)
        insert_many(self.connection, tables.outcomes, self._outcomes)
        insert_many(self.connection, tables.entries, self._entries)
        if self.sequence > self.standing.sequence:
            self.changes |= {"sequence": self.sequence, "head": self.head, "seen_until": self.at}
        if self.changes:
            query = sa.update(tables.standings).where(tables.standings.c.name == self.standing.name)
            self.connection.execute(query.values(self.changes))

    def _link(self, kind: bytes, record: bytes) -> None:
        self.head = linked(self.head, kind, record)
        self.sequence += 1


def insert_many(connection: Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Store rows, whose values stand in the order of the table's columns; past what SQLAlchemy would do for each."""
    if not rows:
        return
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    names = ", ".join(connection.dialect.identifier_preparer.quote(column.name) for column in table.c)
    marks = ", ".join([mark] * len(table.c))
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", list(rows))


@dataclass(frozen=True, eq=False)
class StoredExperiment:
    """An experiment in its database; for several threads.

    database: which one.
    name: of the experiment.
    protocol: what was fixed when it was created.
    secret: keys ids and what stands for units.
    created: when, in microseconds.
    encoder: reads contexts as the protocol has them.
    known_rounds: those that were read so far, in order.
    """

    database: Database
    name: str
    protocol: ExperimentProtocol
    secret: bytes
    created: int
    encoder: Encoder
    known_rounds: list[Round] = field(default_factory=list[Round])
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def open(cls, database: Database, name: str) -> StoredExperiment:
        """The experiment of that name.

        Raises:
            UnknownExperiment: When there is none.
        """
        text(name, name="name of the experiment")
        t = tables.experiments.c
        with database.reading() as connection:
            query = sa.select(t.protocol, t.contexts, t.secret, t.created).where(t.name == name)
            found = connection.execute(query).one_or_none()
            if found is None:
                raise unknown(name, names_in(connection))
        contexts = unpack_contexts(bytes(found.contexts))
        protocol = ExperimentProtocol.from_json(json.loads(found.protocol), contexts=contexts)
        return cls(database, name, protocol, bytes(found.secret), int(found.created), Encoder.for_protocol(protocol))

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """The numbers of actions by their names."""
        return tuple(self.protocol.actions.index(name) for name in names)

    @property
    def width(self) -> int:
        """How many numbers a context is: its features, and its id where it has one."""
        return self.protocol.contexts.n_features + (self.protocol.contexts.ids is not None)

    @property
    def window(self) -> int | None:
        """How long a reward is waited for, in microseconds; None for the worst-case rule."""
        return self.protocol.late.window

    def contexts(self, features: FloatArray) -> Contexts:
        """Stored features (n, width) as contexts."""
        like, n = self.protocol.contexts, len(features)
        ids = None if like.ids is None else features[:, like.n_features].astype(np.int64)
        return Contexts(features[:, : like.n_features], like.names, like.categories, ids, np.full(n, 1.0 / n))

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that sees one state of the database, and changes nothing."""
        return self.database.reading()

    @contextmanager
    def writing(self, *, at: int) -> Generator[Transaction]:
        """A transaction that nobody else writes beside; stored at the end of the block, unless that raises."""
        with self.database.writing(self.name) as (connection, standing):
            transaction = Transaction(connection, standing, at=at)
            yield transaction
            transaction.close()

    def standing(self, connection: Connection) -> Standing:
        """Where the experiment stands."""
        return read_standing(connection, self.name)

    def rounds(self, connection: Connection) -> list[Round]:
        """All rounds; those that were read before are not read again."""
        t = tables.entries.c
        with self._lock:
            known = self.known_rounds
            last = known[-1].sequence if known else -1
            query = sa.select(t.sequence, t.at, t.body).where(t.experiment == self.name, t.kind == ROUND)
            for row in connection.execute(query.where(t.sequence > last).order_by(t.sequence)):
                policies = self.protocol.policy_class
                known.append(
                    round_from_json(json.loads(row.body), known, policies, opened=row.at, sequence=row.sequence)
                )
        return known


def pack_contexts(contexts: Contexts) -> bytes:
    """The contexts of a protocol as bytes; raise InputError for those that people cannot come with."""
    if contexts.phi is not None:
        raise InputError("the contexts of an experiment cannot have features of actions (phi); leave that column out")
    about = json.dumps([list(contexts.names), [None if c is None else list(c) for c in contexts.categories]])
    file = io.BytesIO()
    np.savez_compressed(
        file,
        features=contexts.features,
        weights=contexts.weights,
        ids=np.zeros(0, dtype=np.int64) if contexts.ids is None else contexts.ids,
        about=np.frombuffer(about.encode(), dtype=np.uint8),
    )
    return file.getvalue()


def unpack_contexts(packed: bytes) -> Contexts:
    """The contexts that `pack_contexts` packed."""
    with np.load(io.BytesIO(packed), allow_pickle=False) as stored:
        names, categories = json.loads(stored["about"].tobytes())
        return Contexts(
            features=stored["features"],
            names=tuple(names),
            categories=tuple(None if one is None else tuple(one) for one in categories),
            ids=stored["ids"] if len(stored["ids"]) else None,
            weights=stored["weights"],
        )
