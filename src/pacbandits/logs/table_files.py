"""Several table files as one table, any range of rows readable; text files are converted first."""

from __future__ import annotations

import glob
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, plain
from pacbandits.records import parquet
from pacbandits.records.column_types import is_decimal
from pacbandits.records.columns import CellNames, Columns, csv, is_plain_text, is_text, pa, pc, pq
from pacbandits.records.parquet import Header, LoadedTable, describe
from pacbandits.records.text_files import (
    MAX_UNPACKED_RATIO,
    check_file,
    check_texts,
    decimal_comma,
    is_zipped,
    line_of,
    open_delimited,
    remarks_on_delimited,
    spell_bytes,
)
from pacbandits.schema import Fields, Json

# Expand names, folders and patterns to files, in order.


ENDINGS = (".parquet", ".pq", ".parq", *parquet.DELIMITERS)


def expand(patterns: Sequence[str | Path]) -> list[Path]:
    """Return the files of each pattern: a file, a folder of tables, or a pattern such as `logs/2026-*/*.parquet`.

    Within a folder or pattern they are sorted by name, with numbers in numeric order: part-9 before part-10.
    """
    out: list[Path] = []
    for pattern in patterns:
        out += _expand(str(pattern))
    seen: set[Path] = set()
    for path in out:
        real = path.resolve()
        if real in seen:
            raise InputError(f"{path} is named twice; a row counts once: name each file once")
        seen.add(real)
    if not out:
        raise InputError("no files are named; name one, a folder, or a pattern such as 'logs/*.parquet'")
    return out


def _expand(pattern: str) -> list[Path]:
    path = Path(pattern)
    try:
        folder, there = path.is_dir(), path.exists()
    except (OSError, ValueError):
        return [path]  # opening it reports the error
    if folder:
        found = [one for one in path.iterdir() if _is_table(one)]
        if not found:
            raise InputError(f"the folder {path} has no tables in it ({', '.join(ENDINGS)}); name files, or a pattern")
        return sorted(found, key=natural)
    if there or not glob.has_magic(pattern):
        return [path]
    found = [Path(one) for one in glob.glob(pattern, recursive=True)]  # noqa: PTH207, for patterns from the root on
    found = [one for one in found if one.is_file()]
    if not found:
        raise InputError(f"no file matches '{plain(pattern)}'; correct the pattern")
    return sorted(found, key=natural)


def _is_table(path: Path) -> bool:
    return path.is_file() and names_table(path)


def names_table(path: PurePath) -> bool:
    """Return whether a file in a folder is a table, by its name."""
    return not path.name.startswith((".", "_")) and parquet.suffix(path) in ENDINGS


def natural(path: PurePath) -> tuple[list[tuple[int, int, str]], str]:
    """Return a sort key in which numbers within names compare as numbers."""
    pieces = re.split(r"([0-9]+)", str(path))
    return [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in pieces], str(path)


# Several Parquet files as one table; any range of its rows can be read, a batch at a time.


_BUFFER_BYTES = 2**18  # per column: pages, not a whole row group


@dataclass(frozen=True)
class FilePart:
    """A Parquet file of a data set.

    path: the path of the file.
    name: the path in messages; that of the text file if it was converted from one.
    size: in bytes, when the data set was opened.
    changed_ns: its modification time at that moment.
    first: the number of its first row in the data set.
    groups: the number of rows of each row group.
    """

    path: Path
    name: str
    size: int
    changed_ns: int
    first: int
    groups: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return sum(self.groups)


