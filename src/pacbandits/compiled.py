"""Compiled kernels and the cores they run on.

Kernels release the interpreter's lock and are called on ranges from a thread pool. That keeps them safe to call from
several threads at once, quick to compile, and deterministic: how the work is cut never changes what is added to what.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

_asked_cores: ContextVar[int | None] = ContextVar("asked_cores", default=None)


def kernel(function: Function) -> Function:
    """Compile `function` on first use, keep the machine code on disk, release the interpreter's lock."""
    jit: Any = numba.njit  # pyright: ignore[reportUnknownMemberType]
    return cast(Function, jit(cache=True, nogil=True)(function))


def cores() -> int:
    """How many cores this process may use, or was asked to."""
    asked = _asked_cores.get()
    if asked is not None:
        return asked
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@contextmanager
def using_cores(count: int) -> Generator[None]:
    """Work as if there were so many cores; many small tasks are done sooner with one."""
    before = _asked_cores.set(count)
    try:
        yield
    finally:
        _asked_cores.reset(before)


def over_cores(task: Callable[[int, int], None], *, count: int, chunks_per_core: int = 4) -> None:
    """Call `task(start, stop)` on pieces of `range(count)`, all cores at once.

    Pieces must write to places of their own. With one piece (or one core) the call is made in this thread.
    """
    pieces = min(count, cores() * chunks_per_core)
    if pieces <= 1 or cores() == 1:
        task(0, count)
        return
    edges = [count * i // pieces for i in range(pieces + 1)]
    for done in [_pool(cores()).submit(task, a, b) for a, b in pairwise(edges)]:
        done.result()


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=workers, thread_name_prefix="pacbandits")


# Threads do not survive a fork; a child that inherited the pool would wait for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def compiled_before() -> bool:
    """Whether machine code from an earlier run lies on disk, so that the first call will not have to compile."""
    return any(Path(__file__).parent.rglob("*.nbi"))
