"""Options of problems, policy classes and algorithms: declared once in a signature, read from `name:key=value,…`.

A parameter `m: Annotated[int, About("…", least=2)] = 10` declares type, meaning, range and default at once.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pacbandits.checks import is_real, is_whole, number, spell_range, text
from pacbandits.errors import InputError, nearest, plain

OptionValue = int | float | str
OptionKind = Literal["integer", "number", "choice", "text"]


@dataclass(frozen=True)
class About:
    """The meaning of an option and its permitted values.

    meaning: a short description.
    least: the lower end of its range, included.
    above: the lower end of its range, excluded.
    most: the upper end of its range, included.
    when: another option, and its value under which this option has an effect.
    former: earlier names of choices, which are still read, with their present ones.
    """

    meaning: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    when: tuple[str, str] | None = None
    former: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        text(self.meaning, name="meaning")
        for name in ("least", "above", "most"):
            if getattr(self, name) is not None:
                number(getattr(self, name), name=name)


@dataclass(frozen=True)
class Option:
    """One option of a problem, a policy class or an algorithm.

    name: its name.
    kind: the type of its values.
    default: its default value.
    about: its meaning and its permitted values.
    choices: the values of a choice.
    """

    name: str
    kind: OptionKind
    default: OptionValue
    about: About
    choices: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        return self.about.meaning

    @property
    def permitted(self) -> str:
        """The permitted values, in words."""
        if self.kind == "choice":
            return " or ".join(self.choices)
        if self.kind == "text":
            return "text"
        noun = "an integer" if self.kind == "integer" else "a number"
        return spell_range(noun, least=self.about.least, above=self.about.above, most=self.about.most)

    def read(self, text: str) -> OptionValue:
        """Return the value of `text`; raise InputError if it is not permitted."""
        if self.kind in ("choice", "text"):
            return self.check(text)
        try:
            return self.check(int(text) if self.kind == "integer" else float(text))
        except InputError:
            raise
        except ValueError:
            raise self._error(text) from None

    def check(self, value: object) -> OptionValue:
        """Return the value in the option's type; raise InputError if it is not permitted."""
        if self.kind == "choice":
            value = next((now for then, now in self.about.former if then == value), value)
            if not isinstance(value, str) or value not in self.choices:
                raise InputError(f"{self.name} must be {self.permitted}, got '{plain(value)}'{self._hint(value)}")
            return value
        if self.kind == "text":
            if not isinstance(value, str):
                raise self._error(value)
            return value
        if self.kind == "integer":
            if not is_whole(value):
                raise self._error(value)
            return int(self._in_range(int(value)))
        if not is_real(value):
            raise self._error(value)
        try:
            return float(self._in_range(float(value)))
        except OverflowError:
            raise self._error(value) from None

    def _in_range(self, value: int | float) -> int | float:
        about = self.about
        fits = (
            (isinstance(value, int) or math.isfinite(value))
            and (about.least is None or value >= about.least)
            and (about.above is None or value > about.above)
            and (about.most is None or value <= about.most)
        )
        if not fits:
            raise self._error(value)
        return value

    def _error(self, value: object) -> InputError:
        return InputError(f"{self.name} must be {self.permitted}, got {plain(value)}")

    def _hint(self, value: object) -> str:
        hint = nearest(str(value), self.choices)
        return hint[: hint.index(" (known")]


def declared_options(function: Callable[..., object]) -> tuple[Option, ...]:
    """Return the options that a function's parameters declare by an `About`, in order."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(
        _declared(name, hints[name], parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if any(isinstance(part, About) for part in get_args(hints.get(name)))
    )


def check_options(given: Mapping[str, object], known: Sequence[Option], *, of: str) -> dict[str, OptionValue]:
    """Return the given values in the options' types; raise InputError if `of` has no such option."""
    return {name: option.check(given[name]) for name, option in _asked(given, known, of=of).items()}


def read_options(given: Mapping[str, str], known: Sequence[Option], *, of: str) -> dict[str, OptionValue]:
    """Return the values of a spec's texts; raise InputError if `of` has no such option."""
    return {name: option.read(given[name]) for name, option in _asked(given, known, of=of).items()}


def _asked(given: Mapping[str, object], known: Sequence[Option], *, of: str) -> dict[str, Option]:
    """Return the given options by name; raise InputError if one is unknown."""
    by_name = {option.name: option for option in known}
    for name in given:
        if name not in by_name:
            hint = nearest(name, by_name) if by_name else "; it has none"
            raise InputError(f"{of} has no option '{plain(name)}'{hint}")
    return {name: by_name[name] for name in given}


def parse_spec(spec: str, *, of: str = "problem") -> tuple[str, dict[str, str]]:
    """Split `name:key=value,key=value` into its name and the text of each option; `of`: the kind of thing named."""
    name, colon, rest = (part.strip() for part in text(spec, name=f"spec, the {of} by its name,").partition(":"))
    if not name:
        raise InputError(f"'{plain(spec)}' names no {of}; write name:key=value,key=value")
    if not colon:
        return name, {}
    given: dict[str, str] = {}
    for item in rest.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not key and not value:
            raise InputError(f"'{plain(spec)}' has an empty option; remove the extra '{',' if rest else ':'}'")
        if not equals or not key:
            raise InputError(f"'{plain(item.strip())}' in '{plain(spec)}' is not of the form key=value")
        if not value:
            raise InputError(f"option '{plain(key)}' of '{plain(spec)}' has no value; write {plain(key)}=value")
        if key in given:
            raise InputError(f"option '{plain(key)}' is given twice in '{plain(spec)}'")
        given[key] = value
    return name, given


def _declared(name: str, hint: Any, default: OptionValue) -> Option:
    kind_hint, about = get_args(hint)
    if get_origin(kind_hint) is Literal:
        return Option(name, "choice", default, about, choices=get_args(kind_hint))
    kinds: dict[object, OptionKind] = {int: "integer", str: "text"}
    return Option(name, kinds.get(kind_hint, "number"), default, about)
