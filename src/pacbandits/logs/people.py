"""Contexts of people in Parquet files, read a block at a time: for designs over more of them than fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import entries, path_of, texts
from pacbandits.engines.base import ROWS_PER_BLOCK, even_stripes
from pacbandits.engines.memory import log_of_contexts
from pacbandits.errors import InputError, nearest, plain
from pacbandits.records import parquet
from pacbandits.records.arrow import is_number, is_text, pa, pq
from pacbandits.records.columns import ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.missing import missing_label

MAX_LABELS = 255  # of a feature: trees tell no more apart
_READ_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class ContextFiles:
    """Parquet files of contexts, one row a person; all count alike. It can be sent to a process that sees the files.

    paths: the files, in order.
    groups: how many rows each row group of each file has.
    names (d,): the features.
    categories (d,): the labels of those that hold text, of all files, in order; None for a number.
    """

    paths: tuple[Path, ...]
    groups: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]

    @property
    def n_rows(self) -> int:
        return sum(map(sum, self.groups))

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        start, stop = first * ROWS_PER_BLOCK, min(last * ROWS_PER_BLOCK, self.n_rows)
        held: list[FloatArray] = []
        count = 0
        for piece in self._pieces(start, stop):
            while count + len(piece) >= ROWS_PER_BLOCK:
                cut = ROWS_PER_BLOCK - count
                yield self._block([*held, piece[:cut]])
                piece, held, count = piece[cut:], [], 0
            held.append(piece)
            count += len(piece)
        if count:
            yield self._block(held)

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)

    def _block(self, pieces: list[FloatArray]) -> Log:
        features = np.concatenate(pieces)
        features.setflags(write=False)
        n = len(features)
        return log_of_contexts(Contexts(features, self.names, self.categories, None, np.full(n, 1.0 / n)))

    def _pieces(self, start: int, stop: int) -> Iterator[FloatArray]:
        """The features of rows from `start` up to and without `stop`, a few at a time."""
        before = 0
        for path, groups in zip(self.paths, self.groups, strict=True):
            edges = np.cumsum([before, *groups]).tolist()
            wanted = [g for g, (low, high) in enumerate(pairwise(edges)) if low < stop and start < high]
            before = edges[-1]
            if not wanted:
                continue
            place = edges[wanted[0]]
            with parquet.reading(path), pq.ParquetFile(path) as file:
                if tuple(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)) != groups:
                    raise InputError("it has changed since it was first read; start again, and leave it as it is")
                for batch in file.iter_batches(batch_size=_READ_ROWS, row_groups=wanted, columns=list(self.names)):
                    low, high = max(start, place), min(stop, place + batch.num_rows)
                    if low < high:
                        yield self._numbers(batch.slice(low - place, high - low))
                    place += batch.num_rows
                    if place >= stop:
                        break

    def _numbers(self, batch: Any) -> FloatArray:
        """The features (n, d) of some rows."""
        out = np.empty((batch.num_rows, len(self.names)))
        for j, (name, labels) in enumerate(zip(self.names, self.categories, strict=True)):
            column: Any = batch.column(batch.schema.get_field_index(name))
            out[:, j] = column.cast(pa.float64()) if labels is None else _codes(column, labels, name)
        return out


def open_contexts(paths: str | Path | Sequence[str | Path], *, features: Sequence[str] | None = None) -> ContextFiles:
    """Parquet files of contexts as one source of rows, after one look at the labels of columns that hold text.

    features: the columns that are features, if not all; each holds numbers or text.
    """
    named = (paths,) if isinstance(paths, str | Path) else entries(paths, name="paths")
    files = tuple(path_of(one, name="one of the paths") for one in named)
    if not files:
        raise InputError("paths name no file; at least one is needed")
    groups: list[tuple[int, ...]] = []
    kinds: dict[str, Any] = {}
    for path in files:
        with parquet.reading(path) as delimiter:
            if delimiter is not None:
                raise InputError(
                    "contexts are read a block at a time from Parquet; write the table so, or read it whole"
                )
            with pq.ParquetFile(path) as file:
                schema = file.schema_arrow
                groups.append(tuple(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)))
            mine = {name: schema.field(name).type for name in schema.names}
            kinds = kinds or mine
            other = next((name for name in {**kinds, **mine} if _form(kinds.get(name)) != _form(mine.get(name))), None)
            if other is not None:
                raise InputError(f"its column '{plain(other)}' is not as in {files[0]}; write all files alike")
    if sum(map(sum, groups)) == 0:
        raise InputError(f"there are no contexts in {files[0]}; at least one row is needed")
    names = _features(kinds, features)
    labels = {name: _labels(files, name) for name in names if is_text(kinds[name])}
    return ContextFiles(files, tuple(groups), names, tuple(labels.get(name) for name in names))


def _form(kind: Any) -> str:
    """What a column is read as."""
    if kind is None:
        return "nothing"
    numbers = is_number(kind) or pa.types.is_boolean(kind)
    return "numbers" if numbers else "text" if is_text(kind) else "other"


def _features(kinds: dict[str, Any], features: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that are features, or a sentence."""
    chosen = tuple(kinds) if features is None else texts(features, name="features")
    for name in chosen:
        if name not in kinds:
            raise InputError(f"there is no column '{plain(name)}'{nearest(name, kinds)}")
        if name in (ID_COLUMN, WEIGHT_COLUMN, PHI_COLUMN):
            raise InputError(
                f"the column '{name}' is no feature: rows count alike; name the features that are to be read"
            )
        if _form(kinds[name]) == "other":
            kind = plain(kinds[name])
            raise InputError(f"column '{plain(name)}' holds {kind}, no numbers and no text; name other features")
    return chosen


def _labels(files: Sequence[Path], name: str) -> tuple[str, ...]:
    """All labels of a column of text, in order, and last one for those that are missing, if any is."""
    found: set[str] = set()
    missing = False
    for path in files:
        with parquet.reading(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_PER_BLOCK, columns=[name]):
                some: list[str | None] = batch.column(0).unique().to_pylist()
                missing = missing or None in some
                found.update(label for label in some if label is not None)
                if len(found) > MAX_LABELS:
                    raise InputError(
                        f"column '{plain(name)}' has more than {MAX_LABELS} different texts; leave it out of the "
                        "features, or write fewer"
                    )
    return (*sorted(found), *((missing_label(found),) if missing else ()))


def _codes(column: Any, labels: tuple[str, ...], name: str) -> FloatArray:
    """Codes (n,) into the labels, the last for what is missing."""
    coded: Any = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    places = {label: k for k, label in enumerate(labels)}
    own: list[str | None] = coded.dictionary.to_pylist()
    known = [len(labels) - 1 if label is None else places.get(label, -1) for label in own]
    table = np.array([*known, len(labels) - 1], dtype=np.float64)
    out = table[coded.indices.fill_null(len(own)).to_numpy(zero_copy_only=False)]
    if (out < 0).any():
        raise InputError(f"column '{plain(name)}' has texts that it had not at first; leave the files alone")
    return out
