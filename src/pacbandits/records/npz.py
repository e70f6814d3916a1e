"""Read and write .npz files of numbers: names and sizes are checked first; nothing is ever unpickled."""

from __future__ import annotations

import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pacbandits.errors import InputError, plain
from pacbandits.records.text_files import NUMBER_BYTES, ROW_BYTES, check_file, check_unpacked, max_unpacked_bytes, why

MAX_ARRAYS = 1000  # in a file
MAX_DIMENSIONS = 32
MAX_ARRAY_HEADER_BYTES = 10_000
_PACKING_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ARCHIVE_MARKS = (b"PK\x03\x04", b"PK\x05\x06")  # the latter of an empty archive
_ENCRYPTED = 1  # a bit of the flags
_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class _Header(NamedTuple):
    """The header of an array.

    shape: its length in each dimension.
    kind: the type of its entries.
    size: the size of the header in bytes.
    """

    shape: tuple[int, ...]
    kind: np.dtype[Any]
    size: int


class ArrayFile:
    """An open .npz file.

    names: the names of its arrays.
    """

    def __init__(self, archive: zipfile.ZipFile, *, size: int) -> None:
        self._archive, self._size = archive, size
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        self.names = tuple(self._members)
        if len(self.names) < len(archive.infolist()):
            raise InputError("two arrays have the same name")
        if len(self.names) > MAX_ARRAYS:
            raise InputError(f"there are {len(self.names):,} arrays, and at most {MAX_ARRAYS:,} can be read")

    def read(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return the named arrays, without those that hold a None, which numpy can only pickle.

        Raises:
            InputError: If one is damaged or holds anything other than numbers, or they unpack to too much.
        """
        chosen = {name: self._members[name] for name in names}
        headers = {name: self._read_header(name, info) for name, info in chosen.items()}
        given = {name: header for name, header in headers.items() if not (header.kind == "O" and header.shape == ())}
        total = 0
        for name, (shape, kind, header_bytes) in given.items():
            if kind.hasobject:
                raise InputError(f"array '{plain(name)}' holds Python objects, which are never loaded; store numbers")
            if kind.kind not in "biuf":
                raise InputError(f"{plain(name)} must be numbers, got dtype {plain(kind)}")
            count = math.prod(shape)
            if header_bytes + count * kind.itemsize != chosen[name].file_size:
                raise _damaged(name)
            total += count * max(kind.itemsize, NUMBER_BYTES)
        rows = max((header.shape[0] for header in given.values() if header.shape), default=0)
        check_unpacked(
            max(total, ROW_BYTES * rows), size=self._size, remedy="write it with numpy.savez, which does not compress"
        )
        return {name: self._read_array(name, chosen[name]) for name in given}

    def _read_header(self, name: str, info: zipfile.ZipInfo) -> _Header:
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _PACKING_METHODS:
            raise InputError(f"array '{plain(name)}' is encrypted, or packed as numpy does not; use numpy.savez")
        with self._open(name, info) as member:
            # Version 3 is version 2 with field names beyond Latin-1, and arrays of numbers have no fields.
            read = npy.read_array_header_1_0 if npy.read_magic(member) == (1, 0) else npy.read_array_header_2_0
            shape, _, kind = read(member, max_header_size=MAX_ARRAY_HEADER_BYTES)
            if len(shape) > MAX_DIMENSIONS or any(type(length) is not int or length < 0 for length in shape):
                raise _damaged(name)
            return _Header(shape, kind, member.tell())

    def _read_array(self, name: str, info: zipfile.ZipInfo) -> NDArray[Any]:
        with self._open(name, info) as member:
            out = npy.read_array(member, allow_pickle=False, max_header_size=MAX_ARRAY_HEADER_BYTES)
            if member.read(1):  # reading to the end compares the checksum
                raise _damaged(name)
            return out

    @contextmanager
    def _open(self, name: str, info: zipfile.ZipInfo) -> Generator[IO[bytes]]:
        """Yield the bytes of an array; turn every error of numpy or zipfile into an InputError."""
        try:
            with warnings.catch_warnings(), self._archive.open(info) as member:
                warnings.simplefilter("ignore")  # about headers that Python 2 wrote
                yield member
        except InputError:
            raise
        except MemoryError:
            raise InputError(f"array '{plain(name)}' does not fit into memory") from None
        except Exception:  # numpy evaluates the header, which may raise any error
            raise _damaged(name) from None


@contextmanager
def open_arrays(path: Path) -> Generator[ArrayFile]:
    """Yield the arrays of an .npz file."""
    size = check_file(path)
    try:
        with path.open("rb") as file:
            head = file.read(6)
            if head == b"\x93NUMPY":
                raise InputError("a single array, not an .npz archive; write it with numpy.savez")
            try:
                if head[:4] not in _ARCHIVE_MARKS:
                    raise ValueError
                archive = zipfile.ZipFile(file)
            except _ERRORS:
                raise InputError("not a readable .npz archive of arrays; write it with numpy.savez") from None
            with archive:
                yield ArrayFile(archive, size=size)
    except OSError as error:
        raise InputError(f"cannot read {path}: {why(error)}") from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to an .npz file, compressed unless it would then unpack to more than the limit for reading."""
    _write(path, arrays, packing=zipfile.ZIP_DEFLATED)
    rows = max(len(array) for array in arrays.values())
    unpacked = max(sum(NUMBER_BYTES * array.size for array in arrays.values()), ROW_BYTES * rows)
    if unpacked > max_unpacked_bytes(path.stat().st_size):
        _write(path, arrays, packing=zipfile.ZIP_STORED)


def _write(path: Path, arrays: Mapping[str, NDArray[Any]], *, packing: int) -> None:
    """Write as numpy.savez does, which before numpy 2.1 has no option against pickling."""
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def _damaged(name: str) -> InputError:
    return InputError(f"array '{plain(name)}' is damaged or not an array")
