"""Tables on disk: the one place that speaks Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from pacbandits.errors import FloatArray, InputError, IntArray, integers

# pyarrow ships no types: what enters from it is Any, and leaves this module typed.
pa: Any = pyarrow
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet

TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)

Columns = dict[str, Any]  # column name -> pyarrow array


def read(path: str | Path) -> Columns:
    """The columns of a Parquet file, in order."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file at {path}")
    try:
        table: Any = pq.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {_first_line(error)}") from None
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows")
    names: list[str] = table.column_names
    if len(set(names)) != len(names):
        raise InputError(f"{path} has two columns of the same name")
    return {name: table.column(name).combine_chunks() for name in names}


def write(path: str | Path, columns: Mapping[str, object]) -> None:
    """Write columns (numpy or pyarrow arrays) to a Parquet file."""
    arrays: Any = {name: _arrow(values) for name, values in columns.items()}
    try:
        pq.write_table(pa.table(arrays), path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {_first_line(error)}") from None


def pop(columns: Columns, name: str) -> Any:
    """Take the named column out; a missing one is an error that lists what is there."""
    if name not in columns:
        raise InputError(f"column '{name}' is missing (there are: {', '.join(columns) or 'none'})")
    return columns.pop(name)


def pop_floats(columns: Columns, name: str) -> FloatArray | None:
    """Take the named column out as numbers (n,), or None when it is not there."""
    return _numbers(columns.pop(name), name) if name in columns else None


def pop_integers(columns: Columns, name: str) -> IntArray | None:
    """Take the named column out as integers (n,), or None when it is not there."""
    if name not in columns:
        return None
    return integers(_numbers(columns.pop(name), name), name=f"column '{name}'", shape=(None,))


def pop_matrix(columns: Columns, name: str) -> FloatArray | None:
    """Take the named column of equally long lists out as numbers (n, k), or None when it is not there."""
    if name not in columns:
        return None
    column: Any = columns.pop(name)
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise InputError(f"column '{name}' must hold lists of numbers, got {kind}")
    n = len(column)
    values = _numbers(column.flatten(), name)
    lengths: Any = pc.list_value_length(column)
    if column.null_count or (lengths.to_numpy(zero_copy_only=False) * n != values.size).any():
        raise InputError(f"column '{name}' must hold lists of one length, without nulls")
    return values.reshape(n, -1)


def features(columns: Columns, *, n: int) -> tuple[FloatArray, list[str], list[tuple[str, ...] | None]]:
    """Every column as a feature: (n, d) numbers, names and the labels of those that hold text.

    Text is coded in the order of its sorted labels, or in a dictionary column's own order.
    """
    out: list[FloatArray] = []
    categories: list[tuple[str, ...] | None] = []
    for name, column in columns.items():
        if column.null_count:
            raise InputError(f"column '{name}' has {column.null_count} missing values; fill or drop them")
        labels: tuple[str, ...] | None = None
        if any(is_text(column.type) for is_text in TEXT):
            labels = tuple(sorted(set(column.to_pylist())))
            code = {label: i for i, label in enumerate(labels)}
            out.append(np.array([code[value] for value in column.to_pylist()], dtype=np.float64))
        elif pa.types.is_dictionary(column.type):
            labels = tuple(str(label) for label in column.dictionary.to_pylist())
            out.append(column.indices.to_numpy(zero_copy_only=False).astype(np.float64))
        else:
            out.append(_numbers(column, name))
        categories.append(labels)
    return (np.column_stack(out) if out else np.empty((n, 0))), list(columns), categories


def dictionary(codes: FloatArray, labels: Sequence[str]) -> object:
    """A dictionary column from codes (n,) into labels."""
    indices: Any = pa.array(codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(labels), type=pa.string()))


def _numbers(column: Any, name: str) -> FloatArray:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"column '{name}' must be numbers or text, got {kind}")
    if column.null_count:
        raise InputError(f"column '{name}' has {column.null_count} missing values; fill or drop them")
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.float64)


def _arrow(values: object) -> object:
    if isinstance(values, np.ndarray):
        return _arrow_of_array(cast(np.ndarray[Any, Any], values))
    return values


def _arrow_of_array(values: np.ndarray[Any, Any]) -> object:
    if values.ndim == 2:
        flat: Any = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pa.array(values)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
