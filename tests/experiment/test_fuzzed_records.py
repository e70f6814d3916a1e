"""Exports with altered bytes, columns, metadata and entries, also with a chain made anew: an InputError or a fault."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from pacbandits.certificate import Certificate
from pacbandits.errors import InputError
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.chain import BEGINNING, linked
from pacbandits.experiment.exported_record import links_of
from pacbandits.experiment.protocol import GuardrailRule, LateRule
from pacbandits.records.log_metadata import PackedText, pack_text, unpack_text
from tests.experiment.live import Played

ODD = (
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**53,
    2**62,
    2**63 - 1,
    1e300,
    -0.5,
    0.5,
    "",
    "x",
    "0",
    [],
    [1],
    {},
    {"a": 1},
    [[0]],
)
TRACEBACKS = (196, 20942, 21466)  # seeds that ended in one
NUMBERS = (-1, 0, 1, 2, 255, 256, 2**31 - 1, 2**31, 2**53 + 1, 2**62, 2**63 - 1)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    return play_genuine(tmp_path_factory.mktemp("genuine"))


def play_genuine(folder):
    """A small export with everything in it: a holdout, a guardrail, a window, a withdrawal; and its certificate."""
    late, rule = LateRule("window", window_seconds=86400 * 1.5), GuardrailRule("complaint", 0.5)
    options = {"holdout": 0.2, "late": late, "guardrail": rule, "epsilon": 0.3, "policies": "trees:depth=1"}
    played = Played(folder / "e.db", options)
    played.day(40, told=0.9, guardrail=lambda action: 0.1)
    played.experiment.withdraw("free shipping", "sold out")
    played.day(10, told=0.9, guardrail=lambda action: 0.1)
    played.experiment.close_round("go on")
    played.day(5)
    played.advance()
    played.experiment.export(folder / "x.parquet", reveal_seed=True)
    made = Certificate.from_json(played.experiment.result().certificate)
    assert audit(read_record(folder / "x.parquet"), made).good
    return folder, made, played.experiment.protocol.trial(("free shipping",))[1]


def parts_of(path):
    """The columns, the metadata and the entries of an export."""
    table = pq.read_table(path)
    key = next(name for name in table.schema.metadata if b"about" in name)
    about = json.loads(table.schema.metadata[key])
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    packed = columns["record_entries"]
    numbers = np.asarray(packed.flatten()).reshape(len(packed), -1)
    entries = json.loads(unpack_text(PackedText(numbers, about["record"]["entries_bytes"])))
    return columns, about, entries, dict(table.schema.metadata), key


def write(path, columns, about, entries, metadata, key):
    if entries is not None:
        again = pack_text(json.dumps(entries), rows=len(columns["action"]))
        flat = pa.array(again.numbers.reshape(-1))
        columns["record_entries"] = pa.FixedSizeListArray.from_arrays(flat, again.numbers.shape[1])
        about["record"]["entries_bytes"] = again.size
    made = pa.table(columns).replace_schema_metadata({**metadata, key: json.dumps(about)})
    pq.write_table(made, path)


def alter_value(rng, value):
    """A JSON value in which one scalar, key or item is another."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = str(rng.choice(list(value)))
        if rng.random() < 0.1:
            return {other: one for other, one in value.items() if other != name}
        return value | {name: alter_value(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = int(rng.integers(len(value)))
        if rng.random() < 0.1:
            return value[:place] + value[place + 1 :]
        return [*value[:place], alter_value(rng, value[place]), *value[place + 1 :]]
    return ODD[int(rng.integers(len(ODD)))]


def alter_column(rng, columns):
    name = str(rng.choice(list(columns)))
    column, n = columns[name], len(columns[name])
    kind = int(rng.integers(9))
    if kind == 0:
        del columns[name]
    elif kind == 1:
        columns[name] = pa.nulls(n)
    elif kind == 2:
        columns[name] = pa.array(["a"] * n)
    elif kind == 3:
        columns[name] = pa.array([[1.0]] * (n - 1) + [[1.0, 2.0]])
    elif kind == 4 and pa.types.is_integer(column.type):
        columns[name] = pa.array(column.to_numpy().astype(float))
    elif kind == 5:
        columns[name] = column.take(pa.array(rng.permutation(n)))
    elif pa.types.is_fixed_size_list(column.type):
        flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False)).copy()
        odd = (np.nan, np.inf, -1.0, 1e300) if flat.dtype.kind == "f" else (0, 1, 200)
        flat[int(rng.integers(len(flat)))] = odd[int(rng.integers(len(odd)))]
        width = column.type.list_size
        flat = flat[: len(flat) - n] if kind == 6 and width > 1 else flat
        columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(flat), len(flat) // n)
    elif pa.types.is_integer(column.type):
        values = column.to_numpy(zero_copy_only=False).astype(np.int64).copy()
        values[int(rng.integers(n))] = NUMBERS[int(rng.integers(len(NUMBERS)))]
        columns[name] = pa.array(values)
    elif pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False).copy()
        values[int(rng.integers(n))] = (np.nan, np.inf, -np.inf, -1.0, 1e300, 0.5)[int(rng.integers(6))]
        columns[name] = pa.array(values)
    else:
        columns[name] = column.take(pa.array([0] * n))


