"""From the tables of one version to those of the next; the first step makes them.

A database says in `pacbandits_schema` how many steps it has taken. A step is never changed once it was released: a new
version adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pacbandits.errors import InputError
from pacbandits.experiment import tables
from pacbandits.experiment.extra import sqlalchemy as sa

Step = Callable[[Any], None]

_schema = sa.Table(
    "pacbandits_schema", sa.MetaData(), sa.Column("only", sa.Integer, primary_key=True), sa.Column("steps", sa.Integer)
)
_ADVISORY_LOCK = 0x7061_6362  # of PostgreSQL, so that two servers that start together do not both take a step


def first_tables(connection: Any) -> None:
    """The tables of the first version."""
    tables.metadata.create_all(connection)


STEPS: tuple[Step, ...] = (first_tables,)


def bring_up_to_date(engine: Any, *, steps: Sequence[Step] = STEPS) -> int:
    """Take the steps that a database has not taken yet; how many these were."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        _schema.metadata.create_all(connection)
        taken = connection.execute(sa.select(_schema.c.steps)).scalar_one_or_none()
        if taken is not None and taken > len(steps):
            raise InputError(
                f"the database was made by a newer version of pacbandits (it has taken {taken} steps, and this version "
                f"knows {len(steps)}); upgrade pacbandits"
            )
        for step in steps[taken or 0 :]:
            step(connection)
        if taken is None:
            connection.execute(sa.insert(_schema).values(only=1, steps=len(steps)))
        elif taken < len(steps):
            connection.execute(sa.update(_schema).values(steps=len(steps)))
        return len(steps) - (taken or 0)
