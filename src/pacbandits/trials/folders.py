"""A folder that holds one whole state, the old or the new one, whenever its writer is killed.

Tables lie there under names that tell their contents. state.json, which says what tables belong to it, is replaced
last and in one step; only then are the tables removed that it no longer names. Nothing is ever written to a file that
has one of those names: contents go to a new file, by a name that nobody can foresee, and that is renamed. So a link
that someone has put there leads nowhere.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pacbandits.checks import path_of
from pacbandits.errors import InputError
from pacbandits.trials.disk import PART, Disk, put_whole
from pacbandits.trials.locks import LOCK_PATIENCE_SECONDS, held_alone, held_together

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
