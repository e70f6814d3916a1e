"""Playing a suite: the same rows whoever plays them, and whatever ended the last command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pacbandits.benchmark import suite_runs as running
from pacbandits.benchmark.cases import Case, Entry
from pacbandits.benchmark.results import (
    Failure,
    Misfit,
    Results,
    read_description,
    read_facts,
    read_failures,
    read_misfits,
    read_rows,
    task_of,
)
from pacbandits.benchmark.runs import play
from pacbandits.benchmark.suite_runs import run_suite
from pacbandits.engines import processes
from pacbandits.errors import InputError
from tests.benchmark.cases import EASY, MANY, REFUSED, TINY, timeless
from tests.engines.jobs import die

pytestmark = pytest.mark.thorough  # each starts processes of its own

ROOT = Path(__file__).parents[2]
ONE = replace(TINY, cases=(EASY,), entries=TINY.entries[:1], seeds=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The suite, played by two processes."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    return folder, run_suite(TINY, Results.at(folder), jobs=2, command="pacbandits bench tiny")


@pytest.fixture
def copied(whole, tmp_path):
    """The same results, to be changed."""
    return Results.at(shutil.copytree(whole[0], tmp_path / "results"))


def keep(results, rows):
    """Leave only these rows."""
    (results.path / "runs.parquet").unlink()
    results.add(rows)


def test_every_run_is_there_and_those_who_refuse_are_named(whole):
    folder, tally = whole
    rows = read_rows(folder)
    assert (tally.wanted, tally.done, tally.played, tally.complete) == (8, 8, 8, True)
    assert tally.seconds_left == 0.0
    played = [task for task in TINY.tasks() if task.entry.name != "linear-rage"]
    assert {task_of(row) for row in rows} == set(played)
    assert read_misfits(folder) == [Misfit("tiny", case.name, "linear-rage", REFUSED) for case in TINY.cases]
    assert [one.is_of(case) for one, case in zip(read_facts(folder), TINY.cases, strict=True)] == [True, True]
    assert read_failures(folder) == []
    about = read_description(folder)
    assert about.suites == {"tiny": TINY}
    (session,) = about.sessions
    assert (session.command, session.runs) == ("pacbandits bench tiny", 8)
    assert 10**7 < session.peak_memory_bytes < 10**10  # this process counts, too, and has done other tests


def test_a_row_can_be_played_again_from_its_columns(whole):
    rows = read_rows(whole[0])
    for row in rows[::3]:
        assert timeless([play(task_of(row))]) == timeless([row])


def test_what_is_there_is_not_played_again(copied, monkeypatch):
    monkeypatch.setattr(processes, "_Worker", None)  # none is started
    before = (copied.path / "runs.parquet").read_bytes()
    tally = run_suite(TINY, copied, jobs=2)
    assert (tally.wanted, tally.done, tally.played) == (8, 8, 0)
    assert (copied.path / "runs.parquet").read_bytes() == before


def test_what_is_missing_is_played_and_nothing_else(copied):
    rows = read_rows(copied.path)
    keep(copied, rows[1:3] + rows[5:])
    tally = run_suite(TINY, copied, jobs=0)
    assert tally.played == 3
    again = read_rows(copied.path)
    assert timeless(again) == timeless(rows)
    assert [row for row in again if row in rows] == rows[1:3] + rows[5:]
    assert len(read_description(copied.path).sessions) == 2


def test_more_seeds_and_other_parts_add_to_what_is_there(tmp_path):
    results = Results.at(tmp_path / "results")
    run_suite(ONE, results, jobs=0)
    assert run_suite(replace(ONE, seeds=4, entries=TINY.entries[:2]), results, jobs=0).played == 5
    assert run_suite(replace(ONE, name="other", seeds=1), results, jobs=0).played == 1
    assert {row.suite for row in read_rows(results.path)} == {"tiny", "other"}
    assert len(read_facts(results.path)) == 1
    assert run_suite(ONE, results, jobs=0, fresh=True).played == 3
    assert len(read_rows(results.path)) == 3


def test_all_runs_with_a_seed_come_before_those_with_the_next(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Results, "add", lambda self, rows: seen.extend(rows))
    run_suite(TINY, Results.at(tmp_path), jobs=0)
    assert [row.seed for row in seen] == [0] * 4 + [1] * 4
    assert [row.case for row in seen[:4]] == ["easy", "easy", "many", "many"]


def test_runs_that_fail_are_told_tried_again_and_do_no_harm_to_others(tmp_path):
    results = Results.at(tmp_path / "results")
    broken = Case("broken", "trivial:contexts=2,actions=2,gap=oops", 0.3, 0.1, 2_000)
    suite = replace(TINY, cases=(broken, EASY), entries=TINY.entries[:1], seeds=1)
    for _ in range(2):
        tally = run_suite(suite, results, jobs=0)
        assert (tally.wanted, tally.done, tally.complete) == (2, 1, False)
        assert [one.algorithm for one in tally.failures] == ["uniform", ""]  # and the measurement
        assert all("oops" in one.words for one in tally.failures)
        assert {one.algorithm for one in read_failures(results.path)} == {"uniform", ""}
    mended = replace(suite, cases=(replace(broken, problem=EASY.problem), EASY))
    assert run_suite(mended, results, jobs=0).complete
    assert read_failures(results.path) == []


def test_what_breaks_on_the_way_is_no_refusal(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("in the middle of it")

    monkeypatch.setattr("pacbandits.benchmark.runs.Course.note_round", broken)
    tally = run_suite(replace(ONE, seeds=1), Results.at(tmp_path), jobs=0)
    assert tally.failures == (Failure("tiny", "easy", "uniform", 0, "ZeroDivisionError: in the middle of it"),)
    assert not tally.misfits


def test_an_interruption_keeps_what_was_played(tmp_path):
    results = Results.at(tmp_path)

    def interrupt(tally):
        if tally.played == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_suite(ONE, results, jobs=0, watch=interrupt)
    assert len(read_rows(tmp_path)) == 2
    assert run_suite(ONE, results, jobs=0).played == 1


def test_a_process_that_is_killed_costs_one_run(tmp_path, monkeypatch):
    started, start = [], subprocess.Popen

    def start_and_kill_the_first(*arguments, **options):
        started.append(start(*arguments, **options))
        if len(started) == 1:
            os.kill(started[0].pid, signal.SIGKILL)
        return started[-1]

    monkeypatch.setattr(processes.subprocess, "Popen", start_and_kill_the_first)
    results = Results.at(tmp_path)
    tally = run_suite(ONE, results, jobs=1)
    assert tally.failures == (Failure("tiny", "easy", "uniform", 0, "its process was killed; is memory short?"),)
    assert (tally.done, len(started)) == (2, 2)
    assert read_failures(tmp_path) == list(tally.failures)
    assert run_suite(ONE, results, jobs=0).played == 1
    assert read_failures(tmp_path) == []
    assert timeless(read_rows(tmp_path)) == timeless([play(task) for task in ONE.tasks()])


PLAYS = """
import sys
from dataclasses import replace
from pacbandits.benchmark import suite_runs as running
from pacbandits.benchmark.results import Results
from tests.benchmark.test_running import ONE
running.ROWS_PER_PART = 1
running.run_suite(replace(ONE, seeds=2_000), Results.at(sys.argv[1]), jobs=1)
"""


def test_a_command_that_is_killed_can_be_taken_up_again(tmp_path):
    folder = tmp_path / "results"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    killed = subprocess.Popen([sys.executable, "-c", PLAYS, folder], env=environment)
    until = time.monotonic() + 240
    try:
        while len(list(folder.glob("parts/*.parquet"))) < 4:
            assert time.monotonic() < until
            assert killed.poll() is None
            time.sleep(0.02)
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    there = len(read_rows(folder))
    assert there >= 4
    tally = run_suite(replace(ONE, seeds=there + 2), Results.at(folder), jobs=0)
    assert (tally.played, tally.complete) == (2, True)
    assert [session.runs for session in read_description(folder).sessions] == [0, 2]  # nobody counted for the first
    assert timeless(read_rows(folder)[:3]) == timeless([play(task) for task in ONE.tasks()])


def test_processes_that_die_again_and_again_end_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "MAX_DEATHS", 1)
    monkeypatch.setattr(running, "do", die)
    with pytest.raises(InputError, match="2 processes ended unexpectedly, one after the other; is memory short"):
        run_suite(ONE, Results.at(tmp_path), jobs=1)


def test_runs_of_another_version_or_another_case_by_that_name_are_refused(copied):
    changed = replace(TINY, cases=(replace(EASY, epsilon=0.2), MANY))
    with pytest.raises(InputError, match="holds runs of another case by the name 'easy' than the suite 'tiny' has now"):
        run_suite(changed, copied, jobs=0)
    renamed = replace(TINY, entries=(Entry("plain", "uniform"), *TINY.entries[1:]))
    with pytest.raises(InputError, match="another entry by the name 'uniform'"):
        run_suite(renamed, copied, jobs=0)
    keep(copied, [replace(row, version="0.0.1") for row in read_rows(copied.path)])
    with pytest.raises(
        InputError, match=r"holds runs of version 0\.0\.1, and this is .*; take another folder, or .* fresh=True"
    ):
        run_suite(TINY, copied, jobs=0)
    assert run_suite(replace(changed, cases=changed.cases[:1]), copied, jobs=0, fresh=True).complete
