"""Status, result, export and seal of an experiment."""

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
from pacbandits.experiment.chain import MARK_BYTES
from pacbandits.experiment.database import Connection, Row, spell
from pacbandits.experiment.exported_record import FORMAT, contexts_to_json
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rounds import ENDLESS, LOOK, ROUND
from pacbandits.experiment.store import STOPPED, History, Snapshot, StoredExperiment
from pacbandits.experiment.stored_rows import EXPORTED, REWARD, Outcomes, Standing, outcome_kinds
from pacbandits.experiment.webhooks import count_deliveries, webhooks_of
from pacbandits.progress import Displayed
from pacbandits.records import parquet
from pacbandits.records.log import NOT_IN, UNIT_RANGE
from pacbandits.records.log_metadata import RECORD, pack_text
from pacbandits.records.metrics import METRICS_COLUMN
from pacbandits.schema import Json, format_text

# Status and result: the last interim analysis, and the counts since then.


MAX_EVENTS = 200
MAX_CURVE_POINTS = 500
OF_A_RULE = ("to_go", "value", "leaves", "policy")  # parts of an analysis that a withdrawal makes out of date
OF_A_LOOK = ("to_go", "value", "arms", "leaves", "policy", "health", "holdout_compared", "metrics")


@dataclass(frozen=True)
class Status(Displayed):
    """The status of an experiment.

    name: the experiment's name.
    state: collecting, certified, paused or stopped.
    certified: whether the ε of the protocol is certified.
    certified_epsilon: the smallest certified ε; None before there is one.
    assigned: number of assignments.
    figures: all fields, as `to_json` returns them.
    """

    name: str
    state: str
    certified: bool
    certified_epsilon: float | None
    assigned: int
    figures: Json

    def to_json(self) -> Json:
        """Return all fields as JSON-compatible values."""
        return self.figures


@dataclass(frozen=True)
class ExperimentResult:
    """The best claim of an experiment so far; its fields are None before there is one.

    name, state: of the experiment.
    certified: whether the ε of the protocol is certified.
    promise: the claim with its assumptions, in words.
    policy: the policy in JSON.
    words: the policy in words.
    certificate: the certificate in JSON; `verify` checks it on the export of the same analysis.
    look: the number of that analysis.
    records: the number of first records of the event log that it used.
    """

    name: str
    state: str
    certified: bool
    promise: str | None
    policy: Json | None
    words: str | None
    certificate: Json | None
    look: int | None
    records: int | None = None

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return dict(vars(self))


def read_status(stored: StoredExperiment, missed: Missed, *, at: int) -> Status:
    """Return the status of an experiment."""
    with stored.reading() as connection:
        standing = stored.standing(connection)
        now = stored.rounds(connection)[standing.round]
        last, best = _last_look(connection, stored.name), best_look(connection, standing, stored.protocol)
        curve = _curve(connection, stored.name)
        entries = _events(connection, stored, most=MAX_EVENTS)
        missing = missed.count(connection, at, rows=standing.rows)
        hooks = {"count": len(webhooks_of(connection, stored.name))}
        hooks |= count_deliveries(connection, experiment=stored.name, now=at)
    claim = None if best is None else json.loads(best.body)["claim"]
    found: Json = {} if last is None else json.loads(last.body)
    withdrawn = json.loads(standing.withdrawn)
    if last is not None and last.withdrawn != len(withdrawn):  # what it says of rules may use the withdrawn action
        found = {name: value for name, value in found.items() if name not in OF_A_RULE}
    analysis = None if last is None else {"number": int(last.number), "at": spell(last.at), "rows": int(last.rows)}
    p, hours = stored.protocol, stored.protocol.round_hours
    in_, assigned = int(standing.rewards), int(standing.rows)
    figures: Json = {
        "alarms": _alarms(claim, found),
        "name": stored.name,
        "rehearsal": p.rehearsal,
        "state": standing.state,
        "reason": standing.reason or None,
        "created": spell(stored.created),
        "updated": None if last is None else spell(last.at),
        "now": spell(at),
        "epsilon": p.epsilon,
        "delta": p.delta,
        "reward_range": list(p.reward_range),
        "actions": list(p.actions),
        "withdrawn": withdrawn,
        "analysis": analysis,
        "features": list(p.contexts.names),
        "late": p.late.to_json(),
        "visits": p.visits,
        "holdout": p.holdout,
        "standard": p.standard,
        "guardrails": [one.spelt for one in p.guardrails],
        "stop": p.stop,
        "gain": p.gain,
        "pilot": None if p.counted_pilot is None else p.counted_pilot.rows,
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
        "webhooks": hooks,
        "seal": {"head": bytes(standing.head).hex(), "entries": int(standing.sequence), "protocol": p.digest},
    }
    if figures["health"] is not None and assigned:
        figures["health"]["late_share"] = int(standing.too_late) / assigned
    proven = None if best is None or not math.isfinite(best.best) else float(best.best)
    return Status(stored.name, standing.state, bool(claim and claim["certified"]), proven, assigned, figures)


