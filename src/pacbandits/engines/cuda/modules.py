"""The kernels of a card: sources beside this file, compiled on first use for the numbers that they are told."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pacbandits.engines.cuda.card import cupy

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
