"""Durable experiments: request assignments and report rewards from any process, also after a crash.

    experiment = Experiment.create("checkout.db", protocol)
    given = experiment.assign({"age": 31, "country": "DE"}, unit="u-17")
    experiment.record(given.id, reward=1.0)
    experiment.status(); experiment.result()

All state is in a database; every assignment is committed before it is returned. If a seed is given, the same events
give the same decisions.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Self, cast

import numpy as np

from pacbandits.checks import flag, instance, path_of, whole_number
from pacbandits.errors import InputError, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.assignment_records import Assignment, AssignmentRequest, Recorded, Report, Value
from pacbandits.experiment.assignments import Assigner, record_reports
from pacbandits.experiment.chain import canonical, mark_of
from pacbandits.experiment.database import AlreadyThere, Database, microseconds
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
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rounds import Piloted, Round, live
from pacbandits.experiment.steering import (
    Advancer,
    change_state,
    close_round,
    forget_units,
    note_restore,
    sealed_leader,
    withdraw,
)
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
from pacbandits.experiment.stored_rows import FIRST_METRIC, REWARD, AssignmentRow, ExperimentRow, Standing
from pacbandits.experiment.webhooks import Webhook, add_webhooks, queue_failure, remove_webhooks
from pacbandits.logs.readers import arrow_table
from pacbandits.records import Log
from pacbandits.records.metrics import metric_columns
from pacbandits.schema import Json
from pacbandits.trials.pilot_rows import add_pilot
from pacbandits.trials.trial import TrialState

Clock = Callable[[], datetime]
MAX_LOOKS = 2**31 - 1  # the largest INTEGER of PostgreSQL, which numbers analyses


class Experiment:
    """A durable experiment; make one with `create` or `open`.

    name: the experiment's name.
    protocol: the settings fixed at creation.
    """

    def __init__(self, stored: StoredExperiment, *, clock: Clock | None = None) -> None:
        self.database, self._stored, self._clock = stored.database, stored, clock
        self._assigner, self._advancer = Assigner(stored), Advancer(stored)
        self._missed = 0, Missed(stored)  # of which incarnation

    @property
    def name(self) -> str:
        return self._stored.name

    @property
    def protocol(self) -> ExperimentProtocol:
        return self._stored.protocol

    @classmethod
    def create(
        cls,
        database: str | Path | Database,
        protocol: ExperimentProtocol,
        *,
        clock: Clock | None = None,
        webhooks: Sequence[Webhook] = (),
    ) -> Experiment:
        """Create an experiment with this protocol, which never changes again, and open its first round.

        database: an SQLite file, created if missing, or a URL `postgresql://…`.
        clock: returns the time; by default the database's clock, so that several servers agree.
        webhooks: receivers of its events; no part of the protocol.

        Raises:
            AlreadyThere: If an experiment with that name exists.
        """
        instance(protocol, ExperimentProtocol, name="protocol", remedy="read one by read_protocol, or make one")
        base = database if isinstance(database, Database) else Database(database, create=True)
        trial, policies = protocol.trial()
        state, pilot = trial.start(policies, protocol.contexts), protocol.pilot_rows
        if pilot is None and protocol.pilot is not None:
            raise InputError("the protocol names a pilot without its rows; make it from the log: pilot=read_log(…)[0]")
        if pilot is not None:
            state = add_pilot(trial, state, pilot)
        plan = trial.design(state)
        if plan is None and pilot is not None:
            less = "a smaller epsilon" if protocol.stop == "epsilon" else "a larger gain"
            raise InputError(f"the pilot alone proves what is asked; ask for {less}, or leave out the pilot")
        if plan is None:
            raise InputError(f"an epsilon of {protocol.epsilon:g} is proven without an experiment; ask for less")
        at = base.clock() if clock is None else microseconds(clock())
        begun = state.round_number
        first = Round(
            number=begun,
            kind="design",
            planned=plan.samples,
            sampler=live(plan.sampler, protocol.contexts),
            scale=plan.scale,
            price=plan.exploration.price,
            since=plan.exploration.since,
            leader=sealed_leader(state),
            design=begun,
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
            pseudonymous=1,
        )
        standing = Standing(protocol.name, COLLECTING, planned=first.planned, seen_until=at)
        try:
            with base.engine.begin() as connection:
                _refuse_deleted(connection, protocol.name)
                insert_many(connection, tables.experiments, [fixed])
                insert_many(connection, tables.standings, [standing])
                transaction = Transaction(connection, standing, at=at)
                transaction.enter("created", {"protocol": protocol.published(), "digest": protocol.digest})
                if pilot is not None:
                    rows = store_pilot(transaction, pilot.log, state, protocol, fixed.secret)
                    first = replace(first, snapshot=transaction.sequence, mature=rows)
                transaction.open_round(first)
                transaction.close()
                add_webhooks(connection, protocol.name, webhooks, at=at)
        except exc.IntegrityError:
            raise AlreadyThere(
                f"there is an experiment '{plain(protocol.name)}' already; protocols never change: take another name"
            ) from None
        return cls(StoredExperiment.open(base, protocol.name), clock=clock)

    @classmethod
    def open(cls, database: str | Path | Database, name: str, *, clock: Clock | None = None) -> Experiment:
        """Open the experiment with that name, in its current state.

        Raises:
            UnknownExperiment: If there is none.
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
        """Assign an action: return an `Assignment`, or a list of them for several contexts.

        context: feature values by name; or a data frame or a sequence of such mappings.
        unit: an identifier, so that a returning user gets the same action; without one, a random unit is drawn.
        units: one unit for each of several contexts.

        Raises:
            NotCollecting: If the experiment accepts no new units.
            InputError: If a context does not match the experiment's features; then nothing is assigned.
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
        """Return an assignment or an error for each request; all are stored in one transaction before this returns."""
        return self._assigner.assign(requests, at=self._now())

    def record(
        self,
        assignment: str,
        *,
        reward: float | None = None,
        guardrail: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Recorded:
        """Record the reward of an assignment, however late; repeating the same report changes nothing.

        metrics: the value of each column of the protocol's metrics, by name: {"returned": 0}.

        Raises:
            UnknownAssignment: If this experiment never issued that id.
            Contradiction: If a different value was reported before.
        """
        return self.record_many([Report(assignment, reward, guardrail, metrics)])[0]

    def record_many(self, reports: Sequence[Report]) -> list[Recorded]:
        """Record several reports: either all are stored when this returns, or none is."""
        return record_reports(self._stored, reports, at=self._now())

    def advance(self, *, at_once: bool = False) -> bool:
        """Do the work that is due: close a round, analyse the data, design the next round, certify.

        Return whether anything was done. A service calls this continuously, in a worker process.
        at_once: analyse now, however few data are new.
        """
        try:
            return self._advancer.advance(at=self._now(), at_once=at_once)
        except exc.SQLAlchemyError:
            raise
        except Exception as error:
            queue_failure(self.database, self.name, error, rehearsal=self.protocol.rehearsal)
            raise

    def pause(self, reason: str, *, by: str = "") -> None:
        """Accept no new units until `resume`; with sticky visits, known units still get their action.

        by: who asked for it; the event log keeps it with the reason, here and in the other changes.
        """
        change_state(self._stored, PAUSED, "paused", reason, of=(COLLECTING, CERTIFIED), at=self._now(), by=by)

    def resume(self, reason: str, *, by: str = "") -> None:
        """Accept units again after a pause."""
        change_state(self._stored, COLLECTING, "resumed", reason, of=(PAUSED,), at=self._now(), by=by)

    def stop(self, reason: str, *, by: str = "") -> None:
        """Accept no new units ever again; rewards may still arrive, and count."""
        of = (COLLECTING, CERTIFIED, PAUSED)
        change_state(self._stored, STOPPED, "stopped", reason, of=of, at=self._now(), by=by)

    def close_round(self, reason: str, *, by: str = "") -> None:
        """Close the open round now, so that the next one is designed from the data so far."""
        close_round(self._stored, reason, at=self._now(), by=by)

    def withdraw(self, action: str, reason: str, *, by: str = "") -> None:
        """Exclude an action from now on; the claim then covers policies without it, at a smaller part of δ."""
        withdraw(self._stored, action, reason, at=self._now(), by=by)

    def forget_units(self, reason: str, *, by: str = "") -> None:
        """Delete the key of the hashes by which units are stored, once the experiment is stopped.

        Nobody can then tell whose a row is, nor report a reward; the event log, its chain and the certificate stay
        valid. Other processes must be restarted to forget the key, too.
        """
        forget_units(self._stored, reason, at=self._now(), by=by)

    def note_restore(self, reason: str) -> None:
        """Say in the event log that the database was restored from a backup; running servers then read it anew."""
        note_restore(self._stored, reason, at=self._now())

    def status(self) -> Status:
        """Return the status: the last interim analysis, and the counts since then."""
        now, incarnation = self._now(), self._stored.seen.incarnation
        if self._missed[0] != incarnation:  # rows that it has counted may have been lost
            self._missed = incarnation, Missed(self._stored)
        return read_status(self._stored, self._missed[1], at=self.database.clock() if now is None else now)

    def result(self) -> ExperimentResult:
        """Return the policy with the best claim so far, and its certificate."""
        return read_result(self._stored)

    def seal(self) -> Seal:
        """Return the seal of the event log: the head of its hash chain, to be noted down, and all entries."""
        return read_seal(self._stored)

    def payload(self) -> Json:
        """Return the open round's design as JSON, from which a client can compute anyone's propensities."""
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

    def export(self, target: str | Path | IO[bytes], *, look: int | None = None, reveal_seed: bool = False) -> None:
        """Write the whole event log, with its hash chain, as one Parquet file that `certify` and `verify` accept.

        look: the number of the analysis whose data are the log of the file; by default that of the result, so that its
            certificate matches the file. 0 takes all data up to now.
        reveal_seed: disclose the seed, so that `verify` recomputes every draw; whoever reads the file then knows the
            draws to come. A stopped experiment, which draws nothing any more, discloses it always.
        """
        if look is not None:
            whole_number(look, name="look", least=0, most=MAX_LOOKS)
        if isinstance(target, str | Path) or not hasattr(target, "write"):
            target = path_of(target)
        write_export(target, self._stored, look=look, reveal_seed=flag(reveal_seed, name="reveal_seed"))

    def close(self) -> None:
        """Close the database connections."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _now(self) -> int | None:
        """Return the time in microseconds; None for the database's clock."""
        return None if self._clock is None else microseconds(self._clock())


