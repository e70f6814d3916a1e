"""Logs from files of any known format."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError, nearest, plain
from pacbandits.logs.foreign import from_open_bandit, read_dsjson, read_npz
from pacbandits.logs.raw import make_log
from pacbandits.records import parquet
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log

FORMATS = {
    "parquet": (".parquet", ".pq", ".parq"),
    "csv": tuple(parquet.DELIMITERS),
    "dsjson": (".dsjson", ".json", ".jsonl", ".ndjson"),
    "open-bandit": (".npz",),
}
# What the columns of a log are called elsewhere.
_ALSO = {
    "action": ("a", "arm", "action_id", "treatment", "variant", "chosen_action", "item_id"),
    "reward": ("r", "y", "outcome", "click", "clicked", "conversion", "payoff"),
    "propensity": ("pscore", "propensity_score", "p", "prob", "probability", "action_prob", "pi_b"),
}
_EACH = "propensity_"  # and the action: columns of the propensities of all actions


def read_log(
    path: str | Path,
    *,
    n_actions: int | None = None,
    least_propensity: float | None = None,
    reward_range: tuple[float, float] | None = None,
    position: int | None = None,
    format: str | None = None,
) -> tuple[Log, tuple[str, ...]]:
    """A log from anyone's file, and what had to be assumed of it, in words; its certificates say so too.

    Parquet or CSV has columns `action`, `reward`, a `propensity` of the played action or `propensities` (lists) or
    `propensity_0`, `propensity_1`, … of all, optionally `round`, `repeats` and `context_id`; the others are features.
    Open Bandit Pipeline's feedback is an .npz file with its keys, and Vowpal Wabbit's dsjson has a line a decision.

    path: of the file.
    n_actions: how many there are, where the file does not tell.
    least_propensity: for logs with the propensity of the played action alone, what every action's was at least, always.
    reward_range: the least and the largest that rewards can be, if not 0 and 1.
    position: which one to take of a feedback with several.
    format: parquet, csv, dsjson or open-bandit; by the file's name if it is not given.

    >>> import pacbandits as pb
    >>> rows = ["age,action,reward,propensity", "20,plain,1,0.5", "30,plain,0,0.5", "40,discount,1,0.5"]
    >>> with open("clicks.csv", "w") as file:
    ...     print(*rows, sep="\\n", file=file)
    >>> log, assumed = pb.read_log("clicks.csv")
    >>> log.samples, log.n_actions, assumed[0]
    (3, 2, "action 0 is 'discount', action 1 is 'plain'")

    Raises:
        InputError: When the file cannot be read, a column is missing, or a value cannot be; it names which.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no file at {path}")
    kind = _format(path, format)
    if position is not None and kind != "open-bandit":
        raise InputError(f"{path} has no positions; leave out the position")
    readers: dict[str, Callable[[], Log]] = {
        "parquet": lambda: _read_table(path, n_actions, least_propensity, reward_range),
        "csv": lambda: _read_table(path, n_actions, least_propensity, reward_range),
        "dsjson": lambda: read_dsjson(
            path, n_actions=n_actions, least_propensity=least_propensity, reward_range=reward_range
        ),
        "open-bandit": lambda: from_open_bandit(
            read_npz(path),
            n_actions=n_actions,
            least_propensity=least_propensity,
            reward_range=reward_range,
            position=position,
        ),
    }
    try:
        log = readers[kind]()
    except InputError as error:
        words = str(error)
        raise error if str(path) in words else InputError(f"{path}: {words}") from None
    return log, log.assumed


def _format(path: Path, asked: str | None) -> str:
    if asked is not None:
        if asked not in FORMATS:
            raise InputError(f"unknown format '{plain(asked)}'{nearest(asked, FORMATS)}")
        return asked
    end = parquet.suffix(path)
    for name, ends in FORMATS.items():
        if end in ends:
            return name
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    known = ", ".join(end for ends in FORMATS.values() for end in ends)
    raise InputError(f"{path} does not end as the name of a log does ({known})")


