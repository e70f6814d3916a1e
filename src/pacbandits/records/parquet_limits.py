"""How much a Parquet file unpacks to, read from the headers of its pages before any of them is unpacked.

A few bytes of a page can stand for a billion numbers, whatever the footer says: every page header is read, of all
columns of all row groups. pyarrow has no limit for that, and cannot be asked where the pages are either: of a footer
whose columns are damaged (level histograms that do not fit, say) `metadata.row_group(i).column(j)` aborts the process,
as 39 of 20,000 files did of which one to three bytes of the footer were changed (pyarrow 26). So the footer is read
here too, by as much of Thrift's compact protocol as tells sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Union

from pacbandits.errors import InputError
from pacbandits.records.files import NUMBER_BYTES, check_columns, spell_bytes

# What pyarrow makes of the end of a file, where its columns are told, takes up to 300 times its size.
MAX_FOOTER_BYTES = 2**21
MAX_PAGES = 1_000_000
MAX_PAGE_BYTES = 2**27  # of a page, where one is read after the other
_MAX_PAGE_HEADER_BYTES = 2**20
_FIRST_HEADER_BYTES = 256
_MAX_SIZE = 2**31  # of a page, in bytes or values: they are told in 32 bits

# Numbers of fields: of a file, a row group, a column in one, what is told of that; of a page's header, and of the
# headers of kinds of pages in it.
_GROUPS = 4
_COLUMNS = 1
_DESCRIPTION = 3
_TYPE, _COUNT, _PACKED_TOTAL, _FIRST_DATA_PAGE, _DICTIONARY_PAGE = 1, 5, 7, 9, 11
_UNPACKED_SIZE, _PACKED_SIZE = 2, 3
_KINDS_OF_PAGES = (5, 7, 8)
_VALUES = 1
_BYTE_ARRAY = 6  # a type: text

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

    start: of the first, in bytes from the start of the file.
    end: of the last.
    text: whether they hold text.
    """

    start: int
    end: int
    text: bool


def count_unpacked_bytes(file: BinaryIO, *, size: int, most: int) -> int:
    """What the columns of a file of that size take once they are read: the first total above `most`, or that of all.

    Raises:
        InputError: When it is no Parquet file, or does not tell where its pages are.
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
    """Raise when a page of a file of that size unpacks to too much for one that is read page by page."""
    for unpacked in _unpacked_pages(file, size=size):
        if unpacked > MAX_PAGE_BYTES:
            raise InputError(
                f"a page of it unpacks to {spell_bytes(unpacked)}, and at most {spell_bytes(MAX_PAGE_BYTES)} are read "
                "at once; write it with smaller ones (data_page_size=2**20)"
            )


def _unpacked_pages(file: BinaryIO, *, size: int) -> Iterator[int]:
    """What each page of a file of that size takes once it is read."""
    for chunk in _find_chunks(file, size=size):
        place = chunk.start
        while place < chunk.end:
            unpacked, values, place = _read_page(file, place, chunk.end)
            yield NUMBER_BYTES * values + unpacked if chunk.text else max(NUMBER_BYTES * values, unpacked)


def _find_chunks(file: BinaryIO, *, size: int) -> Iterator[_Chunk]:
    """Where the columns are, as the end of a file tells."""
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
                raise InputError("it does not tell where its columns are, or is encrypted")
            start, dictionary = _number(described, _FIRST_DATA_PAGE), described.get(_DICTIONARY_PAGE)
            if isinstance(dictionary, int) and 0 < dictionary < start:
                start = dictionary
            if _number(described, _COUNT) > 0:  # a column without values may have no pages
                end = start + _number(described, _PACKED_TOTAL)
                yield _Chunk(start, end, text=described.get(_TYPE) == _BYTE_ARRAY)


def _read_footer(file: BinaryIO, *, size: int) -> _Struct:
    """What the end of a file tells."""
    file.seek(max(size - 8, 0))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 12:
        raise InputError("it does not end as a Parquet file does; it is damaged, or something else")
    if length > MAX_FOOTER_BYTES:
        raise InputError(f"what it says of its columns takes more than {spell_bytes(MAX_FOOTER_BYTES)}; have fewer")
    file.seek(size - 8 - length)
    try:
        return _read_struct(file.read(length))[0]
    except _ThriftError:
        raise InputError("what it says of its columns is damaged") from None


def _structs(given: _Struct, field: int) -> list[_Struct]:
    value = given.get(field)
    return value if isinstance(value, list) else []


def _number(given: _Struct, field: int) -> int:
    value = given.get(field)
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise InputError("it does not tell where its columns are; it is damaged")
    return value


def _read_page(file: BinaryIO, place: int, end: int) -> tuple[int, int, int]:
    """To how many bytes the page at a place unpacks, how many values it holds, and where the next one begins."""
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
    """The bytes are no struct, or not all of one."""


def _read_struct(raw: bytes) -> tuple[_Struct, int]:
    """The fields of a struct by their numbers, and where it ends; integers, structs and lists of structs alone."""
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
    """A value and where it ends; None in the place of what is not needed."""
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
    entry_kind = _BYTE if head & 15 in (_TRUE, _FALSE) else head & 15  # truth values take a byte in lists
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
