"""One sentence for two doors: options are called `--max-treated` in the commands, and `max_treated` in Python.

Messages are written as the command line says it, `--control NAME`; outside of a command they are turned into Python,
`control="NAME"`.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

# What Python calls them otherwise than by the same name with underscores, and those that take no value.
_ARGUMENTS = {"actions": "n_actions"}
_SWITCHES = ("clip", "ordered", "shuffle", "single", "batched", "fresh")
_OPTIONS = (
    *("action", "reward", "propensity", "split", "reward-range", "time", "time-format", "unit", "features"),
    *(
        "without",
        "actions",
        "least-propensity",
        "position",
        "contexts",
        "epsilon",
        "delta",
        "policies",
        "smallest-leaf",
        "cost",
        "max-cost",
    ),
    *("max-share", "max-treated", "never", "control", "draw", "draws", "dialect", "column", "seed"),
    *("baseline", "spread", "variation", "effect", "share", "scenarios", "traffic", "delay", "budget"),
    *("database", "head", "port", "workers", "scheduler", "engine", "jobs", "seeds"),
)
_NAMES = "|".join(sorted((*_OPTIONS, *_SWITCHES), key=len, reverse=True))
_START = r"(?<![\w'\"-])--"
_RANGE = re.compile(rf"{_START}reward-range (-?[0-9.]+) (-?[0-9.]+)( --clip)?")
# A value is a number, a word in capitals, `…`, what stands in quotes, or shares and words of a split or a few columns.
_VALUE = re.compile(
    rf"{_START}({_NAMES}) (-?[0-9.]*[0-9]|[A-Z]+\b|…|'[^']*'|\"[^\"]*\"|[\w.]+=[\w.]+(?:,[\w.]+=[\w.]+)*|uniform\b)"
)
_FLAG = re.compile(rf"{_START}({_NAMES})(?![\w-])")
_in_command: ContextVar[bool] = ContextVar("in_command", default=False)


@contextmanager
def speaking_flags() -> Generator[None]:
    """Within, messages are for someone at the command line."""
    before = _in_command.set(True)
    try:
        yield
    finally:
        _in_command.reset(before)


def in_command() -> bool:
    """Whether messages are for someone at the command line."""
    return _in_command.get()


def spoken(words: str) -> str:
    """A sentence that names options of the command line, as whoever reads it calls them."""
    return words if in_command() else in_python(words)


def in_python(words: str) -> str:
    """A sentence that names options of the command line, with the arguments of Python in their place."""
    if "--" not in words:
        return words
    words = _RANGE.sub(lambda at: f"reward_range=({at[1]}, {at[2]}){', clip=True' if at[3] else ''}", words)
    words = _VALUE.sub(lambda found: f"{_argument(found[1])}={_written(found[2])}", words)
    return _FLAG.sub(
        lambda found: f"{found[1]}=True" if found[1] in _SWITCHES else _argument(found[1]),
        words,
    )


def _argument(flag: str) -> str:
    return _ARGUMENTS.get(flag, flag.replace("-", "_"))


def _written(value: str) -> str:
    bare = value == "…" or value[0] in "'\"" or value.lstrip("-").replace(".", "").isdigit()
    return value if bare else f'"{value}"'


def flag_of(name: str) -> str:
    """The option of the command line for an argument of `read_log`."""
    return "--actions" if name == "n_actions" else f"--{name.replace('_', '-')}"
