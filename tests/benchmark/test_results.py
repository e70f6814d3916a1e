"""The folder of results: what goes in comes out, whatever ends the command; and sentences for other things."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits.benchmark.atomic_files import Disk
from pacbandits.benchmark.cases import Case, Row, Task, bytes_of, read_table, table_of
from pacbandits.benchmark.results import (
    BenchmarkSession,
    Description,
    Failure,
    Misfit,
    Results,
    environment,
    read_description,
    read_facts,
    read_failures,
    read_misfits,
    read_rows,
    task_of,
)
from pacbandits.errors import InputError
from tests.benchmark.cases import EASY, TINY


def made(seed, **changes):
    row = Row(
        *("tiny", "easy", EASY.problem, "", 0.3, 0.1, 2_000, 0.3, True, "uniform", "uniform", "default", seed, "0.1.0"),
        *(30, 2, 5, (10, 30), (0.1, 1 / 3), (0.1, 0.0), (1.5, 4.5), 30, 0.25, None, None, "certified"),
        *(0.25, 0.125, 7.5),
    )
    return replace(row, **changes)


ROWS = [
    made(0),
    made(1, certified_at=None, certified_gap=None, leader_gaps=(), own_at=30, own_gap=0.0),
    made(2, points=(), gaps=(), leader_gaps=(), regrets=(), samples=0, stopped="refused"),
]


@pytest.fixture
def folder(tmp_path):
    """A folder with three rows."""
    results = Results.at(tmp_path / "results")
    with results.held():
        results.describe(Description().with_suite(TINY))
        results.add(ROWS)
        results.compact()
    return results


def test_rows_come_back_as_they_were_from_parts_and_from_the_whole(tmp_path):
    results = Results.at(tmp_path / "deep" / "results")
    with results.held():
        results.describe(Description().with_suite(TINY))
        results.add(ROWS[2:])
        results.add(ROWS[:2])
        results.add(ROWS[:1])  # as a kill may leave it
        assert read_rows(results.path) == ROWS
        assert len(list((results.path / "parts").iterdir())) == 3
        results.compact()
        assert not list((results.path / "parts").iterdir())
    assert read_rows(results.path) == ROWS
    assert read_rows(str(results.path)) == ROWS
    assert [row.points for row in results.asked()] == [(), (), ()]
    assert [replace(row, points=()) for row in results.asked()] == results.asked()


def test_the_table_has_lists_and_nulls_that_other_programs_can_read(folder):
    table = pq.read_table(folder.path / "runs.parquet").to_pydict()
    assert table["gaps"] == [[0.1, 1 / 3], [0.1, 1 / 3], []]
    assert table["certified_at"] == [30, None, 30]
    assert table["own_at"] == [None, 30, None]


def test_a_clock_that_nobody_read_is_no_number(folder):
    with folder.held():
        folder.add([made(7, decision_microseconds=float("nan"))])
    assert np.isnan(read_rows(folder.path)[-1].decision_microseconds)


@pytest.mark.thorough
def test_many_rows_that_compress_well_can_be_read(tmp_path):
    """Lists of zeros unpack to far more than they take, and what unpacks to that much is refused of strangers."""
    long = tuple([0.0] * 20_000)
    some = table_of([made(0, points=tuple(range(20_000)), gaps=long, leader_gaps=long, regrets=long)] * 10)
    many = pa.concat_tables([some] * 25)
    assert many.nbytes > 1.5e8
    (tmp_path / "runs.parquet").write_bytes(bytes_of(many))
    assert read_table(tmp_path / "runs.parquet").num_rows == 250


def test_a_row_tells_its_task(folder):
    case = Case("easy", EASY.problem, 0.3, 0.1, 2_000, growth=0.3)
    assert task_of(ROWS[1]) == Task("tiny", case, TINY.entries[0], 1)


class FailingDisk(Disk):
    """Fails at one of its steps."""

    def __init__(self, step):
        self.step = step

    def remove(self, path):
        if self.step == "remove":
            raise OSError(5, "the cable is out")
        super().remove(path)

    def rename(self, old, new):
        if self.step == "rename":
            raise OSError(28, "No space left on device")
        super().rename(old, new)


@pytest.mark.parametrize("step", ["remove", "rename"])
def test_what_ends_a_command_while_it_puts_rows_together_loses_nothing(folder, step):
    with folder.held():
        folder.add([made(3), made(4)])
    broken = Results(folder.path, FailingDisk(step))
    with pytest.raises(InputError, match=r"cannot write to .*(the cable is out|No space left)"), broken.held():
        broken.compact()
    assert read_rows(folder.path) == [*ROWS, made(3), made(4)]
    with folder.held():  # what was begun is removed
        assert not [path for path in folder.path.iterdir() if path.name.endswith(".part")]
        folder.compact()
    assert read_rows(folder.path) == [*ROWS, made(3), made(4)]


def test_one_command_at_a_time(folder):
    second = Results(folder.path, patience_seconds=0.0)
    words = "in use: another command plays a benchmark into it"
    with folder.held(), pytest.raises(InputError, match=words), second.held():
        pass


def test_what_is_said_about_runs_comes_back(folder):
    misfits = [Misfit("tiny", "easy", "rage", "too large"), Misfit("tiny", "many", "rage", "too large")]
    failures = [Failure("tiny", "easy", "coda", 3, "ZeroDivisionError: division by zero")]
    session = BenchmarkSession("pacbandits bench tiny", "2026-01-01 00:00 UTC", environment(), 3, 1.5, 10**8)
    about = Description().with_suite(TINY).with_session(session)
    with folder.held():
        folder.put_misfits(misfits[::-1])
        folder.put_failures(failures)
        folder.describe(about)
    assert read_misfits(folder.path) == misfits
    assert read_failures(folder.path) == failures
    assert read_description(folder.path) == about
    assert read_facts(folder.path) == []
    assert not any("/" in words for words in environment().values())


def test_a_part_of_a_suite_does_not_make_the_rest_forgotten():
    part = replace(TINY, cases=TINY.cases[:1], entries=TINY.entries[1:], seeds=1)
    assert Description().with_suite(TINY).with_suite(part).suites["tiny"] == TINY


def test_emptying_leaves_what_is_not_ours(folder):
    (folder.path / "notes.txt").write_text("mine")
    with folder.held():
        folder.empty()
    assert (folder.path / "notes.txt").read_text() == "mine"
    with pytest.raises(InputError, match="holds no results"):
        read_rows(folder.path)


def spoil(path, **columns):
    """Change columns of a table."""
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(table, path)


DAMAGES = {
    "is not a readable Parquet file": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "is empty: a file of 0 bytes": lambda path: path.write_bytes(b""),
    "lacks the column 'suite'": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "has a column 'b'": lambda path: pq.write_table(pq.read_table(path).append_column("b", pa.array([1] * 3)), path),
    "its column 'seed' must be int64, got string": lambda path: spoil(path, seed=pa.array(["0", "1", "2"])),
    "its column 'case' lacks values": lambda path: spoil(path, case=pa.array(["a", None, "b"])),
    "its column 'gaps' lacks values": lambda path: spoil(path, gaps=pa.array([[0.1, None], [0.1, 0.1], []])),
    "lists of different lengths": lambda path: spoil(path, gaps=pa.array([[0.1], [0.1, 0.1], []])),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_a_damaged_table_is_a_sentence_that_names_the_file(folder, words):
    path = folder.path / "runs.parquet"
    DAMAGES[words](path)
    with pytest.raises(InputError, match=r"runs\.parquet") as caught:
        read_rows(folder.path)
    assert words in str(caught.value)
    assert "remove that file, and its runs are played again" in str(caught.value)


def test_folders_that_are_something_else_are_sentences(tmp_path, folder):
    with pytest.raises(InputError, match=r"there is no folder .*nowhere; make one: pacbandits bench"):
        read_rows(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no results of a benchmark"):
        read_rows(tmp_path)
    (tmp_path / "photo.png").write_bytes(b"x")
    with pytest.raises(InputError, match=r"holds other things \('photo.png'\)"), Results.at(tmp_path).held():
        pass
    with pytest.raises(InputError, match="is a file; name a folder"), Results.at(tmp_path / "photo.png").held():
        pass
    (folder.path / "runs.parquet").unlink()
    with pytest.raises(InputError, match="holds no runs yet; play some"):
        read_rows(folder.path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("suite.json", {"format": "something else"}, "its format must be 'pacbandits benchmark 1'"),
        ("suite.json", [], "must be an object"),
        ("facts.json", {"facts": [{"case": "easy"}]}, "facts.json"),
        ("misfits.json", {"misfits": [{"suite": 1}]}, "the 'suite' of the misfit must be text|lacks"),
        ("failed.json", {"failed": 3}, "must be a list"),
    ],
)
def test_other_files_that_are_damaged_are_sentences(folder, name, value, words):
    (folder.path / name).write_text(json.dumps(value))
    read = {"suite": read_description, "facts": read_facts, "misfits": read_misfits, "failed": read_failures}
    with pytest.raises(InputError, match=words) as caught:
        read[name.partition(".")[0]](folder.path)
    assert name in str(caught.value)
