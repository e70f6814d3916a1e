"""Logs of Vowpal Wabbit: dsjson, with one decision per line."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError, count_of, plain
from pacbandits.logs.raw_log import RawLog, make_log
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.records.columns import CellNames
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.text_files import (
    NUMBER_BYTES,
    check_columns,
    check_file,
    check_unpacked,
    is_zipped,
    open_text,
    why,
)
from pacbandits.schema import MAX_JSON_DEPTH, MAX_WHOLE_NUMBER, check_characters

# Sparse features: a line has only the features it names.


Value = float | str


@dataclass(eq=False)
class _Feature:
    """The values of a feature in the rows that have it.

    rows: these rows.
    values: one per row.
    """

    rows: array[int] = field(default_factory=lambda: array("q"))
    values: list[Value] = field(default_factory=list[Value])


@dataclass(eq=False)
class SparseFeatures:
    """Features by name, each with its values in the rows that name it.

    named: the features.
    """

    named: dict[str, _Feature] = field(default_factory=dict[str, _Feature])

    def add(self, row: int, pairs: Iterable[tuple[str, Value]], *, line: int) -> None:
        """Add the features of a row; line: its line in the file."""
        for name, value in pairs:
            feature = self.named.get(name)
            if feature is None:
                check_characters(name, name=f"line {line}")
                check_columns(len(self.named) + 1)
                feature = self.named[name] = _Feature()
            if feature.rows and feature.rows[-1] == row:
                raise InputError(f"line {line} names the feature '{plain(name)}' twice")
            if isinstance(value, str):
                check_characters(value, name=f"line {line}")
            feature.rows.append(row)
            feature.values.append(value)

    def contexts(self, n: int, *, size: int) -> Contexts:
        """Return contexts of n rows: a missing number is 0, a missing label is empty.

        size: the size of the source file in bytes.
        """
        remedy = "leave out features that few lines have"
        check_unpacked(NUMBER_BYTES * n * len(self.named), size=size, remedy=remedy)
        out = np.zeros((n, len(self.named)))
        categories: list[tuple[str, ...] | None] = []
        for j, (name, feature) in enumerate(self.named.items()):
            labels, values = _coded(feature, name=name, lacking=len(feature.rows) < n)
            rows = np.array(feature.rows)
            if labels is not None:
                out[:, j] = labels.index("") if "" in labels else 0
            out[rows, j] = values
            categories.append(labels)
        out.setflags(write=False)
        ids = None if self.named else np.zeros(n, dtype=np.int64)
        return Contexts.of(out, names=list(self.named), categories=categories, ids=ids)


def _coded(feature: _Feature, *, name: str, lacking: bool) -> tuple[tuple[str, ...] | None, FloatArray]:
    """Return the labels of a feature with any text value, or None; and its values, or codes into the labels."""
    if not any(isinstance(value, str) for value in feature.values):
        return None, floats(np.array(feature.values, dtype=object), name=f"feature '{plain(name)}'", shape=(None,))
    texts = [str(value) for value in feature.values]
    labels = tuple(sorted({*texts, ""} if lacking else set(texts)))
    code = {label: k for k, label in enumerate(labels)}
    return labels, np.array([code[text] for text in texts], dtype=np.float64)


def flatten(value: Any, *, line: int, name: str = "", depth: int = 0) -> Iterator[tuple[str, Value]]:
    """Yield the features in a JSON value by name: members of objects after a dot, entries of lists by number."""
    if depth > MAX_JSON_DEPTH:
        raise InputError(f"line {line} is nested too deep: at most {MAX_JSON_DEPTH} values within each other")
    if isinstance(value, dict):
        for key, part in cast(dict[str, Any], value).items():
            if not key.startswith("_"):
                yield from flatten(part, line=line, name=f"{name}.{key}" if name else key, depth=depth + 1)
    elif isinstance(value, list):
        parts = cast(list[Any], value)
        for i, part in enumerate(parts):
            alone = len(parts) == 1 and isinstance(part, dict)
            yield from flatten(part, line=line, name=name if alone else f"{name}.{i}", depth=depth + 1)
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    elif isinstance(value, int | float | str):
        yield name, value


MAX_LINE_BYTES = 2**23
_LEAST_LINE_BYTES = 2**8  # about the memory of a short line
_PROBABILITY_SUM_ROUNDING = 1e-5  # how far probabilities in single precision may sum from 1


def read_dsjson(path: Path, options: ReadingOptions) -> Log:
    """Return a log from Vowpal Wabbit's dsjson, one decision per line; rewards are the negative costs.

    Actions are numbered from 0, in the order of `_multi`, or named by the field of its entries that the options name,
    whatever their order is. Shared features become columns `namespace.name`; a missing number is 0, a missing label is
    empty. Features of actions are ignored.
    """
    read = _read_decisions(path, identified_by=options.action)
    count = read.n_actions if read.n_actions is not None else options.n_actions
    if options.n_actions is not None and count != options.n_actions:
        raise InputError(f"the lines have {count} actions, but were said to have {options.n_actions}")
    said = (
        (f"the {count_of(read.skipped, 'line')} without a decision and its cost may be left out", read.skipped > 0),
        ("lines were dropped ('pdrop') whatever happened in them", read.dropped),
        ("an action means the same in every line, though its features vary", read.varied),
    )
    raw = RawLog(
        read.shared.contexts(len(read.lines), size=check_file(path)),
        actions=np.array(read.actions),
        rewards=0.0 - np.array(read.costs),
        propensities=np.array(read.propensities).reshape(len(read.lines), -1) if read.propensities else None,
        played=np.array(read.played),
        least=options.least_propensity,
        n_actions=count,
        declared=read.n_actions is not None,
        stated=options.n_actions is not None,
        remarks=[words for words, true in said if true],
        cells=CellNames(read.lines.__getitem__),
        names=read.names,
        numbered=False,
    )
    return make_log(raw, options)


@dataclass(frozen=True, eq=False)
class _Decision:
    """The decision of a line.

    action: the played action, from 0.
    cost: the negative reward.
    probability: the propensity of the played action.
    propensities (A,): those of all actions; None if the line lacks them.
    n_actions: None if the line lacks it.
    context: the features of the context, as in the line.
    features_of_actions: as in the line, or None.
    names (A,): the names of the actions, sorted, if a field identifies them; the others are then in their order.
    dropped: whether lines like this one were dropped at random.
    """

    action: int
    cost: float
    probability: float
    propensities: list[float] | None
    n_actions: int | None
    context: dict[str, Any]
    features_of_actions: list[Any] | None
    names: tuple[str, ...] | None
    dropped: bool


@dataclass(eq=False)
class _Decisions:
    """The decisions of n lines, all of one kind; takes less memory than the lines.

    lines (n,): line numbers in the file, from 1.
    actions (n,), costs (n,), played (n,): the actions, their costs and probabilities.
    propensities (n·A,): of all actions, line after line; empty if the lines lack them.
    shared: the features of contexts.
    n_actions: the number of actions, if the lines contain it.
    names (A,): the names of the actions, if a field identifies them.
    features_of_actions: those of the first line, or None.
    skipped: the number of lines without a decision whose cost is known.
    dropped: whether lines were dropped at random.
    varied: whether the features of actions differ between lines.
    """

    lines: array[int] = field(default_factory=lambda: array("q"))
    actions: array[int] = field(default_factory=lambda: array("q"))
    costs: array[float] = field(default_factory=lambda: array("d"))
    played: array[float] = field(default_factory=lambda: array("d"))
    propensities: array[float] = field(default_factory=lambda: array("d"))
    shared: SparseFeatures = field(default_factory=SparseFeatures)
    n_actions: int | None = None
    names: tuple[str, ...] | None = None
    features_of_actions: list[Any] | None = None
    skipped: int = 0
    dropped: bool = False
    varied: bool = False

    def add(self, line: int, one: _Decision) -> None:
        """Add the decision of a line; raise InputError unless it is of the same kind as those before."""
        if not self.lines:
            self.n_actions, self.names, self.features_of_actions = one.n_actions, one.names, one.features_of_actions
        elif one.n_actions != self.n_actions:
            raise InputError(
                f"line {line} has {one.n_actions} actions and line {self.lines[0]} has {self.n_actions}; policies need "
                "the same ones throughout"
            )
        elif (one.propensities is None) == bool(self.propensities):
            raise InputError(f"of lines {self.lines[0]} and {line} only one has probabilities of all actions ('p')")
        elif one.names != self.names:
            assert one.names is not None
            assert self.names is not None
            new = next(name for name in one.names if name not in self.names)
            raise InputError(
                f"line {line} offers '{plain(new)}', which line {self.lines[0]} does not; policies need the same "
                "actions throughout"
            )
        elif one.names is None and (key := _moved(one.features_of_actions, self.features_of_actions)):
            raise InputError(
                f"line {line} lists the actions in another order than line {self.lines[0]}, or other actions, by "
                f"their '{key}'; say that it identifies them (--action {key})"
            )
        self.shared.add(len(self.lines), flatten(one.context, line=line), line=line)
        self.lines.append(line)
        self.actions.append(one.action)
        self.costs.append(one.cost)
        self.played.append(one.probability)
        self.propensities.extend(one.propensities or ())
        self.dropped = self.dropped or one.dropped
        self.varied = self.varied or one.features_of_actions != self.features_of_actions


def _read_decisions(path: Path, *, identified_by: str | None) -> _Decisions:
    """Return the decisions of a file; raise InputError if there are none."""
    read = _Decisions()
    for number, value in _json_lines(path):
        decision = _decision(number, value, identified_by)
        if decision is None:
            read.skipped += 1
        else:
            read.add(number, decision)
    if not read.lines:
        raise InputError(f"no line of {path} has a cost and a probability ('_label_cost', '_label_probability')")
    return read


def _decision(line: int, value: Any, identified_by: str | None) -> _Decision | None:
    """Return the decision of a line, or None if it has none whose cost is known."""
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
        start = 0 if 0 in ranked else 1  # most files count from 1 here
        named = list(range(start, start + len(ranked)))
        if any(type(action) is not int for action in ranked) or sorted(ranked) != named:
            raise InputError(f"line {line}: 'a' must name each of the actions 1 to {len(ranked)} once")
        ranked = [action + 1 - start for action in ranked]
    action = _chosen(given, ranked, line)
    if not 0 <= action < (counts[0] if counts else MAX_WHOLE_NUMBER):
        raise InputError(f"line {line} plays action {plain(action + 1)}" + (f" of {counts[0]}" if counts else ""))
    propensities, names = _ranked_propensities(given, ranked, line), None
    if identified_by is not None:
        ids = _ids(multi or [], identified_by, line)
        order = sorted(range(len(ids)), key=ids.__getitem__)
        names, action = tuple(ids[i] for i in order), order.index(action)
        multi = [(multi or [])[i] for i in order]
        propensities = None if propensities is None else [propensities[i] for i in order]
    return _Decision(
        action=action,
        cost=_number(cost, "_label_cost", line),
        probability=_number(probability, "_label_probability", line),
        propensities=propensities,
        n_actions=counts[0] if counts else None,
        context=context,
        features_of_actions=multi,
        names=names,
        dropped=bool(given.get("pdrop")),
    )


# The fields by which Vowpal Wabbit and Azure Personalizer identify actions.
_ID_FIELDS = ("_tag", "i.id")


def _id(action: Any, key: str) -> str | None:
    """Return what a field of an action, such as `i.id`, says, or None if it lacks the field."""
    for part in key.split("."):
        if isinstance(action, list) and len(cast(list[Any], action)) == 1:
            action = cast(list[Any], action)[0]
        action = cast(dict[str, Any], action).get(part) if isinstance(action, dict) else None
    return str(action) if isinstance(action, str | int) and not isinstance(action, bool) else None


def _ids(actions: list[Any], key: str, line: int) -> list[str]:
    """Return the id of each action (A,) by a field; raise InputError unless each has its own."""
    out: list[str] = []
    for i, action in enumerate(actions):
        found = _id(action, key)
        if found is None:
            raise InputError(
                f"line {line}: action {i + 1} of '_multi' has no text or whole number '{plain(key)}'; name the field "
                "that identifies actions, --action _tag or --action i.id, or leave out --action"
            )
        check_characters(found, name=f"line {line}")
        if found in out:
            raise InputError(f"line {line} offers '{plain(found)}' twice")
        out.append(found)
    if not out:
        raise InputError(f"line {line} does not list its actions ('_multi'); leave out --action")
    return out


def _moved(actions: list[Any] | None, others: list[Any] | None) -> str | None:
    """Return a field that identifies the actions of two lines and shows that they differ by place, or None."""
    for key in _ID_FIELDS:
        mine, theirs = ([_id(action, key) for action in each or []] for each in (actions, others))
        if mine != theirs and None not in (*mine, *theirs):
            return key
    return None


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield every line that is not empty, with its number from 1."""
    size, zipped, length, number = check_file(path), is_zipped(path), 0, 0
    try:
        with open_text(path) as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                number, length = number + 1, length + max(len(line), _LEAST_LINE_BYTES)
                if len(line) > MAX_LINE_BYTES:
                    raise InputError(f"line {number} of {path} has more than {MAX_LINE_BYTES:,} bytes")
                if zipped:
                    check_unpacked(length, size=size, remedy="unpack it, and read that")
                if line.strip():
                    yield number, _parse(line, number)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {why(error)}") from None


def _parse(line: bytes, number: int) -> Any:
    """Return the JSON value of a line; raise InputError if a key is repeated."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeError:
        raise InputError(f"line {number} is not UTF-8 text") from None
    except RecursionError:
        raise InputError(f"line {number} is not JSON: it is nested too deep") from None
    except ValueError as error:
        raise InputError(f"line {number} is not JSON: {plain(error)}") from None


def _paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"an object has a name twice, one of {', '.join(made)}")
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_paired)


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
    """Return the played action, from 0; the three fields that name it must agree."""
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
    """Return probabilities by action from those by rank, normalised, as they were rounded."""
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
