"""Features that lines name one by one: a line lacks what it does not name."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError, plain
from pacbandits.fields import check_characters
from pacbandits.json_files import MAX_JSON_DEPTH
from pacbandits.records.contexts import Contexts
from pacbandits.records.files import NUMBER_BYTES, check_columns, check_unpacked

Value = float | str


@dataclass(eq=False)
class _Feature:
    """The values of a feature, where it has any.

    rows: which those are.
    values: one for each.
    """

    rows: array[int] = field(default_factory=lambda: array("q"))
    values: list[Value] = field(default_factory=list[Value])


@dataclass(eq=False)
class SparseFeatures:
    """Features by name, each with its values in the rows that name it.

    named: those there are.
    """

    named: dict[str, _Feature] = field(default_factory=dict[str, _Feature])

    def add(self, row: int, pairs: Iterable[tuple[str, Value]], *, line: int) -> None:
        """Add the features of a row, which stands on that line."""
        for name, value in pairs:
            feature = self.named.get(name)
            if feature is None:
                check_characters(name, name=f"line {line}")
                check_columns(len(self.named) + 1)
                feature = self.named[name] = _Feature()
            if feature.rows and feature.rows[-1] == row:
                raise InputError(f"line {line} names the feature '{plain(name)}' twice")
            if isinstance(value, str):
                check_characters(value, name=f"line {line}")
            feature.rows.append(row)
            feature.values.append(value)

    def contexts(self, n: int, *, size: int) -> Contexts:
        """Contexts of n rows: a number that a row lacks is 0, a label it lacks is empty.

        size: of the file that the features come from, in bytes.
        """
        remedy = "leave out features that few lines have"
        check_unpacked(NUMBER_BYTES * n * len(self.named), size=size, remedy=remedy)
        out = np.zeros((n, len(self.named)))
        categories: list[tuple[str, ...] | None] = []
        for j, (name, feature) in enumerate(self.named.items()):
            labels, values = _coded(feature, name=name, lacking=len(feature.rows) < n)
            rows = np.array(feature.rows)
            if labels is not None:
                out[:, j] = labels.index("") if "" in labels else 0
            out[rows, j] = values
            categories.append(labels)
        out.setflags(write=False)
        ids = None if self.named else np.zeros(n, dtype=np.int64)
        return Contexts.of(out, names=list(self.named), categories=categories, ids=ids)


def _coded(feature: _Feature, *, name: str, lacking: bool) -> tuple[tuple[str, ...] | None, FloatArray]:
    """The labels of a feature of which some value is text, or None; and its values, codes into them if there are."""
    if not any(isinstance(value, str) for value in feature.values):
        return None, floats(np.array(feature.values, dtype=object), name=f"feature '{plain(name)}'", shape=(None,))
    texts = [str(value) for value in feature.values]
    labels = tuple(sorted({*texts, ""} if lacking else set(texts)))
    code = {label: k for k, label in enumerate(labels)}
    return labels, np.array([code[text] for text in texts], dtype=np.float64)


def flatten(value: Any, *, line: int, name: str = "", depth: int = 0) -> Iterator[tuple[str, Value]]:
    """The features in a JSON value by name: those of objects after a dot, of lists by their number."""
    if depth > MAX_JSON_DEPTH:
        raise InputError(f"line {line} is nested too deep: at most {MAX_JSON_DEPTH} values within each other")
    if isinstance(value, dict):
        for key, part in cast(dict[str, Any], value).items():
            if not key.startswith("_"):
                yield from flatten(part, line=line, name=f"{name}.{key}" if name else key, depth=depth + 1)
    elif isinstance(value, list):
        parts = cast(list[Any], value)
        for i, part in enumerate(parts):
            alone = len(parts) == 1 and isinstance(part, dict)
            yield from flatten(part, line=line, name=name if alone else f"{name}.{i}", depth=depth + 1)
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    elif isinstance(value, int | float | str):
        yield name, value
