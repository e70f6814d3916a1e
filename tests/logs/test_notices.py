"""What the reader of a table is told before the answer."""

from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits.logs.data_set import open_set, useless_columns
from pacbandits.logs.log_table import drop_features
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


def test_rows_that_agree_by_chance_in_amounts_too_are_not_called_copies():
    rng = np.random.default_rng(4)
    alike = table(amount=rng.integers(0, 2 * N, N), device=rng.choice(["phone", "desktop"], N), age=np.full(N, 30))
    assert notices(alike) == ()
    assert "repeat" in notices(pa.concat_tables([alike, alike.slice(0, 60)]))[0]


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
    day = pa.array([19_000] * N, pa.date32())
    days = pa.array((19_000 + first).astype(np.int32), pa.date32())
    frame = frame.append_column("day", day).append_column("seen", days).append_column("also", days)
    useless = {"study": None, "empty": None, "y": "x", "day": None, "also": "seen"}
    log = log_of(frame, split="uniform")
    assert useless_columns(log) == useless
    assert useless_columns(log, but=("study", "x")) == {"empty": None, "day": None, "also": "seen"}
    assert useless_columns(log.take(np.array([0]))) == {}
    less = drop_features(log, (*useless, "no such column"))
    assert less.contexts.names == ("age", "x", "z", "seen weekday", "seen days since 1970-01-01")
    assert less.dates == ("seen",)
    assert drop_features(less, useless) is less
    nothing = drop_features(log, frame.column_names)
    assert (nothing.contexts.n_features, set(nothing.contexts.ids)) == (0, {0})


@pytest.mark.parametrize("late", [False, True])
def test_columns_that_are_constant_in_one_file_alone(late, tmp_path):
    """A value that differs at the very end of the last file makes a column of use, and no copy."""
    first = np.random.default_rng(3).integers(0, 9, N)
    one, text = np.ones(N), np.array(["yes"] * N)
    paths = [tmp_path / f"{k}.parquet" for k in range(3)]
    for k, path in enumerate(paths):
        other, copy, said = one.copy(), first.copy(), text.copy()
        if late and k == 2:
            other[-1], copy[-1], said[-1] = 2.0, 10, "no"
        pq.write_table(table(x=first, copy=copy, other=other, said=said, study=one), path)
    with closing(open_set(paths, ReadingOptions(split="uniform"), block_rows=100)) as files:
        found = useless_columns(files)
        assert found == ({"study": None} if late else {"copy": "x", "other": None, "said": None, "study": None})
        less = files.without_features(found)
        assert set(less.head.contexts.names) == {"age", "x", "copy", "other", "said"} - found.keys()
        assert "study" not in less.recipe.columns
    with closing(open_set(paths, ReadingOptions(split="uniform", dropped=tuple(found)))) as again:
        assert again.head.contexts.names == less.head.contexts.names


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