@dataclass(frozen=True)
class Parts:
    """The files of a data set and their common columns.

    files: the files, in order.
    kinds: the columns by name, each with its type in all files (pyarrow's).
    coded: the text columns that their author made categories.
    about: the description in the files' metadata.
    remarks: the remarks in the files' metadata.
    text: the text file that was converted, if it was a single one.
    """

    files: tuple[FilePart, ...]
    kinds: dict[str, Any]
    coded: frozenset[str]
    about: Fields
    remarks: tuple[str, ...]
    text: Path | None = None

    @property
    def n_rows(self) -> int:
        return self.files[-1].first + self.files[-1].n_rows

    @property
    def line(self) -> Callable[[int], int] | None:
        """A function from a row to its line in the file, if that is text."""
        return None if self.text is None else partial(line_of, self.text)

    def table(self, columns: Columns) -> LoadedTable:
        """Return some rows as a table with the metadata of all of them."""
        return LoadedTable(columns, self.about, self.remarks, self.coded, self.line)

    def group_starts(self) -> Iterator[int]:
        """Yield the first row of every row group, in order, and then the number of all rows."""
        for part in self.files:
            start = part.first
            for count in part.groups:
                yield start
                start += count
        yield self.n_rows

    def file_of(self, row: int) -> FilePart:
        """Return the file that contains a row."""
        return next(part for part in self.files if row < part.first + part.n_rows)

    def read_rows(self, start: int, stop: int, columns: Sequence[str], *, most: int) -> Iterator[Columns]:
        """Yield rows from `start` up to, not including, `stop`, at most `most` at a time; text as codes.

        columns: the columns to read. Rows before `start` in its row group are read and discarded.
        """
        for part in self.files:
            if part.first < stop and start < part.first + part.n_rows:
                yield from self._read_file(part, start, stop, columns, most=most)

    def _read_file(
        self, part: FilePart, start: int, stop: int, columns: Sequence[str], *, most: int
    ) -> Iterator[Columns]:
        groups: list[int] = []
        place = row = part.first
        for number, count in enumerate(part.groups):
            if row < stop and start < row + count:
                place = place if groups else row
                groups.append(number)
            row += count
        with opened(part, texts=[name for name in columns if is_plain_text(self.kinds[name])]) as file:
            for batch in file.iter_batches(
                batch_size=most, row_groups=groups, columns=list(columns), use_threads=False
            ):
                first, last = max(start, place), min(stop, place + batch.num_rows)
                if first < last:
                    yield self._columns(batch.slice(first - place, last - first), columns, part)
                place += batch.num_rows
                if place >= stop:
                    return
            if place >= part.first + part.n_rows:
                return
            raise InputError(f"it ends after {place - part.first:,} rows, and says that it has {part.n_rows:,}")

    def _columns(self, batch: Any, columns: Sequence[str], part: FilePart) -> Columns:
        """Return the columns of some rows, in their common types in all files."""
        out: Columns = {}
        for name in columns:
            column: Any = batch.column(batch.schema.get_field_index(name))
            column.validate(full=True)
            out[name] = _as_kind(column, self.kinds[name], name, part)
        return out


def _as_kind(column: Any, kind: Any, name: str, part: FilePart) -> Any:
    """Convert a column to its common type in all files."""
    if is_text(kind):
        if pa.types.is_null(column.type):
            return pa.DictionaryArray.from_arrays(pa.nulls(len(column), pa.int32()), pa.array([], type=pa.string()))
        return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if column.type == kind:
        return column
    try:
        return column.cast(kind, safe=False)
    except pa.ArrowException:
        raise InputError(f"column '{plain(name)}' of {part.name} is {plain(column.type)}, elsewhere {kind}") from None


def in_blocks(pieces: Iterable[Columns], *, rows: int) -> Iterator[Columns]:
    """Yield the rows of pieces in blocks of `rows`; the last may have fewer."""
    waiting: list[Columns] = []
    count = 0
    for columns in pieces:
        n, place = len(next(iter(columns.values()))), 0
        while place < n:
            take = min(n - place, rows - count)
            whole = take == n
            waiting.append(columns if whole else {name: one.slice(place, take) for name, one in columns.items()})
            count, place = count + take, place + take
            if count == rows:
                yield _joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[Columns]) -> Columns:
    """Concatenate pieces, whose text columns may have different codes."""
    if len(pieces) == 1:
        return pieces[0]
    out: Columns = {}
    for name, column in pieces[0].items():
        several: list[Any] = [piece[name] for piece in pieces]
        if is_text(column.type):
            kind: Any = pa.dictionary(pa.int32(), pa.string())
            alike = [one if one.type == kind else one.cast(kind) for one in several]
            out[name] = pa.chunked_array(alike).unify_dictionaries().combine_chunks()
        else:
            out[name] = pa.concat_arrays(several)
    return out


