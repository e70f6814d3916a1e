"""A folder that always holds one whole state, the old or the new one, even if its writer is killed."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pacbandits.checks import path_of
from pacbandits.errors import InputError

# The file-system calls of a state folder, one method per step, so that a test can fail any of them.


# None of these exists on every system. Links are not followed, and opening a pipe does not block.
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
FILE_MODE = 0o666  # before the user's umask

PART = re.compile(r"\.pacbandits-[0-9a-f]{16}\.part")  # names of files that are not complete yet


class Disk:
    """The disk of this machine; open files are file descriptors."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder in an existing one, unless it exists."""
        folder.mkdir(exist_ok=True)

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
IN_USE = "another process or thread runs, saves or loads a trial there"
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)

_open_files: set[int] = set()

if sys.platform == "win32":
    import msvcrt

    ALONE = TOGETHER = msvcrt.LK_NBLCK  # Windows has one kind only

    def _try_lock(file: int, kind: int) -> None:
        msvcrt.locking(file, kind, 1)

else:
    import fcntl

    ALONE, TOGETHER = fcntl.LOCK_EX, fcntl.LOCK_SH

    def _try_lock(file: int, kind: int) -> None:
        fcntl.flock(file, kind | fcntl.LOCK_NB)


@contextmanager
def held_alone(path: Path, *, patience_seconds: float = LOCK_PATIENCE_SECONDS, in_use: str = IN_USE) -> Generator[None]:
    """Hold the exclusive lock of a file; raise InputError if another holds it for longer than `patience_seconds`.

    in_use: what the other does, for the message.
    """
    with _kept(_acquired(path, ALONE, patience_seconds, in_use)):
        yield


@contextmanager
def held_together(path: Path, *, patience_seconds: float = LOCK_PATIENCE_SECONDS) -> Generator[None]:
    """Hold the shared lock of a file with other readers; go on without a lock if this process may not create one.

    So a folder that cannot be written to, such as a copy on a read-only disk, can still be read.
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
        if file in _open_files:  # false in a process that was forked meanwhile
            _open_files.remove(file)
            os.close(file)


def _acquired(path: Path, kind: int, patience_seconds: float, in_use: str = IN_USE) -> int:
    """Return the file, open and locked."""
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


def _is_locked(path: Path, file: int, kind: int) -> bool:
    """Try to lock an open file; return False if another holds the lock, or the file was removed meanwhile."""
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
    """Close the parent's lock files in a forked process, so that they do not stay locked by it."""
    while _open_files:
        os.close(_open_files.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_open_files)


# Tables have names derived from their contents. state.json, which names its tables, is replaced last and atomically;
# only then are tables removed that it no longer names. No file of those names is ever written to: contents go to a new
# file with a random name, which is then renamed. So a link that someone put there is never followed.


STATE, LOCK = "state.json", "state.lock"
NAME_DIGITS = 16  # digits of a digest
_TABLE = re.compile(rf"(contexts|log|predictions)-[0-9a-f]{{{NAME_DIGITS}}}\.parquet")


def name_table(kind: str, digest: str) -> str:
    """Return the file name of a table with this digest: `log-0123456789abcdef.parquet`."""
    return f"{kind}-{digest[:NAME_DIGITS]}.parquet"


@dataclass(frozen=True, eq=False)
class StateFolder:
    """A folder for the state of a trial.

    path: its path.
    disk: writes to it.
    patience_seconds: how long to wait while another uses it.
    """

    path: Path
    disk: Disk = field(default_factory=Disk)
    patience_seconds: float = LOCK_PATIENCE_SECONDS

    @classmethod
    def at(cls, folder: str | Path | StateFolder, *, name: str = "folder") -> StateFolder:
        """Return the folder at a path; a StateFolder is returned as is."""
        return folder if isinstance(folder, StateFolder) else cls(path_of(folder, name=name))

    def __str__(self) -> str:
        return str(self.path)

    @contextmanager
    def held(self) -> Generator[None]:
        """Lock the folder exclusively; it is created if needed."""
        with ExitStack() as stack:
            with self._attempt("write to"):
                self._make(self.path)
                stack.enter_context(held_alone(self.path / LOCK, patience_seconds=self.patience_seconds))
            yield

    @contextmanager
    def looked_at(self) -> Generator[None]:
        """Lock the folder against writers."""
        with ExitStack() as stack:
            if self.holds_state():  # otherwise there is nothing to protect
                with self._attempt("read"):
                    stack.enter_context(held_together(self.path / LOCK, patience_seconds=self.patience_seconds))
            yield

    def holds_state(self) -> bool:
        """Whether a state was saved there."""
        return os.path.lexists(self.path / STATE)

    def tables(self) -> list[str]:
        """Return the names of the tables there, whether or not they belong to a state."""
        return self._names(_TABLE)

    def file(self, name: str) -> Path:
        """Return the path of a file to read; raise InputError if it is missing, a link or not a file."""
        path = self.path / name
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            raise InputError(f"no file at {path}") from None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        if not stat.S_ISREG(mode):
            raise InputError(f"{path} is a link or a folder and not a file")
        return path

    def replace(self, state: bytes, tables: Mapping[str, bytes]) -> None:
        """Replace the state and its tables; the folder must be held.

        state: the contents of state.json. tables: by name.
        """
        with self._attempt("write to"):
            for name in self._names(PART):  # left by a process that was killed
                self._remove(name)
            for name, data in tables.items():
                if not self._has(name, data):
                    self._put(name, data)
            self.disk.flush_folder(self.path)
            self._put(STATE, state)
            self.disk.flush_folder(self.path)
            for name in sorted(set(self.tables()) - tables.keys()):
                self._remove(name)

    def _make(self, folder: Path) -> None:
        """Make a folder and its parents, each name flushed to disk."""
        if not folder.is_dir():
            self._make(folder.parent)
            self.disk.make_folder(folder)
            self.disk.flush_folder(folder.parent)

    def _put(self, name: str, data: bytes) -> None:
        """Replace a file's contents atomically: the name refers to the old contents or the new ones."""
        put_whole(self.disk, self.path / name, data)

    def _has(self, name: str, data: bytes) -> bool:
        """Whether a file of that name has these contents already."""
        try:
            path = self.file(name)
            return path.stat().st_size == len(data) and path.read_bytes() == data
        except (InputError, OSError):
            return False

    def _remove(self, name: str) -> None:
        """Remove an unneeded file; failure is harmless."""
        with suppress(OSError):
            self.disk.remove(self.path / name)

    def _names(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names there that match a pattern."""
        with suppress(OSError):
            return sorted(path.name for path in self.path.iterdir() if pattern.fullmatch(path.name))
        return []

    @contextmanager
    def _attempt(self, what: str) -> Generator[None]:
        """Turn an error of the operating system into an InputError that names the folder."""
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot {what} {self.path}: {error.strerror or error}") from None
