"""Encodings, compression and things that are no files: read where a mark tells how, or refused by name."""

from __future__ import annotations

import gzip
import io
import os
import zipfile

import numpy as np
import pytest

from pacbandits import InputError, load_problem, read_log
from pacbandits.records import Contexts
from tests.logs.cases import CSV, refused, write
from tests.logs.test_dsjson import LINES, dsjson


def test_the_mark_of_utf_8_is_no_part_of_a_name(tmp_path):
    """As a spreadsheet writes it ("CSV UTF-8")."""
    wanted, _ = read_log(write(tmp_path / "log.csv", CSV), least_propensity=0.1)
    marked = CSV.encode("utf-8-sig")
    for name, data in (("a.csv", marked), ("a.csv.gz", gzip.compress(marked))):
        (tmp_path / name).write_bytes(data)
        log, _ = read_log(tmp_path / name, least_propensity=0.1)
        assert log.contexts.names == ("age", "place")
        assert np.array_equal(log.contexts.features, wanted.contexts.features)
    lines = dsjson(tmp_path / "log.dsjson", LINES).read_bytes()
    (tmp_path / "marked.dsjson").write_bytes(b"\xef\xbb\xbf" + lines)
    assert len(read_log(tmp_path / "marked.dsjson")[0]) == 2


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("log.csv", CSV.encode("utf-16"), "is in UTF-16; save it as UTF-8"),
        ("log.csv.gz", gzip.compress(CSV.encode("utf-16"), mtime=0), "is in UTF-16; save it as UTF-8"),
        ("log.tsv", CSV.encode("utf-32"), "is in UTF-32; save it as UTF-8"),
        ("log.csv", CSV.encode("utf-16-le"), "NUL bytes in its first line (UTF-16?)"),
        ("log.csv", CSV.replace("age", "\u00e4ge").encode("latin-1"), "perhaps in Latin-1; save it as UTF-8"),
        (
            "log.csv",
            CSV.replace("south", "s\u00fcd").encode("latin-1"),
            "column 'place' must be numbers or text, got bytes",
        ),
        ("log.csv", CSV.replace("south", "so\0uth").encode(), "column 'place' has a NUL byte within 'so?uth'"),
        ("log.csv", gzip.compress(CSV.encode(), mtime=0), "is compressed by gzip; let its name end in .gz"),
        ("log.csv.gz", CSV.encode(), "Not a gzipped file"),
        ("log.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-12], "is not a readable CSV file"),
        ("log.csv", b"PK\x03\x04 spreadsheet", "is a zip archive; unpack it"),
        ("log.csv", b"PAR1 and so on", "is a Parquet file; let its name end in .parquet"),
        ("log.dsjson", CSV.encode("utf-16"), "is in UTF-16; save it as UTF-8"),
        (
            "log.csv",
            CSV.replace("0.3", '"0.3').encode(),
            "has a line break within '0.3 50,north,0,1,0.5'; close the quote",
        ),
        ("log.csv", CSV.replace("place", "", 1).encode(), "column 2 of"),
        ("log.csv", CSV.splitlines()[0].encode(), "log.csv has no rows"),
        (
            "log.csv",
            CSV.replace("0.25", '"0,25x"').encode(),
            "column 'reward' must be numbers, got text such as '0,25x'",
        ),
    ],
)
def test_other_encodings_and_broken_texts_are_refused_by_name(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    refused(words, tmp_path / name, least_propensity=0.1)


def test_what_is_no_file_is_refused_at_once(tmp_path, command):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    (tmp_path / "nowhere.csv").symlink_to(tmp_path / "gone")
    for name in ("pipe.csv", "folder.csv", "device.csv", "nowhere.csv", "a\0b.csv", "x" * 300 + ".csv"):
        path = tmp_path / name
        for read in (read_log, Contexts.read):
            with pytest.raises(InputError) as caught:
                read(path)
            assert str(caught.value).startswith(("no file at", "cannot read"))
    code, _, err = command("certify", tmp_path / "pipe.csv")
    assert code == 2
    assert len(err.splitlines()) == 1


def test_what_may_not_be_read_is_refused(tmp_path):
    """As far as whoever runs this may be refused anything."""
    path = write(tmp_path / "log", CSV)
    path.chmod(0)
    try:
        path.read_bytes()
    except PermissionError:
        refused("cannot read", path)
        refused("Permission denied", path.rename(tmp_path / "log.csv"))
        refused("Permission denied", path.rename(tmp_path / "log.npz"))


def feedback(**changes):
    n = 6
    arrays = {"context": np.zeros((n, 2)), "action": np.arange(n) % 2, "reward": np.ones(n), "pscore": np.full(n, 0.5)}
    return arrays | changes


def test_a_position_that_cannot_be_read_is_not_passed_over(tmp_path):
    """Positions that were not read would be pooled; what is not needed is never looked at."""
    path = tmp_path / "log.npz"
    np.savez(path, **feedback(position=np.array([0, 1] * 3, dtype=object)))
    refused("array 'position' holds Python objects, which are never loaded; store numbers", path)
    np.savez(path, **feedback(position=None, action_context=np.array([{}], dtype=object)))
    assert len(read_log(path)[0]) == 6
    np.savez(path, **feedback(position=np.array(["0", "1"] * 3)))
    refused("position must be numbers, got dtype <U1", path)
    np.savez(path, **feedback(action=None))
    refused("the feedback lacks 'action'", path)


def npz(members, way=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", way) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_each_way_to_damage_an_archive_is_one_line(tmp_path):
    """In both kinds of .npz files that are read."""
    members = [(f"{name}.npy", npy(array)) for name, array in feedback().items()]
    whole = npz(members)
    reward, start = npy(feedback()["reward"]), b"{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }"
    assert start in reward
    cut = [(name, data[:-3] if name == "reward.npy" else data) for name, data in members]
    cases = {
        "array 'reward' is damaged": [
            whole.replace(reward[-16:], b"\x01" * 16),  # the checksum of the archive tells
            npz(cut),
            whole.replace(start, start.replace(b"(6,)", b"(7,)")),
            whole.replace(start, start.replace(b"'<f8'", b"'<z8'")),
            whole.replace(start, start.replace(b"{", b"(")),
            whole.replace(start, b"(" * len(start)),
            whole.replace(b"\x93NUMPY", b"\x93NUMPX"),
        ],
        "two arrays have the same name": [npz([*members, ("reward", reward)])],
        "there are 1,004 arrays, and at most 1,000": [npz([*members, *((f"a{i}.npy", b"") for i in range(1000))])],
        "not a readable .npz archive": [b"", whole[:-30], b"PK\x05\x06" + bytes(10), whole[100:200]],
        "a single array, not an .npz archive": [reward],
        "packed as numpy does not": [npz(members, zipfile.ZIP_LZMA)],
    }
    for words, broken in cases.items():
        for data in broken:
            (tmp_path / "log.npz").write_bytes(data)
            name = words.replace("'reward'", "'action'") if data.count(b"NUMPX") > 1 else words
            refused(name, tmp_path / "log.npz")
            with pytest.raises(InputError) as caught:
                load_problem(tmp_path / "log.npz")
            assert str(caught.value).startswith(str(tmp_path / "log.npz"))
            assert len(str(caught.value)) < 400
