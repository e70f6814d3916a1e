"""Files of every format that can be read, made by rule from random numbers: right ones, odd ones and broken ones."""

from __future__ import annotations

import gzip
import io
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.reader_archives import npz_file, problem_file
from tests.fuzz.reader_parts import File, broken, some

ODD_TEXTS = [
    "",
    "north",
    "na\u00efve",
    "a,b",
    'say "hi"',
    "two\nlines",
    "tab\there",
    "\x1b[2Jgood",
    "nul\0byte",
    "\u202eright to left",
    "1,234",
    "x" * 500,
    "NA",
    "nan",
    " padded ",
    "\U0001f600",
    "12:30",
]
ODD_NAMES = [
    "",
    "a.b",
    "age",
    "x" * 3000,
    "\x1b[31mred",
    "line\nbreak",
    "context_weight",
    "context_id",
    "phi",
    "propensity_0",
    "propensity_1",
    "least_propensity",
    "round",
    "repeats",
    "position",
    "Aktion\u00e4",
    "propensities",
]
ODD_NUMBERS = [
    "-0.0",
    "1e400",
    "-1e-400",
    "inf",
    "NaN",
    "0x10",
    "+5",
    " 7 ",
    "1_000",
    "true",
    "FALSE",
    "",
    "9" * 30,
    "1.5e3",
]


# Parquet


def _odd_column(n: int, rng: np.random.Generator) -> pa.Array:
    """A column of one of many types, right ones among them."""
    numbers = rng.integers(0, 100, size=n)
    texts = [str(some(rng, ODD_TEXTS)) for _ in range(n)]
    reals = rng.normal(size=n)
    reals[rng.integers(n)] = float(some(rng, [np.nan, np.inf, -0.0, 1e38, 5e-324, 0.5, 0.25]))
    makers = [
        lambda: pa.array(numbers.astype(str(some(rng, ["int8", "uint8", "int16", "uint32", "int64", "uint64"])))),
        lambda: pa.array(reals.astype(str(some(rng, ["float32", "float64"])))),
        lambda: pa.array(np.arange(n, dtype=np.float16)),
        lambda: pa.array(numbers % 2 == 0),
        lambda: pa.array(texts, type=some(rng, [pa.string(), pa.large_string(), pa.string_view()])),
        lambda: pa.array(texts).dictionary_encode(),
        lambda: pa.array(numbers).dictionary_encode(),
        lambda: pa.DictionaryArray.from_arrays(pa.array(numbers % 3), pa.array(["c", "a", "never", "b"])),
        lambda: pa.nulls(n),
        lambda: pa.array([None if x % 5 == 0 else int(x) for x in numbers], type=pa.int64()),
        lambda: pa.array([Decimal(int(x)) / 4 for x in numbers]),
        lambda: pa.array(numbers, type=some(rng, [pa.timestamp("us"), pa.duration("s"), pa.date64(), pa.time64("us")])),
        lambda: pa.array([text.encode("latin-1", "replace") for text in texts]),
        lambda: pa.array([b"\xff\xfe" * 2] * n, type=pa.binary(4)),
        lambda: pa.array([{"a": int(x), "b": {"c": 1}} for x in numbers]),
        lambda: pa.array([[int(x)] * int(x % 3) for x in numbers]),
        lambda: pa.array([[0.5, 0.5]] * n, type=some(rng, [pa.list_(pa.float64()), pa.list_(pa.float64(), 2)])),
        lambda: pa.array([["a", "b"]] * n),
        lambda: pa.array([[[1.0, 2.0], [0.0, 1.0]]] * n),
        lambda: pa.array([[[[1.0]]]] * n),
        lambda: pa.array([[("k", 1)]] * n, type=pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([(2**62 + int(x)) for x in numbers]),
        lambda: pa.array([2**64 - 1 - int(x) for x in numbers], type=pa.uint64()),
    ]
    if hasattr(pa, "opaque"):  # from pyarrow 18 on
        extend = pa.ExtensionArray.from_storage
        makers += [
            lambda: extend(pa.uuid(), pa.array([b"0" * 16] * n, type=pa.binary(16))),
            lambda: extend(pa.opaque(pa.int64(), "a\x1bname", "vendor"), pa.array(numbers)),
        ]
    return makers[int(rng.integers(len(makers)))]()


def _odd_metadata(rng: np.random.Generator) -> dict[bytes, bytes]:
    deep = b"[" * 5000 + b"]" * 5000
    said = some(
        rng,
        [
            b'["fine"]',
            b'["\x1b[2J"]',
            deep,
            b"{}",
            b"[1]",
            b"\xff",
            b'["\\ud800"]',
            b"",
            json.dumps(["x" * 20000]).encode(),
        ],
    )
    return {b"pacbandits remarks": said, b"pandas": b"{", b"other": rng.bytes(30)}


def parquet_file(rng: np.random.Generator) -> File:
    """A log in Parquet, whose columns, types, metadata and way of writing vary."""
    n = int(rng.integers(1, 40))
    actions = rng.integers(0, 2, size=n)
    columns: list[tuple[str, pa.Array]] = [
        ("age", pa.array(rng.normal(size=n))),
        ("place", pa.array([str(some(rng, ["b", "a", "c"])) for _ in range(n)])),
        ("action", pa.array(actions)),
        ("reward", pa.array(rng.integers(0, 2, size=n))),
    ]
    if rng.random() < 0.5:
        columns.append(("propensities", pa.array([[0.25, 0.75]] * n)))
    else:
        columns.append(("propensity", pa.array(np.where(actions == 1, 0.75, 0.25))))
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        name = str(some(rng, [*ODD_NAMES, "odd", "strange", "other"]))
        columns.insert(int(rng.integers(len(columns) + 1)), (name, _odd_column(n, rng)))
    if rng.random() < 0.2:
        which = int(rng.integers(len(columns)))
        columns[which] = (columns[which][0], _odd_column(n, rng))
    table = pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])
    if rng.random() < 0.2:
        table = table.replace_schema_metadata(_odd_metadata(rng))
    file = io.BytesIO()
    try:
        pq.write_table(
            table,
            file,
            compression=some(rng, ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]),
            use_dictionary=bool(rng.integers(2)),
            data_page_version=some(rng, ["1.0", "2.0"]),
            row_group_size=int(some(rng, [3, 1000])),
            write_page_checksum=bool(rng.integers(2)),
            store_schema=bool(rng.integers(5)),
            write_statistics=bool(rng.integers(2)),
        )
    except pa.ArrowNotImplementedError:  # older versions of pyarrow cannot write all of their types
        return parquet_file(rng)
    return File("log.parquet", broken(file.getvalue(), rng))


