"""A stored experiment: its fixed settings, its rounds, transactions that append records, and snapshots of its data.

A transaction locks the experiment's row first. Its records are numbered and chained in the order in which they are
added, and stored together with the changed row.
"""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from threading import Lock
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import text
from pacbandits.errors import InputError
from pacbandits.experiment import database as tables
from pacbandits.experiment.chain import ASSIGNMENT, ENTRY, OUTCOME, canonical, linked, mark_of
from pacbandits.experiment.context_encoding import Encoder
from pacbandits.experiment.database import Connection, Database, names_in, read_standing, unknown
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.experiment.stored_rows import (
    EXPORTED,
    FIRST_METRIC,
    GUARDRAIL,
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
from pacbandits.records.metrics import Metric, metric_columns
from pacbandits.schema import Json

COLLECTING, CERTIFIED, PAUSED, STOPPED = "collecting", "certified", "paused", "stopped"  # states of an experiment
TAKING_IN = (COLLECTING, CERTIFIED)
RESTORED = "restored"  # kind of the log entry that says that the database went back to an earlier state
WENT_BACK = "the database lost the last records, which this server had stored"


class Transaction:
    """The records that one transaction appends to an experiment; `close` stores them.

    connection: the database connection of the transaction.
    standing: the experiment's row when the transaction began.
    at: time of the transaction in microseconds, no earlier than that of any earlier record.
    sequence, head: number of records and head of the chain, with those appended.
    changes: new values of the experiment's row, by column.
    """

    def __init__(self, connection: Connection, standing: Standing, *, at: int) -> None:
        self.connection, self.standing = connection, standing
        self.at = max(at, standing.seen_until)  # servers' clocks differ; times of records never decrease
        self.sequence, self.head = standing.sequence, bytes(standing.head)
        self.changes: dict[str, Any] = {}
        self._assigned: list[AssignmentRow] = []
        self._outcomes: list[OutcomeRow] = []
        self._entries: list[EntryRow] = []

    def assign(self, made: AssignmentRow, mark: bytes) -> None:
        """Append an assignment made with the current sequence number and time; mark: the keyed hash of its unit."""
        self._assigned.append(made)
        self._link(ASSIGNMENT, made.sealed(mark))

    def report(self, row: int, kind: int, value: float, *, late: bool) -> None:
        """Append an outcome of an assignment."""
        made = OutcomeRow(self.standing.name, row, kind, self.sequence, value, int(late), self.at)
        self._outcomes.append(made)
        self._link(OUTCOME, made.sealed())

    def enter(self, kind: str, body: Json) -> None:
        """Append an entry: any record that is neither an assignment nor an outcome."""
        made = EntryRow(self.standing.name, self.sequence, kind, self.at, canonical(body), self.head, b"")
        self._link(ENTRY, made.sealed())
        self._entries.append(made._replace(head=self.head))

    def open_round(self, new: Round) -> Round:
        """Append a round and make it the open one; return it with its time and sequence number."""
        placed = replace(new, opened=self.at, sequence=self.sequence)
        self.enter(ROUND, placed.to_json())
        self.changes |= {"round": new.number, "round_rows": 0, "planned": new.planned}
        return placed

    def restart(self, body: Json, incarnation: int) -> None:
        """Append the entry that the database went back, and begin a new incarnation."""
        self.enter(RESTORED, body)
        self.changes["incarnation"] = incarnation

    def close(self) -> None:
        """Store the records and the changes, if there are any."""
        insert_many(self.connection, tables.assignments, self._assigned)
        insert_many(self.connection, tables.outcomes, self._outcomes)
        insert_many(self.connection, tables.entries, self._entries)
        if self.sequence > self.standing.sequence:
            self.changes |= {"sequence": self.sequence, "head": self.head, "seen_until": self.at}
        if self.changes:
            query = _update_standing(_placeholder(self.connection), tuple(self.changes))
            self.connection.exec_driver_sql(query, (*self.changes.values(), self.standing.name))

    def _link(self, kind: bytes, record: bytes) -> None:
        self.head = linked(self.head, kind, record)
        self.sequence += 1


def insert_many(connection: Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows whose values are in the order of the table's columns; bypass SQLAlchemy's work per row."""
    if rows:
        connection.exec_driver_sql(_insert_into(_placeholder(connection), table), list(rows))


@cache
def _insert_into(mark: str, table: sa.Table) -> str:
    names = ", ".join(f'"{column.name}"' for column in table.c)
    return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join([mark] * len(table.c))})"


@cache
def _update_standing(mark: str, columns: tuple[str, ...]) -> str:
    changes = ", ".join(f'"{column}" = {mark}' for column in columns)
    return f"UPDATE {tables.standings.name} SET {changes} WHERE name = {mark}"


def _placeholder(connection: Connection) -> str:
    """Return how the driver writes a parameter."""
    return "?" if connection.dialect.paramstyle == "qmark" else "%s"


@dataclass
class SeenRecords:
    """What a process has seen of an experiment's event log, to notice that the database went back.

    sequence, head: number of records and head of the chain after its last transaction.
    incarnation: the experiment's incarnation then.
    """

    sequence: int = 0
    head: bytes = b""
    incarnation: int = 0

    def beyond(self, standing: Standing) -> bool:
        """Return whether it has seen records that are no longer stored."""
        others = standing.sequence == self.sequence and bytes(standing.head) != self.head
        return self.sequence > 0 and (standing.sequence < self.sequence or others)


@dataclass(frozen=True, eq=False)
class StoredExperiment:
    """An experiment in its database; safe to share between threads.

    database: the database it is stored in.
    name: the experiment's name.
    protocol: the settings fixed at creation.
    secret: key of the hashes in assignment ids and unit marks.
    created: time of creation in microseconds.
    encoder: encodes contexts by the protocol.
    pseudonymous: whether units are stored as keyed hashes.
    known_rounds: the rounds read so far, in order.
    seen: what this process has seen of the event log.
    """

    database: Database
    name: str
    protocol: ExperimentProtocol
    secret: bytes
    created: int
    encoder: Encoder
    pseudonymous: bool = False
    known_rounds: list[Round] = field(default_factory=list[Round])
    seen: SeenRecords = field(default_factory=SeenRecords)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def open(cls, database: Database, name: str) -> StoredExperiment:
        """Read the experiment with that name.

        Raises:
            UnknownExperiment: If there is none.
        """
        text(name, name="name of the experiment")
        t = tables.experiments.c
        with database.reading() as connection:
            query = sa.select(t.protocol, t.contexts, t.secret, t.created, t.pseudonymous).where(t.name == name)
            found = connection.execute(query).one_or_none()
            if found is None:
                raise unknown(name, names_in(connection))
        contexts = unpack_contexts(bytes(found.contexts))
        protocol = ExperimentProtocol.from_json(json.loads(found.protocol), contexts=contexts)
        encoder, secret, hashed = Encoder.for_protocol(protocol), bytes(found.secret), bool(found.pseudonymous)
        return cls(database, name, protocol, secret, int(found.created), encoder, hashed)

    def pseudonym(self, unit: str) -> str:
        """Return a unit as it is stored."""
        return mark_of(self.secret, unit).hex() if self.pseudonymous else unit

    def mark(self, unit: str) -> bytes:
        """Return the keyed hash of a unit as stored, by which the chain and exports name it."""
        return bytes.fromhex(unit) if self.pseudonymous else mark_of(self.secret, unit)

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the indices of actions given by name."""
        return tuple(self.protocol.actions.index(name) for name in names)

    @property
    def width(self) -> int:
        """Return how many numbers encode a context: its features, and its id if it has one."""
        return self.protocol.contexts.n_features + (self.protocol.contexts.ids is not None)

    @cached_property
    def metric_columns(self) -> tuple[Metric, ...]:
        """Return the columns of the protocol's metrics, whose values are reported with a reward."""
        return metric_columns(self.protocol.metrics)

    @property
    def window(self) -> int | None:
        """Return the reward window in microseconds; None for the worst-case rule."""
        return self.protocol.late.window

    def contexts(self, features: FloatArray, *, checked: bool = False) -> Contexts:
        """Return stored features (n, width) as contexts; checked: whether they come from the encoder just now."""
        like, n = self.protocol.contexts, len(features)
        ids = None if like.ids is None else features[:, like.n_features].astype(np.int64)
        if checked:
            return like.with_rows(features[:, : like.n_features], ids)
        return Contexts(features[:, : like.n_features], like.names, like.categories, ids, np.full(n, 1.0 / n))

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a read-only connection that sees one snapshot of the database."""
        return self.database.reading()

    @contextmanager
    def writing(self, *, at: int | None) -> Generator[Transaction]:
        """Yield a transaction with exclusive write access; it is stored at the end of the block unless that raises.

        at: its time; by default that of the database's clock, so that servers whose clocks differ agree.
        If the database has fewer records than this process stored, or others, it went back to an earlier state: the
        event log then says so before anything else.
        """
        with self.database.writing(self.name) as (connection, standing):
            if standing.incarnation > self.seen.incarnation:
                self._begin_again(standing.incarnation)
            incarnation, lost = standing.incarnation, self.seen.beyond(standing)
            transaction = Transaction(connection, standing, at=self.database.now(connection) if at is None else at)
            if lost:
                incarnation = self.seen.incarnation + 1
                self.known_rounds.clear()
                body = {"reason": WENT_BACK, "records": self.seen.sequence, "head": self.seen.head.hex()}
                transaction.restart(body, incarnation)
            yield transaction
            transaction.close()
        with self._lock:  # after the commit; another thread may have noted a later one
            if (incarnation, transaction.sequence) >= (self.seen.incarnation, self.seen.sequence):
                self.seen.sequence, self.seen.head = transaction.sequence, transaction.head
                self.seen.incarnation = incarnation

    def standing(self, connection: Connection) -> Standing:
        """Return the experiment's current row."""
        found = read_standing(connection, self.name)
        if found.incarnation > self.seen.incarnation:
            self._begin_again(found.incarnation)
        return found

    def _begin_again(self, incarnation: int) -> None:
        """Forget what was read before the database went back, as another process has noticed."""
        with self._lock:
            self.known_rounds.clear()
            self.seen.sequence, self.seen.head, self.seen.incarnation = 0, b"", incarnation

    def rounds(self, connection: Connection) -> list[Round]:
        """Return all rounds; only new ones are read from the database."""
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
    """Serialise the contexts of a protocol to bytes; raise InputError if they have features of actions (phi)."""
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
    """Return the contexts that `pack_contexts` serialised."""
    with np.load(io.BytesIO(packed), allow_pickle=False) as stored:
        names, categories = json.loads(stored["about"].tobytes())
        return Contexts(
            features=stored["features"],
            names=tuple(names),
            categories=tuple(None if one is None else tuple(one) for one in categories),
            ids=stored["ids"] if len(stored["ids"]) else None,
            weights=stored["weights"],
        )


# The records of an experiment as arrays, read incrementally, and snapshots of them.
#
# A snapshot holds the records before a sequence number, at a time. With a window, a reward that did not arrive in time
# is known as well once the window is over: it has the value that the protocol gives to missing rewards.


MAX_MISSING_EPSILONS = 0.1  # analysed rows may lack this share of the rewards expected of them, as a multiple of ε


@dataclass(frozen=True, eq=False)
class Rows(AssignmentColumns):
    """All n assignments in order, with the outcomes that arrived in time.

    rewards (n,): as reported; NaN where none was reported in time.
    reward_sequence (n,): the sequence number of that record; NEVER where there is none.
    guardrail (n,), guardrail_sequence (n,): the same for the guardrail outcome.
    metrics (n, columns): the metrics, which are reported with the reward; NaN where that was not reported in time.
    """

    rewards: FloatArray
    reward_sequence: IntArray
    guardrail: FloatArray
    guardrail_sequence: IntArray
    metrics: FloatArray

    @classmethod
    def of(cls, columns: dict[str, Any], *, metrics: int) -> Rows:
        """Return assignments without outcomes; metrics: the number of their columns."""
        n = len(columns["sequence"])
        nothing, never = np.full(n, np.nan), np.full(n, NEVER)
        return cls(columns, nothing, never, nothing.copy(), never.copy(), np.full((n, metrics), np.nan))

    def then(self, other: Rows) -> Rows:
        """Return these rows followed by others."""
        return Rows(
            {name: np.concatenate([values, other.columns[name]]) for name, values in self.columns.items()},
            np.concatenate([self.rewards, other.rewards]),
            np.concatenate([self.reward_sequence, other.reward_sequence]),
            np.concatenate([self.guardrail, other.guardrail]),
            np.concatenate([self.guardrail_sequence, other.guardrail_sequence]),
            np.concatenate([self.metrics, other.metrics]),
        )

    def before(self, sequence: int) -> Rows:
        """Return the rows with a smaller sequence number; their outcomes, which have their own numbers, all stay."""
        count = int(np.searchsorted(self.sequence, sequence))
        return Rows(
            {name: values[:count] for name, values in self.columns.items()},
            self.rewards[:count],
            self.reward_sequence[:count],
            self.guardrail[:count],
            self.guardrail_sequence[:count],
            self.metrics[:count],
        )


class History:
    """Reads the rows of an experiment incrementally."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, self._outcomes = stored, 0  # all outcomes read so far have smaller sequence numbers
        self._widths = {"features": stored.width, "propensities": stored.protocol.n_actions}
        self._names, self._kinds = tuple(EXPORTED), columns_of(AssignmentRow)
        self._metrics = len(stored.metric_columns)
        self.rows = Rows.of(self._arrays([()] * len(self._names)), metrics=self._metrics)

    def read(self, connection: Connection) -> Rows:
        """Return all rows, with their outcomes so far."""
        t = tables.assignments.c
        query = sa.select(*(t[name] for name in self._names))
        query = query.where(t.experiment == self._stored.name, t.row >= len(self.rows)).order_by(t.row)
        found = connection.execute(query).all()
        if found:
            self.rows = self.rows.then(Rows.of(self._arrays(list(zip(*found, strict=True))), metrics=self._metrics))
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
        of_kind = {
            REWARD: (rows.rewards, rows.reward_sequence),
            GUARDRAIL: (rows.guardrail, rows.guardrail_sequence),
        }
        for row, kind, sequence, value in connection.execute(query):
            if kind in of_kind:
                values, numbers = of_kind[kind]
                values[row], numbers[row] = value, sequence
            else:
                rows.metrics[row, kind - FIRST_METRIC] = value
            self._outcomes = max(self._outcomes, sequence + 1)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The data of an experiment at one time.

    stored: the experiment.
    rows: all earlier assignments.
    rounds: the rounds opened by then.
    sequence: number of records.
    at: time of the snapshot in microseconds.
    """

    stored: StoredExperiment
    rows: Rows
    rounds: Sequence[Round]
    sequence: int
    at: int

    @cached_property
    def counted(self) -> BoolArray:
        """Return which rows (n,) are part of the trial: first visits, in its rounds, outside the holdout."""
        trial = np.array([one.kind != "deployed" for one in self.rounds], dtype=np.bool_)
        return ~self.rows.holdout & (self.rows.visits == 0) & trial[self.rows.rounds]

    @cached_property
    def own(self) -> BoolArray:
        """Return which rows (n,) are the experiment's own, and not those of its pilot."""
        pilot = np.array([one.kind == "pilot" for one in self.rounds], dtype=np.bool_)
        return ~pilot[self.rows.rounds]

    def came(self, sequence: int, at: int) -> BoolArray:
        """Return which rows (n,) had a known reward when there were `sequence` records, at time `at`.

        A reward is known if it was reported in time, or if its window is over.
        """
        rows, window = self.rows, self.stored.window
        came = rows.reward_sequence < sequence
        return came if window is None else came | (rows.at + window < at)

    @cached_property
    def in_(self) -> BoolArray:
        """Return which rows (n,) have a known reward."""
        return self.came(self.sequence, self.at)

    @cached_property
    def mature(self) -> int:
        """Return how many of the first rows are analysed: those most of whose rewards are known.

        Any number of first rows may be analysed at any time: proofs hold for all of them together. More rewards of
        later rows are pending, and would count at their worst: a share of m costs about m of ε. Rewards that arrive
        early are also not representative: if only good ones are reported, all of them are good. With a window, all
        rewards are known in the end; without one, the share in the earlier half of the rows is expected of all.
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
        """Return the trial's rows with their known rewards, in [0, 1]; None if there are none.

        rows: how many first rows to take them from; by default the `mature` ones.
        """
        which = np.flatnonzero(self.counted[: self.mature if rows is None else rows])
        return self.table().take(which) if len(which) else None

    def table(self) -> Log:
        """Return all rows, whether they count or not, with their known rewards in [0, 1]."""
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
            metrics=protocol.metrics,
            metric_values=self._unit_metrics() if protocol.metrics else None,
        )

    def _unit_metrics(self) -> FloatArray:
        """Return the metrics of each row (n, columns) in [0, 1]; NaN where its reward is not known."""
        columns = self.stored.metric_columns
        low, high, missing = (
            np.array([getattr(one, name) for one in columns]) for name in ("low", "high", "if_missing")
        )
        raw = np.where((self.rows.reward_sequence < self.sequence)[:, None], self.rows.metrics, missing)
        return np.where(self.in_[:, None], np.clip((raw - low) / (high - low), 0.0, 1.0), np.nan)

    def _unit_rewards(self) -> FloatArray:
        """Return the reward of each row (n,) in [0, 1], with the value of a missing reward where none was reported."""
        low, high = self.stored.protocol.reward_range
        missing = self.stored.protocol.late.missing
        raw = np.where(
            self.rows.reward_sequence < self.sequence, self.rows.rewards, low if missing is None else missing
        )
        return np.clip((raw - low) / (high - low), 0.0, 1.0)

    def known_from(self) -> IntArray:
        """Return the first round whose design used the reward of each row (n,).

        For rewards that no design has used yet, this is the number of the next round.
        """
        out = np.full(len(self.rows), len(self.rounds), dtype=np.int64)
        numbers = np.arange(len(self.rows))
        for one in reversed(self.rounds):
            if one.kind in ("design", "pilot"):
                out[self.came(one.snapshot, one.snapshot_at) & (numbers < one.mature)] = one.number
        return out
