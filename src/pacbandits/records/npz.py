"""Arrays of numbers in .npz files: names and sizes first, then those that are asked for; nothing is ever unpickled."""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pacbandits.errors import InputError, plain
from pacbandits.records.files import NUMBER_BYTES, ROW_BYTES, check_file, check_unpacked, max_unpacked_bytes, why

MAX_ARRAYS = 1000  # in a file
MAX_DIMENSIONS = 32
MAX_ARRAY_HEADER_BYTES = 10_000
_PACKING_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ARCHIVE_MARKS = (b"PK\x03\x04", b"PK\x05\x06")  # the latter of an empty one
_ENCRYPTED = 1  # a bit of the flags
_CHUNK_BYTES = 2**20
# A dictionary of Python, as numpy writes it: text, truth values, and lengths (with L in old files) as values.
_ENTRY = r"""['"](\w+)['"] ?: ?(?:'([^'\\]*)'|"([^"\\]*)"|(True|False)|\(([\dL, ]*)\))"""
_HEADER = re.compile(rf"\{{ ?{_ENTRY}(?: ?, ?{_ENTRY})*(?: ?,)? ?\}}")
_ONE_ENTRY = re.compile(_ENTRY)
_DESCRIPTION = re.compile(r"[<>=|]?([a-zA-Z])(\d*)")
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


@dataclass(frozen=True)
class _Header:
    """What an array's first bytes say of it.

    kind: the type of its entries, in numpy's letters.
    columns_first: whether its first index varies first.
    shape: how long it is in each direction.
    size: of the header, in bytes.
    """

    kind: str
    columns_first: bool
    shape: tuple[int, ...]
    size: int


class ArrayFile:
    """An .npz file that is open.

    names: of its arrays.
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
        """The named arrays; those are left out that hold a None, which numpy can only pickle.

        Raises:
            InputError: When one is damaged, holds anything else than numbers, or all unpack to too much.
        """
        chosen = {name: self._members[name] for name in names}
        headers = {name: self._read_header(name, info) for name, info in chosen.items()}
        given = {name: header for name, header in headers.items() if not (header.kind == "O" and header.shape == ())}
        total = 0
        for name, header in given.items():
            kind = _number_kind(name, header)
            count = math.prod(header.shape)
            if header.size + count * kind.itemsize != chosen[name].file_size:
                raise _damaged(name)
            total += count * max(kind.itemsize, NUMBER_BYTES)
        rows = max((header.shape[0] for header in given.values() if header.shape), default=0)
        check_unpacked(
            max(total, ROW_BYTES * rows), size=self._size, remedy="write it with numpy.savez, which does not compress"
        )
        return {name: self._read_array(name, chosen[name], header) for name, header in given.items()}

    def _read_header(self, name: str, info: zipfile.ZipInfo) -> _Header:
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _PACKING_METHODS:
            raise InputError(f"array '{plain(name)}' is encrypted, or packed as numpy does not; use numpy.savez")
        try:
            with self._archive.open(info) as member:
                return _parse_header(member)
        except _ERRORS:
            raise _damaged(name) from None

    def _read_array(self, name: str, info: zipfile.ZipInfo, header: _Header) -> NDArray[Any]:
        try:
            out = np.empty(math.prod(header.shape), dtype=_number_kind(name, header))
            room = out.view(np.uint8).data
            with self._archive.open(info) as member:
                member.read(header.size)
                place = 0
                while part := member.read(_CHUNK_BYTES):  # to the end, where the checksum is compared
                    room[place : place + len(part)] = part
                    place += len(part)
        except MemoryError:
            raise InputError(f"array '{plain(name)}' does not fit into memory") from None
        except _ERRORS:
            raise _damaged(name) from None
        if place != len(room):
            raise _damaged(name)
        return out.reshape(header.shape, order="F" if header.columns_first else "C")


@contextmanager
def open_arrays(path: Path) -> Generator[ArrayFile]:
    """The arrays of an .npz file."""
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
    """Write arrays to an .npz file, compressed unless it would then unpack to more than is read."""
    _write(path, arrays, packing=zipfile.ZIP_DEFLATED)
    rows = max(len(array) for array in arrays.values())
    unpacked = max(sum(NUMBER_BYTES * array.size for array in arrays.values()), ROW_BYTES * rows)
    if unpacked > max_unpacked_bytes(path.stat().st_size):
        _write(path, arrays, packing=zipfile.ZIP_STORED)


def _write(path: Path, arrays: Mapping[str, NDArray[Any]], *, packing: int) -> None:
    """As numpy.savez does, which before numpy 2.1 cannot be told not to pickle."""
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _parse_header(member: IO[bytes]) -> _Header:
    """The header of an array, of which ValueError says that it is none."""
    magic = member.read(8)
    if magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2, 3):
        raise ValueError
    width = 2 if magic[6] == 1 else 4
    length = int.from_bytes(member.read(width), "little")
    if length > MAX_ARRAY_HEADER_BYTES:
        raise ValueError
    raw = member.read(length)
    text = " ".join(raw.decode("utf-8" if magic[6] == 3 else "latin-1").split())
    if len(raw) < length or not _HEADER.fullmatch(text):
        raise ValueError
    entries = _ONE_ENTRY.findall(text)
    said = {name: (single + double, flag, lengths) for name, single, double, flag, lengths in entries}
    if len(entries) != 3 or set(said) != {"descr", "fortran_order", "shape"}:
        raise ValueError
    kind, flag = said["descr"][0], said["fortran_order"][1]
    shape = tuple(int(length.strip().removesuffix("L")) for length in said["shape"][2].split(",") if length.strip())
    if not kind or not flag or len(shape) > MAX_DIMENSIONS or (magic[6] == 3 and "L" in said["shape"][2]):
        raise ValueError
    return _Header(kind.lstrip("|") if kind.endswith("O") else kind, flag == "True", shape, 8 + width + length)


def _number_kind(name: str, header: _Header) -> np.dtype[Any]:
    """The type of an array's numbers, or a sentence."""
    if header.kind == "O":
        raise InputError(f"array '{plain(name)}' holds Python objects, which are never loaded; store numbers")
    try:
        kind = np.dtype(header.kind) if _DESCRIPTION.fullmatch(header.kind) else None
    except TypeError:
        kind = None
    if kind is None:
        raise _damaged(name)
    if kind.kind not in "biuf":
        raise InputError(f"{plain(name)} must be numbers, got dtype {kind}")
    return kind


def _damaged(name: str) -> InputError:
    return InputError(f"array '{plain(name)}' is damaged or not an array")
