"""The card, if there is one, and what is kept in its memory between passes over rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path
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


# The kernels of a card: sources beside this file, compiled on first use for the numbers that they are told.


SOURCES = Path(__file__).parent / "kernels"
BEFORE = {"scores": ("logarithm",), "worth": ("logarithm",)}  # sources that stand before others
USUAL_SHARED_BYTES = 48 * 1024  # of a block; more has to be asked for


@cache
def function(name: str, kernel: str, **told: int) -> Any:
    """A kernel of `kernels/NAME.cu`, compiled with these names defined; products are never fused with sums."""
    cp = cupy()
    options = ("-std=c++17", "--fmad=false", *(f"-D{key}={value}" for key, value in sorted(told.items())))
    found = cp.RawModule(code=source_of(name), options=options).get_function(kernel)
    most = cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"] - found.shared_size_bytes
    if most > USUAL_SHARED_BYTES:
        found.max_dynamic_shared_size_bytes = most
    return found


def source_of(name: str) -> str:
    """The source of `kernels/NAME.cu`, and before it that of what it calls."""
    return "\n".join((SOURCES / f"{one}.cu").read_text(encoding="utf-8") for one in (*BEFORE.get(name, ()), name))


@cache
def shared_bytes(blocks: int) -> int:
    """The shared memory of each of so many blocks on a multiprocessor."""
    given = cupy().cuda.Device().attributes
    share = given["MaxSharedMemoryPerMultiprocessor"] // blocks - given["ReservedSharedMemoryPerBlock"]
    return int(min(share, given["MaxSharedMemoryPerBlockOptin"]))


@cache
def multiprocessors() -> int:
    """How many the card has."""
    return int(cupy().cuda.Device().attributes["MultiProcessorCount"])
