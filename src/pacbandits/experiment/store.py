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
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import text
from pacbandits.errors import InputError
from pacbandits.experiment import database as tables
from pacbandits.experiment.chain import ASSIGNMENT, ENTRY, OUTCOME, canonical, linked
from pacbandits.experiment.context_encoding import Encoder
from pacbandits.experiment.database import Connection, Database, names_in, read_standing, unknown
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.experiment.stored_rows import (
    EXPORTED,
    NEVER,
    REWARD,
    AssignmentColumns,
    AssignmentRow,
    EntryRow,
    OutcomeRow,
    Standing,
    array_of,
    columns_of,
)
from pacbandits.records import Contexts, Log
from pacbandits.records.log import NOT_IN
from pacbandits.schema import Json

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


# All that an experiment has recorded, as arrays; read once, and then only what is new.
#
# What a snapshot knows: the records before a number, at a time. With a window, a reward that did not come in time is in
# as well, as what the protocol says it counts as, once that time is over.


MAX_MISSING_EPSILONS = 0.1  # of rewards that are still to come, the share that may be out when rows are looked at


@dataclass(frozen=True, eq=False)
class Rows(AssignmentColumns):
    """All n assignments in their order, with what came of them in time.

    rewards (n,): as they were reported, NaN where none was, or too late.
    reward_sequence (n,): the number of that record; NEVER where there is none.
    guardrail (n,), guardrail_sequence (n,): the same of the second outcome.
    """

    rewards: FloatArray
    reward_sequence: IntArray
    guardrail: FloatArray
    guardrail_sequence: IntArray

    @classmethod
    def of(cls, columns: dict[str, Any]) -> Rows:
        """Assignments of which nothing came yet."""
        n = len(columns["sequence"])
        return cls(columns, np.full(n, np.nan), np.full(n, NEVER), np.full(n, np.nan), np.full(n, NEVER))

    def then(self, other: Rows) -> Rows:
        """These and others after them."""
        return Rows(
            {name: np.concatenate([values, other.columns[name]]) for name, values in self.columns.items()},
            np.concatenate([self.rewards, other.rewards]),
            np.concatenate([self.reward_sequence, other.reward_sequence]),
            np.concatenate([self.guardrail, other.guardrail]),
            np.concatenate([self.guardrail_sequence, other.guardrail_sequence]),
        )

    def before(self, sequence: int) -> Rows:
        """The rows whose records come before a number; what came of them is told apart by its own."""
        count = int(np.searchsorted(self.sequence, sequence))
        return Rows(
            {name: values[:count] for name, values in self.columns.items()},
            self.rewards[:count],
            self.reward_sequence[:count],
            self.guardrail[:count],
            self.guardrail_sequence[:count],
        )


