"""Read logs from files of any supported format, data frames, databases and object stores."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any, Protocol, Unpack
from urllib.parse import unquote

from pacbandits.checks import path_of, text
from pacbandits.errors import InputError, masked, nearest, one_line, option_of, plain
from pacbandits.logs.dsjson import read_dsjson
from pacbandits.logs.log_table import drop_features, log_of_file, log_of_table
from pacbandits.logs.open_bandit import read_open_bandit
from pacbandits.logs.reading_options import NO_ORDER, ReadingOptions, StoredReading, check_arguments
from pacbandits.logs.table_files import ENDINGS, Folder, check_room, names_table, natural, write_batches
from pacbandits.progress import hearer, silent
from pacbandits.records import parquet
from pacbandits.records.column_types import dates_in_text, leave_out_identifiers
from pacbandits.records.columns import is_list, is_number, is_temporal, is_text, pa
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.text_files import check_file, naming, spell_bytes, why
from pacbandits.schema import Json


@dataclass(frozen=True)
class LogFormat:
    """A file format of logs.

    name: its name.
    endings: the suffixes of such files.
    read: makes a log from a file.
    positions: whether it may hold several positions, of which one is read.
    columns: whether its author names the columns, so that options say which is which.
    takes: the options of columns that it takes otherwise.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path, ReadingOptions], Log]
    positions: bool = False
    columns: bool = False
    takes: tuple[str, ...] = ()


LOG_FORMATS = {
    form.name: form
    for form in (
        LogFormat("parquet", (".parquet", ".pq", ".parq"), log_of_file, columns=True),
        LogFormat("csv", tuple(parquet.DELIMITERS), log_of_file, columns=True),
        LogFormat("dsjson", (".dsjson", ".json", ".jsonl", ".ndjson"), read_dsjson, takes=("action",)),
        LogFormat("open-bandit", (".npz",), read_open_bandit, positions=True),
    )
}


def read_log(
    path: str | Path, *, format: str | None = None, **reading: Unpack[StoredReading]
) -> tuple[Log, tuple[str, ...]]:
    """Return a log from a file, and the assumptions made about it, in words; its certificates repeat them.

    Parquet or CSV has columns `action`, `reward`, a `propensity` of the played action or `propensities` (lists) or
    `propensity_0`, `propensity_1`, … of all, optionally `round`, `repeats` and `context_id`; the others are features.
    Open Bandit Pipeline's feedback is an .npz file with its keys, and Vowpal Wabbit's dsjson has a line a decision.

    path: the file; or its URL, as for `certify`.
    format: parquet, csv, dsjson or open-bandit; by default from the file's suffix.
    reading: what the file does not say:
        action, reward, propensity: the columns that hold these, if they have other names; in dsjson action is the
            field that identifies an action, `_tag` or `i.id`, if not its place.
        split: the propensities, if they were the same for everybody: `uniform`, or each action's (`a=0.4,b=0.6`); or
            those of each block, by action.
        reward_range: the smallest and the largest possible reward, if not 0 and 1.
        clip: whether rewards beyond the range are clipped to it, which changes the outcome that is measured.
        time: the column with the time of each row, by which rows are sorted.
        time_format: the format of its times (`%d/%m/%Y`, for strptime), if it is ambiguous.
        age: columns of dates that become one feature each: the number of days before that time.
        unit: the column that identifies returning users; sample sizes then count users.
        block: the column of the blocks within which actions were drawn; without propensities, counted in each of them.
        order: "none" if the order of rows in the file means nothing.
        features, without: the feature columns, if not all others; columns to drop.
        keep: columns that stay features though they look like identifiers, outcomes, or the time.
        metrics: columns of outcomes beside the reward, with their ranges if not 0 to 1: `["returned", ("minutes", 0,
            600)]`; a ratio of two has two ranges, `("revenue/orders", 0, 500, 0, 20)`.
        n_actions: the number of actions.
        least_propensity: the minimum propensity of every action, for logs with only that of the played action.
        position: the position to use of a feedback with several.
        dropped: feature columns to leave out if the file has them, as a certificate lists those of no use.

    >>> import pacbandits as pb
    >>> rows = ["age,variant,spent", "20,plain,1", "30,plain,0", "40,discount,9"]
    >>> with open("test.csv", "w") as file:
    ...     print(*rows, sep="\\n", file=file)
    >>> log, assumed = pb.read_log("test.csv", action="variant", reward="spent", split="uniform", reward_range=(0, 10))
    >>> log.action_names, log.reward_range, log.contexts.names
    (('discount', 'plain'), (0.0, 10.0), ('age',))

    Raises:
        InputError: If the file cannot be read, a column is missing, or a value is invalid; it names which.
    """
    check_arguments(reading, of="read_log", others=("format",))
    with local_copies([path_of(path) if isinstance(path, Path) else path]) as local:
        log = _read_file(local.paths[0], format, local.reading(dict(reading)))
    return log, log.assumed


