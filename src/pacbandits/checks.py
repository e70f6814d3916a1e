"""Checks of arguments: each returns the value in its own type, or raises InputError with its name and the remedy.

Numpy's numbers are accepted as Python's are. Booleans and text that spells a number are not numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np

from pacbandits.errors import InputError, plain

Kind = TypeVar("Kind")

_FLAGS: tuple[type, ...] = (bool, np.bool_)


def is_whole(value: object) -> TypeGuard[int | np.integer[Any]]:
    """Return whether this is an integer, Python's or numpy's."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_real(value: object) -> TypeGuard[int | float | np.integer[Any] | np.floating[Any]]:
    """Return whether this is a real number, Python's or numpy's."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole_number(value: object, *, name: str, least: int | None = None, most: int | None = None) -> int:
    """Return an integer from `least` to `most`, within the range of floats."""
    if is_whole(value) and (least is None or value >= least) and (most is None or value <= most):
        if finite(value) is None:
            raise InputError(f"{name} is {shown(value)}, which is too large to compute with")
        return int(value)
    noun = "" if is_whole(value) else "a whole number"
    raise InputError(f"{name} must be {spell_range(noun, least=least, most=most)}, got {shown(value)}")


def number(
    value: object,
    *,
    name: str,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    wanted: str | None = None,
) -> float:
    """Return a finite number within a range.

    least, most: the ends of the range, included. above, below: the ends, excluded. wanted: the requirement
    in the message, "must …", if not "be a number" within that range.
    """
    given = finite(value)
    inside = (
        given is not None
        and (least is None or given >= least)
        and (above is None or given > above)
        and (most is None or given <= most)
        and (below is None or given < below)
    )
    if given is not None and inside:
        return given
    if wanted is None:
        noun = "a number" if given is None else ""
        wanted = f"be {spell_range(noun, least=least, above=above, most=most, below=below)}"
    raise InputError(f"{name} must {wanted}, got {shown(value)}")


def positive(value: object, *, name: str) -> float:
    """Return a finite number above 0."""
    return number(value, name=name, above=0, wanted="be positive and finite")


def finite(value: object) -> float | None:
    """Return the value as a finite float, or None if it is not a number or too large."""
    try:
        given = float(value) if is_real(value) else math.nan
    except OverflowError:
        return None
    return given if math.isfinite(given) else None


class Percentage(float):
    """A number written in percent, '5%' for 0.05: a rate or a share, never an amount of money."""


def read_rate(words: str) -> float:
    """Return the number of a rate as people write it: 0.05, 5%, '5 %' or 1/20.

    Raises:
        ValueError: When it is none of these.
    """
    written = words.strip()
    above, slash, below = written.removesuffix("%").partition("/")
    try:
        value = float(above) / (float(below) if slash else 1.0)
    except ZeroDivisionError:
        raise ValueError(f"'{plain(words)}' divides by 0") from None
    except ValueError:
        remedy = f"; write {written.replace(',', '.')}" if written.count(",") == 1 else ", as 0.05, 5% or 1/20 are"
        raise ValueError(f"'{plain(words)}' is no number{remedy}") from None
    return Percentage(value / 100.0) if written.endswith("%") else value


def check_percentage(value: object, *, name: str, reward_range: tuple[float, float], of: str = "rewards") -> None:
    """Raise InputError if a reward was given in percent but rewards do not range from 0 to 1; of: their name."""
    if isinstance(value, Percentage) and reward_range != (0.0, 1.0):
        low, high = reward_range
        raise InputError(
            f"{name} was given in percent ({100 * value:g}%), but {of} lie between {low:g} and {high:g}; give it in "
            "their units"
        )


def flag(value: object, *, name: str) -> bool:
    """Return a bool, Python's or numpy's."""
    if isinstance(value, _FLAGS):
        return bool(value)
    raise InputError(f"{name} must be True or False, got {shown(value)}")


def text(value: object, *, name: str) -> str:
    """Return a string."""
    if isinstance(value, str):
        return value
    raise InputError(f"{name} must be text, got {shown(value)}")


def texts(value: object, *, name: str) -> tuple[str, ...]:
    """Return a sequence of strings as a tuple; a single string is refused."""
    given = entries(value, name=name)
    if all(isinstance(one, str) for one in given):
        return cast(tuple[str, ...], given)
    raise InputError(f"{name} must be strings, got {shown(next(one for one in given if not isinstance(one, str)))}")


def entries(value: object, *, name: str) -> tuple[object, ...]:
    """Return a sequence or an array as a tuple; strings and mappings are refused."""
    if not isinstance(value, str | bytes) and (isinstance(value, Sequence) or np.ndim(cast(Any, value)) > 0):
        return tuple(cast(Iterable[object], value))
    raise InputError(f"{name} must be a list or a tuple, got {shown(cast(object, value))}")


def path_of(value: object, *, name: str = "path") -> Path:
    """Return the path of a file or a folder."""
    if isinstance(value, str | PathLike) and value != "":
        return Path(cast(str, value))
    raise InputError(f"{name} must be the path of a file or a folder, got {shown(cast(object, value))}")


def function(value: object, *, name: str) -> None:
    """Raise InputError unless this is callable."""
    if not callable(value):
        raise InputError(f"{name} must be a function, got {shown(value)}")


def instance(value: object, kind: type[Kind], *, name: str, remedy: str = "") -> Kind:
    """Return the value if it is of a class or has the members of a protocol. remedy: how to make such a value."""
    if isinstance(value, kind) and not isinstance(value, type):
        return value
    if isinstance(value, type):
        remedy = f"make an object of it first, {value.__name__}(…)"
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    raise InputError(f"{name} must be {article} {kind.__name__}, got {shown(value)}{remedy and f'; {remedy}'}")


def generator(rng: object, *, name: str = "rng") -> np.random.Generator:
    """Return a random number generator."""
    return instance(rng, np.random.Generator, name=name, remedy="make one by numpy.random.default_rng(seed)")


def random_numbers(rng: object, *, name: str = "rng") -> tuple[np.random.Generator, int | None]:
    """Return a random number generator and its seed; the seed is None if a generator was given."""
    if isinstance(rng, np.random.Generator):
        return rng, None
    if is_whole(rng) and rng >= 0:
        return np.random.default_rng(int(rng)), int(rng)
    raise InputError(
        f"{name} must be a seed, a whole number of 0 or more, or a numpy.random.Generator, got {shown(rng)}"
    )


def spell_range(
    noun: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> str:
    """Return the range in words, after the noun if there is one."""
    if least is not None and above is None and most is None and below is None:
        return f"{noun and f'{noun}, '}{least:.12g} or more"
    if least is not None and most is not None:
        return f"{noun} from {least:.12g} to {most:.12g}".strip()
    ends = (("at least", least), ("above", above), ("at most", most), ("below", below))
    parts = " and ".join(f"{word} {end:.12g}" for word, end in ends if end is not None)
    return f"{noun} {parts}".strip()


def shown(value: object) -> str:
    """Return a value as messages show it, with its type unless it is text, a number, a boolean or None."""
    if isinstance(value, str):
        return f"'{plain(value)}'"
    bare = value is None or isinstance(value, (*_FLAGS, complex)) or is_real(value)
    return plain(value) if bare else f"{plain(value)} ({type(cast(object, value)).__name__})"


def settle(record: object, **values: object) -> None:
    """Set fields of a frozen record to their checked values; for `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(record, name, value)
