"""After a restore from a backup, or a failover that loses commits, no id stands for somebody else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.database import UnknownAssignment
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import LateRule
from tests.experiment.cases import protocol
from tests.experiment.live import Played
from tests.service.postgres import postgres

SOMEBODY = {"age": 31, "country": "DE"}


def copy(source, target):
    """A backup of a database, or its restore into one that is open elsewhere."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def assign(experiment, *units):
    return [experiment.assign(SOMEBODY, unit=unit) for unit in units]


def kinds(experiment):
    return [one["kind"] for one in experiment.seal().entries]


def test_an_id_from_after_the_backup_is_nobody_elses(tmp_path):
    path, backup = tmp_path / "e.db", tmp_path / "backup.db"
    with Experiment.create(path, protocol()) as experiment:
        before = assign(experiment, "a", "b")
        copy(path, backup)
        lost = assign(experiment, *(f"lost-{i}" for i in range(10)))
    path.unlink()
    copy(backup, path)
    with Experiment.open(path, "checkout") as experiment:
        new = assign(experiment, *(f"new-{i}" for i in range(9)), "lost-9")
        assert not {one.id for one in lost} & {one.id for one in new}
        for one in lost:
            with pytest.raises(UnknownAssignment, match="no assignment"):
                experiment.record(one.id, reward=1.0)
        assert experiment.record(before[0].id, reward=1.0).outcome == "recorded"
        assert experiment.record(new[0].id, reward=1.0).outcome == "recorded"


def test_a_server_that_outlives_a_failover_says_so_in_the_event_log(tmp_path):
    """It has stored records that the database lacks now: they are reported lost, before anything else is stored."""
    played = Played(tmp_path / "e.db", {})
    experiment, backup = played.experiment, tmp_path / "backup.db"
    assign(experiment, "a")
    copy(tmp_path / "e.db", backup)
    (lost,) = assign(experiment, "lost")
    noted = experiment.seal()
    copy(backup, tmp_path / "e.db")
    (new,) = assign(experiment, "new")
    assert kinds(experiment)[-1] == "restored"
    said = experiment.seal().entries[-1]["body"]
    assert (said["head"], said["records"]) == (noted.head, noted.records)
    with pytest.raises(UnknownAssignment, match="may have been lost"):
        experiment.record(lost.id, reward=1.0)
    experiment.record(new.id, reward=1.0)
    assert kinds(experiment).count("restored") == 1  # once
    experiment.export(tmp_path / "e.parquet", look=0)
    assert audit(read_record(tmp_path / "e.parquet")).faults == ()


def test_rewards_that_were_missed_are_counted_anew_after_a_restore(tmp_path):
    played = Played(tmp_path / "e.db", {"late": LateRule("window", window_seconds=60)})
    assign(played.experiment, "a")
    copy(tmp_path / "e.db", tmp_path / "backup.db")
    assign(played.experiment, "b", "c", "d")
    played.now += timedelta(days=1)
    assert played.experiment.status().figures["rewards"]["missed"] == 4
    copy(tmp_path / "backup.db", tmp_path / "e.db")
    played.experiment.note_restore("the disk broke")
    assert played.experiment.status().figures["rewards"]["missed"] == 1


@pytest.mark.thorough
def test_what_was_read_before_a_restore_is_not_used_afterwards(tmp_path):
    """Rounds and rows of a worker, and rounds of another server, that the restored database does not have."""
    played = Played(tmp_path / "e.db", {})
    played.day(40)
    copy(tmp_path / "e.db", tmp_path / "backup.db")
    other = Experiment.open(tmp_path / "e.db", "checkout", clock=lambda: played.now)
    played.day(200)
    while played.experiment.advance():
        pass
    assign(other, "somebody")
    rounds = other.status().figures["round"]["number"]
    assert rounds > 0
    copy(tmp_path / "backup.db", tmp_path / "e.db")
    with Experiment.open(tmp_path / "e.db", "checkout", clock=lambda: played.now) as fresh:
        assign(fresh, *(f"new-{i}" for i in range(600)))  # longer than the lost log: nothing is missing by count
        fresh.note_restore("the disk broke")
    played.day(40)
    while played.experiment.advance():
        pass
    assign(other, "somebody else")
    other.status()
    other.export(tmp_path / "e.parquet", look=0)
    assert audit(read_record(tmp_path / "e.parquet")).faults == ()
    assert played.experiment.status().figures["events"][-1]
    other.close()


def test_the_first_version_s_ids_still_work(tmp_path):
    from tests.experiment.test_migrations import stored

    with closing(sqlite3.connect(stored(tmp_path / "old.db", 1))) as old:
        (secret,) = old.execute("SELECT secret FROM experiments").fetchone()
        (row,) = old.execute(
            'SELECT "row" FROM assignments WHERE "row" NOT IN (SELECT "row" FROM outcomes) LIMIT 1'
        ).fetchone()
    from hashlib import blake2b

    given = f"{row:x}-{blake2b(b'row:%d' % row, key=secret, digest_size=10).hexdigest()}"
    with Experiment.open(tmp_path / "old.db", "checkout") as experiment:
        assert experiment.record(given, reward=1.0).outcome in ("recorded", "late")


@pytest.mark.thorough
def test_a_failover_of_postgresql_that_loses_commits():
    """The tables go back to an earlier state while two servers have the experiment open."""
    kept = ("standings", "assignments", "outcomes", "entries", "looks")
    with postgres() as url, Experiment.create(url, protocol()) as one, Experiment.open(url, "checkout") as two:
        (before,) = assign(one, "a")
        with one.database.engine.begin() as connection:
            for table in kept:
                connection.exec_driver_sql(f"CREATE TABLE backup_{table} AS SELECT * FROM {table}")
        (lost,), _ = assign(one, "lost"), assign(two, "lost, too")
        with one.database.engine.begin() as connection:
            for table in kept:
                connection.exec_driver_sql(f"DELETE FROM {table}")
                connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM backup_{table}")
        (new,) = assign(two, "new")
        assert new.id != lost.id
        for experiment in (one, two):
            with pytest.raises(UnknownAssignment):
                experiment.record(lost.id, reward=1.0)
        assert one.record(before.id, reward=1.0).outcome == two.record(new.id, reward=0.0).outcome == "recorded"
        assert kinds(one).count("restored") == 1
