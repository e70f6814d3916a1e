"""Survey all rows of a data set once, in bounded memory: facts about all rows, and a few witness rows.

The witnesses are rows that show everything on which the names, categories and remarks of the log depend: every label,
every action, the extremes of every number. The log of the witnesses, made in memory by the table reader, has the form
of the log of all rows; facts that depend on the number of rows are counted here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.engines.base import ROWS_PER_BLOCK
from pacbandits.engines.local import count_rows_aloud
from pacbandits.errors import InputError, plain
from pacbandits.logs.log_table import PROPENSITY_PREFIX, is_own, log_of_table
from pacbandits.logs.raw_log import Whole
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.logs.table_files import Parts
from pacbandits.logs.watches import (
    EARLY_ROWS,
    MAX_DISTINCT,
    MAX_LABELS,
    Ages,
    Clips,
    Clock,
    Extremes,
    IdentifierWatch,
    Labels,
    Order,
    Plays,
    Propensities,
    RoundTally,
    Watch,
)
from pacbandits.records import parquet
from pacbandits.records.column_types import is_counted
from pacbandits.records.columns import ID_COLUMN, PHI_COLUMN, Columns, is_list, is_number, is_temporal, is_text, pa
from pacbandits.records.log import Log, known_column, unit_column
from pacbandits.records.log_metadata import has_record
from pacbandits.records.metrics import METRICS_COLUMN

MAX_ROUNDS = 2**20
IN_MEMORY = "read it in memory (--engine threads)"


@dataclass(frozen=True, eq=False)
class Survey:
    """Facts about all rows of a data set.

    witnesses: a log of some rows that has the form of the log of all of them.
    assumed: the assumptions about the log, in words.
    spelt: the labels of each text column, sorted.
    fixed_split: whether the propensities of all actions are the same in all rows.
    round_counts: the number of interactions of each round.
    rounds_rise: whether rows are sorted by round.
    samples: the number of interactions, repeats included.
    max_repeats: the largest number of repeats of a row.
    """

    witnesses: Log
    assumed: tuple[str, ...]
    spelt: dict[str, tuple[str, ...]]
    fixed_split: bool
    round_counts: dict[int, int]
    rounds_rise: bool
    samples: int
    max_repeats: int


@dataclass(frozen=True)
class Own:
    """Names of a log's own columns in its files.

    action, reward: the columns of these.
    played: the propensity of the played action, if there is such a column.
    listed: the lists of propensities of all actions, if there is such a column.
    each: the columns of one action's propensities each, in the order of the file.
    metrics: the columns of metrics.
    """

    action: str
    reward: str
    played: str | None
    listed: str | None
    each: tuple[str, ...]
    metrics: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: Parts, options: ReadingOptions) -> Own:
        """Return the names by the reader's options."""
        played = options.propensity or "propensity"
        chosen = (options.action, options.reward, options.propensity)
        prefix = PROPENSITY_PREFIX
        each = [n for n in parts.kinds if n.startswith(prefix) and len(n) > len(prefix) and n not in chosen]
        return cls(
            action=options.action or "action",
            reward=options.reward or "reward",
            played=played if played in parts.kinds else None,
            listed="propensities" if "propensities" in parts.kinds and "propensities" not in chosen else None,
            each=tuple(each),
            metrics=(METRICS_COLUMN,) if "metrics" in parts.about else options.metric_names,
        )


def survey(parts: Parts, options: ReadingOptions) -> Survey:
    """Read all rows once; return facts about all of them."""
    _check_there(parts, options)
    _check_possible(parts, options)
    looking = _Looking(parts, options)
    looking.look()
    return looking.told()


