"""Read tables from Parquet and text files, and write Parquet."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path, PurePath
from typing import IO, Any, BinaryIO, Union, cast

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.records.columns import Columns, is_list, is_number, is_plain_text, is_temporal, is_text, pa, pq
from pacbandits.records.log_metadata import has_record
from pacbandits.records.text_files import (
    DELIMITERS,
    NUMBER_BYTES,
    ROW_BYTES,
    check_columns,
    check_file,
    check_texts,
    check_unpacked,
    line_of,
    max_unpacked_bytes,
    naming,
    read_delimited,
    remarks_on_delimited,
    spell_bytes,
    why,
)
from pacbandits.schema import MAX_TEXT_CHARACTERS, Fields, format_text, parse_json, read_format, texts

# The unpacked size of a Parquet file, from its page headers, before any page is unpacked.
#
# A few bytes of a page can stand for a billion numbers, whatever the footer says, so every page header of all columns
# of all row groups is read. pyarrow has no such limit, and cannot be asked where the pages are: with damaged columns in
# the footer (level histograms that do not fit, say) `metadata.row_group(i).column(j)` aborts the process, as it did for
# 39 of 20,000 files with one to three changed bytes in the footer (pyarrow 26). So the footer is read here too, with
# the part of Thrift's compact protocol that sizes need.


# pyarrow takes up to 300 times the size of the footer, which describes the columns.
MAX_FOOTER_BYTES = 2**21
MAX_PAGES = 1_000_000
MAX_PAGE_BYTES = 2**27  # of a page, if a file is read page by page
_MAX_PAGE_HEADER_BYTES = 2**20
_FIRST_HEADER_BYTES = 256
_MAX_SIZE = 2**31  # of a page, in bytes or values: they are 32-bit integers

# Field numbers: of a file, a row group, a column in one, its description; of a page's header, and of the headers of
# page types in it.
_GROUPS = 4
_COLUMNS = 1
_DESCRIPTION = 3
_TYPE, _COUNT, _PACKED_TOTAL, _FIRST_DATA_PAGE, _DICTIONARY_PAGE = 1, 5, 7, 9, 11
_UNPACKED_SIZE, _PACKED_SIZE = 2, 3
_KINDS_OF_PAGES = (5, 7, 8)
_VALUES = 1
_BYTE_ARRAY = 6  # the type of text

# Kinds of values in Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_FIXED_BYTES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
_MAX_DEPTH = 12

_Value = Union[int, "_Struct", "list[_Struct]", None]
_Struct = dict[int, _Value]


@dataclass(frozen=True)
class _Chunk:
    """The pages of a column in a row group.

    start: the first byte, from the start of the file.
    end: the end of the last page.
    text: whether they hold text.
    """

    start: int
    end: int
    text: bool


def count_unpacked_bytes(file: BinaryIO, *, size: int, most: int) -> int:
    """Return the memory in bytes that a file's columns take once read; stop at the first total above `most`.

    Raises:
        InputError: If it is not a Parquet file, or its pages cannot be found.
    """
    total = pages = 0
    for unpacked in _unpacked_pages(file, size=size):
        total, pages = total + unpacked, pages + 1
        if total > most:
            return total
        if pages > MAX_PAGES:
            raise InputError(f"it has more than {MAX_PAGES:,} pages; write it with larger ones")
    return total


def check_pages(file: BinaryIO, *, size: int) -> None:
    """Raise InputError if a page unpacks to too much for a file that is read page by page."""
    for unpacked in _unpacked_pages(file, size=size):
        if unpacked > MAX_PAGE_BYTES:
            raise InputError(
                f"a page of it unpacks to {spell_bytes(unpacked)}, and at most {spell_bytes(MAX_PAGE_BYTES)} are read "
                "at once; write it with smaller ones (data_page_size=2**20)"
            )


def _unpacked_pages(file: BinaryIO, *, size: int) -> Iterator[int]:
    """Yield the memory in bytes that each page takes once read."""
    for chunk in _find_chunks(file, size=size):
        place = chunk.start
        while place < chunk.end:
            unpacked, values, place = _read_page(file, place, chunk.end)
            yield NUMBER_BYTES * values + unpacked if chunk.text else max(NUMBER_BYTES * values, unpacked)


def _find_chunks(file: BinaryIO, *, size: int) -> Iterator[_Chunk]:
    """Yield the column chunks that the footer lists."""
    width = None
    for group in _structs(_read_footer(file, size=size), _GROUPS):
        columns = _structs(group, _COLUMNS)
        if width is None:
            check_columns(len(columns))
        if width not in (None, len(columns)):
            raise InputError("its row groups differ in their columns; it is damaged")
        width = len(columns)
        for column in columns:
            described = column.get(_DESCRIPTION)
            if not isinstance(described, dict):
                raise InputError("it does not record where its columns are, or is encrypted")
            start, dictionary = _number(described, _FIRST_DATA_PAGE), described.get(_DICTIONARY_PAGE)
            if isinstance(dictionary, int) and 0 < dictionary < start:
                start = dictionary
            if _number(described, _COUNT) > 0:  # a column without values may have no pages
                end = start + _number(described, _PACKED_TOTAL)
                yield _Chunk(start, end, text=described.get(_TYPE) == _BYTE_ARRAY)


def _read_footer(file: BinaryIO, *, size: int) -> _Struct:
    """Return the fields of the footer."""
    file.seek(max(size - 8, 0))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 12:
        raise InputError("it does not end as a Parquet file does; it is damaged, or something else")
    if length > MAX_FOOTER_BYTES:
        raise InputError(f"its metadata takes more than {spell_bytes(MAX_FOOTER_BYTES)}; use fewer columns")
    file.seek(size - 8 - length)
    try:
        return _read_struct(file.read(length))[0]
    except _ThriftError:
        raise InputError("its metadata is damaged") from None


def _structs(given: _Struct, field: int) -> list[_Struct]:
    value = given.get(field)
    return value if isinstance(value, list) else []


def _number(given: _Struct, field: int) -> int:
    value = given.get(field)
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise InputError("it does not record where its columns are; it is damaged")
    return value


def _read_page(file: BinaryIO, place: int, end: int) -> tuple[int, int, int]:
    """Return the unpacked bytes of the page at a place, its number of values, and the place of the next page."""
    length = _FIRST_HEADER_BYTES
    while True:
        file.seek(place)
        raw = file.read(min(length, end - place))
        try:
            fields, size = _read_struct(raw)
            break
        except _ThriftError:
            if len(raw) < length or length >= _MAX_PAGE_HEADER_BYTES:
                raise InputError(f"the page at byte {place} is damaged") from None
            length *= 8
    counts = [inner.get(_VALUES, 0) for kind in _KINDS_OF_PAGES if isinstance(inner := fields.get(kind), dict)]
    sizes = (fields.get(_UNPACKED_SIZE), fields.get(_PACKED_SIZE), *counts)
    known = [value for value in sizes if isinstance(value, int) and 0 <= value < _MAX_SIZE]
    if len(known) < len(sizes):
        raise InputError(f"the page at byte {place} is damaged")
    return known[0], max(known[2:], default=0), place + size + known[1]


class _ThriftError(Exception):
    """The bytes are not a complete struct."""


def _read_struct(raw: bytes) -> tuple[_Struct, int]:
    """Return a struct's integers, structs and lists of structs by field number, and where it ends."""
    try:
        fields, end = _read_fields(raw, 0, _MAX_DEPTH)
    except IndexError:
        raise _ThriftError from None
    if end > len(raw):
        raise _ThriftError
    return fields, end


