"""Processes that do jobs: what came of each, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pacbandits.engines.processes import each
from pacbandits.errors import InputError, spelling_options
from tests.engines.jobs import do


def gone(pid, *, within=5.0):
    """Whether a process has ended, or soon does."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def wait_for(path):
    until = time.monotonic() + 20
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return int(path.read_text())


@pytest.mark.thorough
def test_every_job_is_done_once_and_what_is_printed_is_no_answer():
    got = list(each(do, 100, [1, 2, 3, "print", "threads"], processes=2))
    assert sorted(map(str, got)) == ["(1, '1')", "101", "102", "103", "print"]
    assert list(each(do, 0, [], processes=2)) == []


@pytest.mark.thorough
def test_another_process_takes_over_after_so_many_jobs():
    one, two, three, four = each(do, 0, ["pid"] * 4, processes=1, jobs_per_process=2)
    assert one == two != three == four


@pytest.mark.thorough
def test_a_refusal_calls_options_as_whoever_reads_it_does():
    with spelling_options(), pytest.raises(InputError, match="say --epsilon 2"):
        list(each(do, 0, ["refuse"], processes=1))


@pytest.mark.thorough
def test_a_process_that_dies_is_an_error_or_one_job_lost():
    with pytest.raises(InputError, match="worker process ended unexpectedly; is memory short"):
        list(each(do, 0, ["die"], processes=1))
    got = list(each(do, 0, [1, "die", 2], processes=1, lost=lambda job: f"lost {job}"))
    assert got == [1, "lost die", 2]


@pytest.mark.thorough
def test_processes_end_with_whoever_stops_asking(tmp_path):
    coming = each(do, 0, ["pid", (str(tmp_path / "sleeper"), 60.0)], processes=1)
    pid = next(coming)
    assert wait_for(tmp_path / "sleeper") == pid
    coming.close()
    assert gone(pid)


@pytest.mark.thorough
def test_processes_end_when_whoever_asked_is_killed(tmp_path):
    words = (
        "from pacbandits.engines.processes import each; from tests.engines.jobs import do; "
        f"list(each(do, 0, [({str(tmp_path / 'sleeper')!r}, 60.0)], processes=1))"
    )
    paths = os.pathsep.join([str(Path.cwd()), *sys.path])
    asking = subprocess.Popen([sys.executable, "-c", words], env=os.environ | {"PYTHONPATH": paths})
    pid = wait_for(tmp_path / "sleeper")
    os.kill(asking.pid, signal.SIGKILL)
    asking.wait()
    assert gone(pid)
