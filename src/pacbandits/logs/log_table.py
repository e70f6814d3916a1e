"""Logs from tables (Parquet, CSV, data frames) with one interaction per row: choice of columns, and notices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.logs.blocks import (
    Blocks,
    check_countable,
    check_played_at_all,
    count_down,
    declared_shares,
    declared_words,
)
from pacbandits.logs.raw_log import (
    MAX_ACTIONS,
    MeasuredMetrics,
    RawLog,
    Whole,
    check_denominators,
    check_shown,
    make_log,
    pop_rewards,
    split_names,
    unit_metrics,
)
from pacbandits.logs.reading_options import ReadingOptions, as_dates, order_of, ticks_of
from pacbandits.logs.repeated_rows import notice_repeated_rows
from pacbandits.records import parquet
from pacbandits.records.column_types import (
    NOTHING_COUNTED,
    DatePart,
    age_feature,
    check_dates,
    date_parts,
    hardly_differing,
    is_decimal,
    keeping,
    leave_out_identifiers,
    name_age,
    notice_returns,
    read_written,
)
from pacbandits.records.columns import (
    SOMEWHERE,
    CellNames,
    Columns,
    check_present,
    is_list,
    is_temporal,
    is_text,
    pa,
    pc,
    pop_floats,
    pop_integers,
    pop_matrix,
)
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log, known_column, pop_known, unit_column, with_about
from pacbandits.records.log_metadata import UNIT_RANGE, only_counted, pop_weights, stored_dates
from pacbandits.records.metrics import METRICS_COLUMN, AnyMetric, Ratio, pop_stored_metrics, read_metrics
from pacbandits.records.parquet import LoadedTable
from pacbandits.records.row_order import NO_ORDER
from pacbandits.records.text_files import read_as_text
from pacbandits.schema import Fields

# The use of each column, as the reader says, and columns that cannot be features.


# Common other names of a log's columns.
NAMES_ELSEWHERE = {
    "action": ("a", "arm", "action_id", "treatment", "variant", "chosen_action", "item_id"),
    "reward": ("r", "y", "outcome", "click", "clicked", "conversion", "converted", "payoff", "revenue"),
    "propensity": ("pscore", "propensity_score", "p", "prob", "probability", "action_prob", "pi_b"),
}
# Names of outcomes, which come after the action, whatever the reward is.
_AFTERWARDS = {*NAMES_ELSEWHERE["reward"], "reward", "purchase", "purchased", "sales", "profit", "spend", "clicks"}
MIN_CLOCK_ROWS = 10  # sorted by a date, for that to be no coincidence
_OWN_COLUMNS = ("action", "reward", "propensity")


class Picked(NamedTuple):
    """Facts about the rows of a table other than actions and rewards.

    order (n,): the order in which they occurred, if times are known.
    units (n,): their units, in the original order, if known.
    remarks: remarks on dropped columns.
    ages: the columns from which ages were computed, and the time.
    notices: on these.
    """

    order: IntArray | None
    units: IntArray | None
    remarks: list[str]
    ages: tuple[str, ...]
    notices: tuple[str, ...]


def pick_columns(
    table: Columns,
    options: ReadingOptions,
    *,
    unit: str | None = None,
    cells: CellNames = SOMEWHERE,
    known_clocks: Collection[str] | None = None,
) -> Picked:
    """Rename the columns of a table as the options say, and drop those that cannot be features, in place.

    unit: the column that identifies returning users.
    cells: names of its rows in messages.
    known_clocks: the date columns by which the rows are sorted, if not all rows are here.
    """
    chosen = {name: given for name in _OWN_COLUMNS if (given := getattr(options, name)) is not None}
    for given in (*chosen.values(), *(name for name in (options.time, unit, options.block) if name is not None)):
        _check_there(given, table)
    remarks: list[str] = []
    for name in _OWN_COLUMNS:
        if name in table and name in chosen and chosen[name] != name:
            if name in chosen.values():
                continue  # it has another use, and is renamed below
            del table[name]
            remarks.append(f"the column '{name}' was left out, as '{plain(chosen[name])}' is the {name}")
    moved = {name: table.pop(given) for name, given in chosen.items()}
    order: IntArray | None = None
    if options.time is not None:
        order, assumed = order_of(table[options.time], options.time, cells, form=options.time_format)
        remarks += assumed
    ages, said = _take_ages(table, options, cells, whole=known_clocks is None)
    if options.time is not None and options.time not in (*(options.features or ()), *options.keep):
        del table[options.time]
    units = None if unit is None else _unit_codes(table.pop(unit), unit, cells)
    features = _features(table, options)
    if options.features is None and options.reward is not None:
        after = [name for name in features if name.lower() in _AFTERWARDS and name not in options.keep]
        features = [name for name in features if name not in after]
        remarks += [_left_out(name) for name in after]
    if options.features is None:
        found = (
            [name for name in features if _tells_when(table[name])]
            if known_clocks is None
            else [name for name in features if name in known_clocks]
        )
        clocks = [name for name in found if name not in options.keep]
        features = [name for name in features if name not in clocks]
        remarks += [_left_out_clock(name) for name in clocks]
    for name in [name for name in table if name not in features and not is_own(name)]:
        del table[name]
    for name in features:
        if is_text(table[name].type):
            check_dates(table[name], name, cells)
    table.update(moved)
    table.update(ages)
    said += notice_dates(table, options.time)
    return Picked(order, units, remarks, (*options.age, str(options.time)) if ages else (), said)


def _take_ages(
    table: Columns, options: ReadingOptions, cells: CellNames, *, whole: bool
) -> tuple[Columns, tuple[str, ...]]:
    """Remove the columns whose age is asked for; return the ages, and notices on dates after the time of their row.

    whole: whether these are all rows.
    """
    out: Columns = {}
    notices: list[str] = []
    for name in options.age:
        _check_there(name, table)
        assert options.time is not None
        made = name_age(name, options.time)
        if made in table:
            raise InputError(f"column '{plain(made)}' has the name of a feature derived from '{name}'; rename it")
        columns = {
            name: as_dates(table.pop(name), name, cells),
            options.time: as_dates(table[options.time], options.time, cells, form=options.time_format),
        }
        out[made] = age_feature(DatePart(name, "age", options.time), columns)
        late: BoolArray = pc.less(out[made], 0).fill_null(False).to_numpy(zero_copy_only=False)
        if late.any():
            where = f"{cells.row(int(late.argmax()))}"
            where = (
                f"in {count_of(int(late.sum()), 'row')}, the first in {where}" if whole else f"in rows such as {where}"
            )
            notices.append(
                f"the column '{plain(name)}' is later than '{plain(options.time)}' {where}: nobody knew that date when "
                "the action was chosen, unless it was planned; correct it, or leave it out (--without, not --age)"
            )
    return out, tuple(notices)


def notice_dates(table: Columns, time: str | None) -> tuple[str, ...]:
    """Return notices on features of dates that might be ages, as the time of each row is known."""
    dated = [n for n, column in table.items() if n != time and pa.types.is_temporal(column.type)]
    return tuple(
        f"rules that use the calendar day of '{plain(name)}' tell little of later days; --age {plain(name)} (in "
        f"Python, age=['{plain(name)}']) makes it the number of days before '{plain(time)}'"
        for name in dated
        if time is not None and not pa.types.is_time(table[name].type)
    )


def _unit_codes(column: Any, name: str, cells: CellNames) -> IntArray:
    """Return codes (n,) of a column's values of any type; cells: names of its rows in messages."""
    if is_list(column.type):
        raise InputError(f"column '{plain(name)}' holds lists; a user ID must be text or a number")
    coded = column if is_text(column.type) else column.dictionary_encode()
    missing = coded.indices.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        missing = missing | np.isnan(column.to_numpy(zero_copy_only=False))
    if missing.any():
        row, count = int(missing.argmax()), int(missing.sum())
        others = "" if count == 1 else f", as do {count - 1:,} more"
        raise InputError(
            f"{cells.row(row)} has no value in column '{plain(name)}'{others}; every row needs a user ID: fill in "
            "or drop those"
        )
    return np.asarray(coded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _features(table: Columns, options: ReadingOptions) -> list[str]:
    """Return the feature columns by the options."""
    left = [name for name in table if not is_own(name)]
    uses = {getattr(options, use): use for use in (*_OWN_COLUMNS, "unit") if getattr(options, use) is not None}
    for name in (*(options.features or ()), *options.keep):
        if name in uses and name not in left:
            why = ", which comes after the action" if uses[name] == "reward" else ""
            raise InputError(f"column '{plain(name)}' is the {uses[name]}{why}, and cannot be a feature; leave it out")
    for name in (*(options.features or ()), *options.without):
        if name not in (*options.metric_names, *options.age):  # which are taken already
            _check_there(name, left)
    kept = left if options.features is None else [name for name in left if name in set(options.features)]
    return [name for name in kept if name not in set(options.without)]


def is_own(name: str) -> bool:
    """Return whether a column of this name is one of a log's own."""
    own = ("action", "reward", "propensities", "least_propensity", "round", "repeats", "context_id", "context_weight")
    return name in own or name.startswith("propensity")


def _check_there(name: str, columns: Iterable[str]) -> None:
    known = list(columns)
    if name not in known:
        raise InputError(f"there is no column '{plain(name)}'{nearest(name, known)}")


def _tells_when(column: Any) -> bool:
    """Return whether a column of dates or times never decreases: it is the time of rows, not a feature."""
    if not pa.types.is_temporal(column.type) or column.null_count or len(column) < MIN_CLOCK_ROWS:
        return False
    ticks = ticks_of(column)
    return bool((ticks[1:] >= ticks[:-1]).all()) and column[0] != column[-1]


def _left_out_clock(name: str) -> str:
    return (
        f"the column '{plain(name)}' was left out, as it tells when rows occurred: they stand in its order; say "
        f"so (time), or, if decisions may go by it, {keeping(name)}"
    )


def _left_out(name: str) -> str:
    return (
        f"the column '{plain(name)}' was left out, as its name is that of an outcome, which comes after the action; if "
        f"it was known before, {keeping(name)}"
    )


# Notices for the reader of a table. No certificate depends on them.


MIN_FREE_TEXTS = 256  # the number of labels from which a column is hardly categorical


def notice_columns(contexts: Contexts, dates: Sequence[str]) -> tuple[str, ...]:
    """Return notices on text features that are hardly categories; dates: columns from which some were computed."""
    made = date_parts(contexts.names, dates)
    out: list[str] = []
    for name, labels in zip(contexts.names, contexts.categories, strict=True):
        if name not in made and labels is not None and len(labels) >= MIN_FREE_TEXTS:
            out.append(
                f"the column '{plain(name)}' has {len(labels):,} different texts, as free text does; leave it out "
                f"(--without '{plain(name)}') unless they are categories"
            )
    return tuple(out)


def columns_of(contexts: Contexts, dates: Sequence[str]) -> dict[str, list[int]]:
    """Return the features (their numbers) of each column of a table; dates: columns from which some were computed."""
    made = date_parts(contexts.names, dates)
    out: dict[str, list[int]] = {}
    for j, name in enumerate(contexts.names):
        out.setdefault(made[name].column if name in made else name, []).append(j)
    return out


def drop_features(log: Log, columns: Collection[str]) -> Log:
    """Return the log without the features of these columns, of which it need not have all."""
    contexts = log.contexts
    of = columns_of(contexts, log.dates)
    kept = [j for name, places in of.items() for j in places if name not in columns]
    if len(kept) == contexts.n_features:
        return log
    names, categories = ([one[j] for j in sorted(kept)] for one in (contexts.names, contexts.categories))
    ids = np.zeros(len(contexts), dtype=np.int64) if not kept and contexts.ids is None else contexts.ids
    features = np.ascontiguousarray(contexts.features[:, sorted(kept)])
    fewer = replace(contexts, features=features, names=tuple(names), categories=tuple(categories), ids=ids)
    return replace(log, contexts=fewer, dates=tuple(name for name in log.dates if name not in columns))


def notice_units(units: IntArray | None, name: str | None) -> tuple[str, ...]:
    """Return a notice on the rows of returning users, if the unit of each is known."""
    if units is None or name is None or (people := len(np.unique(units))) == len(units):
        return ()
    return (f"{len(units):,} rows belong to {people:,} values of '{plain(name)}'; evidence counts these, not rows",)


# Logs from tables (Parquet, CSV, data frames, rows of data sets).


MAX_RARE_ACTIONS = 100  # actions of which each may have few rows
MIN_ACTION_ROWS = 2  # for each of more actions, on average; fewer are those of identifiers
PROPENSITY_PREFIX = "propensity_"  # followed by the action: one propensity column per action


def log_of_file(path: Path, options: ReadingOptions) -> Log:
    """Return a log from the columns of a Parquet or CSV file; see `read_log`."""
    table = parquet.read_table(path)
    only_counted(table.columns, table.about)
    _spell_actions(table.columns, options.action or "action", path)
    return log_of_table(table, options)


def log_of_table(
    source: LoadedTable, options: ReadingOptions, *, whole: Whole | None = None, places: IntArray | None = None
) -> Log:
    """Return a log from a table: a file, a data frame, or some rows of a data set; its columns are removed.

    whole: facts about all rows, if these are some of them; places (n,): the numbers of these rows.
    """
    table, about, coded, n = source.columns, source.about, source.coded, source.n_rows
    own = ("action", "reward", "propensity")
    names = {name: given for name in own if (given := getattr(options, name)) is not None}
    cells = CellNames(source.line, names, places)
    counted = NOTHING_COUNTED if whole is None else whole.counted
    repeated = notice_repeated_rows(table, cells) if whole is None else ()
    known = pop_known(table, known_column(about))
    outcomes = take_metric_columns(table, options, about)
    unit = unit_column(about) if options.unit is None else options.unit
    told = (options.action, options.reward, options.propensity, options.time, options.block, *options.metric_names)
    returns = notice_returns(table, coded=coded, but=told, counted=counted) if unit is None else ()
    clocks = None if whole is None else whole.clocks
    block = None if options.block is None else table.get(options.block)
    order, units, left_out, ages, said = pick_columns(table, options, unit=unit, cells=cells, known_clocks=clocks)
    if order is not None:
        cells = replace(cells, order=order if places is None else places[order])
        rows: Any = pa.array(order)
        block = None if block is None else block.take(rows)
        table = {name: column.take(rows) for name, column in table.items()}
        outcomes = {name: column.take(rows) for name, column in outcomes.items()}
    written = read_written(table, but=("action", *options.without), coded=coded, cells=cells)
    written += read_written(outcomes, coded=coded, cells=cells)
    measured = measure(outcomes, options, about, cells, late=known is not None)
    if "metrics" not in about:
        check_denominators(measured)
    each = [name for name in table if name.startswith(PROPENSITY_PREFIX) and len(name) > len(PROPENSITY_PREFIX)]
    blocks = None if block is None or options.block is None else Blocks.of(block, options.block, cells)
    _check_columns(table, each, split=options.split if blocks is None else blocks.name, cells=cells)
    split = options.split if isinstance(options.split, str) else None
    actions, labels = _pop_actions(table, options, cells, rows=n if whole is None else whole.rows)
    rewards, truths = pop_rewards(table, cells, late=known is not None)
    played = pop_floats(table, "propensity", cells)
    propensities = _pop_propensities(table, each, labels, cells)
    least = _declared_least(pop_least(table, cells), propensities, options)
    rounds, repeats = (pop_integers(table, name, cells) for name in ("round", "repeats"))
    weighted = pop_weights(table)
    kept = (*(options.features or ()), *options.keep, *(() if blocks is None else (blocks.name,)))
    unnamed = leave_out_identifiers(table, coded=coded, keep=kept, counted=counted)
    dates = (*stored_dates(about), *(name for name, column in table.items() if is_temporal(column.type)))
    dates = (*dates, *(name for name in ages if name not in dates))
    contexts = Contexts.from_columns(table, n=n, cells=cells)
    if contexts.n_features == 0 and contexts.ids is None:
        contexts = replace(contexts, ids=contexts.distinct()[1])
    width = least.shape[1] if isinstance(least, np.ndarray) and least.ndim == 2 else None
    n_actions = _told_actions(options, width=width, labels=labels, about=about)
    stated: tuple[str, ...] = () if options.order is None else (NO_ORDER,)
    counting = blocks is not None and options.split is None and played is None and propensities is None
    if blocks is not None and (counting or options.by_block is not None):
        if played is not None or propensities is not None:
            raise InputError("the log tells propensities, and --split was given as well; leave one of them out")
        propensities, words = _by_block(blocks, options, actions, labels, n_actions, cells, whole=whole is None)
        stated += words
    raw = RawLog(
        contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities,
        played=played,
        least=least,
        n_actions=n_actions,
        declared=width is not None,
        stated=options.n_actions is not None,
        rounds=rounds,
        repeats=repeats,
        remarks=(
            *(*source.remarks, *left_out, *written, *truths, *measured.remarks),
            *(*weighted, *unnamed, *returns, *stated),
        ),
        cells=cells,
        names=labels if labels is not None else _stored_names(about, len(actions)),
        split=split,
        numbered=labels is None,
        units=units if units is None or order is None else units[order],
        known=known if known is None or order is None else known[order],
        whole=whole,
        measured=measured,
    )
    notices = (*repeated, *returns, *notice_units(units, unit), *notice_columns(contexts, dates), *said)
    log = _in_order(_within(make_log(raw, options), about, options), blocks if counting else None, options, cells)
    return replace(log, dates=dates, notices=notices)


def _in_order(log: Log, blocks: Blocks | None, options: ReadingOptions, cells: CellNames) -> Log:
    """Return a log with its counted blocks, if any, counted down; raise InputError if its rounds tell an order."""
    if options.order is not None and (log.rounds != log.rounds[0]).any():
        raise InputError("the log has rounds, which tell the order of its rows; leave out --order")
    if blocks is None:
        return log
    check_countable(log, time=options.time)
    return count_down(log, blocks, cells)


def _declared_least(
    column: FloatArray | None, propensities: FloatArray | None, options: ReadingOptions
) -> FloatArray | float | None:
    """Return the declared minimum propensities: those of a column, or the option's."""
    if column is not None and options.least_propensity is not None:
        raise InputError("there is a column 'least_propensity'; leave out --least-propensity")
    return column if propensities is None and column is not None else options.least_propensity


def _by_block(
    blocks: Blocks,
    options: ReadingOptions,
    actions: IntArray,
    labels: tuple[str, ...] | None,
    told: int | None,
    cells: CellNames,
    *,
    whole: bool,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the declared propensities (n, A) of each row's block, with their assumption; if counted, even ones.

    labels: of the actions. told: their number, if known. whole: whether these are all rows.
    """
    count = max(int(actions.max()) + 1, told or 0)
    if options.by_block is None:
        return np.full((len(actions), count), 1.0 / count), ()
    names = labels or tuple(str(number) for number in range(count))
    found = blocks.propensities(declared_shares(options.by_block, names), cells)
    if whole:
        check_played_at_all(found, actions, names, cells.column("action"))
    return found, (declared_words(blocks.name, options.by_block),)


def take_metric_columns(table: Columns, options: ReadingOptions, about: Fields) -> Columns:
    """Remove the columns of metrics from a table and return them; about: the file's metadata, which may list some."""
    if "metrics" in about:
        return {METRICS_COLUMN: table.pop(METRICS_COLUMN)} if METRICS_COLUMN in table else {}
    for metric in read_metrics(options.metrics):
        for column in metric.columns:
            _check_metric_there(metric, column.name, table)
    reward = options.reward or "reward"  # may be a column of a ratio, and stays
    return {name: table[name] if name == reward else table.pop(name) for name in options.metric_names}


def _check_metric_there(metric: AnyMetric, name: str, table: Columns) -> None:
    """Raise InputError if a column of a metric is missing, or is one of the log's own."""
    if name in table:
        if is_own(name) and name not in _OWN_COLUMNS:
            raise InputError(f"column '{plain(name)}' is one of the log's own, and cannot be a metric; rename it")
        return
    hint = nearest(name, table)
    if isinstance(metric, Ratio) and metric.name in table:
        hint = f"; for the column '{plain(metric.name)}', state its range: --metric '{plain(metric.name)} 0 1'"
    elif "/" in name and all(part.strip() in table for part in name.split("/")):
        hint = f"; a ratio of two columns needs the range of each: --metric '{plain(name)} 0 500 0 20'"
    raise InputError(f"there is no column '{plain(name)}' for metric '{plain(metric.name)}'{hint}")


def measure(
    outcomes: Columns, options: ReadingOptions, about: Fields, cells: CellNames, *, late: bool = False
) -> MeasuredMetrics:
    """Return the metrics of rows; outcomes: their columns, removed from the table by `take_metric_columns`.

    A file whose metadata list its metrics has all of these, and no others.
    """
    if "metrics" not in about:
        return unit_metrics(outcomes, read_metrics(options.metrics), cells, late=late)
    stored, values = pop_stored_metrics(outcomes, about, missing=late)
    told = {metric.name: metric for metric in stored}
    for metric in read_metrics(options.metrics):
        if metric.name not in told:
            raise InputError(
                f"the file lists its own metrics, and '{plain(metric.name)}' is none of them"
                f"{nearest(metric.name, told)}; write it again with that one"
            )
        ranges = {(column.low, column.high) for column in metric.columns}
        if metric != told[metric.name] and ranges != {UNIT_RANGE}:
            raise InputError(f"the file itself tells the range of metric '{plain(metric.name)}'; leave out --metric")
    return MeasuredMetrics(stored, values)


def _spell_actions(columns: Columns, name: str, path: Path) -> None:
    """Read integer actions of a text file as text if they are not plain decimals: 001 is not 1."""
    delimiter = parquet.DELIMITERS.get(parquet.suffix(path))
    if delimiter is None or name not in columns or not pa.types.is_integer(columns[name].type):
        return
    coded = parquet.sort_labels(read_as_text(path, delimiter, name))
    if not all(is_decimal(label.strip()) for label in coded.dictionary.to_pylist() if label.strip()):
        columns[name] = coded


def _told_actions(
    options: ReadingOptions, *, width: int | None, labels: tuple[str, ...] | None, about: Fields
) -> int | None:
    """Return the number of actions, if the reader or the file says."""
    if options.n_actions is not None:
        return options.n_actions
    if width is None and labels is not None:
        return len(labels)
    return len(about.texts("actions")) if width is None and "actions" in about else width


def _stored_names(about: Fields, n: int) -> tuple[str, ...] | None:
    """Return the names of actions in a file's metadata, if any."""
    return about.texts("actions", most=max(n, MAX_ACTIONS)) if "actions" in about else None


def _within(log: Log, about: Fields, options: ReadingOptions) -> Log:
    """Return the log with the reward range of its file's metadata, unless the reader gives one."""
    return with_about(log, about) if options.reward_range is None and "reward_range" in about else log


def _check_columns(table: Columns, each: list[str], *, split: object, cells: CellNames) -> None:
    """Raise InputError if columns are missing; it names all, lists those present, and suggests likely ones."""
    missing = [name for name in ("action", "reward") if name not in table]
    if "propensity" not in table and "propensities" not in table and not each and split is None:
        missing.append("propensity")
    if not missing:
        return
    hints = [f"is '{plain(found)}' the {name}?" for name in missing if (found := _also_called(name, table)) is not None]
    what = " and ".join(f"'{name}'" for name in missing)
    are = f"column {what} is" if len(missing) == 1 else f"columns {what} are"
    shown = plain(", ".join(cells.names.get(name, name) for name in table))
    hint = f"; {' '.join(hints)} pass --{missing[0]} NAME, or rename it" if hints else ""
    if "propensity" in missing:
        hint += "; if all rows had the same propensities, give them: --split uniform, or --split a=0.4,b=0.6"
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
    table: Columns, options: ReadingOptions, cells: CellNames, *, rows: int
) -> tuple[IntArray, tuple[str, ...] | None]:
    """Remove and return the actions (n,), and their labels in the order of their numbers if they have labels.

    options: with a split, or blocks, integers that are not 0, 1, … are labels. Booleans always are.
    rows: the number of all rows.
    """
    split, by_block = options.split if isinstance(options.split, str) else None, options.by_block or {}
    column: Any = table["action"]
    if not is_text(column.type):
        truths = bool(pa.types.is_boolean(column.type))
        actions = pop_integers(table, "action", cells)
        assert actions is not None
        played = np.unique(actions)
        given = options.split is not None or options.block is not None
        if not truths and (not given or np.array_equal(played, np.arange(len(played)))):
            return actions, None
        _check_repeated(len(played), rows=rows, cells=cells)
        names = ("no", "yes") if truths else tuple(str(number) for number in played)
        return (actions if truths else np.searchsorted(played, actions)), names
    check_present(table.pop("action"), "action", cells)
    labels: tuple[str, ...] = tuple(column.dictionary.to_pylist())
    _check_told_apart(column, labels, cells)
    codes = np.asarray(column.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    unplayed = {name for shares in by_block.values() for name in shares}  # a split may name more
    unplayed |= split_names(split) if split is not None else set[str]()
    shown = {labels[int(code)] for code in np.unique(codes)}
    if split is not None:
        _check_repeated(len(shown), rows=rows, cells=cells)
        check_shown(split, shown, rows=rows, column=cells.column("action"))
    kept = sorted(shown | unplayed)  # a dictionary has another order
    place = {label: k for k, label in enumerate(kept)}
    places = np.array([place.get(label, 0) for label in labels], dtype=np.int64)
    return places[codes], tuple(kept)


def _check_repeated(count: int, *, rows: int, cells: CellNames) -> None:
    """Raise InputError if a column of actions with `count` values in all rows looks like one of identifiers."""
    if count > MAX_RARE_ACTIONS and rows <= MIN_ACTION_ROWS * count:
        raise InputError(
            f"{cells.column('action')} holds {count:,} different values in {rows:,} rows, as identifiers do, and "
            "nothing can be learnt of actions so rare; name the column of the action: --action NAME"
        )


def _check_told_apart(column: Any, labels: Sequence[str], cells: CellNames) -> None:
    """Raise InputError if two actions differ only in spelling."""
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
    """Remove and return propensities (n, A), from a column of lists or one per action; None if neither exists."""
    listed = "propensities" in table
    propensities = pop_matrix(table, "propensities", cells)
    if listed and each:
        raise InputError(f"there are both 'propensities' and '{plain(each[0])}'; leave one out")
    if listed and labels is not None:
        raise InputError("actions are text and 'propensities' are lists; number the actions from 0, in that order")
    return _pop_each(table, each, labels, cells) if each else propensities


def _pop_each(table: Columns, each: list[str], labels: tuple[str, ...] | None, cells: CellNames) -> FloatArray:
    """Return propensities (n, A) from one column per action."""
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
    """Remove and return minimum propensities, (n,) or (n, A), from a table; None if it has none."""
    column: Any = table.get("least_propensity")
    if column is None:
        return None
    if is_list(column.type):
        return pop_matrix(table, "least_propensity", cells)
    return pop_floats(table, "least_propensity", cells)