class History:
    """Reads the rows of an experiment as they come."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, self._outcomes = stored, 0  # records of outcomes read so far end before this number
        self._widths = {"features": stored.width, "propensities": stored.protocol.n_actions}
        self._names, self._kinds = tuple(EXPORTED), columns_of(AssignmentRow)
        self.rows = Rows.of(self._arrays([()] * len(self._names)))

    def read(self, connection: Connection) -> Rows:
        """All rows, with what came of them so far."""
        t = tables.assignments.c
        query = sa.select(*(t[name] for name in self._names))
        query = query.where(t.experiment == self._stored.name, t.row >= len(self.rows)).order_by(t.row)
        found = connection.execute(query).all()
        if found:
            self.rows = self.rows.then(Rows.of(self._arrays(list(zip(*found, strict=True)))))
        self._read_outcomes(connection)
        return self.rows

    def _arrays(self, values: Sequence[Sequence[Any]]) -> dict[str, Any]:
        return {
            name: array_of(self._kinds[name].kind, some, width=self._widths.get(name, 0))
            for name, some in zip(self._names, values, strict=True)
        }

    def _read_outcomes(self, connection: Connection) -> None:
        t, rows = tables.outcomes.c, self.rows
        query = sa.select(t.row, t.kind, t.sequence, t.value).where(
            t.experiment == self._stored.name, t.sequence >= self._outcomes, t.late == 0
        )
        for row, kind, sequence, value in connection.execute(query):
            values, numbers = (
                (rows.rewards, rows.reward_sequence) if kind == REWARD else (rows.guardrail, rows.guardrail_sequence)
            )
            values[row], numbers[row] = value, sequence
            self._outcomes = max(self._outcomes, sequence + 1)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known of an experiment at a time.

    stored: which one.
    rows: all that were assigned before.
    rounds: those that were open by then.
    sequence: how many records there were.
    at: when, in microseconds.
    """

    stored: StoredExperiment
    rows: Rows
    rounds: Sequence[Round]
    sequence: int
    at: int

    @cached_property
    def counted(self) -> BoolArray:
        """Which rows (n,) are part of the trial: first visits, in its rounds, outside of the holdout."""
        trial = np.array([one.kind != "deployed" for one in self.rounds], dtype=np.bool_)
        return ~self.rows.holdout & (self.rows.visits == 0) & trial[self.rows.rounds]

    def came(self, sequence: int, at: int) -> BoolArray:
        """Of which rows (n,) the reward was in, when there were so many records, at that time."""
        rows, window = self.rows, self.stored.window
        came = rows.reward_sequence < sequence
        return came if window is None else came | (rows.at + window < at)

    @cached_property
    def in_(self) -> BoolArray:
        """Of which rows (n,) the reward is in."""
        return self.came(self.sequence, self.at)

    @cached_property
    def mature(self) -> int:
        """How many of the first rows are looked at, as most of their rewards are in.

        Any number of first rows may be looked at, whenever one likes: proofs hold at all of them. Of later rows more
        rewards are still out, and would count at their worst: a share of m costs about m of ε. And those that come
        early are not like the others: where only good ones are reported, all of them are good. With a window all come
        in at last; without, as many as of the earlier half.
        """
        n = len(self.rows)
        if n == 0:
            return 0
        share = np.cumsum(self.in_) / np.arange(1, n + 1)
        reached = float(share[n // 2]) if self.stored.window is None else 1.0
        enough = np.flatnonzero(share >= reached - MAX_MISSING_EPSILONS * self.stored.protocol.unit_epsilon)
        most = int(enough[-1]) + 1 if len(enough) else 0
        return max([most, *(one.mature for one in self.rounds)])

    def log(self, *, rows: int | None = None) -> Log | None:
        """The trial's rows, of the first so many, with rewards in [0, 1] as far as they are in; None if there are none.

        rows: by default those that are looked at.
        """
        which = np.flatnonzero(self.counted[: self.mature if rows is None else rows])
        return self.table().take(which) if len(which) else None

    def table(self) -> Log:
        """All rows, whether they count or not, with rewards in [0, 1] as far as they are in."""
        rows, protocol, n = self.rows, self.stored.protocol, len(self.rows)
        return Log(
            contexts=self.stored.contexts(rows.features),
            actions=rows.actions,
            rewards=np.where(self.in_, self._unit_rewards(), np.nan),
            propensities=rows.propensities,
            rounds=rows.rounds,
            repeats=np.ones(n, dtype=np.int64),
            known=np.where(self.in_, self.known_from(), NOT_IN),
            remarks=protocol.remarks(),
            action_names=protocol.actions,
            reward_range=protocol.reward_range,
            dates=protocol.date_columns,
        )

    def _unit_rewards(self) -> FloatArray:
        """What is in of each row (n,), in [0, 1]; where nothing came, what that counts as."""
        low, high = self.stored.protocol.reward_range
        missing = self.stored.protocol.late.missing
        raw = np.where(
            self.rows.reward_sequence < self.sequence, self.rows.rewards, low if missing is None else missing
        )
        return np.clip((raw - low) / (high - low), 0.0, 1.0)

    def known_from(self) -> IntArray:
        """From which round on what is in of each row (n,) was used: the first whose design knew of it.

        Of those that no design knew yet, the round that comes next.
        """
        out = np.full(len(self.rows), len(self.rounds), dtype=np.int64)
        numbers = np.arange(len(self.rows))
        for one in reversed(self.rounds):
            if one.kind == "design":
                out[self.came(one.snapshot, one.snapshot_at) & (numbers < one.mature)] = one.number
        return out