def _read_file(path: Path, format: str | None, reading: Json) -> Log:
    check_file(path)
    form = _format(path, format)
    if b'"pacbandits ' in _first_bytes(path, 200) and not form.columns:
        raise InputError(f"{path} is a certificate or a plan of this package, not a log; name the log")
    options = ReadingOptions(**reading)
    if options.position is not None and not form.positions:
        raise InputError(f"{path} has no positions; leave out --position")
    if not form.columns and (said := [name for name in options.of_columns if name not in form.takes]):
        raise InputError(f"{path} has a format with fixed columns; leave out {option_of(said[0])}")
    with naming(path):
        return drop_features(form.read(path, options), options.dropped)


def _format(path: Path, asked: str | None) -> LogFormat:
    if asked is not None:
        if text(asked, name="format") not in LOG_FORMATS:
            raise InputError(f"unknown format '{plain(asked)}'{nearest(asked, LOG_FORMATS)}")
        return LOG_FORMATS[asked]
    end = parquet.suffix(path)
    for form in LOG_FORMATS.values():
        if end in form.endings:
            return form
    if _first_bytes(path, 4) == b"PAR1":
        return LOG_FORMATS["parquet"]
    known = ", ".join(end for form in LOG_FORMATS.values() for end in form.endings)
    raise InputError(f"{path} has an unknown file ending (known: {known})")