def _check_there(parts: Parts, options: ReadingOptions) -> None:
    """Raise InputError if a column is missing, with the same message as for a table."""
    own = Own.of(parts, options)
    told = (options.propensity, options.time, options.block, *(options.features or ()), *options.without)
    told = (*told, *own.metrics, *options.age)
    if all(name in parts.kinds for name in (own.action, own.reward, *told) if name is not None):
        return
    first = next(parts.read_rows(0, 1, list(parts.kinds), most=1))
    for name in [name for name, column in first.items() if is_text(column.type)]:
        first[name] = parquet.sort_labels(first[name])
    log_of_table(parts.table(first), options)


def _check_possible(parts: Parts, options: ReadingOptions) -> None:
    """Raise InputError if the log needs all rows at once."""
    unit = unit_column(parts.about) if options.unit is None else options.unit
    if unit is not None:
        raise InputError(f"returning users ('{plain(unit)}') need all rows in memory; {IN_MEMORY}")
    if known_column(parts.about) is not None:
        raise InputError(f"late rewards need all rows in memory; {IN_MEMORY}")
    if has_record(parts.about):
        raise InputError(f"a log with an experiment's event log cannot be streamed; {IN_MEMORY}")
    if PHI_COLUMN in parts.kinds and is_list(parts.kinds[PHI_COLUMN]):
        raise InputError(f"features of actions (the column '{PHI_COLUMN}') are not streamed; {IN_MEMORY}")
    own = Own.of(parts, options)
    if options.block is not None and options.split is None and not (own.played or own.listed or own.each):
        raise InputError(
            "blocks are counted with all rows at hand; name one file and leave out --engine, or declare the "
            "probabilities of each block (--split blocks.csv)"
        )
    for name in (options.time, *options.age) if options.age else ():
        if (
            name in parts.kinds
            and not pa.types.is_date(parts.kinds[name])
            and not pa.types.is_timestamp(parts.kinds[name])
        ):
            raise InputError(f"column '{plain(name)}' must hold dates for --age; write 2024-01-31, or {IN_MEMORY}")
    numbers = [name for name in (own.played, *own.each, "least_propensity", "round", "repeats") if name in parts.kinds]
    for name in [*numbers, *([own.reward] if options.clip and own.reward in parts.kinds else [])]:
        if is_text(parts.kinds[name]):
            raise InputError(f"column '{plain(name)}' holds text; write it as numbers, or {IN_MEMORY}")


