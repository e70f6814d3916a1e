"""Data sets of several files, read block by block: logs and contexts that may be larger than memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import entries, path_of, texts
from pacbandits.engines.base import ROWS_PER_BLOCK, even_stripes, log_of_contexts
from pacbandits.errors import ROW, InputError, RowError, count_of, plain
from pacbandits.logs.blocks import Blocks, declared_shares
from pacbandits.logs.log_table import (
    PROPENSITY_PREFIX,
    columns_of,
    drop_features,
    measure,
    pop_least,
    take_metric_columns,
)
from pacbandits.logs.raw_log import Whole, check_played, least_propensities, of_two_actions, pop_rewards, unit_rewards
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.logs.survey import Own, Survey, survey
from pacbandits.logs.table_files import Folder, Parts, SetCells, changed, codes_of, convert, in_blocks, list_parts
from pacbandits.progress import Progress, heard_by, listener
from pacbandits.records import parquet
from pacbandits.records.column_types import DatePart, age_feature, date_features, date_parts, numbers_in
from pacbandits.records.columns import (
    ID_COLUMN,
    PHI_COLUMN,
    WEIGHT_COLUMN,
    CellNames,
    Columns,
    is_number,
    is_text,
    missing_label,
    pa,
    pop_floats,
    pop_integers,
    pop_matrix,
    pop_numbers_or_missing,
)
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.metrics import AnyMetric
from pacbandits.records.text_files import naming
from pacbandits.schema import Fields

# Make a block of a log from rows of a data set, with the columns, labels and remarks of its survey.


_NEAR_ROWS = 2**12
_UNCOUNTED = Whole(rows=0, counted={}, clocks=frozenset(), clipped=(0, 0))


@dataclass(frozen=True, eq=False)
class Recipe:
    """Column names, labels and propensities with which every block of a data set is made.

    about: the metadata of the files.
    options: the options of the reader.
    own: the names of the log's own columns.
    columns: the columns to read.
    form: a log of one row, with the names, categories and remarks of all.
    dates: the features computed from dates, with their parts.
    codes: the codes of labels of features and of the action, by column.
    numbers: the numbers that labels spell, by column.
    shares (A,): the propensities, if they are constant and not in every row; or None.
    each: the columns of one action's propensities each, by the actions' numbers.
    by_block: the propensities (A,) of each block, if they were declared so; or None.
    """

    about: Fields
    options: ReadingOptions
    own: Own
    columns: tuple[str, ...]
    form: Log
    dates: dict[str, DatePart]
    codes: dict[str, dict[str, int]]
    numbers: dict[str, dict[str, float]]
    shares: FloatArray | None
    each: tuple[str, ...]
    by_block: dict[str, FloatArray] | None = None

    @classmethod
    def of(cls, parts: Parts, survey: Survey, options: ReadingOptions) -> Recipe:
        """Return the recipe for a data set, from its survey."""
        log, own = survey.witnesses, Own.of(parts, options)
        features = log.contexts.names
        parsed = date_parts(features, [name for name in log.dates if name in parts.kinds])
        dates = {name: part for name, part in parsed.items() if name not in parts.kinds}
        numbers = {
            name: dict(zip(labels, made.values.tolist(), strict=True))
            for name, labels in survey.spelt.items()
            if name not in (own.action, *parts.coded) and (made := numbers_in(labels)) is not None
        }
        categories = dict(zip(features, log.contexts.categories, strict=True))
        codes = {
            name: {label: k for k, label in enumerate(labels)}
            for name, labels in categories.items()
            if labels is not None
        }
        called = _called(parts.kinds[own.action], own, survey, options)
        if called is not None:
            codes[own.action] = {label: k for k, label in enumerate(called)}
        told = own.listed is not None or bool(own.each) or options.by_block is not None
        fixed = not told and log.least is None and not (log.propensities != log.propensities[0]).any()
        read = {*features, *(name for part in dates.values() for name in part.columns), own.action, own.reward}
        read |= {own.played} if not told and not fixed else set()
        read |= {own.listed, *own.each, "least_propensity", "round", "repeats", ID_COLUMN, *own.metrics}
        read |= {options.block} if options.by_block is not None else set()
        names = log.action_names or tuple(str(number) for number in range(log.n_actions))
        return cls(
            about=parts.about,
            options=options,
            own=own,
            columns=tuple(name for name in parts.kinds if name in read),
            form=log.take(np.array([0])),
            dates=dates,
            codes=codes,
            numbers=numbers,
            shares=log.propensities[0].copy() if fixed else None,
            each=tuple(f"{PROPENSITY_PREFIX}{name}" for name in called or range(log.n_actions)) if own.each else (),
            by_block=None if options.by_block is None else declared_shares(options.by_block, names),
        )

    def make(self, table: Columns, cells: CellNames) -> Log:
        """Return the log of some rows; cells: their names in messages."""
        n = len(next(iter(table.values())))
        try:
            return self._make(table, n, cells)
        except RowError as error:
            raise InputError(error.words.replace(ROW, cells.row(error.row))) from None

    def _make(self, table: Columns, n: int, cells: CellNames) -> Log:
        own, options = self.own, self.options
        blocks = None
        if self.by_block is not None and options.block is not None:
            blocks = Blocks.of(table[options.block], options.block, cells).propensities(self.by_block, cells)
        for name, values in self.numbers.items():
            if name in table:
                table[name] = _spelt(table[name], values, name)
        measured = measure(take_metric_columns(table, options, self.about), options, self.about, cells)
        actions = self._actions(table, cells)
        table["reward"] = table.pop(own.reward)
        earned, _ = pop_rewards(table, cells)
        rounds, repeats = pop_integers(table, "round", cells), pop_integers(table, "repeats", cells)
        ids = pop_integers(table, ID_COLUMN, cells)
        propensities, least = (blocks, None) if blocks is not None else self._propensities(table, actions, n, cells)
        rewards, _ = unit_rewards(
            earned, n=n, reward_range=options.reward_range, clip=options.clip, cells=cells, whole=_UNCOUNTED
        )
        form = self.form
        made = Log(
            self._contexts(table, ids, n, cells),
            actions=actions,
            rewards=rewards,
            propensities=propensities,
            rounds=np.zeros(n, dtype=np.int64) if rounds is None else rounds,
            repeats=np.ones(n, dtype=np.int64) if repeats is None else repeats,
            least=least,
            remarks=form.remarks,
            action_names=form.action_names,
            reward_range=form.reward_range,
            dates=form.dates,
            metrics=measured.metrics,
            metric_values=measured.values,
        )
        return made.only_metrics(form.metrics)

    def _actions(self, table: Columns, cells: CellNames) -> IntArray:
        """Return the numbers (n,) of the actions."""
        codes = self.codes.get(self.own.action)
        column: Any = table.pop(self.own.action)
        if codes is not None and is_text(column.type):
            return np.asarray(codes_of(column, codes, self.own.action), dtype=np.int64)
        table["action"] = column
        numbers = pop_integers(table, "action", cells)
        assert numbers is not None
        if codes is None:
            return numbers
        known, which = np.unique(numbers, return_inverse=True)
        places = [codes.get(str(number), -1) for number in known]
        if min(places) < 0:
            raise changed(self.own.action)
        return np.array(places, dtype=np.int64)[which.reshape(-1)]

    def _propensities(
        self, table: Columns, actions: IntArray, n: int, cells: CellNames
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return propensities (n, A), and minimum propensities (n, A) if only those of played actions are known."""
        width = self.form.n_actions
        if self.own.listed is not None or self.each:
            full = (
                pop_matrix(table, "propensities", cells)
                if self.own.listed is not None
                else _stacked(table, self.each, n, cells)
            )
            assert full is not None
            if full.shape[1] != width:
                raise InputError(
                    f"{cells.row(0)} has {full.shape[1]} propensities, and others {width}; give all as many"
                )
            return full, None
        if self.shares is not None:
            full = np.empty((n, width))
            full[:] = self.shares
            full.setflags(write=False)
            return full, None
        if self.own.played is not None:
            table["propensity"] = table.pop(self.own.played)
        played = pop_floats(table, "propensity", cells)
        assert played is not None
        played = check_played(played, cells)
        if self.form.least is None:
            return of_two_actions(played, actions), None
        told = pop_least(table, cells)
        least = least_propensities(self.options.least_propensity if told is None else told, n=n, n_actions=width)
        full = least.copy()
        full[np.arange(n), actions] = played
        full.setflags(write=False)
        return full, least

    def _contexts(self, table: Columns, ids: IntArray | None, n: int, cells: CellNames) -> Contexts:
        names, categories = self.form.contexts.names, self.form.contexts.categories
        made: dict[str, Columns] = {}
        columns: list[FloatArray] = []
        for name in names:
            part = self.dates.get(name)
            if part is not None and part.part == "age":
                made.setdefault(part.column, {})[name] = age_feature(part, table)
            elif part is not None and part.column not in made:
                made[part.column] = date_features(part.column, table[part.column])
            column: Any = table[name] if part is None else made[part.column][name]
            columns.append(
                codes_of(column, self.codes[name], name)
                if name in self.codes
                else pop_numbers_or_missing({name: column}, name, cells)
            )
        array = _side_by_side(columns, n)
        if not names and ids is None:
            ids = np.zeros(n, dtype=np.int64)
        return Contexts(array, names, categories, ids, np.full(n, 1.0 / n))


