"""The tables of a database as SQLAlchemy sees them; `pacbandits.experiment.migrations` creates them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.stored_rows import (
    AnalysisRow,
    AssignmentRow,
    EntryRow,
    ExperimentRow,
    OutcomeRow,
    Standing,
    columns_of,
)

metadata = sa.MetaData()
_TYPES: dict[type, Any] = {int: sa.BigInteger, float: sa.Float(53), str: sa.Text, bytes: sa.LargeBinary}


def table_of(name: str, row: type[NamedTuple], *indexes: Any, into: Any = metadata, **options: Any) -> sa.Table:
    """The table that holds such rows."""
    columns = [
        sa.Column(
            field,
            sa.Integer if how.small else _TYPES[how.kind],
            primary_key=how.key,
            autoincrement=False,
            nullable=how.nullable,
        )
        for field, how in columns_of(row).items()
    ]
    return sa.Table(name, into, *columns, *indexes, **options)


experiments = table_of("experiments", ExperimentRow)
standings = table_of("standings", Standing)
assignments = table_of(
    "assignments",
    AssignmentRow,
    sa.Index("assignments_by_unit", "unit", "experiment", "visit", unique=True),
    sqlite_with_rowid=False,
)
outcomes = table_of(
    "outcomes", OutcomeRow, sa.Index("outcomes_in_sequence", "experiment", "sequence"), sqlite_with_rowid=False
)
entries = table_of("entries", EntryRow)
looks = table_of("looks", AnalysisRow)

# Keys of the service (`pacbandits.service.keys`). experiment: '' for the admin's key, which opens all of them.
# withdrawn: 1 if it opens nothing any more.
service_keys = sa.Table(
    "service_keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("experiment", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("withdrawn", sa.Integer, nullable=False),
)

# The secret that signs sessions of the dashboard, on whichever server.
service_signing = sa.Table(
    "service_signing",
    metadata,
    sa.Column("only", sa.Integer, primary_key=True),
    sa.Column("secret", sa.LargeBinary, nullable=False),
)
