"""Logs: what was seen, done and earned, and with what probability it was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats, floats_or_missing, integers
from pacbandits.checks import instance, settle, texts
from pacbandits.errors import ROW, InputError, RowError, plain
from pacbandits.fields import Fields
from pacbandits.records import late, parquet
from pacbandits.records.arrow import Columns
from pacbandits.records.beside import UNIT_RANGE, check_range, pop_weights, stored_dates
from pacbandits.records.columns import pop_floats, pop_integers, pop_matrix, pop_numbers_or_missing
from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.files import naming
from pacbandits.records.least import PROPENSITY_SUM_ROUNDING, check_least, declared
from pacbandits.records.naming import check_names
from pacbandits.records.phi import joined_phi
from pacbandits.records.recorded import only_counted
from pacbandits.records.units import UNIT_COLUMN, check_repeats, joined_units, number_units, unit_column, visit_weights


class OtherColumns(TypedDict, total=False):
    """What logs of all kinds have beside contexts, actions and propensities, as `Log.of` takes it."""

    rewards: Required[ArrayLike]
    rounds: ArrayLike | None
    repeats: ArrayLike | None
    remarks: tuple[str, ...]
    action_names: Sequence[str] | None
    reward_range: tuple[float, float]
    units: ArrayLike | None
    known: ArrayLike | None


@dataclass(frozen=True, eq=False)
class Log:
    """n rows of interactions.

    contexts: n rows, which are draws and all count alike: weights that differ are made equal.
    actions (n,): what was played.
    rewards (n,): what it earned; NaN where that is not in yet, which `known` has to say.
    propensities (n, A): the probability of every action in that context at the time, of which the played one must be
        positive.
    rounds (n,): which round of the experiment, from 0.
    repeats (n,): how often this very interaction occurred, 1 or more; a log of 10⁸ coin flips has few distinct rows.
    least (n, A): for logs that know the propensity of the played action alone, what every action's was at least, as
        declared; `propensities` then holds these, but for the played action. None for other logs.
    remarks: what else is assumed of the log, in words; its certificates repeat them.
    action_names (A,): what the actions are called; None if they are but numbered.
    reward_range: what a reward of 0 and of 1 stand for in the units of whoever kept the log.
    dates: the columns of dates and times that features were made of.
    units (n,): whose row it is, for people who come back, by any whole numbers; None where every row is of another.
    known (n,): the round from which on the reward was known, later than the row's own, and -1 where it is not in yet;
        None where every reward of a round was in before the next began.
    notices: what the reader of the log's file should know of it; no certificate rests on that.
    """

    contexts: Contexts
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    rounds: IntArray
    repeats: IntArray
    least: FloatArray | None = None
    remarks: tuple[str, ...] = ()
    action_names: tuple[str, ...] | None = None
    reward_range: tuple[float, float] = UNIT_RANGE
    dates: tuple[str, ...] = ()
    units: IntArray | None = None
    known: IntArray | None = None
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(check_contexts(self.contexts))
        propensities = floats(self.propensities, name="propensities", shape=(n, None))
        if propensities.shape[1] == 0:
            raise InputError("propensities have no columns; at least one action is needed")
        if propensities.min() < 0:
            row = int(propensities.min(axis=1).argmin())
            raise RowError(f"propensities must not be negative, got {propensities.min()} in {ROW}; correct it", row)
        off = np.abs(propensities.sum(axis=1) - 1.0)
        if self.least is None and off.max() > PROPENSITY_SUM_ROUNDING:
            row = int(off.argmax())
            total = propensities[row].sum()
            raise RowError(f"propensities of {ROW} sum to {total:.10g}; they must sum to 1: correct them", row)
        actions = integers(self.actions, name="actions", shape=(n,), below=propensities.shape[1])
        played = propensities[np.arange(n), actions]
        if played.min() <= 0:
            row = int(played.argmin())
            words = f"{ROW} played action {actions[row]}, whose propensity is 0; that cannot be: correct one of them"
            raise RowError(words, row)
        if self.least is not None:
            least = floats(self.least, name="least propensities", shape=propensities.shape)
            check_least(least, propensities, actions)
            settle(self, least=least)
        settle(self, remarks=texts(self.remarks, name="remarks"), propensities=propensities, actions=actions)
        finite_or_not = floats if self.known is None else floats_or_missing
        settle(self, rewards=finite_or_not(self.rewards, name="rewards", shape=(n,)))
        settle(self, action_names=check_names(self.action_names, n_actions=propensities.shape[1]))
        settle(self, reward_range=check_range(self.reward_range), dates=texts(self.dates, name="dates"))
        settle(self, rounds=integers(self.rounds, name="rounds", shape=(n,)))
        repeats = integers(self.repeats, name="repeats", shape=(n,))
        if repeats.min() < 1:
            row = int(repeats.argmin())
            raise RowError(f"repeats must be 1 or more, got {repeats[row]} in {ROW}; correct it, or leave it out", row)
        if repeats.sum(dtype=np.float64) >= 2.0**63:
            raise InputError(f"repeats sum to {repeats.sum(dtype=np.float64):.6g}; fewer than 2^63 can be counted")
        settle(self, repeats=repeats)
        if self.units is not None:
            settle(self, units=integers(self.units, name="units", shape=(n,)))
            check_repeats(repeats)
        if self.known is not None:
            when = late.check_known(self.known, rewards=self.rewards, rounds=self.rounds, repeats=repeats)
            settle(self, known=when)
        if np.ptp(self.contexts.weights) > 0:
            settle(self, contexts=replace(self.contexts, weights=np.full(n, 1.0 / n)))

    def __len__(self) -> int:
        return len(self.contexts)

    @property
    def samples(self) -> int:
        """How many interactions there were, repeats included."""
        return int(self.repeats.sum())

    @cached_property
    def weights(self) -> FloatArray:
        """How much each row counts (n,): as often as it occurred, and a visit of a unit with m of them 1/m."""
        return self.repeats.astype(np.float64) if self.units is None else visit_weights(self.units)

    @property
    def n_units(self) -> int:
        """How many units there were; interactions, where each is of another."""
        return self.samples if self.units is None else len(np.unique(self.units))

    @property
    def round_sizes(self) -> FloatArray:
        """How many interactions each round had (rounds,), or units, of which each is in a single round."""
        _, rounds = np.unique(self.rounds, return_inverse=True)
        return np.rint(np.bincount(rounds, weights=self.weights))

    @property
    def n_actions(self) -> int:
        return self.propensities.shape[1]

    @property
    def played_propensities(self) -> FloatArray:
        """The propensity of the played action (n,): what rewards are divided by."""
        return self.propensities[np.arange(len(self)), self.actions]

    @property
    def bounds(self) -> FloatArray:
        """What was known of each action's propensity before one was drawn (n, A): all, or what it was at least."""
        return self.propensities if self.least is None else self.least

    @property
    def assumed(self) -> tuple[str, ...]:
        """The remarks, and what was declared of propensities that the log does not tell."""
        return (*self.remarks, *(() if self.least is None else declared(self.least)), *late.late_words(self.known))

    @property
    def awaited(self) -> BoolArray:
        """Whose rewards (n,) are not in."""
        return np.zeros(len(self), dtype=np.bool_) if self.known is None else np.isnan(self.rewards)

    def known_by(self, round_number: int) -> BoolArray:
        """Whose rewards (n,) were known before the round of this number began."""
        since = late.known_or_rounds(self.known, self.rounds)
        return (since >= 0) & (since <= round_number)

    def rows_in(self) -> Log | None:
        """The rows whose rewards are in; None where none is."""
        out = self.awaited
        return self if not out.any() else None if out.all() else self.only(~out)

    def as_of(self, round_number: int) -> Log | None:
        """The log as it stood when the round of this number began; None if that was the first.

        The rows of earlier rounds, of whose rewards those that came later are not in.
        """
        before = self.rounds < round_number
        if not before.any():
            return None
        then = self if before.all() else self.only(before)
        if then.known is None:
            return then
        rewards, known = late.as_known(then.rewards, then.known, before=round_number)
        return replace(then, rewards=rewards, known=known)

    def only(self, rows: BoolArray) -> Log:
        """The rows (n,) marked true."""
        return self.take(np.flatnonzero(rows))

    def take(self, rows: IntArray) -> Log:
        """The given rows."""
        return replace(
            self,
            contexts=self.contexts.take(rows),
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            propensities=self.propensities[rows],
            rounds=self.rounds[rows],
            repeats=self.repeats[rows],
            least=None if self.least is None else self.least[rows],
            units=None if self.units is None else self.units[rows],
            known=None if self.known is None else self.known[rows],
        )

    def followed_by(self, later: Log) -> Log:
        """This log and then the other."""
        mine, theirs = self.contexts, later.contexts
        if (mine.names, mine.categories, mine.ids is None) != (theirs.names, theirs.categories, theirs.ids is None):
            raise InputError("the contexts of the two logs differ in their features")
        if (self.action_names, self.reward_range) != (later.action_names, later.reward_range):
            raise InputError("the two logs differ in the names of their actions, or in the range of their rewards")
        n = len(self) + len(later)
        complete = self.least is None and later.least is None
        return replace(
            self,
            contexts=Contexts(
                features=np.concatenate([mine.features, theirs.features]),
                names=mine.names,
                categories=mine.categories,
                ids=None if mine.ids is None or theirs.ids is None else np.concatenate([mine.ids, theirs.ids]),
                weights=np.full(n, 1.0 / n),
                phi=joined_phi(mine.phi, theirs.phi),
            ),
            actions=np.concatenate([self.actions, later.actions]),
            rewards=np.concatenate([self.rewards, later.rewards]),
            propensities=np.concatenate([self.propensities, later.propensities]),
            rounds=np.concatenate([self.rounds, later.rounds]),
            repeats=np.concatenate([self.repeats, later.repeats]),
            least=None if complete else np.concatenate([self.bounds, later.bounds]),
            remarks=tuple(dict.fromkeys((*self.remarks, *later.remarks))),
            units=joined_units(self.units, later.units),
            known=late.joined_known(self.known, later.known, (self.rounds, later.rounds)),
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
        remarks: tuple[str, ...] = (),
        action_names: Sequence[str] | None = None,
        reward_range: tuple[float, float] = UNIT_RANGE,
        units: ArrayLike | None = None,
        known: ArrayLike | None = None,
        least: ArrayLike | None = None,
    ) -> Log:
        """A log from anything like arrays; without rounds, all in round 0; without repeats, each row occurred once.

        >>> import pacbandits as pb
        >>> people = pb.Contexts.of([[20], [40]], names=["age"])
        >>> log = pb.Log.of(people, actions=[0, 1], rewards=[1, 0], propensities=[[0.5, 0.5], [0.2, 0.8]])
        >>> log.samples, log.played_propensities
        (2, array([0.5, 0.8]))
        """
        n = len(check_contexts(contexts))
        return cls(
            contexts=contexts,
            actions=integers(actions, name="actions", shape=(n,)),
            rewards=(floats if known is None else floats_or_missing)(rewards, name="rewards", shape=(n,)),
            propensities=floats(propensities, name="propensities", shape=(n, None)),
            rounds=np.zeros(n, dtype=np.int64) if rounds is None else integers(rounds, name="rounds", shape=(n,)),
            repeats=np.ones(n, dtype=np.int64) if repeats is None else integers(repeats, name="repeats", shape=(n,)),
            remarks=remarks,
            action_names=None if action_names is None else tuple(action_names),
            reward_range=reward_range,
            units=None if units is None else integers(units, name="units", shape=(n,)),
            known=None if known is None else np.asarray(known),
            least=None if least is None else floats(least, name="least propensities", shape=(n, None)),
        )

    @classmethod
    def of_played(
        cls,
        contexts: Contexts,
        *,
        actions: ArrayLike,
        played: ArrayLike,
        least: ArrayLike,
        **rest: Unpack[OtherColumns],
    ) -> Log:
        """A log that knows the propensity of the played action alone.

        played (n,): that. least (n, A): what every action's was at least, as was known before the action was drawn; 0
        where nothing was known, which proves less. rest: as for `of`.
        """
        n = len(check_contexts(contexts))
        bounds = floats(least, name="least propensities", shape=(n, None))
        own = integers(actions, name="actions", shape=(n,), below=bounds.shape[1])
        propensities = bounds.copy()
        propensities[np.arange(n), own] = floats(played, name="played propensities", shape=(n,))
        propensities.setflags(write=False)
        return cls.of(contexts, actions=own, propensities=propensities, least=bounds, **rest)

    @classmethod
    def read(cls, path: str | Path) -> Log:
        """A log as `write` writes it: `action`, `reward`, `propensities` (lists), optionally `round` and `repeats`.

        Instead of propensities there may be `propensity`, of the played action, and `least_propensity` (lists). The
        other columns are features, but for `unit` and `known` where the file says so. For logs in other forms see
        `read_log`.
        """
        with naming(Path(path)):
            table = parquet.read_table(path)
            only_counted(table.columns, table.about)
            return with_about(cls._of_table(table.columns, table.about, said=table.remarks), table.about)

    @classmethod
    def _of_table(cls, table: Columns, about: Fields, *, said: tuple[str, ...]) -> Log:
        """The same from columns; about: what the file says beside them. said: its remarks."""
        unit, known = unit_column(about), late.pop_known(table, late.known_column(about))
        alone = "propensities" not in table and "propensity" in table and "least_propensity" in table
        for needed in ("action", "reward", *(() if alone else ("propensities",))):
            if needed not in table:
                raise InputError(f"column '{needed}' is missing (there are: {plain(', '.join(table))})")
        actions = pop_integers(table, "action")
        rewards = pop_floats(table, "reward") if known is None else pop_numbers_or_missing(table, "reward")
        played = pop_floats(table, "propensity") if alone else None
        least = pop_matrix(table, "least_propensity") if alone else None
        propensities = None if alone else pop_matrix(table, "propensities")
        rounds = pop_integers(table, "round")
        repeats = pop_integers(table, "repeats")
        units = None if unit is None else pop_integers(table, unit)
        assert actions is not None
        assert rewards is not None
        remarks = (*said, *pop_weights(table))
        contexts = Contexts.from_columns(table, n=len(actions))
        rest: OtherColumns = {
            "rewards": rewards,
            "rounds": rounds,
            "repeats": repeats,
            "remarks": remarks,
            "units": units,
            "known": known,
        }
        if played is not None and least is not None:
            return cls.of_played(contexts, actions=actions, played=played, least=least, **rest)
        assert propensities is not None
        return cls.of(contexts, actions=actions, propensities=propensities, **rest)

    def write(self, path: str | Path | IO[bytes]) -> None:
        """Write to Parquet, to a path or an open file, so that `read` gives the same log back."""
        complete = {"propensities": self.propensities}
        alone = {"propensity": self.played_propensities, "least_propensity": self.bounds}
        columns = {
            "action": self.actions,
            "reward": self.rewards,
            **(complete if self.least is None else alone),
            "round": self.rounds,
            "repeats": self.repeats,
            **({} if self.units is None else {UNIT_COLUMN: number_units(self.units)}),
            **({} if self.known is None else {late.KNOWN_COLUMN: self.known}),
        }
        clash = sorted(set(columns) & set(self.contexts.names))
        if clash:
            raise InputError(f"feature '{clash[0]}' has the name of a log column; rename the feature")
        about: dict[str, object] = {} if self.action_names is None else {"actions": list(self.action_names)}
        if self.reward_range != UNIT_RANGE:
            about["reward_range"] = list(self.reward_range)
        if self.dates:
            about["dates"] = list(self.dates)
        if self.units is not None:
            about["unit"] = UNIT_COLUMN
        if self.known is not None:
            about["known"] = late.KNOWN_COLUMN
        parquet.write(path, self.contexts.columns() | columns, remarks=self.remarks, about=about)


def with_about(log: Log, about: Fields) -> Log:
    """The log with what a file says about it beside its columns."""
    names = about.texts("actions", most=log.n_actions) if "actions" in about else None
    ends = about.numbers("reward_range", shortest=2, longest=2) if "reward_range" in about else UNIT_RANGE
    return replace(log, action_names=names, reward_range=(ends[0], ends[1]), dates=stored_dates(about))


def check_log(log: object) -> Log:
    """Raise unless this is a log."""
    return instance(log, Log, name="log", remedy="make one by Log.of or read_log")
