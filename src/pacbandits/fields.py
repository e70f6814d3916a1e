"""Values out of JSON that a stranger may have written: each is what it should be, or a sentence says that it is not.

Nothing is made to fit: 3000.5 is no whole number, 1 is no flag and "3" is no number. Limits are checked before anything
is made from a value, so that what reading takes is in proportion to the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from pacbandits.checks import finite, is_real, is_whole, read_rate
from pacbandits.errors import InputError, plain

Json = dict[str, Any]
Row = TypeVar("Row", bound=tuple[float, ...])

MAX_TEXT_CHARACTERS = 10_000
MAX_ITEMS = 2**23
MAX_WHOLE_NUMBER = 2**53  # beyond it a double skips some


def check_characters(text: str, *, name: str) -> None:
    """Raise where a text has half a character (a lone surrogate), which no file can hold."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(f"{name} holds half a character (a lone surrogate) in '{plain(text)}'") from None


def whole_number(value: object, *, name: str, least: int = 0, most: int = MAX_WHOLE_NUMBER) -> int:
    """A whole number from `least` to `most`; not 3.0, and not true."""
    if not is_whole(value):
        raise InputError(f"{name} must be a whole number, got {described(value)}")
    if not least <= value <= most:
        raise InputError(f"{name} must be a whole number {_range(least, most)}, got {described(value)}")
    return int(value)


def number(value: object, *, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number from `least` to `most`; not true, and no text that spells one."""
    if not is_real(value):
        raise InputError(f"{name} must be a number, got {described(value)}")
    if (made := finite(value)) is None:
        raise InputError(f"{name} must be finite, got {described(value)}")
    if not least <= made <= most:
        raise InputError(f"{name} must be a number {_range(least, most)}, got {described(value)}")
    return made


def rate(value: object, *, name: str) -> float:
    """A finite number, or text that spells one as people write rates: "5%"."""
    if not isinstance(value, str):
        return number(value, name=name)
    try:
        made = read_rate(value)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    number(float(made), name=name)
    return made


def flag(value: object, *, name: str) -> bool:
    """True or false, and nothing that only passes for it."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {described(value)}")
    return value


