"""Two servers at once over PostgreSQL, killed in turn: nobody has two actions, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.service.load import Visitors, check_nothing_lost
from tests.service.postgres import postgres
from tests.service.test_nothing_lost import kill_often


@pytest.mark.thorough
def test_two_servers_that_are_killed_in_turn_lose_nothing(tmp_path):
    with postgres() as database:
        visitors = Visitors([None, None])
        kill_often(database, visitors, "--no-worker", kills=2, longest_seconds=0.3, seed=3)
        check_nothing_lost(database, visitors, tmp_path)


@pytest.mark.slow
def test_two_servers_that_are_killed_fifty_times_lose_nothing(tmp_path):
    with postgres() as database:
        visitors = Visitors([None, None], threads=8)
        kill_often(database, visitors, kills=50, longest_seconds=2.0, seed=4)
        assert check_nothing_lost(database, visitors, tmp_path).certified
