"""Export an experiment with its sealed event log, and tell its status."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import numpy as np

from pacbandits.errors import InputError
from pacbandits.experiment import database as tables
from pacbandits.experiment.chain import MARK_BYTES, mark_of
from pacbandits.experiment.database import Connection, Row, spell
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.rounds import ENDLESS
from pacbandits.experiment.steering import events_in
from pacbandits.experiment.store import History, Snapshot, StoredExperiment
from pacbandits.experiment.stored_rows import EXPORTED, OUTCOME_KINDS, REWARD, Outcomes, Standing
from pacbandits.records import parquet
from pacbandits.records.log import UNIT_RANGE
from pacbandits.records.log_metadata import RECORD, pack_text
from pacbandits.schema import Json

# Where an experiment stands: what the last look found, and what has come since.


MAX_EVENTS = 200
MAX_CURVE_POINTS = 500
OF_A_LOOK = ("to_go", "value", "arms", "leaves", "policy", "health", "holdout_compared")


@dataclass(frozen=True)
class Status:
    """Where an experiment stands.

    name, state: of it; collecting, certified, paused or stopped.
    certified: whether the answer is proven at the ε that was asked for.
    certified_epsilon: the smallest that is; None before any is.
    assigned: how many were.
    figures: everything, as `to_json` gives it.
    """

    name: str
    state: str
    certified: bool
    certified_epsilon: float | None
    assigned: int
    figures: Json

    def to_json(self) -> Json:
        """Everything, as what JSON knows."""
        return self.figures


@dataclass(frozen=True)
class ExperimentResult:
    """What an experiment has proven.

    name, state: of it.
    certified: whether it is proven at the ε that was asked for.
    promise: the claim with what it assumes, in words; None before anything is.
    policy: in JSON; None before anything is.
    words: what it does.
    certificate: all of the claim in JSON, for `verify`; of the export of the same look.
    look: the number of that look.
    """

    name: str
    state: str
    certified: bool
    promise: str | None
    policy: Json | None
    words: str | None
    certificate: Json | None
    look: int | None

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return dict(vars(self))


def read_status(stored: StoredExperiment, missed: Missed, *, at: int) -> Status:
    """Where an experiment stands."""
    with stored.reading() as connection:
        standing = stored.standing(connection)
        now = stored.rounds(connection)[standing.round]
        last, best = _last_look(connection, stored.name), best_look(connection, standing)
        curve = _curve(connection, stored.name)
        entries = events_in(connection, stored.name, most=MAX_EVENTS)
        missing = missed.count(connection, at, rows=standing.rows)
    claim = None if best is None else json.loads(best.body)["claim"]
    found: Json = {} if last is None else json.loads(last.body)
    p, hours = stored.protocol, stored.protocol.round_hours
    in_, assigned = int(standing.rewards), int(standing.rows)
    figures: Json = {
        "alarms": _alarms(claim, found),
        "name": stored.name,
        "state": standing.state,
        "reason": standing.reason or None,
        "created": spell(stored.created),
        "updated": None if last is None else spell(last.at),
        "now": spell(at),
        "epsilon": p.epsilon,
        "delta": p.delta,
        "reward_range": list(p.reward_range),
        "actions": list(p.actions),
        "withdrawn": json.loads(standing.withdrawn),
        "features": list(p.contexts.names),
        "late": p.late.to_json(),
        "visits": p.visits,
        "holdout": p.holdout,
        "standard": p.standard,
        "algorithm": p.algorithm,
        "policies": p.words,
        "round": {
            "number": now.number,
            "kind": now.kind,
            "planned": None if now.planned >= ENDLESS else now.planned,
            "assigned": int(standing.round_rows),
            "opened": spell(now.opened),
            "closes": None if hours is None or now.kind != "design" else spell(now.opened + round(hours * 3600e6)),
            "designing": bool(standing.design_until > at),
        },
        "assigned": assigned,
        "holdout_assigned": int(standing.held_out),
        "rewards": {"in": in_, "awaited": assigned - in_ - missing, "missed": missing, "late": int(standing.too_late)},
        "claim": claim,
        "curve": curve,
        **{name: found.get(name) for name in OF_A_LOOK},
        "events": entries,
        "seal": {"head": bytes(standing.head).hex(), "entries": int(standing.sequence), "protocol": p.digest},
    }
    if figures["health"] is not None and assigned:
        figures["health"]["late_share"] = int(standing.too_late) / assigned
    proven = None if best is None or not math.isfinite(best.best) else float(best.best)
    return Status(stored.name, standing.state, bool(claim and claim["certified"]), proven, assigned, figures)


def _alarms(claim: Json | None, found: Json) -> list[str]:
    """Where the data speak against an assumption of the claim, in words: as of the last look, or when it was made."""
    health, value = (cast(Json, found.get(name) or {}) for name in ("health", "value"))
    now: list[str] = [one["words"] for one in health.get("checks", ()) if one["alarm"]]
    return now or value.get("alarms") or ([] if claim is None else claim["alarms"])


def read_result(stored: StoredExperiment) -> ExperimentResult:
    """What is proven so far."""
    with stored.reading() as connection:
        standing = stored.standing(connection)
        best = best_look(connection, standing)
    if best is None:
        return ExperimentResult(stored.name, standing.state, False, None, None, None, None, None)
    claim, certificate = json.loads(best.body)["claim"], json.loads(best.certificate)
    return ExperimentResult(
        name=stored.name,
        state=standing.state,
        certified=bool(certificate["certified"]),
        promise=claim["promise"],
        policy=certificate["policy"],
        words=certificate["words"],
        certificate=certificate,
        look=int(best.number),
    )


def best_look(connection: Connection, standing: Standing) -> Row | None:
    """The look that proved most of the policies that do without what is withdrawn now; None where none did yet.

    What was proven before of policies that take a withdrawn action stays proven, and nobody should play it.
    """
    t = tables.looks.c
    gone = len(json.loads(standing.withdrawn))
    query = sa.select(tables.looks).where(
        t.experiment == standing.name, t.certificate.is_not(None), t.withdrawn == gone
    )
    return connection.execute(query.order_by(t.best.asc(), t.number.asc()).limit(1)).one_or_none()


def _last_look(connection: Connection, name: str) -> Row | None:
    t = tables.looks.c
    query = sa.select(tables.looks).where(t.experiment == name)
    return connection.execute(query.order_by(t.number.desc()).limit(1)).one_or_none()


def _curve(connection: Connection, name: str) -> list[Json]:
    """What was proven when, at each look; of very many, some."""
    t = tables.looks.c
    query = sa.select(t.samples, t.best, t.at, t.round).where(t.experiment == name, t.certificate.is_not(None))
    out: list[Json] = []
    least = math.inf
    for row in connection.execute(query.order_by(t.number)):
        least = min(least, row.best)
        out.append(
            {
                "samples": row.samples,
                "certified_epsilon": row.best,
                "best": least,
                "at": spell(row.at),
                "round": row.round,
            }
        )
    step = -(-len(out) // MAX_CURVE_POINTS) if out else 1
    return [point for number, point in enumerate(out) if number % step == 0 or number == len(out) - 1]


class Missed:
    """Of how many the window is over, and nothing came in it; what is over stays so, and is counted once."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, self._lock = stored, Lock()
        self._over, self._missed = 0, 0

    def count(self, connection: Connection, at: int, *, rows: int) -> int:
        """How many these are, of so many rows."""
        window, name = self._stored.window, self._stored.name
        if window is None:
            return 0
        with self._lock:
            over = max(self._over, _first_row_since(connection, name, at - window, low=self._over, high=rows))
            o = tables.outcomes.c
            came = connection.execute(
                sa.select(sa.func.count()).where(
                    o.experiment == name, o.row >= self._over, o.row < over, o.kind == REWARD, o.late == 0
                )
            ).scalar_one()
            self._missed += over - self._over - int(came)
            self._over = over
            return self._missed


