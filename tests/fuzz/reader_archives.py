"""Archives of arrays, made by rule from random numbers: right ones, odd ones and broken ones."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile

import numpy as np

from tests.fuzz.reader_parts import File, broken, some


def _npy(array: object, rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), version=(int(rng.integers(1, 4)), 0), allow_pickle=True)
    return file.getvalue()


def _odd_member(data: bytes, rng: np.random.Generator) -> bytes:
    """An array whose header says something else than its data are."""
    head = data.find(b"{")
    length = data.find(b"\n", head) - head
    texts = [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3, -1), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (6,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (6,), }",
        "{'descr': '<U1000000000', 'fortran_order': False, 'shape': (6,), }",
        "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (6,), }",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (6L,), }",
        "{'descr': '<f8', 'shape': (6,)}",
        "{'descr': '<f8', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
        "(" * 100,
        "__import__('os')",
        "{'descr': '\\x3cf8', 'fortran_order': False, 'shape': (6,), }",
    ]
    said = str(some(rng, texts)).encode()
    if len(said) > length:
        return data[: int(rng.integers(len(data)))]
    return data[:head] + said.ljust(length) + data[head + length :]


def npz_file(rng: np.random.Generator, *, problem: bool = False) -> File:
    """Open Bandit's feedback or a problem, whose arrays, headers and archive vary."""
    n = 6
    arrays: dict[str, object]
    if problem:
        arrays = {
            "context_weights": np.full(n, 1 / n),
            "mean_rewards": rng.random((n, 2)),
            "policy_actions": rng.integers(0, 2, size=(3, n)).astype(str(some(rng, ["int64", "uint8", "float32"]))),
        }
    else:
        arrays = {
            "n_rounds": n,
            "n_actions": 2,
            "context": rng.normal(size=(n, 2)),
            "action_context": np.array([{"a": 1}, None], dtype=object),
            "action": rng.integers(0, 2, size=n),
            "position": some(rng, [None, np.zeros(n, dtype=int), np.zeros(n, dtype=object), np.arange(n) % 2]),
            "reward": rng.integers(0, 2, size=n),
            "pscore": np.full(n, 0.5),
        }
    names = list(arrays)
    for _ in range(int(rng.choice([0, 0, 1]))):
        arrays[str(some(rng, names))] = some(
            rng,
            [
                rng.normal(size=n).astype(">f4"),
                np.asfortranarray(rng.normal(size=(n, 2))),
                np.array(["a"] * n),
                np.full(n, np.nan),
                np.zeros(n, dtype=bool),
                np.zeros(n, dtype=complex),
                np.zeros(n, dtype=[("a", "f8"), ("b", "i4")]),
                np.zeros(n, dtype=np.longdouble),
                np.zeros((0, 2)),
                np.array(2**63, dtype=np.uint64),
                np.zeros(n, dtype="M8[s]"),
            ],
        )
    file = io.BytesIO()
    odd_way = rng.random() < 0.1
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")  # on two members of one name
        for name, array in arrays.items():
            member = _npy(array, rng)
            if rng.random() < 0.06:
                member = _odd_member(member, rng) if rng.random() < 0.7 else broken(member, rng)
            full = f"{name}{some(rng, ['.npy'] * 19 + [''])}"
            if odd_way and rng.random() < 0.2:
                full = str(some(rng, [f"folder/{full}", f"../{full}", full.upper(), "\x1b[2J.npy", f"{full}.npz"]))
            info = zipfile.ZipInfo(full, date_time=(2020, 1, 1, 0, 0, 0))
            ways = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]
            info.compress_type = int(some(rng, [*ways, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA] if odd_way else ways))
            archive.writestr(info, member)
    data = file.getvalue()
    if rng.random() < 0.1:  # a checksum, a size or a flag in the archive's directory
        at = data.rfind(b"PK\x01\x02")
        patch = struct.pack("<I", int(rng.choice([0, 1, 2**31, 2**32 - 1])))
        place = at + int(rng.choice([6, 8, 10, 16, 20, 24, 42]))
        data = data[:place] + patch + data[place + 4 :]
    return File("log.npz", broken(data, rng) if rng.random() < 0.5 else data)


def problem_file(rng: np.random.Generator) -> File:
    """A problem, whose arrays, headers and archive vary."""
    return npz_file(rng, problem=True)
