"""The parts of a running service, as readiness and metrics tell them: database, disk, clock, workers, analyses."""

from __future__ import annotations

import math
import os
import secrets
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from sqlalchemy.exc import SQLAlchemyError

from pacbandits.experiment import database as tables
from pacbandits.experiment.database import ClockSkew, Database, beat, heartbeats, reason_of
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.store import COLLECTING
from pacbandits.experiment.webhooks import count_deliveries

KEEP_SECONDS = 2.0  # between two looks at the parts, however often they are asked for
MIN_FREE_BYTES = 2**24  # beside an SQLite file
WORKER = "worker"


@dataclass(frozen=True)
class ServiceParts:
    """The state of the parts; `faults` are those for which nothing can be stored, in words.

    The other fields are the values of metrics (`pacbandits.service.event_log.GAUGES`).
    """

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict[str, int])
    database_up: float = 0.0
    writable: float = 0.0
    clock_skew_seconds: float = 0.0
    disk_free_bytes: float = math.nan
    workers: float = 0.0
    worker_heartbeat_seconds: float = math.inf
    worker_errors: float = 0.0
    analyses: float = 0.0
    analysis_lag_rows: float = 0.0
    analysis_lag_ratio: float = 1.0
    webhooks_delivered: float = 0.0
    webhooks_waiting: float = 0.0
    webhooks_waiting_seconds: float = 0.0
    webhooks_given_up: float = 0.0
    webhooks_failed_attempts: float = 0.0


class PartWatch:
    """Looks at the parts of a service, at most every KEEP_SECONDS."""

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, threading.Lock()
        self._id = f"server-{os.getpid()}-{secrets.token_hex(4)}"
        self._kept: tuple[float, ServiceParts] | None = None

    def look(self) -> ServiceParts:
        """Return the parts; this writes a heartbeat, as only a write shows that writes succeed."""
        with self._lock:
            if self._kept is None or monotonic() > self._kept[0] + KEEP_SECONDS:
                self._kept = monotonic(), self._look()
            return self._kept[1]

    def _look(self) -> ServiceParts:
        faults: list[str] = []
        free = self._free_bytes()
        if free < MIN_FREE_BYTES:
            faults.append(f"the disk of the database has {free / 2**20:.0f} MB left")
        try:
            skew = self._database.skew()
        except SQLAlchemyError as error:
            return ServiceParts((*faults, f"the database does not answer: {reason_of(error)}"), disk_free_bytes=free)
        try:
            beat(self._database, id=self._id, kind="server", body={})
        except (SQLAlchemyError, ClockSkew) as error:
            why = reason_of(error) or type(error).__name__
            faults.append(why if isinstance(error, ClockSkew) else f"the database stores nothing: {why}")
        try:
            return self._counts(tuple(faults), skew=skew, free=free)
        except SQLAlchemyError as error:
            return ServiceParts((*faults, f"the database does not answer: {reason_of(error)}"), disk_free_bytes=free)

    def _counts(self, faults: tuple[str, ...], *, skew: float, free: float) -> ServiceParts:
        working = [one for one in heartbeats(self._database) if one.kind == WORKER]
        alive, clock = [one for one in working if one.alive], self._database.clock()
        s, k = tables.standings.c, tables.looks.c
        last = sa.select(sa.func.max(k.rows)).where(k.experiment == s.name, k.number == s.look).scalar_subquery()
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(s.state, s.rows, s.look, last.label("analysed"))).all()
            hooks = count_deliveries(connection, now=clock)
        going = [(row.rows, row.analysed or 0) for row in rows if row.state == COLLECTING and row.rows]
        states: dict[str, int] = {}
        for row in rows:
            states[row.state] = states.get(row.state, 0) + 1
        warnings = () if alive or not going else ("no worker process runs, so that nothing is analysed",)
        return ServiceParts(
            faults=faults,
            warnings=warnings,
            states=states,
            database_up=1.0,
            writable=0.0 if faults else 1.0,
            clock_skew_seconds=skew,
            disk_free_bytes=free,
            workers=len(alive),
            worker_heartbeat_seconds=min((one.seconds for one in working), default=math.inf),
            worker_errors=sum(int(one.body.get("errors", 0)) for one in alive),
            analyses=sum(row.look for row in rows),
            analysis_lag_rows=max((now - then for now, then in going), default=0),
            analysis_lag_ratio=max((now / max(then, 1) for now, then in going), default=1.0),
            **{f"webhooks_{name}": float(value) for name, value in hooks.items()},
        )

    def _free_bytes(self) -> float:
        """Return the free space beside an SQLite file; NaN if that is not known."""
        path = self._database.engine.url.database
        if not self._database.sqlite or not path:
            return math.nan
        try:
            return float(shutil.disk_usage(Path(path).absolute().parent).free)
        except OSError:
            return math.nan
