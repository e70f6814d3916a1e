"""Replace files atomically, and lock a folder while a process writes to it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pacbandits.errors import InputError

# The file-system calls, one method per step, so that a test can fail any of them.


# None of these exists on every system. Links are not followed, and opening a pipe does not block.
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
FILE_MODE = 0o666  # before the user's umask

PART = re.compile(r"\.pacbandits-[0-9a-f]{16}\.part")  # names of files that are not complete yet


class Disk:
    """The disk of this machine; open files are file descriptors."""

    def create(self, path: Path) -> int:
        """Create a file and return it open for writing; raise if the name exists, even as a dangling link."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, FILE_MODE)

    def write(self, file: int, data: bytes) -> None:
        """Write all of the data."""
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]

    def flush(self, file: int) -> None:
        """Wait until the written data would survive a loss of power."""
        os.fsync(file)

    def close(self, file: int) -> None:
        """Close a file."""
        os.close(file)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, replacing any file of the new name; for links, the names and not their targets."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file; a link itself, not its target."""
        path.unlink(missing_ok=True)

    def flush_folder(self, folder: Path) -> None:
        """Wait until the names in a folder would survive a loss of power, where the system supports that."""
        if sys.platform == "win32":
            return
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems do not support it
                raise
        finally:
            os.close(file)


def put_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Replace a file's contents atomically: the name refers to the old contents or the new ones."""
    part = path.parent / f".pacbandits-{secrets.token_hex(8)}.part"
    file = disk.create(part)
    try:
        try:
            disk.write(file, data)
            disk.flush(file)
        finally:
            disk.close(file)
        disk.rename(part, path)
    except BaseException:
        with suppress(OSError):
            disk.remove(part)
        raise


# File locks that the operating system releases when their holder dies.
#
# The locked file is empty, never written to and never removed, so it cannot become stale.


LOCK_PATIENCE_SECONDS = 2.0  # time for others to save or load
LOCK_POLL_SECONDS = 0.01
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)

_open_files: set[int] = set()

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def held_alone(path: Path, *, in_use: str, patience_seconds: float = LOCK_PATIENCE_SECONDS) -> Generator[None]:
    """Hold the exclusive lock of a file; raise InputError if another holds it for longer than `patience_seconds`.

    in_use: what the other does, for the message.
    """
    with _kept(_acquired(path, patience_seconds, in_use)):
        yield


@contextmanager
def _kept(file: int) -> Generator[None]:
    """Keep a file open, and so its lock."""
    _open_files.add(file)
    try:
        yield
    finally:
        if file in _open_files:  # false in a process that was forked meanwhile
            _open_files.remove(file)
            os.close(file)


def _acquired(path: Path, patience_seconds: float, in_use: str) -> int:
    """Return the file, open and locked."""
    until = time.monotonic() + patience_seconds
    while True:
        file = _open(path)
        try:
            if _is_locked(path, file):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        if time.monotonic() >= until:
            raise InputError(f"{path.parent} is in use: {in_use}; wait until it has ended, or take another folder")
        time.sleep(LOCK_POLL_SECONDS)


def _open(path: Path) -> int:
    """Open the file, creating it if needed; raise InputError if it is not an ordinary file."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, FILE_MODE)
    except OSError as error:
        if path.is_symlink():
            raise _not_a_file(path) from None
        if error.errno not in NOT_ALLOWED:
            raise
        try:
            file = os.open(path, os.O_RDONLY | NO_LINK)  # of another user, who allows reading
        except FileNotFoundError:
            raise error from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_a_file(path)
    return file


def _not_a_file(path: Path) -> InputError:
    return InputError(f"{path} must be an ordinary file, and is a link or something else; remove it")


def _is_locked(path: Path, file: int) -> bool:
    """Try to lock an open file; return False if another holds the lock, or the file was removed meanwhile."""
    try:
        _try_lock(file)
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
    """Close the parent's lock files in a forked process, so that they do not stay locked by it."""
    while _open_files:
        os.close(_open_files.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_open_files)