def _first_row_since(connection: Connection, name: str, moment: int, *, low: int, high: int) -> int:
    """The first of the rows from low to high that was assigned at a time or later; high if none was.

    Rows stand in the order of time, so that few are asked.
    """
    t = tables.assignments.c
    while low < high:
        middle = (low + high) // 2
        at = connection.execute(sa.select(t.at).where(t.experiment == name, t.row == middle)).scalar_one()
        low, high = (middle + 1, high) if at < moment else (low, middle)
    return low


# The record as a file: the log that a claim is of, and around it all that its chain is made of.


FORMAT = "pacbandits record 1"


def write_export(target: str | Path | IO[bytes], stored: StoredExperiment, *, look: int | None) -> None:
    """Write the record, as of a look; by default of the one that proved most, 0 for now."""
    with stored.reading() as connection:
        sequence, moment, number = _as_of(connection, stored, look)
        rounds = [one for one in stored.rounds(connection) if one.sequence < sequence]
        rows = History(stored).read(connection).before(sequence)
        marks = _marks(connection, stored, len(rows))
        outcomes = {
            name: _outcomes(connection, stored, kind, sequence, len(rows)) for name, kind in OUTCOME_KINDS.items()
        }
        entries = _entries(connection, stored, sequence)
    if not len(rows):
        raise InputError("nobody has been assigned anything yet; there is nothing to export")
    snapshot = Snapshot(stored, rows, rounds, sequence, moment)
    counted = snapshot.counted.copy()
    counted[snapshot.mature if number else len(rows) :] = False
    whole, protocol = snapshot.table(), stored.protocol
    columns = whole.contexts.columns() | {
        "action": whole.actions,
        "reward": whole.rewards,
        "propensities": whole.propensities,
        "round": whole.rounds,
        "repeats": whole.repeats,
        "known": whole.known,
        "record_counted": counted.astype(np.int64),
        "record_mark": marks,
    }
    for name, exported in EXPORTED.items():
        if exported not in columns and rows.columns[name].shape[1:] != (0,):  # there may be no features
            columns[exported] = rows.columns[name]
    for name, found in outcomes.items():
        columns |= {
            f"record_{name}": found.values,
            f"record_{name}_sequence": found.sequence,
            f"record_{name}_at": found.at,
            f"record_{name}_late": found.late,
        }
    packed = pack_text(json.dumps(entries), rows=len(rows))
    columns["record_entries"] = packed.numbers
    record = {
        "format": FORMAT,
        "experiment": stored.name,
        "look": number,
        "sequence": sequence,
        "at": moment,
        "mature": snapshot.mature if number else len(rows),
        "entries_bytes": packed.size,
    }
    about: Json = {"actions": list(protocol.actions), "known": "known", RECORD: record}
    if protocol.reward_range != UNIT_RANGE:
        about["reward_range"] = list(protocol.reward_range)
    if protocol.date_columns:
        about["dates"] = list(protocol.date_columns)
    parquet.write(target, columns, remarks=whole.remarks, about=about)


