"""Servers whose clocks are wrong end nobody's window and block nobody's analysis."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from pacbandits.experiment import database as databases
from pacbandits.experiment.database import ClockSkew, Database
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import LateRule
from tests.experiment.cases import protocol
from tests.experiment.live import Played
from tests.service.postgres import postgres

SOMEBODY = {"age": 31, "country": "DE"}
HOUR = 3600 * 10**9


def be_fast(monkeypatch, nanoseconds):
    """Let this process's clock be fast."""
    real = databases.time.time_ns
    monkeypatch.setattr(databases, "time", SimpleNamespace(time_ns=lambda: real() + nanoseconds))


@pytest.mark.thorough
def test_the_time_is_the_database_s_and_a_server_out_of_step_writes_nothing(monkeypatch):
    with postgres() as url:
        late = LateRule("window", window_seconds=3600)
        with Experiment.create(url, protocol(late=late)) as experiment:
            given = experiment.assign(SOMEBODY, unit="a")
            records = experiment.seal().records
            with monkeypatch.context() as patched:
                be_fast(patched, 2 * HOUR)
                for ask in (
                    lambda: experiment.assign(SOMEBODY, unit="b"),
                    lambda: experiment.record(given.id, reward=1.0),
                    lambda: experiment.pause("lunch"),
                ):
                    with pytest.raises(ClockSkew, match=r"clock is 7,200 seconds ahead of the database's"):
                        ask()
                assert experiment.status().assigned == 1  # reading goes on
                be_fast(patched, -10 * HOUR)
                with pytest.raises(ClockSkew, match="seconds behind"):
                    experiment.assign(SOMEBODY, unit="b")
                be_fast(patched, 8 * HOUR + 2 * 10**9)  # 2 seconds are little, and the time is the database's
                experiment.assign(SOMEBODY, unit="c")
            assert experiment.seal().records == records + 1
            assert experiment.record(given.id, reward=1.0).outcome == "recorded"
            times = [one["at"] for one in experiment.status().figures["events"]]
            assert times == sorted(times)


def test_the_database_of_one_machine_has_its_clock(tmp_path):
    database = Database(tmp_path / "e.db", create=True)
    assert database.skew() == 0.0
    assert abs(database.clock() / 1e6 - databases.time.time()) < 60
    database.close()


def test_a_lease_that_was_taken_by_a_wrong_clock_blocks_nobody(tmp_path):
    """A worker whose clock is a day fast, and that died holding its lease."""
    played = Played(tmp_path / "e.db")
    played.day(120)
    t = databases.standings
    until = round((played.now + timedelta(days=1)).timestamp() * 1e6)
    with played.experiment.database.engine.begin() as connection:
        connection.execute(sa.update(t).values(designer="dead", design_until=until))
    assert played.experiment.advance()
    with played.experiment.database.engine.begin() as connection:  # one that may be alive is respected
        soon = round((played.now + timedelta(seconds=20)).timestamp() * 1e6)
        connection.execute(sa.update(t).values(designer="alive", design_until=soon))
    assert not played.experiment.advance(at_once=True)
    played.experiment.close()
