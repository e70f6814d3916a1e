"""The record as a file: the log that a claim is of, and around it all that its chain is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from pacbandits.errors import InputError
from pacbandits.experiment import tables
from pacbandits.experiment.chain import MARK_BYTES, mark_of
from pacbandits.experiment.database import Connection
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.history import History, Snapshot
from pacbandits.experiment.status import best_look
from pacbandits.experiment.store import StoredExperiment
from pacbandits.experiment.stored_rows import EXPORTED, OUTCOME_KINDS, Outcomes
from pacbandits.fields import Json
from pacbandits.records import parquet
from pacbandits.records.log import UNIT_RANGE
from pacbandits.records.recorded import RECORD, pack_text

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