def _first_bytes(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise InputError(f"cannot read {path}: {why(error)}") from None


# Logs from data frames of any library that exports Arrow streams.


class DataFrame(Protocol):
    """A table in memory that exports an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def log_of(frame: object, **reading: Unpack[StoredReading]) -> Log:
    """Return a log from a data frame of pandas, polars, DuckDB, …, or an Arrow table; reading: as for `read_log`."""
    options = ReadingOptions(**reading)
    if options.position is not None:
        raise InputError("a data frame has no positions; leave out --position")
    table = parquet.table_of(arrow_table(frame), name="the data frame")
    own = {options.action or "action", options.time, options.unit, *table.coded}
    for name in [name for name, column in table.columns.items() if name not in own and is_text(column.type)]:
        dates = dates_in_text(table.columns[name])  # as in a text file
        if dates is not None:
            table.columns[name] = dates
    return drop_features(log_of_table(table, options), options.dropped)


def arrow_table(frame: object) -> Any:
    """Return the data frame as an Arrow table; numbers of decimal digits become floats, as all arithmetic is with."""
    made: Any = frame
    if is_dataset(frame):
        made = made.to_table()
    elif not isinstance(frame, pa.Table):
        if not hasattr(frame, "__arrow_c_stream__"):
            lazy = "; collect() it first" if hasattr(frame, "collect") else ""
            raise InputError(
                f"a {type(frame).__name__} is neither a log nor a data frame that Arrow can read{lazy}; give a Log, an "
                "Arrow table, or a data frame of pandas 2.2, polars 1 or newer"
            )
        made = pa.table(frame)
    for j, field in enumerate(made.schema):
        if pa.types.is_decimal(field.type):
            made = made.set_column(j, field.name, made.column(j).cast(pa.float64()))
    return made


def is_dataset(frame: object) -> bool:
    """Return whether this is a data set of pyarrow, which is read without its being all in memory."""
    return hasattr(frame, "to_table") and hasattr(frame, "count_rows") and hasattr(frame, "scanner")


def contexts_of(frame: object) -> Contexts:
    """Return contexts from a data frame: every column is a feature, except those that look like identifiers."""
    table = parquet.table_of(arrow_table(frame), name="the data frame")
    n = table.n_rows
    leave_out_identifiers(table.columns, coded=table.coded, keep=())
    return Contexts.from_columns(table.columns, n=n)


# Tables of databases and files of object stores: copied to a temporary folder, a batch at a time, and read as any file.
# Rows are read several times, to survey and to sum them; the copy makes these the same, and costs one transfer.


DATABASES = {"duckdb": "duckdb", "postgresql": "postgresql", "postgres": "postgresql"}
STORES = {"s3": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss"}
_URL = re.compile(r"(?P<scheme>[A-Za-z][\w.-]*)(?:\+\w+)?://(?P<server>[^/?]*)(?P<rest>.*)", re.DOTALL)
_CHUNK_BYTES = 2**23
_GIVE_UP_SECONDS = 15  # until a server that does not answer is given up
_MIN_SECRET = 4  # characters of a secret that is masked within words, too
_SORTING_MEMORY = "2GB"  # of DuckDB, which else takes most of the machine's before it uses the disk
_PUBLIC_SETTINGS = ("table", "region", "scheme", "endpoint_override", "sslmode", "connect_timeout")
_SECRET_VARIABLES = ("PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_EXTRA = "pip install 'pacbandits[sql]'"
# What the messages of drivers contain, and what to do; the first that fits.
_REMEDIES = (
    (
        r"(?i)token.{0,20} expired|expired.{0,4}token",
        "the token has expired: sign in again for a new one",
    ),
    (r"password authentication failed|Access denied for", "the user or the password is wrong; correct them"),
    (r"no password supplied", "a password is needed; put it into the URL, ~/.pgpass or the environment (PGPASSWORD)"),
    (r"no pg_hba.conf entry|SSL", "the server refuses such a connection; ask for access, or add ?sslmode=require"),
    (r"permission denied for", "the user may not read it; ask for the right (GRANT SELECT)"),
    (r"lock on file|being used by another process", "another program has it open; close that, or read a copy"),
    (r"not a valid DuckDB", "name a file that DuckDB wrote"),
    (r"(?s)database .*does not exist", "name another database"),
    (
        r"INVALID_ACCESS_KEY|InvalidAccessKeyId|SIGNATURE|SignatureDoesNotMatch",
        "the access key or its secret is wrong; correct the credentials",
    ),
    (
        r"(?i)ACCESS_?DENIED|Forbidden|status 40[13]|PERMISSION_DENIED|Authenti|credential|OAuth2 access token",
        "access is denied; set credentials that may read it (AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS, az login)",
    ),
    (r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist", "there is no such bucket; correct its name"),
    (
        r"refused|[Tt]imed? ?out|TIMEOUT|translate host|resolve host|NETWORK_CONNECTION|unreachable|curlCode",
        "the server does not answer; check host, port and network, and that it runs",
    ),
    (r"syntax error|Parser Error|Binder Error|column .* does not exist", "correct the query (--sql)"),
)


@dataclass(frozen=True)
class Remote:
    """A table or a query of a database, or files of an object store.

    url: the URL, with its password.
    sql: the query; None for the table that the URL names, or for files.
    """

    url: str
    sql: str | None = None

    @cached_property
    def parts(self) -> re.Match[str]:
        found = _URL.fullmatch(self.url)
        assert found is not None
        return found

    @property
    def scheme(self) -> str:
        return self.parts["scheme"].lower()

    @property
    def settings(self) -> dict[str, str]:
        """The values after the question mark, as they are spelt."""
        _, question, after = self.parts["rest"].rpartition("?")
        if not question or not re.match(r"[\w.-]+=", after):
            return {}  # it belongs to a pattern
        return {name: value for name, _, value in (pair.partition("=") for pair in after.split("&"))}

    @property
    def path(self) -> str:
        """The path, from its slash on; a question mark that no setting follows belongs to it."""
        rest = self.parts["rest"]
        return rest.rpartition("?")[0] if self.settings else rest

    @property
    def table(self) -> str | None:
        found = self.settings.get("table")
        return None if found is None else unquote(found)

    @property
    def name(self) -> str:
        """How to write it on the command line, without secrets."""
        user, at, host = self.parts["server"].rpartition("@")
        user, colon, _ = user.partition(":")
        if colon:
            user = "***" if self.scheme in STORES else f"{user}:***"
        url = f"{self.scheme}://{user}{at}{host}{self.path}"
        public = "&".join(f"{name}={self.settings[name]}" for name in _PUBLIC_SETTINGS if name in self.settings)
        url = f"{url}?{public}" if public else url
        return url if self.sql is None else masked(f"--sql '{one_line(self.sql)}' --connection {url}")

    @property
    def secrets(self) -> list[str]:
        """The texts that no message may contain."""
        inside = self.parts["server"].rpartition("@")[0].partition(":")[2]
        given = [inside, *(value for name, value in self.settings.items() if name not in _PUBLIC_SETTINGS)]
        given += [os.environ.get(name, "") for name in _SECRET_VARIABLES]
        return [one for value in given if value for one in {value, unquote(value)}]

    def failure(self, error: BaseException) -> InputError:
        """Return an error in one line with a remedy and without secrets."""
        whole = str(error)
        lines = [line for line in whole.splitlines() if line.strip()] or [type(error).__name__]
        words = re.sub(r"^.*(?:FATAL|ERROR): +|^[A-Z]\w*(?: Error)?: (?:\[libpq\] Failed to connect: )?", "", lines[0])
        for secret in sorted(self.secrets, key=len, reverse=True):
            loose = re.escape(secret)
            words = re.sub(loose if len(secret) >= _MIN_SECRET else rf"(?<!\w){loose}(?!\w)", "***", words)
        remedy = next((told for pattern, told in _REMEDIES if re.search(pattern, whole)), None)
        remedy = remedy or f"correct the {'URL' if self.sql is None else 'query (--sql)'}"
        return InputError(f"cannot read {self.name}: {plain(words, most=160)}; {remedy}")


def as_remote(name: object, *, sql: str | None = None) -> Remote | None:
    """Return the database or object store that a URL names; None for a file. Raise InputError for other URLs."""
    found = _URL.fullmatch(name) if isinstance(name, str) else None
    if found is None or (sql is None and Path(str(name)).exists()):
        return None
    remote, scheme = Remote(str(name), sql), found["scheme"].lower()
    if scheme in STORES and sql is None:
        return remote
    if scheme not in DATABASES:
        known = sorted(DATABASES if sql is not None else {*DATABASES, *STORES})
        raise InputError(
            f"{scheme}:// cannot be read (known: {', '.join(known)}); write the table as Parquet, and name that file"
        )
    if sql is None and remote.table is None:
        example = f"{scheme}://…?table=NAME"
        raise InputError(f"{remote.name} names no table; write {example}, or add a query: --sql 'select …'")
    return remote


@dataclass(frozen=True, eq=False)
class LocalFiles:
    """Files to read, some of which may be temporary copies.

    paths: the files.
    names: the URLs of copies, by path, without secrets.
    name: of all that was copied, as `Remote.name`; None if all files are the caller's own.
    unordered: whether a database gave rows in no order of their own.
    folder: the folder of the copies.
    """

    paths: list[Path]
    names: dict[Path, str]
    name: str | None = None
    unordered: bool = False
    folder: Folder | None = None

    def shown(self, path: Path) -> str:
        """Return the name of a file for messages."""
        return self.names.get(path, str(path))

    def reading(self, given: Json, *, ordered: bool = False, also: Json | None = None) -> Json:
        """Return how to read them: from where, and without an order if they have none.

        ordered: whether the rows are said to be in the order of time. Raise InputError if they have no order.
        also: how a certificate says to read them, for what `given` does not say.
        """
        if self.name is None:
            return given
        made = given | {"source": self.name}
        if not self.unordered or {**(also or {}), **given}.get("time") is not None:
            return made
        if ordered:
            raise InputError(
                f"{self.name} has no order of rows: a table of a database has none; name the column of times (--time), "
                "or end the query with ORDER BY"
            )
        return made | {"order": NO_ORDER}

    def close(self) -> None:
        """Remove the copies."""
        if self.folder is not None:
            self.folder.close()


@contextmanager
def local_copies(sources: Sequence[str | Path | Remote]) -> Generator[LocalFiles]:
    """Yield files to read in the place of URLs, for as long as the context lasts; errors name the URLs."""
    made = copy_remote(sources)
    try:
        yield made
    except InputError as error:
        message = str(error.args[0])
        for path in sorted(made.names, key=lambda one: len(str(one)), reverse=True):
            message = message.replace(str(path), made.names[path])
        raise InputError(message) from None
    finally:
        made.close()


def copy_remote(sources: Sequence[str | Path | Remote]) -> LocalFiles:
    """Return files, with a temporary copy of each database or store."""
    found = [one if isinstance(one, Remote) else as_remote(one) for one in sources]
    if not any(found):
        return LocalFiles([path_of(one) for one in sources if not isinstance(one, Remote)], {})
    folder = Folder()
    paths: list[Path] = []
    names: dict[Path, str] = {}
    unordered = False
    try:
        for number, (given, remote) in enumerate(zip(sources, found, strict=True)):
            if remote is None:
                assert not isinstance(given, Remote)
                paths.append(path_of(given))
                continue
            place = folder.path / str(number)
            place.mkdir()
            if remote.scheme in STORES:
                copies = _download(remote, place)
            else:
                copies = {place / f"{_file_name(remote.table or 'query')}.parquet": remote.name}
                unordered |= _copy_query(remote, next(iter(copies)))
            paths += copies
            names |= copies
    except BaseException:
        folder.close()
        raise
    return LocalFiles(paths, names, ", ".join(one.name for one in found if one is not None), unordered, folder)


def copy_dataset(dataset: Any) -> LocalFiles:
    """Return a temporary copy of a data set of pyarrow."""
    folder = Folder()
    try:
        path = folder.path / "dataset.parquet"
        _write_copy(dataset.scanner().to_reader(), path, "the data set")
    except BaseException:
        folder.close()
        raise
    return LocalFiles([path], {path: "the data set"}, folder=folder)


def _file_name(name: str) -> str:
    return re.sub(r"\W", "_", name)[:40]


def _write_copy(reader: Any, path: Path, name: str) -> None:
    """Write the rows of an Arrow reader to a Parquet file, and tell how many."""
    schema = reader.schema
    parquet.check_names(name, schema.names, n=1, in_text=False)
    decimals = [j for j, field in enumerate(schema) if pa.types.is_decimal(field.type)]
    for j in decimals:
        schema = schema.set(j, pa.field(schema.field(j).name, pa.float64()))
    tell, seconds = hearer() or (silent, 1.0)
    rows, last = 0, monotonic()

    def check(batch: Any) -> None:
        nonlocal rows, last
        check_room(path.parent, batch.nbytes, what="a temporary copy", remedy="select fewer rows or columns")
        rows += batch.num_rows
        if monotonic() - last >= seconds:
            last = monotonic()
            tell(f"reading {name}: {rows:,} rows")

    schema = schema.remove_metadata()
    batches = (batch.cast(schema) if decimals else batch for batch in reader)
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
    write_batches(pa.RecordBatchReader.from_batches(schema, batches), path, texts=(), check=check)
    if rows == 0:
        raise InputError(f"{name} has no rows")


# Databases.


def _copy_query(remote: Remote, path: Path) -> bool:
    """Write the rows of a table or a query to a Parquet file; return whether they have no order of their own.

    A database may give the rows of a query without ORDER BY in another order each time. They are then sorted by all
    columns, so that a certificate's digest is that of the rows; those of a round stay together.
    """
    tell = (hearer() or (silent, 0.0))[0]
    tell(f"connecting to {remote.name}")
    duck = DATABASES[remote.scheme] == "duckdb"
    with _duckdb(remote, path.parent) if duck else _postgresql(remote) as run:
        query = remote.sql.strip().rstrip(";") if remote.sql is not None else f"select * from {_quoted(remote)}"
        inner = f"({query}\n) as q"
        try:
            schema = run(f"select * from {inner} limit 0").schema
            names: list[str] = schema.names
            parquet.check_names(remote.name, names, n=1, in_text=False)
            columns = ", ".join(_column(field) for field in schema)
            ordered = remote.sql is not None and _is_ordered(query)
            whole = "*" if all(_column(field) == _identifier(field.name) for field in schema) else columns
            if ordered:
                query = query if whole == "*" else f"select {columns} from {inner}"
            else:
                rounds = f"{_identifier('round')}, " if "round" in names else ""
                by = ", ".join(map(_identifier, names)) if duck else 'cast(q as text) collate "C"'
                query = f"select {whole} from {inner} order by {rounds}{by}"
            tell(f"waiting for the rows of {remote.name}")
            _write_copy(run(query), path, remote.name)
        except InputError:
            raise
        except Exception as error:  # drivers raise classes of their own, and Arrow's
            raise _missing_table(error, remote, run) or remote.failure(error) from None
    return not ordered and "round" not in names


def _column(field: Any) -> str:
    """Return the SQL of a column in a type that tables may have: decimals as floats, others as text."""
    name, kind = _identifier(field.name), field.type
    told: dict[bytes, bytes] = field.metadata or {}
    if pa.types.is_decimal(kind) or told.get(b"ADBC:postgresql:typname") == b"numeric":
        return f"cast({name} as double precision) as {name}"
    lists = is_list(kind) and is_number(kind.value_type)
    if lists or is_number(kind) or is_text(kind) or is_temporal(kind) or pa.types.is_null(kind):
        return name
    return f"cast({name} as text) as {name}"


def _identifier(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"'


def _quoted(remote: Remote) -> str:
    """Return the table of a URL in SQL; a point separates the schema from it."""
    return ".".join(_identifier(part) for part in str(remote.table).split("."))


def _is_ordered(query: str) -> bool:
    """Return whether a query itself, not one within it, has an ORDER BY."""
    bare = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", " ", query, flags=re.DOTALL)
    while (inner := re.sub(r"\([^()]*\)", " ", bare)) != bare:
        bare = inner
    return re.search(r"\border\s+by\b", bare, re.IGNORECASE) is not None


def _missing_table(error: Exception, remote: Remote, run: Callable[[str], Any]) -> InputError | None:
    """Return the error for a table that does not exist, with those that do."""
    if remote.table is None or not re.search(r"(?i)(relation|table|schema|catalog) .*does not exist", str(error)):
        return None
    listed = "select table_name from information_schema.tables where table_schema not in "
    try:
        found = run(f"{listed}('information_schema', 'pg_catalog')").read_all()
    except Exception:
        return None
    known: list[str] = found.column(0).to_pylist()
    some = nearest(remote.table, known) if known else "; it has no tables that the user may read"
    return InputError(f"{remote.name}: there is no table '{plain(remote.table)}'{some}")


def _driver(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = plain((error.name or name).partition(".")[0].replace("_", "-"))
        raise InputError(f"reading this database needs {package}; {_EXTRA}") from None


@contextmanager
def _duckdb(remote: Remote, folder: Path) -> Generator[Callable[[str], Any]]:
    """Open a DuckDB file read-only, or a database in memory; yield a function from a query to an Arrow reader."""
    duckdb = _driver("duckdb")
    file = f"{unquote(remote.parts['server'])}{unquote(remote.path)}".removeprefix("/")
    if file and not Path(file).is_file():
        raise InputError(
            f"no file at {plain(file, most=200)}; write duckdb:///shop.db for a file here, duckdb:////data/shop.db "
            "from the root on"
        )
    try:
        config = {"temp_directory": str(folder / "sorting"), "memory_limit": _SORTING_MEMORY}
        database = duckdb.connect(file or ":memory:", read_only=bool(file), config=config)
    except Exception as error:
        raise remote.failure(error) from None

    def run(query: str) -> Any:
        return pa.RecordBatchReader.from_stream(database.sql(query))

    with closing(database):
        yield run


@contextmanager
def _postgresql(remote: Remote) -> Generator[Callable[[str], Any]]:
    """Connect to PostgreSQL for reading alone; yield a function from a query to an Arrow reader."""
    driver = _driver("adbc_driver_postgresql.dbapi")
    settings = {name: value for name, value in remote.settings.items() if name != "table"}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        settings = {"connect_timeout": str(_GIVE_UP_SECONDS)} | settings
    after = "&".join(f"{name}={value}" for name, value in settings.items())
    try:
        url = f"postgresql://{remote.parts['server']}{remote.path}"
        database = driver.connect(f"{url}?{after}" if after else url, autocommit=True)
    except Exception as error:
        raise remote.failure(error) from None
    with closing(database), closing(database.cursor()) as cursor:
        cursor.execute("set default_transaction_read_only = on")

        def run(query: str) -> Any:
            cursor.execute(query)
            return cursor.fetch_record_batch()

        yield run


# Object stores.


def _download(remote: Remote, folder: Path) -> dict[Path, str]:
    """Copy the files of a name, a folder or a pattern; return the copies in order, with their URLs."""
    tell, seconds = hearer() or (silent, 1.0)
    tell(f"connecting to {remote.name}")
    try:
        store, root = _open_store(remote)
        key = unquote(remote.path).strip("/")
        found = _list_files(remote, store, f"{root.rstrip('/')}/{key}" if key else root)
        total = sum(size for _, size in found.values())
        check_room(folder, total, what="a temporary copy", remedy="name fewer files")
        copies: dict[Path, str] = {}
        done, last = 0, monotonic()
        for place, (source, _) in found.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with store.open_input_stream(source) as stream, path.open("wb") as file:
                while chunk := stream.read(_CHUNK_BYTES):
                    file.write(chunk)
                    done += len(chunk)
                    if monotonic() - last >= seconds:
                        last = monotonic()
                        tell(f"reading {remote.name}: {spell_bytes(done)} of {spell_bytes(total)}")
            copies[path] = remote.name if len(found) == 1 else f"{remote.scheme}://{source}"
    except (pa.ArrowException, OSError) as error:
        raise remote.failure(error) from None
    return copies


def _open_store(remote: Remote) -> tuple[Any, str]:
    """Return pyarrow's file system, and its bucket or container."""
    fs: Any = import_module("pyarrow.fs")
    settings = dict(remote.settings)
    scheme = STORES[remote.scheme]
    if scheme == "gs":
        settings = {"retry_limit_seconds": str(_GIVE_UP_SECONDS)} | settings
    after = "&".join(f"{name}={value}" for name, value in settings.items())
    url = f"{scheme}://{remote.parts['server']}" + (f"?{after}" if after else "")
    return fs.FileSystem.from_uri(url)


def _list_files(remote: Remote, store: Any, name: str) -> dict[str, tuple[str, int]]:
    """Return the files of a name, a folder or a pattern: place in a folder of copies -> name in the store, size."""
    fs: Any = import_module("pyarrow.fs")
    try:
        there = store.get_file_info(name)
    except OSError as error:
        if "response body" in str(error) or "HTTP status" in str(error):
            store.get_file_info(fs.FileSelector(name, allow_not_found=True))  # the answer to this tells the reason
        raise
    if there.type == fs.FileType.File:
        return {PurePosixPath(name).name: (name, there.size)}
    pattern = glob.has_magic(name)
    parts = PurePosixPath(name).parts
    fixed = next((j for j, part in enumerate(parts) if glob.has_magic(part)), len(parts)) if pattern else len(parts)
    base = "/".join(parts[:fixed])
    listed = store.get_file_info(fs.FileSelector(base, recursive=pattern, allow_not_found=True))
    out: dict[str, tuple[str, int]] = {}
    for one in listed:
        within = PurePosixPath(one.path).parts[fixed:]
        fits = _matches(within, parts[fixed:]) if pattern else names_table(PurePosixPath(one.path))
        if one.type == fs.FileType.File and fits:
            out["/".join(within)] = (one.path, one.size)
    if out:
        return {place: out[place] for place in sorted(out, key=lambda one: natural(PurePosixPath(one)))}
    if pattern:
        raise InputError(f"no file matches '{remote.name}'; correct the pattern")
    if listed:
        raise InputError(
            f"the folder {remote.name} has no tables in it ({', '.join(ENDINGS)}); name files, or a pattern"
        )
    raise InputError(f"no file at {remote.name}; correct its name")


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern; `**` stands for any number of folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
