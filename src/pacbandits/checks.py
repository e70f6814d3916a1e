"""What a caller hands over, checked: the value in its own type, or one sentence that names it and what is wanted.

Numbers of numpy's are as good as Python's. True and false are no numbers, and text that spells a number is none.
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
    """Whether this is an integer, of Python's or numpy's."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_real(value: object) -> TypeGuard[int | float | np.integer[Any] | np.floating[Any]]:
    """Whether this is a real number, of Python's or numpy's."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole_number(value: object, *, name: str, least: int | None = None, most: int | None = None) -> int:
    """An integer from `least` to `most`, and no larger than floats are."""
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
    """A finite number within a range.

    least, most: the ends of the range, included. above, below: the ends, excluded. wanted: what the sentence says that
    the value must do, if not "be a number" within that range.
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
    """A finite number above 0."""
    return number(value, name=name, above=0, wanted="be positive and finite")


def finite(value: object) -> float | None:
    """The value as a float, if it is a number that one can hold; else None."""
    try:
        given = float(value) if is_real(value) else math.nan
    except OverflowError:
        return None
    return given if math.isfinite(given) else None


class Percentage(float):
    """A number that was written in percent, '5%' for 0.05: a rate or a share, and never a sum of money."""


def read_rate(words: str) -> float:
    """A number as people write rates: 0.05, 5%, '5 %' or 1/20.

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


def check_percentage(value: object, *, name: str, reward_range: tuple[float, float]) -> None:
    """Raise where a reward was given in percent and rewards are no rates."""
    if isinstance(value, Percentage) and reward_range != (0.0, 1.0):
        low, high = reward_range
        raise InputError(
            f"{name} was given in percent ({100 * value:g}%), but rewards lie between {low:g} and {high:g}; give it in "
            "their units"
        )


def flag(value: object, *, name: str) -> bool:
    """True or false."""
    if isinstance(value, _FLAGS):
        return bool(value)
    raise InputError(f"{name} must be True or False, got {shown(value)}")


def text(value: object, *, name: str) -> str:
    """A string."""
    if isinstance(value, str):
        return value
    raise InputError(f"{name} must be text, got {shown(value)}")


def texts(value: object, *, name: str) -> tuple[str, ...]:
    """Strings in a row, for which one string is not taken."""
    given = entries(value, name=name)
    if all(isinstance(one, str) for one in given):
        return cast(tuple[str, ...], given)
    raise InputError(f"{name} must be strings, got {shown(next(one for one in given if not isinstance(one, str)))}")


def entries(value: object, *, name: str) -> tuple[object, ...]:
    """Things in a row, for which a string or a mapping is not taken."""
    if not isinstance(value, str | bytes) and (isinstance(value, Sequence) or np.ndim(cast(Any, value)) > 0):
        return tuple(cast(Iterable[object], value))
    raise InputError(f"{name} must be a list or a tuple, got {shown(cast(object, value))}")


def path_of(value: object, *, name: str = "path") -> Path:
    """Where a file or a folder is."""
    if isinstance(value, str | PathLike) and value != "":
        return Path(cast(str, value))
    raise InputError(f"{name} must be the path of a file or a folder, got {shown(cast(object, value))}")


def function(value: object, *, name: str) -> None:
    """Raise unless this can be called."""
    if not callable(value):
        raise InputError(f"{name} must be a function, got {shown(value)}")


def instance(value: object, kind: type[Kind], *, name: str, remedy: str = "") -> Kind:
    """A value of a class, or with the members of a protocol. remedy: how one comes by such a thing."""
    if isinstance(value, kind) and not isinstance(value, type):
        return value
    if isinstance(value, type):
        remedy = f"make an object of it first, {value.__name__}(…)"
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    raise InputError(f"{name} must be {article} {kind.__name__}, got {shown(value)}{remedy and f'; {remedy}'}")


def generator(rng: object, *, name: str = "rng") -> np.random.Generator:
    """A generator of random numbers."""
    return instance(rng, np.random.Generator, name=name, remedy="make one by numpy.random.default_rng(seed)")


def random_numbers(rng: object, *, name: str = "rng") -> tuple[np.random.Generator, int | None]:
    """A generator of random numbers and its seed; None for one that was handed over, whose seed nobody knows."""
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
    """A noun, if any, and its range in words."""
    if least is not None and above is None and most is None and below is None:
        return f"{noun and f'{noun}, '}{least:.12g} or more"
    if least is not None and most is not None:
        return f"{noun} from {least:.12g} to {most:.12g}".strip()
    ends = (("at least", least), ("above", above), ("at most", most), ("below", below))
    parts = " and ".join(f"{word} {end:.12g}" for word, end in ends if end is not None)
    return f"{noun} {parts}".strip()


def shown(value: object) -> str:
    """A value as a sentence shows it: plain ones as they are, of others also what they are."""
    if isinstance(value, str):
        return f"'{plain(value)}'"
    bare = value is None or isinstance(value, (*_FLAGS, complex)) or is_real(value)
    return plain(value) if bare else f"{plain(value)} ({type(cast(object, value)).__name__})"


def settle(record: object, **values: object) -> None:
    """Give fields of a frozen record what a check has made of them; for its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(record, name, value)
