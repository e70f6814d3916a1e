"""The database of experiments: tables, connections, errors, and times."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pacbandits.checks import text
from pacbandits.errors import InputError, one_line, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.extra import event, exc
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.migrations import bring_up_to_date, check_up_to_date
from pacbandits.experiment.stored_rows import (
    AnalysisRow,
    AssignmentRow,
    DeliveryRow,
    EntryRow,
    ExperimentRow,
    OutcomeRow,
    Standing,
    WebhookRow,
    columns_of,
)
from pacbandits.experiment.stored_rows import spell as spell
from pacbandits.schema import Json

# The tables as SQLAlchemy describes them; `pacbandits.experiment.migrations` creates them.


metadata = sa.MetaData()
_TYPES: dict[type, Any] = {int: sa.BigInteger, float: sa.Float(53), str: sa.Text, bytes: sa.LargeBinary}


def table_of(name: str, row: type[NamedTuple], *indexes: Any, into: Any = metadata, **options: Any) -> sa.Table:
    """Return the table for a type of rows."""
    columns = [
        sa.Column(
            field,
            sa.Integer if how.small else _TYPES[how.kind],
            primary_key=how.key,
            autoincrement=False,
            nullable=how.nullable,
        )
        for field, how in columns_of(row).items()
    ]
    return sa.Table(name, into, *columns, *indexes, **options)


experiments = table_of("experiments", ExperimentRow)
standings = table_of("standings", Standing)
assignments = table_of(
    "assignments",
    AssignmentRow,
    sa.Index("assignments_by_unit", "unit", "experiment", "visit", unique=True),
    sqlite_with_rowid=False,
)
outcomes = table_of(
    "outcomes", OutcomeRow, sa.Index("outcomes_in_sequence", "experiment", "sequence"), sqlite_with_rowid=False
)
entries = table_of("entries", EntryRow)
looks = table_of("looks", AnalysisRow)
webhooks = table_of("webhooks", WebhookRow)
webhook_deliveries = table_of(
    "webhook_deliveries",
    DeliveryRow,
    sa.Index("webhook_deliveries_by_cause", "webhook", "event", "cause", unique=True),
    sa.Index("webhook_deliveries_due", "state", "due"),
)

# Keys of the service (`pacbandits.service.access`). experiment: '' for the admin key, which is valid for all.
# withdrawn: 1 for a revoked key. expires: in microseconds; 0 for never. origins: of browsers that may use it.
service_keys = sa.Table(
    "service_keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("experiment", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("withdrawn", sa.Integer, nullable=False),
    sa.Column("expires", sa.BigInteger, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("origins", sa.Text, nullable=False),
)

# Names of deleted experiments: a name is never used again, as other servers may still know what it stood for.
deleted_experiments = sa.Table(
    "deleted_experiments",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
)

# Sessions of the dashboard. id: SHA-256 of the cookie. key, digest: of the key that began it.
service_sessions = sa.Table(
    "service_sessions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("until", sa.BigInteger, nullable=False),
)

# Signs of life of servers and workers (`pacbandits.experiment.worker`).
service_heartbeats = sa.Table(
    "service_heartbeats",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)


# Errors that a caller may want to distinguish.


class UnknownExperiment(InputError):
    """No experiment has that name."""


class AlreadyThere(InputError):
    """An experiment with that name exists."""


class UnknownAssignment(InputError):
    """The experiment never issued that assignment id."""


class Contradiction(InputError):
    """A report differs from an earlier one for the same assignment."""


class ClockSkew(InputError):
    """This machine's clock and the database's differ too much to write: one of them is wrong."""


class NotCollecting(InputError):
    """The experiment's state does not allow this, such as an assignment while it is paused or stopped."""


# Connections: an SQLite file for one server, PostgreSQL for several.
#
# A transaction that writes to an experiment locks the experiment's row until it ends, so records are numbered and
# chained in the order in which they are stored, whichever process stores them.


MAX_SKEW_SECONDS = 5.0  # between the clocks of a server and of its database; synchronised ones differ by milliseconds
_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"  # of PostgreSQL
LOCK_SECONDS = 30.0  # maximum wait for another transaction (SQLite)
Connection = sa.Connection
_READING = "pacbandits_reading"  # execution option of read-only connections
Row = Any  # of a result, whose columns are attributes