def delete_experiment(database: str | Path | Database, name: str) -> None:
    """Delete an experiment with all its records and keys, for good; its name is never used again.

    Raises:
        UnknownExperiment: If there is none.
    """
    base = database if isinstance(database, Database) else Database(database)
    with base.writing(name) as (connection, _):
        held = sa.select(tables.service_keys.c.id).where(tables.service_keys.c.experiment == name)
        connection.execute(sa.delete(tables.service_sessions).where(tables.service_sessions.c.key.in_(held)))
        for table in (tables.service_keys, tables.assignments, tables.outcomes, tables.entries, tables.looks):
            connection.execute(sa.delete(table).where(table.c.experiment == name))
        remove_webhooks(connection, name)
        for table in (tables.standings, tables.experiments):
            connection.execute(sa.delete(table).where(table.c.name == name))
        connection.execute(sa.insert(tables.deleted_experiments), {"name": name, "at": base.now(connection)})


def _refuse_deleted(connection: tables.Connection, name: str) -> None:
    t = tables.deleted_experiments
    if connection.execute(sa.select(t.c.name).where(t.c.name == name)).one_or_none() is not None:
        raise AlreadyThere(f"there was an experiment '{plain(name)}', which was deleted; take another name")


def list_experiments(database: str | Path) -> tuple[str, ...]:
    """Return the names of all experiments in a database."""
    return Database(database).names()