def _events(connection: Connection, stored: StoredExperiment, *, most: int) -> list[dict[str, object]]:
    """Return the last entries of an experiment's event log in words, oldest first.

    Rounds, whose designs and models are long, are not read again.
    """
    t, rounds = tables.entries.c, {one.sequence: one for one in stored.rounds(connection)}
    body = sa.case((t.kind == ROUND, ""), else_=t.body).label("body")
    query = sa.select(t.sequence, t.at, t.kind, body).where(t.experiment == stored.name, t.kind != LOOK)
    rows = connection.execute(query.order_by(t.sequence.desc()).limit(most)).all()
    return [
        {
            "sequence": row.sequence,
            "at": spell(row.at),
            "kind": row.kind,
            "words": rounds[row.sequence].words if row.kind == ROUND else _in_words(row.kind, json.loads(row.body)),
        }
        for row in reversed(rows)
    ]


def _in_words(kind: str, body: dict[str, object]) -> str:
    """Describe an entry of the event log that is no round in words."""
    if kind == "withdrawn":
        return f"'{body['action']}' is withdrawn{_by(body)}: {body['reason']}"
    if kind == "certified":
        return f"certified: {body['claim']}"
    if kind == "created":
        return "the experiment is created, and its protocol fixed"
    return f"{kind}{_by(body)}: {body['reason']}" if body.get("reason") else kind


def _by(body: dict[str, object]) -> str:
    return f" by {body['by']}" if body.get("by") else ""


def _alarms(claim: Json | None, found: Json) -> list[str]:
    """Return where the data contradict an assumption of the claim: at the last analysis, or when it was made."""
    health, value = (cast(Json, found.get(name) or {}) for name in ("health", "value"))
    now: list[str] = [one["words"] for one in health.get("checks", ()) if one["alarm"]]
    return now or value.get("alarms") or ([] if claim is None else claim["alarms"])


def read_result(stored: StoredExperiment) -> ExperimentResult:
    """Return the best claim so far."""
    with stored.reading() as connection:
        standing = stored.standing(connection)
        best = best_look(connection, standing, stored.protocol)
    if best is None:
        return ExperimentResult(stored.name, standing.state, False, None, None, None, None, None)
    claim, certificate = json.loads(best.body)["claim"], json.loads(best.certificate)
    return ExperimentResult(
        name=stored.name,
        state=standing.state,
        certified=bool(claim["certified"]),
        promise=claim["promise"],
        policy=certificate["policy"],
        words=certificate["words"],
        certificate=certificate,
        look=int(best.number),
        records=int(best.sequence),
    )


def best_look(connection: Connection, standing: Standing, protocol: ExperimentProtocol) -> Row | None:
    """Return the analysis with the smallest certified ε for the actions now left; None if there is none.

    If the experiment stops by a gain, or began with a pilot, that is the analysis by which it was certified, and before
    that the last one: after a pilot, a claim of all rows, so that its test for drift compares it with the experiment.
    Earlier claims about policies that use a withdrawn action remain true, but those policies should not be played.
    """
    t = tables.looks.c
    gone = len(json.loads(standing.withdrawn))
    query = sa.select(tables.looks).where(
        t.experiment == standing.name, t.certificate.is_not(None), t.withdrawn == gone
    )
    if protocol.stop == "epsilon" and protocol.pilot is None:
        return connection.execute(query.order_by(t.best.asc(), t.number.asc()).limit(1)).one_or_none()
    e = tables.entries.c
    told = sa.select(e.body).where(e.experiment == standing.name, e.kind == "certified").order_by(e.sequence.desc())
    numbers = [int(json.loads(body)["look"]) for body in connection.execute(told).scalars()]
    proven = None if not numbers else connection.execute(query.where(t.number == numbers[0])).one_or_none()
    return proven or connection.execute(query.order_by(t.number.desc()).limit(1)).one_or_none()