def codes_of(column: Any, codes: Mapping[str, int], name: str) -> FloatArray:
    """Return the codes (n,) of a text column; missing values have the last code, which is their label's."""
    labels: list[str] = column.dictionary.to_pylist()
    places = np.array([codes.get(label, -1) for label in labels] or [-1], dtype=np.float64)
    missing = column.indices.is_null().to_numpy(zero_copy_only=False)
    local: IntArray = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    out = np.where(missing, len(codes) - 1.0, places[local])
    if (out < 0).any():
        raise changed(name)
    return out


def changed(name: str) -> InputError:
    """Return the error for a column with values that it did not have when all rows were first read."""
    return InputError(f"column '{plain(name)}' has changed since all rows were first read; do not change the files")


@dataclass(frozen=True)
class SetCells(CellNames):
    """Locations of values in a data set of several files: the file, and the row or line in it.

    parts: the files.
    """

    parts: Parts | None = None

    def row(self, row: int) -> str:
        place = row if self.order is None else int(self.order[row])
        if self.parts is None or len(self.parts.files) == 1:
            return super().row(row)
        part = self.parts.file_of(place)
        within = place - part.first
        text = Path(part.name)
        if text != part.path:
            return f"line {line_of(text, within)} of {part.name}"
        return f"row {within} (counted from 0) of {part.name}"


@contextmanager
def opened(part: FilePart, *, texts: Sequence[str]) -> Generator[Any]:
    """Open a file; raise if it has changed since the data set was opened. texts: columns to read as codes."""
    with parquet.reading(part.path):
        found = part.path.stat()
        if (found.st_size, found.st_mtime_ns) != (part.size, part.changed_ns):
            raise InputError(f"{part.name} has changed since it was first read; start again, and do not change it")
        with parquet.open_pages(part.path, texts=texts, buffer_bytes=_BUFFER_BYTES, changed_ns=part.changed_ns) as file:
            yield file


def list_parts(paths: Sequence[Path], *, names: Sequence[str], columns: Sequence[str] | None = None) -> Parts:
    """Return the files as one table, if their columns agree; names: for messages. columns: to read, if not all."""
    files: list[FilePart] = []
    described: list[Header] = []
    first = 0
    for path, name in zip(paths, names, strict=True):
        with parquet.reading(path):
            found = describe(path, name=name, in_text=name != str(path), columns=columns)
            state = path.stat()
            files.append(FilePart(path, name, state.st_size, state.st_mtime_ns, first, found.groups))
            first += files[-1].n_rows
            described.append(found)
    files, described = _with_rows(files, described)
    kinds = dict(described[0].kinds)
    for part, found in zip(files[1:], described[1:], strict=True):
        _check_same(found, described[0], part.name, files[0].name)
        for name, kind in found.kinds.items():
            kinds[name] = _common_kind(kinds[name], kind, f"column '{plain(name)}' of {part.name}")
    coded = frozenset(name for name, kind in kinds.items() if pa.types.is_dictionary(kind))
    remarks = tuple(dict.fromkeys(words for found in described for words in found.remarks))
    return Parts(tuple(files), kinds, coded, described[0].about, remarks)


def _with_rows(files: list[FilePart], described: list[Header]) -> tuple[list[FilePart], list[Header]]:
    """Drop the files without rows; raise InputError if none has any."""
    kept = [number for number, part in enumerate(files) if part.n_rows]
    if not kept:
        raise InputError(f"{files[0].name} has no rows" if len(files) == 1 else "the files have no rows")
    return [files[number] for number in kept], [described[number] for number in kept]