class _Looking:
    """The state of a survey: one watch per column and the witness rows so far."""

    def __init__(self, parts: Parts, options: ReadingOptions) -> None:
        self.parts, self.options, self.own = parts, options, Own.of(parts, options)
        kinds = parts.kinds
        self.texts = {n: Labels(n, coded=n in parts.coded) for n in self._wanted() if is_text(kinds[n])}
        counted = [n for n, kind in kinds.items() if pa.types.is_integer(kind) and is_counted(n)]
        self.numbers = {n: IdentifierWatch(n) for n in counted if n not in self._told()}
        self.clocks = {n: Clock(n) for n in self._wanted() if is_temporal(kinds[n]) and not is_own(n)}
        self.tally = RoundTally(has_rounds="round" in kinds, has_repeats="repeats" in kinds)
        self.order = (
            None if options.time is None or options.time not in kinds else Order(options.time, options.time_format)
        )
        self.clips = Clips(self.own.reward, options.reward_range) if options.clip else None
        labels = self.texts.get(self.own.action)
        full = self.own.listed is not None or bool(self.own.each)
        self.propensities: Propensities | None = None
        if full:
            self.propensities = Propensities(
                self.own.listed, self.own.each, action=self.own.action, labels=labels, played=self.own.played
            )
        lone = None if full else self.own.played
        self.plays = Plays(self.own.action, labels=labels, played=lone) if self.own.action in kinds else None
        ends = (self.own.reward, self.own.played, "least_propensity", "round", "repeats", "context_weight")
        ends = (*ends, *self.own.metrics)
        self.ends = [Extremes(n) for n in ends if n in kinds and not is_text(kinds[n])]
        self.ages = [Ages(name, str(options.time)) for name in options.age]
        self.pieces: list[Columns] = []
        self.places: list[IntArray] = []

    def _told(self) -> set[str]:
        """Return the columns whose use was given, which are not identifiers."""
        asked = self.options
        given = (asked.action, asked.reward, asked.propensity, asked.time, asked.block)
        return {name for name in (*given, *self.own.metrics) if name is not None}

    def _wanted(self) -> list[str]:
        """Return the columns whose labels or dates may matter."""
        options, own = self.options, (self.own.action, self.own.reward, self.own.played, *self.own.metrics)
        out: list[str] = []
        for name in self.parts.kinds:
            chosen = options.features is None or name in options.features
            used = name in own or name == options.block or is_own(name)
            if used or (chosen and name not in options.without) or is_counted(name):
                out.append(name)
        return out

    def watches(self) -> list[Watch]:
        """Return all watches, in order: some use the results of earlier ones."""
        found: list[Watch | None] = [*self.texts.values(), *self.numbers.values(), *self.clocks.values()]
        found += [*self.ages, *self.ends, self.tally, self.order, self.clips, self.plays, self.propensities]
        return [watch for watch in found if watch is not None]

    def needed(self) -> list[str]:
        """Return the columns to read."""
        names = {*self.texts, *self.numbers, *self.clocks, *(end.name for end in self.ends), self.own.action}
        names |= {self.options.time or self.own.action, self.options.block or self.own.action, self.own.reward}
        names |= {*self.own.metrics, *self.options.age}
        if self.propensities is not None and not self.propensities.is_done:
            names |= {*self.own.each, *([] if self.own.listed is None else [self.own.listed])}
        return [name for name in self.parts.kinds if name in names]

    def look(self) -> None:
        """Pass all rows to the watches, a batch at a time."""
        done = count_rows_aloud("reading all rows once", self.parts.n_rows, started=monotonic())
        watches, first = self.watches(), 0
        while first < self.parts.n_rows:
            stop = EARLY_ROWS if first < EARLY_ROWS < self.parts.n_rows else self.parts.n_rows
            names = self.needed()
            for columns in self.parts.read_rows(first, stop, names, most=ROWS_PER_BLOCK):
                rows = {row for watch in watches for row in watch.see(columns)}
                rows |= {0} if first == 0 else set[int]()
                if rows:
                    self._keep(columns, np.array(sorted(rows), dtype=np.int64), first)
                self._check_bounded()
                n = len(next(iter(columns.values())))
                first += n
                done(n)
                if self.needed() != names:
                    break  # fewer columns are needed from here on

    def _keep(self, columns: Columns, rows: IntArray, first: int) -> None:
        """Keep witness rows."""
        where: Any = pa.array(rows)
        taken = {name: column.take(where) for name, column in columns.items()}
        self.pieces.append(
            {name: column.cast(pa.string()) if is_text(column.type) else column for name, column in taken.items()}
        )
        self.places.append(first + rows)

    def _check_bounded(self) -> None:
        """Raise InputError if labels, repeats or rounds exceed their limits, or rows are not sorted."""
        labels = self.texts.get(self.own.action)
        for watch in (labels, *(self.texts.get(name) for name in (self.own.reward, *self.own.metrics))):
            if watch is not None and watch.overflowed:
                raise InputError(
                    f"column '{plain(watch.name)}' has more than {MAX_LABELS:,} different texts; number them"
                )
        if self.tally.samples >= 2**63:
            raise InputError(f"repeats sum to {self.tally.samples:.6g} or more; fewer than 2^63 can be counted")
        if len(self.tally.rounds) > MAX_ROUNDS:
            raise InputError(f"there are more than {MAX_ROUNDS:,} rounds; {IN_MEMORY}")
        if self.order is not None and self.order.is_lost:
            raise _unordered(self.order.name)

    def told(self) -> Survey:
        """Return the result of the survey."""
        places = np.concatenate(self.places)
        counters: dict[str, Labels | IdentifierWatch] = {**self.numbers, **self.texts}
        estimated = tuple(_estimate_words(name) for name, counter in counters.items() if counter.is_estimated)
        whole = Whole(
            rows=self.parts.n_rows,
            counted={name: counter.counts() for name, counter in counters.items()},
            clocks=frozenset(name for name, clock in self.clocks.items() if clock.tells_when),
            clipped=(0, 0) if self.clips is None else (self.clips.below, self.clips.above),
        )
        log = log_of_table(self.parts.table(self._table(len(places))), self.options, whole=whole, places=places)
        if self.order is not None and not self.order.is_kept:
            raise _unordered(self.order.name)
        log = replace(log, remarks=(*log.remarks, *estimated))
        for name, labels in self.texts.items():
            if labels.overflowed and name in log.contexts.names:
                raise InputError(
                    f"column '{plain(name)}' has more than {MAX_LABELS:,} different texts, too many for categories of "
                    f"a stream; leave it out (--without '{plain(name)}'), or {IN_MEMORY}"
                )
        same = log.least is None and not (log.propensities != log.propensities[0]).any()
        return Survey(
            log,
            log.assumed,
            spelt={name: tuple(sorted(labels.codes)) for name, labels in self.texts.items() if not labels.overflowed},
            fixed_split=(same or self.options.by_block is not None)
            and (self.propensities is None or self.propensities.same),
            round_counts=dict(sorted(self.tally.rounds.items())),
            rounds_rise=self.tally.rising,
            samples=self.tally.samples,
            max_repeats=self.tally.most,
        )

    def _table(self, count: int) -> Columns:
        """Return the witnesses as a table."""
        out: Columns = {}
        for name, kind in self.parts.kinds.items():
            if all(name in piece for piece in self.pieces):
                column: Any = pa.concat_arrays([piece[name] for piece in self.pieces])
                out[name] = self._coded(name, column) if name in self.texts or is_text(kind) else column
            else:
                out[name] = self._stand_in(name, kind, count)
        return out

    def _coded(self, name: str, column: Any) -> Any:
        """Return a text column as codes: into its sorted labels, or into its author's categories."""
        if name not in self.parts.coded or name not in self.texts:
            return parquet.sort_labels(column)
        labels = tuple(self.texts[name].listed)
        place = {label: k for k, label in enumerate(labels)}
        codes: Any = pa.array([None if label is None else place.get(label) for label in column.to_pylist()], pa.int32())
        return pa.DictionaryArray.from_arrays(codes, pa.array(labels, type=pa.string()))

    def _stand_in(self, name: str, kind: Any, count: int) -> Any:
        """Return placeholder values for a column that was not read to the end, on which nothing depends."""
        if self.propensities is not None and name in (*self.own.each, self.own.listed):
            share = 1.0 / max(self.propensities.width, 1)
            even: Any = pa.array(np.full(count * (1 if name in self.own.each else self.propensities.width), share))
            return even if name in self.own.each else pa.FixedSizeListArray.from_arrays(even, self.propensities.width)
        if name == ID_COLUMN and is_number(kind):
            return pa.array(np.zeros(count, dtype=np.int64))
        if is_text(kind):
            return parquet.sort_labels(pa.nulls(count, pa.string()))
        return pa.array([[]] * count, type=kind) if pa.types.is_list(kind) else pa.nulls(count, kind)


def _unordered(name: str) -> InputError:
    return InputError(
        f"the rows are not sorted by '{plain(name)}', and sorting needs all rows in memory; sort the files first, "
        f"or {IN_MEMORY}"
    )


def _estimate_words(name: str) -> str:
    return (
        f"whether the column '{plain(name)}' holds identifiers was judged by the first {EARLY_ROWS:,} rows, as it has "
        f"more than {MAX_DISTINCT:,} different values"
    )
