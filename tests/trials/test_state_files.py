"""Files of states: damaged, foreign, in use, or killed in the middle of a write."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from tests.certificate.test_search import ArgmaxOnly
from tests.trials.saving_cases import FINITE, TREES, TRIVIAL, beginning, led, same

import pacbandits as pb
from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.simulation import run
from pacbandits.trials.coda import Coda
from pacbandits.trials.saved_state import StateFile, entries_of

BUSY = "is in use: another process or thread runs, saves or loads a trial there; wait until it has ended"
RUN = {"algorithm": "coda:pilot=50", "epsilon": 0.3, "delta": 0.1, "rng": 1}


def execute(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def cut(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


DAMAGES = {
    "no file": (lambda path: path.unlink(), "holds no saved state: there is no such file"),
    "empty": (lambda path: path.write_bytes(b""), "holds no saved state: it is empty"),
    "a folder": (lambda path: [path.unlink(), path.mkdir()], "is a folder, a pipe or a device; name a file"),
    "a pipe": (lambda path: [path.unlink(), os.mkfifo(path)], "is a folder, a pipe or a device; name a file"),
    "half of it": (lambda path: cut(path, 0.5), "cannot be resumed: database disk image is malformed; restore it from"),
    "text": (lambda path: path.write_text("state,of,things\n" * 99), "is not a saved state of this package"),
    "another database": (
        lambda path: [path.unlink(), execute(path, "CREATE TABLE mine (x)")],
        "is not a saved state of this package; take another file",
    ),
    "the future": (
        lambda path: execute(path, "PRAGMA user_version = 99"),
        "reads formats up to 6: it was made by a newer version; upgrade pacbandits",
    ),
    "the past": (
        lambda path: execute(path, "PRAGMA user_version = 5"),
        "has format 5, and this version reads format 6; finish it with the version that wrote it, or begin anew",
    ),
    "another table": (
        lambda path: execute(path, "ALTER TABLE entries ADD COLUMN more"),
        "cannot be resumed: its table was altered",
    ),
    "a view": (
        lambda path: execute(
            path,
            "DROP TABLE entries",
            "CREATE VIEW entries AS WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        ),
        "cannot be resumed: its table was altered",
    ),
    "a round left out": (lambda path: execute(path, "DELETE FROM entries WHERE number = 2"), "its entry 2 was altered"),
    "rounds swapped": (
        lambda path: execute(path, "UPDATE entries SET number = 9 - number WHERE number IN (2, 3)"),
        "its entry 2 was altered or damaged",
    ),
    "another figure": (
        lambda path: execute(path, "UPDATE entries SET body = replace(body, '\"since\": ', '\"since\": 1')"),
        "its entry 1 was altered or damaged",
    ),
    "other rows": (lambda path: execute(path, "UPDATE entries SET rows = 7 WHERE number = 1"), "its entry 1 was alter"),
    "no start": (lambda path: execute(path, "DELETE FROM entries WHERE number = 0"), "its entry 0 was altered"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_file_is_refused_in_one_line(damage, tmp_path):
    algorithm, states = beginning(FINITE)
    path = tmp_path / "trial"
    save_state(path, algorithm, states[4])
    spoil, words = DAMAGES[damage]
    spoil(path)
    with pytest.raises(InputError, match=words) as caught:
        load_state(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_state_is_left_as_it_is(tmp_path):
    algorithm, states = beginning(FINITE)
    (tmp_path / "text").write_text("precious" * 99)
    execute(tmp_path / "base", "CREATE TABLE mine (x)")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "state.json").write_text("{}")
    before = {name: (tmp_path / name).read_bytes() for name in ("text", "base")}
    for name, words in (
        ("text", "is not a saved state of this package"),
        ("base", "is not a saved state of this package"),
        ("folder", "is a folder with a state of an earlier version, and a state is one file now"),
        ("text/more", "cannot use .*text/more"),
        ("null\0", "cannot use .*null.*: there can be no such file"),
    ):
        for use in (
            lambda path: save_state(path, algorithm, states[1]),
            lambda path: run(FINITE, state=path, **RUN),
        ):
            with pytest.raises(InputError, match=words):
                use(tmp_path / name)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert len(list(tmp_path.iterdir())) == 3


def test_a_new_trial_takes_the_place_of_an_old_one_as_a_whole(tmp_path):
    (one, old), (other, states) = led(), beginning(FINITE)
    path = tmp_path / "trial"
    save_state(path, one, old)
    with pytest.raises(TypeError), StateFile.held(path) as file:  # after some entries were written
        file.replace([*entries_of(other, states[2]), None])
    same(load_state(path)[1], old)
    save_state(path, other, states[2])
    same(load_state(path)[1], states[2])
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path):
    algorithm, states = beginning(FINITE)
    path, last = tmp_path / "trial", states[1]

    class Mine(Coda):
        pass

    oracle = algorithm.start(ArgmaxOnly(last.policies), last.contexts)
    crowd = replace(last, log=replace(last.log, repeats=np.full(len(last.log), 2**53)))
    for one, state, notes, words in (
        (Mine(0.1, 0.1), states[0], {}, "the state of Mine cannot be kept while it is called 'coda'"),
        (algorithm, oracle, {}, "the policy class ArgmaxOnly has no description in JSON"),
        (algorithm, replace(last, plans=()), {}, "is not one that absorb returned: the plans of its rounds are missin"),
        (algorithm, crowd, {}, r"cannot be saved; at most 2\^53"),
        (algorithm, last, {"x": float("nan")}, "cannot be saved, as something in it has no form in JSON"),
        (algorithm, last, {"x": object()}, "cannot be saved, as something in it has no form in JSON"),
        (algorithm, last, {"x": "\ud800"}, "the state cannot be saved: "),
    ):
        with pytest.raises(InputError, match=words):
            save_state(path, one, state, notes=notes)
        assert not path.exists()


@pytest.mark.thorough
def test_nobody_else_can_use_the_file_of_a_run(tmp_path):
    path, refused = tmp_path / "trial", 0

    def watch(_):
        nonlocal refused
        for use in (StateFile.held, StateFile.looked_at):
            with pytest.raises(InputError, match=f"^{path} {BUSY}"), use(path, patience_seconds=0) as file:
                file.entries()
            refused += 1

    done = run(FINITE, state=path, watch=watch, **RUN)
    assert refused >= 2 * done.rounds > 2
    assert load_state(path)[1].samples == done.samples


HOLD = """
import sys; from pathlib import Path; from pacbandits.trials.saved_state import StateFile
with StateFile.held(Path(sys.argv[1])): print("held", flush=True); sys.stdin.read()
"""


@pytest.mark.thorough
def test_the_command_refuses_a_file_that_is_in_use_until_its_user_is_killed(command, tmp_path):
    path = tmp_path / "trial"
    arguments = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        code, out, err = command("run", FINITE, "--epsilon", 0.3, "--state", path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{path} {BUSY}" in err
        other.kill()
    code, _, err = command("run", FINITE, "--epsilon", 0.3, "--state", path)
    assert (code, err) == (0, "")


def test_one_waits_for_those_who_are_soon_done(tmp_path):
    path, begun = tmp_path / "trial", threading.Event()

    def work():
        with StateFile.held(path):
            begun.set()
            time.sleep(0.1)

    other = threading.Thread(target=work)
    other.start()
    begun.wait()
    with StateFile.held(path):
        pass
    other.join()


READ_ONLY = """
import os, sys, pacbandits as pb
trial, state = pb.load_state(sys.argv[1])  # imports all that is needed
if os.getuid() == 0:
    os.setuid(65534)