def _last_look(connection: Connection, name: str) -> Row | None:
    t = tables.looks.c
    query = sa.select(tables.looks).where(t.experiment == name)
    return connection.execute(query.order_by(t.number.desc()).limit(1)).one_or_none()


def _curve(connection: Connection, name: str) -> list[Json]:
    """Return the certified ε at each analysis; at most about MAX_CURVE_POINTS of them."""
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
    """Counts the rows whose window ended without a reward, incrementally: a window that is over stays over."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, self._lock = stored, Lock()
        self._over, self._missed = 0, 0

    def count(self, connection: Connection, at: int, *, rows: int) -> int:
        """Return their number among the first `rows` rows; 0 without a window."""
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
    """Return the first row in [low, high) assigned at `moment` or later, by bisection; `high` if there is none."""
    t = tables.assignments.c
    while low < high:
        middle = (low + high) // 2
        at = connection.execute(sa.select(t.at).where(t.experiment == name, t.row == middle)).scalar_one()
        low, high = (middle + 1, high) if at < moment else (low, middle)
    return low


# The export: everything that the hash chain covers, and the log that a claim is about.


def write_export(
    target: str | Path | IO[bytes], stored: StoredExperiment, *, look: int | None, reveal_seed: bool = False
) -> None:
    """Write the whole event log, with the log of an analysis: by default that of the best claim, 0 for all data.

    The seed is disclosed if the experiment is stopped, as it draws nothing any more, or on request.
    """
    with stored.reading() as connection:
        standing = stored.standing(connection)
        sequence, moment, number = _as_of(connection, stored, look)
        rounds = [one for one in stored.rounds(connection) if one.sequence < sequence]
        rows = History(stored).read(connection).before(standing.sequence)
        marks = _marks(connection, stored, len(rows))
        kinds = outcome_kinds(len(stored.metric_columns))
        outcomes = {name: _outcomes(connection, stored, kind, len(rows)) for name, kind in kinds.items()}
        entries = _entries(connection, stored)
    if not len(rows) or sequence <= rows.sequence[0]:
        raise InputError("nobody has been assigned anything yet; there is nothing to export")
    snapshot = Snapshot(stored, rows.before(sequence), rounds, sequence, moment)
    mature = snapshot.mature if number else len(snapshot.rows)
    log, protocol, later = snapshot.table(), stored.protocol, len(rows) - len(snapshot.rows)
    counted = np.pad(snapshot.counted, (0, later))
    counted[mature:] = False
    columns = stored.contexts(rows.features).columns() | {
        "action": rows.actions,
        "reward": np.pad(log.rewards, (0, later), constant_values=np.nan),
        "propensities": rows.propensities,
        "round": rows.rounds,
        "repeats": np.ones(len(rows), dtype=np.int64),
        "known": np.pad(np.where(snapshot.in_, snapshot.known_from(), NOT_IN), (0, later), constant_values=NOT_IN),
        "record_counted": counted.astype(np.int64),
        "record_mark": marks,
    }
    if log.metric_values is not None:
        columns[METRICS_COLUMN] = np.pad(log.metric_values, ((0, later), (0, 0)), constant_values=np.nan)
    for name, exported in EXPORTED.items():
        if exported not in columns and rows.columns[name].shape[1:] != (0,):  # contexts may have no features
            columns[exported] = rows.columns[name]
    for name, found in outcomes.items():
        columns |= {
            f"record_{name}": found.values,
            f"record_{name}_sequence": found.sequence,
            f"record_{name}_at": found.at,
            f"record_{name}_late": found.late,
        }
    texts = {"entries": json.dumps(entries)}
    derived = protocol.pilot is not None or any(kind == "withdrawn" for _, _, kind, *_ in entries)
    if derived:  # leaders, by the contexts
        texts["contexts"] = json.dumps(contexts_to_json(protocol.contexts))
    packed = {name: pack_text(words, rows=len(rows)) for name, words in texts.items()}
    columns |= {f"record_{name}": one.numbers for name, one in packed.items()}
    record: Json = {
        "format": format_text("record", FORMAT),
        "experiment": stored.name,
        "look": number,
        "records": int(standing.sequence),
        "sequence": sequence,
        "at": moment,
        "mature": mature,
        **{f"{name}_bytes": one.size for name, one in packed.items()},
    }
    if reveal_seed or standing.state == STOPPED:
        record["seed"] = str(protocol.drawn_seed)
    about: Json = {"actions": list(protocol.actions), "known": "known", RECORD: record}
    if protocol.reward_range != UNIT_RANGE:
        about["reward_range"] = list(protocol.reward_range)
    if protocol.metrics:
        about["metrics"] = [one.to_json() for one in protocol.metrics]
    if protocol.date_columns:
        about["dates"] = list(protocol.date_columns)
    parquet.write(target, columns, remarks=log.remarks, about=about)


def _as_of(connection: Connection, stored: StoredExperiment, look: int | None) -> tuple[int, int, int]:
    """Return the number of records, the time, and the number of the analysis; for now, the last record's time and 0."""
    t, standing = tables.looks.c, stored.standing(connection)
    found = None
    if look is None:
        found = best_look(connection, standing, stored.protocol)
    elif look > 0:
        query = sa.select(tables.looks).where(t.experiment == stored.name, t.number == look)
        found = connection.execute(query).one_or_none()
        if found is None:
            raise InputError(f"'{stored.name}' has no interim analysis {look} yet; its status names the last one")
    if found is None:
        return standing.sequence, standing.seen_until, 0
    return int(found.sequence), int(json.loads(found.body)["snapshot_at"]), int(found.number)