def _as_of(connection: Connection, stored: StoredExperiment, look: int | None) -> tuple[int, int, int]:
    """How many records there were, when, and the number of the look; 0 for now: the time of the last record."""
    t, standing = tables.looks.c, stored.standing(connection)
    found = None
    if look is None:
        found = best_look(connection, standing)
    elif look > 0:
        query = sa.select(tables.looks).where(t.experiment == stored.name, t.number == look)
        found = connection.execute(query).one_or_none()
        if found is None:
            raise InputError(f"there was no look {look} at '{stored.name}' yet; its status tells the last one")
    if found is None:
        return standing.sequence, standing.seen_until, 0
    return int(found.sequence), int(json.loads(found.body)["snapshot_at"]), int(found.number)


def _marks(connection: Connection, stored: StoredExperiment, count: int) -> Any:
    t = tables.assignments.c
    query = sa.select(t.unit).where(t.experiment == stored.name, t.row < count).order_by(t.row)
    joined = b"".join(mark_of(stored.secret, unit) for unit in connection.execute(query).scalars())
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, MARK_BYTES)


def _outcomes(connection: Connection, stored: StoredExperiment, kind: int, sequence: int, count: int) -> Outcomes:
    t = tables.outcomes.c
    query = sa.select(t.row, t.value, t.sequence, t.at, t.late).where(
        t.experiment == stored.name, t.kind == kind, t.sequence < sequence
    )
    return Outcomes.of(count, connection.execute(query))


def _entries(connection: Connection, stored: StoredExperiment, sequence: int) -> list[list[Any]]:
    """Number, time, kind, body as it was hashed, and the head after it, of each entry."""
    t = tables.entries.c
    query = sa.select(t.sequence, t.at, t.kind, t.body, t.head).where(
        t.experiment == stored.name, t.sequence < sequence
    )
    rows = connection.execute(query.order_by(t.sequence))
    return [[row.sequence, row.at, row.kind, row.body, row.head.hex()] for row in rows]


# The seal: the chain of an experiment's record, shown to whoever wants to note its head down.


@dataclass(frozen=True)
class Seal:
    """The chain of a record.

    head: the hash of all records, in hexadecimal. Whoever notes it down can tell later that nothing before was altered.
    records: how many it is of.
    protocol: the digest of the protocol.
    entries: all but assignments and outcomes, with the head after each.
    """

    head: str
    records: int
    protocol: str
    entries: tuple[Json, ...]

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"head": self.head, "records": self.records, "protocol": self.protocol, "entries": list(self.entries)}


def read_seal(stored: StoredExperiment) -> Seal:
    """The chain as it stands."""
    e, t = tables.standings.c, tables.entries.c
    with stored.reading() as connection:
        head, records = connection.execute(sa.select(e.head, e.sequence).where(e.name == stored.name)).one()
        query = sa.select(t.sequence, t.at, t.kind, t.body, t.head).where(t.experiment == stored.name)
        rows = connection.execute(query.order_by(t.sequence)).all()
    entries = tuple(
        {"sequence": row.sequence, "at": row.at, "kind": row.kind, "body": json.loads(row.body), "head": row.head.hex()}
        for row in rows
    )
    return Seal(bytes(head).hex(), int(records), stored.protocol.digest, entries)
