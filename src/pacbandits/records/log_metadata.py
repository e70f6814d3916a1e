"""Metadata of a log: reward range, date columns, weights, and the event log of an export."""

from __future__ import annotations

import math
import zlib
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import IntArray, floats
from pacbandits.errors import InputError
from pacbandits.records.columns import Columns, pa, pop_floats
from pacbandits.records.contexts import WEIGHT_COLUMN
from pacbandits.records.text_files import MAX_COLUMNS
from pacbandits.schema import Fields

# Reward range, date columns, and weights, which are ignored.


UNIT_RANGE = (0.0, 1.0)  # of rewards
WEIGHTS_REMARK = f"the column '{WEIGHT_COLUMN}' plays no part: the rows of a log are draws, which all count alike"
_WEIGHT_ROUNDING = 1e-9  # relative: how far equal weights may differ


def pop_weights(columns: Columns) -> tuple[str, ...]:
    """Remove context weights from the columns of a log; return a remark that they are ignored, if they differ."""
    weights = pop_floats(columns, WEIGHT_COLUMN)
    if weights is None:
        return ()
    given = floats(weights, name="context_weights", shape=(None,))
    if given.min() < 0:
        raise InputError(f"context_weights must not be negative, but entry {int(given.argmin())} is {given.min()}")
    return (WEIGHTS_REMARK,) if np.ptp(given) > _WEIGHT_ROUNDING * given.max() else ()


def stored_dates(about: Fields) -> tuple[str, ...]:
    """Return the date columns, as the file's metadata lists them, from which features were computed before."""
    return about.texts("dates", most=MAX_COLUMNS) if "dates" in about else ()


def check_range(given: object) -> tuple[float, float]:
    """Return the smallest and the largest possible reward, as two numbers."""
    ends = floats(cast(ArrayLike, given), name="--reward-range", shape=(2,))
    low, high = float(ends[0]), float(ends[1])
    if not (low < high and high - low < math.inf):
        raise InputError(
            f"a reward range goes from a number to a larger one, got {low:g} to {high:g}; the smaller first"
        )
    return low, high


# Exported logs that carry their experiment's event log in extra columns and rows, as their metadata says. Columns whose
# names begin with `record_` are not features, and rows not marked as counted (of a holdout, of visits after the first,
# or too recent for the analysis) are not part of the log.


MAX_TEXT_BYTES = 2**30
RECORD = "record"  # the key in the file's metadata
PREFIX = "record_"
COUNTED_COLUMN = "record_counted"


def has_record(about: Fields) -> bool:
    """Return whether a file's metadata says that it carries an event log."""
    return RECORD in about


def pop_record(table: Columns) -> dict[str, Any]:
    """Remove the columns of the event log from a table and return them."""
    return {name: table.pop(name) for name in [name for name in table if name.startswith(PREFIX)]}


def only_counted(table: Columns, about: Fields) -> None:
    """Reduce a table, in place, to the columns and rows of its log."""
    if not has_record(about):
        return
    marked = pop_record(table).get(COUNTED_COLUMN)
    if marked is None or marked.null_count or not pa.types.is_integer(marked.type):
        raise InputError(
            f"the file says that it carries a record, and has no column '{COUNTED_COLUMN}' of 0 and 1; export it again"
        )
    rows = pa.array(np.flatnonzero(np.asarray(marked.to_numpy(zero_copy_only=False))))
    if not len(rows):
        raise InputError("nobody is counted in this record yet; export it again later")
    for name in tuple(table):
        table[name] = table[name].take(rows)


class PackedText(NamedTuple):
    """A long text as a column, because a file's metadata must be short.

    numbers (n, k): its compressed bytes, eight per number, row by row, padded with zeros.
    size: the number of compressed bytes.
    """

    numbers: IntArray
    size: int


def pack_text(words: str, *, rows: int) -> PackedText:
    """Return a text as a column of `rows` rows."""
    packed = zlib.compress(words.encode("utf-8", "surrogatepass"))
    width = max(1, -(-len(packed) // (8 * rows)))
    numbers = np.frombuffer(packed.ljust(8 * rows * width, b"\x00"), dtype="<i8").reshape(rows, width)
    return PackedText(numbers.astype(np.int64), len(packed))


def unpack_text(packed: PackedText) -> str:
    """Return the text that `pack_text` packed."""
    given = np.ascontiguousarray(packed.numbers, dtype="<i8").tobytes()[: packed.size]
    try:
        reader = zlib.decompressobj()
        words = reader.decompress(given, MAX_TEXT_BYTES)
        if reader.unconsumed_tail:
            raise InputError(f"the record unpacks to more than {MAX_TEXT_BYTES:,} bytes; export it again")
        return words.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeError):
        raise InputError("the record in the file is damaged; export it again") from None
