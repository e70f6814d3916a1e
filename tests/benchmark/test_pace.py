"""How long the rest of a suite will take, and which runs come first within a time limit."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pacbandits.benchmark import suite_runs
from pacbandits.benchmark.results import Results, read_rows
from pacbandits.benchmark.runs import Done
from pacbandits.benchmark.suite_runs import Pace, run_suite
from tests.benchmark.cases import TINY
from tests.benchmark.hand_made import made


def taking(seconds, **changed):
    return made(seconds=seconds * 0.75, seconds_certifying=seconds * 0.25, **changed)


def paced(*rows, now=False):
    pace = Pace()
    for row in rows:
        pace.note(row, now=now)
    return pace


def test_of_nothing_nothing_is_known():
    assert Pace().time_left({("first", "coda"): 3}, elapsed=5.0, processes=2) is None


def test_runs_take_as_long_as_the_same_did_before():
    """Not as the average: what is left may be cheap, or dear."""
    pace = paced(taking(2.0), taking(4.0, seed=1), taking(100.0, algorithm="exp4"))
    assert pace.time_left({("first", "coda"): 5}, elapsed=1.0, processes=1) == pytest.approx(15.0)
    assert pace.time_left({("first", "coda"): 5, ("first", "exp4"): 1}, elapsed=1.0, processes=2) == pytest.approx(57.5)
    assert pace.time_left({("first", "coda"): 0}, elapsed=1.0, processes=2) == 0.0


def test_what_was_not_played_takes_as_long_as_its_case_or_as_all():
    pace = paced(taking(2.0), taking(6.0, algorithm="exp4"), taking(40.0, case="second"))
    assert pace.time_left({("first", "uniform"): 2}, elapsed=1.0, processes=1) == pytest.approx(8.0)
    assert pace.time_left({("third", "uniform"): 2}, elapsed=1.0, processes=1) == pytest.approx(32.0)


def test_this_command_tells_how_many_cores_there_are_and_what_else_takes_time():
    pace = paced(taking(2.0), taking(4.0, seed=1), now=True)  # 6 s of a core in 4 s
    assert pace.time_left({("first", "coda"): 4}, elapsed=4.0, processes=8) == pytest.approx(8.0)


def stand_in(monkeypatch, *, seconds, certified_at):
    """Rows without playing: each case takes so long, each algorithm is certified then; the facts of cases fail."""

    def do(_, job):
        if not hasattr(job, "entry"):
            return Done(suite_runs.failure_of(job, "not measured here"))
        at = certified_at.get(job.entry.name, 100)
        asked = {
            name: getattr(job.case, name) for name in ("problem", "policies", "epsilon", "delta", "most", "growth")
        }
        asked |= {"suite": job.suite, "case": job.case.name, "version": suite_runs.__version__}
        entry = {"entry": job.entry.name, "algorithm": job.entry.spec, "role": job.entry.role}
        clock = {"seconds": seconds[job.case.name], "seconds_certifying": 0.0}
        return Done(made(job.seed, certified_at=at, **asked, **entry, **clock))

    monkeypatch.setattr(suite_runs, "do", do)


def in_turn(monkeypatch):
    """The rows of the next command, in the order in which they are played."""
    rows, note = [], suite_runs._Playing.note

    def noted(self, row, *, now):
        note(self, row, now=now)
        rows.extend([row] if now else [])

    monkeypatch.setattr(suite_runs._Playing, "note", noted)
    return rows


def test_within_a_time_limit_cheap_cases_come_first_and_dear_ones_have_their_turn(tmp_path, monkeypatch):
    """A run of the second case takes as long as 3.2 of the first: its second comes after six of the first."""
    stand_in(monkeypatch, seconds={"easy": 1.0, "many": 3.2}, certified_at={})
    rows = in_turn(monkeypatch)
    tally = run_suite(replace(TINY, entries=TINY.entries[:1], seeds=8), Results.at(tmp_path), jobs=0, within=1e6)
    assert tally.complete
    order = [(row.case, row.seed) for row in rows]
    assert order.index(("many", 1)) == order.index(("easy", 5)) + 1
    assert [seed for case, seed in order if case == "easy"] == list(range(8))


def test_a_time_limit_ends_a_command_and_the_next_goes_on(tmp_path, monkeypatch):
    stand_in(monkeypatch, seconds={"easy": 1.0, "many": 1.0}, certified_at={})
    began, clock = time.monotonic(), iter(range(10**6))
    monkeypatch.setattr(suite_runs.time, "monotonic", lambda: began + float(next(clock)))
    results = Results.at(tmp_path)
    first = run_suite(replace(TINY, seeds=20), results, jobs=0, within=90.0)
    assert 0 < first.played < first.wanted == 120
    assert len(read_rows(tmp_path)) == first.played
    monkeypatch.setattr(suite_runs.time, "monotonic", time.perf_counter)
    second = run_suite(replace(TINY, seeds=20), results, jobs=0, within=1e6)
    assert (second.played, second.complete) == (120 - first.played, True)


def test_who_is_clearly_behind_plays_no_more_seeds(tmp_path, monkeypatch):
    stand_in(monkeypatch, seconds={"easy": 1.0, "many": 1.0}, certified_at={"epoch-greedy": 300, "linear-rage": 120})
    results = Results.at(tmp_path)
    tally = run_suite(replace(TINY, seeds=6, screened=True), results, jobs=0)
    assert (tally.played, tally.wanted, tally.complete, tally.seconds_left) == (28, 28, True, 0.0)
    seeds = {row.entry: 1 + row.seed for row in read_rows(tmp_path)}
    assert seeds == {"uniform": 6, "epoch-greedy": 2, "linear-rage": 6}
    assert run_suite(replace(TINY, seeds=6, screened=True), results, jobs=0).played == 0
    assert run_suite(replace(TINY, seeds=6), results, jobs=0).played == 8  # unless one asks for all
