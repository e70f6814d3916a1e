"""Rows as a Parquet table: one column per field, lists as lists, missing values as nulls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from pacbandits.benchmark.rows import COLUMNS, Row
from pacbandits.errors import InputError, plain
from pacbandits.records.arrow import is_list, pa
from pacbandits.records.parquet import read_whole, reading, write

KEY_COLUMNS = ("suite", "case", "algorithm", "seed")
_KINDS: dict[str, Any] = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "int | None": pa.int64(),
    "float | None": pa.float64(),
    "tuple[int, ...]": pa.list_(pa.int64()),
    "tuple[float, ...]": pa.list_(pa.float64()),
}
_KIND_OF = {field.name: _KINDS[str(field.type)] for field in fields(Row)}
_NULLABLE = frozenset(field.name for field in fields(Row) if str(field.type).endswith("None"))


def table_of(rows: Iterable[Row]) -> Any:
    """An Arrow table of rows."""
    listed = list(rows)
    columns = {name: pa.array([getattr(row, name) for row in listed], type=kind) for name, kind in _KIND_OF.items()}
    return pa.table(columns)


def bytes_of(table: Any) -> bytes:
    """A table as the bytes of a Parquet file."""
    made = BytesIO()
    write(made, dict(zip(table.column_names, table.columns, strict=True)))
    return made.getvalue()


def read_table(path: Path) -> Any:
    """The table in a file; a sentence where it holds anything but runs of a benchmark."""
    with reading(path):
        table: Any = read_whole(path)
        _check(table)
        return table


def join(tables: Sequence[Any]) -> Any:
    """The rows of all tables in the order of their keys; of rows with one key the first."""
    if not tables:
        return table_of(())
    whole: Any = pa.concat_tables(tables)
    order = sorted(range(whole.num_rows), key=(keys := keys_of(whole)).__getitem__)  # a stable sort
    kept = [row for place, row in enumerate(order) if place == 0 or keys[row] != keys[order[place - 1]]]
    return whole.take(pa.array(kept, type=pa.int64())).combine_chunks()


def keys_of(table: Any) -> list[tuple[str, str, str, int]]:
    """What tells the rows of a table apart, as `Task.key` does."""
    return list(zip(*(table.column(name).to_pylist() for name in KEY_COLUMNS), strict=True))


def rows_of(table: Any) -> list[Row]:
    """The rows of a table."""
    columns = [_values(table.column(name)) for name in COLUMNS]
    return [Row(*values) for values in zip(*columns, strict=True)]


def without_lists(table: Any) -> Any:
    """The table with empty lists, which says of its rows what was asked and not what came of it."""
    count, columns = table.num_rows, dict(zip(table.column_names, table.columns, strict=True))
    empty: Any = {name: pa.array([[]] * count, type=kind) for name, kind in _KIND_OF.items() if is_list(kind)}
    return pa.table(columns | empty)


def _values(column: Any) -> list[Any]:
    """The values of a column; each list as a tuple, many times faster than Arrow makes lists."""
    if not is_list(column.type):
        return column.to_pylist()
    array: Any = column.combine_chunks()
    chunks: list[Any] = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    out: list[Any] = []
    for chunk in chunks:
        ends: list[int] = chunk.offsets.to_numpy().tolist()
        start = ends[0] if ends else 0
        inside: list[Any] = chunk.flatten().to_numpy(zero_copy_only=False).tolist()
        out += [tuple(inside[a - start : b - start]) for a, b in pairwise(ends)]
    return out


def _check(table: Any) -> None:
    """Raise unless a table has the columns of rows, and each what it should hold."""
    found = tuple(table.column_names)
    if found != COLUMNS:
        lacking = [name for name in COLUMNS if name not in found]
        other = [name for name in found if name not in COLUMNS]
        words = f"lacks the column '{lacking[0]}'" if lacking else "has its columns in another order"
        words = words if lacking or not other else f"has a column '{plain(other[0])}'"
        raise InputError(f"it {words}, so it holds no runs of this version's benchmarks")
    for name, kind in _KIND_OF.items():
        column: Any = table.column(name)
        if column.type != kind:
            raise InputError(f"its column '{name}' must be {kind}, got {plain(column.type)}; it is damaged")
        if name not in _NULLABLE and (column.null_count or _null_items(column)):
            raise InputError(f"its column '{name}' lacks values; it is damaged")
    lengths = {name: _lengths(table.column(name)) for name, kind in _KIND_OF.items() if is_list(kind)}
    leaders = lengths.pop("leader_gaps")
    wrong = any(counts != lengths["points"] for counts in lengths.values())
    if wrong or any(one not in (0, all_) for one, all_ in zip(leaders, lengths["points"], strict=True)):
        raise InputError("a row of it has lists of different lengths; it is damaged")


def _lengths(column: Any) -> list[int]:
    return [length for chunk in column.chunks for length in chunk.value_lengths().to_pylist()]


def _null_items(column: Any) -> bool:
    return is_list(column.type) and any(chunk.flatten().null_count for chunk in column.chunks)
