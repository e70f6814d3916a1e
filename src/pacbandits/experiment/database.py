"""The database of experiments: tables, connections, errors, and times."""

from __future__ import annotations

import weakref
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pacbandits.checks import text
from pacbandits.errors import InputError, plain
from pacbandits.experiment import database as tables
from pacbandits.experiment.extra import event, exc
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.migrations import bring_up_to_date
from pacbandits.experiment.stored_rows import (
    AnalysisRow,
    AssignmentRow,
    EntryRow,
    ExperimentRow,
    OutcomeRow,
    Standing,
    columns_of,
)
from pacbandits.experiment.stored_rows import spell as spell

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

# Keys of the service (`pacbandits.service.access`). experiment: '' for the admin key, which is valid for all.
# withdrawn: 1 for a revoked key.
service_keys = sa.Table(
    "service_keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("experiment", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("withdrawn", sa.Integer, nullable=False),
)

# The secret that signs sessions of the dashboard, shared by all servers.
service_signing = sa.Table(
    "service_signing",
    metadata,
    sa.Column("only", sa.Integer, primary_key=True),
    sa.Column("secret", sa.LargeBinary, nullable=False),
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


class NotCollecting(InputError):
    """The experiment's state does not allow this, such as an assignment while it is paused or stopped."""


# Connections: an SQLite file for one server, PostgreSQL for several.
#
# A transaction that writes to an experiment locks the experiment's row until it ends, so records are numbered and
# chained in the order in which they are stored, whichever process stores them.


LOCK_SECONDS = 30.0  # maximum wait for another transaction (SQLite)
Connection = sa.Connection
_READING = "pacbandits_reading"  # execution option of read-only connections
Row = Any  # of a result, whose columns are attributes


class Database:
    """A database of experiments.

    url: its URL without the password.
    engine: the SQLAlchemy engine.
    """

    def __init__(self, given: str | Path, *, create: bool = False) -> None:
        url = database_url(given)
        sqlite = url.get_backend_name() == "sqlite"
        if sqlite and not create and not Path(str(url.database)).exists():
            raise UnknownExperiment(
                f"there is no database {plain(url.database)}; pacbandits experiment create makes one"
            )
        self.url: str = url.render_as_string(hide_password=True)
        self.full_url: str = url.render_as_string(hide_password=False)
        options: dict[str, Any] = {"connect_args": {"timeout": LOCK_SECONDS}} if sqlite else {"pool_pre_ping": True}
        try:
            self.engine = sa.create_engine(url, **options)
        except (exc.ArgumentError, ModuleNotFoundError) as error:
            raise InputError(f"cannot use the database {plain(self.url)}: {plain(error)}") from None
        self.sqlite = sqlite
        # Close the connections when the object is collected, as Python 3.13 and later warn otherwise. Not at exit: a
        # forked process would close those of its parent.
        weakref.finalize(self, self.engine.dispose).atexit = False
        if sqlite:
            event.listen(self.engine, "connect", _on_connect)
            event.listen(self.engine, "begin", _on_begin)
        try:
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


def _on_connect(connection: Any, _: object) -> None:
    """Make SQLite durable, and disable the driver's implicit transactions, which begin too late."""
    connection.isolation_level = None
    for words in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY", "cache_size=-65536"):
        connection.execute(f"PRAGMA {words}")


def _on_begin(connection: Any) -> None:
    """Begin a transaction: a writer takes the write lock at once; readers run concurrently."""
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(_READING) else "BEGIN IMMEDIATE")


# Times: integer microseconds since 1970 in UTC.


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970; raise InputError if it has no time zone."""
    if moment.tzinfo is None:
        raise InputError(f"the clock must tell the time with its zone, as datetime.now(UTC) does; got {moment}")
    return round(moment.timestamp() * 1e6)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
