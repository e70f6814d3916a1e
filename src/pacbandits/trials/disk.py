"""The file-system calls of a state folder, one method per step, so that a test can fail any of them."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path

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
