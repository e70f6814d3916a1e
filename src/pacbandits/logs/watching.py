"""What to look out for in the columns of a table that goes by a few rows at a time.

A watch remembers little, and tells which rows are witnesses: the first with a label, the one with the largest number so
far, … A log of the witnesses alone has the names, categories and remarks of the log of all rows.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.logs.picking import MIN_CLOCK_ROWS
from pacbandits.logs.times import Way, settle_way, spell_column, ticks_of
from pacbandits.records.arrow import Columns, is_list, is_number, pa
from pacbandits.records.columns import numbers_of
from pacbandits.records.dates import days_and_hours


class Watch(Protocol):
    """Who looks at the rows as they go by."""

    def see(self, columns: Columns) -> list[int]:
        """Which of the next rows, from 0, are witnesses."""
        ...


class Extremes:
    """A column of numbers, or of lists of them: the first rows with the least, the largest, and none.

    name: of the column.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._low, self._high = np.inf, -np.inf
        self._strange = False

    def see(self, columns: Columns) -> list[int]:
        column: Any = columns[self.name]
        found: list[int] = []
        low, high = _ends(column)
        strange = ~(np.isfinite(low) & np.isfinite(high))
        if strange.any():
            if not self._strange:
                self._strange = True
                found.append(int(strange.argmax()))
            low, high = np.where(strange, np.inf, low), np.where(strange, -np.inf, high)
        if (least := float(low.min())) < self._low:
            self._low = least
            found.append(int(low.argmin()))
        if (most := float(high.max())) > self._high:
            self._high = most
            found.append(int(high.argmax()))
        return found


def _ends(column: Any) -> tuple[FloatArray, FloatArray]:
    """The least and the largest number (n,) in each row of a column: NaN where there is none, or it is no number."""
    if is_list(column.type):
        n, values = len(column), column.flatten()
        if column.null_count or values.null_count or n == 0 or len(values) % n or not is_number(values.type):
            return np.full(n, np.nan), np.full(n, np.nan)
        rows = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(n, -1)
        return (rows.min(axis=1), rows.max(axis=1)) if rows.shape[1] else (np.full(n, np.nan), np.full(n, np.nan))
    numbers = numbers_of(column)
    return numbers, numbers


class Clock:
    """A column of dates or times: whether rows stand in their order, and whether times of day vary.

    name: of the column.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows = 0
        self._ordered = True
        self._first = self._last = 0
        self._hour: float | None = None
        self._varies = self._missing = False

    def see(self, columns: Columns) -> list[int]:
        column: Any = columns[self.name]
        found: list[int] = []
        if column.null_count:
            self._ordered = False
        if self._ordered:
            ticks = ticks_of(column)
            self._first = int(ticks[0]) if self._rows == 0 else self._first
            before = int(ticks[0]) if self._rows == 0 else self._last
            self._ordered = before <= int(ticks[0]) and bool((ticks[1:] >= ticks[:-1]).all())
            self._last = int(ticks[-1])
        self._rows += len(column)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if missing.any() and not self._missing:
            self._missing = True
            found.append(int(missing.argmax()))
        if not self._varies and not missing.all() and not pa.types.is_date32(column.type):
            _, hours = days_and_hours(self.name, column)
            there = np.flatnonzero(~missing)
            if self._hour is None:
                self._hour = float(hours[there[0]])
                found.append(int(there[0]))
            other = np.flatnonzero(hours[there] != self._hour)
            if len(other):
                self._varies = True
                found.append(int(there[other[0]]))
        return found

    @property
    def tells_when(self) -> bool:
        """Whether rows stand in the order of this column, by no coincidence."""
        return self._ordered and self._rows >= MIN_CLOCK_ROWS and self._first != self._last


class Order:
    """The column by which rows are to be brought into order: whether they stand in it.

    name: of the column.
    form: how times are written in it, if the reader says so.

    Text may be written in more than one way, until some row decides; that row is a witness.
    """

    def __init__(self, name: str, form: str | None) -> None:
        self.name, self.form = name, form
        self._last: dict[Way, float] | None = None  # the ways that fit all rows so far; NaN where they do not rise

    def see(self, columns: Columns) -> list[int]:
        column: Any = columns[self.name]
        if column.null_count:
            return [int(column.is_null().to_numpy(zero_copy_only=False).argmax())]
        spelt = spell_column(column, form=self.form)
        if self._last is None:
            self._last = {way: -math.inf for way, one in spelt.items() if one.valid[0]}
        found: list[int] = []
        for way, last in list(self._last.items()):
            one = spelt.get(way)
            if one is None or not one.valid.all():
                del self._last[way]
                found.append(0 if one is None else int((~one.valid).argmax()))
            else:
                rise = last <= one.keys[0] and bool((one.keys[1:] >= one.keys[:-1]).all())
                self._last[way] = one.keys[-1] if rise else math.nan
        return found

    @property
    def is_lost(self) -> bool:
        """Whether rows do not stand in order, whatever way their times are written in."""
        return bool(self._last) and all(map(math.isnan, self._last.values()))

    @property
    def is_kept(self) -> bool:
        """Whether all rows stand in order; so do those whose times cannot be read, which are refused elsewhere."""
        way = settle_way(list(self._last or ()))
        return way is None or self._last is None or not math.isnan(self._last[way])


class RoundTally:
    """How often rounds occur, whether rows stand in their order, and what repeats come to.

    has_rounds, has_repeats: whether there are such columns.
    """

    def __init__(self, *, has_rounds: bool, has_repeats: bool) -> None:
        self.has_rounds, self.has_repeats = has_rounds, has_repeats
        self.rounds: dict[int, int] = {}
        self.samples = self.most = 0
        self.rising, self._last = True, -math.inf

    def see(self, columns: Columns) -> list[int]:
        n = len(next(iter(columns.values())))
        repeats = numbers_of(columns["repeats"]) if self.has_repeats else None
        rounds = numbers_of(columns["round"]) if self.has_rounds else None
        for numbers in (repeats, rounds):  # what is none is refused with its witnesses, by whoever makes the log
            if numbers is not None and not np.isfinite(numbers).all():
                return []
        counts = np.ones(n, dtype=np.int64) if repeats is None else repeats.astype(np.int64)
        self.samples += int(counts.sum(dtype=np.float64) if counts.max() > 2**40 else counts.sum())
        self.most = max(self.most, int(counts.max()))
        if rounds is None:
            self.rounds[0] = self.rounds.get(0, 0) + int(counts.sum())
            return []
        self.rising &= bool(rounds[0] >= self._last and (np.diff(rounds) >= 0).all())
        self._last = float(rounds[-1])
        seen, which = np.unique(rounds.astype(np.int64), return_inverse=True)
        sums = np.zeros(len(seen), dtype=np.int64)
        np.add.at(sums, which.reshape(-1), counts)
        for number, count in zip(seen, sums, strict=True):
            self.rounds[int(number)] = self.rounds.get(int(number), 0) + int(count)
        return []


class Clips:
    """How many rewards lie below and above the range that they are cut to.

    name: the column of rewards.
    ends: the range, if one is told.
    """

    def __init__(self, name: str, ends: tuple[float, float] | None) -> None:
        self.name = name
        self.low, self.high = (-np.inf, np.inf) if ends is None else ends
        self.below = self.above = 0

    def see(self, columns: Columns) -> list[int]:
        rewards = numbers_of(columns[self.name])
        self.below += int((rewards < self.low).sum())
        self.above += int((rewards > self.high).sum())
        return []
