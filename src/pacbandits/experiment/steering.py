"""Steering by hand: pausing, stopping, closing a round, withdrawing an action; each is an entry of the record."""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any

from pacbandits.checks import text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.analyses import Found, GuardrailLook, GuardrailTest, Look, find_out, guardrail_of, look_at
from pacbandits.experiment.database import Connection, NotCollecting, spell
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.rounds import ENDLESS, LOOK, Deployed, LiveDesign, Round, live, without
from pacbandits.experiment.store import (
    CERTIFIED,
    COLLECTING,
    PAUSED,
    STOPPED,
    TAKING_IN,
    History,
    Snapshot,
    StoredExperiment,
    insert_many,
)
from pacbandits.experiment.stored_rows import AnalysisRow, Standing, check_reason
from pacbandits.policies.registry import class_to_json
from pacbandits.records import Policy
from pacbandits.trials.trial import TrialPlan, TrialState


def change_state(stored: StoredExperiment, state: str, kind: str, reason: str, *, of: tuple[str, ...], at: int) -> None:
    """Enter a pause, its end or the end of an experiment; raise unless it is in one of these states.

    state: the new one. kind: of the entry. of: states in which it can be done.
    """
    words = check_reason(reason)
    with stored.writing(at=at) as transaction:
        _check(transaction.standing, of, f"it cannot be {kind}")
        number = transaction.standing.round
        if kind == "resumed" and stored.rounds(transaction.connection)[number].kind == "deployed":
            state = CERTIFIED
        transaction.enter(kind, {"reason": words})
        transaction.changes |= {"state": state, "reason": words if state in (PAUSED, STOPPED) else ""}


def close_round(stored: StoredExperiment, reason: str, *, at: int) -> None:
    """End the open round now; the next is designed from what is known."""
    with stored.writing(at=at) as transaction:
        standing = transaction.standing
        _check(standing, (COLLECTING,), "its round cannot be closed")
        now = stored.rounds(transaction.connection)[standing.round]
        if now.kind == "continued":
            return
        if standing.round_rows == 0:
            raise InputError("nobody has taken part in the open round yet; it can be closed once somebody has")
        transaction.enter("round closed", {"reason": check_reason(reason), "number": now.number})
        transaction.open_round(now.continued(rows=standing.rows))


def withdraw(stored: StoredExperiment, action: str, reason: str, *, at: int) -> None:
    """Never play an action again, from this moment on."""
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
        protocol.trial(gone)  # or a sentence, where too few are left, or the class cannot do without
        rounds = stored.rounds(transaction.connection)
        last = next(one for one in reversed(rounds) if isinstance(one.sampler, LiveDesign))
        assert isinstance(last.sampler, LiveDesign)
        transaction.enter("withdrawn", {"action": action, "reason": check_reason(reason)})
        # Planned for one person, so that the next is designed as soon as enough is known.
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


def _check(standing: Standing, states: tuple[str, ...], what: str) -> None:
    if standing.state not in states:
        raise NotCollecting(f"the experiment '{plain(standing.name)}' is {standing.state}; {what}")


def events_in(connection: Connection, name: str, *, most: int) -> list[dict[str, object]]:
    """The last entries of an experiment's record in words, oldest first."""
    t = tables.entries.c
    query = sa.select(t.sequence, t.at, t.kind, t.body).where(t.experiment == name, t.kind != LOOK)
    rows = connection.execute(query.order_by(t.sequence.desc()).limit(most)).all()
    return [
        {
            "sequence": row.sequence,
            "at": spell(row.at),
            "kind": row.kind,
            "words": in_words(row.kind, json.loads(row.body)),
        }
        for row in reversed(rows)
    ]


def in_words(kind: str, body: dict[str, object]) -> str:
    """What an entry says, for people."""
    if kind == "round":
        if body["kind"] == "continued":
            return f"round {body['number']} goes on with the design of round {body['design']}"
        if body["kind"] == "deployed":
            return f"round {body['number']}: everybody gets what the certified policy says"
        return f"round {body['number']} begins, planned for {body['planned']:,}"
    if kind == "withdrawn":
        return f"'{body['action']}' is withdrawn: {body['reason']}"
    if kind == "certified":
        return f"certified: {body['claim']}"
    if kind == "created":
        return "the experiment is created, and its protocol fixed"
    return f"{kind}: {body['reason']}" if body.get("reason") else kind