def text(value: object, *, name: str, most: int = MAX_TEXT_CHARACTERS) -> str:
    """Text of at most so many characters, none of them half a character."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {described(value)}")
    if len(value) > most:
        raise InputError(f"{name} must be text of at most {most:,} characters, got {len(value):,}")
    check_characters(value, name=name)
    return value


def one_of(value: object, known: Iterable[str], *, name: str) -> str:
    """One of a few words."""
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        raise InputError(f"{name} must be {' or '.join(words)}, got {described(value)}")
    return value


def items(value: object, *, name: str, least: int = 0, most: int = MAX_ITEMS) -> list[object]:
    """A list of no fewer and no more entries than this."""
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, got {described(value)}")
    given = cast(list[object], value)
    if not least <= len(given) <= most:
        raise InputError(f"{name} must be a list with a length {_range(least, most)}, got {len(given):,} entries")
    return given


def texts(value: object, *, name: str, most: int = MAX_ITEMS) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(text(one, name=f"entry {i} of {name}") for i, one in enumerate(items(value, name=name, most=most)))


def numbers(
    value: object, *, name: str, shortest: int = 0, longest: int = MAX_ITEMS, least: float = -math.inf
) -> tuple[float, ...]:
    """A list of finite numbers, each `least` or more."""
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
    """A list of whole numbers from `least` to `most`."""
    return tuple(
        one
        if type(one) is int and least <= one <= most
        else whole_number(one, name=f"entry {i} of {name}", least=least, most=most)
        for i, one in enumerate(items(value, name=name, least=shortest, most=longest))
    )


def json_object(value: object, *, name: str) -> Json:
    """An object, its keys all text."""
    given = cast(dict[object, object], value) if isinstance(value, dict) else None
    if given is None or not all(isinstance(key, str) for key in given):
        raise InputError(f"{name} must be an object, got {described(cast(object, value))}")
    return cast(Json, given)


def same_json(one: object, other: object, *, tolerance: float = 0.0) -> bool:
    """Whether two values of JSON are equal, true not being 1; tolerance: relative, of numbers that are not whole."""
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
    """What was given, in a few plain words whatever it is."""
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
    """The fields of one JSON object, each read by its name and checked.

    given: the object.
    of: what it is, in words: "certificate".
    """

    given: Mapping[str, object]
    of: str

    @classmethod
    def read(cls, value: object, *, of: str) -> Fields:
        """The fields of what must be an object."""
        return cls(json_object(value, name=f"the {of}"), of)

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def __getitem__(self, name: str) -> object:
        if name not in self.given:
            raise InputError(f"the {self.of} lacks '{plain(name)}'")
        return self.given[name]

    def name(self, name: str) -> str:
        """What a field is called in a sentence."""
        return f"the '{plain(name)}' of the {self.of}"

    def check_known(self, names: Iterable[str]) -> None:
        """Raise when there are other fields than these."""
        known = set(names)
        for name in self.given:
            if name not in known:
                raise InputError(
                    f"the {self.of} says '{plain(name)}', which means nothing here; it was altered, or made by another "
                    "version"
                )

    def whole_number(self, name: str, *, least: int = 0, most: int = MAX_WHOLE_NUMBER) -> int:
        """A whole number from `least` to `most`."""
        return whole_number(self[name], name=self.name(name), least=least, most=most)

    def number(self, name: str, *, least: float = -math.inf, most: float = math.inf) -> float:
        """A finite number from `least` to `most`."""
        return number(self[name], name=self.name(name), least=least, most=most)

    def number_or_null(self, name: str, *, least: float = -math.inf, most: float = math.inf) -> float | None:
        """The same, or nothing."""
        return None if self[name] is None else self.number(name, least=least, most=most)

    def flag(self, name: str) -> bool:
        """True or false."""
        return flag(self[name], name=self.name(name))

    def text(self, name: str, *, most: int = MAX_TEXT_CHARACTERS) -> str:
        """Text of at most so many characters."""
        return text(self[name], name=self.name(name), most=most)

    def texts(self, name: str, *, most: int = MAX_ITEMS) -> tuple[str, ...]:
        """A list of texts."""
        return texts(self[name], name=self.name(name), most=most)

    def one_of(self, name: str, known: Iterable[str]) -> str:
        """One of a few words."""
        return one_of(self[name], known, name=self.name(name))

    def items(self, name: str, *, least: int = 0, most: int = MAX_ITEMS) -> list[object]:
        """A list of no fewer and no more entries than this."""
        return items(self[name], name=self.name(name), least=least, most=most)

    def numbers(
        self, name: str, *, shortest: int = 0, longest: int = MAX_ITEMS, least: float = -math.inf
    ) -> tuple[float, ...]:
        """A list of finite numbers."""
        return numbers(self[name], name=self.name(name), shortest=shortest, longest=longest, least=least)

    def number_rows(self, name: str) -> list[tuple[float, ...]]:
        """Rows of finite numbers, all of one length."""
        own = self.name(name)
        return _even([numbers(row, name=f"row {i} of {own}") for i, row in enumerate(self.items(name))], name=own)

    def whole_numbers(
        self, name: str, *, shortest: int = 0, longest: int = MAX_ITEMS, least: int = 0, most: int = MAX_WHOLE_NUMBER
    ) -> tuple[int, ...]:
        """A list of whole numbers from `least` to `most`."""
        own = self.name(name)
        return whole_numbers(self[name], name=own, shortest=shortest, longest=longest, least=least, most=most)

    def whole_number_rows(self, name: str) -> list[tuple[int, ...]]:
        """Rows of whole numbers from 0 on, all of one length."""
        own = self.name(name)
        return _even([whole_numbers(row, name=f"row {i} of {own}") for i, row in enumerate(self.items(name))], name=own)

    def json_object(self, name: str) -> Json:
        """An object."""
        return json_object(self[name], name=self.name(name))

    def fields(self, name: str, *, of: str) -> Fields:
        """The fields of an object within this one."""
        return Fields.read(self[name], of=of)


def _even(rows: list[Row], *, name: str) -> list[Row]:
    """The rows, if they have one length."""
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"{name} must have rows of one length")
    return rows
