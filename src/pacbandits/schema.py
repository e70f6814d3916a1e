"""Validate JSON from untrusted files and texts: sizes first, then each field, with one-sentence errors."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from pacbandits.checks import finite, is_real, is_whole, read_rate
from pacbandits.errors import InputError, plain
from pacbandits.version import __version__

# Checks of values from untrusted JSON: each returns a value of the right type or raises InputError. Nothing is coerced:
# 3000.5 is not an integer, 1 is not a boolean, "3" is not a number. Limits are checked before anything is built from a
# value, so that the cost of reading is proportional to the file.


Json = dict[str, Any]
Row = TypeVar("Row", bound=tuple[float, ...])

MAX_TEXT_CHARACTERS = 10_000
MAX_ITEMS = 2**23
MAX_WHOLE_NUMBER = 2**53  # beyond it a double skips integers
MAX_FORMAT_DIGITS = 9


def check_characters(text: str, *, name: str) -> None:
    """Raise InputError if a text contains a lone surrogate, which no file can hold."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(f"{name} holds half a character (a lone surrogate) in '{plain(text)}'") from None


def whole_number(value: object, *, name: str, least: int = 0, most: int = MAX_WHOLE_NUMBER) -> int:
    """Return a whole number from `least` to `most`; 3.0 and true are refused."""
    if not is_whole(value):
        raise InputError(f"{name} must be a whole number, got {described(value)}")
    if not least <= value <= most:
        raise InputError(f"{name} must be a whole number {_range(least, most)}, got {described(value)}")
    return int(value)


def number(value: object, *, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a finite number from `least` to `most`; true and text are refused."""
    if not is_real(value):
        raise InputError(f"{name} must be a number, got {described(value)}")
    if (made := finite(value)) is None:
        raise InputError(f"{name} must be finite, got {described(value)}")
    if not least <= made <= most:
        raise InputError(f"{name} must be a number {_range(least, most)}, got {described(value)}")
    return made


def rate(value: object, *, name: str) -> float:
    """Return a finite number, also from text as people write rates: "5%"."""
    if not isinstance(value, str):
        return number(value, name=name)
    try:
        made = read_rate(value)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    number(float(made), name=name)
    return made


def flag(value: object, *, name: str) -> bool:
    """Return true or false; other values are refused."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {described(value)}")
    return value


