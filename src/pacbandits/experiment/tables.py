"""The tables of experiments. Rows of all but `standings` and `service_keys` are written once, and never change.

Times are whole microseconds since 1970 in UTC. The records of an experiment, whichever table they stand in, are
numbered in one sequence, in the order in which they were stored, and chained by it (`pacbandits.experiment.chain`).
"""

from __future__ import annotations

from pacbandits.experiment.extra import sqlalchemy as sa

metadata = sa.MetaData()

# What an experiment is. contexts: packed (`pacbandits.experiment.packed_contexts`).
experiments = sa.Table(
    "experiments",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("protocol", sa.Text, nullable=False),
    sa.Column("contexts", sa.LargeBinary, nullable=False),
    sa.Column("secret", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
)

# Where it stands: the only rows that change, and short, as they do so with every record.
# rows: how many were assigned. rewards: how many came, in time. sequence: how many records there are. head: of the
# chain. round: the open one, from 0. round_rows: assigned in it, the holdout aside. designer, design_until: who
# designs, and how long nobody else may. seen_until: the time of the last record, before which none is made any more:
# windows that were over then stay over. look: the last one's number. withdrawn: names of actions, in JSON.
standings = sa.Table(
    "standings",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("held_out", sa.BigInteger, nullable=False),
    sa.Column("rewards", sa.BigInteger, nullable=False),
    sa.Column("too_late", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("head", sa.LargeBinary, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("round_rows", sa.BigInteger, nullable=False),
    sa.Column("planned", sa.BigInteger, nullable=False),
    sa.Column("designer", sa.Text, nullable=False),
    sa.Column("design_until", sa.BigInteger, nullable=False),
    sa.Column("seen_until", sa.BigInteger, nullable=False),
    sa.Column("look", sa.Integer, nullable=False),
    sa.Column("withdrawn", sa.Text, nullable=False),
)

# visit: from 0, of people who are drawn for anew; so no unit can have two actions for one visit.
# features, propensities: float64 in the machine's usual order, little end first.
assignments = sa.Table(
    "assignments",
    metadata,
    sa.Column("experiment", sa.Text, primary_key=True),
    sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("visit", sa.Integer, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("action", sa.Integer, nullable=False),
    sa.Column("holdout", sa.Integer, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("features", sa.LargeBinary, nullable=False),
    sa.Column("propensities", sa.LargeBinary, nullable=False),
    sa.Index("assignments_by_unit", "unit", "experiment", "visit", unique=True),
    sqlite_with_rowid=False,
)

# kind: 0 the reward, 1 the guardrail's outcome. late: 1 where it came after the window, and does not count.
outcomes = sa.Table(
    "outcomes",
    metadata,
    sa.Column("experiment", sa.Text, primary_key=True),
    sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("value", sa.Float(53), nullable=False),
    sa.Column("late", sa.Integer, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Index("outcomes_in_sequence", "experiment", "sequence"),
    sqlite_with_rowid=False,
)

# What else happened: creation, rounds, pauses, withdrawals, the end. body: JSON. previous, head: of the chain.
entries = sa.Table(
    "entries",
    metadata,
    sa.Column("experiment", sa.Text, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.LargeBinary, nullable=False),
    sa.Column("head", sa.LargeBinary, nullable=False),
)

# What was found at each look at the data. samples: rows of the trial that were looked at. withdrawn: how many actions
# were. best: the ε that was proven. Looks can be made again, and are not chained.
looks = sa.Table(
    "looks",
    metadata,
    sa.Column("experiment", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("samples", sa.BigInteger, nullable=False),
    sa.Column("withdrawn", sa.Integer, nullable=False),
    sa.Column("best", sa.Float(53), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("certificate", sa.Text),
)

# Keys of the service (`pacbandits.service.keys`). experiment: '' for the admin's, who may do everything everywhere.
# withdrawn: 1 when it opens nothing any more.
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

# What signs the sessions of the dashboard, whichever server they are at.
service_signing = sa.Table(
    "service_signing",
    metadata,
    sa.Column("only", sa.Integer, primary_key=True),
    sa.Column("secret", sa.LargeBinary, nullable=False),
)
