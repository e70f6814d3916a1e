"""A folder that holds one whole state, the old or the new one, whenever its writer is killed."""

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


# None of these exists everywhere. A link by the name of a file is never followed, and a pipe never waited for.
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
FILE_MODE = 0o666  # less what the user's mask takes away

PART = re.compile(r"\.pacbandits-[0-9a-f]{16}\.part")  # the names of files that are not whole yet


class Disk:
    """The disk of this machine; an open file is a number."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder in one that exists, unless it is there."""
        folder.mkdir(exist_ok=True)

    def create(self, path: Path) -> int:
        """A new file to write to; an error where anything goes by that name, be it a link that leads nowhere."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, FILE_MODE)

    def write(self, file: int, data: bytes) -> None:
        """Write all of it."""
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]

    def flush(self, file: int) -> None:
        """Wait until what was written will outlast a loss of power."""
        os.fsync(file)

    def close(self, file: int) -> None:
        """Be done with a file."""
        os.close(file)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, in place of whatever goes by it; of a link the name, not what it leads to."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file; of a link the name, not what it leads to."""
        path.unlink(missing_ok=True)

    def flush_folder(self, folder: Path) -> None:
        """Wait until the names in a folder will outlast a loss of power, where the system has a way to ask for that."""
        if sys.platform == "win32":
            return
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems know no such thing
                raise
        finally:
            os.close(file)


def put_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Give a file these contents at once, so that its name stands for the old ones or the new ones."""
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
# The file that is locked is empty, is never written to and is never removed, so there is nothing in it to go stale.


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


# A folder that holds one whole state, the old or the new one, whenever its writer is killed.
#
# Tables lie there under names that tell their contents. state.json, which says what tables belong to it, is replaced
# last and in one step; only then are the tables removed that it no longer names. Nothing is ever written to a file that
# has one of those names: contents go to a new file, by a name that nobody can foresee, and that is renamed. So a link
# that someone has put there leads nowhere.


STATE, LOCK = "state.json", "state.lock"
NAME_DIGITS = 16  # of a digest
_TABLE = re.compile(rf"(contexts|log|predictions)-[0-9a-f]{{{NAME_DIGITS}}}\.parquet")


def name_table(kind: str, digest: str) -> str:
    """What a table of these contents is called: `log-0123456789abcdef.parquet`."""
    return f"{kind}-{digest[:NAME_DIGITS]}.parquet"


@dataclass(frozen=True, eq=False)
class StateFolder:
    """A folder for the state of a trial.

    path: where it is.
    disk: what writes to it.
    patience_seconds: for how long one waits when another uses it.
    """

    path: Path
    disk: Disk = field(default_factory=Disk)
    patience_seconds: float = LOCK_PATIENCE_SECONDS

    @classmethod
    def at(cls, folder: str | Path | StateFolder, *, name: str = "folder") -> StateFolder:
        """The folder of that name."""
        return folder if isinstance(folder, StateFolder) else cls(path_of(folder, name=name))

    def __str__(self) -> str:
        return str(self.path)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep all others from the folder, which is made unless it is there."""
        with ExitStack() as stack:
            with self._attempt("write to"):
                self._make(self.path)
                stack.enter_context(held_alone(self.path / LOCK, patience_seconds=self.patience_seconds))
            yield

    @contextmanager
    def looked_at(self) -> Generator[None]:
        """Keep those from the folder who would write to it."""
        with ExitStack() as stack:
            if self.holds_state():  # else there is nothing to keep
                with self._attempt("read"):
                    stack.enter_context(held_together(self.path / LOCK, patience_seconds=self.patience_seconds))
            yield

    def holds_state(self) -> bool:
        """Whether something was saved there."""
        return os.path.lexists(self.path / STATE)

    def tables(self) -> list[str]:
        """The tables that lie there, whether or not they belong to a state."""
        return self._names(_TABLE)

    def file(self, name: str) -> Path:
        """Where a file lies, to be read; a sentence where it is missing, a link or anything but a file."""
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
        """Put a state and its tables in the place of what is there; the folder must be held.

        state: what state.json will say. tables: by their names.
        """
        with self._attempt("write to"):
            for name in self._names(PART):  # of a process that was killed
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
        """Make a folder and those it lies in, each with a name that lasts."""
        if not folder.is_dir():
            self._make(folder.parent)
            self.disk.make_folder(folder)
            self.disk.flush_folder(folder.parent)

    def _put(self, name: str, data: bytes) -> None:
        """Give a file these contents at once, so that the name stands for the old ones or the new ones."""
        put_whole(self.disk, self.path / name, data)

    def _has(self, name: str, data: bytes) -> bool:
        """Whether a file of that name has these contents already."""
        try:
            path = self.file(name)
            return path.stat().st_size == len(data) and path.read_bytes() == data
        except (InputError, OSError):
            return False

    def _remove(self, name: str) -> None:
        """Remove a file that nobody needs; one that cannot be removed does no harm."""
        with suppress(OSError):
            self.disk.remove(self.path / name)

    def _names(self, pattern: re.Pattern[str]) -> list[str]:
        """What lies there by names of this form."""
        with suppress(OSError):
            return sorted(path.name for path in self.path.iterdir() if pattern.fullmatch(path.name))
        return []

    @contextmanager
    def _attempt(self, what: str) -> Generator[None]:
        """Say in a sentence what the system will not let one do."""
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot {what} {self.path}: {error.strerror or error}") from None
