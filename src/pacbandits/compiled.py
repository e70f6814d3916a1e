"""Compile kernels, cache their machine code on disk, and run them on several cores.

Kernels release the interpreter's lock and are called on ranges from a thread pool. That keeps them safe to call from
several threads at once, quick to compile, and deterministic: the partition of the work never changes the order of
additions.
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
from functools import cache, update_wrapper
from itertools import pairwise
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., object])

MAX_PLAIN_ROWS = 256  # in plain Python some 20 microseconds each; machine code takes 0.7 s to load, 1.2 s to compile
_asked_cores: ContextVar[int | None] = ContextVar("asked_cores", default=None)


def kernel(function: Function) -> Function:
    """Compile `function` on first use, release the interpreter's lock, and cache the machine code on disk.

    The cache is the first writable folder of: `NUMBA_CACHE_DIR`, the folder of the source, the user's cache folder, a
    private temporary folder. If none is writable, every process compiles for itself.
    """
    return cast(Function, Kernel(function))


class Kernel:
    """A function that numba compiles; numba is imported at its first call, as many processes never make one.

    Attributes besides these are those of numba's dispatcher, and make it.
    py_func: the function in plain Python.
    """

    _all: ClassVar[list[Kernel]] = []
    _lock: ClassVar[RLock] = RLock()

    def __init__(self, function: Callable[..., object]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._made: Any = None
        self._plain_rows = 0  # computed without machine code so far
        self._call: Callable[..., Any] = self._call_first
        self._all.append(self)

    def __call__(self, *arguments: Any) -> Any:  # numba's dispatcher beneath one cheap call: some run in tight loops
        return self._call(*arguments)

    def _call_first(self, *arguments: Any) -> Any:
        self._call = self.dispatcher
        return self._call(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    @property
    def dispatcher(self) -> Any:
        """Return numba's object for this function, made if need be."""
        with self._lock:
            if self._made is None:
                self._made = _dispatcher_of(self.py_func)
        return self._made

    @property
    def _numba_type_(self) -> Any:  # by which numba knows a kernel that another kernel calls
        return self.dispatcher._numba_type_

    @property
    def is_loaded(self) -> bool:
        """Return whether this process has machine code of it."""
        return self._made is not None and bool(self._made.overloads)

    def is_quicker_plain(self, rows: int) -> bool:
        """Return whether plain Python is quicker for so many rows, as a new server gets first, and count them."""
        if self.is_loaded or max(rows, self._plain_rows) > MAX_PLAIN_ROWS:
            return False
        self._plain_rows += rows
        return True

    @classmethod
    def folders(cls) -> set[Path | None]:
        """Return the cache folders of this process's kernels; None for those that are not cached."""
        places = {one.dispatcher.stats.cache_path for one in cls._all}
        return {None if place is None else Path(place) for place in places}


def plain_if_few(function: Function, rows: int) -> Function:
    """Return a kernel, or for few rows the same function in plain Python, if its machine code is not loaded.

    The arithmetic is the same, operation by operation. The function may not call other kernels.
    """
    if not cast(Kernel, function).is_quicker_plain(rows):
        return function
    return cast(Function, np.errstate(all="ignore")(cast(Any, function).py_func))  # machine code warns of nothing


def _dispatcher_of(function: Callable[..., object]) -> Any:
    made = None if _home_is_unknown(function) else _keeping_code(function)
    if made is None and (folder := private_folder()) is not None:
        made = _keeping_code(function, folder)
    return _compiling(function, keep=False) if made is None else made


def _compiling(function: Callable[..., object], *, keep: bool) -> Any:
    import numba

    jit: Any = numba.njit  # pyright: ignore[reportUnknownMemberType]
    return jit(cache=keep, nogil=True)(function)


def _keeping_code(function: Callable[..., object], folder: Path | None = None) -> Any | None:
    """Return the kernel with a cache on disk, in `folder` if given; None if that folder cannot be written."""
    from numba.core import config

    settings: Any = config
    before = settings.CACHE_DIR
    try:
        if folder is not None:
            settings.CACHE_DIR = str(folder)  # read once, when the kernel is made
        made = _compiling(function, keep=True)
    except RuntimeError:  # numba found no writable folder
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
    """Return whether files can be created in `folder`; numba checks too late for sources inside an archive."""
    if folder.startswith("~"):
        return False
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _home_is_unknown(function: Callable[..., object]) -> bool:
    """Return whether numba would take a folder "~" in the current folder for the home folder and trust its content."""
    if any(os.environ.get(name) for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")):
        return False
    try:
        Path.home()
    except RuntimeError:
        return not _can_be_written(str(Path(function.__code__.co_filename).parent / "__pycache__"))
    return False


def private_folder(parent: Path | None = None) -> Path | None:
    """Return a temporary folder that no other user can write to, created if needed; None if there is none.

    Machine code is executed, so a folder that another user created, linked to or can replace is refused.
    """
    if not hasattr(os, "geteuid"):  # Windows, where the user's own folder is always writable
        return None
    try:
        above = Path(tempfile.gettempdir()) if parent is None else parent
        if above.resolve() == Path.cwd():  # files in the current folder may come from others
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
    """Return the number of cores this process may use, or was asked to use."""
    asked = _asked_cores.get()
    if asked is not None:
        return asked
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@contextmanager
def using_cores(count: int) -> Generator[None]:
    """Run the block with `count` cores; many small tasks finish sooner on one."""
    before = _asked_cores.set(count)
    try:
        yield
    finally:
        _asked_cores.reset(before)


def over_cores(task: Callable[[int, int], None], *, count: int, chunks_per_core: int = 4) -> None:
    """Call `task(start, stop)` on pieces of `range(count)`, on all cores at once.

    Pieces must write to disjoint memory. With one piece (or one core) the call is made in this thread. Otherwise this
    thread takes pieces too and cancels helpers that have not started, so that little work finishes before another
    thread has woken up.
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
    """Take pieces off the queue and run them until it is empty; after an error or Ctrl-C, empty it."""
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


# Threads do not survive a fork: a child that inherited the pool would wait for them forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def compiled_before() -> bool:
    """Return whether the disk holds machine code from an earlier run, so that the first call need not compile."""
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    return any(folder is not None and any(folder.glob(f"*.{version}*.nbi")) for folder in Kernel.folders())


def announces_compiling() -> bool:
    """Return whether compilation is to be announced: no machine code is stored, and no earlier run announced it."""
    if compiled_before():
        return False
    for folder in sorted(Kernel.folders(), key=str):
        mark = None if folder is None else folder / f"announced.py{sys.version_info.major}{sys.version_info.minor}"
        try:
            if mark is not None:
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        except OSError:
            continue
        return True
    return True


def keeps_code() -> bool:
    """Return whether the machine code of all this process's kernels is cached for the next process."""
    return None not in Kernel.folders()
