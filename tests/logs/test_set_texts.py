"""Sets of files of text, and what names, folders and patterns stand for."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from logs.set_cases import N, same, table_of, write_parts, write_whole
from pacbandits import InputError, read_log
from pacbandits.engines import Local, LogSource
from pacbandits.engines.local import digest_source
from pacbandits.logs import table_files as converting
from pacbandits.logs.data_set import open_set
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.logs.table_files import expand
from pacbandits.records import text_files as delimited

BLOCK = 7
SPLIT = {"split": "uniform"}


def lines(rows=40, *, late="", delimiter=",", when="2024-01-{0:02d}", action="{0}"):
    """Lines of a log, and a value in the last that is unlike those before."""
    out = [("n", "half", "flag", "day", "text", "empty", "late", "action", "reward")]
    for i in range(rows):
        n, flag, day = str(i % 11), ["true", "False"][i % 2], when.format(1 + (7 * i) % 28)
        text = ["north", "south, east", "", "NA"][i % 4]
        text = f'"{text}"' if "," in text else text
        value = late if i == rows - 1 else "1"
        out.append((n, "" if i == 3 else str(i / 2), flag, day, text, "", value, action.format(i % 3), str(i % 2)))
    return [delimiter.join(row) for row in out]


def write_texts(folder, rows, cuts=(), ending=".csv"):
    """The lines as several files, each with the names of columns; and as one."""
    bounds = [0, *cuts, len(rows) - 1]
    paths = []
    for k, (start, stop) in enumerate(pairwise(bounds)):
        paths.append(folder / f"part{k}{ending}")
        write_text(paths[-1], [rows[0], *rows[1 + start : 1 + stop]])
    whole = folder / f"whole{ending}"
    write_text(whole, rows)
    return paths, whole


def write_text(path, rows):
    raw = ("\n".join(rows) + "\n").encode()
    path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") else raw)


def compare(paths, whole, **reading):
    log, assumed = read_log(whole, **reading)
    found = open_set(paths, ReadingOptions(**reading), block_rows=BLOCK)
    assert found.n_rows == len(log)
    assert found.assumed == assumed
    for k, block in enumerate(found.blocks(0, -(-len(log) // BLOCK))):
        same(block, log.take(np.arange(BLOCK * k, min(BLOCK * (k + 1), len(log)))))
    found.close()
    return log


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "late", ["1", "0.5", "1e3", "x", "true", "2024-01-31", "2024-01-31 12:00:00", "", "007", "12:30:00"]
)
def test_text_is_read_as_in_memory_whatever_comes_late(late, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 300)  # so that the last line is in another part than the first
    paths, whole = write_texts(tmp_path, lines(late=late), cuts=(11, 12, 30))
    compare(paths, whole, **SPLIT)


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv", ".tsv.gz"])
def test_text_of_other_kinds(ending, tmp_path):
    delimiter = "\t" if "tsv" in ending else ","
    rows = lines(late="x", delimiter=delimiter, when="2024-01-{0:02d} 04:{0:02d}:00")
    compare(*write_texts(tmp_path, rows, cuts=(20,), ending=ending), **SPLIT)


def test_values_apart_by_semicolons(tmp_path):
    rows = [row.replace('"south, east"', "south").replace(",", ";") for row in lines(late="0.5")]
    compare(*write_texts(tmp_path, rows, cuts=(20,)), **SPLIT)
    commas = [row.replace(".", ",") for row in rows]
    paths, _ = write_texts(tmp_path, commas, cuts=(20,))
    with pytest.raises(InputError, match="decimal commas, which are not read as a stream"):
        open_set(paths, ReadingOptions(**SPLIT))


def test_actions_with_zeros_before_them_are_names(tmp_path):
    log = compare(*write_texts(tmp_path, lines(action="00{0}"), cuts=(5,)), **SPLIT)
    assert log.action_names == ("000", "001", "002")


def test_a_single_file_names_lines_in_remarks(tmp_path):
    rows = lines()
    rows[29] = rows[29].replace("north", "north ")
    _, whole = write_texts(tmp_path, rows)
    log = compare([whole], whole, **SPLIT)
    assert any("(line 30)" in words for words in log.remarks), log.remarks


def test_row_numbers_without_a_name_are_left_out(tmp_path):
    rows = [f"{i},{row}" if i else f",{row}" for i, row in enumerate(lines())]
    log = compare(*write_texts(tmp_path, rows, cuts=(9,)), **SPLIT)
    assert any("has no name" in words for words in log.remarks)


def test_bad_text_is_refused_in_a_sentence(tmp_path):
    rows = lines()
    for bad, words in (
        ([*rows, "1,2,3"], "3 values, and the first line names 9 columns"),
        ([*rows[:9], rows[9].replace("0", "\0")], "NUL byte"),
        (rows[:1], "no rows"),
    ):
        write_text(tmp_path / "bad.csv", bad)
        with pytest.raises(InputError, match=words):
            open_set([tmp_path / "bad.csv"], ReadingOptions(**SPLIT))
    raw = "\n".join(rows).encode("utf-8").replace(b"north", b"n\xe4rth")
    (tmp_path / "bad.csv").write_bytes(raw)
    with pytest.raises(InputError, match="not UTF-8"):
        open_set([tmp_path / "bad.csv"], ReadingOptions(**SPLIT))
    other = [row.split(",", 1)[1] for row in rows]
    write_text(tmp_path / "a.csv", rows)
    write_text(tmp_path / "b.csv", other)
    with pytest.raises(InputError, match=r"b\.csv has no column 'n', which"):
        open_set([tmp_path / "a.csv", tmp_path / "b.csv"])
    table, _ = table_of("bare", 0)
    with pytest.raises(InputError, match="of one kind"):
        open_set([tmp_path / "a.csv", *write_parts(tmp_path, table, 0)])


def test_what_is_made_of_text_is_removed_and_can_be_read_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(converting.tempfile, "tempdir", str(tmp_path))
    paths, _ = write_texts(tmp_path, lines(), cuts=(9,))
    found = open_set(paths, ReadingOptions(**SPLIT), block_rows=BLOCK)
    (folder,) = tmp_path.glob("pacbandits-*")
    other = pickle.loads(pickle.dumps(found))
    same(next(other.blocks(2, 3)), next(found.blocks(2, 3)))
    del other
    assert folder.exists()
    found.close()
    assert not folder.exists()
    with pytest.raises(InputError, match="there is no column 'missing'"):
        open_set(paths, ReadingOptions(reward="missing"))
    assert not list(tmp_path.glob("pacbandits-*"))


def test_too_little_disk_is_noticed_beforehand(tmp_path, monkeypatch):
    paths, _ = write_texts(tmp_path, lines())
    usage = converting.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(converting.shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    with pytest.raises(InputError, match=r"of disk in .*, which has 1 MB; name another folder \(TMPDIR"):
        open_set(paths, ReadingOptions(**SPLIT))


def test_patterns_stand_for_files_in_the_order_of_their_numbers(tmp_path, monkeypatch):
    for name in ("day=2/part-10.parquet", "day=2/part-9.parquet", "day=10/part-1.parquet", "day=2/.hidden.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "day=2" / "notes.txt").touch()
    (tmp_path / "odd[1].csv").touch()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    inorder = ["day=2/part-9.parquet", "day=2/part-10.parquet", "day=10/part-1.parquet"]
    assert [path.as_posix() for path in expand(["day=*/*.parquet"])] == inorder
    assert [path.as_posix() for path in expand(["**/part-*.parquet"])] == inorder
    assert [path.as_posix() for path in expand(["day=10", "day=2"])] == [inorder[2], *inorder[:2]]
    assert [str(path) for path in expand(["odd[1].csv", "none.csv"])] == ["odd[1].csv", "none.csv"]
    for bad, words in (
        (["day=2", "day=2/part-9.parquet"], "part-9.parquet is named twice"),
        (["*.pq"], r"no file matches '\*.pq'"),
        ([], "no files are named"),
        (["empty"], "the folder empty has no tables in it"),
    ):
        with pytest.raises(InputError, match=words):
            expand(bad)


@pytest.mark.thorough
def test_a_digest_does_not_depend_on_how_files_are_cut_and_does_on_every_row(tmp_path):
    engine, names = Local("stream"), set()
    table, reading = table_of("features", 0)
    for seed in range(3):
        found = open_set(write_parts(tmp_path, table, seed), ReadingOptions(**reading))
        names.add(digest_source(found, engine=engine))
    log, _ = read_log(write_whole(tmp_path / "w.parquet", table), **reading)
    names.add(digest_source(LogSource(log), engine=engine))
    assert len(names) == 1
    for changed in (log.take(np.arange(N)[::-1]), log.take(np.arange(N - 1)), replace(log, rewards=1.0 - log.rewards)):
        names.add(digest_source(LogSource(changed), engine=engine))
    assert len(names) == 4