def text(value: object, *, name: str, most: int = MAX_TEXT_CHARACTERS) -> str:
    """Return text of at most `most` characters without lone surrogates."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {described(value)}")
    if len(value) > most:
        raise InputError(f"{name} must be text of at most {most:,} characters, got {len(value):,}")
    check_characters(value, name=name)
    return value


def one_of(value: object, known: Iterable[str], *, name: str) -> str:
    """Return the value if it is one of the known words."""
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        raise InputError(f"{name} must be {' or '.join(words)}, got {described(value)}")
    return value


def items(value: object, *, name: str, least: int = 0, most: int = MAX_ITEMS) -> list[object]:
    """Return a list of `least` to `most` entries."""
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, got {described(value)}")
    given = cast(list[object], value)
    if not least <= len(given) <= most:
        raise InputError(f"{name} must be a list with a length {_range(least, most)}, got {len(given):,} entries")
    return given


def texts(value: object, *, name: str, most: int = MAX_ITEMS) -> tuple[str, ...]:
    """Return a list of texts as a tuple."""
    return tuple(text(one, name=f"entry {i} of {name}") for i, one in enumerate(items(value, name=name, most=most)))


def numbers(
    value: object, *, name: str, shortest: int = 0, longest: int = MAX_ITEMS, least: float = -math.inf
) -> tuple[float, ...]:
    """Return a list of finite numbers, each `least` or more, as a tuple."""
    return tuple(
        one if type(one) is float and least <= one < math.inf else number(one, name=f"entry {i} of {name}", least=least)
        for i, one in enumerate(items(value, name=name, least=shortest, most=longest))
    )


def whole_numbers(
    value: object,
    *,
    name: str,
    shortest: int = 0,
    longest: int = MAX_ITEMS,
    least: int = 0,
    most: int = MAX_WHOLE_NUMBER,
) -> tuple[int, ...]:
    """Return a list of whole numbers from `least` to `most` as a tuple."""
    return tuple(
        one
        if type(one) is int and least <= one <= most
        else whole_number(one, name=f"entry {i} of {name}", least=least, most=most)
        for i, one in enumerate(items(value, name=name, least=shortest, most=longest))
    )


def json_object(value: object, *, name: str) -> Json:
    """Return an object whose keys are all text."""
    given = cast(dict[object, object], value) if isinstance(value, dict) else None
    if given is None or not all(isinstance(key, str) for key in given):
        raise InputError(f"{name} must be an object, got {described(cast(object, value))}")
    return cast(Json, given)


def same_json(one: object, other: object, *, tolerance: float = 0.0) -> bool:
    """Return whether two JSON values are equal (true is not 1); tolerance: relative, for floats."""
    if isinstance(one, dict) and isinstance(other, dict):
        mine, theirs = cast(Json, one), cast(Json, other)
        return mine.keys() == theirs.keys() and all(
            same_json(mine[name], theirs[name], tolerance=tolerance) for name in mine
        )
    if isinstance(one, list) and isinstance(other, list):
        ours, others = cast(list[object], one), cast(list[object], other)
        return len(ours) == len(others) and all(map(partial(same_json, tolerance=tolerance), ours, others))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=tolerance)
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def described(value: object) -> str:
    """Return a short description of any value, for messages."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int) and abs(value) > 10**20:
        return "a whole number of more than 20 digits"
    if isinstance(value, int | float):
        return f"{value}"
    if isinstance(value, str):
        return f"the text '{plain(value[:200])}'"
    if isinstance(value, list):
        return f"a list of {len(cast(list[object], value)):,}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def _range(least: float, most: float) -> str:
    if most in (math.inf, MAX_WHOLE_NUMBER, MAX_ITEMS):
        return f"of {least:,} or more"
    return f"of {most:,} or less" if least == -math.inf else f"between {least:,} and {most:,}"


@dataclass(frozen=True, eq=False)
class Fields:
    """The fields of one JSON object, read by name and checked.

    given: the object.
    of: the noun for the object in messages: "certificate".
    """

    given: Mapping[str, object]
    of: str

    @classmethod
    def read(cls, value: object, *, of: str) -> Fields:
        """Return the fields of a value that must be an object."""
        return cls(json_object(value, name=f"the {of}"), of)

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def __getitem__(self, name: str) -> object:
        if name not in self.given:
            raise InputError(f"the {self.of} lacks '{plain(name)}'")
        return self.given[name]

    def name(self, name: str) -> str:
        """Return how messages name a field."""
        return f"the '{plain(name)}' of the {self.of}"

    def check_known(self, names: Iterable[str]) -> None:
        """Raise InputError if there are fields with other names."""
        known = set(names)
        for name in self.given:
            if name not in known:
                raise InputError(
                    f"the {self.of} says '{plain(name)}', which means nothing here; it was altered, or made by another "
                    "version"
                )

    def whole_number(self, name: str, *, least: int = 0, most: int = MAX_WHOLE_NUMBER) -> int:
        """Return a whole number from `least` to `most`."""
        return whole_number(self[name], name=self.name(name), least=least, most=most)

    def number(self, name: str, *, least: float = -math.inf, most: float = math.inf) -> float:
        """Return a finite number from `least` to `most`."""
        return number(self[name], name=self.name(name), least=least, most=most)

    def number_or_null(self, name: str, *, least: float = -math.inf, most: float = math.inf) -> float | None:
        """Return a finite number from `least` to `most`, or None for null."""
        return None if self[name] is None else self.number(name, least=least, most=most)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        return flag(self[name], name=self.name(name))

    def text(self, name: str, *, most: int = MAX_TEXT_CHARACTERS) -> str:
        """Return text of at most `most` characters."""
        return text(self[name], name=self.name(name), most=most)

    def texts(self, name: str, *, most: int = MAX_ITEMS) -> tuple[str, ...]:
        """Return a list of texts."""
        return texts(self[name], name=self.name(name), most=most)

    def one_of(self, name: str, known: Iterable[str]) -> str:
        """Return one of the known words."""
        return one_of(self[name], known, name=self.name(name))

    def items(self, name: str, *, least: int = 0, most: int = MAX_ITEMS) -> list[object]:
        """Return a list of `least` to `most` entries."""
        return items(self[name], name=self.name(name), least=least, most=most)

    def numbers(
        self, name: str, *, shortest: int = 0, longest: int = MAX_ITEMS, least: float = -math.inf
    ) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        return numbers(self[name], name=self.name(name), shortest=shortest, longest=longest, least=least)

    def number_rows(self, name: str) -> list[tuple[float, ...]]:
        """Return rows of finite numbers, all of one length."""
        own = self.name(name)
        return _even([numbers(row, name=f"row {i} of {own}") for i, row in enumerate(self.items(name))], name=own)

    def whole_numbers(
        self, name: str, *, shortest: int = 0, longest: int = MAX_ITEMS, least: int = 0, most: int = MAX_WHOLE_NUMBER
    ) -> tuple[int, ...]:
        """Return a list of whole numbers from `least` to `most`."""
        own = self.name(name)
        return whole_numbers(self[name], name=own, shortest=shortest, longest=longest, least=least, most=most)

    def whole_number_rows(self, name: str) -> list[tuple[int, ...]]:
        """Return rows of whole numbers from 0 on, all of one length."""
        own = self.name(name)
        return _even([whole_numbers(row, name=f"row {i} of {own}") for i, row in enumerate(self.items(name))], name=own)

    def json_object(self, name: str) -> Json:
        """Return an object."""
        return json_object(self[name], name=self.name(name))

    def fields(self, name: str, *, of: str) -> Fields:
        """Return the fields of an object within this one."""
        return Fields.read(self[name], of=of)


