"""Convert the columns of a table to numbers and labels; text columns hold codes (see `parquet.LoadedTable`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from pacbandits.arrays import BoolArray, FloatArray, IntArray, integers
from pacbandits.errors import InputError, count_of, plain

# pyarrow has no types: its values are Any on entry, and typed when they leave the modules that read tables.


pa: Any = pyarrow
pc: Any = pyarrow.compute
csv: Any = pyarrow.csv
pq: Any = pyarrow.parquet

Columns = dict[str, Any]  # column name -> pyarrow array


def is_list(kind: Any) -> bool:
    """Return whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Return whether a column of this type holds numbers or booleans."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def is_temporal(kind: Any) -> bool:
    """Return whether a column of this type holds dates, times of day, or both."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind))


def is_plain_text(kind: Any) -> bool:
    """Return whether a column of this type holds text that is not dictionary-encoded."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_text(kind: Any) -> bool:
    """Return whether a column of this type holds text, dictionary-encoded or not."""
    return is_plain_text(kind) or bool(pa.types.is_dictionary(kind) and is_plain_text(kind.value_type))


# Reserved columns of contexts, which are not features.
ID_COLUMN = "context_id"
PHI_COLUMN = "phi"
WEIGHT_COLUMN = "context_weight"


@dataclass(frozen=True)
class CellNames:
    """Names of a table's rows and columns in messages.

    line: maps a row, from 0, to its line in the file; None for a table without lines.
    names: the author's names of columns that were renamed.
    order (n,): the file's row for each row of the table, if they were reordered.
    """

    line: Callable[[int], int] | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    order: IntArray | None = None

    def row(self, row: int) -> str:
        """Return the name of a row, given from 0, in messages."""
        place = row if self.order is None else int(self.order[row])
        return f"row {place} (counted from 0)" if self.line is None else f"line {self.line(place)}"

    def column(self, name: str) -> str:
        """Return the name of a column in messages."""
        return f"column '{plain(self.names.get(name, name))}'"


SOMEWHERE = CellNames()
LEAVE_OUT = "correct it, or leave the row out"


def pop_floats(columns: Columns, name: str, cells: CellNames = SOMEWHERE) -> FloatArray | None:
    """Remove the named column and return its numbers (n,), or None if there is no such column."""
    return _numbers(columns.pop(name), name, cells) if name in columns else None


def pop_numbers_or_missing(columns: Columns, name: str, cells: CellNames = SOMEWHERE) -> FloatArray:
    """Remove the named column, which must exist, and return its numbers (n,), NaN where missing."""
    return _numbers(columns.pop(name), name, cells, missing=True)


def pop_integers(columns: Columns, name: str, cells: CellNames = SOMEWHERE) -> IntArray | None:
    """Remove the named column and return its integers (n,), all 0 or more, or None if there is no such column."""
    if name not in columns:
        return None
    numbers = _numbers(columns.pop(name), name, cells)
    for bad, words in ((numbers != np.floor(numbers), "integers"), (numbers < 0, "0 or more")):
        if bad.any():
            row = int(bad.argmax())
            got = f"but {cells.row(row)} holds {numbers[row]:.15g}"
            raise InputError(f"{cells.column(name)} must be {words}, {got}; {LEAVE_OUT}")
    return integers(numbers, name=cells.column(name), shape=(None,))


def pop_matrix(
    columns: Columns, name: str, cells: CellNames = SOMEWHERE, *, missing: bool = False
) -> FloatArray | None:
    """Remove the named column of lists of one length and return its numbers (n, k), or None if there is none.

    missing: whether NaN is allowed.
    """
    if name not in columns:
        return None
    column: Any = columns.pop(name)
    if not is_list(column.type):
        raise InputError(f"column '{name}' must hold lists of numbers, got {plain(column.type)}")
    length = _list_length(column, f"column '{name}' must hold lists of one length, without nulls")
    numbers = _numbers(column.flatten(), name, cells, length=max(length, 1), missing=missing)
    return numbers.reshape(len(column), length)


