"""pyarrow, which ships no types: what enters from it is Any, and leaves the modules that read tables typed."""

from __future__ import annotations

from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

pa: Any = pyarrow
pc: Any = pyarrow.compute
csv: Any = pyarrow.csv
pq: Any = pyarrow.parquet

Columns = dict[str, Any]  # column name -> pyarrow array


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers, or true and false."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def is_temporal(kind: Any) -> bool:
    """Whether a column of this type holds dates, times of day, or both."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind))


def is_plain_text(kind: Any) -> bool:
    """Whether a column of this type holds text, written out."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds text, written out or coded."""
    return is_plain_text(kind) or bool(pa.types.is_dictionary(kind) and is_plain_text(kind.value_type))