# CSV


def _cell(text: str, delimiter: str, rng: np.random.Generator) -> str:
    if delimiter in text or '"' in text or "\n" in text or rng.random() < 0.1:
        quoted = text.replace('"', '""')
        return f'"{quoted}"'
    return text


def csv_file(rng: np.random.Generator) -> File:
    """A log in CSV or TSV, compressed or not, whose cells, quotes, ends of lines and encoding vary."""
    tabs, zipped = rng.random() < 0.3, rng.random() < 0.3
    delimiter = "\t" if tabs else ","
    n = int(rng.choice([0, 1, 3, 12]))
    names = ["age", "place", "action", "reward", "propensity"]
    rows = [
        [f"{rng.normal():.3f}", str(some(rng, ["b", "a", "c"])), str(rng.integers(2)), str(rng.integers(2)), "0.5"]
        for _ in range(n)
    ]
    if rng.random() < 0.3:
        names.insert(int(rng.integers(6)), str(some(rng, ODD_NAMES)))
        for row in rows:
            row.insert(names.index(names[-1]) if rng.random() < 0.05 else len(row), str(some(rng, ODD_NUMBERS)))
    if rows and rng.random() < 0.6:
        for _ in range(int(rng.integers(1, 3))):
            row = rows[int(rng.integers(n))]
            row[int(rng.integers(len(row)))] = str(some(rng, ODD_TEXTS + ODD_NUMBERS))
    lines = [delimiter.join(_cell(cell, delimiter, rng) for cell in row) for row in [names, *rows]]
    end = str(some(rng, ["\n", "\n", "\r\n", "\r"]))
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    if rng.random() < 0.15 and len(text) > 1:
        place = int(rng.integers(len(text)))
        text = text[:place] + str(some(rng, ['"', delimiter, "\0", "\n", "\r", ";"])) + text[place:]
    encoding = str(some(rng, ["utf-8"] * 6 + ["utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32"]))
    data = text.encode(encoding, "replace")
    if rng.random() < 0.3:
        data = broken(data, rng)
    if zipped:
        data = gzip.compress(data, mtime=0)
        if rng.random() < 0.3:
            data = broken(data, rng)
    return File(f"log.{'tsv' if tabs else 'csv'}{'.gz' if zipped else ''}", data)


# dsjson


def _odd_value(rng: np.random.Generator) -> object:
    deep: object = 1
    for _ in range(int(some(rng, [3, 300]))):
        deep = {"d": deep} if rng.random() < 0.5 else [deep]
    plain = [1, -0.0, 1.5, True, None, "", "a", "\x1b[2J", 10**25, 1e308, 7, "\ud800"]
    return some(rng, [*plain, [], {}, [1, "a"], {"x": [1, 2]}, [{"y": 1}], {"x": {"z": "b"}}, [0.5, None], deep])


def dsjson_file(rng: np.random.Generator) -> File:
    """A log in dsjson, whose lines say odd things, or are none."""
    lines = []
    full = rng.random() < 0.5
    for _ in range(int(rng.integers(1, 8))):
        action = int(rng.integers(2))
        line: dict[str, object] = {
            "_label_cost": -float(rng.integers(2)),
            "_label_probability": 0.5,
            "_label_Action": action + 1,
            "_labelIndex": action,
            "a": [action + 1, 2 - action],
            "c": {"user": {"age": int(rng.integers(90)), "city": str(some(rng, ["b", "a"]))}, "_multi": [{}, {}]},
        }
        if full:
            line["p"] = [0.5, 0.5]
        if rng.random() < 0.08:
            line[str(some(rng, [*line, "pdrop", "_skipLearn", "_outcomes"]))] = _odd_value(rng)
        if rng.random() < 0.15:
            inside = line["c"]
            if isinstance(inside, dict):
                inside[str(some(rng, ["user", "user.age", "_multi", "odd", "\ud800", "_slots"]))] = _odd_value(rng)
        lines.append(json.dumps(line))
        if rng.random() < 0.02:
            lines.append(
                str(some(rng, ["", "{", "[1]", '{"a": 1, "a": 2}', "NaN", "\0", "{}", '{"_label_cost": NaN}']))
            )
    data = "\n".join(lines).encode("utf-8")
    if rng.random() < 0.1:
        data = b"\xef\xbb\xbf" + data
    data = broken(data, rng)
    if rng.random() < 0.2:
        return File("log.json.gz", broken(gzip.compress(data, mtime=0), rng))
    return File("log.dsjson", data)


FILE_MAKERS = {
    "parquet": parquet_file,
    "csv": csv_file,
    "dsjson": dsjson_file,
    "npz": npz_file,
    "problem": problem_file,
}
