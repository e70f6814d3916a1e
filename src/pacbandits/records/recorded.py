"""Exported logs that carry their experiment's event log in columns and rows beside the evidence.

Such a file says so. Columns whose names begin with `record_` are no features, and rows that are not marked as counted
(of a holdout, of visits after the first, or too recent to be looked at) are no part of the log.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.records.arrow import Columns, pa

MAX_TEXT_BYTES = 2**30
RECORD = "record"  # where a file says so, beside its columns
PREFIX = "record_"
COUNTED_COLUMN = "record_counted"


def has_record(about: Fields) -> bool:
    """Whether a file says that it carries a record."""
    return RECORD in about


def pop_record(table: Columns) -> dict[str, Any]:
    """Take the columns of the record out of a table."""
    return {name: table.pop(name) for name in [name for name in table if name.startswith(PREFIX)]}


def only_counted(table: Columns, about: Fields) -> None:
    """Leave the columns and rows of a table that are its log."""
    if not has_record(about):
        return
    marked = pop_record(table).get(COUNTED_COLUMN)
    if marked is None:
        raise InputError(
            f"the file says that it carries a record, and has no column '{COUNTED_COLUMN}'; export it again"
        )
    rows = pa.array(np.flatnonzero(np.asarray(marked.to_numpy(zero_copy_only=False))))
    if not len(rows):
        raise InputError("nobody is counted in this record yet; export it again later")
    for name in tuple(table):
        table[name] = table[name].take(rows)


class PackedText(NamedTuple):
    """A long text as a column, as what a file says beside its columns must be short.

    numbers (n, k): its compressed bytes, eight a number, row by row, and zeros after them.
    size: how many bytes these are.
    """

    numbers: IntArray
    size: int


def pack_text(words: str, *, rows: int) -> PackedText:
    """A text as a column of so many rows."""
    packed = zlib.compress(words.encode("utf-8", "surrogatepass"))
    width = max(1, -(-len(packed) // (8 * rows)))
    numbers = np.frombuffer(packed.ljust(8 * rows * width, b"\x00"), dtype="<i8").reshape(rows, width)
    return PackedText(numbers.astype(np.int64), len(packed))


def unpack_text(packed: PackedText) -> str:
    """What `pack_text` packed."""
    given = np.ascontiguousarray(packed.numbers, dtype="<i8").tobytes()[: packed.size]
    try:
        reader = zlib.decompressobj()
        words = reader.decompress(given, MAX_TEXT_BYTES)
        if reader.unconsumed_tail:
            raise InputError(f"the record unpacks to more than {MAX_TEXT_BYTES:,} bytes; export it again")
        return words.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeError):
        raise InputError("the record in the file is damaged; export it again") from None