class Database:
    """A database of experiments.

    create: whether to create a missing SQLite file, which its owner alone may read.
    read_only: open an SQLite file, such as a backup, without changing a byte of it or beside it.
    url: its URL without the password.
    engine: the SQLAlchemy engine.
    """

    def __init__(self, given: str | Path, *, create: bool = False, read_only: bool = False) -> None:
        url = database_url(given)
        sqlite = url.get_backend_name() == "sqlite"
        if sqlite and not create and not Path(str(url.database)).exists():
            raise UnknownExperiment(
                f"there is no database {plain(url.database)}; pacbandits experiment create makes one"
            )
        self.url: str = url.render_as_string(hide_password=True)
        self.full_url: str = url.render_as_string(hide_password=False)
        options: dict[str, Any] = {"connect_args": {"timeout": LOCK_SECONDS}} if sqlite else {"pool_pre_ping": True}
        if read_only:
            if not sqlite:
                raise InputError("--read-only is for SQLite files; give a user of PostgreSQL who may only read instead")
            url = _read_only_url(Path(str(url.database)))
        try:
            self.engine = sa.create_engine(url, **options)
        except (exc.ArgumentError, ModuleNotFoundError) as error:
            raise InputError(f"cannot use the database {plain(self.url)}: {plain(error)}") from None
        self.sqlite = sqlite
        if sqlite and create:
            _create_private(str(url.database))
        # Close the connections when the object is collected, as Python 3.13 and later warn otherwise. Not at exit: a
        # forked process would close those of its parent.
        weakref.finalize(self, self.engine.dispose).atexit = False
        if sqlite:
            event.listen(self.engine, "connect", _on_connect_to_read if read_only else _on_connect)
            event.listen(self.engine, "begin", _on_begin_to_read if read_only else _on_begin)
        try:
            if read_only:
                check_up_to_date(self.engine)
            else:
                bring_up_to_date(self.engine)
        except exc.DBAPIError as error:
            raise InputError(f"cannot open the database {plain(self.url)}: {plain(error.orig)}") from None

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Yield a read-only connection that sees one snapshot of the database."""
        options: dict[str, Any] = {_READING: True} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
        with self.engine.connect() as bare:
            connection = bare.execution_options(**options)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, name: str) -> Generator[tuple[Connection, Standing]]:
        """Yield a connection whose transaction may write to an experiment exclusively, and the experiment's row."""
        with self.engine.begin() as connection:
            if not self.sqlite:
                connection.execute(_STANDING.with_for_update(), {"wanted": name})
            yield connection, read_standing(connection, name)

    def now(self, connection: Connection) -> int:
        """Return the time by the database's clock in microseconds; that of SQLite is this machine's.

        Raises:
            ClockSkew: If this machine's clock differs from it by more than MAX_SKEW_SECONDS.
        """
        found, skew = self._read_clock(connection)
        if abs(skew) > MAX_SKEW_SECONDS:
            way = "ahead of" if skew > 0 else "behind"
            raise ClockSkew(
                f"this server's clock is {abs(skew):,.0f} seconds {way} the database's, "
                "so that nothing is written; synchronise both (NTP), then ask again"
            )
        return found

    def clock(self) -> int:
        """Return the time by the database's clock in microseconds, however wrong this machine's clock is."""
        with self.reading() as connection:
            return self._read_clock(connection)[0]

    def skew(self) -> float:
        """Return by how many seconds this machine's clock is ahead of the database's; negative if it is behind."""
        with self.reading() as connection:
            return self._read_clock(connection)[1]

    def _read_clock(self, connection: Connection) -> tuple[int, float]:
        before = time.time_ns() // 1_000
        if self.sqlite:
            return before, 0.0
        found = int(connection.exec_driver_sql(_CLOCK).scalar_one())
        after = time.time_ns() // 1_000
        return found, (max(before - found, 0) - max(found - after, 0)) / 1e6

    def names(self) -> tuple[str, ...]:
        """Return the names of all experiments in alphabetical order."""
        with self.reading() as connection:
            return names_in(connection)

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()


_STANDING = sa.select(tables.standings).where(tables.standings.c.name == sa.bindparam("wanted"))


def read_standing(connection: Connection, name: str) -> Standing:
    """Return the current row of an experiment; raise UnknownExperiment if there is none."""
    found = connection.execute(_STANDING, {"wanted": name}).one_or_none()
    if found is None:
        raise unknown(name, names_in(connection))
    return Standing(*found)


def names_in(connection: Connection) -> tuple[str, ...]:
    """Return the names of all experiments in alphabetical order."""
    return tuple(connection.execute(sa.select(tables.experiments.c.name).order_by("name")).scalars())


def unknown(name: str, names: tuple[str, ...]) -> UnknownExperiment:
    """Return the error for a name that no experiment has."""
    known = f"there are: {', '.join(plain(one) for one in names[:20])}" if names else "there are none yet"
    return UnknownExperiment(f"there is no experiment '{plain(name)}'; {known}")


