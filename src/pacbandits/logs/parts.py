"""Several Parquet files as one table; any range of its rows can be read, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields
from pacbandits.records import parquet
from pacbandits.records.arrow import Columns, is_plain_text, is_text, pa
from pacbandits.records.columns import CellNames
from pacbandits.records.delimited import line_of
from pacbandits.records.parquet import Header, LoadedTable, describe

_BUFFER_BYTES = 2**18  # of a column that is read at once: pages, and not all of a row group


@dataclass(frozen=True)
class FilePart:
    """A Parquet file of a data set.

    path: of the file.
    name: the path in messages; that of the text file where it was converted from one.
    size: in bytes, when the data set was opened.
    changed_ns: time of the last change, at that moment.
    first: the number of its first row in the data set.
    groups: how many rows each of its row groups has.
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

    files: in order.
    kinds: the columns by name, each with its type in all files (pyarrow's).
    coded: the columns of text that their author has made categories.
    about: what the files say of the log beside their columns.
    remarks: the same, in words.
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
        """On which line of the file a row stands, if that is text."""
        return None if self.text is None else partial(line_of, self.text)

    def table(self, columns: Columns) -> LoadedTable:
        """Some rows as a table with what the files say of all of them."""
        return LoadedTable(columns, self.about, self.remarks, self.coded, self.line)

    def group_starts(self) -> Iterator[int]:
        """The number of the first row of every row group, in order, and then that of all rows."""
        for part in self.files:
            start = part.first
            for count in part.groups:
                yield start
                start += count
        yield self.n_rows

    def file_of(self, row: int) -> FilePart:
        """The file in which a row stands."""
        return next(part for part in self.files if row < part.first + part.n_rows)

    def read_rows(self, start: int, stop: int, columns: Sequence[str], *, most: int) -> Iterator[Columns]:
        """Rows from `start` up to and without `stop`, no more than so many at a time; text comes as codes.

        columns: those that are wanted. What is before `start` in its row group is read, and let go.
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
        """The columns of some rows, in the types that they have in all files."""
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
    """The rows of pieces in blocks of so many, but for the last, which may have fewer."""
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
    """Pieces one after the other; those of text may have different codes."""
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
    """The codes (n,) of a column of text; what is missing has the last, as the label of its own."""
    labels: list[str] = column.dictionary.to_pylist()
    places = np.array([codes.get(label, -1) for label in labels] or [-1], dtype=np.float64)
    missing = column.indices.is_null().to_numpy(zero_copy_only=False)
    local: IntArray = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    out = np.where(missing, len(codes) - 1.0, places[local])
    if (out < 0).any():
        raise changed(name)
    return out


def changed(name: str) -> InputError:
    """What to say of a column that holds something else than when all rows were first read."""
    return InputError(
        f"column '{plain(name)}' holds what it did not when all rows were first read; leave the files alone"
    )


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
            raise InputError(f"{part.name} has changed since it was first read; start again, and leave it as it is")
        with parquet.open_pages(part.path, texts=texts, buffer_bytes=_BUFFER_BYTES, changed_ns=part.changed_ns) as file:
            yield file


def list_parts(paths: Sequence[Path], *, names: Sequence[str], columns: Sequence[str] | None = None) -> Parts:
    """The files as one table, if their columns are the same; names: what to call each. columns: to read, if not all."""
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
    """Without the files that have no rows, if any has some."""
    kept = [number for number, part in enumerate(files) if part.n_rows]
    if not kept:
        raise InputError(f"{files[0].name} has no rows" if len(files) == 1 else "the files have no rows")
    return [files[number] for number in kept], [described[number] for number in kept]


def _check_same(mine: Header, first: Header, name: str, first_name: str) -> None:
    """Raise where two files cannot be parts of one log."""
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
            f"{name} and {first_name} say different things of their log (its actions, its range of rewards, …); read "
            "them one by one"
        )


def _common_kind(one: Any, other: Any, where: str) -> Any:
    """The type of a column that is of two types in two files."""
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
