"""Convert text files to temporary Parquet files, a batch at a time, so that any range of rows can be read.

A column has the type that it would have if all files were read at once: the first, in the order in which pyarrow tries
them, that all of its values can be. It is found by trial: where a value does not fit, the column is given the next type
that this value fits, and the files are read from the start.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacbandits.errors import InputError, plain
from pacbandits.records import parquet
from pacbandits.records.arrow import csv, is_plain_text, pa, pc, pq
from pacbandits.records.delimited import check_texts, decimal_comma, open_delimited, remarks_on_delimited
from pacbandits.records.files import MAX_UNPACKED_RATIO, check_file, is_zipped, spell_bytes
from pacbandits.records.written import is_decimal

_GROUP_ROWS = 2**17
_RESERVE_BYTES = 2**27  # of disk, which are left free
# A file of numbers takes up to this many times the room of its text: "0," becomes eight bytes.
_MAX_GROWTH = 4
_MISFIT = re.compile(r"In CSV column #(\d+): .*conversion error to .*?: invalid (?:value '(.*)'|UTF8 data)$", re.DOTALL)
# In the order in which they are tried.
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

    def close(self) -> None:
        """Remove it."""
        self._remove()


@dataclass(frozen=True, eq=False)
class Converted:
    """Text files converted to Parquet.

    folder: that holds them.
    paths: of the files, in order.
    remarks: how the text was read.
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
            pass  # some column is wider now
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
    """What a file may take as Parquet."""
    return check_file(path) * (MAX_UNPACKED_RATIO if is_zipped(path) else _MAX_GROWTH)


def _check_room(folder: Path, needed: int) -> None:
    """Raise where there is less free disk than may be needed."""
    free = shutil.disk_usage(folder).free
    if free < needed + _RESERVE_BYTES:
        raise InputError(
            f"to read text as a stream takes up to {spell_bytes(needed)} of disk in {folder.parent}, which has "
            f"{spell_bytes(free)}; name another folder (TMPDIR=…), or write the files as Parquet"
        )


def _widen_by_first_rows(kinds: dict[str, Any], path: Path, delimiter: str, *, first: Path) -> None:
    """Widen the types of columns by what the first rows of a file are."""
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
    """Write all files with columns of these types; widen one that is too narrow, and say that all is to be redone."""
    commas: dict[str, bool] = {}  # columns of text, and whether all of it is numbers with decimal commas
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
    """Give a column the next type that a value fits."""
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
    """Whether a text is read as a value of a type."""
    quoted = value.replace('"', '""')
    lines = pa.BufferReader(f'x,y\n"{quoted}",1\n'.encode())
    try:
        csv.read_csv(lines, convert_options=csv.ConvertOptions(column_types={"x": kind}))
    except pa.ArrowInvalid:
        return False
    return True


def _write(path: Path, delimiter: str, kinds: dict[str, Any], place: Path, commas: dict[str, bool]) -> None:
    """Write a file of text as Parquet."""
    with open_delimited(path, delimiter, kinds=kinds) as (reader, apart):
        texts = [field.name for field in reader.schema if is_plain_text(field.type)]
        with pq.ParquetWriter(place, reader.schema, compression="none", use_dictionary=texts) as writer:
            waiting: list[Any] = []
            rows = 0
            for batch in reader:
                for name in texts:
                    _check_text(name, batch.column(batch.schema.get_field_index(name)), apart, commas)
                waiting.append(batch)
                rows += batch.num_rows
                if rows >= _GROUP_ROWS:
                    _check_room(place.parent, sum(one.nbytes for one in waiting))
                    writer.write_table(pa.Table.from_batches(waiting, schema=reader.schema), row_group_size=rows)
                    waiting, rows = [], 0
            if rows:
                writer.write_table(pa.Table.from_batches(waiting, schema=reader.schema), row_group_size=rows)


def _check_text(name: str, column: Any, apart: str, commas: dict[str, bool]) -> None:
    """Raise where text has line breaks within it; and notice whether it is numbers with decimal commas."""
    broken: Any = pc.match_substring_regex(column, "[\n\r\\x00]")
    if pc.any(broken).as_py():
        check_texts(name, column.filter(broken)[:1].to_pylist())
    if apart != "," and column.null_count < len(column):
        commas[name] = commas.get(name, True) and decimal_comma(column)


def _spelt_otherwise(paths: Sequence[Path], delimiters: Sequence[str], name: str) -> bool:
    """Whether whole numbers are not written as such are: 001 is not 1."""
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
