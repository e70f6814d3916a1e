"""Steering by hand: pausing, stopping, closing a round, withdrawing an action; each is an entry of the record."""

from __future__ import annotations

import json
from dataclasses import replace

from pacbandits.checks import text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment import tables
from pacbandits.experiment.database import Connection
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.live_design import LiveDesign, without
from pacbandits.experiment.refusals import NotCollecting
from pacbandits.experiment.rounds import LOOK, Round
from pacbandits.experiment.store import CERTIFIED, COLLECTING, PAUSED, STOPPED, StoredExperiment
from pacbandits.experiment.stored_rows import Standing, check_reason
from pacbandits.experiment.times import spell


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