# What an experiment does by itself: close rounds, look at the data, design the next round, stop.
#
# Whoever advances an experiment takes a lease first, so that others do not do the same work; nothing but time is lost
# if two do it at once, as a round is opened only if no other was since the snapshot that it comes from.


LEASE_SECONDS = 30.0  # for which nobody else does the same, after the last sign of life
_LEASE = round(LEASE_SECONDS * 1e6)
IDLE_SECONDS = 5.0  # after which windows may be over though nothing was recorded
MIN_NEW_SHARE = 0.04  # of the rewards that were known, by how many more another design or look is due
MIN_FIRST_SHARE = 0.5  # of the first round, whose rewards are in when the second is designed


class Advancer:
    """Advances one experiment; keeps what it has read."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, self._history = stored, History(stored)
        self._who = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._looked: tuple[int, int] | None = None  # rows that were in and in all, at the last look
        self._alarmed = frozenset[str]()  # tests of the guardrail whose alarm was dealt with
        self._idle_at = (-1, 0)  # records when nothing was due, and when that was

    def advance(self, *, at: int, at_once: bool = False) -> bool:
        """Do what is due; whether there was anything. at_once: look at the data now, however little is new."""
        closed = self._close_by_clock(at)
        if not (at_once or self._anything_due(at)):
            return closed
        standing = self._lease(at)
        if standing is None:
            return closed
        with self._renewing():
            return self._work(standing, at=at, at_once=at_once) or closed

    def _anything_due(self, at: int) -> bool:
        """Whether there is a reason to take the lease; what is asked often, so it only reads."""
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
        """What is known now."""
        with self._stored.reading() as connection:
            sequence = self._stored.standing(connection).sequence
            rounds = tuple(one for one in self._stored.rounds(connection) if one.sequence < sequence)
            return Snapshot(self._stored, self._history.read(connection), rounds, sequence, at)

    def _close_by_clock(self, at: int) -> bool:
        """Close the open round if its time is over."""
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
        """Where the experiment stands, if nobody else works on it."""
        with self._stored.writing(at=at) as transaction:
            standing = transaction.standing
            if standing.design_until > at and standing.designer != self._who:
                return None
            transaction.changes |= {"designer": self._who, "design_until": at + _LEASE}
            return standing

    @contextmanager
    def _renewing(self) -> Generator[None]:
        """Keep the lease while something is done, and give it back; of a process that dies it ends by itself."""
        over = Event()

        def renew() -> None:
            while not over.wait(LEASE_SECONDS / 3):
                self._set_lease(designer=self._who, design_until=time.time_ns() // 1000 + _LEASE)

        keeper = Thread(target=renew, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            self._set_lease(designer="", design_until=0)

    def _set_lease(self, **values: object) -> None:
        """Change the lease, if it is still this process's."""
        t = tables.standings.c
        query = sa.update(tables.standings).where(t.name == self._stored.name, t.designer == self._who)
        with self._stored.database.engine.begin() as connection:
            connection.execute(query.values(**values))

    def _work(self, standing: Standing, *, at: int, at_once: bool) -> bool:
        """Look at the data, if enough is new, and open the next round, if one is due."""
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
        certificate = found.state.certificate
        if certificate is not None and certificate.certified:
            self._certified(found, look, at)
        elif due and (plan := found.trial.design(found.state)) is not None:
            self._open(found, plan, at)
        return True

    def _sealed_time(self, at: int) -> int:
        """The time of a look; an entry where it tells which windows are over, so that nobody can choose it later."""
        if self._stored.window is None:
            return at
        with self._stored.writing(at=at) as transaction:
            transaction.enter(LOOK, {})
        return transaction.at

    def _due(self, snapshot: Snapshot, standing: Standing) -> bool:
        """Whether the next round is to be designed: the last one's people have come, and enough is known of them."""
        if standing.state != COLLECTING or snapshot.rounds[-1].kind != "continued":
            return False
        usable = _usable(snapshot)
        last = snapshot.rounds[snapshot.rounds[-1].design]
        if last.number == 0:
            return usable >= MIN_FIRST_SHARE * last.planned
        known = int((snapshot.came(last.snapshot, last.snapshot_at) & snapshot.counted)[: last.mature].sum())
        return usable >= (1.0 + MIN_NEW_SHARE) * known

    def _worth_a_look(self, snapshot: Snapshot) -> bool:
        """Whether enough is new since the last look."""
        if self._looked is None:
            return bool(snapshot.counted.any())
        before, all_before = self._looked
        enough = _usable(snapshot) >= (1 + MIN_NEW_SHARE) * before + 1
        return enough or len(snapshot.rows) >= 1.3 * all_before + 1

    def _watch_guardrail(self, snapshot: Snapshot, at: int) -> bool:
        """Pause if the guardrail's outcome is proven to be too frequent; whether it was."""
        found = guardrail_of(snapshot)
        self._alarmed = _alarmed(found)
        if found is None or not found.alarms:
            return False
        with self._stored.writing(at=at) as transaction:
            told = self._resumed_over(transaction.connection, found.alarms)
            if transaction.standing.state not in TAKING_IN or told:
                return False
            body = {"reason": found.words(), "by": "guardrail", "tests": [one.of for one in found.alarms]}
            transaction.enter("paused", body)
            transaction.changes |= {"state": PAUSED, "reason": body["reason"]}
        return True

    def _resumed_over(self, connection: Any, alarms: Sequence[GuardrailTest]) -> bool:
        """Whether somebody resumed the experiment knowing of all these alarms, which never go away."""
        t = tables.entries.c
        query = sa.select(t.body).where(t.experiment == self._stored.name, t.kind == "paused")
        told = {of for body in connection.execute(query).scalars() for of in json.loads(body).get("tests", ())}
        return all(one.of in told for one in alarms)

    def _open(self, found: Found, plan: TrialPlan, at: int) -> None:
        """Open the next round, unless another was opened since."""
        snapshot, state = found.snapshot, found.state
        assert state is not None
        explored = plan.exploration
        with self._stored.writing(at=at) as transaction:
            standing = transaction.standing
            now = self._stored.rounds(transaction.connection)[standing.round]
            same = now.kind == "continued" and now.design == snapshot.rounds[-1].design
            if standing.state != COLLECTING or not same or json.loads(standing.withdrawn) != list(found.withdrawn):
                return
            new = Round(
                number=now.number + 1,
                kind="design",
                planned=plan.samples,
                sampler=without(live(plan.sampler, state.contexts), self._stored.numbers(found.withdrawn)),
                scale=plan.scale,
                price=explored.price,
                since=explored.since,
                leader=_sealed_leader(state),
                design=now.number + 1,
                snapshot=snapshot.sequence,
                snapshot_at=snapshot.at,
                mature=snapshot.mature,
                model=state.model.to_json(),
            )
            transaction.open_round(new)

    def _certified(self, found: Found, look: Look, at: int) -> None:
        """The answer is proven: serve it from now on."""
        state = found.state
        assert state is not None
        assert state.certificate is not None
        with self._stored.writing(at=at) as transaction:
            standing = transaction.standing
            if standing.state != COLLECTING or json.loads(standing.withdrawn) != list(found.withdrawn):
                return  # what is proven may take an action that was withdrawn meanwhile
            last = self._stored.rounds(transaction.connection)[standing.round]
            described = state.certificate.to_json()
            told = {"look": look.number, "claim": described["claim"], "digest": described["digest"]}
            transaction.enter("certified", told)
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
        """Keep what was found."""
        snapshot = found.snapshot
        look, state = look_at(found, at=at), found.state
        certificate = None
        if look.certificate is not None:
            certificate = look.certificate.to_json() | {"class": class_to_json(found.policies)}
        with self._stored.writing(at=at) as transaction:
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
        return look


def _sealed_leader(state: TrialState) -> Policy | None:
    """Who leads the next round: of those who led before, one that acts alike on all known contexts, if there is one."""
    if state.leaders is None or state.leader is None:
        return state.leader
    return state.leaders.followed_by(state.leader, state.contexts, size=1).last


def _usable(snapshot: Snapshot) -> int:
    """Of how many rows the rewards can be learnt from."""
    return int((snapshot.in_ & snapshot.counted)[: snapshot.mature].sum())


def _alarmed(found: GuardrailLook | None) -> frozenset[str]:
    """Which tests of the guardrail raise an alarm."""
    return frozenset[str]() if found is None else frozenset(one.of for one in found.alarms)