def database_url(given: str | Path) -> Any:
    """Return the SQLAlchemy URL of a database given by URL or by the path of a file."""
    words = str(given) if isinstance(given, Path) else text(given, name="--database")
    if not words:
        raise InputError("--database is empty; give a file such as pacbandits.db, or a URL postgresql://…")
    if "://" not in words:
        return sa.URL.create("sqlite", database=words)
    try:
        url = sa.make_url(words)
    except exc.ArgumentError:
        raise InputError(
            f"--database must be a file, or a URL such as postgresql://user@host/name, got {plain(words)}"
        ) from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"experiments are kept in SQLite or PostgreSQL, not in {plain(url.get_backend_name())}")
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _create_private(path: str) -> None:
    """Create a missing file that its owner alone may read; SQLite gives the files beside it the same mode."""
    if path and path != ":memory:" and not Path(path).exists():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise InputError(f"cannot make the database {plain(path)}: {plain(error.strerror or error)}") from None


def _read_only_url(path: Path) -> Any:
    """Return the URL of a file that is opened to read; without a log beside it, SQLite must not even make one."""
    alone = not Path(f"{path}-wal").exists()
    options = "mode=ro&immutable=1" if alone else "mode=ro"
    return sa.make_url(f"sqlite:///file:{quote(str(path.absolute()))}?{options}&uri=true")


def _on_connect_to_read(connection: Any, _: object) -> None:
    """Refuse writes, and disable the driver's implicit transactions."""
    connection.isolation_level = None
    connection.execute("PRAGMA query_only=ON")


def _on_connect(connection: Any, _: object) -> None:
    """Make SQLite durable, and disable the driver's implicit transactions, which begin too late."""
    connection.isolation_level = None
    for words in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY", "cache_size=-65536"):
        connection.execute(f"PRAGMA {words}")


def _on_begin_to_read(connection: Any) -> None:
    """Begin a transaction that takes no lock to write."""
    connection.exec_driver_sql("BEGIN")


def _on_begin(connection: Any) -> None:
    """Begin a transaction: a writer takes the write lock at once; readers run concurrently."""
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(_READING) else "BEGIN IMMEDIATE")


# Times: integer microseconds since 1970 in UTC.


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970; raise InputError if it has no time zone."""
    if moment.tzinfo is None:
        raise InputError(f"the clock must tell the time with its zone, as datetime.now(UTC) does; got {moment}")
    return round(moment.timestamp() * 1e6)


# Errors as server logs tell them: their kind, place and reason, without data.


MAX_FRAMES = 8


def describe_failure(error: BaseException) -> dict[str, object]:
    """Return the fields of a log line about an unexpected error.

    The reason is given where it holds no data: of a database that fails, and of clocks; the messages of other errors
    may quote rows.
    """
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    told: dict[str, object] = {"error": type(error).__name__, "places": places}
    reason = reason_of(error)
    return told | {"reason": reason} if reason else told


def reason_of(error: BaseException) -> str:
    """Return why an error occurred, in a line; empty if that could quote data."""
    if isinstance(error, ClockSkew):
        return str(error)
    if isinstance(error, exc.OperationalError | exc.InterfaceError):
        return one_line(str(error.orig).partition("\n")[0])
    if isinstance(error, OSError) and not isinstance(error, InputError):
        return one_line(error.strerror or "")
    return ""


# The processes beside the servers, which they start by the name of their module.


WORKER_MODULE = "pacbandits.experiment.worker"
ENDED_IDLE = -getattr(signal, "SIGALRM", 0)  # the return code of the process that writes exports, after it had no work


# Heartbeats: signs of life of servers and workers, in the database, so that every server can tell which parts run. A
# heartbeat is written, not only read: it fails where assignments would fail, as on a full disk.


BEAT_SECONDS = 5.0
LOST_SECONDS = 30.0  # without a heartbeat, after which a part is taken to have ended
_KEPT = 3600 * 10**6  # microseconds that an old heartbeat stays


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
        if not connection.execute(
            service_heartbeats.update().where(service_heartbeats.c.id == id).values(**said)
        ).rowcount:
            connection.execute(service_heartbeats.delete().where(service_heartbeats.c.at < now - _KEPT))
            connection.execute(service_heartbeats.insert(), {"id": id, "kind": kind, **said})


def end(database: Database, *, id: str) -> None:
    """Remove the heartbeat of a process that ends."""
    with database.engine.begin() as connection:
        connection.execute(service_heartbeats.delete().where(service_heartbeats.c.id == id))


def heartbeats(database: Database) -> list[Heartbeat]:
    """Return the last heartbeat of each process."""
    now = database.clock()
    with database.reading() as connection:
        rows = connection.execute(sa.select(service_heartbeats)).all()
    return [Heartbeat(row.id, row.kind, max(now - row.at, 0) / 1e6, json.loads(row.body)) for row in rows]
