"""Logs of Vowpal Wabbit: dsjson, a decision a line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError, plain
from pacbandits.logs.raw import RawLog, ReadingOptions, make_log
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log

_PROBABILITY_SUM_ROUNDING = 1e-5  # how far probabilities that were rounded to single precision may sum from 1


def read_dsjson(path: Path, options: ReadingOptions) -> Log:
    """A log from Vowpal Wabbit's dsjson, a decision a line; rewards are the negative costs.

    Actions are numbered from 0, in the order of `_multi`. Shared features become columns `namespace.name`; a number
    that a line lacks is 0, a label it lacks is empty. Features of actions are not looked at.
    """
    events, skipped = _events(path)
    first = events[0]
    count = first.n_actions if first.n_actions is not None else options.n_actions
    if options.n_actions is not None and count != options.n_actions:
        raise InputError(f"the lines have {count} actions, but were said to have {options.n_actions}")
    varied = any(event.features_of_actions != first.features_of_actions for event in events)
    said = (
        (f"the {skipped} lines without a decision and its cost may be left out", skipped > 0),
        ("lines were dropped ('pdrop') whatever happened in them", any(event.dropped for event in events)),
        ("an action means the same in every line, though its features vary", varied),
    )
    full = [event.propensities for event in events if event.propensities is not None]
    raw = RawLog(
        _shared_contexts([event.shared for event in events]),
        actions=[event.action for event in events],
        rewards=[0.0 - event.cost for event in events],
        propensities=full or None,
        played=[event.probability for event in events],
        least=options.least_propensity,
        n_actions=count,
        declared=first.n_actions is not None,
        remarks=[words for words, true in said if true],
        lines=[event.line for event in events],
    )
    return make_log(raw, reward_range=options.reward_range)


@dataclass(frozen=True, eq=False)
class _Event:
    """A decision.

    line: of the file, from 1.
    action: the one played, from 0.
    cost: the negative reward.
    probability: of the played action.
    propensities (A,): of all actions; None if the line does not tell.
    n_actions: None if the line does not tell.
    shared: features of the context, by name.
    features_of_actions: as the line tells them, or None.
    dropped: whether lines like this one were dropped at random.
    """

    line: int
    action: int
    cost: float
    probability: float
    propensities: list[float] | None
    n_actions: int | None
    shared: dict[str, float | str]
    features_of_actions: list[Any] | None
    dropped: bool


def _events(path: Path) -> tuple[list[_Event], int]:
    """The decisions of a file, all of one kind and at least one, and how many lines hold none whose cost is known."""
    events: list[_Event] = []
    skipped = 0
    for number, value in _json_lines(path):
        event = _event(number, value)
        if event is None:
            skipped += 1
            continue
        if events and event.n_actions != events[0].n_actions:
            raise InputError(
                f"line {number} has {event.n_actions} actions and line {events[0].line} has {events[0].n_actions}; "
                "policies need the same ones throughout"
            )
        if events and (event.propensities is None) != (events[0].propensities is None):
            raise InputError(f"of lines {events[0].line} and {number} only one has probabilities of all actions ('p')")
        events.append(event)
    if not events:
        raise InputError(f"no line of {path} has a cost and a probability ('_label_cost', '_label_probability')")
    return events, skipped


def _event(line: int, value: Any) -> _Event | None:
    """The decision of a line, or None if it holds none whose cost is known."""
    if not isinstance(value, dict):
        raise InputError(f"line {line} is not a JSON object")
    given = cast(dict[str, Any], value)
    inside = given.get("c")
    context = cast(dict[str, Any], inside) if isinstance(inside, dict) else {}
    if "_slots" in context or "_outcomes" in given:
        raise InputError(f"line {line} decides on several slots; only lines with one action can be read")
    cost, probability = given.get("_label_cost"), given.get("_label_probability")
    if cost is None or probability is None or given.get("_skipLearn") is True:
        return None
    ranked, multi = _list(given, "a", line), _list(context, "_multi", line)
    counts = [len(part) for part in (ranked, multi) if part is not None]
    if len(set(counts)) > 1:
        raise InputError(f"line {line} ranks {counts[0]} actions ('a') of {counts[1]} ('_multi'); all are needed")
    if ranked is not None:
        start = 0 if 0 in ranked else 1  # most count from 1 here
        named = list(range(start, start + len(ranked)))
        if any(type(action) is not int for action in ranked) or sorted(ranked) != named:
            raise InputError(f"line {line}: 'a' must name each of the actions 1 to {len(ranked)} once")
        ranked = [action + 1 - start for action in ranked]
    action = _chosen(given, ranked, line)
    if action < 0 or (counts and action >= counts[0]):
        raise InputError(f"line {line} plays action {action + 1}" + (f" of {counts[0]}" if counts else ""))
    return _Event(
        line=line,
        action=action,
        cost=_number(cost, "_label_cost", line),
        probability=_number(probability, "_label_probability", line),
        propensities=_ranked_propensities(given, ranked, line),
        n_actions=counts[0] if counts else None,
        shared=dict(_flat(context, "")),
        features_of_actions=multi,
        dropped=bool(given.get("pdrop")),
    )


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Every line that is not empty, with its number from 1."""
    zipped = path.name.lower().endswith(".gz")
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if zipped else path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield number, json.loads(text)
    except UnicodeError:
        raise InputError(f"line {number + 1} of {path} is not UTF-8 text") from None
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {plain(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} of {path} is not JSON: {plain(error)}") from None


def _number(value: Any, name: str, line: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise InputError(f"line {line}: '{name}' must be a number, got {plain(value)}")
    return float(value)


def _list(value: dict[str, Any], name: str, line: int) -> list[Any] | None:
    given = value.get(name)
    if given is None:
        return None
    if not isinstance(given, list):
        raise InputError(f"line {line}: '{name}' must be a list, got {plain(given)}")
    return cast(list[Any], given)


def _chosen(value: dict[str, Any], ranked: list[Any] | None, line: int) -> int:
    """The played action, from 0: each of the three ways to say it must say the same."""
    ways = {
        "_label_Action": (value.get("_label_Action"), 1),
        "_labelIndex": (value.get("_labelIndex"), 0),
        "a": (ranked[0] if ranked else None, 1),
    }
    found: dict[str, int] = {}
    for name, (given, first) in ways.items():
        if given is not None:
            if isinstance(given, bool) or not isinstance(given, int):
                raise InputError(f"line {line}: '{name}' must be the number of an action, got {plain(given)}")
            found[name] = given - first
    if not found:
        raise InputError(f"line {line} does not say which action was played ('_label_Action')")
    if len(set(found.values())) > 1:
        said = ", ".join(f"{action + 1} by '{name}'" for name, action in found.items())
        raise InputError(f"line {line} played different actions, counted from 1: {said}")
    return next(iter(found.values()))


def _ranked_propensities(value: dict[str, Any], ranked: list[Any] | None, line: int) -> list[float] | None:
    """Probabilities by action from those by rank; they were rounded, and are made to sum to 1."""
    given = _list(value, "p", line)
    if given is None:
        return None
    if ranked is None or len(ranked) != len(given):
        raise InputError(f"line {line}: 'p' must have a probability for each action of 'a'")
    chances = [_number(p, "p", line) for p in given]
    total = sum(chances)
    if min(chances) < 0 or abs(total - 1.0) > _PROBABILITY_SUM_ROUNDING:
        raise InputError(f"line {line}: the probabilities 'p' must not be negative and sum to 1, got {total:.10g}")
    out = [0.0] * len(given)
    for action, chance in zip(ranked, chances, strict=True):
        out[action - 1] = chance / total
    return out


def _flat(value: Any, name: str) -> Iterator[tuple[str, float | str]]:
    """The features in a JSON value by name: those of objects after a dot, of lists by their number."""
    if isinstance(value, dict):
        for key, part in cast(dict[str, Any], value).items():
            if not key.startswith("_"):
                yield from _flat(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        parts = cast(list[Any], value)
        for i, part in enumerate(parts):
            alone = len(parts) == 1 and isinstance(part, dict)
            yield from _flat(part, name if alone else f"{name}.{i}")
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    elif isinstance(value, int | float | str):
        yield name, value


def _shared_contexts(rows: list[dict[str, float | str]]) -> Contexts:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: list[FloatArray] = []
    categories: list[tuple[str, ...] | None] = []
    for name in names:
        if any(isinstance(row.get(name), str) for row in rows):
            texts = [str(row.get(name, "")) for row in rows]
            labels = tuple(sorted(set(texts)))
            code = {label: i for i, label in enumerate(labels)}
            columns.append(np.array([code[text] for text in texts], dtype=np.float64))
            categories.append(labels)
        else:
            columns.append(floats([row.get(name, 0.0) for row in rows], name=f"feature '{plain(name)}'", shape=(None,)))
            categories.append(None)
    features = np.column_stack(columns) if columns else np.empty((len(rows), 0))
    return Contexts.of(
        features,
        names=names,
        categories=categories,
        ids=None if names else np.zeros(len(rows), dtype=np.int64),
    )
