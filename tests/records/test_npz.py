"""Headers of arrays that a stranger wrote: numpy reads them, and what it makes of the odd ones ends in a sentence."""

from __future__ import annotations

import struct
import zipfile

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.records.npz import open_arrays


def read_array(folder, header):
    """The arrays of an archive whose only member has this header and 64 bytes after it."""
    text = header.encode()
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64))
    with open_arrays(folder / "a.npz") as file:
        return file.read(file.names)


def header(kind="'<f8'", shape="(8,)"):
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n"


@pytest.mark.parametrize("shape", ["(8,)", "(8L,)", "(2, 4)"])
def test_arrays_are_read(tmp_path, shape):
    assert np.array_equal(read_array(tmp_path, header(shape=shape))["a"].reshape(-1), np.zeros(8))


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        ("'<f8'", "(-8,)", "damaged"),
        ("'<f8'", "(True, 8)", "damaged"),
        ("'<f8'", "(7,)", "damaged"),
        ("'<f8'", "(99999999999999999999,)", "damaged"),
        ("'<f8'", f"({'1, ' * 40}8)", "damaged"),
        ("'<f8'", f"{'(' * 4000}8{')' * 4000}", "damaged"),
        ("'<f8'", f"({'-' * 9000}8,)", "damaged|memory"),
        ("'<f8'", "(" + "1 + " * 2000 + "1,)", "damaged"),
        ("'<f99'", "(8,)", "damaged"),
        ("'O'", "(8,)", "Python objects, which are never loaded"),
        ("[('a', '<f8')]", "(8,)", "must be numbers"),
        ("'" + "f8," * 3000 + "f8'", "(1,)", "must be numbers"),
    ],
)
def test_headers_that_are_none_are_refused(tmp_path, kind, shape, words):
    with pytest.raises(InputError, match=words) as caught:
        read_array(tmp_path, header(kind, shape))
    assert len(str(caught.value)) < 200
