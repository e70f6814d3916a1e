"""How long the rest of a suite will take."""

from __future__ import annotations

import pytest

from pacbandits.benchmark.suite_runs import Pace
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