def newer_format(what: str, number: int, *, latest: int) -> InputError:
    """Return the error for a file of a later format than this version reads; what: the file, as in "the plan"."""
    return InputError(
        f"{what} has format {number}, and pacbandits {__version__} reads formats up to {latest}: it was made by a "
        "newer version; upgrade pacbandits"
    )


def format_text(name: str, number: int) -> str:
    """Return what a file says under "format": "pacbandits plan 1"."""
    return f"pacbandits {name} {number}"


def read_format(given: Mapping[str, object], name: str, *, latest: int, unnumbered: int | None = None) -> int:
    """Return the number that a file says under "format"; raise InputError for another kind of file or a later number.

    name: as for `format_text`. unnumbered: the format of files that say none; None if every file must say one.
    """
    if unnumbered is not None and "format" not in given:
        return unnumbered
    found = given.get("format")
    digits = found.removeprefix(f"pacbandits {name} ") if isinstance(found, str) else ""
    if not (digits.isascii() and digits.isdigit() and digits[0] != "0" and len(digits) <= MAX_FORMAT_DIGITS):
        said = "" if found is None else f", got {described(found)}"
        raise InputError(f"this is not a pacbandits {name}: its format must be '{format_text(name, latest)}'{said}")
    if int(digits) > latest:
        raise newer_format(f"the {name}", int(digits), latest=latest)
    return int(digits)


def _even(rows: list[Row], *, name: str) -> list[Row]:
    """Return the rows; raise InputError unless they have one length."""
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"{name} must have rows of one length")
    return rows


# Reading JSON from untrusted files and texts: sizes are checked before content.


MAX_JSON_BYTES = 2**26  # of a file
MAX_JSON_VALUES = 2**23  # in a file: a value takes up to about 100 bytes once it is read
MAX_JSON_DEPTH = 100
MAX_PATH_CHARACTERS = 200  # in messages


def read_json(path: str | Path, *, max_bytes: int = MAX_JSON_BYTES, max_values: int = MAX_JSON_VALUES) -> object:
    """Return the JSON value of a file, under the limits of `parse_json`."""
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
    """Return the JSON value of a text.

    Raises:
        InputError: For too many values (counted before parsing), a repeated key, NaN, infinities or numbers beyond a
            double, values nested too deep, or lone surrogates.
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
    """Serialise a value to JSON in which every character that is not visible is escaped, losslessly.

    default: converts values that JSON does not support.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=default)
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _check_within(value: object, *, name: str) -> None:
    """Raise InputError if a value is nested too deep or contains a number beyond a double or a lone surrogate."""
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
