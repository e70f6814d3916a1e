"""What an experiment does by itself: close rounds, look at the data, design the next round, stop.

Whoever advances an experiment takes a lease first, so that others do not do the same work; nothing but time is lost if
two do it at once, as a round is opened only if no other was since the snapshot that it comes from.
"""

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

from pacbandits.experiment import tables
from pacbandits.experiment.assigning import CERTIFIED, COLLECTING, PAUSED, TAKING_IN
from pacbandits.experiment.book import Book, insert_many
from pacbandits.experiment.database import Database, read_standing
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.finding import Found, find_out
from pacbandits.experiment.fixed import Fixed
from pacbandits.experiment.guardrail import GuardrailLook, GuardrailTest, guardrail_of
from pacbandits.experiment.history import History, Snapshot
from pacbandits.experiment.live_design import Deployed, live, without
from pacbandits.experiment.looks import Look, look_at
from pacbandits.experiment.opened_rounds import Rounds, open_round
from pacbandits.experiment.rounds import ENDLESS, LOOK, Round
from pacbandits.experiment.stored_rows import AnalysisRow, Standing
from pacbandits.policies.registry import class_to_json
from pacbandits.records import Policy
from pacbandits.trials.trial import TrialPlan, TrialState

Json = dict[str, Any]
LEASE_SECONDS = 30.0  # for which nobody else does the same, after the last sign of life
_LEASE = round(LEASE_SECONDS * 1e6)
IDLE_SECONDS = 5.0  # after which windows may be over though nothing was recorded
MIN_NEW_SHARE = 0.04  # of the rewards that were known, by how many more another design or look is due
MIN_FIRST_SHARE = 0.5  # of the first round, whose rewards are in when the second is designed


