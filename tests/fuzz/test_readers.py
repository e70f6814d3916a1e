"""Files of strangers: each is read rightly or refused in a sentence, whatever is in it; never anything else."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pacbandits import InputError, load_problem, read_log
from pacbandits.records import Contexts
from tests.fuzz.reader_bombs import BOMBS, LARGEST, parquet
from tests.fuzz.reader_files import FILE_MAKERS
from tests.fuzz.reader_oracles import check_reading

MAX_MESSAGE_CHARACTERS = 400

READERS = {
    "log": lambda path: read_log(path, least_propensity=None)[0],
    "contexts": Contexts.read,
    "problem": load_problem,
}


def read_or_refuse(file, kind):
    """What a reader makes of a file, or None where it refuses it in a short and printable line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return READERS[kind](file.name)
    except InputError as error:
        words = str(error)
        assert len(words) <= MAX_MESSAGE_CHARACTERS, words
        assert words.isprintable(), repr(words)
        return None


def try_files(form, seeds, folder):
    """How many files of a format were read, and how many refused."""
    read = refused = 0
    for seed in seeds:
        file = FILE_MAKERS[form](np.random.default_rng(seed))
        (folder / file.name).write_bytes(file.data)
        kinds = {"problem": ["problem"], "npz": ["log"], "dsjson": ["log"]}.get(form, ["log", "contexts"])
        for kind in kinds:
            try:
                result = read_or_refuse(file, kind)
                if result is not None:
                    check_reading(file, result, kind)
            except Exception as error:
                raise AssertionError(f"seed {seed} of {form} read as {kind}: {error!r}") from error
            read, refused = read + (result is not None), refused + (result is None)
    return read, refused


@pytest.mark.first(1)
@pytest.mark.parametrize("form", sorted(FILE_MAKERS))
def test_files_are_read_rightly_or_refused(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read, refused = try_files(form, range(60), tmp_path)
    assert read >= 5
    assert refused >= 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("form", sorted(FILE_MAKERS))
def test_thousands_of_files_are_read_rightly_or_refused(form, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = 1000 + 1000 * part
    read, refused = try_files(form, range(start, start + 1000), tmp_path)
    assert read >= 50
    assert refused >= 50


def read_truncated(data, lengths):
    """Raise unless the first bytes of a Parquet file, of each of these lengths, are refused."""
    for length in lengths:
        Path("log.parquet").write_bytes(data[:length])
        with pytest.raises(InputError) as caught:
            read_log("log.parquet")
        assert len(str(caught.value)) <= MAX_MESSAGE_CHARACTERS


def whole_parquet():
    columns = {"x": [1.0, 2.0], "place": ["b", "a"], "action": [0, 1], "reward": [1, 0], "propensity": [0.5, 0.5]}
    return parquet(pa.table(columns))


def test_parquet_cut_off_anywhere_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = whole_parquet()
    read_truncated(data, range(0, len(data), 29))


@pytest.mark.slow
def test_parquet_cut_off_at_every_byte_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = whole_parquet()
    read_truncated(data, range(len(data)))


COSTLY = ("lying_lists", "lying_pages", "many_parquet_columns", "sparse_lines", "wide_lines", "zipped_lines")


@pytest.mark.first(6)
@pytest.mark.parametrize(
    "bomb",
    [pytest.param(bomb, marks=pytest.mark.slow) if bomb.__name__ in COSTLY else bomb for bomb in BOMBS],
    ids=lambda bomb: bomb.__name__,
)
def test_what_would_unpack_to_much_is_refused_unread(bomb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = bomb()
    Path(file.name).write_bytes(file.data)
    with pytest.raises(InputError) as caught:
        read_log(file.name, least_propensity=1e-4)
    assert BOMBS[bomb] in str(caught.value)
    assert len(str(caught.value)) <= MAX_MESSAGE_CHARACTERS


MAX_EXTRA_MEGABYTES = 1000
MAX_CPU_SECONDS = 30
READING_ALONE = """
import resource, sys, time
from pacbandits import InputError, read_log
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    read_log(sys.argv[1], least_propensity=0.0)
except InputError as error:
    print(error, file=sys.stderr)
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(used / 1024, time.process_time() - start)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as Linux does")
@pytest.mark.parametrize("make", [*BOMBS, *LARGEST], ids=lambda make: make.__name__)
def test_no_small_file_takes_much_memory_or_time(make, tmp_path):
    """In a process of its own, whose memory can be told; also the largest that are read."""
    file = make()
    (tmp_path / file.name).write_bytes(file.data)
    command = [sys.executable, "-c", READING_ALONE, file.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-400:]
    megabytes, seconds = map(float, done.stdout.split())
    assert bool(done.stderr) == (make in BOMBS), done.stderr
    assert megabytes <= MAX_EXTRA_MEGABYTES + len(file.data) / 1e6
    assert seconds <= MAX_CPU_SECONDS
