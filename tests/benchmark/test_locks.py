"""One at a time: a second process or thread is refused in a sentence, and a lock dies with whoever held it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from pacbandits.benchmark.atomic_files import held_alone
from pacbandits.errors import InputError

BUSY = "is in use: somebody plays; wait until it has ended, or take another folder"

HOLD = """
import os, sys, time
from pathlib import Path
from pacbandits.benchmark.atomic_files import held_alone
with held_alone(Path(sys.argv[1]), in_use="somebody plays"):
    {then}
    print("held", os.getpid(), flush=True)
    sys.stdin.read()
"""


def holder(path, then=""):
    """A process that holds the lock until its standard input is closed."""
    arguments = [sys.executable, "-c", HOLD.format(then=then), path]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("held")
    return process


def is_free(path, *, patience_seconds=0.0):
    try:
        with held_alone(path, in_use="somebody plays", patience_seconds=patience_seconds):
            return True
    except InputError:
        return False


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    path = tmp_path / "state.lock"
    with holder(path) as first:
        with (
            pytest.raises(InputError, match=f"{tmp_path} {BUSY}"),
            held_alone(path, in_use="somebody plays", patience_seconds=0),
        ):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert is_free(path)
    assert path.read_bytes() == b""


def test_a_lock_does_not_live_on_in_children(tmp_path):
    """Neither in those that were forked from the process that was killed, nor in those it had run."""
    path = tmp_path / "state.lock"
    forked = "child = os.fork()\n    if child == 0: time.sleep(60)"
    run = "import subprocess; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid"
    for then in (forked, run):
        with holder(path, then=then + "\n    print(child, file=open(sys.argv[1] + '.child', 'w'))") as first:
            child = int((tmp_path / "state.lock.child").read_text())
            first.send_signal(signal.SIGKILL)
            first.wait()
            try:
                os.kill(child, 0)  # it is there, for a minute, and forgets the lock as soon as it runs
                assert is_free(path, patience_seconds=20)
            finally:
                os.kill(child, signal.SIGKILL)


def test_threads_of_one_process_take_turns(tmp_path):
    path, inside, most = tmp_path / "state.lock", 0, 0

    def work():
        nonlocal inside, most
        for _ in range(20):
            with held_alone(path, in_use="somebody plays", patience_seconds=30):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == 1
    with (
        held_alone(path, in_use="somebody plays"),
        pytest.raises(InputError, match=BUSY),
        held_alone(path, in_use="somebody plays", patience_seconds=0),
    ):
        pass
