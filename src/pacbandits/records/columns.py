"""The columns of a table as numbers and labels; of text, see `parquet.LoadedTable`, they hold codes."""

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

# pyarrow, which ships no types: what enters from it is Any, and leaves the modules that read tables typed.


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


# Columns of contexts that are no features.
ID_COLUMN = "context_id"
PHI_COLUMN = "phi"
WEIGHT_COLUMN = "context_weight"


@dataclass(frozen=True)
class CellNames:
    """Where the values of a table stand, in words that its reader understands.

    line: tells on which line of the file a row stands, which is given from 0; None for a table that has no lines.
    names: what its author calls columns that have another name here.
    order (n,): of the rows in the file, if they have another here.
    """

    line: Callable[[int], int] | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    order: IntArray | None = None

    def row(self, row: int) -> str:
        """Which row it is, given from 0."""
        place = row if self.order is None else int(self.order[row])
        return f"row {place} (counted from 0)" if self.line is None else f"line {self.line(place)}"

    def column(self, name: str) -> str:
        """Which column it is."""
        return f"column '{plain(self.names.get(name, name))}'"


SOMEWHERE = CellNames()
LEAVE_OUT = "correct it, or leave the row out"


def pop_floats(columns: Columns, name: str, cells: CellNames = SOMEWHERE) -> FloatArray | None:
    """Take the named column out as numbers (n,), or None when it is not there."""
    return _numbers(columns.pop(name), name, cells) if name in columns else None


def pop_numbers_or_missing(columns: Columns, name: str, cells: CellNames = SOMEWHERE) -> FloatArray:
    """Take the named column, which is there, out as numbers (n,): NaN where one is missing."""
    return _numbers(columns.pop(name), name, cells, missing=True)


def pop_integers(columns: Columns, name: str, cells: CellNames = SOMEWHERE) -> IntArray | None:
    """Take the named column out as integers (n,), or None when it is not there."""
    if name not in columns:
        return None
    numbers = _numbers(columns.pop(name), name, cells)
    for bad, words in ((numbers != np.floor(numbers), "integers"), (numbers < 0, "0 or more")):
        if bad.any():
            row = int(bad.argmax())
            got = f"but {cells.row(row)} holds {numbers[row]:.15g}"
            raise InputError(f"{cells.column(name)} must be {words}, {got}; {LEAVE_OUT}")
    return integers(numbers, name=cells.column(name), shape=(None,))


def pop_matrix(columns: Columns, name: str, cells: CellNames = SOMEWHERE) -> FloatArray | None:
    """Take the named column of equally long lists out as numbers (n, k), or None when it is not there."""
    if name not in columns:
        return None
    column: Any = columns.pop(name)
    if not is_list(column.type):
        raise InputError(f"column '{name}' must hold lists of numbers, got {plain(column.type)}")
    length = _list_length(column, f"column '{name}' must hold lists of one length, without nulls")
    return _numbers(column.flatten(), name, cells, length=max(length, 1)).reshape(len(column), length)


def pop_cube(columns: Columns, name: str) -> FloatArray | None:
    """Take the named column of lists of lists out as numbers (n, k, l), or None when it is not one of those."""
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
    """Take every column out as a feature: (n, d) numbers, names and the labels of those that hold text.

    What is missing is NaN, of text too.
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
    """The labels of a column of text, and codes (n,) into them: NaN where there is none."""
    given: list[str | None] = column.dictionary.to_pylist()
    missing = column.indices.is_null().to_numpy(zero_copy_only=False)
    codes = np.asarray(column.indices.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.float64)
    if None in given:  # a dictionary may have a label that is none
        places = np.cumsum([0, *(label is not None for label in given)], dtype=np.float64)[:-1]
        places[[label is None for label in given]] = np.nan
        codes = places[codes.astype(np.int64)]
    codes = np.where(missing, np.nan, codes)
    return tuple(label for label in given if label is not None), codes


def numbers_of(column: Any) -> FloatArray:
    """The numbers (n,) of a column: NaN where one is missing, or it holds none."""
    if not is_number(column.type):
        return np.full(len(column), np.nan)
    whole: Any = column.cast(pa.float64(), safe=False) if column.null_count else column
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.float64)


def dictionary(codes: FloatArray, labels: Sequence[str]) -> object:
    """A dictionary column from codes (n,) into labels."""
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
    """Numbers (n,); missing: whether some may be, as NaN; length: how many stand in a row, one after the other."""
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
    """The first text in a column that spells no number, or else the first, after its row."""
    labels: list[str] = column.dictionary.to_pylist()
    strange = np.array([not spells_number(label) for label in labels])
    codes: IntArray = column.indices.to_numpy(zero_copy_only=False)
    row = int(strange[codes].argmax())
    return row, labels[int(codes[row])]


def spells_number(text: str) -> bool:
    """Whether this is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _list_length(column: Any, words: str) -> int:
    """How long the lists of a column are, if all are there and equally long; otherwise the words are said."""
    lengths: Any = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if column.null_count or (lengths != lengths[0]).any():
        raise InputError(words)
    return int(lengths[0])


def check_present(column: Any, name: str, cells: CellNames, length: int = 1) -> None:
    """Raise where a value is missing; length: how many stand in a row, one after the other."""
    if column.null_count:
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax()) // length
        many = count_of(column.null_count, "missing value")
        first, remedy = ("in", "fill it in, or leave the row out")
        if column.null_count > 1:
            first, remedy = ("the first in", "fill them in, or leave the rows out")
        raise InputError(f"{cells.column(name)} has {many}, {first} {cells.row(row)}; {remedy}")


# Values that are missing: of a number NaN, of a category a label of its own.


MISSING = "missing"


class Featured(Protocol):
    """What has named features (n, d)."""

    @property
    def features(self) -> FloatArray: ...

    @property
    def names(self) -> tuple[str, ...]: ...


def missing_label(labels: Collection[str]) -> str:
    """What a missing label is called: "missing", in as many brackets as no real label has."""
    name = MISSING
    while name in labels:
        name = f"({name})"
    return name


def label_missing(
    features: FloatArray, categories: tuple[tuple[str, ...] | None, ...]
) -> tuple[FloatArray, tuple[tuple[str, ...] | None, ...]]:
    """Features (n, d) and their categories, where codes that are missing have become a label after the others."""
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
    """The numbers (n,) of a column, all of which must be there; by: who cannot do without them."""
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
    """Which rows (n,) of two tables (n, d) differ; what is missing in both does not."""
    return np.asarray(((one != other) & ~(np.isnan(one) & np.isnan(other))).any(axis=1), dtype=np.bool_)


def comparable(features: FloatArray) -> FloatArray:
    """Features (n, d) for who asks which rows are the same: the missing as 0, told from it by columns beside."""
    missing = np.isnan(features)
    some = missing.any(axis=0)
    if not some.any():
        return features
    return np.column_stack([np.where(missing, 0.0, features), missing[:, some]])
