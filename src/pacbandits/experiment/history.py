"""All that an experiment has recorded, as arrays; read once, and then only what is new.

What a snapshot knows: the records before a number, at a time. With a window, a reward that did not come in time is in
as well, as what the protocol says it counts as, once that time is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.experiment import tables
from pacbandits.experiment.database import Connection
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.rounds import Round
from pacbandits.experiment.store import StoredExperiment
from pacbandits.experiment.stored_rows import (
    EXPORTED,
    NEVER,
    REWARD,
    AssignmentColumns,
    AssignmentRow,
    array_of,
    columns_of,
)
from pacbandits.records import Log
from pacbandits.records.late import NOT_IN

MAX_MISSING_EPSILONS = 0.1  # of rewards that are still to come, the share that may be out when rows are looked at


@dataclass(frozen=True, eq=False)
class Rows(AssignmentColumns):
    """All n assignments in their order, with what came of them in time.

    rewards (n,): as they were reported, NaN where none was, or too late.
    reward_sequence (n,): the number of that record; NEVER where there is none.
    guardrail (n,), guardrail_sequence (n,): the same of the second outcome.
    """

    rewards: FloatArray
    reward_sequence: IntArray
    guardrail: FloatArray
    guardrail_sequence: IntArray

    @classmethod
    def of(cls, columns: dict[str, Any]) -> Rows:
        """Assignments of which nothing came yet."""
        n = len(columns["sequence"])
        return cls(columns, np.full(n, np.nan), np.full(n, NEVER), np.full(n, np.nan), np.full(n, NEVER))

    def then(self, other: Rows) -> Rows:
        """These and others after them."""
        return Rows(
            {name: np.concatenate([values, other.columns[name]]) for name, values in self.columns.items()},
            np.concatenate([self.rewards, other.rewards]),
            np.concatenate([self.reward_sequence, other.reward_sequence]),
            np.concatenate([self.guardrail, other.guardrail]),
            np.concatenate([self.guardrail_sequence, other.guardrail_sequence]),
        )

    def before(self, sequence: int) -> Rows:
        """The rows whose records come before a number; what came of them is told apart by its own."""
        count = int(np.searchsorted(self.sequence, sequence))
        return Rows(
            {name: values[:count] for name, values in self.columns.items()},
            self.rewards[:count],
            self.reward_sequence[:count],
            self.guardrail[:count],
            self.guardrail_sequence[:count],
        )


class History:
    """Reads the rows of an experiment as they come."""

    def __init__(self, stored: StoredExperiment) -> None:
        self._stored, self._outcomes = stored, 0  # records of outcomes read so far end before this number
        self._widths = {"features": stored.width, "propensities": stored.protocol.n_actions}
        self._names, self._kinds = tuple(EXPORTED), columns_of(AssignmentRow)
        self.rows = Rows.of(self._arrays([()] * len(self._names)))

    def read(self, connection: Connection) -> Rows:
        """All rows, with what came of them so far."""
        t = tables.assignments.c
        query = sa.select(*(t[name] for name in self._names))
        query = query.where(t.experiment == self._stored.name, t.row >= len(self.rows)).order_by(t.row)
        found = connection.execute(query).all()
        if found:
            self.rows = self.rows.then(Rows.of(self._arrays(list(zip(*found, strict=True)))))
        self._read_outcomes(connection)
        return self.rows

    def _arrays(self, values: Sequence[Sequence[Any]]) -> dict[str, Any]:
        return {
            name: array_of(self._kinds[name].kind, some, width=self._widths.get(name, 0))
            for name, some in zip(self._names, values, strict=True)
        }

    def _read_outcomes(self, connection: Connection) -> None:
        t, rows = tables.outcomes.c, self.rows
        query = sa.select(t.row, t.kind, t.sequence, t.value).where(
            t.experiment == self._stored.name, t.sequence >= self._outcomes, t.late == 0
        )
        for row, kind, sequence, value in connection.execute(query):
            values, numbers = (
                (rows.rewards, rows.reward_sequence) if kind == REWARD else (rows.guardrail, rows.guardrail_sequence)
            )
            values[row], numbers[row] = value, sequence
            self._outcomes = max(self._outcomes, sequence + 1)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known of an experiment at a time.

    stored: which one.
    rows: all that were assigned before.
    rounds: those that were open by then.
    sequence: how many records there were.
    at: when, in microseconds.
    """

    stored: StoredExperiment
    rows: Rows
    rounds: Sequence[Round]
    sequence: int
    at: int

    @cached_property
    def counted(self) -> BoolArray:
        """Which rows (n,) are part of the trial: first visits, in its rounds, outside of the holdout."""
        trial = np.array([one.kind != "deployed" for one in self.rounds], dtype=np.bool_)
        return ~self.rows.holdout & (self.rows.visits == 0) & trial[self.rows.rounds]

    def came(self, sequence: int, at: int) -> BoolArray:
        """Of which rows (n,) the reward was in, when there were so many records, at that time."""
        rows, window = self.rows, self.stored.window
        came = rows.reward_sequence < sequence
        return came if window is None else came | (rows.at + window < at)

    @cached_property
    def in_(self) -> BoolArray:
        """Of which rows (n,) the reward is in."""
        return self.came(self.sequence, self.at)

    @cached_property
    def mature(self) -> int:
        """How many of the first rows are looked at, as most of their rewards are in.

        Any number of first rows may be looked at, whenever one likes: proofs hold at all of them. Of later rows more
        rewards are still out, and would count at their worst: a share of m costs about m of ε. And those that come
        early are not like the others: where only good ones are reported, all of them are good. With a window all come
        in at last; without, as many as of the earlier half.
        """
        n = len(self.rows)
        if n == 0:
            return 0
        share = np.cumsum(self.in_) / np.arange(1, n + 1)
        reached = float(share[n // 2]) if self.stored.window is None else 1.0
        enough = np.flatnonzero(share >= reached - MAX_MISSING_EPSILONS * self.stored.protocol.unit_epsilon)
        most = int(enough[-1]) + 1 if len(enough) else 0
        return max([most, *(one.mature for one in self.rounds)])

    def log(self, *, rows: int | None = None) -> Log | None:
        """The trial's rows, of the first so many, with rewards in [0, 1] as far as they are in; None if there are none.

        rows: by default those that are looked at.
        """
        which = np.flatnonzero(self.counted[: self.mature if rows is None else rows])
        return self.table().take(which) if len(which) else None

    def table(self) -> Log:
        """All rows, whether they count or not, with rewards in [0, 1] as far as they are in."""
        rows, protocol, n = self.rows, self.stored.protocol, len(self.rows)
        return Log(
            contexts=self.stored.contexts(rows.features),
            actions=rows.actions,
            rewards=np.where(self.in_, self._unit_rewards(), np.nan),
            propensities=rows.propensities,
            rounds=rows.rounds,
            repeats=np.ones(n, dtype=np.int64),
            known=np.where(self.in_, self.known_from(), NOT_IN),
            remarks=protocol.remarks(),
            action_names=protocol.actions,
            reward_range=protocol.reward_range,
            dates=protocol.date_columns,
        )

    def _unit_rewards(self) -> FloatArray:
        """What is in of each row (n,), in [0, 1]; where nothing came, what that counts as."""
        low, high = self.stored.protocol.reward_range
        missing = self.stored.protocol.late.missing
        raw = np.where(
            self.rows.reward_sequence < self.sequence, self.rows.rewards, low if missing is None else missing
        )
        return np.clip((raw - low) / (high - low), 0.0, 1.0)

    def known_from(self) -> IntArray:
        """From which round on what is in of each row (n,) was used: the first whose design knew of it.

        Of those that no design knew yet, the round that comes next.
        """
        out = np.full(len(self.rows), len(self.rounds), dtype=np.int64)
        numbers = np.arange(len(self.rows))
        for one in reversed(self.rounds):
            if one.kind == "design":
                out[self.came(one.snapshot, one.snapshot_at) & (numbers < one.mature)] = one.number
        return out
