"""One at a time: a second process or thread is refused in a sentence, and a lock dies with whoever held it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from pacbandits.errors import InputError
from pacbandits.trials.state_folder import StateFolder, held_alone, held_together

BUSY = "is in use: another process or thread runs, saves or loads a trial there; wait until it has ended, or take"

HOLD = """
import os, sys, time
from pathlib import Path
from pacbandits.trials.state_folder import held_alone, held_together
with {hold}(Path(sys.argv[1])):
    {then}
    print("held", os.getpid(), flush=True)
    sys.stdin.read()
"""


def holder(path, hold="held_alone", then=""):
    """A process that holds the lock until its standard input is closed."""
    arguments = [sys.executable, "-c", HOLD.format(hold=hold, then=then), path]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("held")
    return process


def is_free(path, *, patience_seconds=0.0):
    try:
        with held_alone(path, patience_seconds=patience_seconds):
            return True
    except InputError:
        return False


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    path = tmp_path / "state.lock"
    with holder(path) as first:
        for hold in (held_alone, held_together):
            with pytest.raises(InputError, match=f"{tmp_path} {BUSY}"), hold(path, patience_seconds=0):
                pass
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert is_free(path)
    assert path.read_bytes() == b""


def test_who_only_looks_does_not_keep_others_from_looking(tmp_path):
    path = tmp_path / "state.lock"
    with holder(path, "held_together") as first:
        with held_together(path, patience_seconds=0):
            pass
        assert not is_free(path)
        first.stdin.close()
        first.wait()
    assert is_free(path)


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
            with held_alone(path, patience_seconds=30):
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
    with held_alone(path), pytest.raises(InputError, match=BUSY), held_alone(path, patience_seconds=0):
        pass


def test_one_waits_for_those_who_are_soon_done(tmp_path):
    folder = StateFolder(tmp_path)
    begun = threading.Event()

    def work():
        with folder.held():
            begun.set()
            time.sleep(0.1)

    other = threading.Thread(target=work)
    other.start()
    begun.wait()
    with pytest.raises(InputError, match=BUSY), StateFolder(tmp_path, patience_seconds=0).held():
        pass
    with folder.held():
        pass
    other.join()


READ_ONLY = """
import os, sys
from pathlib import Path
from pacbandits.trials.state_folder import held_alone, held_together
os.chdir(sys.argv[1])
if os.getuid() == 0:
    os.setuid(65534)
for hold in (held_together, held_alone):
    try:
        with hold(Path("state.lock")):
            print("held")
    except PermissionError:
        print("refused")
"""


@pytest.mark.parametrize(("made_before", "said"), [(False, ["held", "refused"]), (True, ["held", "held"])])
def test_what_may_only_be_read_is_looked_at_without_a_lock(made_before, said, tmp_path):
    if made_before:  # by another user, with whose runs one must not interfere
        (tmp_path / "state.lock").touch(0o644)
    tmp_path.chmod(0o555)
    done = subprocess.run([sys.executable, "-c", READ_ONLY, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == said