def _check_same(mine: Header, first: Header, name: str, first_name: str) -> None:
    """Raise InputError if two files cannot be parts of one log."""
    for lacking, there, other in ((mine, first, first_name), (first, mine, name)):
        gone = next((column for column in there.kinds if column not in lacking.kinds), None)
        if gone is not None:
            who = name if lacking is mine else first_name
            raise InputError(
                f"{who} has no column '{plain(gone)}', which {other} has; the files of a data set "
                "must have the same columns"
            )
    if dict(mine.about.given) != dict(first.about.given):
        raise InputError(
            f"{name} and {first_name} describe their logs differently (actions, reward range, …); read them one by one"
        )


def _common_kind(one: Any, other: Any, where: str) -> Any:
    """Return the common type of a column that has two types in two files."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if is_text(one) and is_text(other) and pa.types.is_dictionary(one) == pa.types.is_dictionary(other):
        return one
    whole = (bool(pa.types.is_integer(one)), bool(pa.types.is_integer(other)))
    real = (bool(pa.types.is_floating(one)), bool(pa.types.is_floating(other)))
    if all(whole):
        return pa.int64()
    if all(a or b for a, b in zip(whole, real, strict=True)):
        return pa.float64()
    raise InputError(f"{where} is {plain(other)}, and {plain(one)} in files before; write it alike in all of them")


# Convert text files to temporary Parquet files, a batch at a time, so that any range of rows can be read. A column has
# the type it would have if all files were read at once: the first, in pyarrow's order, that all of its values fit. It
# is found by trial: if a value does not fit, the column gets the next type that this value fits, and the files are read
# again.


_GROUP_ROWS = 2**17
_RESERVE_BYTES = 2**27  # of disk space to leave free
# Numbers take up to this many times the size of their text: "0," becomes eight bytes.
_MAX_GROWTH = 4
_MISFIT = re.compile(r"In CSV column #(\d+): .*conversion error to .*?: invalid (?:value '(.*)'|UTF8 data)$", re.DOTALL)
# In the order in which pyarrow tries them.
_KINDS: tuple[Any, ...] = (
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.time32("s"),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.float64(),
    pa.string(),
)


class Folder:
    """A temporary folder, removed when it is closed, garbage-collected, or Python exits."""

    def __init__(self) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix="pacbandits-"))
        except OSError as error:
            raise InputError(f"no temporary folder can be made ({error.strerror}); name one, TMPDIR=…") from None
        self._remove = weakref.finalize(self, shutil.rmtree, str(self.path), ignore_errors=True)
        self._other: Folder | None = None

    def beside(self, other: Folder | None) -> Folder:
        """Return this folder, which now is removed together with another."""
        self._other = other
        return self

    def close(self) -> None:
        """Remove it."""
        self._remove()
        if self._other is not None:
            self._other.close()


@dataclass(frozen=True, eq=False)
class Converted:
    """Text files converted to Parquet.

    folder: the folder of the files.
    paths: the files, in order.
    remarks: remarks on how the text was read.
    """

    folder: Folder
    paths: tuple[Path, ...]
    remarks: tuple[str, ...]


def convert(paths: Sequence[Path], *, action: str) -> Converted:
    """Convert text files to Parquet; action: the column of actions, which may be numbers with leading zeros."""
    delimiters = [parquet.DELIMITERS[parquet.suffix(path)] for path in paths]
    folder = Folder()
    try:
        _check_room(folder.path, sum(_guess_bytes(path) for path in paths))
        remarks: list[str] = []
        kinds: dict[str, Any] = {}
        for path, delimiter in zip(paths, delimiters, strict=True):
            with parquet.reading(path):
                remarks += remarks_on_delimited(path, delimiter)
                _widen_by_first_rows(kinds, path, delimiter, first=paths[0])
        while not _write_all(paths, delimiters, kinds, folder.path):
            pass  # some column has a wider type now
        if kinds.get(action) == pa.int64() and _spelt_otherwise(paths, delimiters, action):
            kinds[action] = pa.string()
            _write_all(paths, delimiters, kinds, folder.path)
    except BaseException:
        folder.close()
        raise
    made = tuple(_place(folder.path, number) for number in range(len(paths)))
    return Converted(folder, made, tuple(dict.fromkeys(remarks)))


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.parquet"


def _guess_bytes(path: Path) -> int:
    """Return an upper estimate of the size of a file as Parquet."""
    return check_file(path) * (MAX_UNPACKED_RATIO if is_zipped(path) else _MAX_GROWTH)


def check_room(folder: Path, needed: int, *, what: str, remedy: str) -> None:
    """Raise InputError if less disk space is free than may be needed; what: takes it. remedy: another, after "or"."""
    free = shutil.disk_usage(folder).free
    if free < needed + _RESERVE_BYTES:
        raise InputError(
            f"{what} needs up to {spell_bytes(needed)} of disk in {folder.parent}, which has {spell_bytes(free)}; name "
            f"another folder (TMPDIR=…), or {remedy}"
        )


_check_room = partial(check_room, what="reading text as a stream", remedy="write the files as Parquet")


def _widen_by_first_rows(kinds: dict[str, Any], path: Path, delimiter: str, *, first: Path) -> None:
    """Widen the types of columns by those of a file's first rows."""
    with open_delimited(path, delimiter, kinds={}) as (reader, _):
        found = {field.name: field.type for field in reader.schema}
        names: list[str] = reader.schema.names
    parquet.check_names(str(path), names, n=1, in_text=True)
    if kinds and set(found) != set(kinds):
        gone = sorted(set(found) ^ set(kinds))[0]
        who, other = (path, first) if gone in kinds else (first, path)
        raise InputError(
            f"{who} has no column '{plain(gone)}', which {other} has; the files of a data set "
            "must have the same columns"
        )
    for name, kind in found.items():
        if kind not in _KINDS:
            raise _not_text(name)
        kinds[name] = max(kinds.get(name, pa.null()), kind, key=_KINDS.index)


