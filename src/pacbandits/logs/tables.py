"""Logs in tables: Parquet and CSV, a row an interaction."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.logs.raw import RawLog, ReadingOptions, make_log
from pacbandits.records import parquet
from pacbandits.records.arrow import Columns, is_list, is_text
from pacbandits.records.columns import pop_floats, pop_integers, pop_matrix
from pacbandits.records.contexts import Contexts
from pacbandits.records.identifiers import leave_out_identifiers
from pacbandits.records.log import Log, pop_weights

# What the columns of a log are called elsewhere.
_NAMES_ELSEWHERE = {
    "action": ("a", "arm", "action_id", "treatment", "variant", "chosen_action", "item_id"),
    "reward": ("r", "y", "outcome", "click", "clicked", "conversion", "payoff"),
    "propensity": ("pscore", "propensity_score", "p", "prob", "probability", "action_prob", "pi_b"),
}
_MOST_ACTIONS_NAMED = 100
_PROPENSITY_PREFIX = "propensity_"  # and the action: columns of the propensities of all actions


def read_table(path: Path, options: ReadingOptions) -> Log:
    """A log from the columns of a Parquet or CSV file; see `read_log`."""
    table = parquet.read(path)
    each = [name for name in table if name.startswith(_PROPENSITY_PREFIX) and len(name) > len(_PROPENSITY_PREFIX)]
    _check_columns(table, each)
    actions, labels = _pop_actions(table)
    rewards = pop_floats(table, "reward")
    played = pop_floats(table, "propensity")
    listed = "propensities" in table
    propensities = pop_matrix(table, "propensities")
    if listed and each:
        raise InputError(f"there are both 'propensities' and '{plain(each[0])}'; leave one out")
    if listed and labels is not None:
        raise InputError("actions are text and 'propensities' are lists; number the actions from 0, in that order")
    if each:
        propensities = _pop_each(table, each, labels)
    column = _pop_least(table)
    if column is not None and options.least_propensity is not None:
        raise InputError("there is a column 'least_propensity'; leave out the option")
    least = column if propensities is None and column is not None else options.least_propensity
    rounds = pop_integers(table, "round")
    repeats = pop_integers(table, "repeats")
    assert rewards is not None
    weighted = pop_weights(table)
    unnamed = leave_out_identifiers(table, coded=parquet.coded_columns(path))
    contexts = Contexts.from_columns(table, n=len(actions))
    if contexts.n_features == 0 and contexts.ids is None:
        contexts = replace(contexts, ids=contexts.distinct()[1])
    named = () if labels is None else (_name_actions(labels),)
    width = least.shape[1] if isinstance(least, np.ndarray) and least.ndim == 2 else None
    raw = RawLog(
        contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities,
        played=played,
        least=least,
        n_actions=width if options.n_actions is None else options.n_actions,
        declared=width is not None,
        stated=options.n_actions is not None,
        rounds=rounds,
        repeats=repeats,
        remarks=(*parquet.read_remarks(path), *weighted, *unnamed, *named),
    )
    return make_log(raw, reward_range=options.reward_range)


def _name_actions(labels: tuple[str, ...]) -> str:
    """Which number stands for which action; of the first actions, if there are many."""
    shown = ", ".join(f"action {i} is '{plain(name)}'" for i, name in enumerate(labels[:_MOST_ACTIONS_NAMED]))
    more = f", and so on in the order of the {len(labels):,} sorted labels" if len(labels) > _MOST_ACTIONS_NAMED else ""
    return shown + more


def _check_columns(table: Columns, each: list[str]) -> None:
    """Raise one line that says all that is missing, what is there, and what may be it."""
    missing = [name for name in ("action", "reward") if name not in table]
    if "propensity" not in table and "propensities" not in table and not each:
        missing.append("propensity")
    if not missing:
        return
    hints = [f"is '{plain(found)}' the {name}?" for name in missing if (found := _also_called(name, table)) is not None]
    what = " and ".join(f"'{name}'" for name in missing)
    are = f"column {what} is" if len(missing) == 1 else f"columns {what} are"
    other = " (or 'propensities', of all actions)" if "propensity" in missing else ""
    shown = plain(", ".join(table))
    hint = f"; {' '.join(hints)} rename it" if hints else ""
    raise InputError(f"{are} missing{other}; there are: {shown}{hint}")


def _also_called(name: str, table: Columns) -> str | None:
    by_name = {column.lower(): column for column in table if column not in ("action", "reward")}
    for other in _NAMES_ELSEWHERE[name]:
        if other in by_name:
            return by_name[other]
    words = re.match(r"; did you mean '(.*)'\? \(known", nearest(name, by_name.values()))
    return words.group(1) if words else None


def _pop_actions(table: Columns) -> tuple[IntArray, tuple[str, ...] | None]:
    """The actions (n,), and their labels in the order of their numbers if they were text."""
    column: Any = table["action"]
    if not is_text(column.type):
        actions = pop_integers(table, "action")
        assert actions is not None
        return actions, None
    del table["action"]
    if column.null_count:
        raise InputError(f"column 'action' has {column.null_count} missing values; fill or drop them")
    labels: tuple[str, ...] = tuple(column.dictionary.to_pylist())
    codes = np.asarray(column.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    kept = sorted({labels[int(code)] for code in np.unique(codes)})  # a dictionary may know more, in another order
    place = {label: k for k, label in enumerate(kept)}
    places = np.array([place.get(label, 0) for label in labels], dtype=np.int64)
    return places[codes], tuple(kept)


def _pop_each(table: Columns, each: list[str], labels: tuple[str, ...] | None) -> FloatArray:
    """Propensities (n, A) from one column an action."""
    wanted = [str(i) for i in range(len(each))] if labels is None else list(labels)
    given = set(each)
    lacking = [name for name in wanted if f"{_PROPENSITY_PREFIX}{name}" not in given]
    if lacking:
        first = f"{_PROPENSITY_PREFIX}{plain(lacking[0])}"
        raise InputError(f"column '{first}' is missing; there are: {plain(', '.join(each))}")
    if len(each) > len(wanted):
        extra = next(name for name in each if name.removeprefix(_PROPENSITY_PREFIX) not in wanted)
        raise InputError(f"column '{plain(extra)}' is of an action that was never played; number the actions from 0")
    columns = [pop_floats(table, f"{_PROPENSITY_PREFIX}{name}") for name in wanted]
    return np.column_stack([column for column in columns if column is not None])


def _pop_least(table: Columns) -> FloatArray | None:
    column: Any = table.get("least_propensity")
    if column is None:
        return None
    if is_list(column.type):
        return pop_matrix(table, "least_propensity")
    return pop_floats(table, "least_propensity")
