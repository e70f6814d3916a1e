"""Small files that would unpack to a great deal, and what else costs more than it seems."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.reader_parts import File

DECISION = {"_label_cost": 0, "_label_probability": 1, "_label_Action": 1}


def parquet(table: pa.Table, **options: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def varint(number: int, length: int = 0) -> bytes:
    """A number as Parquet writes it, made longer without a change of its value."""
    value, out = 2 * number, bytearray()
    while value > 127 or len(out) + 1 < length:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def understated(data: bytes, number: int, said: int) -> bytes:
    """A Parquet file that says another number than the right one where it tells of its columns."""
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    right = varint(number)
    assert right in data[start:]
    return data[:start] + data[start:].replace(right, varint(said, len(right)))


def nulls() -> File:
    """Twenty million missing values in a few bytes."""
    return File("log.parquet", parquet(pa.table({"x": pa.nulls(20_000_000)})))


def lying_lists() -> File:
    """One list of eighteen million numbers, of which the file says that they are ten."""
    n = 18_000_000
    column = pa.ListArray.from_arrays(pa.array([0, n], type=pa.int32()), pa.array(np.zeros(n, dtype=np.int8)))
    data = parquet(pa.table({"phi": column}), row_group_size=n, data_page_size=2**31 - 1, write_batch_size=n)
    return File("log.parquet", understated(data, n, 10))


def lying_pages() -> File:
    """A page of zeros that unpacks to 140 MB, of which the file says that it holds ten numbers."""
    n = 35_000_000
    options = {"compression": "zstd", "use_dictionary": False, "data_page_size": 2**31 - 1, "write_batch_size": n}
    data = parquet(pa.table({"x": np.zeros(n, dtype=np.int32)}), row_group_size=n, **options)
    return File("log.parquet", understated(data, n, 10))


def many_columns() -> File:
    """More columns than are read."""
    return File("log.csv", b",".join(b"x%d" % i for i in range(20_000)) + b"\n" + b",".join([b"1"] * 20_000))


def many_parquet_columns() -> File:
    """So many columns that telling of them takes too much."""
    return File("log.parquet", parquet(pa.table({f"x{i}": pa.array([1], type=pa.int8()) for i in range(12_000)})))


def zipped_rows() -> File:
    """Three million short rows."""
    return File("log.csv.gz", gzip.compress(b"action,reward,propensity\n" + b"0,1,1\n" * 3_000_000, 1))


def zipped_lines() -> File:
    """A million short lines."""
    return File("log.json.gz", gzip.compress(b"\n" * 1_000_000, 1))


def wide_lines() -> File:
    """Lines that each name a feature of their own."""
    lines = [json.dumps(DECISION | {"c": {f"x{i}": 1}}) for i in range(10_001)]
    return File("log.dsjson", "\n".join(lines).encode())


def sparse_lines() -> File:
    """Lines that share so many features that each of them has few."""
    lines = [json.dumps(DECISION | {"c": {f"x{i % 5000}": 1}}) for i in range(12_000)]
    return File("log.dsjson", "\n".join(lines).encode())


def long_line() -> File:
    """A line without an end."""
    return File("log.dsjson", b'{"c": [' + b"[]," * 3_000_000)


def stated_arrays() -> File:
    """Feedback whose arrays are said to be long, by themselves and by the archive."""
    n = 30_000_000
    file = io.BytesIO()
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({n},), }}".encode().ljust(117) + b"\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("action", "reward", "pscore", "context"):
            archive.writestr(f"{name}.npy", member)
    size = struct.pack("<I", len(member))
    return File("log.npz", file.getvalue().replace(size, struct.pack("<I", len(member) + 8 * n)))


def many_actions() -> File:
    """Rows of few actions, one of which is numbered so high that all before it take room."""
    return File("log.csv", b"action,reward,propensity,x\n" + b"0,1,0.5,1\n" * 10_000 + b"9999,1,0.5,1\n")


def zipped_zeros() -> File:
    """NUL bytes where a table should be."""
    return File("log.csv.gz", gzip.compress(bytes(50_000_000), 1))


def open_quote() -> File:
    """A quote that is never closed."""
    return File("log.csv", b'a,b\n1,"' + b"x,y\n" * 200_000)


def largest_parquet() -> File:
    """Almost as much as may be read from a small file."""
    n = 1_600_000
    columns = {name: np.zeros(n) for name in ("a", "b", "c", "d", "e", "f", "reward")}
    columns |= {"action": np.zeros(n, dtype=np.int64), "propensity": np.ones(n)}
    return File("log.parquet", parquet(pa.table(columns)))


def largest_csv() -> File:
    """The same of rows in text."""
    return File("log.csv.gz", gzip.compress(b"action,reward,propensity\n" + b"0,1,1\n" * 2_000_000))


def largest_feedback() -> File:
    """The same of arrays."""
    n, file = 1_600_000, io.BytesIO()
    arrays = {"action": np.zeros(n, dtype=np.int64), "reward": np.zeros(n), "pscore": np.ones(n)}
    np.savez_compressed(file, context=np.zeros((n, 7)), **arrays)
    return File("log.npz", file.getvalue())


def largest_lines() -> File:
    """The same of lines."""
    line = json.dumps(DECISION | {"c": {"a": 1, "b": "x", "d": 0.5}}) + "\n"
    return File("log.json.gz", gzip.compress(line.encode() * 500_000))


def widest_csv() -> File:
    """As many columns as may be read, of plain text."""
    names = b",".join([b"action,reward,propensity", *(b"x%d" % i for i in range(9_997))])
    return File("log.csv", names + b"\n" + (b"0,1,1" + b",1" * 9_997 + b"\n") * 250)


LARGEST = (largest_parquet, largest_csv, largest_feedback, largest_lines, widest_csv)

# What is made, and what is said of it.
BOMBS = {
    nulls: "it would unpack from",
    lying_lists: "it would unpack from",
    lying_pages: "it would unpack from",
    many_columns: "there are 20,000 columns, and at most 10,000 can be read",
    many_parquet_columns: "its metadata takes more than 2.1 MB",
    zipped_rows: "at most 135 MB are read from a file of that size; unpack it, and read that",
    zipped_lines: "unpack it, and read that",
    wide_lines: "there are 10,001 columns",
    sparse_lines: "leave out features that few lines have",
    long_line: "line 1 of log.dsjson has more than 8,388,608 bytes",
    stated_arrays: "write it with numpy.savez, which does not compress",
    many_actions: "if there are that many actions, pass n_actions=10000",
    zipped_zeros: "has a first line of 1,048,576 bytes or more",
    open_quote: "has a line break within",
}
