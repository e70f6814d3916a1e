"""Contexts in Parquet files, read a block at a time."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits import Contexts, InputError
from pacbandits.logs import data_set as people
from pacbandits.logs.data_set import open_contexts


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(people, "ROWS_PER_BLOCK", 7)
    monkeypatch.setattr(people, "_READ_ROWS", 3)


def table(n, *, seed=0):
    rng = np.random.default_rng(seed)
    ages = rng.normal(40, 10, size=n).round(1)
    device = rng.choice(["phone", "desktop", "tablet"], size=n)
    gone = rng.random(n) < 0.2
    return pa.table(
        {
            "age": pa.array(ages, mask=rng.random(n) < 0.1),
            "device": pa.array(device, mask=gone),
            "visits": pa.array(rng.integers(0, 9, size=n)),
            "member": pa.array(rng.random(n) < 0.5),
            "plan": pa.array(rng.choice(["free", "paid"], size=n)).dictionary_encode(),
        }
    )


@pytest.mark.parametrize(("cuts", "group"), [((50,), 50), ((20, 30), 4), ((1, 13, 36), 10), ((7, 7, 36), 7)])
def test_blocks_are_the_rows_of_the_whole_table(tmp_path, cuts, group):
    rows = table(50)
    pq.write_table(rows, tmp_path / "all.parquet")
    whole = Contexts.read(tmp_path / "all.parquet")
    paths, start = [], 0
    for number, count in enumerate(cuts):
        paths.append(tmp_path / f"{number}.parquet")
        pq.write_table(rows.slice(start, count), paths[-1], row_group_size=group)
        start += count
    source = pickle.loads(pickle.dumps(open_contexts(paths)))
    assert source.n_rows == 50
    assert (source.names, source.categories) == (whole.names, whole.categories)
    for first, last in ((0, 8), (0, 1), (3, 5), (7, 8)):
        blocks = list(source.blocks(first, last))
        assert [len(block) for block in blocks] == [7 if k < 7 else 1 for k in range(first, last)]
        features = np.concatenate([block.contexts.features for block in blocks])
        assert np.array_equal(features, whole.features[7 * first : 7 * last], equal_nan=True)


def test_features_can_be_chosen(tmp_path):
    rows = table(20).append_column("joined", pa.array(np.arange(20).astype("datetime64[D]")))
    pq.write_table(rows, tmp_path / "a.parquet")
    assert open_contexts(tmp_path / "a.parquet", features=["visits", "age"]).names == ("visits", "age")
    with pytest.raises(InputError, match=r"'joined' holds .*no numbers and no text"):
        open_contexts([tmp_path / "a.parquet"])
    with pytest.raises(InputError, match=r"no column 'agee'.*'age'"):
        open_contexts([tmp_path / "a.parquet"], features=["agee"])


def test_what_cannot_be_read_is_said(tmp_path):
    pq.write_table(table(20), tmp_path / "a.parquet")
    pq.write_table(table(20).drop_columns(["visits"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet has no column 'visits', which .*a\.parquet has"):
        open_contexts([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    (tmp_path / "c.csv").write_text("age\n1\n")
    with pytest.raises(InputError, match="only Parquet files"):
        open_contexts(tmp_path / "c.csv")
    with pytest.raises(InputError, match="name no file"):
        open_contexts([])
    pq.write_table(table(20).append_column("context_weight", pa.array(np.ones(20))), tmp_path / "d.parquet")
    with pytest.raises(InputError, match="all rows count equally"):
        open_contexts(tmp_path / "d.parquet")
    pq.write_table(pa.table({"name": [f"n{k}" for k in range(300)]}), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="'name' has more than 255 different texts"):
        open_contexts(tmp_path / "e.parquet")
    pq.write_table(table(0), tmp_path / "f.parquet")
    with pytest.raises(InputError, match="has no rows"):
        open_contexts(tmp_path / "f.parquet")
    source = open_contexts(tmp_path / "a.parquet")
    pq.write_table(table(19), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet.*has changed"):
        list(source.blocks(0, 1))