def _read_fields(raw: bytes, place: int, depth: int) -> tuple[_Struct, int]:
    fields: _Struct = {}
    number = 0
    while kind := (head := raw[place]) & 15:
        place += 1
        if head >> 4:
            number += head >> 4
        else:
            number, place = _read_integer(raw, place)
        value, place = _read_value(raw, place, kind, depth - 1)
        if value is not None:
            fields[number] = value
    return fields, place + 1


def _read_value(raw: bytes, place: int, kind: int, depth: int) -> tuple[_Value, int]:
    """Return a value and where it ends; None for values that are not needed."""
    if kind in _INTEGERS:
        return _read_integer(raw, place)
    if kind in _FIXED_BYTES:
        return None, place + _FIXED_BYTES[kind]
    if kind == _BINARY:
        length, place = _read_varint(raw, place)
        return None, place + length
    if depth == 0:
        raise _ThriftError
    if kind == _STRUCT:
        return _read_fields(raw, place, depth)
    if kind not in (_LIST, _SET):
        raise _ThriftError
    head = raw[place]
    count, place = (head >> 4, place + 1) if head >> 4 < 15 else _read_varint(raw, place + 1)
    entry_kind = _BYTE if head & 15 in (_TRUE, _FALSE) else head & 15  # booleans take a byte in lists
    if count > len(raw) - place:  # each entry takes a byte or more
        raise _ThriftError
    structs: list[_Struct] = []
    for _ in range(count):
        entry, place = _read_value(raw, place, entry_kind, depth - 1)
        if isinstance(entry, dict):
            structs.append(entry)
    return structs, place


