"""Make a block of a log from rows of a data set, by the columns, labels and remarks that its survey found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import ROW, InputError, RowError
from pacbandits.logs.outcomes import pop_rewards, unit_rewards
from pacbandits.logs.parts import Parts, changed, codes_of
from pacbandits.logs.raw import check_played, least_propensities, of_two_actions
from pacbandits.logs.reading import ReadingOptions
from pacbandits.logs.surveying import Own, Survey
from pacbandits.logs.tables import PROPENSITY_PREFIX, pop_least
from pacbandits.logs.whole import Whole
from pacbandits.records.arrow import Columns, is_text, pa
from pacbandits.records.columns import (
    ID_COLUMN,
    CellNames,
    pop_floats,
    pop_integers,
    pop_matrix,
    pop_numbers_or_missing,
)
from pacbandits.records.contexts import Contexts
from pacbandits.records.dates import DatePart, date_features, date_parts
from pacbandits.records.log import Log
from pacbandits.records.written import numbers_in

_NEAR_ROWS = 2**12
_UNCOUNTED = Whole(rows=0, counted={}, clocks=frozenset(), clipped=(0, 0))


@dataclass(frozen=True, eq=False)
class Recipe:
    """Column names, labels and shares by which every block of a data set is made.

    options: what the reader says.
    own: what the columns of the log are called.
    columns: those that are read.
    form: a log of one row, with the names, categories and remarks of all.
    dates: the features that are made of dates, and how.
    codes: of the labels of features and of the action, by column.
    numbers: of the labels of columns that spell such, by column.
    shares (A,): the propensities, where these are the same in all rows and not told in each; or None.
    each: the columns of one action's propensities each, by the actions' numbers.
    """

    options: ReadingOptions
    own: Own
    columns: tuple[str, ...]
    form: Log
    dates: dict[str, DatePart]
    codes: dict[str, dict[str, int]]
    numbers: dict[str, dict[str, float]]
    shares: FloatArray | None
    each: tuple[str, ...]

    @classmethod
    def of(cls, parts: Parts, survey: Survey, options: ReadingOptions) -> Recipe:
        """The recipe for a data set, from its survey."""
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
        told = own.listed is not None or bool(own.each)
        fixed = not told and log.least is None and not (log.propensities != log.propensities[0]).any()
        read = {*(dates[name].column if name in dates else name for name in features), own.action, own.reward}
        read |= {own.played} if not told and not fixed else set()
        read |= {own.listed, *own.each, "least_propensity", "round", "repeats", ID_COLUMN}
        return cls(
            options=options,
            own=own,
            columns=tuple(name for name in parts.kinds if name in read),
            form=log.take(np.array([0])),
            dates=dates,
            codes=codes,
            numbers=numbers,
            shares=log.propensities[0].copy() if fixed else None,
            each=tuple(f"{PROPENSITY_PREFIX}{name}" for name in called or range(log.n_actions)) if own.each else (),
        )

    def make(self, table: Columns, cells: CellNames) -> Log:
        """The log of some rows; cells: where these stand."""
        n = len(next(iter(table.values())))
        try:
            return self._make(table, n, cells)
        except RowError as error:
            raise InputError(error.words.replace(ROW, cells.row(error.row))) from None

    def _make(self, table: Columns, n: int, cells: CellNames) -> Log:
        own, options = self.own, self.options
        for name, values in self.numbers.items():
            if name in table:
                table[name] = _spelt(table[name], values, name)
        actions = self._actions(table, cells)
        table["reward"] = table.pop(own.reward)
        earned, _ = pop_rewards(table, cells)
        rounds, repeats = pop_integers(table, "round", cells), pop_integers(table, "repeats", cells)
        ids = pop_integers(table, ID_COLUMN, cells)
        propensities, least = self._propensities(table, actions, n, cells)
        rewards, _ = unit_rewards(
            earned, n=n, reward_range=options.reward_range, clip=options.clip, cells=cells, whole=_UNCOUNTED
        )
        form = self.form
        return Log(
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
        )

    def _actions(self, table: Columns, cells: CellNames) -> IntArray:
        """The numbers (n,) of the actions."""
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
        """Propensities (n, A); where those of the played actions alone are known, the least ones (n, A), too."""
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
            if part is not None and part.column not in made:
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
    """What stands in the column of actions for each of them; None where it is their numbers."""
    names = survey.witnesses.action_names
    if is_text(kind):
        return names if names is not None else survey.spelt[own.action]
    if options.split is None or pa.types.is_boolean(kind) or names is None:
        return None
    return names if all(name.isdecimal() for name in names) else None


def _stacked(table: Columns, each: tuple[str, ...], n: int, cells: CellNames) -> FloatArray:
    """The columns of one action each, side by side (n, A)."""
    columns = [pop_floats(table, name, cells) for name in each]
    return _side_by_side([column for column in columns if column is not None], n)


def _side_by_side(columns: list[FloatArray], n: int) -> FloatArray:
    """Columns (n,) as one array (n, d), a few rows at a time, so that these stay near while all columns are written."""
    out = np.empty((n, len(columns)))
    for start in range(0, n, _NEAR_ROWS):
        rows = slice(start, start + _NEAR_ROWS)
        for j, column in enumerate(columns):
            out[rows, j] = column[rows]
    out.setflags(write=False)
    return out


def _spelt(column: Any, values: Mapping[str, float], name: str) -> Any:
    """The numbers that a column of text spells."""
    labels: list[str] = column.dictionary.to_pylist()
    numbers: Any = pa.array([values.get(label) for label in labels], type=pa.float64())
    out: Any = numbers.take(column.indices)
    if out.null_count != column.null_count:
        raise changed(name)
    return out