def _called(kind: Any, own: Own, survey: Survey, options: ReadingOptions) -> tuple[str, ...] | None:
    """Return the values in the action column for each action; None if they are the actions' numbers."""
    names = survey.witnesses.action_names
    if is_text(kind):
        return names if names is not None else survey.spelt[own.action]
    if options.split is None or pa.types.is_boolean(kind) or names is None:
        return None
    return names if all(name.isdecimal() for name in names) else None


def _stacked(table: Columns, each: tuple[str, ...], n: int, cells: CellNames) -> FloatArray:
    """Return the columns of one action each, as an array (n, A)."""
    columns = [pop_floats(table, name, cells) for name in each]
    return _side_by_side([column for column in columns if column is not None], n)


def _side_by_side(columns: list[FloatArray], n: int) -> FloatArray:
    """Return columns (n,) as one array (n, d), filled in chunks of rows that stay in the CPU cache."""
    out = np.empty((n, len(columns)))
    for start in range(0, n, _NEAR_ROWS):
        rows = slice(start, start + _NEAR_ROWS)
        for j, column in enumerate(columns):
            out[rows, j] = column[rows]
    out.setflags(write=False)
    return out


def _spelt(column: Any, values: Mapping[str, float], name: str) -> Any:
    """Return the numbers that a text column spells."""
    labels: list[str] = column.dictionary.to_pylist()
    numbers: Any = pa.array([values.get(label) for label in labels], type=pa.float64())
    out: Any = numbers.take(column.indices)
    if out.null_count != column.null_count:
        raise changed(name)
    return out


