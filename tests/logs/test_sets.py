"""Sets of files are the log that they hold, block by block, however they are cut."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logs.set_cases import KINDS, N, same, table_of, write_parts, write_whole
from pacbandits import InputError, read_log
from pacbandits.logs import survey as surveying
from pacbandits.logs import watches as counting
from pacbandits.logs.data_set import open_set
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.progress import heard_by

BLOCK = 7


def opened(paths, reading=None):
    return open_set(paths, ReadingOptions(**(reading or {})), block_rows=BLOCK)


def refused(words, paths, **reading):
    with pytest.raises(InputError) as caught:
        for _ in (opened_set := opened(paths, reading)).blocks(0, -(-opened_set.n_rows // BLOCK)):
            pass
    assert words in str(caught.value), str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_every_block_is_that_of_the_log_in_memory_to_the_last_bit(kind, tmp_path):
    for seed in range(2):
        table, reading = table_of(kind, seed)
        log, assumed = read_log(write_whole(tmp_path / "whole.parquet", table, seed), **reading)
        found = opened(write_parts(tmp_path, table, seed), reading)
        assert (found.n_rows, found.remarks, found.assumed) == (N, log.remarks, assumed)
        blocks = list(found.blocks(0, -(-N // BLOCK)))
        assert [len(block) for block in blocks] == [BLOCK] * (N // BLOCK) + [N % BLOCK]
        for k, block in enumerate(blocks):
            same(block, log.take(np.arange(BLOCK * k, min(BLOCK * (k + 1), N))))


@pytest.mark.first(3)
@pytest.mark.parametrize("kind", KINDS)
def test_what_holds_of_all_rows_is_known(kind, tmp_path):
    table, reading = table_of(kind, 5)
    log, _ = read_log(write_whole(tmp_path / "whole.parquet", table), **reading)
    found = opened(write_parts(tmp_path, table, 5), reading)
    assert found.fixed_split == (log.least is None and bool((log.propensities == log.propensities[0]).all()))
    rounds = {int(k): int(log.repeats[log.rounds == k].sum()) for k in np.unique(log.rounds)}
    assert (found.round_counts, found.has_rounds) == (rounds, len(rounds) > 1)
    assert (found.samples, found.max_repeats) == (log.samples, int(log.repeats.max()))
    assert (found.n_actions, found.action_names) == (log.n_actions, log.action_names)
    assert (found.reward_range, found.dates) == (log.reward_range, log.dates)
    same(found.head, log.take(np.arange(BLOCK)))


def test_blocks_can_be_read_from_anywhere_and_elsewhere(tmp_path):
    table, _ = table_of("features", 1)
    found = pickle.loads(pickle.dumps(opened(write_parts(tmp_path, table, 1))))
    blocks = list(found.blocks(0, 18))
    for first, last in ((0, 1), (3, 9), (17, 18), (5, 5)):
        some = list(found.blocks(first, last))
        assert len(some) == last - first
        for mine, theirs in zip(some, blocks[first:last], strict=True):
            same(mine, theirs)


def test_stripes_are_all_blocks_and_begin_where_row_groups_do(tmp_path):
    table, _ = table_of("bare", 1)
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=28)  # four blocks
    for most, lengths in ((2, [4, 4, 4, 4, 2]), (4, [4, 4, 4, 4, 2]), (9, [8, 8, 2]), (100, [18])):
        stripes = opened([path]).stripes(most_blocks=most)
        assert [len(stripe) for stripe in stripes] == lengths
        assert [number for stripe in stripes for number in stripe] == list(range(18))


def test_files_may_differ_in_what_numbers_fit(tmp_path):
    table, _ = table_of("bare", 2)
    first, second = table.slice(0, 50), table.slice(50)
    numbers, halves = pa.array(np.arange(50)), pa.array(np.arange(70) / 2)
    one = first.append_column("x", numbers.cast(pa.int16())).append_column("y", pa.nulls(50))
    other = second.append_column("x", halves).append_column("y", pa.array(["b", "a"] * 35))
    pq.write_table(one, tmp_path / "1.parquet")
    pq.write_table(other, tmp_path / "2.parquet")
    both = pa.concat_tables([one, other], promote_options="permissive")
    log, _ = read_log(write_whole(tmp_path / "whole.parquet", both))
    found = opened([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    for k, block in enumerate(found.blocks(0, 18)):
        same(block, log.take(np.arange(7 * k, min(7 * k + 7, N))))


def test_files_that_are_no_parts_of_one_log_are_refused(tmp_path):
    table, _ = table_of("columns", 0)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.drop_columns(["age"]), tmp_path / "b.parquet")
    other = table.set_column(table.column_names.index("age"), "age", pa.array(["x"] * N))
    pq.write_table(other, tmp_path / "c.parquet")
    paths = {name: tmp_path / f"{name}.parquet" for name in "abc"}
    refused("b.parquet has no column 'age', which", [paths["a"], paths["b"]])
    refused("b.parquet has no column 'age', which", [paths["b"], paths["a"]])
    refused("column 'age' of", [paths["a"], paths["c"]])
    refused("no file at", [paths["a"], tmp_path / "none.parquet"])
    refused("at least one", [])


def test_what_needs_all_rows_at_once_is_refused(tmp_path):
    table, _ = table_of("features", 0)
    path = write_whole(tmp_path / "a.parquet", table)
    refused("returning users ('user_id')", [path], unit="user_id")
    refused("not sorted by 'age'", [path], time="age")
    cube = table.append_column("phi", pa.array([[[1.0], [2.0], [3.0]]] * N))
    refused("engine threads", [write_whole(tmp_path / "b.parquet", cube)])


def test_bad_rows_are_named(tmp_path):
    table, _ = table_of("bare", 0)
    rewards = table["reward"].to_numpy().copy()
    rewards[77] = 1.5
    bad = table.set_column(1, "reward", pa.array(rewards))
    refused("row 77 (counted from 0) is 1.5, but rewards", [write_whole(tmp_path / "a.parquet", bad)])
    lists = [list(row) for row in table["propensities"].to_pylist()]
    lists[99] = [0.5, 0.1, 0.2]
    bad = table.set_column(2, "propensities", pa.array(lists))
    refused("row 99 (counted from 0) sum to 0.8", [write_whole(tmp_path / "a.parquet", bad)])
    refused("columns 'action' and 'reward' are missing", [write_whole(tmp_path / "a.parquet", table.select([2]))])
    refused("there is no column 'sold'", [write_whole(tmp_path / "a.parquet", table)], reward="sold")


def test_a_file_that_changes_is_noticed(tmp_path):
    table, _ = table_of("bare", 0)
    path = write_whole(tmp_path / "a.parquet", table)
    found = opened([path])
    pq.write_table(table.slice(1), path)
    with pytest.raises(InputError, match="has changed since it was first read"):
        next(found.blocks(0, 1))


def test_damaged_pages_are_noticed(tmp_path):
    table, _ = table_of("bare", 0)
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    found = opened([path])
    raw = bytearray(path.read_bytes())
    place = raw.find(table["reward"].to_numpy().tobytes())
    assert place > 0
    raw[place + 99] ^= 1
    path.write_bytes(raw)
    refused("is not a readable Parquet file", [path])
    with pytest.raises(InputError):
        next(found.blocks(0, 1))


def test_bad_rows_of_several_files_are_named_with_their_file(tmp_path):
    table, _ = table_of("bare", 0)
    lists = [list(row) for row in table["propensities"].to_pylist()]
    lists[99] = [0.5, 0.1, 0.2]
    bad = table.set_column(2, "propensities", pa.array(lists))
    pq.write_table(bad.slice(0, 60), tmp_path / "a.parquet")
    pq.write_table(bad.slice(60), tmp_path / "b.parquet")
    found = opened([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    with pytest.raises(InputError, match=r"row 39 \(counted from 0\) of .*b\.parquet sum to 0\.8"):
        list(found.blocks(0, 18))
    one = table.set_column(1, "reward", pa.array(np.arange(N, dtype=np.float64)))
    pq.write_table(one.slice(60), tmp_path / "b.parquet")
    refused(
        "a.parquet and 1 more file, as one table: the reward of row", [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    )


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())])
def test_text_of_any_type(kind, tmp_path):
    table, _ = table_of("columns", 3)
    place = table.column_names.index("place")
    table = table.set_column(
        place,
        "place",
        table["place"].cast(pa.large_string()).combine_chunks().dictionary_encode().cast(kind)
        if pa.types.is_dictionary(kind)
        else table["place"].cast(kind),
    )
    log, _ = read_log(write_whole(tmp_path / "whole.parquet", table))
    for k, block in enumerate(opened(write_parts(tmp_path, table, 3)).blocks(0, 18)):
        same(block, log.take(np.arange(BLOCK * k, min(BLOCK * (k + 1), N))))


def test_values_beyond_what_can_be_counted_are_judged_by_the_first_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "MAX_LABELS", 10)
    monkeypatch.setattr(counting, "EARLY_ROWS", 105)
    monkeypatch.setattr(surveying, "EARLY_ROWS", 105)
    table, _ = table_of("bare", 0)
    many = table.append_column("note", pa.array([f"note {i}" for i in range(N)]))
    many = many.append_column("user_id", pa.array(np.arange(N) // 2)).append_column("place", pa.array(["a", "b"] * 60))
    log, _ = read_log(write_whole(tmp_path / "a.parquet", many))
    found = opened([tmp_path / "a.parquet"])
    assert found.remarks == log.remarks  # labels are too many to be kept, and not to be counted
    monkeypatch.setattr(counting, "MAX_DISTINCT", 40)
    found = opened(write_parts(tmp_path, many, 4))
    assert found.form.contexts.names == log.contexts.names == ("place",)
    said = "\n".join(found.remarks)
    assert "of which 105 rows have 53" in said
    assert "judged by the first 105 rows" in said
    assert len(found.remarks) == len(log.remarks) + 2
    kept = many.append_column("city", pa.array([f"city {i % 12}" for i in range(N)]))
    refused("column 'city' has more than", [write_whole(tmp_path / "a.parquet", kept)])


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", ["renamed", "split", "dates", "least lists", "rounds", "constant"])
def test_sets_of_files_that_logs_were_written_to(kind, tmp_path):
    table, reading = table_of(kind, 1)
    log, _ = read_log(write_whole(tmp_path / "raw.parquet", table), **reading)
    log.write(tmp_path / "whole.parquet")
    log, assumed = read_log(tmp_path / "whole.parquet")
    for k, (start, stop) in enumerate(((0, 50), (50, 51), (51, N))):
        log.take(np.arange(start, stop)).write(tmp_path / f"part{k}.parquet")
    pq.write_table(pq.read_table(tmp_path / "part0.parquet").slice(0, 0), tmp_path / "part9.parquet")  # of no rows
    found = opened([tmp_path / f"part{k}.parquet" for k in (0, 9, 1, 2)])
    assert found.assumed == assumed
    for k, block in enumerate(found.blocks(0, 18)):
        same(block, log.take(np.arange(BLOCK * k, min(BLOCK * (k + 1), N))))


def test_who_listens_is_told_how_far_it_has_come(tmp_path):
    table, _ = table_of("bare", 0)
    said: list[str] = []
    with heard_by(said.append, every_seconds=0.0):
        opened([write_whole(tmp_path / "a.parquet", table)])
    assert said[-1].startswith("reading all rows once: 120 of 120 rows")