def _write_all(paths: Sequence[Path], delimiters: Sequence[str], kinds: dict[str, Any], folder: Path) -> bool:
    """Write all files with columns of these types; if a type is too narrow, widen it and return False."""
    commas: dict[str, bool] = {}  # text columns, and whether all their values are numbers with decimal commas
    for number, (path, delimiter) in enumerate(zip(paths, delimiters, strict=True)):
        with parquet.reading(path):
            try:
                _write(path, delimiter, kinds, _place(folder, number), commas)
            except pa.ArrowInvalid as error:
                found = _MISFIT.search(str(error).strip())
                if found is None:
                    raise
                with open_delimited(path, delimiter, kinds={}) as (reader, _):
                    name: str = reader.schema.names[int(found[1])]
                if found[2] is None:
                    raise _not_text(name) from None
                _widen(kinds, name, found[2])
                return False
    if any(commas.values()) and not any(pa.types.is_floating(kind) for kind in kinds.values()):
        name = next(name for name, only in commas.items() if only)
        raise InputError(
            f"column '{plain(name)}' holds numbers with decimal commas, which are not read as a stream; write them "
            "with points, or read it in memory (--engine threads)"
        )
    return True


def _widen(kinds: dict[str, Any], name: str, value: str) -> None:
    """Widen a column's type to the next that a value fits."""
    for kind in _KINDS[_KINDS.index(kinds[name]) + 1 :]:
        if kind == pa.string() or _fits(value, kind):
            kinds[name] = kind
            return
    raise _not_text(name)


