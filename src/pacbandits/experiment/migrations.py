"""Migrations of the database schema: each step is frozen SQL, and a new version appends one.

A new database runs all steps, an older one those it lacks, so both end with the same columns in the same order.
`pacbandits.experiment.database` describes the result to SQLAlchemy and creates nothing; a test compares both. The table
`pacbandits_schema` stores how many steps a database has run.

To add a column: append a step `ALTER TABLE … ADD COLUMN … NOT NULL DEFAULT …`, and give its row in
`pacbandits.experiment.stored_rows` a last field with the same default. Never change a step that was released.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Template
from typing import Any

from pacbandits.errors import InputError
from pacbandits.experiment.extra import sqlalchemy as sa

SCHEMA = 'CREATE TABLE pacbandits_schema ("only" $serial NOT NULL, steps INTEGER, PRIMARY KEY ("only"))'

_STEP_1 = """
CREATE TABLE experiments (
    name TEXT NOT NULL, protocol TEXT NOT NULL, contexts $bytes NOT NULL, secret $bytes NOT NULL,
    created BIGINT NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE standings (
    name TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, rows BIGINT NOT NULL, held_out BIGINT NOT NULL,
    rewards BIGINT NOT NULL, too_late BIGINT NOT NULL, sequence BIGINT NOT NULL, head $bytes NOT NULL,
    round INTEGER NOT NULL, round_rows BIGINT NOT NULL, planned BIGINT NOT NULL, designer TEXT NOT NULL,
    design_until BIGINT NOT NULL, seen_until BIGINT NOT NULL, look INTEGER NOT NULL, withdrawn TEXT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE assignments (
    experiment TEXT NOT NULL, "row" BIGINT NOT NULL, sequence BIGINT NOT NULL, unit TEXT NOT NULL,
    visit INTEGER NOT NULL, round INTEGER NOT NULL, action INTEGER NOT NULL, holdout INTEGER NOT NULL,
    at BIGINT NOT NULL, features $bytes NOT NULL, propensities $bytes NOT NULL, PRIMARY KEY (experiment, "row")
) $without_rowid;
CREATE UNIQUE INDEX assignments_by_unit ON assignments (unit, experiment, visit);
CREATE TABLE outcomes (
    experiment TEXT NOT NULL, "row" BIGINT NOT NULL, kind INTEGER NOT NULL, sequence BIGINT NOT NULL,
    value $double NOT NULL, late INTEGER NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (experiment, "row", kind)
) $without_rowid;
CREATE INDEX outcomes_in_sequence ON outcomes (experiment, sequence);
CREATE TABLE entries (
    experiment TEXT NOT NULL, sequence BIGINT NOT NULL, kind TEXT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL,
    previous $bytes NOT NULL, head $bytes NOT NULL, PRIMARY KEY (experiment, sequence)
);
CREATE TABLE looks (
    experiment TEXT NOT NULL, number INTEGER NOT NULL, at BIGINT NOT NULL, rows BIGINT NOT NULL,
    sequence BIGINT NOT NULL, round INTEGER NOT NULL, samples BIGINT NOT NULL, withdrawn INTEGER NOT NULL,
    best $double NOT NULL, body TEXT NOT NULL, certificate TEXT, PRIMARY KEY (experiment, number)
);
CREATE TABLE service_keys (
    id TEXT NOT NULL, experiment TEXT NOT NULL, scope TEXT NOT NULL, digest $bytes NOT NULL, created BIGINT NOT NULL,
    withdrawn INTEGER NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE service_signing ("only" $serial NOT NULL, secret $bytes NOT NULL, PRIMARY KEY ("only"))
"""

# nonce: part of an assignment's id, so that an id is never issued twice. incarnation: how often the database went back
# to an earlier state. pseudonymous: whether units are stored as keyed hashes. Keys got an expiry time, a label, and the
# origins of browsers that may use them; the scope write lost the permission to steer.
_STEP_2 = """
ALTER TABLE experiments ADD COLUMN pseudonymous INTEGER NOT NULL DEFAULT 0;
ALTER TABLE standings ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE assignments ADD COLUMN nonce TEXT NOT NULL DEFAULT '';
ALTER TABLE service_keys ADD COLUMN expires BIGINT NOT NULL DEFAULT 0;
ALTER TABLE service_keys ADD COLUMN label TEXT NOT NULL DEFAULT '';
ALTER TABLE service_keys ADD COLUMN origins TEXT NOT NULL DEFAULT '';
UPDATE service_keys SET scope = 'assign read' WHERE scope = 'write';
UPDATE service_keys SET label = 'first start' WHERE scope = 'admin';
CREATE TABLE deleted_experiments (name TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (name));
CREATE TABLE service_sessions (
    id TEXT NOT NULL, key TEXT NOT NULL, digest $bytes NOT NULL, until BIGINT NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE service_heartbeats (
    id TEXT NOT NULL, kind TEXT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (id)
);
DROP TABLE service_signing
"""

# Webhooks of experiments, and the outbox of the events that they are told of.
_STEP_3 = """
CREATE TABLE webhooks (
    id TEXT NOT NULL, experiment TEXT NOT NULL, url TEXT NOT NULL, secret TEXT NOT NULL, format TEXT NOT NULL,
    events TEXT NOT NULL, created BIGINT NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE webhook_deliveries (
    id TEXT NOT NULL, experiment TEXT NOT NULL, webhook TEXT NOT NULL, event TEXT NOT NULL, cause TEXT NOT NULL,
    at BIGINT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, due BIGINT NOT NULL,
    tried BIGINT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (id)
);
CREATE UNIQUE INDEX webhook_deliveries_by_cause ON webhook_deliveries (webhook, event, cause);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (state, due)
"""

# Statements end with a semicolon, which must not occur within one. $bytes, $double, $serial and $without_rowid are
# spelled differently by SQLite and PostgreSQL.
STEPS: tuple[str, ...] = (_STEP_1, _STEP_2, _STEP_3)
_SPELLINGS = {
    "sqlite": {"bytes": "BLOB", "double": "FLOAT", "serial": "INTEGER", "without_rowid": "WITHOUT ROWID"},
    "postgresql": {"bytes": "BYTEA", "double": "FLOAT(53)", "serial": "SERIAL", "without_rowid": ""},
}
_ADVISORY_LOCK = 0x7061_6362  # of PostgreSQL, so that two servers that start together do not both run a step


def statements_of(steps: Sequence[str], *, dialect: str) -> list[str]:
    """Return the statements of some steps in the dialect "sqlite" or "postgresql"."""
    written = Template(";".join(steps)).substitute(_SPELLINGS[dialect])
    return [one.strip() for one in written.split(";") if one.strip()]


def bring_up_to_date(engine: Any, *, steps: Sequence[str] = STEPS) -> int:
    """Run the steps that a database lacks, in one transaction; return how many."""
    with engine.begin() as connection:
        dialect: str = connection.dialect.name
        if dialect == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        if not sa.inspect(connection).has_table("pacbandits_schema"):
            connection.exec_driver_sql(*statements_of([SCHEMA], dialect=dialect))
        taken: int | None = connection.execute(sa.text("SELECT steps FROM pacbandits_schema")).scalar_one_or_none()
        if taken is not None and taken > len(steps):
            raise InputError(
                f"the database was made by a newer version of pacbandits (it has taken {taken} steps, and this version "
                f"knows {len(steps)}); upgrade pacbandits"
            )
        missing = steps[taken or 0 :]
        if taken == 1 and missing:  # step 2 drops one of its tables
            _complete_step_1(connection)
        for statement in statements_of(missing, dialect=dialect):
            connection.exec_driver_sql(statement)
        if taken is None:
            connection.execute(sa.text(f'INSERT INTO pacbandits_schema ("only", steps) VALUES (1, {len(steps)})'))
        elif missing:
            connection.execute(sa.text(f"UPDATE pacbandits_schema SET steps = {len(steps)}"))
        return len(missing)


def check_up_to_date(engine: Any, *, steps: Sequence[str] = STEPS) -> None:
    """Raise InputError unless a database has run exactly these steps; change nothing."""
    with engine.connect() as connection:
        there = sa.inspect(connection).has_table("pacbandits_schema")
        taken = (
            connection.execute(sa.text("SELECT steps FROM pacbandits_schema")).scalar_one_or_none() if there else None
        )
        if taken is None:
            raise InputError("this is no database of experiments")
        if taken != len(steps):
            word = "an older" if taken < len(steps) else "a newer"
            raise InputError(
                f"the database was made by {word} version of pacbandits (it has taken {taken} steps of {len(steps)}), "
                "and cannot be read as it is; open a copy of it without --read-only, or use that version"
            )


def _complete_step_1(connection: Any) -> None:
    """Create the tables that step 1 lacked in early versions; raise InputError if a table lacks columns."""
    found = sa.inspect(connection)
    for statement in statements_of([_STEP_1], dialect=connection.dialect.name):
        created = re.match(r"CREATE TABLE (\w+)", statement)
        if created is None:
            continue
        name = created[1]
        if not found.has_table(name):
            connection.exec_driver_sql(statement)
            continue
        there = {column["name"] for column in found.get_columns(name)}
        lacking = [one for one in re.findall(r'(\w+)"? [A-Z0-9()]+ NOT NULL', statement) if one not in there]
        if lacking:
            raise InputError(
                f"the database was made by a version of pacbandits before the first release: its table '{name}' has no "
                f"column '{lacking[0]}'; export its experiments with that version, or start with a new database"
            )
