"""A fresh database and one that was upgraded from any released schema end with the same schema, and nothing is lost."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys

import pytest
import sqlalchemy as sa

from pacbandits.errors import InputError
from pacbandits.experiment import database as tables
from pacbandits.experiment.audit import audit, read_record
from pacbandits.experiment.database import Database, database_url
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.migrations import STEPS, bring_up_to_date
from pacbandits.experiment.stored_rows import AssignmentRow, added_bytes, columns_of
from pacbandits.experiment.webhooks import count_deliveries, webhooks_of
from tests.experiment.cases import protocol
from tests.service.postgres import postgres
from tests.stored.make import FOLDER

STORED = FOLDER / "databases"  # dumps of databases: schema_N has taken N steps. A new step asks for a new dump
HEADS = {
    1: "93054c60fc0a980d6bf8aa773b8c273f72e9f6eddb0188e7a3c8ad0d7da0becc",
    2: "da453567bcf2fd857a107d94cf1860a82ad3aefc467fd0c79d613104eada705a",
    3: "8525dcbae5fa3c877c5e75dcb33c3e368fc48215691d2de5df203d3977c9d010",
}
VERSIONS = range(1, len(STEPS) + 1)
PRETEND = "ALTER TABLE assignments ADD COLUMN channel TEXT NOT NULL DEFAULT 'web'; CREATE INDEX by_at ON entries (at)"


def stored(path, version):
    """A stored SQLite database, restored."""
    with sqlite3.connect(path) as connection:
        connection.executescript((STORED / f"schema_{version}.sqlite.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def schema_of(engine):
    """All that a database says of its tables: columns in their order, keys and indexes."""
    found = sa.inspect(engine)
    return {
        name: (
            [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in found.get_columns(name)],
            found.get_pk_constraint(name)["constrained_columns"],
            sorted((i["name"], i["column_names"], bool(i["unique"])) for i in found.get_indexes(name)),
        )
        for name in found.get_table_names()
        if name != "pacbandits_schema"
    }


def without_defaults(schema):
    """The same without defaults of columns: SQLAlchemy is told none, as it creates no table."""
    return {name: ([one[:3] for one in columns], *rest) for name, (columns, *rest) in schema.items()}


def test_each_released_schema_is_stored():
    assert set(HEADS) == set(VERSIONS)
    for version in VERSIONS:
        assert (STORED / f"schema_{version}.sqlite.sql").exists()
        assert (STORED / f"schema_{version}.postgresql.sql").exists()


def test_a_fresh_database_has_the_columns_that_sqlalchemy_is_told_of(tmp_path):
    live = sa.create_engine(f"sqlite:///{tmp_path / 'live.db'}")
    tables.metadata.create_all(live)
    fresh = Database(tmp_path / "fresh.db", create=True)
    assert without_defaults(schema_of(fresh.engine)) == without_defaults(schema_of(live))
    with fresh.engine.connect() as connection:
        query = "SELECT sql FROM sqlite_master WHERE name IN ('assignments', 'outcomes')"
        assert all(words.endswith("WITHOUT ROWID") for words in connection.exec_driver_sql(query).scalars())
    live.dispose()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_database_is_upgraded_to_the_schema_of_a_fresh_one(tmp_path, version):
    old = Database(stored(tmp_path / "old.db", version))
    fresh = Database(tmp_path / "fresh.db", create=True)
    assert schema_of(old.engine) == schema_of(fresh.engine)
    assert bring_up_to_date(old.engine) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stored_experiment_goes_on_and_its_head_still_holds(tmp_path, version):
    experiment = Experiment.open(stored(tmp_path / "old.db", version), "checkout")
    assert experiment.seal().head == HEADS[version]
    given = experiment.assign({"age": 31, "country": "DE"}, unit="new")
    experiment.record(given.id, reward=1.0)
    experiment.export(tmp_path / "e.parquet", look=0)
    found = audit(read_record(tmp_path / "e.parquet"), head=HEADS[version])
    assert found.faults == ()
    assert found.noted == found.records - 2
    assert found.head == experiment.seal().head


def test_a_stored_webhook_is_told_later_of_what_waited_for_it(tmp_path):
    database = Database(stored(tmp_path / "old.db", 3))
    with database.reading() as connection:
        [hook] = webhooks_of(connection, "checkout")
        assert (hook.url, hook.secret, hook.events) == ("https://example.org/hook", "env:HOOK_SECRET", ("drift",))
        assert count_deliveries(connection, experiment="checkout")["waiting"] == 1


@pytest.mark.parametrize("version", [0, *VERSIONS])
def test_a_further_step_works_on_a_fresh_and_on_an_older_database(tmp_path, version):
    path = tmp_path / "e.db"
    engine = sa.create_engine(database_url(path if version == 0 else stored(path, version)))
    assert bring_up_to_date(engine, steps=(*STEPS, PRETEND)) == len(STEPS) + 1 - version
    assert bring_up_to_date(engine, steps=(*STEPS, PRETEND)) == 0
    columns, _, _ = schema_of(engine)["assignments"]
    assert columns[-1] == ("channel", "TEXT", False, "'web'")
    with engine.begin() as connection:
        values = connection.exec_driver_sql("SELECT channel FROM assignments").scalars().all()
        assert set(values) == (set() if version == 0 else {"web"})
    with pytest.raises(InputError, match="newer version"):
        bring_up_to_date(engine)
    engine.dispose()


@pytest.mark.parametrize("lacking", ["service_signing", "service_keys"])
def test_a_database_from_before_a_table_was_added_to_step_1_is_completed(tmp_path, lacking):
    path = stored(tmp_path / "old.db", 1)
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TABLE {lacking}")
    connection.close()
    completed, fresh = Database(path), Database(tmp_path / "fresh.db", create=True)
    assert schema_of(completed.engine) == schema_of(fresh.engine)


def test_a_database_whose_tables_differ_is_refused_in_a_sentence(tmp_path):
    path = stored(tmp_path / "old.db", 1)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE standings DROP COLUMN too_late")
    connection.close()
    with pytest.raises(InputError, match="its table 'standings' has no column 'too_late'"):
        Database(path)


def test_keys_of_the_first_schema_keep_their_use_without_the_permission_to_steer(tmp_path):
    path = stored(tmp_path / "old.db", 1)
    with sqlite3.connect(path) as connection:
        for number, (experiment, scope) in enumerate((("checkout", "write"), ("checkout", "read"), ("", "admin"))):
            row = (str(number), experiment, scope, b"0" * 32, 1, 0)
            connection.execute("INSERT INTO service_keys VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()
    database = Database(path)  # which must outlive its connections: they are closed with it
    with database.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT scope, expires, label FROM service_keys ORDER BY id").all()
    assert found == [("assign read", 0, ""), ("read", 0, ""), ("admin", 0, "first start")]


def test_a_step_that_fails_leaves_the_database_as_it_was(tmp_path):
    database = Database(stored(tmp_path / "e.db", 1))
    before = schema_of(database.engine)
    with pytest.raises(sa.exc.OperationalError):
        bring_up_to_date(database.engine, steps=(*STEPS, PRETEND + "; ALTER TABLE nowhere ADD COLUMN x TEXT"))
    assert schema_of(database.engine) == before
    assert bring_up_to_date(database.engine) == 0


@pytest.mark.thorough
def test_postgresql_ends_with_the_same_schema_fresh_upgraded_and_as_told():
    with postgres() as url:
        whole = sa.create_engine(database_url(url), isolation_level="AUTOCOMMIT")

        def base(name):
            with whole.connect() as connection:
                connection.exec_driver_sql(f"CREATE DATABASE {name}")
            return sa.create_engine(database_url(re.sub(r"/postgres$", f"/{name}", url)))

        live, fresh = base("live"), base("fresh")
        tables.metadata.create_all(live)
        assert bring_up_to_date(fresh) == len(STEPS)
        assert without_defaults(schema_of(fresh)) == without_defaults(schema_of(live))
        engines = [fresh]
        for version in VERSIONS:
            engines.append(base(f"old{version}"))
            with engines[-1].begin() as connection:
                connection.exec_driver_sql((STORED / f"schema_{version}.postgresql.sql").read_text(encoding="utf-8"))
            assert bring_up_to_date(engines[-1]) == len(STEPS) - version
            assert schema_of(engines[-1]) == schema_of(fresh)
        for engine in engines:
            assert bring_up_to_date(engine, steps=(*STEPS, PRETEND)) == 1
            assert schema_of(engine) == schema_of(fresh)
        for engine in (whole, live, *engines):
            engine.dispose()
        experiment = Experiment.create(url, protocol())
        assert experiment.assign({"age": 31, "country": "DE"}, unit="u").new
        experiment.close()


ADDED = '''
import importlib.util, sys

def patch(name, *edits):
    """Load a module of which some lines were edited."""
    spec = importlib.util.find_spec("pacbandits.experiment." + name)
    source = open(spec.origin, encoding="utf-8").read()
    for old, new in edits:
        assert source.count(old) == 1, (name, old)
        source = source.replace(old, new)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)

how, database, export = sys.argv[1:]
patch("stored_rows", (
    '    nonce: str = ""\\n\\n    def sealed(self, mark',
    f'    nonce: str = ""\\n    channel: {how} = "web"\\n\\n    def sealed(self, mark',
))
patch("migrations", (
    "(_STEP_1, _STEP_2, _STEP_3)",
    """(_STEP_1, _STEP_2, _STEP_3, "ALTER TABLE assignments ADD COLUMN channel TEXT NOT NULL DEFAULT 'web'")"""
))
patch("assignments", (
    "                nonce=nonce,\\n",
    "                nonce=nonce,\\n                channel='app' if row % 2 else 'web',\\n",
))
from dataclasses import replace
from pacbandits.experiment.audit import audit
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.audit import read_record

experiment = Experiment.open(database, "checkout")
noted = experiment.seal().head
for number in range(4):
    experiment.assign({"age": 31, "country": "DE"}, unit=f"new-{number}")
experiment.export(export, look=0)
record = read_record(export)
assert set(record.columns["channel"][-4:]) == {"web", "app"} and set(record.columns["channel"][:-4]) == {"web"}
assert audit(record, head=noted).faults == ()
changed = record.columns["channel"].copy()
changed[-4:] = "app"
forged = audit(replace(record, columns=record.columns | {"channel": changed}))
assert ("SEALED" in how) == (forged.head != experiment.seal().head)
'''


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["str", "Annotated[str, SEALED]"])
def test_a_column_is_added_by_edits_of_three_files(tmp_path, how):
    """A field, a step, and where the value comes from; the export, its audit and the seal follow."""
    path = stored(tmp_path / "e.db", 1)
    given = [sys.executable, "-c", ADDED, how, str(path), str(tmp_path / "e.parquet")]
    subprocess.run(given, check=True)


def test_sealed_columns_change_no_digest_of_older_rows():
    assert not any(how.sealed for how in columns_of(AssignmentRow).values())
    row = AssignmentRow("e", 0, 3, "u", 0, 1, 2, 0, 77, b"12345678", b"87654321")
    assert added_bytes(row) == b""