def _read_integer(raw: bytes, place: int) -> tuple[int, int]:
    value, place = _read_varint(raw, place)
    return (value >> 1) ^ -(value & 1), place


def _read_varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise _ThriftError


__all__ = [
    "DELIMITERS",
    "Header",
    "LoadedTable",
    "check_names",
    "count_rows",
    "describe",
    "open_pages",
    "read_about",
    "read_table",
    "read_whole",
    "reading",
    "sort_labels",
    "suffix",
    "table_of",
    "write",
]

MAX_REMARKS = 100  # per file
NO_ABOUT = Fields({}, "description of the table")
_MAX_FOOTER_ITEMS = 10**6  # per list of the footer
_PLAIN_PARQUET = "write it without compression and dictionaries (compression='none', use_dictionary=False)"
_REMARKS_KEY, _ABOUT_KEY = b"pacbandits remarks", b"pacbandits about"  # in the metadata of a Parquet file
FORMAT = 1  # of these entries (docs/stability.md)


@dataclass(frozen=True, eq=False)
class LoadedTable:
    """A table in memory, with the metadata of its source.

    columns: pyarrow columns by name, in order; text as codes into its sorted labels, or into a dictionary column's own.
    about: the description given to `write`; empty for other sources.
    remarks: the remarks given to `write`; for text files, the delimiter.
    coded: the text columns that their author made categories.
    line: maps a row, from 0, to its line in a text file; None for other sources.
    """

    columns: Columns
    about: Fields
    remarks: tuple[str, ...] = ()
    coded: frozenset[str] = frozenset()
    line: Callable[[int], int] | None = None

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0


def read_table(path: str | Path) -> LoadedTable:
    """Read a table: CSV if the name ends in .csv or .tsv (or these and .gz), else Parquet."""
    path = Path(path)
    with reading(path) as delimiter:
        if delimiter is not None:
            made: Any = read_delimited(path, delimiter)
            remarks = remarks_on_delimited(path, delimiter)
            return LoadedTable(_split_up(made, str(path), in_text=True), NO_ABOUT, remarks, line=partial(line_of, path))
        opened = _described(path)
        header = _header(opened, path)
        _check_readable(header.kinds)
        texts = [name for name, kind in header.kinds.items() if is_plain_text(kind)]
        whole: Any = _open(path, metadata=opened.metadata, read_dictionary=texts, page_checksum_verification=True)
        made = whole.read()
        if made.num_rows != sum(header.groups):
            raise InputError(f"it has {count_of(made.num_rows, 'row')}, and says that it has {sum(header.groups)}")
        columns = _split_up(made, str(path), texts=texts)
        return LoadedTable(columns, header.about, header.remarks, header.coded)


