"""Thrift's compact protocol, in which Parquet tells of itself: as much of it as is needed to know sizes.

pyarrow tells the same of files that are sound; of some that are not, asking it ends the whole program.
"""

from __future__ import annotations

from typing import Union

MAX_DEPTH = 12

# Kinds of values.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)

Value = Union[int, "Struct", "list[Struct]"]
Struct = dict[int, Value]


class ThriftError(Exception):
    """The bytes are no struct, or not all of one."""


def read_struct(raw: bytes, place: int = 0) -> tuple[Struct, int]:
    """The fields of a struct by their numbers, and where it ends; integers, structs and lists of structs alone.

    Raises:
        ThriftError: When the bytes do not say so, or say too little.
    """
    try:
        fields, end = _read_struct(raw, place, MAX_DEPTH)
    except IndexError:
        raise ThriftError from None
    if end > len(raw):
        raise ThriftError
    return fields, end


def _read_struct(raw: bytes, place: int, depth: int) -> tuple[Struct, int]:
    if depth == 0:
        raise ThriftError
    fields: Struct = {}
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
        elif kind in (_LIST, _SET):
            fields[number], place = _read_list(raw, place, depth - 1)
        else:
            place = _skip(raw, place, kind)


def _read_list(raw: bytes, place: int, depth: int) -> tuple[list[Struct], int]:
    """The structs of a list, none if it holds something else, and where it ends."""
    if depth == 0:
        raise ThriftError
    head = raw[place]
    count, place = (head >> 4, place + 1) if head >> 4 < 15 else _read_varint(raw, place + 1)
    kind = head & 15
    if count > len(raw) - place:  # each entry takes a byte or more
        raise ThriftError
    out: list[Struct] = []
    for _ in range(count):
        if kind == _STRUCT:
            entry, place = _read_struct(raw, place, depth)
            out.append(entry)
        elif kind in (_LIST, _SET):
            _, place = _read_list(raw, place, depth - 1)
        elif kind in (_TRUE, _FALSE):  # which take a byte in lists
            place += 1
        else:
            place = _read_varint(raw, place)[1] if kind in _INTEGERS else _skip(raw, place, kind)
    return out, place


def _skip(raw: bytes, place: int, kind: int) -> int:
    """Where a value of a kind that is not needed ends."""
    if kind in (_TRUE, _FALSE):
        return place
    if kind == _BYTE:
        return place + 1
    if kind == _DOUBLE:
        return place + 8
    if kind == _BINARY:
        length, place = _read_varint(raw, place)
        return place + length
    raise ThriftError


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
            raise ThriftError