def fuzz(genuine, seed):
    """Alter something; return what is said of the file: faults, or the message of an InputError."""
    folder, made, policies = genuine
    rng, path = np.random.default_rng(seed), folder / "altered.parquet"
    columns, about, entries, metadata, key = parts_of(folder / "x.parquet")
    what = int(rng.integers(4))
    if what == 0:
        given = bytearray((folder / "x.parquet").read_bytes())
        for _ in range(int(rng.integers(1, 4))):
            given[int(rng.integers(len(given)))] = int(rng.integers(256))
        path.write_bytes(bytes(given))
    elif what == 1:
        for _ in range(int(rng.integers(1, 3))):
            alter_column(rng, columns)
        write(path, columns, about, None, metadata, key)
    elif what == 2:
        about["record"] = alter_value(rng, about["record"])
        write(path, columns, about, None, metadata, key)
    else:
        place = int(rng.integers(len(entries)))
        if rng.random() < 0.2:
            entries[place] = alter_value(rng, entries[place])
        else:
            entries[place][3] = json.dumps(alter_value(rng, json.loads(entries[place][3])), sort_keys=True)
        write(path, columns, about, entries, metadata, key)
    try:
        if what:  # and with a chain made anew, as whoever keeps the database could
            record, head, heads = read_record(path), BEGINNING, {}
            for link in links_of(record):
                heads[link.number] = head = linked(head, link.kind, link.record)
            columns, about, entries, metadata, key = parts_of(path)
            for entry in entries:
                entry[4] = heads[entry[0]].hex()
            write(path, columns, about, entries, metadata, key)
        log = pb.Log.read(path)
        verdict = pb.verify(made, log, policies)
        return audit(read_record(path), made, log=log).joined(verdict).faults
    except InputError as error:
        return (str(error),)


def sweep(genuine, seeds):
    quiet = [seed for seed in seeds if not fuzz(genuine, seed)]
    # What is not hashed and says nothing (the name in the file, say), or was altered to what it was, is no fault.
    assert len(quiet) < 0.25 * len(seeds)


@pytest.mark.thorough
def test_altered_records_end_in_words(genuine):
    sweep(genuine, [*TRACEBACKS, *range(80)])


@pytest.mark.thorough
def test_hundreds_of_altered_records_end_in_words(genuine):
    sweep(genuine, range(1_000, 1_500))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_thousands_of_altered_records_end_in_words(genuine, part):
    sweep(genuine, range(10_000 + 1_000 * part, 11_000 + 1_000 * part))
