"""Logs: what was seen, done and earned, and with what probability it was done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.errors import BoolArray, FloatArray, InputError, IntArray, floats, integers
from pacbandits.records import parquet
from pacbandits.records.contexts import WEIGHT_COLUMN, Contexts


@dataclass(frozen=True, eq=False)
class Log:
    """n rows of interactions.

    contexts: n rows. actions (n,). rewards (n,). propensities (n, A): the probability of every action in that context
    at the time, of which the played one must be positive. rounds (n,): which round of the experiment, from 0.
    repeats (n,): how often this very interaction occurred, 1 or more; a log of 10⁸ coin flips has few distinct rows.
    """

    contexts: Contexts
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    rounds: IntArray
    repeats: IntArray

    def __post_init__(self) -> None:
        n = len(self.contexts)
        propensities = floats(self.propensities, name="propensities", shape=(n, None))
        if propensities.shape[1] == 0:
            raise InputError("propensities have no columns; at least one action is needed")
        if propensities.min() < 0:
            raise InputError(f"propensities must not be negative, got {propensities.min()}")
        off = np.abs(propensities.sum(axis=1) - 1.0)
        if off.max() > 1e-6:
            row = int(off.argmax())
            raise InputError(f"propensities of row {row} sum to {propensities[row].sum():.6g}; they must sum to 1")
        actions = integers(self.actions, name="actions", shape=(n,), below=propensities.shape[1])
        played = propensities[np.arange(n), actions]
        if played.min() <= 0:
            row = int(played.argmin())
            raise InputError(f"row {row} played action {actions[row]}, whose propensity is 0; that cannot happen")
        object.__setattr__(self, "propensities", propensities)
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "rewards", floats(self.rewards, name="rewards", shape=(n,)))
        object.__setattr__(self, "rounds", integers(self.rounds, name="rounds", shape=(n,)))
        repeats = integers(self.repeats, name="repeats", shape=(n,))
        if repeats.min() < 1:
            raise InputError(f"repeats must be 1 or more, got {repeats.min()}")
        object.__setattr__(self, "repeats", repeats)

    def __len__(self) -> int:
        return len(self.contexts)

    @property
    def samples(self) -> int:
        """How many interactions there were, repeats included."""
        return int(self.repeats.sum())

    @property
    def n_actions(self) -> int:
        return self.propensities.shape[1]

    def only(self, rows: BoolArray) -> Log:
        """The rows (n,) marked true."""
        return self.take(np.flatnonzero(rows))

    def take(self, rows: IntArray) -> Log:
        """The given rows."""
        return Log(
            self.contexts.take(rows),
            self.actions[rows],
            self.rewards[rows],
            self.propensities[rows],
            self.rounds[rows],
            self.repeats[rows],
        )

    def followed_by(self, later: Log) -> Log:
        """This log and then the other."""
        mine, theirs = self.contexts, later.contexts
        if (mine.names, mine.categories, mine.ids is None) != (theirs.names, theirs.categories, theirs.ids is None):
            raise InputError("the contexts of the two logs differ in their features")
        n = len(self) + len(later)
        return Log(
            Contexts(
                features=np.concatenate([mine.features, theirs.features]),
                names=mine.names,
                categories=mine.categories,
                ids=None if mine.ids is None or theirs.ids is None else np.concatenate([mine.ids, theirs.ids]),
                weights=np.full(n, 1.0 / n),
            ),
            np.concatenate([self.actions, later.actions]),
            np.concatenate([self.rewards, later.rewards]),
            np.concatenate([self.propensities, later.propensities]),
            np.concatenate([self.rounds, later.rounds]),
            np.concatenate([self.repeats, later.repeats]),
        )

    @classmethod
    def of(
        cls,
        contexts: Contexts,
        *,
        actions: ArrayLike,
        rewards: ArrayLike,
        propensities: ArrayLike,
        rounds: ArrayLike | None = None,
        repeats: ArrayLike | None = None,
    ) -> Log:
        """A log from anything like arrays; without rounds, all in round 0; without repeats, each row occurred once."""
        n = len(contexts)
        return cls(
            contexts=contexts,
            actions=integers(actions, name="actions", shape=(n,)),
            rewards=floats(rewards, name="rewards", shape=(n,)),
            propensities=floats(propensities, name="propensities", shape=(n, None)),
            rounds=np.zeros(n, dtype=np.int64) if rounds is None else integers(rounds, name="rounds", shape=(n,)),
            repeats=np.ones(n, dtype=np.int64) if repeats is None else integers(repeats, name="repeats", shape=(n,)),
        )

    @classmethod
    def read(cls, path: str | Path) -> Log:
        """A log from Parquet: `action`, `reward`, `propensities` (lists), optionally `round` and `repeats`.

        The other columns are features.
        """
        table = parquet.read(path)
        for needed in ("action", "reward", "propensities"):
            if needed not in table:
                raise InputError(f"{path}: column '{needed}' is missing (there are: {', '.join(table)})")
        actions = parquet.pop_integers(table, "action")
        rewards = parquet.pop_floats(table, "reward")
        propensities = parquet.pop_matrix(table, "propensities")
        rounds = parquet.pop_integers(table, "round")
        repeats = parquet.pop_integers(table, "repeats")
        assert actions is not None
        assert rewards is not None
        assert propensities is not None
        contexts = Contexts.from_columns(table, n=len(actions))
        return cls.of(
            contexts, actions=actions, rewards=rewards, propensities=propensities, rounds=rounds, repeats=repeats
        )

    def write(self, path: str | Path) -> None:
        """Write to Parquet, so that `read` gives the same log back."""
        columns = {
            "action": self.actions,
            "reward": self.rewards,
            "propensities": self.propensities,
            "round": self.rounds,
            "repeats": self.repeats,
        }
        clash = sorted(set(columns) & set(self.contexts.names))
        if clash:
            raise InputError(f"feature '{clash[0]}' has the name of a log column; rename the feature")
        parquet.write(path, self.contexts.columns() | {WEIGHT_COLUMN: self.contexts.weights} | columns)
