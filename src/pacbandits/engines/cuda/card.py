"""The GPU, if there is one, and a cache of arrays in its memory between passes over rows."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path
from typing import Any

from pacbandits.errors import InputError

MIN_FREE_SHARE = 0.2  # of the GPU's memory, below which nothing more is cached
LEAST_ABILITY = 80  # for asynchronous copies to shared memory
REMEDY = "pip install 'pacbandits[gpu]'"


@cache
def cupy() -> Any:
    """Return CuPy, the interface to the GPU.

    Raises:
        InputError: If it is not installed.
    """
    try:
        return importlib.import_module("cupy")
    except ImportError:
        raise InputError(f"the engine 'cuda' needs cupy; {REMEDY}") from None


def why_not() -> str:
    """Return why the GPU cannot be used, in words; empty if it can."""
    try:
        cp = cupy()
    except InputError as problem:
        return str(problem)
    try:
        able = int(cp.cuda.Device().compute_capability)
    except cp.cuda.runtime.CUDARuntimeError:  # there is no GPU, or no driver
        return "no CUDA GPU was found; check nvidia-smi and the driver"
    if able < LEAST_ABILITY:
        return f"the GPU's compute capability is {able / 10}, and {LEAST_ABILITY / 10} is needed; use a newer one"
    return ""


class Card:
    """A cache of arrays on the GPU, by name and owner.

    A name has one entry: an entry of another owner replaces it. While less than a fifth of the GPU's memory is free
    nothing more is cached, and arrays are made anew in every pass.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[object, Any]] = {}

    def get(self, name: Hashable, owner: object) -> Any | None:
        """Return the entry of a name if its owner is, or equals, this one; else None."""
        found = self._kept.get(name)
        return found[1] if found is not None and (found[0] is owner or found[0] == owner) else None

    def owner(self, name: Hashable) -> object | None:
        """Return the owner of a name's entry, or None."""
        found = self._kept.get(name)
        return None if found is None else found[0]

    def keep(self, name: Hashable, owner: object, made: Any) -> None:
        """Cache an entry, if there is memory."""
        self._kept.pop(name, None)
        if self.has_room():
            self._kept[name] = (owner, made)

    def made(self, name: Hashable, owner: object, make: Callable[[], Any]) -> Any:
        """Return the entry of a name, made now if there is none."""
        found = self.get(name, owner)
        if found is None:
            found = make()
            self.keep(name, owner, found)
        return found

    def clear(self) -> None:
        """Remove all entries."""
        self._kept.clear()

    def has_room(self) -> bool:
        """Return whether enough of the GPU's memory is free."""
        cp = cupy()
        free, total = cp.cuda.runtime.memGetInfo()
        return bool(free + cp.get_default_memory_pool().free_bytes() >= MIN_FREE_SHARE * total)


# CUDA kernels: sources in `kernels/`, compiled on first use with the given constants.


SOURCES = Path(__file__).parent / "kernels"
BEFORE = {"scores": ("logarithm",), "worth": ("logarithm",)}  # sources to put before others
USUAL_SHARED_BYTES = 48 * 1024  # per block; more must be requested


@cache
def function(name: str, kernel: str, **told: int) -> Any:
    """Return a kernel of `kernels/NAME.cu`, compiled with these macros; multiply-adds are never fused."""
    cp = cupy()
    options = ("-std=c++17", "--fmad=false", *(f"-D{key}={value}" for key, value in sorted(told.items())))
    found = cp.RawModule(code=source_of(name), options=options).get_function(kernel)
    most = cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"] - found.shared_size_bytes
    if most > USUAL_SHARED_BYTES:
        found.max_dynamic_shared_size_bytes = most
    return found


def source_of(name: str) -> str:
    """Return the source of `kernels/NAME.cu`, after those of the functions it calls."""
    return "\n".join((SOURCES / f"{one}.cu").read_text(encoding="utf-8") for one in (*BEFORE.get(name, ()), name))


@cache
def shared_bytes(blocks: int) -> int:
    """Return the shared memory of each of `blocks` blocks on a multiprocessor."""
    given = cupy().cuda.Device().attributes
    share = given["MaxSharedMemoryPerMultiprocessor"] // blocks - given["ReservedSharedMemoryPerBlock"]
    return int(min(share, given["MaxSharedMemoryPerBlockOptin"]))


@cache
def multiprocessors() -> int:
    """Return the number of the GPU's multiprocessors."""
    return int(cupy().cuda.Device().attributes["MultiProcessorCount"])
