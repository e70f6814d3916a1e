"""JSON that a stranger may have written, from a file or a text: sizes first, then what it says, or a sentence."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, cast

from pacbandits.errors import InputError, plain
from pacbandits.fields import check_characters

MAX_JSON_BYTES = 2**26  # of a file
MAX_JSON_VALUES = 2**23  # in a file: a value takes up to about 100 bytes once it is read
MAX_JSON_DEPTH = 100
MAX_PATH_CHARACTERS = 200  # shown


def read_json(path: str | Path, *, max_bytes: int = MAX_JSON_BYTES, max_values: int = MAX_JSON_VALUES) -> object:
    """What a file holds in JSON, as `parse_json` reads it."""
    path = Path(path)
    shown = plain(path, most=MAX_PATH_CHARACTERS)
    try:
        found = path.stat()
        ordinary, small = stat.S_ISREG(found.st_mode), found.st_size <= max_bytes
        raw = _first_bytes(path, found.st_size + 1) if ordinary and small else b""
    except OSError as error:
        raise InputError(f"cannot read {shown}: {plain(error.strerror or error)}") from None
    except ValueError:  # a path with a null character
        raise InputError(f"cannot read {shown}: there can be no such file") from None
    if not ordinary:
        raise InputError(f"cannot read {shown}: it is not an ordinary file")
    if not small:
        raise InputError(f"{shown} is too large to be read: more than {max_bytes:,} bytes")
    if len(raw) != found.st_size:
        raise InputError(f"{shown} changes while it is read; read it again")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{shown} is not JSON: it is not text in UTF-8") from None
    return parse_json(text, name=shown, max_values=max_values)


def _first_bytes(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)


def parse_json(text: str, *, name: str, max_values: int = MAX_JSON_VALUES) -> object:
    """What a text says in JSON.

    Refused are a text of too many values (told before any is made), a key that stands twice, numbers that are none or
    beyond a double, values nested too deep, and halves of characters.
    """
    if text.count(",") + text.count("[") + text.count("{") > max_values:
        raise InputError(f"{name} is too large to be read: more than {max_values:,} values")

    def refuse(token: str) -> NoReturn:
        raise InputError(f"{name} holds {token}, which is no number")

    def paired(pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise InputError(f"{name} says '{plain(twice)}' twice")
        return made

    try:
        value: object = json.loads(text, parse_constant=refuse, object_pairs_hook=paired)
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{name} is nested too deep: at most {MAX_JSON_DEPTH} values within each other") from None
    except ValueError:
        raise InputError(f"{name} is not JSON") from None
    _check_within(value, name=name)
    return value


def json_text(value: object, *, indent: int | None = None, default: Callable[[object], object] | None = None) -> str:
    """A value as JSON that is safe to look at: what is no visible character is escaped, and comes back as it was.

    default: makes what JSON knows of what it does not.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=default)
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _check_within(value: object, *, name: str) -> None:
    """Raise where a value, or one within it, is nested too deep, beyond a double, or half a character."""
    level: list[object] = [[value]]
    for _ in range(MAX_JSON_DEPTH + 1):
        deeper: list[object] = []
        for holder in level:
            if isinstance(holder, dict):
                inside = cast(dict[str, object], holder)
                for key in inside:
                    check_characters(key, name=name)
                values = inside.values()
            else:
                values = cast(list[object], holder)
            for inner in values:
                if isinstance(inner, str):
                    check_characters(inner, name=name)
                elif isinstance(inner, float):
                    if not math.isfinite(inner):
                        raise InputError(f"{name} holds a number that is too large")
                elif inner and isinstance(inner, dict | list):
                    deeper.append(cast(object, inner))
        if not deeper:
            return
        level = deeper
    raise InputError(f"{name} is nested too deep: at most {MAX_JSON_DEPTH} values within each other")
