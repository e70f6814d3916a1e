"""What to look out for in actions and their propensities, as rows go by; see `watching`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.logs.counting import Labels
from pacbandits.logs.raw import MAX_ACTIONS
from pacbandits.logs.splits import MAX_SHARE_ROUNDING, MIN_PLAYS
from pacbandits.records.arrow import Columns, is_list, is_number
from pacbandits.records.columns import numbers_of


class Plays:
    """The first rows of every action, and those with its least and its largest propensity while these may be constant.

    action: the column of actions.
    labels: who watches it, where it is text.
    played: the column of played propensities, where the others have to follow from these; or None.
    """

    def __init__(self, action: str, *, labels: Labels | None, played: str | None) -> None:
        self.action, self.labels, self.played = action, labels, played
        self._values = np.empty(0)  # numbers of actions, or codes of their labels, in order
        self._places = np.full(MAX_ACTIONS, -1, dtype=np.int64)  # of small numbers, among these
        self._counts = np.empty(0, dtype=np.int64)
        self._low, self._high = np.empty(0), np.empty(0)

    def see(self, columns: Columns) -> list[int]:
        values = numbers_of(columns[self.action]) if self.labels is None else self.labels.now.astype(np.float64)
        strange = ~(np.isfinite(values) & (values >= 0))
        if strange.any():  # it is refused with its first row, by whoever makes the log
            return [int(strange.argmax())] if self.labels is None else []
        which = self._find(values)
        found: list[int] = []
        counts = np.bincount(which, minlength=len(self._values))
        lacking = np.flatnonzero((self._counts < MIN_PLAYS) & (counts > 0))
        if len(lacking):
            for action, rows in zip(lacking, _rows_of(which, lacking), strict=True):
                found += [int(row) for row in rows[: MIN_PLAYS - int(self._counts[action])]]
        self._counts += counts
        return found if self.played is None else found + self._extremes(which, numbers_of(columns[self.played]))

    def _find(self, values: FloatArray) -> IntArray:
        """The places (n,) of actions among those seen, these included."""
        small = values.max() < len(self._places) and bool((values == np.floor(values)).all())
        if small and (which := self._places[values.astype(np.int64)]).min() >= 0:
            return which
        if len(self._values) <= MAX_ACTIONS:
            self._add(np.setdiff1d(values, self._values))
            listed = self._values[(self._values < len(self._places)) & (self._values == np.floor(self._values))]
            self._places[listed.astype(np.int64)] = np.searchsorted(self._values, listed)
        return np.minimum(np.searchsorted(self._values, values), len(self._values) - 1)

    def _add(self, new: FloatArray) -> None:
        """Make room for actions that are new."""
        where = np.searchsorted(self._values, new)
        self._values = np.insert(self._values, where, new)
        self._counts = np.insert(self._counts, where, 0)
        self._low, self._high = np.insert(self._low, where, np.inf), np.insert(self._high, where, -np.inf)

    def _extremes(self, which: IntArray, played: FloatArray) -> list[int]:
        """The rows with the least and the largest propensity of an action so far, while these may be the same."""
        if (self._high - self._low > MAX_SHARE_ROUNDING * self._high).any() or not np.isfinite(played).all():
            return []
        low, high = self._low.copy(), self._high.copy()
        np.minimum.at(low, which, played)
        np.maximum.at(high, which, played)
        found: list[int] = []
        for ends, before, pick in ((low, self._low, np.argmin), (high, self._high, np.argmax)):
            moved = np.flatnonzero(ends != before)
            if len(moved):
                found += [int(rows[pick(played[rows])]) for rows in _rows_of(which, moved)]
        self._low, self._high = low, high
        return found


def _rows_of(which: IntArray, wanted: IntArray) -> list[IntArray]:
    """The rows of each of the wanted actions, in order; which (n,): the action of each row."""
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], wanted, side="left")
    ends = np.searchsorted(which[order], wanted, side="right")
    return [order[start:end] for start, end in zip(starts, ends, strict=True)]


class Propensities:
    """Whether the propensities of all actions are the same in all rows; and how far the played ones told alone are off.

    listed: the column of lists, if there is one.
    each: the columns of one action each, otherwise.
    action: the column of actions.
    labels: who watches it, where it is text.
    played: the column of played propensities, if these are told as well; or None.
    """

    def __init__(
        self, listed: str | None, each: Sequence[str], *, action: str, labels: Labels | None, played: str | None
    ) -> None:
        self.listed, self.each, self.played = listed, tuple(each), played
        self.action, self.labels = action, labels
        self.same = True
        self.width = len(self.each)
        self._first: FloatArray | None = None
        self._worst = 0.0

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to learn of them."""
        return not self.same and self.played is None

    def see(self, columns: Columns) -> list[int]:
        if self.is_done:
            return []
        full = self._matrix(columns)
        if full is None:
            return [0]
        self.width = full.shape[1]
        first = full[0].copy() if self._first is None else self._first
        self._first = first
        found: list[int] = []
        if self.same:
            alike = full.shape[1] == len(first)
            differs = np.flatnonzero((full != first).any(axis=1)) if alike else np.array([0])
            if len(differs):
                self.same = False
                found.append(int(differs[0]))
        return found if self.played is None else found + self._compare(full, columns)

    def _matrix(self, columns: Columns) -> FloatArray | None:
        """The propensities (n, A) of rows; None where they are not that, which whoever makes the log will say."""
        if self.listed is None:
            return np.column_stack([numbers_of(columns[name]) for name in self.each])
        column: Any = columns[self.listed]
        if not is_list(column.type) or not is_number(column.type.value_type) or column.null_count:
            return None
        values = numbers_of(column.flatten())
        return values.reshape(len(column), -1) if len(values) and len(values) % len(column) == 0 else None

    def _compare(self, full: FloatArray, columns: Columns) -> list[int]:
        """The row in which the played propensity told alone is off by more than in any before."""
        assert self.played is not None
        if self.labels is None:
            places = numbers_of(columns[self.action])
        else:
            suffixes = {name.removeprefix("propensity_"): j for j, name in enumerate(self.each)}
            known = np.array([suffixes.get(label, -1) for label in self.labels.codes] or [-1], dtype=np.float64)
            places = np.where(self.labels.now < 0, -1.0, known[self.labels.now])
        if self.labels is None and self.listed is None:
            numbers = {name.removeprefix("propensity_"): float(j) for j, name in enumerate(self.each)}
            places = np.array([numbers.get(f"{place:.0f}", -1.0) for place in places])
        fine = (places >= 0) & (places < full.shape[1])
        if not fine.all():
            return [int((~fine).argmax())]
        own = full[np.arange(len(full)), places.astype(np.int64)]
        apart = np.abs(numbers_of(columns[self.played]) - own)
        relative = np.divide(apart, own, out=np.zeros(len(own)), where=own > 0)
        row = int(relative.argmax())
        if not relative[row] > self._worst:
            return [] if np.isfinite(relative).all() else [int((~np.isfinite(relative)).argmax())]
        self._worst = float(relative[row])
        return [row]