def pop_cube(columns: Columns, name: str) -> FloatArray | None:
    """Remove the named column of nested lists and return its numbers (n, k, l), or None if it holds no lists."""
    if name not in columns or not is_list(columns[name].type):
        return None
    outer: Any = columns.pop(name)
    if not is_list(outer.type.value_type):
        raise InputError(f"column '{name}' must hold a list of numbers for each action, got {plain(outer.type)}")
    count = _list_length(outer, f"column '{name}' must hold lists for one number of actions, without nulls")
    inner = pop_matrix({name: outer.flatten()}, name) if count else np.empty((0, 0))
    assert inner is not None
    return inner.reshape(len(outer), count, inner.shape[1])


def pop_features(
    columns: Columns, *, n: int, cells: CellNames = SOMEWHERE
) -> tuple[FloatArray, list[str], list[tuple[str, ...] | None]]:
    """Remove all columns and return them as features: (n, d) numbers, names, and the labels of text columns.

    Missing values are NaN, also in text columns.
    """
    names = list(columns)
    out = np.empty((n, len(names)))
    categories: list[tuple[str, ...] | None] = []
    for j, name in enumerate(names):
        column: Any = columns.pop(name)
        labels: tuple[str, ...] | None = None
        if is_text(column.type):
            labels, out[:, j] = _labels(column)
        else:
            out[:, j] = _numbers(column, name, cells, wanted="numbers or text", missing=True)
        categories.append(labels)
    out.setflags(write=False)
    return out, names, categories


def _labels(column: Any) -> tuple[tuple[str, ...], FloatArray]:
    """Return the labels of a text column, and codes (n,) into them, NaN where missing."""
    given: list[str | None] = column.dictionary.to_pylist()
    missing = column.indices.is_null().to_numpy(zero_copy_only=False)
    codes = np.asarray(column.indices.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.float64)
    if None in given:  # a dictionary may contain null
        places = np.cumsum([0, *(label is not None for label in given)], dtype=np.float64)[:-1]
        places[[label is None for label in given]] = np.nan
        codes = places[codes.astype(np.int64)]
    codes = np.where(missing, np.nan, codes)
    return tuple(label for label in given if label is not None), codes


def numbers_of(column: Any) -> FloatArray:
    """Return the numbers (n,) of a column: NaN where missing, or everywhere if it holds no numbers."""
    if not is_number(column.type):
        return np.full(len(column), np.nan)
    whole: Any = column.cast(pa.float64(), safe=False) if column.null_count else column
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.float64)


def dictionary(codes: FloatArray, labels: Sequence[str]) -> object:
    """Return a dictionary column from codes (n,) into labels."""
    indices: Any = pa.array(codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(labels), type=pa.string()))


def _numbers(
    column: Any,
    name: str,
    cells: CellNames,
    *,
    wanted: str = "numbers",
    missing: bool = False,
    length: int = 1,
) -> FloatArray:
    """Return numbers (n,); missing: whether NaN is allowed; length: the numbers per row of the table."""
    kind = column.type
    if missing and pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not is_number(kind):
        check_present(column, name, cells, length)
        if not is_text(kind):
            raise InputError(f"{cells.column(name)} must be {wanted}, got {plain(kind)}; convert it, or leave it out")
        row, got = _no_number(column)
        raise InputError(
            f"{cells.column(name)} must be {wanted}, got text such as '{plain(got)}' ({cells.row(row)}); {LEAVE_OUT}"
        )
    if not missing:
        check_present(column, name, cells, length)
    numbers: FloatArray = np.asarray(
        column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if column.null_count
        else column.to_numpy(zero_copy_only=False),
        dtype=np.float64,
    )
    strange = np.isinf(numbers) if missing else ~np.isfinite(numbers)
    if strange.any():
        first = int(strange.argmax())
        got = f"but {cells.row(first // length)} holds {numbers[first]}"
        raise InputError(f"{cells.column(name)} must be finite, {got}; {LEAVE_OUT}")
    return numbers


