"""Steering by hand: pausing, stopping, closing a round, withdrawing an action; each is an entry of the record."""

from __future__ import annotations

import json
from dataclasses import replace

from pacbandits.checks import text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment import tables
from pacbandits.experiment.assigning import CERTIFIED, COLLECTING, PAUSED, STOPPED
from pacbandits.experiment.book import Book
from pacbandits.experiment.database import Connection, Database
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.fixed import Fixed
from pacbandits.experiment.live_design import LiveDesign, without
from pacbandits.experiment.opened_rounds import Rounds, open_round
from pacbandits.experiment.refusals import NotCollecting
from pacbandits.experiment.rounds import LOOK, Round
from pacbandits.experiment.stored_rows import Standing, check_reason
from pacbandits.experiment.times import spell


class Steerer:
    """Steers one experiment."""

    def __init__(self, database: Database, fixed: Fixed, rounds: Rounds) -> None:
        self._database, self._fixed, self._rounds = database, fixed, rounds

    def pause(self, reason: str, *, at: int) -> None:
        """Take in nobody new until it is resumed; rewards still come in."""
        self._change(PAUSED, "paused", reason, of=(COLLECTING, CERTIFIED), at=at)

    def resume(self, reason: str, *, at: int) -> None:
        """Go on after a pause, with the round that was open."""
        self._change(COLLECTING, "resumed", reason, of=(PAUSED,), at=at)

    def stop(self, reason: str, *, at: int) -> None:
        """Take in nobody new for good; what is proven stays proven, and late rewards still count."""
        self._change(STOPPED, "stopped", reason, of=(COLLECTING, CERTIFIED, PAUSED), at=at)

    def close_round(self, reason: str, *, at: int) -> None:
        """End the open round now; the next is designed from what is known."""
        with self._database.writing(self._fixed.name) as (connection, standing):
            self._check(standing, (COLLECTING,), "its round cannot be closed")
            now = self._rounds.read(connection)[standing.round]
            if now.kind == "continued":
                return
            if standing.round_rows == 0:
                raise InputError("nobody has taken part in the open round yet; it can be closed once somebody has")
            book = Book(connection, standing, at=at)
            book.enter("round closed", {"reason": check_reason(reason), "number": now.number})
            open_round(book, now.continued(rows=int(standing.rows)))
            book.close()

    def withdraw(self, action: str, reason: str, *, at: int) -> None:
        """Never play an action again, from this moment on."""
        protocol = self._fixed.protocol
        if text(action, name="action") not in protocol.actions:
            raise InputError(f"there is no action '{plain(action)}'{nearest(action, protocol.actions)}")
        with self._database.writing(self._fixed.name) as (connection, standing):
            self._check(standing, (COLLECTING, CERTIFIED, PAUSED), "no action can be withdrawn")
            before: list[str] = json.loads(standing.withdrawn)
            if action in before:
                return
            gone = tuple(name for name in protocol.actions if name in (*before, action))
            protocol.trial(gone)  # or a sentence, where too few are left, or the class cannot do without
            rounds = self._rounds.read(connection)
            last = next(one for one in reversed(rounds) if isinstance(one.sampler, LiveDesign))
            assert isinstance(last.sampler, LiveDesign)
            book = Book(connection, standing, at=at)
            book.enter("withdrawn", {"action": action, "reason": check_reason(reason)})
            # Planned for one person, so that the next is designed as soon as enough is known.
            new: Round = replace(
                last,
                number=rounds[-1].number + 1,
                kind="design",
                planned=1,
                sampler=without(last.sampler, self._fixed.numbers(gone)),
                design=rounds[-1].number + 1,
            )
            open_round(book, new)
            book.changes |= {"withdrawn": json.dumps(list(gone))}
            if standing.state == CERTIFIED:
                book.changes |= {"state": COLLECTING, "reason": ""}
            book.close()

    def _change(self, state: str, kind: str, reason: str, *, of: tuple[str, ...], at: int) -> None:
        words = check_reason(reason)
        with self._database.writing(self._fixed.name) as (connection, standing):
            self._check(standing, of, f"it cannot be {kind}")
            if kind == "resumed" and self._rounds.read(connection)[standing.round].kind == "deployed":
                state = CERTIFIED
            book = Book(connection, standing, at=at)
            book.enter(kind, {"reason": words})
            book.changes |= {"state": state, "reason": words if state in (PAUSED, STOPPED) else ""}
            book.close()

    def _check(self, standing: Standing, states: tuple[str, ...], what: str) -> None:
        if standing.state not in states:
            raise NotCollecting(f"the experiment '{plain(self._fixed.name)}' is {standing.state}; {what}")


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