def _not_text(name: str) -> InputError:
    return InputError(
        f"column '{plain(name)}' must be numbers or text, got bytes that are not UTF-8 (Latin-1?); save the file as "
        "UTF-8"
    )


def _fits(value: str, kind: Any) -> bool:
    """Return whether a text can be read as a type."""
    quoted = value.replace('"', '""')
    lines = pa.BufferReader(f'x,y\n"{quoted}",1\n'.encode())
    try:
        csv.read_csv(lines, convert_options=csv.ConvertOptions(column_types={"x": kind}))
    except pa.ArrowInvalid:
        return False
    return True


def _write(path: Path, delimiter: str, kinds: dict[str, Any], place: Path, commas: dict[str, bool]) -> None:
    """Write a text file as Parquet."""
    with open_delimited(path, delimiter, kinds=kinds) as (reader, apart):
        texts = [field.name for field in reader.schema if is_plain_text(field.type)]

        def check(batch: Any) -> None:
            for name in texts:
                _check_text(name, batch.column(batch.schema.get_field_index(name)), apart, commas)
            _check_room(place.parent, batch.nbytes)

        write_batches(reader, place, texts=texts, check=check)


def write_batches(reader: Any, place: Path, *, texts: Sequence[str], check: Callable[[Any], None]) -> None:
    """Write the batches of an Arrow reader to a Parquet file; texts: to store as codes. check: called with each."""
    with pq.ParquetWriter(place, reader.schema, compression="none", use_dictionary=list(texts)) as writer:
        waiting: list[Any] = []
        rows = 0
        for batch in reader:
            check(batch)
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(waiting, schema=reader.schema), row_group_size=rows)
                waiting, rows = [], 0
        if rows:
            writer.write_table(pa.Table.from_batches(waiting, schema=reader.schema), row_group_size=rows)


def _check_text(name: str, column: Any, apart: str, commas: dict[str, bool]) -> None:
    """Raise InputError if text contains line breaks; record whether it is numbers with decimal commas."""
    broken: Any = pc.match_substring_regex(column, "[\n\r\\x00]")
    if pc.any(broken).as_py():
        check_texts(name, column.filter(broken)[:1].to_pylist())
    if apart != "," and column.null_count < len(column):
        commas[name] = commas.get(name, True) and decimal_comma(column)


def _spelt_otherwise(paths: Sequence[Path], delimiters: Sequence[str], name: str) -> bool:
    """Return whether some integers are not written as plain decimals: 001 is not 1."""
    for path, delimiter in zip(paths, delimiters, strict=True):
        with (
            parquet.reading(path),
            open_delimited(path, delimiter, kinds={name: pa.string()}, columns=[name]) as (reader, _),
        ):
            for batch in reader:
                labels: list[str | None] = batch.column(0).unique().to_pylist()
                if not all(is_decimal(label.strip()) for label in labels if label is not None and label.strip()):
                    return True
    return False


# Whether files are read whole, or block by block.


MIN_STREAMED_ROWS = 2**19  # of Parquet
MIN_STREAMED_BYTES = 2**28  # of text


def is_streamed(paths: Sequence[Path], reading: Json, *, engine: object, epsilon: float | None) -> bool:
    """Return whether files are read block by block: if an engine or several files are named, or one is large.

    Rows that have to be sorted by time or counted in blocks, or that belong to returning users, are all needed at once.
    """
    path = paths[0]
    pattern = path.is_dir() or (not path.exists() and any(letter in str(path) for letter in "*?["))
    if engine is not None or len(paths) > 1 or pattern:
        return True
    counted = "block" in reading and "split" not in reading
    if counted or reading.keys() & {"time", "unit", "position"} or epsilon == 0 or not path.is_file():
        return False
    if parquet.suffix(path) in parquet.DELIMITERS:
        return path.stat().st_size >= MIN_STREAMED_BYTES
    return parquet.suffix(path) in (".parquet", ".pq", ".parq") and parquet.count_rows(path) >= MIN_STREAMED_ROWS
