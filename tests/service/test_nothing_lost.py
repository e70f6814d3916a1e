"""A server that is killed at random moments under load: whatever it answered is there afterwards."""

from __future__ import annotations

import random
import time

import pytest

from pacbandits.service.client import Client
from tests.service.cases import ADMIN, protocol
from tests.service.load import Visitors, check_nothing_lost
from tests.service.servers import Server


def kill_often(database, visitors, *options, kills, longest_seconds, seed):
    """Kill the servers, one after the other, and start each anew."""
    draw = random.Random(seed)
    servers = [Server(database, *options) for _ in visitors.addresses]
    visitors.addresses[:] = [server.address for server in servers]
    try:
        with Client(servers[0].address, ADMIN) as client:
            client.create(protocol(epsilon=0.25, metrics=["returned"]))
        with visitors:
            for count in range(kills):
                before = len(visitors.rewarded)
                time.sleep(draw.uniform(0.0, longest_seconds))
                while len(visitors.rewarded) < before + 5:  # it is of no use to kill one that nobody asked anything
                    time.sleep(0.002)
                at = count % len(servers)
                servers[at].kill()
                servers[at] = Server(database, *options)
                visitors.addresses[at] = servers[at].address
            time.sleep(longest_seconds)
    finally:
        for server in servers:
            server.kill()


@pytest.mark.thorough
def test_a_server_that_is_killed_a_few_times_loses_nothing(tmp_path):
    visitors = Visitors([None])
    kill_often(tmp_path / "x.db", visitors, "--no-worker", kills=3, longest_seconds=0.3, seed=1)
    assert len(visitors.rewarded) >= 15
    check_nothing_lost(tmp_path / "x.db", visitors, tmp_path)


@pytest.mark.slow
def test_a_server_that_is_killed_fifty_times_loses_nothing(tmp_path):
    """Its worker is killed with it, in the middle of whatever it computes."""
    visitors = Visitors([None])
    kill_often(tmp_path / "x.db", visitors, kills=50, longest_seconds=2.0, seed=2)
    result = check_nothing_lost(tmp_path / "x.db", visitors, tmp_path)
    assert result.certified