def _marks(connection: Connection, stored: StoredExperiment, count: int) -> Any:
    t = tables.assignments.c
    query = sa.select(t.unit).where(t.experiment == stored.name, t.row < count).order_by(t.row)
    joined = b"".join(stored.mark(unit) for unit in connection.execute(query).scalars())
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, MARK_BYTES)


def _outcomes(connection: Connection, stored: StoredExperiment, kind: int, count: int) -> Outcomes:
    t = tables.outcomes.c
    query = sa.select(t.row, t.value, t.sequence, t.at, t.late).where(t.experiment == stored.name, t.kind == kind)
    return Outcomes.of(count, connection.execute(query))


def _entries(connection: Connection, stored: StoredExperiment) -> list[list[Any]]:
    """Return number, time, kind, body as hashed, and following head of each entry."""
    t = tables.entries.c
    query = sa.select(t.sequence, t.at, t.kind, t.body, t.head).where(t.experiment == stored.name)
    rows = connection.execute(query.order_by(t.sequence))
    return [[row.sequence, row.at, row.kind, row.body, row.head.hex()] for row in rows]


# The seal: the head of the hash chain, to be noted down.


@dataclass(frozen=True)
class Seal:
    """The seal of an event log.

    head: head of the hash chain, in hexadecimal. If it is noted down, later changes to earlier records can be detected.
    records: number of records it covers.
    protocol: digest of the protocol.
    entries: all records except assignments and outcomes, with the head after each.
    experiment: name of the experiment.
    at: time of the last record in microseconds.
    """

    head: str
    records: int
    protocol: str
    entries: tuple[Json, ...]
    experiment: str = ""
    at: int = 0

    def published(self) -> str:
        """Return a line to be mailed, committed or time-stamped; `verify --head` accepts it."""
        return f"pacbandits head {self.experiment} {self.records} {self.head} {spell(self.at)}"

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"head": self.head, "records": self.records, "protocol": self.protocol, "entries": list(self.entries)}


def read_seal(stored: StoredExperiment) -> Seal:
    """Return the current seal."""
    e, t = tables.standings.c, tables.entries.c
    with stored.reading() as connection:
        query = sa.select(e.head, e.sequence, e.seen_until).where(e.name == stored.name)
        head, records, at = connection.execute(query).one()
        query = sa.select(t.sequence, t.at, t.kind, t.body, t.head).where(t.experiment == stored.name)
        rows = connection.execute(query.order_by(t.sequence)).all()
    entries = tuple(
        {"sequence": row.sequence, "at": row.at, "kind": row.kind, "body": json.loads(row.body), "head": row.head.hex()}
        for row in rows
    )
    return Seal(bytes(head).hex(), int(records), stored.protocol.digest, entries, stored.name, int(at))
