"""Logs from tables (Parquet, CSV, data frames, rows of data sets), one interaction a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.fields import Fields
from pacbandits.logs.notices import notice_columns, notice_repeated_rows, notice_units
from pacbandits.logs.outcomes import pop_rewards
from pacbandits.logs.picking import NAMES_ELSEWHERE, pick_columns
from pacbandits.logs.raw import MAX_ACTIONS, RawLog, make_log
from pacbandits.logs.reading import ReadingOptions
from pacbandits.logs.splits import check_shown, split_names
from pacbandits.logs.whole import Whole
from pacbandits.records import parquet
from pacbandits.records.arrow import Columns, is_list, is_temporal, is_text, pa
from pacbandits.records.beside import pop_weights, stored_dates
from pacbandits.records.columns import CellNames, check_present, pop_floats, pop_integers, pop_matrix
from pacbandits.records.contexts import Contexts
from pacbandits.records.delimited import read_as_text
from pacbandits.records.identifiers import NOTHING_COUNTED, leave_out_identifiers, notice_returns
from pacbandits.records.late import known_column, pop_known
from pacbandits.records.log import Log, with_about
from pacbandits.records.parquet import LoadedTable
from pacbandits.records.recorded import only_counted
from pacbandits.records.units import unit_column
from pacbandits.records.written import hardly_differing, is_decimal, read_written

PROPENSITY_PREFIX = "propensity_"  # and the action: columns of the propensities of all actions


def log_of_file(path: Path, options: ReadingOptions) -> Log:
    """A log from the columns of a Parquet or CSV file; see `read_log`."""
    table = parquet.read_table(path)
    only_counted(table.columns, table.about)
    _spell_actions(table.columns, options.action or "action", path)
    return log_of_table(table, options)


def log_of_table(
    source: LoadedTable, options: ReadingOptions, *, whole: Whole | None = None, places: IntArray | None = None
) -> Log:
    """A log from a table: a file, a data frame, or some rows of a data set of several files. Its columns are taken out.

    whole: what is known of all rows, where these are some of them; places (n,): which rows these are.
    """
    table, about, coded, n = source.columns, source.about, source.coded, source.n_rows
    own = ("action", "reward", "propensity")
    names = {name: given for name in own if (given := getattr(options, name)) is not None}
    cells = CellNames(source.line, names, places)
    counted = NOTHING_COUNTED if whole is None else whole.counted
    repeated = notice_repeated_rows(table, cells) if whole is None else ()
    known = pop_known(table, known_column(about))
    unit = unit_column(about) if options.unit is None else options.unit
    told = (options.action, options.reward, options.propensity, options.time)
    returns = notice_returns(table, coded=coded, but=told, counted=counted) if unit is None else ()
    clocks = None if whole is None else whole.clocks
    order, units, left_out = pick_columns(table, options, unit=unit, cells=cells, known_clocks=clocks)
    if order is not None:
        cells = replace(cells, order=order if places is None else places[order])
        rows: Any = pa.array(order)
        table = {name: column.take(rows) for name, column in table.items()}
    written = read_written(table, but=("action", *options.without), coded=coded, cells=cells)
    each = [name for name in table if name.startswith(PROPENSITY_PREFIX) and len(name) > len(PROPENSITY_PREFIX)]
    _check_columns(table, each, split=options.split, cells=cells)
    split = None if options.split is None else str(options.split)
    actions, labels = _pop_actions(table, split, cells, rows=n if whole is None else whole.rows)
    rewards, truths = pop_rewards(table, cells, late=known is not None)
    played = pop_floats(table, "propensity", cells)
    propensities = _pop_propensities(table, each, labels, cells)
    column = pop_least(table, cells)
    if column is not None and options.least_propensity is not None:
        raise InputError("there is a column 'least_propensity'; leave out --least-propensity")
    least = column if propensities is None and column is not None else options.least_propensity
    rounds = pop_integers(table, "round", cells)
    repeats = pop_integers(table, "repeats", cells)
    weighted = pop_weights(table)
    unnamed = leave_out_identifiers(
        table, coded=coded, keep=(*(options.features or ()), *options.keep), counted=counted
    )
    dates = (*stored_dates(about), *(name for name, column in table.items() if is_temporal(column.type)))
    contexts = Contexts.from_columns(table, n=n, cells=cells)
    if contexts.n_features == 0 and contexts.ids is None:
        contexts = replace(contexts, ids=contexts.distinct()[1])
    width = least.shape[1] if isinstance(least, np.ndarray) and least.ndim == 2 else None
    raw = RawLog(
        contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities,
        played=played,
        least=least,
        n_actions=_told_actions(options, width=width, labels=labels, about=about),
        declared=width is not None,
        stated=options.n_actions is not None,
        rounds=rounds,
        repeats=repeats,
        remarks=(*source.remarks, *left_out, *written, *truths, *weighted, *unnamed, *returns),
        cells=cells,
        names=labels if labels is not None else _stored_names(about, len(actions)),
        split=split,
        numbered=labels is None,
        units=units if units is None or order is None else units[order],
        known=known if known is None or order is None else known[order],
        whole=whole,
    )
    notices = (*repeated, *returns, *notice_units(units, unit), *notice_columns(contexts, dates, whole=whole is None))
    return replace(_within(make_log(raw, options), about, options), dates=dates, notices=notices)


def _spell_actions(columns: Columns, name: str, path: Path) -> None:
    """Leave actions the text that stands in a file where that is not how numbers are written: 001 is not 1."""
    delimiter = parquet.DELIMITERS.get(parquet.suffix(path))
    if delimiter is None or name not in columns or not pa.types.is_integer(columns[name].type):
        return
    coded = parquet.sort_labels(read_as_text(path, delimiter, name))
    if not all(is_decimal(label.strip()) for label in coded.dictionary.to_pylist() if label.strip()):
        columns[name] = coded


def _told_actions(
    options: ReadingOptions, *, width: int | None, labels: tuple[str, ...] | None, about: Fields
) -> int | None:
    """How many actions there are, as far as the reader or the file says."""
    if options.n_actions is not None:
        return options.n_actions
    if width is None and labels is not None:
        return len(labels)
    return len(about.texts("actions")) if width is None and "actions" in about else width


def _stored_names(about: Fields, n: int) -> tuple[str, ...] | None:
    """The names of actions that a file tells beside its columns."""
    return about.texts("actions", most=max(n, MAX_ACTIONS)) if "actions" in about else None


def _within(log: Log, about: Fields, options: ReadingOptions) -> Log:
    """The log with the range of rewards that its file tells, where the reader tells none."""
    return with_about(log, about) if options.reward_range is None and "reward_range" in about else log


def _check_columns(table: Columns, each: list[str], *, split: object, cells: CellNames) -> None:
    """Raise one line that says all that is missing, what is there, and what may be it."""
    missing = [name for name in ("action", "reward") if name not in table]
    if "propensity" not in table and "propensities" not in table and not each and split is None:
        missing.append("propensity")
    if not missing:
        return
    hints = [f"is '{plain(found)}' the {name}?" for name in missing if (found := _also_called(name, table)) is not None]
    what = " and ".join(f"'{name}'" for name in missing)
    are = f"column {what} is" if len(missing) == 1 else f"columns {what} are"
    shown = plain(", ".join(cells.names.get(name, name) for name in table))
    hint = f"; {' '.join(hints)} say so (--{missing[0]} NAME), or rename it" if hints else ""
    if "propensity" in missing:
        hint += "; if everybody had the same chances, say which: --split uniform, or --split a=0.4,b=0.6"
    other = " (or 'propensities', of all actions)" if "propensity" in missing else ""
    raise InputError(f"{are} missing{other}; there are: {shown}{hint}")


def _also_called(name: str, table: Columns) -> str | None:
    by_name = {column.lower(): column for column in table if column not in ("action", "reward")}
    for other in NAMES_ELSEWHERE[name]:
        if other in by_name:
            return by_name[other]
    words = re.match(r"; did you mean '(.*)'\? \(known", nearest(name, by_name.values()))
    return words.group(1) if words else None


def _pop_actions(
    table: Columns, split: str | None, cells: CellNames, *, rows: int
) -> tuple[IntArray, tuple[str, ...] | None]:
    """The actions (n,), and their labels in the order of their numbers if they were text.

    split: what the reader says of propensities: numbers that are not 0, 1, … are labels there, and true and false too.
    rows: how many there are in all.
    """
    column: Any = table["action"]
    if not is_text(column.type):
        truths = bool(pa.types.is_boolean(column.type))
        actions = pop_integers(table, "action", cells)
        assert actions is not None
        played = np.unique(actions)
        if not truths and (split is None or np.array_equal(played, np.arange(len(played)))):
            return actions, None
        names = ("no", "yes") if truths else tuple(str(number) for number in played)
        return (actions if truths else np.searchsorted(played, actions)), names
    check_present(table.pop("action"), "action", cells)
    labels: tuple[str, ...] = tuple(column.dictionary.to_pylist())
    _check_told_apart(column, labels, cells)
    codes = np.asarray(column.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    unplayed = split_names(split) if split is not None else set[str]()  # a split may know of more
    shown = {labels[int(code)] for code in np.unique(codes)}
    if split is not None:
        check_shown(split, shown, rows=rows, column=cells.column("action"))
    kept = sorted(shown | unplayed)  # a dictionary has another order
    place = {label: k for k, label in enumerate(kept)}
    places = np.array([place.get(label, 0) for label in labels], dtype=np.int64)
    return places[codes], tuple(kept)


def _check_told_apart(column: Any, labels: Sequence[str], cells: CellNames) -> None:
    """Raise where two actions hardly differ, and are one, most likely."""
    twins = hardly_differing(labels, numbers=True)
    if twins is not None:
        one, other = twins
        row = int((column.indices.to_numpy(zero_copy_only=False) == labels.index(other)).argmax())
        raise InputError(
            f"{cells.column('action')} holds '{plain(one)}' and '{other}' ({cells.row(row)}), which look like one "
            "action written in two ways; write them the same, or give them names that differ in more"
        )


def _pop_propensities(
    table: Columns, each: list[str], labels: tuple[str, ...] | None, cells: CellNames
) -> FloatArray | None:
    """Propensities (n, A) from a column of lists, or from one column an action; None where there are neither."""
    listed = "propensities" in table
    propensities = pop_matrix(table, "propensities", cells)
    if listed and each:
        raise InputError(f"there are both 'propensities' and '{plain(each[0])}'; leave one out")
    if listed and labels is not None:
        raise InputError("actions are text and 'propensities' are lists; number the actions from 0, in that order")
    return _pop_each(table, each, labels, cells) if each else propensities


def _pop_each(table: Columns, each: list[str], labels: tuple[str, ...] | None, cells: CellNames) -> FloatArray:
    """Propensities (n, A) from one column an action."""
    wanted = [str(i) for i in range(len(each))] if labels is None else list(labels)
    given = set(each)
    lacking = [name for name in wanted if f"{PROPENSITY_PREFIX}{name}" not in given]
    if lacking:
        first = f"{PROPENSITY_PREFIX}{plain(lacking[0])}"
        raise InputError(f"column '{first}' is missing; there are: {plain(', '.join(each))}")
    if len(each) > len(wanted):
        extra = next(name for name in each if name.removeprefix(PROPENSITY_PREFIX) not in wanted)
        raise InputError(f"column '{plain(extra)}' is of an action that was never played; number the actions from 0")
    columns = [pop_floats(table, f"{PROPENSITY_PREFIX}{name}", cells) for name in wanted]
    return np.column_stack([column for column in columns if column is not None])


def pop_least(table: Columns, cells: CellNames) -> FloatArray | None:
    """Take what every action's propensity was at least, (n,) or (n, A), out of a table; None where it does not tell."""
    column: Any = table.get("least_propensity")
    if column is None:
        return None
    if is_list(column.type):
        return pop_matrix(table, "least_propensity", cells)
    return pop_floats(table, "least_propensity", cells)