def _read_table(
    path: Path,
    n_actions: int | None,
    least_propensity: float | None,
    reward_range: tuple[float, float] | None,
) -> Log:
    table = parquet.read(path)
    each = [name for name in table if name.startswith(_EACH) and len(name) > len(_EACH)]
    _check_columns(table, each)
    actions, labels = _pop_actions(table)
    rewards = parquet.pop_floats(table, "reward")
    played = parquet.pop_floats(table, "propensity")
    listed = "propensities" in table
    propensities = parquet.pop_matrix(table, "propensities")
    if listed and each:
        raise InputError(f"there are both 'propensities' and '{each[0]}'; leave one out")
    if listed and labels is not None:
        raise InputError("actions are text and 'propensities' are lists; number the actions from 0, in that order")
    if each:
        propensities = _pop_each(table, each, labels)
    column = _pop_least(table)
    if column is not None and least_propensity is not None:
        raise InputError("there is a column 'least_propensity'; leave out the option")
    least = column if propensities is None and column is not None else least_propensity
    rounds = parquet.pop_integers(table, "round")
    repeats = parquet.pop_integers(table, "repeats")
    assert rewards is not None
    contexts = Contexts.from_columns(table, n=len(actions), any_total=True)
    if contexts.n_features == 0 and contexts.ids is None:
        contexts = replace(contexts, ids=contexts.distinct()[1])
    named = () if labels is None else (", ".join(f"action {i} is '{plain(name)}'" for i, name in enumerate(labels)),)
    width = least.shape[1] if isinstance(least, np.ndarray) and least.ndim == 2 else None
    return make_log(
        contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities,
        played=played,
        least=least,
        n_actions=width if n_actions is None else n_actions,
        reward_range=reward_range,
        rounds=rounds,
        repeats=repeats,
        remarks=(*parquet.read_remarks(path), *named),
        declared=width is not None,
    )


def _check_columns(table: parquet.Columns, each: list[str]) -> None:
    """Raise one line that says all that is missing, what is there, and what may be it."""
    missing = [name for name in ("action", "reward") if name not in table]
    if "propensity" not in table and "propensities" not in table and not each:
        missing.append("propensity")
    if not missing:
        return
    hints = [f"is '{found}' the {name}?" for name in missing if (found := _also_called(name, table)) is not None]
    what = " and ".join(f"'{name}'" for name in missing)
    are = f"column {what} is" if len(missing) == 1 else f"columns {what} are"
    other = " (or 'propensities', of all actions)" if "propensity" in missing else ""
    shown = plain(", ".join(table))
    hint = f"; {' '.join(hints)} rename it" if hints else ""
    raise InputError(f"{are} missing{other}; there are: {shown}{hint}")


def _also_called(name: str, table: parquet.Columns) -> str | None:
    by_name = {column.lower(): column for column in table if column not in ("action", "reward")}
    for other in _ALSO[name]:
        if other in by_name:
            return by_name[other]
    words = re.match(r"; did you mean '(.*)'\? \(known", nearest(name, by_name.values()))
    return words.group(1) if words else None


def _pop_actions(table: parquet.Columns) -> tuple[IntArray, tuple[str, ...] | None]:
    """The actions (n,), and their labels in the order of their numbers if they were text."""
    column: Any = table["action"]
    if not parquet.is_text(column.type):
        actions = parquet.pop_integers(table, "action")
        assert actions is not None
        return actions, None
    del table["action"]
    if column.null_count:
        raise InputError(f"column 'action' has {column.null_count} missing values; fill or drop them")
    texts = [str(text) for text in column.to_pylist()]
    labels = tuple(sorted(set(texts)))
    code = {label: i for i, label in enumerate(labels)}
    return np.array([code[text] for text in texts], dtype=np.int64), labels


def _pop_each(table: parquet.Columns, each: list[str], labels: tuple[str, ...] | None) -> FloatArray:
    """Propensities (n, A) from one column an action."""
    wanted = [str(i) for i in range(len(each))] if labels is None else list(labels)
    lacking = [f"'{_EACH}{name}'" for name in wanted if f"{_EACH}{name}" not in each]
    if lacking:
        raise InputError(f"column {lacking[0]} is missing; there are: {plain(', '.join(each))}")
    if len(each) > len(wanted):
        extra = next(name for name in each if name.removeprefix(_EACH) not in wanted)
        raise InputError(f"column '{plain(extra)}' is of an action that was never played; number the actions from 0")
    columns = [parquet.pop_floats(table, f"{_EACH}{name}") for name in wanted]
    return np.column_stack([column for column in columns if column is not None])


def _pop_least(table: parquet.Columns) -> FloatArray | None:
    column: Any = table.get("least_propensity")
    if column is None:
        return None
    if parquet.is_list(column.type):
        return parquet.pop_matrix(table, "least_propensity")
    return parquet.pop_floats(table, "least_propensity")
