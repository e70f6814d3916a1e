"""Tables on disk: the one place that speaks Parquet and CSV."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from pacbandits.arrays import FloatArray, IntArray, integers
from pacbandits.errors import InputError, plain

# pyarrow ships no types: what enters from it is Any, and leaves this module typed.
pa: Any = pyarrow
pc: Any = pyarrow.compute
csv: Any = pyarrow.csv
pq: Any = pyarrow.parquet

_TEXT_TESTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)

Columns = dict[str, Any]  # column name -> pyarrow array
DELIMITERS = {".csv": ",", ".tsv": "\t"}
_MISTAKEN_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'", ",": "commas"}
_REMARKS_KEY = b"pacbandits remarks"  # in the metadata of a Parquet file


def read(path: str | Path) -> Columns:
    """The columns of a table, in order: of CSV if the name ends in .csv or .tsv (or these and .gz), else of Parquet."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file at {path}")
    delimiter = DELIMITERS.get(suffix(path))
    try:
        table: Any = pq.read_table(path) if delimiter is None else _read_csv(path, delimiter)
    except (pa.ArrowException, UnicodeError, OSError) as error:
        kind = "Parquet" if delimiter is None else "CSV"
        raise InputError(f"{path} is not a readable {kind} file: {plain(_first_line(error))}") from None
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows")
    names: list[str] = table.column_names
    if len(set(names)) != len(names):
        raise InputError(f"{path} has two columns of the same name")
    return {name: table.column(name).combine_chunks() for name in names}


def suffix(path: Path) -> str:
    """The end of a file's name in small letters, without .gz."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def read_remarks(path: str | Path) -> tuple[str, ...]:
    """The remarks that `write` put into a Parquet file; none in any other."""
    try:
        metadata: dict[bytes, bytes] = pq.read_schema(path).metadata or {}
        return tuple(str(words) for words in json.loads(metadata.get(_REMARKS_KEY, b"[]")))
    except (pa.ArrowException, OSError, ValueError, TypeError):
        return ()


def write(path: str | Path | IO[bytes], columns: Mapping[str, object], *, remarks: Sequence[str] = ()) -> None:
    """Write columns (numpy or pyarrow arrays) to a Parquet file or an open one, and remarks into its metadata."""
    arrays: Any = {name: _arrow(values) for name, values in columns.items()}
    table: Any = pa.table(arrays)
    if remarks:
        table = table.replace_schema_metadata({_REMARKS_KEY: json.dumps(list(remarks))})
    try:
        pq.write_table(table, path)
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
    if not is_list(column.type):
        raise InputError(f"column '{name}' must hold lists of numbers, got {column.type}")
    n = len(column)
    values = _numbers(column.flatten(), name)
    lengths: Any = pc.list_value_length(column)
    if column.null_count or (lengths.to_numpy(zero_copy_only=False) * n != values.size).any():
        raise InputError(f"column '{name}' must hold lists of one length, without nulls")
    return values.reshape(n, -1)


def pop_cube(columns: Columns, name: str) -> FloatArray | None:
    """Take the named column of lists of lists out as numbers (n, k, l), or None when it is not one of those."""
    if name not in columns or not is_list(columns[name].type):
        return None
    outer: Any = columns.pop(name)
    if not is_list(outer.type.value_type):
        raise InputError(f"column '{name}' must hold a list of numbers for each action, got {outer.type}")
    n = len(outer)
    lengths: Any = pc.list_value_length(outer).to_numpy(zero_copy_only=False)
    if outer.null_count or (lengths != lengths[0]).any():
        raise InputError(f"column '{name}' must hold lists for one number of actions, without nulls")
    inner = pop_matrix({name: outer.flatten()}, name)
    assert inner is not None
    return inner.reshape(n, int(lengths[0]), -1)


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds text, written out or coded."""
    return bool(pa.types.is_dictionary(kind) or any(is_kind(kind) for is_kind in _TEXT_TESTS))


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
        if any(is_kind(column.type) for is_kind in _TEXT_TESTS):
            labels = tuple(sorted(set(column.to_pylist())))
            code = {label: i for i, label in enumerate(labels)}
            out.append(np.array([code[value] for value in column.to_pylist()], dtype=np.float64))
        elif pa.types.is_dictionary(column.type):
            labels = tuple(str(label) for label in column.dictionary.to_pylist())
            out.append(column.indices.to_numpy(zero_copy_only=False).astype(np.float64))
        else:
            out.append(_numbers(column, name, wanted="numbers or text"))
        categories.append(labels)
    return (np.column_stack(out) if out else np.empty((n, 0))), list(columns), categories


def dictionary(codes: FloatArray, labels: Sequence[str]) -> object:
    """A dictionary column from codes (n,) into labels."""
    indices: Any = pa.array(codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(labels), type=pa.string()))


def _read_csv(path: Path, delimiter: str) -> Any:
    _check_separator(path, delimiter)
    return csv.read_csv(
        path,
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )


def _check_separator(path: Path, delimiter: str) -> None:
    """Raise when the names of the columns stand apart by something else than the delimiter."""
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
            line = file.readline(1 << 20).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error):  # whoever reads the rest says it better
        return
    names = re.sub(r'"[^"]*"', "", line).strip("\r\n")
    found = [words for other, words in _MISTAKEN_SEPARATORS.items() if other in names]
    if delimiter not in names and found:
        raise InputError(f"{path} seems to be separated by {found[0]}; use commas (or tabs in .tsv)")


def _numbers(column: Any, name: str, *, wanted: str = "numbers") -> FloatArray:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        texts: Any = column.drop_null() if is_text(kind) else ()
        got = f"text such as '{plain(texts[0].as_py())}'" if len(texts) else kind
        raise InputError(f"column '{name}' must be {wanted}, got {got}")
    if column.null_count:
        raise InputError(f"column '{name}' has {column.null_count} missing values; fill or drop them")
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.float64)


def _arrow(values: object) -> object:
    if isinstance(values, np.ndarray):
        return _arrow_of_array(cast(np.ndarray[Any, Any], values))
    return values


def _arrow_of_array(values: np.ndarray[Any, Any]) -> object:
    out: Any = pa.array(np.ascontiguousarray(values).reshape(-1))
    for width in reversed(values.shape[1:]):
        out = pa.FixedSizeListArray.from_arrays(out, width)
    return out


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
