"""Read a plan's assumptions, with its scenarios, from a TOML file.

actions = 6
baseline = 0.05
epsilon = 0.02
traffic = "4000/week"

[[scenario]]
kind = "segments"
effect = 0.04
share = 0.25
weight = 2
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pacbandits.errors import InputError, nearest, plain
from pacbandits.problems.scenarios import Scenario
from pacbandits.records.text_files import naming, read_toml
from pacbandits.schema import flag, number, numbers, rate, text, whole_number

SCENARIO_KEYS = ("kind", "effect", "share", "matter", "weight", "name")


def two_numbers(value: object, *, name: str) -> tuple[float, float]:
    """Return a list of two numbers as a pair."""
    low, high = numbers(value, name=name, shortest=2, longest=2)
    return low, high


def _effect(value: object, *, name: str) -> float | str:
    """Return a number, or text as `plan` reads it: "+20%" of the baseline, "2%"."""
    return text(value, name=name) if isinstance(value, str) else number(value, name=name)


# Keys at the top level, with their names as arguments of `plan`, and their readers.
KEYS: dict[str, tuple[str, Any]] = {
    "actions": ("n_actions", whole_number),
    "policies": ("policies", text),
    "epsilon": ("epsilon", rate),
    "delta": ("delta", rate),
    "baseline": ("baseline", rate),
    "spread": ("spread", number),
    "reward_range": ("reward_range", two_numbers),
    "variation": ("variation", rate),
    "effect": ("effect", _effect),
    "share": ("share", rate),
    "control": ("control", whole_number),
    "traffic": ("traffic", text),
    "delay": ("delay", whole_number),
    "batched": ("batched", flag),
    "budget": ("budget", whole_number),
    "seed": ("seed", whole_number),
}


def read_scenarios(path: str | Path) -> dict[str, Any]:
    """Read the assumptions in a file, by their names as arguments of `plan`.

    Raises:
        InputError: If the file cannot be read, or has an invalid entry; the message names it.
    """
    source = Path(path)
    with naming(source):
        return _read(read_toml(source))


def _read(given: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if not given:
        raise InputError('is empty; start with baseline = 0.05, or with a [[scenario]] and its kind = "winner"')
    for key, value in given.items():
        if key == "scenario":
            listed = cast(list[object], value) if isinstance(value, list) else [value]
            out["scenarios"] = tuple(_scenario(one, i + 1) for i, one in enumerate(listed))
        elif key in KEYS:
            name, read = KEYS[key]
            out[name] = read(value, name=f"'{key}'")
        else:
            raise InputError(f"unknown key '{plain(key)}'{nearest(key, (*KEYS, 'scenario'))}")
    return out


def _scenario(value: object, which: int) -> Scenario:
    """One scenario of the file."""
    if not isinstance(value, dict):
        raise InputError("scenarios are tables: [[scenario]], and below it kind = …")
    given = cast(dict[str, Any], value)
    for key in given:
        if key not in SCENARIO_KEYS:
            raise InputError(f"scenario {which} has an unknown key '{plain(key)}'{nearest(key, SCENARIO_KEYS)}")
    if "kind" not in given:
        raise InputError(f"scenario {which} lacks its kind: none, winner, segments or few")
    called = f"of scenario {which}"
    options: dict[str, Any] = {"kind": text(given["kind"], name=f"kind {called}")}
    options |= {
        key: (number if key == "weight" else rate)(given[key], name=f"{key} {called}")
        for key in ("effect", "share", "weight")
        if key in given
    }
    if "matter" in given:
        options["matter"] = whole_number(given["matter"], name=f"matter {called}")
    if "name" in given:
        options["name"] = text(given["name"], name=f"name {called}")
    return Scenario(**options)
