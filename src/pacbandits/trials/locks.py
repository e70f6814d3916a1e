"""File locks that the operating system releases when their holder dies.

The file that is locked is empty, is never written to and is never removed, so there is nothing in it to go stale.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pacbandits.errors import InputError
from pacbandits.trials.disk import FILE_MODE, NO_LINK

LOCK_PATIENCE_SECONDS = 2.0  # what others may take to save or load
LOCK_POLL_SECONDS = 0.01
IN_USE = "another process or thread runs, saves or loads a trial there"
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)

_open_files: set[int] = set()

if sys.platform == "win32":
    import msvcrt

    ALONE = TOGETHER = msvcrt.LK_NBLCK  # there is but one kind

    def _try_lock(file: int, kind: int) -> None:
        msvcrt.locking(file, kind, 1)

else:
    import fcntl

    ALONE, TOGETHER = fcntl.LOCK_EX, fcntl.LOCK_SH

    def _try_lock(file: int, kind: int) -> None:
        fcntl.flock(file, kind | fcntl.LOCK_NB)


@contextmanager
def held_alone(path: Path, *, patience_seconds: float = LOCK_PATIENCE_SECONDS, in_use: str = IN_USE) -> Generator[None]:
    """Hold the lock of that file as the only one; a sentence where another holds it for longer than one can wait.

    in_use: what the sentence says that the other does.
    """
    with _kept(_acquired(path, ALONE, patience_seconds, in_use)):
        yield


@contextmanager
def held_together(path: Path, *, patience_seconds: float = LOCK_PATIENCE_SECONDS) -> Generator[None]:
    """Hold the lock of that file with others who only look; do without where this process may make none.

    So what cannot be written to, as a copy on a disk that is read only, can still be read.
    """
    try:
        file = _acquired(path, TOGETHER, patience_seconds)
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
        yield
        return
    with _kept(file):
        yield


@contextmanager
def _kept(file: int) -> Generator[None]:
    """Keep a file open, and so its lock."""
    _open_files.add(file)
    try:
        yield
    finally:
        if file in _open_files:  # not so in a process that was forked meanwhile
            _open_files.remove(file)
            os.close(file)


def _acquired(path: Path, kind: int, patience_seconds: float, in_use: str = IN_USE) -> int:
    """The file, open and locked."""
    until = time.monotonic() + patience_seconds
    while True:
        file = _open(path)
        try:
            if _is_locked(path, file, kind):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        if time.monotonic() >= until:
            raise InputError(f"{path.parent} is in use: {in_use}; wait until it has ended, or take another folder")
        time.sleep(LOCK_POLL_SECONDS)


def _open(path: Path) -> int:
    """The file, which is made unless it is there; a sentence where it is anything but a file."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, FILE_MODE)
    except OSError as error:
        if path.is_symlink():
            raise _not_a_file(path) from None
        if error.errno not in NOT_ALLOWED:
            raise
        try:
            file = os.open(path, os.O_RDONLY | NO_LINK)  # of another user, who let us read it
        except FileNotFoundError:
            raise error from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_a_file(path)
    return file


def _not_a_file(path: Path) -> InputError:
    return InputError(f"{path} must be an ordinary file, and is a link or something else; remove it")


def _is_locked(path: Path, file: int, kind: int) -> bool:
    """Try to lock an open file; False where another has it, or where it was taken away meanwhile."""
    try:
        _try_lock(file, kind)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise InputError(
            f"{path} cannot be locked ({error.strerror or error}), so two processes could use {path.parent} at once; "
            "take a folder on another disk"
        ) from None
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(now, os.fstat(file))


def _forget_open_files() -> None:
    """In a process that was forked: its parent's locks must not live on in it."""
    while _open_files:
        os.close(_open_files.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_open_files)
