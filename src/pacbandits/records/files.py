"""Limits for files from untrusted sources: which are opened, and how much they may unpack to.

What reading takes is in proportion to the size of a file: a compressed one may unpack to `MAX_UNPACKED_RATIO` times its
size and `UNPACKED_ALLOWANCE_BYTES` more, where every number counts for the `NUMBER_BYTES` that it takes here, and every
row for `ROW_BYTES` or more. Who has more to read stores it without compression, and nothing stands in the way.
"""

from __future__ import annotations

import gzip
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from pacbandits.errors import InputError, plain, visible

MAX_UNPACKED_RATIO = 16
UNPACKED_ALLOWANCE_BYTES = 2**27
MAX_COLUMNS = 10_000  # of a table, or features of a log
NUMBER_BYTES = 8  # what a number takes once it is read
ROW_BYTES = 64  # what a row of a table takes at least

_UTF8_MARK = b"\xef\xbb\xbf"
_MARKS_OF_OTHERS = (  # the longer ones first: UTF-32's begins with UTF-16's
    (b"\xff\xfe\x00\x00", "in UTF-32; save it as UTF-8"),
    (b"\x00\x00\xfe\xff", "in UTF-32; save it as UTF-8"),
    (b"\xff\xfe", "in UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "in UTF-16; save it as UTF-8"),
    (b"\x1f\x8b", "compressed by gzip; let its name end in .gz"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"PAR1", "a Parquet file; let its name end in .parquet"),
)


def check_file(path: Path) -> int:
    """The size in bytes of an ordinary file, or a sentence: folders, pipes and devices are not read."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a path with a null character
        raise InputError(f"no file at {path}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {why(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"no file at {path}; it is a folder, a pipe or a device: name a file")
    return found.st_size


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Sentences on what is wrong within begin with the path, if they do not name it."""
    try:
        yield
    except InputError as error:
        raise error if visible(str(path)) in str(error) else InputError(f"{path}: {error}") from None
    except MemoryError:
        raise InputError(f"{path} does not fit into memory") from None


def why(error: BaseException) -> str:
    """What an error says in its first line, plainly."""
    words = str(getattr(error, "strerror", None) or error).strip()
    return plain(words.splitlines()[0]) if words else type(error).__name__


def max_unpacked_bytes(size: int) -> int:
    """How much a file of that size may unpack to."""
    return MAX_UNPACKED_RATIO * size + UNPACKED_ALLOWANCE_BYTES


def check_unpacked(unpacked: int, *, size: int, remedy: str) -> None:
    """Raise when a file of that size would unpack to more than it may."""
    most = max_unpacked_bytes(size)
    if unpacked > most:
        raise InputError(
            f"it would unpack from {spell_bytes(size)} to {spell_bytes(unpacked)} or more, and at most "
            f"{spell_bytes(most)} are read from a file of that size; {remedy}"
        )


def check_columns(count: int) -> None:
    """Raise when a table has more columns than can be read."""
    if count > MAX_COLUMNS:
        raise InputError(f"there are {count:,} columns, and at most {MAX_COLUMNS:,} can be read; leave some out")


def spell_bytes(count: int) -> str:
    """A number of bytes in words."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


@contextmanager
def open_text(path: Path) -> Generator[BinaryIO]:
    """The bytes of a text in UTF-8, unpacked if its name ends in .gz, after the mark that some programs put before it.

    Raises:
        InputError: When it is in another encoding that can be told, or compressed though its name does not say so.
        OSError, EOFError, zlib.error: While it is read.
    """
    check_file(path)
    with gzip.open(path, "rb") if is_zipped(path) else path.open("rb") as file:
        head = file.read(4)
        for mark, words in _MARKS_OF_OTHERS:
            if head.startswith(mark):
                raise InputError(f"{path} is {words}")
        file.seek(len(_UTF8_MARK) if head.startswith(_UTF8_MARK) else 0)
        yield cast(BinaryIO, file)


def is_zipped(path: Path) -> bool:
    """Whether the name of a file says that it is compressed by gzip."""
    return path.name.lower().endswith(".gz")
