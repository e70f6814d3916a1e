"""The seal: the chain of an experiment's record, shown to whoever wants to note its head down."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pacbandits.experiment import tables
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.store import StoredExperiment
from pacbandits.fields import Json


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
        """As what JSON knows."""
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