def _rows(given: object) -> list[Mapping[str, Value]]:
    """Return the rows of a data frame or of a sequence of mappings."""
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return list(cast(Sequence[Mapping[str, Value]], given))
    return arrow_table(given).to_pylist()


def _granted(answers: list[Assignment | InputError]) -> list[Assignment]:
    """Return the assignments; raise the first error among them."""
    out: list[Assignment] = []
    for one in answers:
        if isinstance(one, InputError):
            raise one
        out.append(one)
    return out


def store_pilot(
    transaction: Transaction, log: Log, state: TrialState, protocol: ExperimentProtocol, secret: bytes
) -> int:
    """Append the rounds of a pilot with their rows and rewards to a new event log; return the number of rows.

    log: its rows in the order in which they count. state: of the trial after them. secret: the key of units' hashes.
    """
    assert log.known is None
    (low, high), columns, leaders = protocol.reward_range, metric_columns(protocol.metrics), state.leaders
    ids = () if protocol.contexts.ids is None or log.contexts.ids is None else (log.contexts.ids.astype(np.float64),)
    features = np.column_stack([log.contexts.features, *ids]).astype("<f8")
    propensities, values = log.propensities.astype("<f8"), log.metric_values
    for number in range(int(log.rounds[-1]) + 1):
        rows, plan = np.flatnonzero(log.rounds == number), state.plans[number]
        turn = -1 if leaders is None else leaders.turns[number]
        new = Round(
            number=number,
            kind="pilot",
            planned=plan.samples,
            sampler=Piloted(protocol.n_actions),
            scale=plan.scale,
            price=plan.exploration.price,
            since=plan.exploration.since,
            leader=None if leaders is None or turn < 0 else leaders.policies[turn],
            design=number,
            snapshot=transaction.sequence,
            snapshot_at=transaction.at,
            mature=int(rows[0]),
            model=state.model.to_json(),
        )
        transaction.open_round(new)
        for row in map(int, rows):
            mark = mark_of(secret, f"\x00pilot {row}")  # no unit of the experiment can have that name
            made = AssignmentRow(
                experiment=protocol.name,
                row=row,
                sequence=transaction.sequence,
                unit=mark.hex(),
                visit=0,
                round=number,
                action=int(log.actions[row]),
                holdout=0,
                at=transaction.at,
                features=features[row].tobytes(),
                propensities=propensities[row].tobytes(),
            )
            transaction.assign(made, mark)
        for row in map(int, rows):
            transaction.report(row, REWARD, float(low + (high - low) * log.rewards[row]), late=False)
            for place, one in enumerate(columns):
                assert values is not None
                value = float(one.low + (one.high - one.low) * values[row, place])
                transaction.report(row, FIRST_METRIC + place, value, late=False)
    transaction.changes |= {"rows": len(log), "rewards": len(log)}
    return len(log)
