"""Save and restore the state of a random number generator, with checks that numpy does not make."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pacbandits.errors import InputError
from pacbandits.fields import Json, json_object, whole_number, whole_numbers

# The largest value of each number by the name that numpy has for it; beyond some, generators read foreign memory.
MAX_VALUES: dict[str, int] = {
    "pos": 624,
    "buffer_pos": 4,
    "has_uint32": 1,
    "uinteger": 2**32 - 1,
    "state": 2**128 - 1,
    "inc": 2**128 - 1,
}
MAX_OTHER_VALUE = 2**64 - 1


def random_state(rng: np.random.Generator) -> Json:
    """Where a generator stands, as what JSON knows."""
    return _lists(rng.bit_generator.state)


def set_random_state(rng: np.random.Generator, value: object) -> None:
    """Set a generator to where one of its kind stood; a sentence where `random_state` cannot have said that."""
    given = json_object(value, name="the state of its random numbers")
    own = cast(Json, rng.bit_generator.state)
    if given.get("bit_generator") != own["bit_generator"]:
        raise InputError("another kind of random numbers was drawn")
    checked = _checked(given, own, name="the state of its random numbers")
    rng.bit_generator.state = checked
    if random_state(rng) != given:
        raise InputError("the state of its random numbers is none that they can be in")


def _checked(given: Json, own: Json, *, name: str) -> Json:
    """What was given, in the form of what numpy says of the same kind of generator."""
    if given.keys() != own.keys():
        raise InputError(f"{name} must hold {', '.join(own)}, and nothing else")
    out: Json = {}
    for part, like in own.items():
        value, called = given[part], f"the {part} in {name}"
        if isinstance(like, dict):
            out[part] = _checked(json_object(value, name=called), cast(Json, like), name=called)
        elif isinstance(like, np.ndarray):
            array = cast(np.ndarray[Any, Any], like)
            largest = int(np.iinfo(array.dtype).max)
            listed = whole_numbers(value, name=called, shortest=array.size, longest=array.size, most=largest)
            out[part] = np.array(listed, dtype=array.dtype)
        elif isinstance(like, str):
            out[part] = like
        else:
            most: int = MAX_VALUES.get(part, MAX_OTHER_VALUE)
            out[part] = whole_number(value, name=called, most=most)
    return out


def _lists(value: Any) -> Any:
    """The same with lists for arrays."""
    if isinstance(value, dict):
        return {str(name): _lists(part) for name, part in cast(dict[Any, Any], value).items()}
    return value.tolist() if isinstance(value, np.ndarray) else value
