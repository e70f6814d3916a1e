"""How much a Parquet file unpacks to, told by the headers of its pages before any of them is unpacked.

A few bytes of a page can stand for a billion numbers, whatever the file says of itself at its end: each page is looked
at. Headers are written in Thrift's compact protocol, of which this reads as much as is needed.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from pacbandits.errors import InputError
from pacbandits.records.files import NUMBER_BYTES

MAX_PAGES = 1_000_000
_MAX_PAGE_HEADER_BYTES = 2**20
_FIRST_HEADER_BYTES = 256
_MAX_DEPTH = 8
_MAX_SIZE = 2**31  # of a page, in bytes or values: they are told in 32 bits

# Types of Thrift's compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
# Fields of a page's header, and of the headers of kinds of pages within it.
_UNPACKED_SIZE, _PACKED_SIZE = 2, 3
_KINDS_OF_PAGES = (5, 7, 8)
_VALUES = 1

Fields = dict[int, "int | Fields"]


class _Damaged(Exception):
    """The bytes are no header, or not all of it."""


def count_unpacked_bytes(file: BinaryIO, metadata: Any, *, most: int) -> int:
    """What the columns of a file take once they are read, in bytes: the first total above `most`, or that of all.

    metadata: what pyarrow says of the file.
    """
    total = pages = 0
    for group in range(metadata.num_row_groups):
        chunks: Any = metadata.row_group(group)
        if chunks.num_columns != metadata.num_columns:
            raise InputError(
                f"its part {group} has {chunks.num_columns} of {metadata.num_columns} columns; it is damaged"
            )
        for column in range(metadata.num_columns):
            chunk: Any = chunks.column(column)
            text = chunk.physical_type == "BYTE_ARRAY"
            first: int = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < first:
                first = chunk.dictionary_page_offset
            place, end = first, first + int(chunk.total_compressed_size) * (chunk.num_values > 0)
            while place < end:
                unpacked, values, place = _read_page(file, place, end)
                total += NUMBER_BYTES * values + unpacked if text else max(NUMBER_BYTES * values, unpacked)
                pages += 1
                if total > most:
                    return total
                if pages > MAX_PAGES:
                    raise InputError(f"it has more than {MAX_PAGES:,} pages; write it with larger ones")
    return total


def _read_page(file: BinaryIO, place: int, end: int) -> tuple[int, int, int]:
    """To how many bytes the page at a place unpacks, how many values it holds, and where the next one begins."""
    length = _FIRST_HEADER_BYTES
    while True:
        file.seek(place)
        raw = file.read(min(length, end - place))
        try:
            fields, size = _read_struct(raw, 0, _MAX_DEPTH)
            break
        except (_Damaged, IndexError):
            if len(raw) < length or length >= _MAX_PAGE_HEADER_BYTES:
                raise InputError(f"the page at byte {place} is damaged") from None
            length *= 8
    counts = [inner.get(_VALUES, 0) for kind in _KINDS_OF_PAGES if isinstance(inner := fields.get(kind), dict)]
    sizes = (fields.get(_UNPACKED_SIZE), fields.get(_PACKED_SIZE), *counts)
    known = [size for size in sizes if isinstance(size, int) and 0 <= size < _MAX_SIZE]
    if len(known) < len(sizes):
        raise InputError(f"the page at byte {place} is damaged")
    return known[0], max(known[2:], default=0), place + size + known[1]


def _read_struct(raw: bytes, place: int, depth: int) -> tuple[Fields, int]:
    """The fields of a struct by their numbers, as far as they are integers or structs, and where it ends."""
    if depth == 0:
        raise _Damaged
    fields: Fields = {}
    number = 0
    while True:
        head = raw[place]
        place += 1
        kind = head & 15
        if kind == _STOP:
            return fields, place
        if head >> 4:
            number += head >> 4
        else:
            number, place = _read_integer(raw, place)
        if kind in _INTEGERS:
            fields[number], place = _read_integer(raw, place)
        elif kind == _STRUCT:
            fields[number], place = _read_struct(raw, place, depth - 1)
        else:
            place = _skip(raw, place, kind, depth)


def _skip(raw: bytes, place: int, kind: int, depth: int) -> int:
    """Where a value of that kind ends."""
    if kind in (_TRUE, _FALSE):
        return place
    if kind == _BYTE:
        return place + 1
    if kind == _DOUBLE:
        return place + 8
    if kind == _BINARY:
        length, place = _read_varint(raw, place)
        return place + length
    if kind in (_LIST, _SET):
        head = raw[place]
        count, place = (head >> 4, place + 1) if head >> 4 < 15 else _read_varint(raw, place + 1)
        for _ in range(count):
            place = _skip_entry(raw, place, head & 15, depth - 1)
        return place
    raise _Damaged


def _skip_entry(raw: bytes, place: int, kind: int, depth: int) -> int:
    """Where an entry of a list ends."""
    if depth == 0 or place >= len(raw):
        raise _Damaged
    if kind in (_TRUE, _FALSE):  # which take a byte in lists
        return place + 1
    if kind in _INTEGERS:
        return _read_varint(raw, place)[1]
    if kind == _STRUCT:
        return _read_struct(raw, place, depth)[1]
    return _skip(raw, place, kind, depth)


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
            raise _Damaged