# Data sets of several files, read block by block: a log that may be larger than memory.


@dataclass(frozen=True, eq=False)
class FileSet:
    """A log of the rows of several files, in order; a `Source` of blocks for engines.

    parts: the files.
    recipe: makes a log from rows.
    seen: facts about all rows.
    block_rows: the number of rows of a block.
    folder: the temporary Parquet files that text was converted to; None for Parquet.
    """

    parts: Parts
    recipe: Recipe
    seen: Survey
    block_rows: int = ROWS_PER_BLOCK
    folder: Folder | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the temporary folder, which only the process that opened the data set may remove."""
        return {name: value for name, value in self.__dict__.items() if name != "head"} | {"folder": None}

    def close(self) -> None:
        """Remove the temporary files; the data set cannot be read any more."""
        if self.folder is not None:
            self.folder.close()

    def only_metrics(self, metrics: Sequence[AnyMetric]) -> FileSet:
        """Return the data set with these of its metrics."""
        form = self.form.only_metrics(metrics)
        return replace(self, recipe=replace(self.recipe, form=form), seen=replace(self.seen, witnesses=form))

    def without_features(self, columns: Collection[str]) -> FileSet:
        """Return the data set without the features of these columns, of which it need not have all."""
        recipe, form = self.recipe, drop_features(self.form, columns)
        if form is self.form:
            return self
        before, after = (
            {name for one in names for name in (recipe.dates[one].columns if one in recipe.dates else (one,))}
            for names in (self.form.contexts.names, form.contexts.names)
        )
        unread = before - after - {recipe.options.block if recipe.by_block is not None else None}
        read = tuple(name for name in recipe.columns if name not in unread)
        return replace(self, recipe=replace(recipe, form=form, columns=read), seen=replace(self.seen, witnesses=form))

    @property
    def n_rows(self) -> int:
        return self.parts.n_rows

    def __len__(self) -> int:
        return self.n_rows

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        """Yield the blocks from number `first` up to, not including, `last`."""
        start, stop = first * self.block_rows, min(last * self.block_rows, self.n_rows)
        own = self.recipe.own
        called = {"action": own.action, "reward": own.reward, "propensity": own.played or "propensity"}
        pieces = self.parts.read_rows(start, stop, self.recipe.columns, most=self.block_rows)
        for columns in in_blocks(pieces, rows=self.block_rows):
            places = np.arange(start, start + len(columns[own.action]))
            start += len(places)
            yield self.recipe.make(columns, SetCells(self.parts.line, called, places, self.parts))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        """Return all blocks in runs of at most `most_blocks` or one row group; most begin where a row group does."""
        last = -(-self.n_rows // self.block_rows)
        starts = (start // self.block_rows for start in self.parts.group_starts() if start < self.n_rows)
        cuts = sorted({*starts, last})
        out: list[range] = []
        first = 0
        for before, cut in pairwise(cuts):
            if cut - first > most_blocks and before > first:
                out.append(range(first, before))
                first = before
        out.append(range(first, last))
        return [stripe for stripe in out if len(stripe)]

    @cached_property
    def head(self) -> Log:
        """The first block."""
        return next(self.blocks(0, 1))

    @property
    def form(self) -> Log:
        """A log of one row with the names, categories and remarks of all."""
        return self.recipe.form

    @property
    def n_actions(self) -> int:
        return self.form.n_actions

    @property
    def action_names(self) -> tuple[str, ...] | None:
        return self.form.action_names

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.form.reward_range

    @property
    def metrics(self) -> tuple[AnyMetric, ...]:
        return self.form.metrics

    @property
    def dates(self) -> tuple[str, ...]:
        return self.form.dates

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.form.remarks

    @property
    def assumed(self) -> tuple[str, ...]:
        """The remarks, and the declarations about propensities that the files do not contain."""
        return self.seen.assumed

    @property
    def fixed_split(self) -> bool:
        """Whether the propensities of all actions are the same in all rows."""
        return self.seen.fixed_split

    @property
    def has_rounds(self) -> bool:
        """Whether there is more than one round."""
        return len(self.seen.round_counts) > 1

    @property
    def round_counts(self) -> dict[int, int]:
        """The number of interactions of each round."""
        return dict(self.seen.round_counts)

    @property
    def rounds_rise(self) -> bool:
        """Whether rows are sorted by round."""
        return self.seen.rounds_rise

    @property
    def samples(self) -> int:
        """The number of interactions, repeats included."""
        return self.seen.samples

    @property
    def max_repeats(self) -> int:
        """The largest number of repeats of a row."""
        return self.seen.max_repeats


def open_set(
    paths: Sequence[str | Path],
    options: ReadingOptions | None = None,
    *,
    progress: Progress | None = None,
    block_rows: int = ROWS_PER_BLOCK,
    kept: Folder | None = None,
) -> FileSet:
    """Open files as one log, in the order given; all rows are read once to survey them.

    options: facts that the files do not contain.
    progress: called with progress messages.
    kept: a temporary folder of the files, to be removed with the data set.
    """
    asked = ReadingOptions() if options is None else options
    if asked.position is not None:
        raise InputError("tables have no positions; leave out --position")
    files = [Path(path) for path in paths]
    if not files:
        raise InputError("a data set needs at least one file; name it")
    with nullcontext() if progress is None else heard_by(listener(progress)):
        parts, folder = _parts(files, asked)
        folder = kept if folder is None else folder.beside(kept)
        try:
            with naming(Path(_all_names(files))):
                seen = survey(parts, asked)
                seen = replace(seen, witnesses=drop_features(seen.witnesses, asked.dropped))
        except BaseException:
            if folder is not None:
                folder.close()
            raise
        recipe = Recipe.of(parts, seen, asked)
        seen = replace(seen, witnesses=recipe.form, spelt={})  # small, so that it can be sent to other processes
        return FileSet(parts, recipe, seen, block_rows, folder)


def _all_names(files: Sequence[Path]) -> str:
    """Return the name of all files in messages."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {count_of(len(files) - 1, 'more file')}, as one table"


