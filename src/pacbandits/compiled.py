"""Compiled kernels, where their machine code is kept, and the cores they run on.

Kernels release the interpreter's lock and are called on ranges from a thread pool. That keeps them safe to call from
several threads at once, quick to compile, and deterministic: how the work is cut never changes what is added to what.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config

Function = TypeVar("Function", bound=Callable[..., object])

_asked_cores: ContextVar[int | None] = ContextVar("asked_cores", default=None)
_code_folders: set[Path | None] = set()  # where the kernels of this process keep machine code; None: nowhere


def kernel(function: Function) -> Function:
    """Compile `function` on first use, release the interpreter's lock, and keep the machine code on disk.

    The first place that can be written is taken: `NUMBA_CACHE_DIR`, the folder of the source, the user's folder for
    caches, a private temporary folder. Where there is none, every process compiles for itself.
    """
    made = None if _home_is_unknown(function) else _keeping_code(function)
    if made is None and (folder := private_folder()) is not None:
        made = _keeping_code(function, folder)
    if made is None:
        made = _compiling(function, keep=False)
    place = made.stats.cache_path
    _code_folders.add(None if place is None else Path(place))
    return cast(Function, made)


def _compiling(function: Callable[..., object], *, keep: bool) -> Any:
    jit: Any = numba.njit  # pyright: ignore[reportUnknownMemberType]
    return jit(cache=keep, nogil=True)(function)


def _keeping_code(function: Callable[..., object], folder: Path | None = None) -> Any | None:
    """The kernel with its machine code on disk, in `folder` if one is named; nothing where that cannot be written."""
    settings: Any = config
    before = settings.CACHE_DIR
    try:
        if folder is not None:
            settings.CACHE_DIR = str(folder)  # read when the kernel is made, and not again
        made = _compiling(function, keep=True)
    except RuntimeError:  # numba found no place to write to
        return None
    finally:
        settings.CACHE_DIR = before
    _ignore_unreadable_code(made)
    return made if _can_be_written(made.stats.cache_path) else None


def _ignore_unreadable_code(made: Any) -> None:
    """Compile again where stored machine code cannot be read: damaged, or with types that an older version had."""
    files = getattr(getattr(made, "_cache", None), "_cache_file", None)
    for name, instead in (("_load_index", dict[Any, Any]), ("_load_data", None)):
        load = getattr(files, name, None)
        if load is not None:
            setattr(files, name, _or_nothing(load, instead))


def _or_nothing(load: Callable[..., Any], instead: Callable[[], Any] | None) -> Callable[..., Any]:
    def loaded(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # whatever unpickling may raise
            if instead is None:
                raise OSError("the stored machine code cannot be read") from None  # numba then compiles
            return instead()

    return loaded


@cache
def _can_be_written(folder: str) -> bool:
    """Whether files can be made there; for sources inside an archive numba asks only when it is too late."""
    if folder.startswith("~"):
        return False
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _home_is_unknown(function: Callable[..., object]) -> bool:
    """Whether numba would take a folder called "~" in the current one for the user's, and trust what lies in it."""
    if any(os.environ.get(name) for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")):
        return False
    try:
        Path.home()
    except RuntimeError:
        return not _can_be_written(str(Path(function.__code__.co_filename).parent / "__pycache__"))
    return False


def private_folder(parent: Path | None = None) -> Path | None:
    """A folder in the temporary one that nobody else can write to, made if need be; nothing if that cannot be had.

    Machine code is run, so a folder that another user made, linked to or can exchange is never taken.
    """
    if not hasattr(os, "geteuid"):  # Windows, where the user's own folder can always be written
        return None
    try:
        above = Path(tempfile.gettempdir()) if parent is None else parent
        if above.resolve() == Path.cwd():  # what lies in the current folder may have come with somebody's files
            return None
        shared = above.stat().st_mode
        folder = above / f"pacbandits-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    exchangeable = shared & (stat.S_IWGRP | stat.S_IWOTH) and not shared & stat.S_ISVTX
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return folder if ours and not exchangeable else None


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

    Pieces must write to places of their own. With one piece (or one core) the call is made in this thread. Otherwise
    this thread takes pieces like the others, and waits for nobody who has not begun: little work is done before
    another thread would have woken up.
    """
    pieces = min(count, cores() * chunks_per_core)
    workers = min(pieces, cores())
    if workers <= 1:
        task(0, count)
        return
    left = deque(pairwise([count * i // pieces for i in range(pieces + 1)]))
    helpers = [_pool(cores() - 1).submit(_work_off, left, task) for _ in range(workers - 1)]
    try:
        _work_off(left, task)
        for helper in helpers:
            if not helper.cancel():
                helper.result()
    finally:
        for helper in helpers:
            helper.cancel()


def _work_off(left: deque[tuple[int, int]], task: Callable[[int, int], None]) -> None:
    """Do what is left, piece by piece, as long as nobody else has; after an error or Ctrl-C nothing more is begun."""
    try:
        while True:
            try:
                start, stop = left.popleft()
            except IndexError:
                return
            task(start, stop)
    except BaseException:
        left.clear()
        raise


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=workers, thread_name_prefix="pacbandits")


# Threads do not survive a fork; a child that inherited the pool would wait for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def compiled_before() -> bool:
    """Whether machine code from an earlier run lies on disk, so that the first call will not have to compile."""
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    return any(folder is not None and any(folder.glob(f"*.{version}*.nbi")) for folder in _code_folders)


def keeps_code() -> bool:
    """Whether the machine code of this process's kernels is kept for the next one."""
    return None not in _code_folders
