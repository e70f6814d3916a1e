"""Contexts in Parquet files, read block by block: for designs over more contexts than fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pacbandits.checks import entries, path_of, texts
from pacbandits.engines.base import ROWS_PER_BLOCK, even_stripes
from pacbandits.engines.memory import log_of_contexts
from pacbandits.errors import InputError, plain
from pacbandits.logs.parts import Parts, codes_of, in_blocks, list_parts
from pacbandits.records import parquet
from pacbandits.records.arrow import is_number, is_text
from pacbandits.records.columns import ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN, pop_numbers_or_missing
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.missing import missing_label

MAX_LABELS = 255  # of a feature: trees tell no more apart
_READ_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class ContextFiles:
    """Parquet files of contexts, one row a person; all count alike. It can be sent to a process that sees the files.

    parts: the files.
    names (d,): the features.
    categories (d,): the labels of those that hold text, of all files, in order; None for a number.
    """

    parts: Parts
    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]

    @property
    def n_rows(self) -> int:
        return self.parts.n_rows

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        start, stop = first * ROWS_PER_BLOCK, min(last * ROWS_PER_BLOCK, self.n_rows)
        pieces = self.parts.read_rows(start, stop, self.names, most=_READ_ROWS)
        codes = {
            name: {label: k for k, label in enumerate(labels)}
            for name, labels in zip(self.names, self.categories, strict=True)
            if labels is not None
        }
        for columns in in_blocks(pieces, rows=ROWS_PER_BLOCK):
            n = len(columns[self.names[0]])
            features = np.empty((n, len(self.names)))
            for j, name in enumerate(self.names):
                features[:, j] = (
                    codes_of(columns[name], codes[name], name)
                    if name in codes
                    else pop_numbers_or_missing(columns, name)
                )
            features.setflags(write=False)
            yield log_of_contexts(Contexts(features, self.names, self.categories, None, np.full(n, 1.0 / n)))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)


def open_contexts(paths: str | Path | Sequence[str | Path], *, features: Sequence[str] | None = None) -> ContextFiles:
    """Parquet files of contexts as one source of rows, after one look at the labels of columns that hold text.

    features: the columns that are features, if not all; each holds numbers or text.
    """
    named = (paths,) if isinstance(paths, str | Path) else entries(paths, name="paths")
    files = tuple(path_of(one, name="one of the paths") for one in named)
    if not files:
        raise InputError("paths name no file; at least one is needed")
    asked = None if features is None else texts(features, name="features")
    for path in files:
        with parquet.reading(path) as delimiter:
            if delimiter is not None:
                raise InputError(
                    "contexts are read a block at a time from Parquet; write the table so, or read it whole"
                )
    parts = list_parts(files, names=[str(path) for path in files], columns=asked)
    names = tuple(parts.kinds) if asked is None else asked
    for name in names:
        if name in (ID_COLUMN, WEIGHT_COLUMN, PHI_COLUMN):
            raise InputError(
                f"the column '{name}' is no feature: rows count alike; name the features that are to be read"
            )
        if not is_number(parts.kinds[name]) and not is_text(parts.kinds[name]):
            kind = plain(parts.kinds[name])
            raise InputError(f"column '{plain(name)}' holds {kind}, no numbers and no text; name other features")
    labels = _labels(parts, [name for name in names if is_text(parts.kinds[name])])
    return ContextFiles(parts, names, tuple(labels.get(name) for name in names))


def _labels(parts: Parts, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """All labels of columns of text, in order, and last one for those that are missing, if any is."""
    found: dict[str, set[str]] = {name: set() for name in names}
    missing: set[str] = set()
    for columns in parts.read_rows(0, parts.n_rows, names, most=ROWS_PER_BLOCK) if names else ():
        for name, column in columns.items():
            some: list[str | None] = column.unique().to_pylist()
            missing |= {name} if None in some else set()
            found[name].update(label for label in some if label is not None)
            if len(found[name]) > MAX_LABELS:
                raise InputError(
                    f"column '{plain(name)}' has more than {MAX_LABELS} different texts; leave it out of the features, "
                    "or write fewer"
                )
    return {
        name: (*sorted(labels), *((missing_label(labels),) if name in missing else ()))
        for name, labels in found.items()
    }
