"""Edits of JSON that know what they edit: a number becomes another number, a list shrinks, a key is lost.

An edit says what it did, so that a failure can be made again by hand.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Path = tuple[str | int, ...]

CODES = "\x1b[2J\x1b[1;1Hgood: all is well\n\u202egnorw\u200b\x9b31m\x07 [red]x[/red] [/]"
STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    10**8,
    10**30,
    10**400,
    -(10**400),
    0.5,
    3000.0003,
    -0.0,
    1e308,
    -1e308,
    1e-300,
    float("nan"),
    float("inf"),
    "",
    "3",
    "true",
    "NaN",
    CODES,
    "\ud800",
    "x" * 200_000,
    [],
    {},
    [[]],
    [None],
    [0] * 100_000,
    {"kind": "either"},
    {"kind": "given", "n_actions": 2, "dimension": 10**8},
    {"kind": "trivial", "n_actions": 10**8, "n_contexts": 10**8},
)


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where every value within a value is."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from paths(inner, (*path, i))


def at(value: Any, path: Path) -> Any:
    """The value at a place."""
    for step in path:
        value = value[step]
    return value


def of_number(value: float, rng: np.random.Generator) -> Any:
    """Another number, or the same in other words."""
    nearby = (value + 1, value - 1, -value, value * 2, value / 2, value * 1.0001, value * (1 - 1e-3), value + 1e-7)
    words = (float(value), str(value), [value], 10 * value, bool(value), value * 1e6, value * 1e-6, value + 0.0003)
    return [*nearby, *words][int(rng.integers(len(nearby) + len(words)))]


def of_text(value: str, rng: np.random.Generator) -> Any:
    """Another text."""
    others = ("", value + " ", value.upper(), value[:-1], CODES + value, value + "\u2028", [value], value * 3000, 7)
    return others[int(rng.integers(len(others)))]


def of_list(value: list[Any], rng: np.random.Generator) -> Any:
    """A list with fewer, more or other entries, or in another order."""
    others = (
        value[1:],
        value[:-1],
        [*value, *value[-1:]],
        [*value, None],
        value[::-1],
        [value],
        {str(i): one for i, one in enumerate(value)},
        value * 500 if len(value) < 200 else [],
        sorted(value, key=repr),
    )
    return others[int(rng.integers(len(others)))]


def of_object(value: dict[str, Any], rng: np.random.Generator) -> Any:
    """An object that lacks a field, has another, or has two swapped."""
    keys = list(value)
    if not keys:
        return {"extra": 1}
    one, two = (keys[int(i)] for i in rng.integers(len(keys), size=2))
    others = (
        {key: inner for key, inner in value.items() if key != one},
        value | {"extra": copy.deepcopy(value[one])},
        value | {one: value[two], two: value[one]},
        value | {one: value[two]},
        {f"{key} " if key == one else key: inner for key, inner in value.items()},
        list(value.items()),
        dict(reversed(value.items())),
    )
    return others[int(rng.integers(len(others)))]


def mutate(value: dict[str, Any], rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """One edit at a random place, and what it was, in words."""
    out = copy.deepcopy(value)
    every = list(paths(out))[1:]
    # The few fields at the top matter as much as the many entries of tables.
    top = [path for path in every if len(path) <= 2]
    spots = top if rng.random() < 0.5 else every
    path = spots[int(rng.integers(len(spots)))]
    before = at(out, path)
    after: Any
    if rng.random() < 0.35:
        after = STRANGE[int(rng.integers(len(STRANGE)))] if rng.random() < 0.97 else nested(300)
    elif isinstance(before, bool) or before is None:
        after = (not before, 0, 1, "true", None)[int(rng.integers(5))]
    elif isinstance(before, int | float):
        after = of_number(before, rng)
    elif isinstance(before, str):
        after = of_text(before, rng)
    else:
        after = (of_list if isinstance(before, list) else of_object)(before, rng)
    at(out, path[:-1])[path[-1]] = after
    return f"{list(path)}: {json.dumps(before)[:60]} → {json.dumps(after)[:60]}", out


# Damage to the text of a file, by what it is called.
DAMAGE: dict[str, Callable[[str], bytes]] = {
    "empty": lambda _: b"",
    "cut in half": lambda text: text[: len(text) // 2].encode(),
    "something after the end": lambda text: (text + "{}").encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "Latin-1": lambda text: text.replace("moon", "m\u00f6\u00f6n").encode("latin-1", errors="replace"),
    "a byte order mark": lambda text: text.encode("utf-8-sig"),
    "no text": lambda _: bytes(range(256)),
    "a list": lambda text: f"[{text}]".encode(),
    "a number": lambda _: b"17",
    "nothing but brackets": lambda _: b"[" * 10**6,
    "a key twice": lambda text: text.replace('"delta":', '"delta": 1e-9, "delta":', 1).encode(),
    "a key of the policy twice": lambda text: text.replace('"kind": "t', '"kind": "x", "kind": "t').encode(),
    "infinity": lambda text: text.replace('"delta": 0.1', '"delta": 1e999').encode(),
    "NaN": lambda text: text.replace('"delta": 0.1', '"delta": NaN').encode(),
    "five thousand digits": lambda text: text.replace('"delta": 0.1', f'"delta": {"1" * 5000}').encode(),
    "a null character": lambda text: text.replace("moon", "\x00").encode(),
    "half a character": lambda text: text.replace("moon", "\\ud800").encode(),
}
