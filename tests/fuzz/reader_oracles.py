"""Independent readings of files: what was accepted must say the same by another way of reading it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import warnings
from datetime import date, datetime, time
from typing import SupportsFloat

import numpy as np
import pyarrow.parquet as pq

from tests.fuzz.reader_parts import File

_TRUTHS = {"true": 1.0, "false": 0.0}
_RESERVED = {"action", "reward", "propensity", "propensities", "least_propensity", "round", "repeats", "context_weight"}


def check_reading(file: File, result: object, kind: str) -> None:
    """Raise AssertionError unless an accepted log, contexts or problem says what the file does.

    kind: what the file was read as: log, contexts or problem.
    """
    if kind == "problem":
        _check_problem(file, result)
    elif file.name.endswith(".npz"):
        _check_feedback(file, result)
    elif "json" in file.name:
        _check_lines(file, result)
    else:
        columns = _parquet_columns(file) if file.name.endswith(".parquet") else _csv_columns(file)
        _check_table(columns, result, kind)


def _parquet_columns(file: File) -> dict[str, list]:
    table = pq.read_table(io.BytesIO(file.data))
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _csv_columns(file: File) -> dict[str, list]:
    data = gzip.decompress(file.data) if file.name.endswith(".gz") else file.data
    text = data.decode("utf-8-sig")
    names = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0])
    delimiter = "\t" if ".tsv" in file.name else ","
    if delimiter == "," and "," not in names:
        delimiter = max(";\t", key=names.count) if ";" in names or "\t" in names else ","
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    assert all(len(row) == len(rows[0]) for row in rows)
    return {name: [row[j] for row in rows[1:]] for j, name in enumerate(rows[0])}


def _number(value: SupportsFloat | str) -> float:
    """A number, or a cell of text that spells one."""
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+", text):
        return float(text.replace(",", ""))
    return float(int(text, 16)) if text.lower().startswith(("0x", "-0x")) else float(text)


def _same_numbers(given: object, values: list) -> None:
    wanted = np.array([_number(value) for value in values])
    assert np.array_equal(np.asarray(given, dtype=float), wanted)


def _is_missing(value: object) -> bool:
    """Whether a cell is empty, or says that nothing is there."""
    spelled = {"", "na", "n/a", "nan", "-nan", "null", "#n/a", "#n/a n/a", "#na", "1.#ind", "-1.#ind"}
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in spelled)


def _same_features(given: np.ndarray, values: list) -> None:
    wanted = np.array([math.nan if _is_missing(value) else _number(value) for value in values])
    assert np.allclose(given, wanted, rtol=1e-15, atol=0.0, equal_nan=True)


def _same_labels(given: list[str], values: list) -> None:
    for label, value in zip(given, values, strict=True):
        assert label == value or (_is_missing(value) and label.strip("()") == "missing")


def _with_dates(columns: dict[str, list], names: tuple[str, ...]) -> dict[str, list]:
    """The columns, those of dates and times as what is made of them; names: of the features, as a hint."""
    out: dict[str, list] = {}
    for name, column in columns.items():
        made = {name: column} if name in names else _calendar(name, column)
        out |= {new: values for new, values in made.items() if new in names or not new.endswith(" hour")}
    return out


def _calendar(name: str, column: list) -> dict[str, list]:
    if all(_is_missing(value) for value in column):
        return {name: column}
    times = [None if _is_missing(value) else _moment(value) for value in column]
    hours = [
        t
        if t is None or (isinstance(t, date) and not isinstance(t, datetime))
        else t.hour + t.minute / 60 + (t.second + t.microsecond / 1e6) / 3600
        for t in times
    ]
    if any(isinstance(t, time) for t in times):
        return {f"{name} hour": hours}
    days = [None if t is None else t.toordinal() - date(1970, 1, 1).toordinal() for t in times]
    weekdays = [None if t is None else ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[t.weekday()] for t in times]
    return {f"{name} weekday": weekdays, f"{name} days since 1970-01-01": days, f"{name} hour": hours}


def _moment(value: object) -> date | time:
    if not isinstance(value, str):
        return value
    return time.fromisoformat(value) if ":" in value[:3] else datetime.fromisoformat(value)


def _check_table(columns: dict[str, list], result, kind: str) -> None:
    contexts = result.contexts if kind == "log" else result
    n = len(next(iter(columns.values())))
    assert len(contexts) == n
    other = {"context_id", "context_weight"}
    if isinstance(columns.get("phi", [0])[0], list):
        other.add("phi")
    if kind == "log":
        other |= _RESERVED | {name for name in columns if name.startswith("propensity_")}
    other |= {""} - set(contexts.names)  # the numbers of rows, as R and pandas write them
    features = _with_dates({name: column for name, column in columns.items() if name not in other}, contexts.names)
    assert list(contexts.names) == list(features)
    for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
        if labels is None:
            _same_features(contexts.features[:, j], features[name])
        else:
            _same_labels([labels[int(code)] for code in contexts.features[:, j]], features[name])
    if "context_id" in columns:
        _same_numbers(contexts.ids, columns["context_id"])
    if "phi" in other:
        assert np.array_equal(contexts.phi.array, np.array(columns["phi"]))
    if kind == "log":
        _check_log(columns, result)


def _check_log(columns: dict[str, list], log) -> None:
    _same_numbers(log.rewards, columns["reward"])
    # Of true and false, and of 1 and 0 beside them, the names are no and yes.
    if log.action_names not in (None, ("no", "yes")):
        assert [log.action_names[action] for action in log.actions] == columns["action"]
    else:
        _same_numbers(log.actions, columns["action"])
    if "propensity" in columns and "propensities" not in columns:
        told = np.array([_number(value) for value in columns["propensity"]])
        assert np.allclose(log.played_propensities, told, rtol=1e-6, atol=1e-9)
    if "propensities" in columns:
        assert np.array_equal(log.propensities, np.array(columns["propensities"], dtype=float))
    for name, given in (("round", log.rounds), ("repeats", log.repeats)):
        if name in columns:
            _same_numbers(given, columns[name])
    assert np.ptp(log.contexts.weights) == 0


def _check_lines(file: File, log) -> None:
    data = gzip.decompress(file.data) if file.name.endswith(".gz") else file.data
    values = [json.loads(line) for line in data.decode("utf-8-sig").split("\n") if line.strip()]
    told = [
        value
        for value in values
        if value.get("_label_cost") is not None
        and value.get("_label_probability") is not None
        and value.get("_skipLearn") is not True
    ]
    assert len(log) == len(told)
    assert np.array_equal(log.rewards, [-value["_label_cost"] for value in told])
    said = [(value.get("_labelIndex"), value.get("_label_Action"), value.get("a")) for value in told]
    index = [
        place if place is not None else number - 1 if number is not None else ranked[0] - (0 not in ranked)
        for place, number, ranked in said
    ]
    assert np.array_equal(log.actions, index)
    assert np.allclose(log.played_propensities, [value["_label_probability"] for value in told], rtol=1e-3)
    rows = [_named_values(value.get("c")) for value in told]
    assert set(log.contexts.names) == {name for row in rows for name in row}
    for j, (name, labels) in enumerate(zip(log.contexts.names, log.contexts.categories, strict=True)):
        if labels is None:
            _same_numbers(log.contexts.features[:, j], [row.get(name, 0.0) for row in rows])
        else:
            said = [labels[int(code)] for code in log.contexts.features[:, j]]
            assert said == [str(row.get(name, "")) for row in rows]


def _named_values(context: object) -> dict[str, object]:
    """The features of a context by their names."""
    out: dict[str, object] = {}
    left = [("", context if isinstance(context, dict) else {})]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{key}" if name else key, part) for key, part in value.items() if key[:1] != "_"]
        elif isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            left.append((name, value[0]))
        elif isinstance(value, list):
            left += [(f"{name}.{i}", part) for i, part in enumerate(value)]
        elif value is not None:
            out[name] = str(value).lower() if isinstance(value, bool) else value
    return out


def _load(file: File, names: list[str]) -> dict[str, np.ndarray]:
    with warnings.catch_warnings(), np.load(io.BytesIO(file.data), allow_pickle=False) as archive:
        warnings.simplefilter("ignore")  # on headers of old files
        return {name: archive[name] for name in names if name in archive.files}


def _load_unless_none(file: File, name: str) -> np.ndarray | None:
    """An array, or None for a None, which can only be pickled."""
    try:
        return _load(file, [name]).get(name)
    except ValueError:
        return None


def _check_feedback(file: File, log) -> None:
    arrays = _load(file, ["action", "reward", "context"])
    rows = np.arange(len(arrays["action"]))
    position, told = (_load_unless_none(file, name) for name in ("position", "pscore"))
    if position is not None:
        assert len(np.unique(position)) == 1
    assert np.array_equal(log.actions, arrays["action"][rows])
    assert np.array_equal(log.rewards, arrays["reward"])
    assert np.array_equal(log.contexts.features, arrays["context"])
    assert told is None or np.allclose(log.played_propensities, told, rtol=0, atol=1e-9)


def _check_problem(file: File, problem) -> None:
    arrays = _load(file, ["context_weights", "mean_rewards", "policy_actions"])
    assert np.array_equal(problem.mean_rewards, arrays["mean_rewards"])
    assert np.array_equal(problem.policies.table, arrays["policy_actions"])
    assert math.isclose(problem.population.weights[0], arrays["context_weights"][0], rel_tol=1e-6)
