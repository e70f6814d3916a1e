"""The card, if there is one, and what is kept in its memory between passes over rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

from pacbandits.errors import InputError

MIN_FREE_SHARE = 0.2  # of the card's memory, below which nothing more is kept
LEAST_ABILITY = 80  # copies to shared memory while threads go on
REMEDY = "pip install 'pacbandits[gpu]'"


@cache
def cupy() -> Any:
    """CuPy, through which everything on the card is done.

    Raises:
        InputError: When it is not installed.
    """
    try:
        return importlib.import_module("cupy")
    except ImportError:
        raise InputError(f"the engine 'cuda' needs cupy; {REMEDY}") from None


def why_not() -> str:
    """Why nothing can be done on a card, in words; nothing where it can."""
    try:
        cp = cupy()
    except InputError as problem:
        return str(problem)
    try:
        able = int(cp.cuda.Device().compute_capability)
    except cp.cuda.runtime.CUDARuntimeError:  # what there is in the place of a card, or of its driver
        return "no CUDA card was found; check nvidia-smi and the driver"
    if able < LEAST_ABILITY:
        return f"the card's compute capability is {able / 10}, and {LEAST_ABILITY / 10} is needed; use a newer one"
    return ""


class Card:
    """What is kept on the card, by name, with what it was made for.

    Under a name there is one thing: what is made for another owner takes its place. While less than a fifth of the
    card's memory is free nothing more is kept: what is needed is then made anew in every pass.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[object, Any]] = {}

    def get(self, name: Hashable, owner: object) -> Any | None:
        """What is kept under a name, made for an owner: what equals it was made from the same."""
        found = self._kept.get(name)
        return found[1] if found is not None and (found[0] is owner or found[0] == owner) else None

    def owner(self, name: Hashable) -> object | None:
        """What that which is kept under a name was made for."""
        found = self._kept.get(name)
        return None if found is None else found[0]

    def keep(self, name: Hashable, owner: object, made: Any) -> None:
        """Keep something, if there is room."""
        self._kept.pop(name, None)
        if self.has_room():
            self._kept[name] = (owner, made)

    def made(self, name: Hashable, owner: object, make: Callable[[], Any]) -> Any:
        """What is kept under a name, or is made now."""
        found = self.get(name, owner)
        if found is None:
            found = make()
            self.keep(name, owner, found)
        return found

    def clear(self) -> None:
        """Let go of everything."""
        self._kept.clear()

    def has_room(self) -> bool:
        """Whether enough of the card's memory is free."""
        cp = cupy()
        free, total = cp.cuda.runtime.memGetInfo()
        return bool(free + cp.get_default_memory_pool().free_bytes() >= MIN_FREE_SHARE * total)
