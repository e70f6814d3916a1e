"""All that an experiment has recorded, as arrays; read once, and then only what is new.

What a snapshot knows: the records before a number, at a time. With a window, a reward that did not come in time is in
as well, as what the protocol says it counts as, once that time is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.experiment import tables
from pacbandits.experiment.book import GUARDRAIL, REWARD
from pacbandits.experiment.database import Connection
from pacbandits.experiment.extra import sqlalchemy as sa
from pacbandits.experiment.fixed import Fixed
from pacbandits.experiment.rounds import Round
from pacbandits.records import Contexts, Log
from pacbandits.records.late import NOT_IN

NEVER = 2**62  # the number of a record that is not there
MAX_MISSING_EPSILONS = 0.1  # of rewards that are still to come, the share that may be out when rows are looked at


@dataclass(frozen=True, eq=False)
class Rows:
    """All n assignments in their order.

    sequence (n,): the number of each one's record.
    rounds (n,): which round it belongs to.
    actions (n,): what was drawn.
    visits (n,): which visit of its unit it was, from 0.
    holdout (n,): whether it is one of the holdout.
    at (n,): when, in microseconds.
    features (n, d), propensities (n, A): as they were.
    rewards (n,): as they were reported, NaN where none was, or too late.
    reward_sequence (n,): the number of that record; NEVER where there is none.
    guardrail (n,), guardrail_sequence (n,): the same of the second outcome.
    """

    sequence: IntArray
    rounds: IntArray
    actions: IntArray
    visits: IntArray
    holdout: BoolArray
    at: IntArray
    features: FloatArray
    propensities: FloatArray
    rewards: FloatArray
    reward_sequence: IntArray
    guardrail: FloatArray
    guardrail_sequence: IntArray

    def __len__(self) -> int:
        return len(self.sequence)

    def before(self, sequence: int) -> Rows:
        """The rows whose records come before a number; what came of them is told apart by its own."""
        count = int(np.searchsorted(self.sequence, sequence))
        if count == len(self):
            return self
        return Rows(**{one.name: getattr(self, one.name)[:count] for one in fields(self)})


class History:
    """Reads the rows of an experiment as they come."""

    def __init__(self, fixed: Fixed) -> None:
        self._fixed = fixed
        d, a = fixed.width, fixed.protocol.n_actions
        self._outcomes = 0  # records read so far end before this number
        none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        self.rows = Rows(
            sequence=none,
            rounds=none,
            actions=none,
            visits=none,
            holdout=none > 0,
            at=none,
            features=np.zeros((0, d)),
            propensities=np.zeros((0, a)),
            rewards=nothing,
            reward_sequence=none,
            guardrail=nothing,
            guardrail_sequence=none,
        )

    def read(self, connection: Connection) -> Rows:
        """All rows, with what came of them so far."""
        self._read_assignments(connection)
        self._read_outcomes(connection)
        return self.rows

    def _read_assignments(self, connection: Connection) -> None:
        t, old = tables.assignments.c, self.rows
        columns = (t.sequence, t.round, t.action, t.visit, t.holdout, t.at, t.features, t.propensities)
        query = sa.select(*columns).where(t.experiment == self._fixed.name, t.row >= len(old)).order_by(t.row)
        found = connection.execute(query).all()
        if not found:
            return
        n, numbers = len(found), np.array([row[:6] for row in found], dtype=np.int64)
        features = np.frombuffer(b"".join(row[6] for row in found), dtype="<f8").reshape(n, -1)
        propensities = np.frombuffer(b"".join(row[7] for row in found), dtype="<f8").reshape(n, -1)
        never, nothing = np.full(n, NEVER), np.full(n, np.nan)
        self.rows = Rows(
            sequence=np.concatenate([old.sequence, numbers[:, 0]]),
            rounds=np.concatenate([old.rounds, numbers[:, 1]]),
            actions=np.concatenate([old.actions, numbers[:, 2]]),
            visits=np.concatenate([old.visits, numbers[:, 3]]),
            holdout=np.concatenate([old.holdout, numbers[:, 4] > 0]),
            at=np.concatenate([old.at, numbers[:, 5]]),
            features=np.concatenate([old.features, features.reshape(n, old.features.shape[1])]),
            propensities=np.concatenate([old.propensities, propensities]),
            rewards=np.concatenate([old.rewards, nothing]),
            reward_sequence=np.concatenate([old.reward_sequence, never]),
            guardrail=np.concatenate([old.guardrail, nothing]),
            guardrail_sequence=np.concatenate([old.guardrail_sequence, never]),
        )

    def _read_outcomes(self, connection: Connection) -> None:
        t, rows = tables.outcomes.c, self.rows
        query = sa.select(t.row, t.kind, t.sequence, t.value).where(
            t.experiment == self._fixed.name, t.sequence >= self._outcomes, t.late == 0
        )
        for row, kind, sequence, value in connection.execute(query):
            values, numbers = (
                (rows.rewards, rows.reward_sequence) if kind == REWARD else (rows.guardrail, rows.guardrail_sequence)
            )
            assert kind in (REWARD, GUARDRAIL)
            values[row], numbers[row] = value, sequence
            self._outcomes = max(self._outcomes, sequence + 1)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known of an experiment at a time.

    fixed: which one.
    rows: all that were assigned before.
    rounds: those that were open by then.
    sequence: how many records there were.
    at: when, in microseconds.
    """

    fixed: Fixed
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
        rows, window = self.rows, self.fixed.window
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
        reached = float(share[n // 2]) if self.fixed.window is None else 1.0
        enough = np.flatnonzero(share >= reached - MAX_MISSING_EPSILONS * self.fixed.protocol.unit_epsilon)
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
        rows, protocol, n = self.rows, self.fixed.protocol, len(self.rows)
        like, d = protocol.contexts, protocol.contexts.n_features
        ids = None if like.ids is None else rows.features[:, d].astype(np.int64)
        return Log(
            contexts=Contexts(rows.features[:, :d], like.names, like.categories, ids, np.full(n, 1.0 / n)),
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
        low, high = self.fixed.protocol.reward_range
        missing = self.fixed.protocol.late.missing
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
