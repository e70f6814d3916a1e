"""Units are stored as keyed hashes; experiments and keys of hashes can be deleted; files are their owner's alone."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from pacbandits.errors import InputError
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.database import AlreadyThere, Database, NotCollecting, UnknownAssignment, UnknownExperiment
from pacbandits.experiment.experiment import Experiment, delete_experiment
from pacbandits.service.access import Keys, Sessions
from tests.experiment.cases import protocol
from tests.experiment.test_migrations import stored

SOMEBODY = {"age": 31, "country": "DE"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "e.db"


@pytest.fixture
def experiment(path):
    with Experiment.create(path, protocol()) as made:
        yield made


def bytes_of(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


def exported(experiment, tmp_path):
    experiment.export(tmp_path / "e.parquet", look=0)
    return audit(read_record(tmp_path / "e.parquet"))


def test_no_unit_is_stored(experiment, path):
    given = experiment.assign(SOMEBODY, unit="ada@example.org")
    assert given.unit == "ada@example.org"
    again = experiment.assign(SOMEBODY, unit="ada@example.org")
    assert (again.id, again.new, again.unit) == (given.id, False, "ada@example.org")
    assert b"ada@example.org" not in bytes_of(path)


def test_the_chain_survives_the_deletion_of_the_key(experiment, path, tmp_path):
    given = experiment.assign(SOMEBODY, unit="ada")
    with pytest.raises(NotCollecting, match="once it is stopped"):
        experiment.forget_units("retention period over")
    experiment.stop("over")
    noted = experiment.seal().head
    experiment.forget_units("retention period over", by="Ada")
    with Experiment.open(path, "checkout") as fresh:
        assert exported(fresh, tmp_path).faults == ()
        assert audit(read_record(tmp_path / "e.parquet"), head=noted).noted is not None
        with pytest.raises(UnknownAssignment):
            fresh.record(given.id, reward=1.0)
        with pytest.raises(NotCollecting):
            fresh.assign(SOMEBODY, unit="ada")
        assert fresh.seal().entries[-1]["body"]["by"] == "Ada"


def test_units_of_an_older_experiment_are_hashed_when_they_are_forgotten(tmp_path):
    path = stored(tmp_path / "old.db", 1)
    with Experiment.open(path, "checkout") as old:
        given = old.assign(SOMEBODY, unit="ada@example.org")
        assert b"ada@example.org" in bytes_of(path)
        old.stop("over")
        old.forget_units("retention period over")
    with Experiment.open(path, "checkout") as fresh, closing(sqlite3.connect(path)) as connection:
        assert exported(fresh, tmp_path).faults == ()
        assert not connection.execute("SELECT 1 FROM assignments WHERE unit = 'ada@example.org'").fetchall()
    assert given.new


def test_an_experiment_is_deleted_with_all_that_belongs_to_it(experiment, path):
    database = experiment.database
    Experiment.create(database, protocol(name="other"))
    keys = Keys(database)
    key, _ = keys.make("checkout", "read")
    token = Sessions(database, keys).begin(key)
    kept, _ = keys.make("other", "read")
    given = experiment.assign(SOMEBODY, unit="ada")
    experiment.record(given.id, reward=1.0)
    delete_experiment(path, "checkout")
    assert database.names() == ("other",)
    with closing(sqlite3.connect(path)) as connection:
        for table in ("assignments", "outcomes", "service_sessions"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    keys.refresh()
    assert keys.grant(key) is Sessions(database, keys).read(token) is None
    assert keys.grant(kept) is not None
    with pytest.raises(UnknownExperiment):
        experiment.assign(SOMEBODY, unit="bob")
    with pytest.raises(UnknownExperiment):
        delete_experiment(path, "checkout")
    with pytest.raises(AlreadyThere, match="which was deleted"):
        Experiment.create(path, protocol())


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_database_is_its_owner_s_alone(experiment, path):
    experiment.assign(SOMEBODY, unit="ada")
    for suffix in ("", "-wal", "-shm"):
        assert path.with_name(path.name + suffix).stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="cannot make the database"):
        Database(path.parent / "none" / "e.db", create=True)


@pytest.mark.parametrize(
    "hidden", ["\u200b", "\u202e", "\u2066", "\ufeff", "\u00ad", "\t", "\u2028", "\u3164", "\ufe0f"]
)
def test_units_with_characters_that_nobody_sees_are_refused(experiment, hidden):
    with pytest.raises(InputError, match=f"invisible character U\\+{ord(hidden):04X}"):
        experiment.assign(SOMEBODY, unit=f"ada{hidden}")


def test_units_in_any_script_are_taken(experiment):
    for unit in ("Ada Lovelace", "Ада", "愛", "عادا", "é", "e\u0301", "👩"):
        assert experiment.assign(SOMEBODY, unit=unit).unit == unit


def test_a_backup_is_read_without_changing_a_byte(experiment, path, tmp_path):
    experiment.assign(SOMEBODY, unit="ada")
    experiment.close()
    backup = tmp_path / "backup"
    backup.mkdir()
    (backup / "e.db").write_bytes(bytes_of(path))
    before = (backup / "e.db").read_bytes()
    (backup / "e.db").chmod(0o400)
    backup.chmod(0o500)
    try:
        with Experiment.open(Database(backup / "e.db", read_only=True), "checkout") as found:
            assert found.status().assigned == 1
            assert exported(found, tmp_path).faults == ()
            with pytest.raises(Exception, match="readonly"):
                found.pause("lunch")
        assert [one.name for one in backup.iterdir()] == ["e.db"]
        assert (backup / "e.db").read_bytes() == before
    finally:
        backup.chmod(0o700)


def test_an_older_file_is_not_upgraded_by_reading_it(tmp_path):
    path = stored(tmp_path / "old.db", 1)
    with pytest.raises(InputError, match="an older version"):
        Database(path, read_only=True)
    Database(path).close()
    assert Database(path, read_only=True).names() == ("checkout",)
    (tmp_path / "empty.db").touch()
    with pytest.raises(InputError, match="no database of experiments"):
        Database(tmp_path / "empty.db", read_only=True)
    with pytest.raises(InputError, match="for SQLite files"):
        Database("postgresql://nobody@nowhere/nothing", read_only=True)
