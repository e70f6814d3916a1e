"""Parquet of strangers: pages tell sizes, whatever the file says of itself; it tells names, and not its folder."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fuzz.reader_bombs import parquet as parquet_bytes
from tests.fuzz.reader_bombs import understated

from pacbandits import InputError, Log
from pacbandits.records import Contexts, parquet
from pacbandits.records.parquet import count_unpacked_bytes
from pacbandits.records.text_files import max_unpacked_bytes

COLUMNS = {
    "numbers": pa.array(np.arange(1000.0)),
    "few": pa.array(np.zeros(1000, dtype=np.int8)),
    "text": pa.array(["some label"] * 1000),
    "lists": pa.array([[1.0, 2.0, 3.0]] * 1000),
}


def count(data: bytes, most: int = 10**9) -> int:
    return count_unpacked_bytes(io.BytesIO(data), size=len(data), most=most)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionaries", [True, False])
def test_pages_tell_what_columns_take(compression: str, version: str, dictionaries: bool) -> None:
    """Of each number 8 bytes or a little more (lists have levels, dictionaries entries); of text that and itself."""
    options = {"compression": compression, "data_page_version": version, "use_dictionary": dictionaries}
    for name, least, most in (
        ("numbers", 8000, 17000),
        ("few", 8000, 8100),
        ("text", 8000, 25000),
        ("lists", 24000, 26000),
    ):
        assert least <= count(parquet_bytes(pa.table({name: COLUMNS[name]}), **options)) <= most
    split = parquet_bytes(pa.table(COLUMNS), row_group_size=100, data_page_size=50, **options)
    assert count(split) >= 8 * 6000
    assert 10_000 < count(split, most=10_000) < 20_000  # no further than needed


def test_what_a_file_says_of_itself_does_not_count() -> None:
    data = parquet_bytes(pa.table({"few": COLUMNS["few"]}))
    assert count(understated(data, 1000, 3)) == count(data)


def test_a_page_that_is_no_page_is_said(tmp_path: Path) -> None:
    data = bytearray(parquet_bytes(pa.table({"x": [1.0, 2.0]}), compression="none", use_dictionary=False))
    data[4:8] = b"\xff\xff\xff\xff"
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet is not a readable Parquet file: the page at byte 4 is damaged"):
        Contexts.read(tmp_path / "a.parquet")


def test_no_damage_to_a_footer_ends_the_program(tmp_path: Path) -> None:
    """pyarrow aborts when it is asked about columns whose description is damaged: only we may ask that."""
    data = parquet_bytes(pa.table({"x": [1.0, 2.0], "lists": [[1.0], [2.0]]}), store_schema=False)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path, refused = tmp_path / "a.parquet", 0
    for place in range(start, len(data) - 8):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])  # lengths of lists, among others
        try:
            parquet.read_table(path)
        except InputError:
            refused += 1
    assert refused > 50


def test_folders_name_no_columns(tmp_path: Path) -> None:
    """A folder called year=2020 is no feature."""
    (tmp_path / "year=2020").mkdir()
    path = tmp_path / "year=2020" / "a.parquet"
    Contexts.of([[1.0], [2.0]], names=["x"]).write(path)
    assert Contexts.read(path).names == ("x",)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_of_every_kind_is_the_same(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"x": pa.array(["b", "a", "b", "c"], type=kind)})
    try:
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow {pa.__version__} cannot write {kind}")
    contexts = Contexts.read(tmp_path / "a.parquet")
    assert contexts.categories == (("a", "b", "c"),)
    assert contexts.features[:, 0].tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"[" * 9000 + b"]" * 9000, "is nested too deep"),
        (b'{"a": 1}', "the remarks must be a list"),
        (b"[1]", "entry 0 of the remarks must be text, got 1"),
        (b"\xff\xfe", "the remarks in .*: damaged"),
        (b"nonsense", "is not JSON"),
        (json.dumps(["x"] * 101).encode(), "of the remarks must be a list|the remarks must be a list with a length"),
        (b'["\\ud800"]', "half a character"),
    ],
)
def test_remarks_that_are_none_are_said(said: bytes, words: str, tmp_path: Path) -> None:
    columns = {"x": [1.0], "action": [0], "reward": [1.0], "propensities": [[1.0]]}
    table = pa.table(columns).replace_schema_metadata({b"pacbandits remarks": said})
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(InputError, match=words) as caught:
        Log.read(tmp_path / "log.parquet")
    assert len(str(caught.value).replace(str(tmp_path), "")) < 300


def test_remarks_are_printable(tmp_path: Path) -> None:
    log = Log.of(Contexts.of([[1.0]]), actions=[0], rewards=[1], propensities=[[1.0]], remarks=("\x1b[2Jgood",))
    log.write(tmp_path / "log.parquet")
    assert Log.read(tmp_path / "log.parquet").remarks == ("?[2Jgood",)


@pytest.mark.slow
def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    """Millions of rows that are all alike would unpack from nothing; they are written out."""
    n = 2_500_000
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.ones(n)}), path)
    with pytest.raises(InputError, match="write it without compression and dictionaries"):
        Contexts.read(path)
    parquet.write(path, {"x": np.ones(n)})
    assert max_unpacked_bytes(path.stat().st_size) > 64 * n
    assert len(Contexts.read(path)) == n
