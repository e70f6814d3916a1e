"""Signs of life of servers and workers, in the database, so that every server can tell which parts run.

A heartbeat is written, not only read: it fails where assignments would fail, as on a full disk.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from pacbandits.experiment import database as tables
from pacbandits.experiment.database import Database
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.schema import Json

BEAT_SECONDS = 5.0
LOST_SECONDS = 30.0  # without a heartbeat, after which a part is taken to have ended
_KEPT = 3600 * 10**6  # microseconds that an old heartbeat stays
_t = tables.service_heartbeats


class Heartbeat(NamedTuple):
    """The last sign of life of a process.

    id: of the process. kind: "server" or "worker". seconds: how long ago it was. body: what it says of itself.
    """

    id: str
    kind: str
    seconds: float
    body: Json

    @property
    def alive(self) -> bool:
        """Return whether it is recent."""
        return self.seconds < LOST_SECONDS


def beat(database: Database, *, id: str, kind: str, body: Json) -> None:
    """Write a heartbeat, and remove those of processes that ended long ago."""
    with database.engine.begin() as connection:
        now = database.now(connection)
        said = {"at": now, "body": json.dumps(body)}
        if not connection.execute(_t.update().where(_t.c.id == id).values(**said)).rowcount:
            connection.execute(_t.delete().where(_t.c.at < now - _KEPT))
            connection.execute(_t.insert(), {"id": id, "kind": kind, **said})


def end(database: Database, *, id: str) -> None:
    """Remove the heartbeat of a process that ends."""
    with database.engine.begin() as connection:
        connection.execute(_t.delete().where(_t.c.id == id))


def heartbeats(database: Database) -> list[Heartbeat]:
    """Return the last heartbeat of each process."""
    now = database.clock()
    with database.reading() as connection:
        rows = connection.execute(sa.select(_t)).all()
    return [Heartbeat(row.id, row.kind, max(now - row.at, 0) / 1e6, json.loads(row.body)) for row in rows]
