"""An experiment that lasts: ask what to give to whom, tell what came of it, from any process and after any crash.

    experiment = Experiment.create("checkout.db", protocol)
    given = experiment.assign({"age": 31, "country": "DE"}, unit="u-17")
    experiment.record(given.id, reward=1.0)
    experiment.status(); experiment.result()

All that it knows stands in a database, and is there before an answer is given. The same seed and the same events make
the same decisions.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self, cast

from pacbandits.checks import instance, path_of, whole_number
from pacbandits.errors import InputError, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.assignments import (
    Assigner,
    Assignment,
    AssignmentRequest,
    Recorded,
    Report,
    Value,
    record_reports,
)
from pacbandits.experiment.chain import canonical
from pacbandits.experiment.database import AlreadyThere, Database, microseconds, utc_now
from pacbandits.experiment.exports import (
    ExperimentResult,
    Missed,
    Seal,
    Status,
    read_result,
    read_seal,
    read_status,
    write_export,
)
from pacbandits.experiment.extra import exc
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rounds import LiveDesign, Round
from pacbandits.experiment.steering import Advancer, change_state, close_round, withdraw
from pacbandits.experiment.store import (
    CERTIFIED,
    COLLECTING,
    PAUSED,
    STOPPED,
    StoredExperiment,
    Transaction,
    insert_many,
    pack_contexts,
)
from pacbandits.experiment.stored_rows import ExperimentRow, Standing
from pacbandits.logs.readers import arrow_table
from pacbandits.records import Design, likeliest
from pacbandits.schema import Json

Clock = Callable[[], datetime]
MAX_LOOKS = 2**31 - 1  # that a database can number


class Experiment:
    """A durable experiment; see `create` and `open`.

    name: of it. protocol: what was fixed when it was created.
    """

    def __init__(self, stored: StoredExperiment, *, clock: Clock = utc_now) -> None:
        self.database, self._stored, self._clock = stored.database, stored, clock
        self._assigner, self._advancer, self._missed = Assigner(stored), Advancer(stored), Missed(stored)

    @property
    def name(self) -> str:
        return self._stored.name

    @property
    def protocol(self) -> ExperimentProtocol:
        return self._stored.protocol

    @classmethod
    def create(
        cls, database: str | Path | Database, protocol: ExperimentProtocol, *, clock: Clock = utc_now
    ) -> Experiment:
        """A new experiment by this protocol, which never changes again; its first round is open.

        database: the file of one in SQLite, which is made if need be, or a URL `postgresql://…`.

        Raises:
            AlreadyThere: When there is an experiment of that name.
        """
        instance(protocol, ExperimentProtocol, name="protocol", remedy="read one by read_protocol, or make one")
        base = database if isinstance(database, Database) else Database(database, create=True)
        trial, policies = protocol.trial()
        state = trial.start(policies, protocol.contexts)
        plan = trial.design(state)
        if plan is None:
            raise InputError(f"an epsilon of {protocol.epsilon:g} is proven without an experiment; ask for less")
        at = microseconds(clock())
        first = Round(
            number=0,
            kind="design",
            planned=plan.samples,
            sampler=LiveDesign(Design.uniform(likeliest(state.policy))),
            scale=plan.scale,
            price=plan.exploration.price,
            since=plan.exploration.since,
            leader=None,
            design=0,
            snapshot=0,
            snapshot_at=at,
            mature=0,
            model=state.model.to_json(),
        )
        fixed = ExperimentRow(
            name=protocol.name,
            protocol=json.dumps(protocol.to_json()),
            contexts=pack_contexts(protocol.contexts),
            secret=secrets.token_bytes(32),
            created=at,
        )
        standing = Standing(protocol.name, COLLECTING, planned=first.planned, seen_until=at)
        try:
            with base.engine.begin() as connection:
                insert_many(connection, tables.experiments, [fixed])
                insert_many(connection, tables.standings, [standing])
                transaction = Transaction(connection, standing, at=at)
                transaction.enter("created", {"protocol": protocol.published(), "digest": protocol.digest})
                transaction.open_round(first)
                transaction.close()
        except exc.IntegrityError:
            raise AlreadyThere(
                f"there is an experiment '{plain(protocol.name)}' already; protocols never change: take another name"
            ) from None
        return cls(StoredExperiment.open(base, protocol.name), clock=clock)

    @classmethod
    def open(cls, database: str | Path | Database, name: str, *, clock: Clock = utc_now) -> Experiment:
        """The experiment of that name, where it stands.

        Raises:
            UnknownExperiment: When there is none.
        """
        base = database if isinstance(database, Database) else Database(database)
        return cls(StoredExperiment.open(base, name), clock=clock)

    def assign(
        self,
        context: Mapping[str, Value] | Sequence[Mapping[str, Value]] | Any,
        *,
        unit: str | None = None,
        units: Sequence[str] | None = None,
    ) -> Any:
        """What somebody is to get: an `Assignment`, by the name of the action; of many at once, a list of them.

        context: what is known of them, by the names of features; or a data frame or a sequence of such.
        unit: who it is, so that the same person gets the same again; without one, nobody comes back.
        units: the same of many.

        Raises:
            NotCollecting: When the experiment takes in nobody new.
            InputError: When a context is not one of the experiment's; then nobody is assigned anything.
        """
        if isinstance(context, Mapping):
            if units is not None:
                raise InputError("one context is of one unit; give unit, or several contexts")
            given = cast(Mapping[str, Value], context)
            return _granted(self.assign_many([AssignmentRequest(unit, given)]))[0]
        rows = _rows(context)
        if unit is not None:
            raise InputError("several contexts are of several people; give units, one for each")
        if units is not None and len(units) != len(rows):
            raise InputError(f"there are {len(rows)} contexts and {len(units)} units; give one for each")
        for number, error in self._stored.encoder.encode(rows).errors.items():
            raise InputError(f"row {number}: {error}")
        named = [None] * len(rows) if units is None else units
        requests = [AssignmentRequest(one, row) for one, row in zip(named, rows, strict=True)]
        return _granted(self.assign_many(requests))

    def assign_many(self, requests: Sequence[AssignmentRequest]) -> list[Assignment | InputError]:
        """An assignment for each, or why there is none; in one transaction, stored when this returns."""
        return self._assigner.assign(requests, at=self._now())

    def record(self, assignment: str, *, reward: float | None = None, guardrail: float | None = None) -> Recorded:
        """What came of an assignment: once, however late; the same again changes nothing.

        Raises:
            UnknownAssignment: For an id that this experiment never gave out.
            Contradiction: When something else was reported before.
        """
        return self.record_many([Report(assignment, reward, guardrail)])[0]

    def record_many(self, reports: Sequence[Report]) -> list[Recorded]:
        """The same of many at once: all are stored when this returns, or none is."""
        return record_reports(self._stored, reports, at=self._now())

    def advance(self, *, at_once: bool = False) -> bool:
        """Do what is due: close a round, look at the data, design the next round, stop; whether there was anything.

        A service does this all the time, in a process of its own. at_once: look now, however little is new.
        """
        return self._advancer.advance(at=self._now(), at_once=at_once)

    def pause(self, reason: str) -> None:
        """Take in nobody new until it is resumed; people who came before still get what they got."""
        change_state(self._stored, PAUSED, "paused", reason, of=(COLLECTING, CERTIFIED), at=self._now())

    def resume(self, reason: str) -> None:
        """Go on after a pause."""
        change_state(self._stored, COLLECTING, "resumed", reason, of=(PAUSED,), at=self._now())

    def stop(self, reason: str) -> None:
        """Take in nobody new for good; rewards may still come, and count."""
        change_state(self._stored, STOPPED, "stopped", reason, of=(COLLECTING, CERTIFIED, PAUSED), at=self._now())

    def close_round(self, reason: str) -> None:
        """End the open round now, so that the next is designed from what is known."""
        close_round(self._stored, reason, at=self._now())

    def withdraw(self, action: str, reason: str) -> None:
        """Never give an action again, from now on; the claim is then of policies that do without it, at a price."""
        withdraw(self._stored, action, reason, at=self._now())

    def status(self) -> Status:
        """Where it stands, as of the last look and with what has come since."""
        return read_status(self._stored, self._missed, at=self._now())

    def result(self) -> ExperimentResult:
        """What is proven so far, and of which policy."""
        return read_result(self._stored)

    def seal(self) -> Seal:
        """The record's chain: its head, to be noted down, and all entries."""
        return read_seal(self._stored)

    def payload(self) -> Json:
        """What is played now, in JSON: a client can tell from it with what probability anybody gets what."""
        with self.database.reading() as connection:
            now = self._stored.rounds(connection)[-1]
        return {
            "experiment": self.name,
            "round": now.number,
            "kind": now.kind,
            "actions": list(self.protocol.actions),
            "features": list(self.protocol.contexts.names),
            "sampler": json.loads(canonical(now.sampler.to_json())),
        }

    def export(self, target: str | Path | IO[bytes], *, look: int | None = None) -> None:
        """Write the record as one Parquet file that `certify` and `verify` accept, with its chain.

        look: as of which look at the data; by default that of the result, so that its certificate is of this file.
            0 for all that there is now.
        """
        if look is not None:
            whole_number(look, name="look", least=0, most=MAX_LOOKS)
        if isinstance(target, str | Path) or not hasattr(target, "write"):
            target = path_of(target)
        write_export(target, self._stored, look=look)

    def close(self) -> None:
        """Give back what is held of the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _now(self) -> int:
        return microseconds(self._clock())


def list_experiments(database: str | Path) -> tuple[str, ...]:
    """The names of all experiments in a database."""
    return Database(database).names()


def _rows(given: object) -> list[Mapping[str, Value]]:
    """The rows of a data frame, or of a sequence of mappings."""
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return list(cast(Sequence[Mapping[str, Value]], given))
    return arrow_table(given).to_pylist()


def _granted(answers: list[Assignment | InputError]) -> list[Assignment]:
    """The assignments, if all were made."""
    out: list[Assignment] = []
    for one in answers:
        if isinstance(one, InputError):
            raise one
        out.append(one)
    return out