class Advancer:
    """Advances one experiment; keeps what it has read."""

    def __init__(self, database: Database, fixed: Fixed, rounds: Rounds) -> None:
        self._database, self._fixed, self._rounds = database, fixed, rounds
        self._history = History(fixed)
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
        with self._database.reading() as connection:
            standing = read_standing(connection, self._fixed.name)
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
        with self._database.reading() as connection:
            t = tables.standings.c
            sequence = connection.execute(sa.select(t.sequence).where(t.name == self._fixed.name)).scalar_one()
            rounds = tuple(one for one in self._rounds.read(connection) if one.sequence < sequence)
            return Snapshot(self._fixed, self._history.read(connection), rounds, int(sequence), at)

    def _close_by_clock(self, at: int) -> bool:
        """Close the open round if its time is over."""
        hours = self._fixed.protocol.round_hours
        if hours is None:
            return False

        def over(standing: Standing, rounds: Sequence[Round]) -> bool:
            now = rounds[standing.round]
            full = at >= now.opened + hours * 3600e6 and standing.round_rows > 0
            return standing.state == COLLECTING and now.kind == "design" and full

        with self._database.reading() as connection:
            if not over(read_standing(connection, self._fixed.name), self._rounds.read(connection)):
                return False
        with self._database.writing(self._fixed.name) as (connection, standing):
            rounds = self._rounds.read(connection)
            if not over(standing, rounds):
                return False
            book = Book(connection, standing, at=at)
            open_round(book, rounds[standing.round].continued(rows=standing.rows))
            book.close()
        return True

    def _lease(self, at: int) -> Standing | None:
        """Where the experiment stands, if nobody else works on it."""
        with self._database.writing(self._fixed.name) as (connection, standing):
            if standing.design_until > at and standing.designer != self._who:
                return None
            changes = {"designer": self._who, "design_until": at + _LEASE}
            connection.execute(_experiment(self._fixed.name).values(changes))
            return standing

    @contextmanager
    def _renewing(self) -> Generator[None]:
        """Keep the lease while something is done, and give it back; of a process that dies it ends by itself."""
        over, mine = Event(), tables.standings.c.designer == self._who

        def renew() -> None:
            while not over.wait(LEASE_SECONDS / 3):
                self._set_lease(mine, designer=self._who, design_until=time.time_ns() // 1000 + _LEASE)

        keeper = Thread(target=renew, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            self._set_lease(mine, designer="", design_until=0)

    def _set_lease(self, mine: Any, **values: object) -> None:
        with self._database.engine.begin() as connection:
            connection.execute(_experiment(self._fixed.name).where(mine).values(**values))

    def _work(self, standing: Standing, *, at: int, at_once: bool) -> bool:
        """Look at the data, if enough is new, and open the next round, if one is due."""
        snapshot = self.snapshot(at=max(at, standing.seen_until))
        paused = self._watch_guardrail(snapshot, at)
        due = self._due(snapshot, standing)
        if not (paused or due or at_once or self._worth_a_look(snapshot)):
            return False
        snapshot = self.snapshot(at=self._sealed_time(at))
        found = find_out(self._fixed, snapshot, tuple(json.loads(standing.withdrawn)))
        self._looked = _counts(snapshot)
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
        if self._fixed.window is None:
            return at
        with self._database.writing(self._fixed.name) as (connection, standing):
            book = Book(connection, standing, at=at)
            book.enter(LOOK, {})
            book.close()
        return book.at

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
        now, all_now = _counts(snapshot)
        return now >= (1 + MIN_NEW_SHARE) * before + 1 or all_now >= 1.3 * all_before + 1

    def _watch_guardrail(self, snapshot: Snapshot, at: int) -> bool:
        """Pause if the guardrail's outcome is proven to be too frequent; whether it was."""
        found = guardrail_of(snapshot)
        self._alarmed = _alarmed(found)
        if found is None or not found.alarms:
            return False
        with self._database.writing(self._fixed.name) as (connection, standing):
            if standing.state not in TAKING_IN or self._resumed_over(connection, found.alarms):
                return False
            book = Book(connection, standing, at=at)
            body = {"reason": found.words(), "by": "guardrail", "tests": [one.of for one in found.alarms]}
            book.enter("paused", body)
            book.changes |= {"state": PAUSED, "reason": body["reason"]}
            book.close()
        return True

    def _resumed_over(self, connection: Any, alarms: Sequence[GuardrailTest]) -> bool:
        """Whether somebody resumed the experiment knowing of all these alarms, which never go away."""
        t = tables.entries.c
        query = sa.select(t.body).where(t.experiment == self._fixed.name, t.kind == "paused")
        told = {of for body in connection.execute(query).scalars() for of in json.loads(body).get("tests", ())}
        return all(one.of in told for one in alarms)

    def _open(self, found: Found, plan: TrialPlan, at: int) -> None:
        """Open the next round, unless another was opened since."""
        snapshot, state = found.snapshot, found.state
        assert state is not None
        explored = plan.exploration
        with self._database.writing(self._fixed.name) as (connection, standing):
            now = self._rounds.read(connection)[standing.round]
            same = now.kind == "continued" and now.design == snapshot.rounds[-1].design
            if standing.state != COLLECTING or not same or json.loads(standing.withdrawn) != list(found.withdrawn):
                return
            book = Book(connection, standing, at=at)
            new = Round(
                number=now.number + 1,
                kind="design",
                planned=plan.samples,
                sampler=without(live(plan.sampler, state.contexts), self._fixed.numbers(found.withdrawn)),
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
            open_round(book, new)
            book.close()

    def _certified(self, found: Found, look: Look, at: int) -> None:
        """The answer is proven: serve it from now on."""
        state = found.state
        assert state is not None
        assert state.certificate is not None
        with self._database.writing(self._fixed.name) as (connection, standing):
            if standing.state != COLLECTING or json.loads(standing.withdrawn) != list(found.withdrawn):
                return  # what is proven may take an action that was withdrawn meanwhile
            last = self._rounds.read(connection)[standing.round]
            book = Book(connection, standing, at=at)
            described = state.certificate.to_json()
            book.enter("certified", {"look": look.number, "claim": described["claim"], "digest": described["digest"]})
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
            open_round(book, deployed)
            book.changes |= {"state": CERTIFIED, "reason": ""}
            book.close()

    def _store_look(self, found: Found, at: int) -> Look:
        """Keep what was found."""
        snapshot = found.snapshot
        look, state = look_at(self._fixed.protocol, found, at=at), found.state
        certificate = None
        if look.certificate is not None:
            certificate = look.certificate.to_json() | {"class": class_to_json(found.policies)}
        with self._database.writing(self._fixed.name) as (connection, standing):
            number = int(standing.look) + 1
            look = replace(look, number=number)
            row = AnalysisRow(
                experiment=self._fixed.name,
                number=number,
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
            insert_many(connection, tables.looks, [row])
            connection.execute(_experiment(self._fixed.name).values(look=number))
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


def _counts(snapshot: Snapshot) -> tuple[int, int]:
    """How many rows can be learnt from, and how many there are."""
    return _usable(snapshot), len(snapshot.rows)


def _experiment(name: str) -> Any:
    """An update of an experiment's row."""
    return sa.update(tables.standings).where(tables.standings.c.name == name)
