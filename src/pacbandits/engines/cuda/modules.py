"""The kernels of a card: sources beside this file, compiled on first use for the numbers that they are told."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pacbandits.engines.cuda.card import cupy

SOURCES = Path(__file__).parent / "kernels"


@cache
def module(name: str, **told: int) -> Any:
    """The kernels in `kernels/NAME.cu`, compiled with these names defined; products are never fused with sums."""
    options = ("-std=c++17", "--fmad=false", *(f"-D{key}={value}" for key, value in sorted(told.items())))
    return cupy().RawModule(code=(SOURCES / f"{name}.cu").read_text(encoding="utf-8"), options=options)


@cache
def function(name: str, kernel: str, shared_bytes: int = 0, **told: int) -> Any:
    """One of them, allowed so much shared memory."""
    found = module(name, **told).get_function(kernel)
    if shared_bytes > 48 * 1024:
        found.max_dynamic_shared_size_bytes = shared_bytes
    return found
