"""The database of experiments: connections, tables, frozen migrations, and its errors."""

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

# The tables of a database as SQLAlchemy sees them; `pacbandits.experiment.migrations` creates them.


metadata = sa.MetaData()
_TYPES: dict[type, Any] = {int: sa.BigInteger, float: sa.Float(53), str: sa.Text, bytes: sa.LargeBinary}


def table_of(name: str, row: type[NamedTuple], *indexes: Any, into: Any = metadata, **options: Any) -> sa.Table:
    """The table that holds such rows."""
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

# Keys of the service (`pacbandits.service.access`). experiment: '' for the admin's key, which opens all of them.
# withdrawn: 1 if it opens nothing any more.
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

# The secret that signs sessions of the dashboard, on whichever server.
service_signing = sa.Table(
    "service_signing",
    metadata,
    sa.Column("only", sa.Integer, primary_key=True),
    sa.Column("secret", sa.LargeBinary, nullable=False),
)


# What an experiment refuses, by kinds that a caller may want to tell apart.


class UnknownExperiment(InputError):
    """There is no experiment of that name."""


class AlreadyThere(InputError):
    """There is one of that name already."""


class UnknownAssignment(InputError):
    """An id that this experiment never gave out."""


class Contradiction(InputError):
    """A second report that differs from the first."""


class NotCollecting(InputError):
    """The experiment is paused or stopped, and takes in nobody new."""


# Databases: SQLite in a file for one server, PostgreSQL for several.
#
# A transaction that writes to an experiment first takes the experiment's own row, and keeps it until it is done:
# records are numbered and chained in the order in which they are stored, whoever stores them.


LOCK_SECONDS = 30.0  # that a transaction waits for another
Connection = sa.Connection
_READING = "pacbandits_reading"  # the option of a connection that only reads
Row = Any  # of a result, whose columns are attributes


class Database:
    """Where experiments are kept.

    url: which one, without its password. engine: of SQLAlchemy.
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
        # Connections of a database that nobody has any more are closed, as Python asks for since 3.13. Not at exit: a
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
        """A connection that sees one state of the database, and changes nothing."""
        options: dict[str, Any] = {_READING: True} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
        with self.engine.connect() as bare:
            connection = bare.execution_options(**options)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, name: str) -> Generator[tuple[Connection, Standing]]:
        """A transaction on an experiment, which nobody else writes to meanwhile, and the experiment's row."""
        with self.engine.begin() as connection:
            if not self.sqlite:
                connection.execute(_STANDING.with_for_update(), {"wanted": name})
            yield connection, read_standing(connection, name)

    def names(self) -> tuple[str, ...]:
        """Of all experiments, in the order of the alphabet."""
        with self.reading() as connection:
            return names_in(connection)

    def close(self) -> None:
        """Give back what is held."""
        self.engine.dispose()


_STANDING = sa.select(tables.standings).where(tables.standings.c.name == sa.bindparam("wanted"))


def read_standing(connection: Connection, name: str) -> Standing:
    """Where an experiment stands."""
    found = connection.execute(_STANDING, {"wanted": name}).one_or_none()
    if found is None:
        raise unknown(name, names_in(connection))
    return Standing(*found)


def names_in(connection: Connection) -> tuple[str, ...]:
    """Of all experiments, in the order of the alphabet."""
    return tuple(connection.execute(sa.select(tables.experiments.c.name).order_by("name")).scalars())


def unknown(name: str, names: tuple[str, ...]) -> UnknownExperiment:
    """That there is no experiment of a name."""
    known = f"there are: {', '.join(plain(one) for one in names[:20])}" if names else "there are none yet"
    return UnknownExperiment(f"there is no experiment '{plain(name)}'; {known}")


def database_url(given: str | Path) -> Any:
    """The URL of a database that is given by it, or by the path of a file."""
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
    """What makes SQLite durable, and transactions ours: it would begin them too late."""
    connection.isolation_level = None
    for words in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY", "cache_size=-65536"):
        connection.execute(f"PRAGMA {words}")


def _on_begin(connection: Any) -> None:
    """Writers one after the other, from the first statement on; readers beside them."""
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(_READING) else "BEGIN IMMEDIATE")


# Times: whole microseconds since 1970 in UTC, and how they are written.


def microseconds(moment: datetime) -> int:
    """A time as a number."""
    if moment.tzinfo is None:
        raise InputError(f"the clock must tell the time with its zone, as datetime.now(UTC) does; got {moment}")
    return round(moment.timestamp() * 1e6)


def spell(moment: int) -> str:
    """A time as text, in UTC."""
    return datetime.fromtimestamp(moment / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)
