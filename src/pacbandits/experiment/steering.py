"""Steer an experiment: manual changes (pause, stop, close a round, withdraw an action) and automatic progress.

Each change is an entry of the event log.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any

from pacbandits.checks import finite, text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment import webhooks
from pacbandits.experiment.analyses import Found, GuardrailLook, GuardrailTest, Look, find_out, guardrail_of, look_at
from pacbandits.experiment.chain import mark_of
from pacbandits.experiment.database import NotCollecting
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.rounds import ENDLESS, LOOK, Deployed, Round, StoredSampler, live, without
from pacbandits.experiment.store import (
    CERTIFIED,
    COLLECTING,
    PAUSED,
    STOPPED,
    TAKING_IN,
    History,
    Snapshot,
    StoredExperiment,
    Transaction,
    insert_many,
)
from pacbandits.experiment.stored_rows import AnalysisRow, Standing, check_reason
from pacbandits.policies.registry import class_to_json
from pacbandits.records import Policy
from pacbandits.schema import Json
from pacbandits.trials.trial import TrialPlan, TrialState


def change_state(
    stored: StoredExperiment, state: str, kind: str, reason: str, *, of: tuple[str, ...], at: int | None, by: str = ""
) -> None:
    """Pause, resume or stop an experiment; raise NotCollecting unless it is in one of the states `of`.

    state: the new state. kind: kind of the log entry. of: states in which this is allowed. by: who asked for it.
    """
    words = check_reason(reason)
    with stored.writing(at=at) as transaction:
        _check(transaction.standing, of, f"it cannot be {kind}")
        number = transaction.standing.round
        if kind == "resumed" and stored.rounds(transaction.connection)[number].kind == "deployed":
            state = CERTIFIED
        transaction.enter(kind, _steered({"reason": words}, by))
        transaction.changes |= {"state": state, "reason": words if state in (PAUSED, STOPPED) else ""}


def forget_units(stored: StoredExperiment, reason: str, *, at: int | None, by: str = "") -> None:
    """Replace the key of the hashes of units by a random one; units that are stored as they are, are hashed first."""
    a, e = tables.assignments, tables.experiments
    with stored.writing(at=at) as transaction:
        _check(transaction.standing, (STOPPED,), "its units can be forgotten once it is stopped")
        ask = transaction.connection.execute
        fixed = ask(sa.select(e.c.secret, e.c.pseudonymous).where(e.c.name == stored.name)).one()
        if not fixed.pseudonymous:
            secret = bytes(fixed.secret)
            for row, unit in ask(sa.select(a.c.row, a.c.unit).where(a.c.experiment == stored.name)).all():
                hashed = mark_of(secret, unit).hex()
                ask(sa.update(a).where(a.c.experiment == stored.name, a.c.row == row).values(unit=hashed))
        forgotten = {"secret": secrets.token_bytes(len(fixed.secret)), "pseudonymous": 1}
        ask(sa.update(e).where(e.c.name == stored.name).values(**forgotten))
        transaction.enter("units forgotten", _steered({"reason": check_reason(reason)}, by))


def note_restore(stored: StoredExperiment, reason: str, *, at: int | None) -> None:
    """Say in the event log that the database was restored from a backup, so that processes read everything anew."""
    with stored.writing(at=at) as transaction:
        transaction.restart({"reason": check_reason(reason)}, transaction.standing.incarnation + 1)


def close_round(stored: StoredExperiment, reason: str, *, at: int | None, by: str = "") -> None:
    """Close the open round now, so that the next one is designed from the data so far."""
    with stored.writing(at=at) as transaction:
        standing = transaction.standing
        _check(standing, (COLLECTING,), "its round cannot be closed")
        now = stored.rounds(transaction.connection)[standing.round]
        if now.kind == "continued":
            return
        if standing.round_rows == 0:
            raise InputError("nobody has taken part in the open round yet; it can be closed once somebody has")
        transaction.enter("round closed", _steered({"reason": check_reason(reason), "number": now.number}, by))
        transaction.open_round(now.continued(rows=standing.rows))


def withdraw(stored: StoredExperiment, action: str, reason: str, *, at: int | None, by: str = "") -> None:
    """Exclude an action from now on."""
    protocol = stored.protocol
    if text(action, name="action") not in protocol.actions:
        raise InputError(f"there is no action '{plain(action)}'{nearest(action, protocol.actions)}")
    with stored.writing(at=at) as transaction:
        standing = transaction.standing
        _check(standing, (COLLECTING, CERTIFIED, PAUSED), "no action can be withdrawn")
        before: list[str] = json.loads(standing.withdrawn)
        if action in before:
            return
        gone = tuple(name for name in protocol.actions if name in (*before, action))
        protocol.trial(gone)  # raises if too few actions are left, or if the class needs this one
        rounds = stored.rounds(transaction.connection)
        last = next(one for one in reversed(rounds) if isinstance(one.sampler, StoredSampler))
        assert isinstance(last.sampler, StoredSampler)
        transaction.enter("withdrawn", _steered({"action": action, "reason": check_reason(reason)}, by))
        # Planned for one unit, so that the next round is designed as soon as there are enough data.
        new: Round = replace(
            last,
            number=rounds[-1].number + 1,
            kind="design",
            planned=1,
            sampler=without(last.sampler, stored.numbers(gone)),
            design=rounds[-1].number + 1,
        )
        transaction.open_round(new)
        transaction.changes |= {"withdrawn": json.dumps(list(gone))}
        if standing.state == CERTIFIED:
            transaction.changes |= {"state": COLLECTING, "reason": ""}


def _steered(body: Json, by: str) -> Json:
    """Return the body of an entry with who asked for it, if that is known."""
    return body | {"by": by} if by else body


def _check(standing: Standing, states: tuple[str, ...], what: str) -> None:
    if standing.state not in states:
        raise NotCollecting(f"the experiment '{plain(standing.name)}' is {standing.state}; {what}")


# Automatic progress: close rounds, analyse the data, design the next round, certify.
#
# A process takes a lease before it advances an experiment, so that others do not repeat the work. Two at once would
# only waste time: a round is opened only if no other was opened since the snapshot it is based on.


LEASE_SECONDS = 30.0  # from the last renewal
_LEASE = round(LEASE_SECONDS * 1e6)
IDLE_SECONDS = 5.0  # after which to check again without new records, as windows may have ended
MIN_NEW_SHARE = 0.04  # new rewards, relative to those known before, that make another design or analysis due
MIN_FIRST_SHARE = 0.5  # share of the first round whose rewards must be known before the second is designed


class Advancer:
    """Advances one experiment; caches the rows it has read."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, self._history, self._incarnation = stored, History(stored), 0
        self._who = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._looked: tuple[int, int] | None = None  # usable rows and all rows at the last analysis
        self._alarmed = frozenset[str]()  # guardrail tests whose alarm was handled
        self._idle_at = (-1, 0)  # number of records and time when nothing was due

    def advance(self, *, at: int | None, at_once: bool = False) -> bool:
        """Do the work that is due; return whether there was any.

        at: the time; by default that of the database's clock. at_once: analyse now, however few data are new.
        """
        at = self._stored.database.clock() if at is None else at
        closed = self._close_by_clock(at)
        if not (at_once or self._anything_due(at)):
            return closed
        standing = self._lease(at)
        if standing is None:
            return closed
        with self._renewing():
            return self._work(standing, at=at, at_once=at_once) or closed

    def _anything_due(self, at: int) -> bool:
        """Return whether there is a reason to take the lease; called often, so it only reads."""
        with self._stored.reading() as connection:
            standing = self._stored.standing(connection)
        if standing.sequence == self._idle_at[0] and at < self._idle_at[1] + IDLE_SECONDS * 1e6:
            return False
        snapshot = self.snapshot(at=at)
        alarmed = standing.state in TAKING_IN and _alarmed(guardrail_of(snapshot)) > self._alarmed
        due = self._due(snapshot, standing) or self._worth_a_look(snapshot) or alarmed
        if not due:
            self._idle_at = (snapshot.sequence, at)
        return due

    def snapshot(self, *, at: int) -> Snapshot:
        """Return the current snapshot."""
        with self._stored.reading() as connection:
            standing = self._stored.standing(connection)
            sequence = standing.sequence
            if standing.incarnation != self._incarnation:  # rows read before may have been lost
                self._history, self._incarnation, self._looked = History(self._stored), standing.incarnation, None
            rounds = tuple(one for one in self._stored.rounds(connection) if one.sequence < sequence)
            return Snapshot(self._stored, self._history.read(connection), rounds, sequence, at)

    def _close_by_clock(self, at: int) -> bool:
        """Close the open round if its maximum length is reached and it has a row; return whether it was closed."""
        hours = self._stored.protocol.round_hours
        if hours is None:
            return False

        def over(standing: Standing, rounds: Sequence[Round]) -> bool:
            now = rounds[standing.round]
            full = at >= now.opened + hours * 3600e6 and standing.round_rows > 0
            return standing.state == COLLECTING and now.kind == "design" and full

        with self._stored.reading() as connection:
            if not over(self._stored.standing(connection), self._stored.rounds(connection)):
                return False
        with self._stored.writing(at=at) as transaction:
            standing, rounds = transaction.standing, self._stored.rounds(transaction.connection)
            if not over(standing, rounds):
                return False
            transaction.open_round(rounds[standing.round].continued(rows=standing.rows))
        return True

    def _lease(self, at: int) -> Standing | None:
        """Take the lease and return the experiment's row; None if another process holds the lease."""
        with self._stored.writing(at=at) as transaction:
            standing = transaction.standing
            # A lease lasts LEASE_SECONDS: one that ends later was taken by a clock that was wrong, and is void.
            if at < standing.design_until <= at + 2 * _LEASE and standing.designer != self._who:
                return None
            transaction.changes |= {"designer": self._who, "design_until": at + _LEASE}
            return standing

    @contextmanager
    def _renewing(self) -> Generator[None]:
        """Renew the lease during the block and release it at the end; if the process dies, the lease expires."""
        over = Event()

        def renew() -> None:
            while not over.wait(LEASE_SECONDS / 3):
                self._set_lease(designer=self._who, design_until=self._stored.database.clock() + _LEASE)

        keeper = Thread(target=renew, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            self._set_lease(designer="", design_until=0)

    def _set_lease(self, **values: object) -> None:
        """Update the lease if this process still holds it."""
        t = tables.standings.c
        query = sa.update(tables.standings).where(t.name == self._stored.name, t.designer == self._who)
        with self._stored.database.engine.begin() as connection:
            connection.execute(query.values(**values))

    def _work(self, standing: Standing, *, at: int, at_once: bool) -> bool:
        """Analyse the data if enough is new, then certify or open the next round if due; return whether it did."""
        snapshot = self.snapshot(at=max(at, standing.seen_until))
        paused = self._watch_guardrail(snapshot, at)
        due = self._due(snapshot, standing)
        if not (paused or due or at_once or self._worth_a_look(snapshot)):
            return False
        snapshot = self.snapshot(at=self._sealed_time(at))
        found = find_out(snapshot, tuple(json.loads(standing.withdrawn)))
        self._looked = _usable(snapshot), len(snapshot.rows)
        look = self._store_look(found, at)
        if paused or standing.state != COLLECTING or found.state is None:
            return True
        if found.state.finished:
            self._certified(found, look, at)
        elif due and (plan := found.trial.design(found.state)) is not None:
            self._open(found, plan, at)
        return True

    def _sealed_time(self, at: int) -> int:
        """Return the time of an analysis; with a window, log it first, so that it cannot be chosen afterwards."""
        if self._stored.window is None:
            return at
        with self._stored.writing(at=at) as transaction:
            transaction.enter(LOOK, {})
        return transaction.at

    def _due(self, snapshot: Snapshot, standing: Standing) -> bool:
        """Return whether to design the next round: the last design's round is over, and enough rewards are known.

        As many new ones as the round was planned for are enough: a simulated trial waits for no others.
        """
        if standing.state != COLLECTING or not _is_over(snapshot.rounds[-1], standing):
            return False
        usable = _usable(snapshot)
        last = snapshot.rounds[snapshot.rounds[-1].design]
        if last.number == 0:
            return usable >= MIN_FIRST_SHARE * last.planned
        known = int((snapshot.came(last.snapshot, last.snapshot_at) & snapshot.counted)[: last.mature].sum())
        return usable >= min((1.0 + MIN_NEW_SHARE) * known, known + last.planned)

    def _worth_a_look(self, snapshot: Snapshot) -> bool:
        """Return whether enough rewards or rows are new since the last analysis."""
        if self._looked is None:
            return bool(snapshot.counted.any())
        before, all_before = self._looked
        enough = _usable(snapshot) >= (1 + MIN_NEW_SHARE) * before + 1
        return enough or len(snapshot.rows) >= 1.3 * all_before + 1

    def _watch_guardrail(self, snapshot: Snapshot, at: int) -> bool:
        """Pause the experiment if the guardrail raises a new alarm; return whether it did."""
        found = guardrail_of(snapshot)
        self._alarmed = _alarmed(found)
        if found is None or not found.alarms:
            return False
        with self._stored.writing(at=at) as transaction:
            told = self._resumed_over(transaction.connection, found.alarms)
            if transaction.standing.state not in TAKING_IN or told:
                return False
            body = {"reason": found.words(), "by": "guardrail", "tests": [one.of for one in found.alarms]}
            cause = transaction.sequence
            transaction.enter("paused", body)
            transaction.changes |= {"state": PAUSED, "reason": body["reason"]}
            words, details = (
                f"paused by its guardrail: {body['reason']}",
                {"reason": body["reason"], "tests": body["tests"]},
            )
            self._tell(transaction, webhooks.GUARDRAIL, cause, words, details)
        return True

    def _resumed_over(self, connection: Any, alarms: Sequence[GuardrailTest]) -> bool:
        """Return whether all these alarms caused earlier pauses: alarms persist, so a resume accepted them."""
        t = tables.entries.c
        query = sa.select(t.body).where(t.experiment == self._stored.name, t.kind == "paused")
        told = {of for body in connection.execute(query).scalars() for of in json.loads(body).get("tests", ())}
        return all(one.of in told for one in alarms)

    def _open(self, found: Found, plan: TrialPlan, at: int) -> None:
        """Open the next round, unless the experiment changed since the snapshot."""
        snapshot, state = found.snapshot, found.state
        assert state is not None
        explored = plan.exploration
        with self._stored.writing(at=at) as transaction:
            standing = transaction.standing
            now = self._stored.rounds(transaction.connection)[standing.round]
            same = _is_over(now, standing) and now.design == snapshot.rounds[-1].design
            if self._is_outdated(standing, found) or not same:
                return
            new = Round(
                number=now.number + 1,
                kind="design",
                planned=plan.samples,
                sampler=without(live(plan.sampler, state.contexts), self._stored.numbers(found.withdrawn)),
                scale=plan.scale,
                price=explored.price,
                since=explored.since,
                leader=sealed_leader(state),
                design=now.number + 1,
                snapshot=snapshot.sequence,
                snapshot_at=snapshot.at,
                mature=snapshot.mature,
                model=state.model.to_json(),
            )
            transaction.open_round(new)

    def _is_outdated(self, standing: Standing, found: Found) -> bool:
        """Return whether an analysis may no longer change the experiment: it is not collecting, or has changed."""
        changed = json.loads(standing.withdrawn) != list(found.withdrawn) or standing.incarnation != self._incarnation
        return standing.state != COLLECTING or changed

    def _certified(self, found: Found, look: Look, at: int) -> None:
        """Record the certification, and open a round that deploys the certified policy."""
        state = found.state
        assert state is not None
        assert state.certificate is not None
        with self._stored.writing(at=at) as transaction:
            standing = transaction.standing
            if self._is_outdated(standing, found):
                return  # the certified policy may use an action withdrawn meanwhile
            last = self._stored.rounds(transaction.connection)[standing.round]
            described = state.certificate.to_json()
            told = {"look": look.number, "claim": described["claim"], "digest": described["digest"]}
            cause = transaction.sequence
            transaction.enter("certified", told)
            claim = look.claim or {}
            details = {"analysis": look.number, "claim": claim.get("describe"), "digest": described["digest"]}
            self._tell(transaction, webhooks.CERTIFIED, cause, f"certified: {claim.get('describe')}", details)
            deployed = replace(
                last,
                number=last.number + 1,
                kind="deployed",
                planned=ENDLESS,
                sampler=Deployed(state.certificate.policy),
                design=last.number + 1,
                snapshot=found.snapshot.sequence,
                snapshot_at=found.snapshot.at,
                mature=found.snapshot.mature,
            )
            transaction.open_round(deployed)
            transaction.changes |= {"state": CERTIFIED, "reason": ""}

    def _store_look(self, found: Found, at: int) -> Look:
        """Make the interim analysis and store it; return it with its number."""
        snapshot = found.snapshot
        look, state = look_at(found, at=at), found.state
        certificate = None
        if look.certificate is not None:
            certificate = look.certificate.to_json() | {"class": class_to_json(found.policies)}
        with self._stored.writing(at=at) as transaction:
            if transaction.standing.incarnation != self._incarnation:
                raise InputError("the database went back to an earlier state during the analysis; it is made again")
            look = replace(look, number=transaction.standing.look + 1)
            row = AnalysisRow(
                experiment=self._stored.name,
                number=look.number,
                at=at,
                rows=len(snapshot.rows),
                sequence=snapshot.sequence,
                round=snapshot.rounds[-1].number,
                samples=0 if state is None else state.samples,
                withdrawn=len(found.withdrawn),
                best=math.inf if look.certificate is None else look.certificate.certified_epsilon,
                body=json.dumps(look.to_json()),
                certificate=None if certificate is None else json.dumps(certificate),
            )
            insert_many(transaction.connection, tables.looks, [row])
            transaction.changes |= {"look": look.number}
            for one in (look.health or {}).get("checks", ()):
                if one["alarm"]:  # alarms persist: the first tells of all
                    details = {"analysis": look.number, "words": one["words"], "needed": one["needed"]}
                    details["evidence"] = finite(one["evidence"])
                    self._tell(transaction, webhooks.OF_CHECK[one["name"]], "", one["words"], details)
        return look

    def _tell(self, transaction: Transaction, event: str, cause: object, words: str, details: Json) -> None:
        """Store the deliveries of an event to webhooks, in its transaction."""
        told, at, rehearsal = transaction.connection, transaction.at, self._stored.protocol.rehearsal
        webhooks.queue(
            told, self._stored.name, event, cause=cause, at=at, words=words, details=details, rehearsal=rehearsal
        )


def sealed_leader(state: TrialState) -> Policy | None:
    """Return the leader of the next round: an earlier leader that acts the same on all known contexts, if any."""
    if state.leaders is None or state.leader is None:
        return state.leader
    return state.leaders.followed_by(state.leader, state.contexts, size=1).last


def _is_over(now: Round, standing: Standing) -> bool:
    """Return whether the open round is a continued one, or has as many rows as it was planned for."""
    full = now.kind == "design" and now.number == standing.round and standing.round_rows >= standing.planned
    return now.kind == "continued" or full


def _usable(snapshot: Snapshot) -> int:
    """Return the number of mature rows of the trial with a known reward."""
    return int((snapshot.in_ & snapshot.counted)[: snapshot.mature].sum())


def _alarmed(found: GuardrailLook | None) -> frozenset[str]:
    """Return the names of the guardrail tests that raise an alarm."""
    return frozenset[str]() if found is None else frozenset(one.of for one in found.alarms)