def _parts(paths: list[Path], options: ReadingOptions) -> tuple[Parts, Folder | None]:
    """Return the files as one table, and the temporary folder if they were converted from text."""
    names = [str(path) for path in paths]
    text = [parquet.suffix(path) in parquet.DELIMITERS for path in paths]
    if not any(text):
        return list_parts(paths, names=names), None
    if not all(text):
        one, other = names[text.index(True)], names[text.index(False)]
        raise InputError(f"{one} is text and {other} is not; the files of a data set must be of one kind")
    made = convert(paths, action=options.action or "action")
    parts = list_parts(made.paths, names=names)
    return replace(parts, remarks=made.remarks, text=paths[0] if len(paths) == 1 else None), made.folder


# Columns that are of no use as features: constant ones, and copies of others.


_COMPARED_ROWS = 2**16


def useless_columns(log: Log | FileSet, *, but: Collection[str] = ()) -> dict[str, str | None]:
    """Return the feature columns with one value in all rows (None), and copies of others, with the name of the other.

    but: columns that stay; no other counts as a copy of one of them.
    """
    form = log if isinstance(log, Log) else log.form
    parts = date_parts(form.contexts.names, form.dates)
    features = {
        name: [form.contexts.names[j] for j in places]
        for name, places in columns_of(form.contexts, form.dates).items()
        if name not in but
    }
    labels = dict(zip(form.contexts.names, form.contexts.categories, strict=True))
    first: dict[str, FloatArray] = {}  # row of each column that may be constant
    kinds: dict[object, list[str]] = {}
    for name, made in features.items():
        kinds.setdefault(tuple((labels[one], parts[one].part if one in parts else "") for one in made), []).append(name)
    alike, rows = list(kinds.values()), 0
    for contexts in _pieces(log, alike):
        found: dict[tuple[int, bytes], list[str]] = {}
        for number, name in ((number, name) for number, one in enumerate(alike) for name in one):
            values = contexts.features[:, [contexts.names.index(one) for one in features[name]]] + 0.0
            if rows == 0:
                first[name] = values[:1]
            if name in first and not np.array_equal(values, np.broadcast_to(first[name], values.shape), equal_nan=True):
                del first[name]
            found.setdefault((number, values.tobytes()), []).append(name)
        rows += len(contexts)
        alike[:] = [one for one in found.values() if len(one) > 1 or one[0] in first]
        if not alike:
            break
    if rows < 2:
        return {}
    out: dict[str, str | None] = dict.fromkeys(first)
    for one in alike:
        out |= {name: one[0] for name in one[1:] if name not in first}
    return {name: out[name] for name in features if name in out}