def table_of(table: Any, *, name: str) -> LoadedTable:
    """Return the table of an Arrow table; name: its name in messages."""
    check_columns(table.num_columns)
    kinds = {field.name: field.type for field in table.schema}
    _check_readable(kinds)
    coded = frozenset(name for name, kind in kinds.items() if pa.types.is_dictionary(kind))
    return LoadedTable(_split_up(table, name), NO_ABOUT, coded=coded)


@contextmanager
def reading(path: Path) -> Generator[str | None]:
    """Yield the delimiter of a text file, None for Parquet; errors within become an InputError that names the file."""
    size = check_file(path)
    delimiter = DELIMITERS.get(suffix(path))
    if size == 0:
        raise InputError(f"{path} is empty: a file of 0 bytes; write it again")
    try:
        with naming(path):
            yield delimiter
    except (pa.ArrowException, zlib.error, UnicodeError, OSError, EOFError, OverflowError) as error:
        kind = "Parquet" if delimiter is None else "CSV"
        raise InputError(f"{path} is not a readable {kind} file: {why(error)}") from None


def read_whole(path: Path) -> Any:
    """Return the table of a Parquet file with columns of any type, within the limit on the unpacked size."""
    described = _described(path)
    table: Any = _open(path, metadata=described.metadata, page_checksum_verification=True).read()
    table.validate(full=True)
    return table


def _split_up(table: Any, name: str, *, in_text: bool = False, texts: Collection[str] | None = None) -> Columns:
    """Return the columns of a table, text as codes; texts: the text columns, if their types do not say."""
    names: list[str] = table.column_names
    n: int = table.num_rows
    check_names(name, names, n=n, in_text=in_text)
    texts = {field.name for field in table.schema if is_plain_text(field.type)} if texts is None else texts
    out: Columns = {}
    for j, title in enumerate(names):
        column: Any = table.column(j).combine_chunks()
        column.validate(full=True)
        if len(column) != n:
            raise InputError(
                f"column '{plain(title)}' has {count_of(len(column), 'row')}, and the table {n}; it is damaged"
            )
        out[title] = sort_labels(column) if title in texts else column
        if in_text and title in texts:
            check_texts(title, out[title].dictionary.to_pylist())
    return out


def _check_readable(kinds: Mapping[str, Any]) -> None:
    for name, kind in kinds.items():
        if not _is_readable(kind):
            raise InputError(f"column '{plain(name)}' must be numbers or text, got {plain(kind)}")


@dataclass(frozen=True)
class Header:
    """The metadata of a Parquet file.

    kinds: the types of its columns (pyarrow's), by name.
    groups: the number of rows of each row group.
    about: the description given to `write`.
    remarks: the remarks given to `write`.
    """

    kinds: dict[str, Any]
    groups: tuple[int, ...]
    about: Fields
    remarks: tuple[str, ...]

    @property
    def coded(self) -> frozenset[str]:
        """The text columns that their author made categories."""
        return frozenset(name for name, kind in self.kinds.items() if pa.types.is_dictionary(kind))


def describe(path: Path, *, name: str, in_text: bool, columns: Sequence[str] | None = None) -> Header:
    """Return the metadata of a Parquet file that can be read page by page; name: its name in messages.

    in_text: whether it was converted from text. columns: the columns to read, if not all.
    """
    with path.open("rb") as file:
        check_pages(file, size=check_file(path))
    opened = _open(path)
    check_columns(opened.metadata.num_columns)
    check_names(name, opened.schema_arrow.names, n=1, in_text=in_text)
    header = _header(opened, path)
    for one in columns or ():
        if one not in header.kinds:
            raise InputError(f"there is no column '{plain(one)}'{nearest(one, header.kinds)}")
    kinds = {one: kind for one, kind in header.kinds.items() if columns is None or one in columns}
    _check_readable(kinds)
    return replace(header, kinds=kinds)


