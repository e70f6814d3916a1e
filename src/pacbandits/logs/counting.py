"""How many different values a column has, and which labels, as its rows go by."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.records.arrow import Columns, pa
from pacbandits.records.identifiers import Counts

MAX_LABELS = 2**16  # of a column of text, as categories
MAX_DISTINCT = 2**22  # values that are counted
EARLY_ROWS = 2**18  # of which values are counted where there are more than that in all


class Distinct:
    """How many different whole numbers there are, up to `MAX_DISTINCT` of them."""

    def __init__(self) -> None:
        self._known = np.empty(0, dtype=np.int64)
        self._fresh: list[IntArray] = []
        self._waiting = 0
        self._early: Counts | None = None
        self.rows = self.present = 0

    def see(self, values: IntArray, *, rows: int, present: int) -> None:
        """The values of so many next rows, each once or more, of which so many have one; see `EARLY_ROWS`.

        No call begins before that many rows and ends behind them.
        """
        self.rows, self.present = self.rows + rows, self.present + present
        if self.is_full:
            return
        self._fresh.append(_each_once(np.sort(values)))
        self._waiting += len(self._fresh[-1])
        if self._waiting > max(EARLY_ROWS, len(self._known)) or self.rows == EARLY_ROWS:
            self._merge()
        if self.rows == EARLY_ROWS:
            self._early = Counts(self.rows, self.present, len(self._known))

    @classmethod
    def begun(cls, values: IntArray, *, rows: int, present: int, early: Counts | None) -> Distinct:
        """After so many rows with these values; early: what there was in the first of them."""
        out = cls()
        out.see(values, rows=rows, present=present)
        out._early = early or out._early
        return out

    @property
    def is_full(self) -> bool:
        """Whether there are too many to be counted."""
        return len(self._known) > MAX_DISTINCT

    def counts(self) -> Counts:
        """How many values there are: in the first `EARLY_ROWS` rows, where in all there are too many."""
        self._merge()
        if self.is_full and self._early is not None:
            return self._early
        return Counts(self.rows, self.present, len(self._known))

    def _merge(self) -> None:
        if self._fresh:
            # runs that are sorted already, which a stable sort merges
            self._known = _each_once(np.sort(np.concatenate([self._known, *self._fresh]), kind="stable"))
            self._fresh, self._waiting = [], 0


def _each_once(values: IntArray) -> IntArray:
    """Sorted numbers without those that come again."""
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


class Numbers:
    """A column of whole numbers that may be identifiers: how many different ones there are.

    name: of the column.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.distinct = Distinct()

    def see(self, columns: Columns) -> list[int]:
        column: Any = columns[self.name]
        values: IntArray = column.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        self.distinct.see(values, rows=len(column), present=len(values))
        return []

    def counts(self) -> Counts:
        """How many values the column has."""
        return self.distinct.counts()

    @property
    def is_estimated(self) -> bool:
        """Whether there are too many to be counted."""
        return self.distinct.is_full


class Labels:
    """A column of text: its labels, and the first row of each.

    name: of the column.
    coded: whether its author made categories of it, all of which count, in their order.
    """

    def __init__(self, name: str, *, coded: bool) -> None:
        self.name, self.coded = name, coded
        self.codes: dict[str, int] = {}  # of labels that occur, in the order of first rows
        self.listed: dict[str, None] = {}  # all labels of a column that its author coded
        self.overflowed = False  # there are too many labels to be categories
        self.now: IntArray = np.empty(0, dtype=np.int64)  # codes of the last rows seen, -1 where there is none
        self._hashes = Distinct()
        self._rows = self._present = 0
        self._early: Counts | None = None
        self._missing = False
        self._last: Any = None  # the last dictionary, and the codes of its labels
        self._places: IntArray = np.empty(0, dtype=np.int64)

    def see(self, columns: Columns) -> list[int]:
        column: Any = columns[self.name]
        missing: BoolArray = column.indices.is_null().to_numpy(zero_copy_only=False)
        local: IntArray = column.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        found: list[int] = []
        if column.null_count and not self._missing:
            self._missing = True
            found.append(int(missing.argmax()))
        if self._last is None or not column.dictionary.equals(self._last):
            self._look_up(column.dictionary)
        if self.overflowed:
            self._count(local[~missing], rows=len(column))
            return found
        if (self._places < 0).any():
            found += self._add(local, missing)
        self.now = np.where(missing, -1, self._places[local]) if len(self._places) else np.full(len(column), -1)
        self._rows, self._present = self._rows + len(column), self._present + len(column) - column.null_count
        if self._rows == EARLY_ROWS:
            self._early = Counts(self._rows, self._present, len(self.codes))
        if max(len(self.codes), len(self.listed)) > MAX_LABELS:
            self._overflow()
        return found

    def counts(self) -> Counts:
        """How many labels the column has."""
        return self._hashes.counts() if self.overflowed else Counts(self._rows, self._present, len(self.codes))

    @property
    def is_estimated(self) -> bool:
        """Whether there are too many to be counted."""
        return self.overflowed and self._hashes.is_full

    def _look_up(self, dictionary: Any) -> None:
        """Find the codes of the labels of a dictionary; -1 for those that are new."""
        self._last = dictionary
        if self.overflowed:
            return
        labels: list[str] = dictionary.to_pylist()
        if self.coded:
            self.listed.update(dict.fromkeys(labels))
        self._places = np.fromiter((self.codes.get(label, -1) for label in labels), dtype=np.int64, count=len(labels))

    def _add(self, local: IntArray, missing: BoolArray) -> list[int]:
        """Give codes to the labels that are new, and tell their first rows."""
        rows = np.flatnonzero(~missing)
        used, first = np.unique(local[rows], return_index=True)
        new = self._places[used] < 0
        used, first = used[new], first[new]
        order = np.argsort(first, kind="stable")
        labels: list[str] = self._last.take(pa.array(used[order])).to_pylist()
        for place, label in zip(used[order], labels, strict=True):
            self._places[place] = self.codes.setdefault(label, len(self.codes))
        return [int(row) for row in rows[first[order]]]

    def _overflow(self) -> None:
        """Keep hashes from now on, in the place of labels."""
        self.overflowed = True
        values = np.fromiter(map(hash, self.codes), dtype=np.int64, count=len(self.codes))
        self._hashes = Distinct.begun(values, rows=self._rows, present=self._present, early=self._early)

    def _count(self, local: IntArray, *, rows: int) -> None:
        """Count labels of which there are too many to be kept."""
        values = np.empty(0, dtype=np.int64)
        if not self._hashes.is_full:
            used: list[str] = self._last.take(pa.array(np.flatnonzero(np.bincount(local)))).to_pylist()
            values = np.fromiter(map(hash, used), dtype=np.int64, count=len(used))
        self._hashes.see(values, rows=rows, present=len(local))
