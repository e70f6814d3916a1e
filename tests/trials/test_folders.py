"""A folder holds the old files or the new ones as a whole, whatever happens; and nothing is written through a link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from tests.trials.disks import CountingDisk, FailingDisk, NotingDisk

from pacbandits.errors import InputError
from pacbandits.trials.state_folder import Disk, StateFolder, name_table

SHARED = name_table("contexts", "c" * 64)


def version(number):
    """The files of one state: its state.json, and its tables, one of which the others share."""
    log = name_table("log", str(number) * 64)
    return f"state {number}".encode(), {SHARED: b"contexts", log: f"log {number} ".encode() * 5}


def holds(found, number):
    """Whether these files are the state of that number, whatever else there is."""
    state, tables = version(number)
    return found.get("state.json") == state and all(found.get(name) == data for name, data in tables.items())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and not path.is_symlink()}


def put(path, number, disk=None):
    folder = StateFolder(path) if disk is None else StateFolder(path, disk)
    with folder.held():
        folder.replace(*version(number))


def test_only_what_the_state_names_stays(tmp_path):
    for number in range(3):
        put(tmp_path / "deep" / "er", number)
        state, tables = version(number)
        assert files(tmp_path / "deep" / "er") == {"state.json": state, "state.lock": b"", **tables}
    mine = {"log.parquet": b"mine", "log-1.parquet": b"mine", ".pacbandits-x.part": b"mine"}
    for name, data in mine.items():
        (tmp_path / "deep" / "er" / name).write_bytes(data)
    put(tmp_path / "deep" / "er", 3)
    assert mine.items() <= files(tmp_path / "deep" / "er").items()


def steps_of_a_save(folder):
    disk = CountingDisk()
    put(folder, 0)
    put(folder, 1, disk)
    return disk.steps


NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [NO_SPACE, KeyboardInterrupt()])
def test_whatever_fails_at_whatever_step_the_old_or_the_new_state_is_there(error, tmp_path):
    steps = steps_of_a_save(tmp_path / "count")
    assert steps > 10
    for last in range(steps):
        folder = tmp_path / str(last)
        put(folder, 0)
        ended = ""
        try:
            put(folder, 1, FailingDisk(last, error))
        except (KeyboardInterrupt, InputError) as raised:
            ended = f"{type(raised).__name__}: {raised}"
        told = (
            "KeyboardInterrupt: "
            if error is not NO_SPACE
            else f"InputError: cannot write to {folder}: {NO_SPACE.strerror}"
        )
        assert ended in ("", told)  # what could not be removed does no harm
        found = files(folder)
        assert holds(found, 0) or holds(found, 1)
        assert ended or holds(found, 1)
        assert not any(name.endswith(".part") for name in found)
        put(folder, 2)
        assert set(files(folder)) == {"state.json", "state.lock", *version(2)[1]}


def after_power_loss(before, done, rng):
    """What may be found when the power is lost after these steps: names and contents last once they were flushed.

    Of later changes of names any may be lost, and of contents that were not flushed any part may be missing.
    """
    contents = {name: [data, True] for name, data in before.items()}
    lasting, now, pending = dict(contents), dict(contents), []
    for step, *what in done:
        if step == "create":
            now[what[0]] = [b"", False]
            pending.append(("put", what[0], now[what[0]]))
        elif step == "write":
            now[what[0]][0] += what[1]
        elif step == "flush":
            now[what[0]][1] = True
        elif step == "rename":
            now[what[1]] = now.pop(what[0])
            pending += [("put", what[1], now[what[1]]), ("remove", what[0])]
        elif step == "remove":
            now.pop(what[0], None)
            pending.append(("remove", what[0]))
        elif step == "flush_folder":
            lasting, pending = dict(now), []
    kept = rng.random(len(pending)) < rng.choice([0.1, 0.5, 0.9])
    for change, is_kept in zip(pending, kept, strict=True):
        if is_kept and change[0] == "put":
            lasting[change[1]] = change[2]
        elif is_kept:
            lasting.pop(change[1], None)
    return {name: data if flushed else data[: rng.integers(len(data) + 1)] for name, (data, flushed) in lasting.items()}


def test_a_loss_of_power_leaves_the_old_or_the_new_state(tmp_path):
    """At every step, with whatever was not flushed lost in part."""
    put(tmp_path, 0)
    before, disk, rng = files(tmp_path), NotingDisk(), np.random.default_rng(0)
    put(tmp_path, 1, disk)
    seen = set()
    for end in range(len(disk.done) + 1):
        for _ in range(100):
            found = after_power_loss(before, disk.done[:end], rng)
            old, new = holds(found, 0), holds(found, 1)
            assert old or new, (disk.done[:end], found)
            seen.add((old, new))
    assert seen == {(True, False), (False, True)}
    assert holds(after_power_loss(before, disk.done, rng), 1)  # once it was saved, it is


def outside(tmp_path, data=b"precious"):
    victim = tmp_path / "victim"
    victim.write_bytes(data)
    return victim


@pytest.mark.parametrize("name", ["state.json", *version(1)[1], ".pacbandits-0123456789abcdef.part"])
@pytest.mark.parametrize("hard", [False, True])
def test_nothing_is_written_through_a_link(name, hard, tmp_path):
    folder, victim = tmp_path / "state", outside(tmp_path, b"contexts")  # which are those of a table
    put(folder, 0)
    (folder / name).unlink(missing_ok=True)
    if hard:
        (folder / name).hardlink_to(victim)
    else:
        (folder / name).symlink_to(victim)
    put(folder, 1)
    assert victim.read_bytes() == b"contexts"
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert holds(files(folder), 1)
    assert set(files(folder)) == {"state.json", "state.lock", *version(1)[1]}


def test_a_new_file_is_new(tmp_path):
    victim = outside(tmp_path)
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    for name in ("link", "lost", "victim"):
        with pytest.raises(FileExistsError):
            Disk().create(tmp_path / name)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_a_lock_that_is_a_link_is_refused(target, tmp_path):
    folder, victim = tmp_path / "state", outside(tmp_path)
    folder.mkdir()
    (folder / "state.lock").symlink_to(tmp_path / target)
    with pytest.raises(InputError, match=r"state\.lock must be an ordinary file, and is a link.*; remove it"):
        put(folder, 1)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["state.json", "state.lock", SHARED])
def test_a_link_a_pipe_or_a_folder_is_not_read(name, tmp_path):
    """Whoever opened the pipe would wait for ever."""
    put(tmp_path, 0)
    folder = StateFolder(tmp_path)
    for make in (os.mkfifo, os.mkdir, lambda path: Path(path).symlink_to(outside(tmp_path))):
        (tmp_path / name).unlink(missing_ok=True)
        make(tmp_path / name)
        words = "is a link or a folder and not a file|must be an ordinary file|cannot read"
        with pytest.raises(InputError, match=words), folder.looked_at():
            folder.file(name)
        if (tmp_path / name).is_dir():
            (tmp_path / name).rmdir()


def test_new_files_have_the_mode_that_the_mask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        put(tmp_path, 0)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


def test_names_of_temporary_files_cannot_be_foreseen(tmp_path):
    created = []
    for _ in range(2):
        disk = NotingDisk()
        put(tmp_path / str(len(created)), 0, disk)
        created += [step[1] for step in disk.done if step[0] == "create"]
    assert len(set(created)) == len(created) == 6
    assert all(len(name.split("-")[1]) == len("0123456789abcdef.part") for name in created)