def _header(file: Any, path: Path) -> Header:
    """Return the metadata of an open Parquet file."""
    schema, groups = file.schema_arrow, range(file.metadata.num_row_groups)
    said: dict[bytes, bytes] = schema.metadata or {}
    remarks = texts(
        _from_json(said, _REMARKS_KEY, b"[]", f"the remarks in {path}"), name="the remarks", most=MAX_REMARKS
    )
    return Header(
        kinds={field.name: field.type for field in schema},
        groups=tuple(int(file.metadata.row_group(k).num_rows) for k in groups),
        about=_about(said, path),
        remarks=tuple(plain(words, most=MAX_TEXT_CHARACTERS) for words in remarks),
    )


def _about(said: Mapping[bytes, bytes], path: Path) -> Fields:
    about = Fields.read(_from_json(said, _ABOUT_KEY, b"{}", f"the description in {path}"), of=NO_ABOUT.of)
    with naming(path):
        read_format(about.given, "table", latest=FORMAT, unnumbered=FORMAT)
    return about


def _from_json(said: Mapping[bytes, bytes], key: bytes, default: bytes, name: str) -> object:
    """Return the JSON value under a key of a file's metadata."""
    try:
        return parse_json(said.get(key, default).decode("utf-8"), name=name)
    except UnicodeError:
        raise InputError(f"{name}: damaged; write the file again") from None


def read_about(path: str | Path) -> Fields:
    """Return the description that `write` stored in a Parquet file; empty for text files."""
    path = Path(path)
    if suffix(path) in DELIMITERS:
        return NO_ABOUT
    try:
        return _about(_open(path).schema_arrow.metadata or {}, path)
    except (pa.ArrowException, OSError):
        raise InputError(f"the description in {path}: damaged; write the file again") from None


def has_sealed_record(path: str | Path) -> bool:
    """Return whether a log's file contains the event log of an experiment."""
    if Path(path).suffix.lower() not in (".parquet", ".pq", ".parq"):
        return False
    try:
        return has_record(read_about(path))
    except InputError:
        return False


def open_pages(path: Path, *, texts: Sequence[str], buffer_bytes: int, changed_ns: int) -> Any:
    """Open a Parquet file for reading page by page, with checksums; texts: columns to read as codes.

    changed_ns: its modification time, as its metadata is cached.
    """
    return _open(
        path,
        metadata=_kept_metadata(path, changed_ns),
        read_dictionary=list(texts),
        page_checksum_verification=True,
        buffer_size=buffer_bytes,
        pre_buffer=False,  # else all of a row group is fetched before its first row is read
    )


@lru_cache(maxsize=64)
def _kept_metadata(path: Path, changed_ns: int) -> Any:
    """Return a file's metadata, which may be long, from a cache."""
    return _open(path).metadata


def _described(path: Path) -> Any:
    """Open a Parquet file; raise InputError if it would unpack to too much."""
    size = check_file(path)
    try:
        with path.open("rb") as file:
            unpacked = count_unpacked_bytes(file, size=size, most=max_unpacked_bytes(size))
    except InputError as error:
        raise InputError(f"{path} is not a readable Parquet file: {error}") from None
    check_unpacked(unpacked, size=size, remedy=_PLAIN_PARQUET)
    described: Any = _open(path)
    check_columns(described.metadata.num_columns)
    check_unpacked(ROW_BYTES * described.metadata.num_rows, size=size, remedy=_PLAIN_PARQUET)
    return described


def _open(path: Path, **options: Any) -> Any:
    return pq.ParquetFile(path, thrift_container_size_limit=_MAX_FOOTER_ITEMS, **options)


def _is_readable(kind: Any) -> bool:
    """Return whether columns of this type are supported."""
    if is_list(kind):
        return is_number(kind.value_type) or (is_list(kind.value_type) and is_number(kind.value_type.value_type))
    return is_number(kind) or is_text(kind) or is_temporal(kind) or bool(pa.types.is_null(kind))


