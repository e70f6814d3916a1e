"""What the reader of a table is told before the answer."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits.logs.data_set import open_set
from pacbandits.logs.readers import log_of
from pacbandits.logs.reading_options import ReadingOptions

N = 400


def table(**columns):
    rng = np.random.default_rng(0)
    base = {"age": rng.integers(20, 60, N), "action": rng.integers(0, 2, N), "reward": rng.integers(0, 2, N)}
    return pa.table(base | columns)


def notices(frame, **reading):
    return log_of(frame, split="uniform", **reading).notices


def test_nothing_is_said_of_a_table_in_which_rows_agree_by_chance():
    assert notices(table()) == ()
    assert notices(table(amount=np.random.default_rng(1).random(N))) == ()


def test_rows_that_come_again_in_every_column():
    amount = np.random.default_rng(1).random(N)
    frame = table(amount=amount, note=pa.array([None] * N, pa.string()))
    frame = pa.concat_tables([frame, frame.slice(7, 1), frame.slice(9, 2)])
    found = notices(frame, without=["note"])
    assert len(found) == 1
    assert "3 rows repeat earlier rows in every column, the first in row 400" in found[0]
    assert "1 row repeats an earlier row" in notices(frame.slice(0, N + 1), without=["note"])[0]
    differs = frame.set_column(2, "reward", pa.array(1 - frame["reward"].to_numpy()))
    assert notices(pa.concat_tables([frame.slice(0, N), differs.slice(N)]), without=["note"]) == ()


@pytest.mark.parametrize("streamed", [False, True])
def test_free_text_and_people_who_come_back(streamed, tmp_path):
    rng = np.random.default_rng(2)
    note = [f"about {k}" for k in rng.permutation(np.repeat(np.arange(N // 4 * 3), 2)[:N])]
    texts = len(set(note))
    assert texts < 256
    assert notices(table(note=note)) == ()
    note = [f"about {k}" for k in rng.permutation(np.arange(N) % 256)]
    frame = table(note=note, user_id=rng.permutation(np.arange(N) // 2))
    if streamed:
        path = tmp_path / "log.parquet"
        pq.write_table(frame, path)
        files = open_set([path], ReadingOptions(split="uniform"))
        found = files.form.notices
        files.close()
    else:
        found = notices(frame)
    assert len(found) == 2
    assert found[0].startswith("400 rows are of 200 values of 'user_id'")
    assert found[1].startswith("the column 'note' has 256 different texts")
    assert "--without 'note'" in found[1]
    assert notices(frame, unit="user_id", without=["note"]) == (
        "400 rows belong to 200 values of 'user_id'; evidence counts these, not rows",
    )


def test_columns_that_no_rule_can_go_by():
    first = np.random.default_rng(3).integers(0, 9, N)
    frame = table(study=np.ones(N), empty=pa.array([None] * N, pa.float64()), x=first, y=first, z=first.astype(str))
    found = notices(frame)
    assert found[0].startswith("the columns 'study', 'empty' have one value in all rows")
    assert "leave them out (--without 'study,empty')" in found[0]
    assert found[1].startswith("the columns 'x' and 'y' are equal in all rows; leave one out (--without 'y')")
    assert len(found) == 2
    same = pa.array([19_000] * N, pa.date32())
    assert notices(table(day=same)) == ()  # what is made of dates has names that no file knows


def test_columns_of_any_type_are_read():
    kinds = {
        "flag": pa.array([True, False] * (N // 2)),
        "none": pa.nulls(N),
        "clock": pa.array([k % 50 for k in range(N)], pa.time32("s")),
        "coded": pa.DictionaryArray.from_arrays(pa.array(np.arange(N) % 3, pa.uint8()), pa.array(["a", "b", "c"])),
        "gaps": pa.array([None if k % 7 == 0 else float(k % 299) for k in range(N)]),
    }
    frame = table(**kinds)
    frame = pa.concat_tables([frame, frame.slice(1, 1)])
    assert "1 row repeats an earlier row in every column, the first in row 400" in notices(frame)[0]