def dropped_words(found: Mapping[str, str | None]) -> list[str]:
    """Return notices on useless columns, by `useless_columns`; one for each reason."""
    out: list[str] = []
    for other in dict.fromkeys(found.values()):
        names = [plain(name) for name, same in found.items() if same == other]
        shown = ", ".join(f"'{name}'" for name in names)
        many = len(names) > 1
        subject = f"the columns {shown} were left out, as they" if many else f"the column {shown} was left out, as it"
        why = f"{'have' if many else 'has'} one value in all rows, which no rule can use"
        if other is not None:
            why = f"{'equal' if many else 'equals'} '{plain(other)}' in all rows"
        kept = ",".join(f"+{name}" for name in names)
        out.append(f"{subject} {why}; --features {kept} (in Python, keep=[{shown}]) keeps {'them' if many else 'it'}")
    return out


def _pieces(log: Log | FileSet, needed: Sequence[Sequence[str]]) -> Iterator[Contexts]:
    """Yield the contexts of a log, some rows at a time; the first of files with all columns, the others with needed."""
    if isinstance(log, Log):
        for start in range(0, len(log), _COMPARED_ROWS):
            yield log.contexts.take(np.arange(start, min(len(log), start + _COMPARED_ROWS)))
        return
    yield log.head.contexts
    known = columns_of(log.form.contexts, log.form.dates)
    rest = log.without_features([name for name in known if not any(name in alike for alike in needed)])
    for block in rest.blocks(1, -(-log.n_rows // log.block_rows)):
        yield block.contexts


# Contexts in Parquet files, read block by block: for designs over more contexts than fit in memory.


MAX_LABELS = 255  # of a feature: the maximum for trees
_READ_ROWS = 2**14


@dataclass(frozen=True, eq=False)
class ContextFiles:
    """Parquet files of contexts, one row per unit, unweighted; picklable for processes that see the files.

    parts: the files.
    names (d,): the features.
    categories (d,): the labels of text features in all files, sorted; None for a number.
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
    """Open Parquet files of contexts as one source of rows; text columns are read once for their labels.

    features: the feature columns, if not all; each holds numbers or text.
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
                    "only Parquet files can be read in blocks; write the table as Parquet, or read it at once"
                )
    parts = list_parts(files, names=[str(path) for path in files], columns=asked)
    names = tuple(parts.kinds) if asked is None else asked
    for name in names:
        if name in (ID_COLUMN, WEIGHT_COLUMN, PHI_COLUMN):
            raise InputError(f"the column '{name}' is not a feature: all rows count equally; name the features to read")
        if not is_number(parts.kinds[name]) and not is_text(parts.kinds[name]):
            kind = plain(parts.kinds[name])
            raise InputError(f"column '{plain(name)}' holds {kind}, no numbers and no text; name other features")
    labels = _labels(parts, [name for name in names if is_text(parts.kinds[name])])
    return ContextFiles(parts, names, tuple(labels.get(name) for name in names))


def _labels(parts: Parts, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the labels of text columns, sorted, followed by one for missing values if there are any."""
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
