"""Running checks of columns, actions and propensities, a block of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.logs.log_table import MIN_CLOCK_ROWS
from pacbandits.logs.raw_log import MAX_ACTIONS, MAX_SHARE_ROUNDING, MIN_PLAYS
from pacbandits.logs.reading_options import Way, settle_way, spell_column, ticks_of
from pacbandits.records.column_types import Counts, DatePart, age_feature, days_and_hours
from pacbandits.records.columns import Columns, is_list, is_number, numbers_of, pa, pc

# Running checks of a table's columns, in bounded memory. A watch reports witness rows: the first with a label, the one
# with the largest number so far, … A log of the witnesses alone has the names, categories and remarks of the log of all
# rows.


class Watch(Protocol):
    """A running check of rows."""

    def see(self, columns: Columns) -> list[int]:
        """Process the next rows; return which of them, from 0, are witnesses."""
        ...


class Extremes:
    """The first rows with the smallest and the largest number of a column (of numbers or lists), and with none.

    name: the column.
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
    """Return the smallest and the largest number (n,) in each row of a column; NaN if there is none."""
    if is_list(column.type):
        n, values = len(column), column.flatten()
        if column.null_count or values.null_count or n == 0 or len(values) % n or not is_number(values.type):
            return np.full(n, np.nan), np.full(n, np.nan)
        rows = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(n, -1)
        return (rows.min(axis=1), rows.max(axis=1)) if rows.shape[1] else (np.full(n, np.nan), np.full(n, np.nan))
    numbers = numbers_of(column)
    return numbers, numbers


class Clock:
    """A column of dates or times: whether rows are sorted by it, and whether times of day vary.

    name: the column.
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
        """Whether rows are sorted by this column, and not by coincidence."""
        return self._ordered and self._rows >= MIN_CLOCK_ROWS and self._first != self._last


class Ages:
    """A column of dates: the first row in which it is later than the time of the row.

    name, time: the two columns.
    """

    def __init__(self, name: str, time: str) -> None:
        self.part = DatePart(name, "age", time)
        self._found = False

    def see(self, columns: Columns) -> list[int]:
        if self._found:
            return []
        late = pc.less(age_feature(self.part, columns), 0).fill_null(False).to_numpy(zero_copy_only=False)
        self._found = bool(late.any())
        return [int(late.argmax())] if self._found else []


class Order:
    """The column to sort rows by: whether they are already sorted.

    name: the column.
    form: the format of its times, if given.

    Text may fit several formats until some row decides; that row is a witness.
    """

    def __init__(self, name: str, form: str | None) -> None:
        self.name, self.form = name, form
        self._last: dict[Way, float] | None = None  # formats that fit all rows so far; NaN if not sorted

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
        """Whether rows are not sorted, in any format that fits their times."""
        return bool(self._last) and all(map(math.isnan, self._last.values()))

    @property
    def is_kept(self) -> bool:
        """Whether all rows are sorted; also true if times cannot be read, which is reported elsewhere."""
        way = settle_way(list(self._last or ()))
        return way is None or self._last is None or not math.isnan(self._last[way])


class RoundTally:
    """The number of interactions per round, whether rows are sorted by round, and the sum of repeats.

    has_rounds, has_repeats: whether these columns exist.
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
        for numbers in (repeats, rounds):  # invalid values are witnesses elsewhere, and raise when the log is made
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
    """The numbers of rewards below and above the range to which they are clipped.

    name: the column of rewards.
    ends: the range, if given.
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


# The number of distinct values of a column, and its labels, counted as rows are read.


MAX_LABELS = 2**16  # of a categorical text column
MAX_DISTINCT = 2**22  # distinct values counted
EARLY_ROWS = 2**18  # used for counts if all rows have too many distinct values


class Distinct:
    """The number of distinct integers, counted up to `MAX_DISTINCT`."""

    def __init__(self) -> None:
        self._known = np.empty(0, dtype=np.int64)
        self._fresh: list[IntArray] = []
        self._waiting = 0
        self._early: Counts | None = None
        self.rows = self.present = 0

    def see(self, values: IntArray, *, rows: int, present: int) -> None:
        """Add the values of the next `rows` rows, of which `present` have one; see `EARLY_ROWS`.

        No call may contain rows from both before and after the first `EARLY_ROWS` rows.
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
        """Return a counter after `rows` rows with these values; early: the counts of the first `EARLY_ROWS` of them."""
        out = cls()
        out.see(values, rows=rows, present=present)
        out._early = early or out._early
        return out

    @property
    def is_full(self) -> bool:
        """Whether there are too many values to be counted."""
        return len(self._known) > MAX_DISTINCT

    def counts(self) -> Counts:
        """Return the counts of all rows, or of the first `EARLY_ROWS` rows if there are too many values."""
        self._merge()
        if self.is_full and self._early is not None:
            return self._early
        return Counts(self.rows, self.present, len(self._known))

    def _merge(self) -> None:
        if self._fresh:
            # sorted runs, which a stable sort merges
            self._known = _each_once(np.sort(np.concatenate([self._known, *self._fresh]), kind="stable"))
            self._fresh, self._waiting = [], 0


def _each_once(values: IntArray) -> IntArray:
    """Return sorted numbers without duplicates."""
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