print(pb.load_state(sys.argv[1])[1].samples)
try:
    pb.save_state(sys.argv[1], trial, state)
except pb.InputError as error:
    print(error)
"""


@pytest.mark.thorough
def test_a_file_that_may_only_be_read_is_loaded():
    algorithm, states = beginning(TRIVIAL)
    with TemporaryDirectory() as folder:
        path = Path(folder, "trial")
        save_state(path, algorithm, states[2])
        path.chmod(0o444)
        path.parent.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", READ_ONLY, path], capture_output=True, text=True, check=True)
        path.parent.chmod(0o755)
    samples, words = done.stdout.splitlines()
    assert int(samples) == states[2].samples
    assert words.startswith(f"cannot use {path}: ")


def test_looking_for_a_state_leaves_nothing_behind(tmp_path):
    for path in (tmp_path / "none", tmp_path / "deep" / "none"):
        with pytest.raises(InputError, match="holds no saved state: there is no such file"):
            load_state(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("first", [0, 4])
def test_a_kill_before_any_statement_leaves_the_old_or_the_new_state(first, tmp_path):
    """When the whole is replaced, and when a round is added."""
    algorithm, states = beginning(TRIVIAL)
    path, found = tmp_path / "trial", []
    save_state(path, algorithm, states[3])

    def take_picture(_):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        for file in tmp_path.glob("trial*"):
            shutil.copy(file, folder)
        found.append(folder / "trial")

    with StateFile.held(path) as file:
        file.connection.set_trace_callback(take_picture)
        file.replace(entries_of(algorithm, states[4], first=first), first=first)
    assert len(found) >= 5
    for one in (*found, path):
        same(load_state(one)[1], states[4 if one is path else 3])


PLAY = """
import sys, pacbandits as pb
print("begun", flush=True)
pb.run(sys.argv[2], algorithm="coda:pilot=60", epsilon=0.12, delta=0.1, rng=3, state=sys.argv[1])
"""


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_comes_to_the_same_end(tmp_path):
    path, rng, kills = tmp_path / "trial", random.Random(0), 0
    options = {"algorithm": "coda:pilot=60", "epsilon": 0.12, "delta": 0.1, "rng": 3}
    whole, code = run(TREES, **options), -signal.SIGKILL
    while code == -signal.SIGKILL:
        with subprocess.Popen([sys.executable, "-c", PLAY, path, TREES], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "begun\n"
            try:
                code = child.wait(rng.uniform(0.3, 1.5) * (1 + kills / 4))
            except subprocess.TimeoutExpired:
                child.kill()
                code, kills = child.wait(), kills + 1
    assert (code, kills > 0) == (0, True)
    done = run(TREES, state=path, **options)
    told = [{name: value for name, value in one.to_json().items() if name != "seconds"} for one in (done, whole)]
    assert json.dumps(told[0]) == json.dumps(told[1])
    assert pb.verify(done.certificate, done.log, done.policies).good