def check_names(path: str, names: list[str], *, n: int, in_text: bool) -> None:
    """Raise InputError if a table has no rows, no columns, or unnamed or duplicate columns; path: its name.

    in_text: whether it was text, whose first column may have no name.
    """
    if n == 0:
        raise InputError(f"{path} has no rows")
    if not names:
        raise InputError(f"{path} has no columns")
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError(f"{path} has two columns of the same name, '{plain(twice)}'; rename one, or leave it out")
    if "" in names[1 if in_text else 0 :]:  # the first column of a text may be the row numbers that pandas adds
        where = names.index("") + 1
        raise InputError(f"column {where} of {path} has no name; name it, or leave it out (pandas: index=False)")


def sort_labels(column: Any) -> Any:
    """Return a text column as codes into its sorted labels."""
    coded: Any = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    labels: list[str] = coded.dictionary.to_pylist()
    if not labels:
        return coded
    missing: BoolArray = coded.indices.is_null().to_numpy(zero_copy_only=False)
    codes: IntArray = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    kept = sorted({labels[int(code)] for code in np.unique(codes[~missing])})
    place = {label: k for k, label in enumerate(kept)}
    places = np.array([place.get(label, 0) for label in labels], dtype=np.int32)
    indices: Any = pa.array(places[codes], mask=missing)
    return pa.DictionaryArray.from_arrays(indices, pa.array(kept, type=pa.string()))


def count_rows(path: Path) -> int:
    """Return the number of rows in a Parquet file's metadata; 0 if it cannot be read."""
    try:
        return int(_open(path).metadata.num_rows)
    except (pa.ArrowException, OSError):
        return 0


def suffix(path: PurePath) -> str:
    """Return the suffix of a file's name in lower case, without .gz."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def write(
    path: str | Path | IO[bytes],
    columns: Mapping[str, object],
    *,
    remarks: Sequence[str] = (),
    about: Mapping[str, object] | None = None,
) -> None:
    """Write columns (numpy or pyarrow arrays) to a Parquet file, by path or open.

    remarks, about: remarks and a description, stored in its metadata. A file that `read_table` would refuse for its
    unpacked size is written without compression.
    """
    arrays: Any = {name: _arrow(values) for name, values in columns.items()}
    table: Any = pa.table(arrays)
    said = {_REMARKS_KEY: list(remarks), _ABOUT_KEY: {"format": format_text("table", FORMAT), **(about or {})}}
    table = table.replace_schema_metadata({key: json.dumps(value) for key, value in said.items() if value})
    try:
        if not isinstance(path, str | Path):
            made = BytesIO()
            _write(table, made, lambda: made.tell())
            path.write(made.getbuffer())
            return
        _write(table, path, lambda: Path(path).stat().st_size)
    except OSError as error:
        raise InputError(f"cannot write {path}: {why(error)}") from None


def _write(table: Any, place: str | Path | BytesIO, size: Callable[[], int]) -> None:
    """Write a table; write it again without compression if reading would refuse its unpacked size."""
    pq.write_table(table, place)
    row = max(NUMBER_BYTES * _width(table.schema), ROW_BYTES)
    if max(row * table.num_rows, table.nbytes) > max_unpacked_bytes(size()):
        if isinstance(place, BytesIO):
            place.seek(0)
            place.truncate()
        pq.write_table(table, place, compression="none", use_dictionary=False)


def _width(schema: Any) -> int:
    """Return the number of values in a row of a table, fixed-size lists included."""
    total = 0
    for field in schema:
        kind, count = field.type, 1
        while pa.types.is_fixed_size_list(kind):
            kind, count = kind.value_type, count * kind.list_size
        total += count
    return total


def _arrow(values: object) -> object:
    if isinstance(values, np.ndarray):
        return _arrow_of_array(cast(np.ndarray[Any, Any], values))
    return values


def _arrow_of_array(values: np.ndarray[Any, Any]) -> object:
    out: Any = pa.array(np.ascontiguousarray(values).reshape(-1))
    for width in reversed(values.shape[1:]):
        out = pa.FixedSizeListArray.from_arrays(out, width)
    return out