class IdentifierWatch:
    """A column of integers that may be identifiers: the number of distinct ones.

    name: the column.
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
        """Return the counts of the column."""
        return self.distinct.counts()

    @property
    def is_estimated(self) -> bool:
        """Whether there are too many values to be counted."""
        return self.distinct.is_full


class Labels:
    """A text column: its labels, and the first row of each.

    name: the column.
    coded: whether its author made it categorical; then all its categories count, in their order.
    """

    def __init__(self, name: str, *, coded: bool) -> None:
        self.name, self.coded = name, coded
        self.codes: dict[str, int] = {}  # of labels that occur, in the order of first rows
        self.listed: dict[str, None] = {}  # all categories of a column that its author coded
        self.overflowed = False  # too many labels for a categorical column
        self.now: IntArray = np.empty(0, dtype=np.int64)  # codes of the last rows seen, -1 where missing
        self._hashes = Distinct()
        self._rows = self._present = 0
        self._early: Counts | None = None
        self._missing = False
        self._last: Any = None  # the last dictionary; `_places`: the codes of its labels
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
        """Return the counts of the column."""
        return self._hashes.counts() if self.overflowed else Counts(self._rows, self._present, len(self.codes))

    @property
    def is_estimated(self) -> bool:
        """Whether there are too many values to be counted."""
        return self.overflowed and self._hashes.is_full

    def _look_up(self, dictionary: Any) -> None:
        """Look up the codes of a dictionary's labels; -1 for new ones."""
        self._last = dictionary
        if self.overflowed:
            return
        labels: list[str] = dictionary.to_pylist()
        if self.coded:
            self.listed.update(dict.fromkeys(labels))
        self._places = np.fromiter((self.codes.get(label, -1) for label in labels), dtype=np.int64, count=len(labels))

    def _add(self, local: IntArray, missing: BoolArray) -> list[int]:
        """Assign codes to new labels; return their first rows."""
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
        """From now on keep hashes instead of labels."""
        self.overflowed = True
        values = np.fromiter(map(hash, self.codes), dtype=np.int64, count=len(self.codes))
        self._hashes = Distinct.begun(values, rows=self._rows, present=self._present, early=self._early)

    def _count(self, local: IntArray, *, rows: int) -> None:
        """Count labels by their hashes, as there are too many to keep."""
        values = np.empty(0, dtype=np.int64)
        if not self._hashes.is_full:
            used: list[str] = self._last.take(pa.array(np.flatnonzero(np.bincount(local)))).to_pylist()
            values = np.fromiter(map(hash, used), dtype=np.int64, count=len(used))
        self._hashes.see(values, rows=rows, present=len(local))


# Running checks of actions and their propensities.


class Plays:
    """The first rows of every action, and those with its extreme propensities while these may be constant.

    action: the column of actions.
    labels: the watch of its labels, if it is text.
    played: the column of played propensities, if the others must follow from these; or None.
    """

    def __init__(self, action: str, *, labels: Labels | None, played: str | None) -> None:
        self.action, self.labels, self.played = action, labels, played
        self._values = np.empty(0)  # numbers of actions, or codes of their labels, sorted
        self._places = np.full(MAX_ACTIONS, -1, dtype=np.int64)  # positions of small numbers among these
        self._counts = np.empty(0, dtype=np.int64)
        self._low, self._high = np.empty(0), np.empty(0)

    def see(self, columns: Columns) -> list[int]:
        values = numbers_of(columns[self.action]) if self.labels is None else self.labels.now.astype(np.float64)
        strange = ~(np.isfinite(values) & (values >= 0))
        if strange.any():  # raises with its first row when the log is made
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
        """Return the positions (n,) of actions among all seen, these included."""
        small = values.max() < len(self._places) and bool((values == np.floor(values)).all())
        if small and (which := self._places[values.astype(np.int64)]).min() >= 0:
            return which
        if len(self._values) <= MAX_ACTIONS:
            self._add(np.setdiff1d(values, self._values))
            listed = self._values[(self._values < len(self._places)) & (self._values == np.floor(self._values))]
            self._places[listed.astype(np.int64)] = np.searchsorted(self._values, listed)
        return np.minimum(np.searchsorted(self._values, values), len(self._values) - 1)

    def _add(self, new: FloatArray) -> None:
        """Insert new actions."""
        where = np.searchsorted(self._values, new)
        self._values = np.insert(self._values, where, new)
        self._counts = np.insert(self._counts, where, 0)
        self._low, self._high = np.insert(self._low, where, np.inf), np.insert(self._high, where, -np.inf)

    def _extremes(self, which: IntArray, played: FloatArray) -> list[int]:
        """Return rows with a new smallest or largest propensity of an action, while these may be constant."""
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
    """Return the rows of each of the wanted actions, in order; which (n,): the action of each row."""
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], wanted, side="left")
    ends = np.searchsorted(which[order], wanted, side="right")
    return [order[start:end] for start, end in zip(starts, ends, strict=True)]


class Propensities:
    """Whether the propensities of all actions are constant, and how far separate played ones differ from them.

    listed: the column of lists, if there is one.
    each: otherwise, the columns of one action each.
    action: the column of actions.
    labels: the watch of its labels, if it is text.
    played: the column of played propensities, if there is one as well; or None.
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
        """Whether further rows need not be read."""
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
        """Return the propensities (n, A) of rows; None if invalid, which raises when the log is made."""
        if self.listed is None:
            return np.column_stack([numbers_of(columns[name]) for name in self.each])
        column: Any = columns[self.listed]
        if not is_list(column.type) or not is_number(column.type.value_type) or column.null_count:
            return None
        values = numbers_of(column.flatten())
        return values.reshape(len(column), -1) if len(values) and len(values) % len(column) == 0 else None

    def _compare(self, full: FloatArray, columns: Columns) -> list[int]:
        """Return the row with a new largest difference between the two values of the played propensity."""
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