def _no_number(column: Any) -> tuple[int, str]:
    """Return the row and text of the first entry that is not a number, or of the first entry."""
    labels: list[str] = column.dictionary.to_pylist()
    strange = np.array([not spells_number(label) for label in labels])
    codes: IntArray = column.indices.to_numpy(zero_copy_only=False)
    row = int(strange[codes].argmax())
    return row, labels[int(codes[row])]


def spells_number(text: str) -> bool:
    """Return whether `float` accepts the text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _list_length(column: Any, words: str) -> int:
    """Return the length of a column's lists; raise InputError with `words` if one is null or lengths differ."""
    lengths: Any = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if column.null_count or (lengths != lengths[0]).any():
        raise InputError(words)
    return int(lengths[0])


def check_present(column: Any, name: str, cells: CellNames, length: int = 1) -> None:
    """Raise InputError if a value is missing; length: the values per row of the table."""
    if column.null_count:
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax()) // length
        many = count_of(column.null_count, "missing value")
        first, remedy = ("in", "fill it in, or leave the row out")
        if column.null_count > 1:
            first, remedy = ("the first in", "fill them in, or leave the rows out")
        raise InputError(f"{cells.column(name)} has {many}, {first} {cells.row(row)}; {remedy}")


# Missing values: NaN for a number, a label of its own for a category.


MISSING = "missing"


class Featured(Protocol):
    """An object with named features (n, d)."""

    @property
    def features(self) -> FloatArray: ...

    @property
    def names(self) -> tuple[str, ...]: ...


def missing_label(labels: Collection[str]) -> str:
    """Return the label for missing values: "missing", in brackets until no other label equals it."""
    name = MISSING
    while name in labels:
        name = f"({name})"
    return name


def tells_missing(labels: tuple[str, ...]) -> bool:
    """Return whether the last label stands for missing values."""
    return len(labels) > 1 and labels[-1] == missing_label(labels[:-1])


def label_missing(
    features: FloatArray, categories: tuple[tuple[str, ...] | None, ...]
) -> tuple[FloatArray, tuple[tuple[str, ...] | None, ...]]:
    """Return features (n, d) and categories in which missing codes are a label after the others."""
    if not np.isnan(features).any():
        return features, categories
    out, named = features.copy(), list(categories)
    for j, labels in enumerate(categories):
        missing = np.isnan(features[:, j])
        if labels is not None and missing.any():
            out[missing, j] = len(labels)
            named[j] = (*labels, missing_label(labels))
    out.setflags(write=False)
    return out, tuple(named)


def present_numbers(contexts: Featured, column: int, *, by: str) -> FloatArray:
    """Return the numbers (n,) of a column; raise InputError if one is missing; by: the method that needs them."""
    values = contexts.features[:, column]
    missing = np.isnan(values)
    if missing.any():
        name, row = plain(contexts.names[column]), int(missing.argmax())
        raise InputError(
            f"feature '{name}' of row {row} is missing, and {by} cannot do without it; fill it, leave the feature out, "
            "or use trees"
        )
    return values


def unlike(one: FloatArray, other: FloatArray) -> BoolArray:
    """Return which rows (n,) of two tables (n, d) differ; values missing in both are equal."""
    return np.asarray(((one != other) & ~(np.isnan(one) & np.isnan(other))).any(axis=1), dtype=np.bool_)


def comparable(features: FloatArray) -> FloatArray:
    """Return features (n, d) in which equal rows can be found: NaN becomes 0, with indicator columns added."""
    missing = np.isnan(features)
    some = missing.any(axis=0)
    if not some.any():
        return features
    return np.column_stack([np.where(missing, 0.0, features), missing[:, some]])
