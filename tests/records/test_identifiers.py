"""Columns that name rows are left out with a remark, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits import InputError, read_log
from pacbandits.records import Contexts
from pacbandits.records.column_types import leave_out_identifiers, notice_returns, tells_of_return
from pacbandits.records.log import digest_contexts


def text(values: list[str | None]) -> pa.Array:
    return pa.array(values).dictionary_encode()


@pytest.mark.parametrize(
    ("name", "column", "left_out"),
    [
        ("user_id", pa.array([3, 1, 2]), True),
        ("userId", pa.array([3, 1, 2]), True),
        ("ID", text(["a", "b", "c"]), True),
        ("e-mail", text(["a", "b", "c"]), True),
        ("user_id", pa.array([3, 1, 3]), False),
        ("user_id", pa.array([3, 1, None]), False),
        ("user_id", pa.array([3.0, 1.0, 2.0]), False),
        ("id", pa.array([3]), False),
        ("paid", pa.array([3, 1, 2]), False),
        ("age", pa.array(range(1000)), False),
        ("who", text([f"p{i}" for i in range(101)]), True),
        ("who", text([f"p{i}" for i in range(100)]), False),
        ("who", text([f"p{max(i, 19)}" for i in range(200)]), True),
        ("who", text([f"p{max(i, 20)}" for i in range(200)]), False),
        ("who", text([None] * 30 + [f"p{i}" for i in range(170)]), False),
    ],
)
def test_which_columns(name: str, column: pa.Array, left_out: bool) -> None:
    columns = {name: column}
    remarks = leave_out_identifiers(columns)
    assert (name not in columns) == left_out == len(remarks)
    assert leave_out_identifiers({name: column}, keep=[name]) == ()
    if left_out:
        assert remarks[0].startswith(f"the column '{name}' was left out, as ")
        assert remarks[0].endswith(f"; --features +{name} (in Python, keep=['{name}']) keeps it")


PEOPLE = [i // 3 for i in range(300)]  # a hundred, of whom each comes three times


@pytest.mark.parametrize(
    ("name", "column", "noticed"),
    [
        ("user_id", pa.array(PEOPLE), True),
        ("userId", pa.array(PEOPLE), True),
        ("Patient No", pa.array(PEOPLE), True),
        ("customerid", text([f"c{i}" for i in PEOPLE]), True),
        ("email", text([f"{i}@example.org" for i in PEOPLE]), True),
        ("home_visitor_id", pa.array(PEOPLE), True),
        ("customer", pa.array(PEOPLE), True),
        ("id", pa.array(PEOPLE), True),
        ("user_id", pa.array([*PEOPLE[:-1], None]), True),
        ("user_id", pa.array([i // 20 for i in range(300)]), False),  # fifteen may be a category
        ("customer", pa.array([i // 6 for i in range(300)]), False),
        ("id", pa.array([i % 100 for i in range(2100)]), False),
        ("user_id", pa.array(range(300)), False),  # nobody comes back
        ("user_id", pa.array([float(i) for i in PEOPLE]), False),
        ("customer_age", pa.array(PEOPLE), False),
        ("store_id", pa.array(PEOPLE), False),
        ("product", text([f"p{i}" for i in PEOPLE]), False),
        ("customer_type", text([f"p{i}" for i in PEOPLE]), False),
        ("userland", pa.array(PEOPLE), False),
    ],
)
def test_people_who_come_back_are_noticed(name: str, column: pa.Array, noticed: bool) -> None:
    said = notice_returns({name: column, "age": pa.array(PEOPLE)})
    assert len(said) == noticed
    assert notice_returns({name: column}, but=[name]) == ()
    columns = {name: column}
    left_out = leave_out_identifiers(columns)
    if noticed:
        rows = len(column) - column.null_count
        assert tells_of_return(said[0])
        assert said[0].startswith(f"{rows} rows are of 100 values of '{name}'")
        assert said[0].endswith(f"--unit {name} (in Python, unit='{name}') accounts for that")
        assert f"its name is that of people's identifiers, of which {rows} rows have 100" in left_out[0]
        assert columns == {}
    assert notice_returns({name: column}, coded=[name]) == (() if pa.types.is_dictionary(column.type) else said)


def test_in_logs_and_contexts(tmp_path: Path) -> None:
    n = 150
    table = pa.table(
        {
            "user_id": np.arange(n) + 7,
            "mail": [f"{i}@example.org" for i in range(n)],
            "age": np.arange(n) % 40,
            "action": np.arange(n) % 2,
            "reward": np.zeros(n),
            "propensity": np.full(n, 0.5),
            "context_id": np.arange(n),
            "round": np.arange(n),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    log, remarks = read_log(tmp_path / "log.parquet")
    assert log.contexts.names == ("age",)
    assert log.contexts.ids is not None
    assert [words.split(",")[0] for words in remarks[:2]] == [
        "the column 'user_id' was left out",
        "the column 'mail' was left out",
    ]
    people = table.select(["user_id", "mail", "age", "context_id"])
    pq.write_table(people, tmp_path / "people.parquet")
    contexts, said = Contexts.read_with_remarks(tmp_path / "people.parquet")
    assert said == remarks[:2]
    assert contexts.names == ("age",)
    kept = Contexts.read(tmp_path / "people.parquet", keep=["mail"])
    assert kept.names == ("mail", "age")
    with pytest.raises(InputError, match="there is no column 'male' to keep; did you mean 'mail'"):
        Contexts.read(tmp_path / "people.parquet", keep=["male"])
    # What was kept once, and written, is no longer asked about.
    kept.write(tmp_path / "kept.parquet")
    assert digest_contexts(Contexts.read(tmp_path / "kept.parquet")) == digest_contexts(kept)
