"""Logs: contexts, actions, rewards and propensities."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, Any, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, check_shape, floats, floats_or_missing, integers
from pacbandits.checks import instance, settle, texts
from pacbandits.errors import ROW, InputError, RowError, count_of, plain
from pacbandits.records import log as late
from pacbandits.records import parquet
from pacbandits.records.columns import Columns, pop_floats, pop_integers, pop_matrix, pop_numbers_or_missing
from pacbandits.records.contexts import Contexts, check_contexts, joined_phi
from pacbandits.records.log_metadata import UNIT_RANGE, check_range, only_counted, pop_weights, stored_dates
from pacbandits.records.metrics import (
    METRICS_COLUMN,
    AnyMetric,
    MetricSpec,
    check_metric_values,
    kept_values,
    metric_rewards,
    pop_stored_metrics,
    read_metrics,
)
from pacbandits.records.policy import check_names
from pacbandits.records.text_files import naming
from pacbandits.schema import MAX_WHOLE_NUMBER, Fields

# Minimum propensities, declared by logs that contain only the propensity of the played action.


PROPENSITY_SUM_ROUNDING = 1e-6  # how far the propensities of a row may sum from 1


def check_least(least: FloatArray, propensities: FloatArray, actions: IntArray) -> None:
    """Raise unless `least` is at most the played propensities, equals the others, and rows sum to at most 1."""
    rows = np.arange(len(actions))
    if least.min() < 0:
        raise InputError(f"minimum propensities must not be negative, got {least.min()}")
    others = propensities.copy()
    others[rows, actions] = least[rows, actions]
    if not np.array_equal(others, least):
        raise InputError("propensities of actions that were not played must be the minimum ones")
    played = propensities[rows, actions]
    below = least[rows, actions] - played
    if below.max() > 0:
        row = int(below.argmax())
        raise RowError(
            f"{ROW} played action {actions[row]} with propensity {played[row]}, below the minimum propensity "
            f"{least[row, actions[row]]} that was declared; declare a smaller one",
            row,
        )
    totals = propensities.sum(axis=1)
    if totals.max() > 1.0 + PROPENSITY_SUM_ROUNDING:
        row = int(totals.argmax())
        raise RowError(
            f"{ROW} played action {actions[row]} with propensity {played[row]:.6g}, which leaves less for the "
            f"{count_of(propensities.shape[1] - 1, 'other')} than the minimum propensity that was declared; "
            "declare a smaller one",
            row,
        )


def declared(least: FloatArray) -> tuple[str, ...]:
    """Return the declaration of minimum propensities in words; empty if all are 0."""
    low, high = float(least.min()), float(least.max())
    if high == 0:
        return ()
    if low == high:
        return (f"every action was always played with probability {low:g} or more",)
    return (
        f"every action was played with at least the least propensity that its row declares ({low:g} to {high:g}), "
        "and that was known before the action was drawn",
    )


# Delayed and missing rewards: when each was known, and the log as of a given round.
#
# Rows are in the order of assignment, whenever their rewards arrived. `known` (n,) is the first round before which the
# reward of a row had arrived, -1 while it is pending: so the rows with 0 ≤ known ≤ t are exactly those whose rewards
# could be used to plan round t. In a log without it, all rewards of a round had arrived before the next began.


KNOWN_COLUMN = "known"  # in our files, which name it: others may have a feature of this name
NOT_IN = -1
KNOWN_REMARK = "each reward was known from the round on that the log says, and not before"


def check_known(known: ArrayLike, *, rewards: FloatArray, rounds: IntArray, repeats: IntArray) -> IntArray:
    """Return the round from which each reward was known (n,), -1 if pending; exactly then the reward must be NaN."""
    given = np.asarray(known)
    check_shape(given, name="known", shape=rewards.shape)
    if (numbers := given.dtype.kind in "iuf") and (low := np.flatnonzero(given < NOT_IN)).size:
        row = int(low[0])
        raise RowError(f"known must be a round, or -1 for a missing reward; got {given[row]} in {ROW}", row)
    # Shifted by one, as `integers` requires 0 or more.
    shifted = given.astype(np.float64 if given.dtype.kind == "f" else np.int64) + 1 if numbers else given
    out = integers(shifted, name="known", shape=rewards.shape) - 1
    out.setflags(write=False)
    if repeats.max() > 1:
        raise InputError(
            f"row {int(repeats.argmax())} counts {repeats.max():,} interactions, whose rewards may each have come at "
            "another time; where rewards come late, each row stands for one interaction: leave out repeats, or known"
        )
    missing = np.isnan(rewards)
    if (bad := np.flatnonzero(missing != (out == NOT_IN))).size:
        row = int(bad[0])
        words = (
            f"{ROW} has no reward, but says that one was known before round {out[row]}; its known must be -1"
            if missing[row]
            else (
                f"{ROW} has a reward, but its known is -1, which means missing; give the round before which it "
                "was known, or leave the reward out (NaN)"
            )
        )
        raise RowError(words, row)
    if (bad := np.flatnonzero(~missing & (out <= rounds))).size:
        row = int(bad[0])
        words = f"the reward of {ROW}, of round {rounds[row]}, cannot have been known before round {out[row]} began"
        raise RowError(f"{words}; known must be a later round than that of the row", row)
    return out


def known_or_rounds(known: IntArray | None, rounds: IntArray) -> IntArray:
    """Return the round from which each reward was known (n,); by default the one after its own."""
    return rounds + 1 if known is None else known


def joined_known(mine: IntArray | None, theirs: IntArray | None, rounds: tuple[IntArray, IntArray]) -> IntArray | None:
    """Return `known` of two logs, one after the other; rounds: those of their rows."""
    if mine is None and theirs is None:
        return None
    return np.concatenate([known_or_rounds(mine, rounds[0]), known_or_rounds(theirs, rounds[1])])


def known_column(about: Fields) -> str | None:
    """Return the column of `known` that a file's metadata names, if any."""
    return about.text("known") if "known" in about else None


def pop_known(table: Columns, column: str | None) -> IntArray | None:
    """Remove that column from the table and return it (n,); `Log` checks it."""
    if column is None:
        return None
    if column not in table:
        raise InputError(
            f"the file names '{plain(column)}' as the column of rounds in which rewards were known, but has no "
            "such column"
        )
    numbers = pop_numbers_or_missing(table, column)
    if not (np.abs(numbers) <= MAX_WHOLE_NUMBER).all() or (numbers != np.floor(numbers)).any():
        raise InputError(f"column '{plain(column)}' must hold rounds, or -1 for missing rewards")
    return np.asarray(numbers, dtype=np.int64)


def late_words(known: IntArray | None) -> tuple[str, ...]:
    """Return the sentences that claims make about delayed rewards; empty if there are none."""
    if known is None:
        return ()
    out = int((known == NOT_IN).sum())
    if out == 0:
        return (KNOWN_REMARK,)
    verb = "is" if out == 1 else "are"
    words = f"{count_of(out, 'reward')} of {len(known):,} {verb} not in, and counted at the worst for the claim"
    return (KNOWN_REMARK, f"{words}: nothing is assumed of why")


def check_all_in(rewards: FloatArray, *, by: str) -> None:
    """Raise InputError if a reward (n,) is pending; by: the method that needs all of them."""
    if (out := int(np.isnan(rewards).sum())) > 0:
        raise InputError(
            f"{count_of(out, 'reward')} of {len(rewards):,} still missing, and {by} needs all of them; wait for "
            "them, or use the first rounds, whose rewards are complete (log.only(…))"
        )


def as_known(rewards: FloatArray, known: IntArray, *, before: int) -> tuple[FloatArray, IntArray]:
    """Return rewards (n,) and `known` as of the start of round `before`."""
    later: BoolArray = known > before
    return np.where(later, np.nan, rewards), np.where(later, NOT_IN, known)


# Units: returning users, whose rows are weighted. Rows of one unit depend on each other, units do not. So each of the m
# visits of a unit has weight 1/m, and sample sizes count units.


UNIT_COLUMN = "unit"  # in our files, which name it: others may have a feature of this name


def unit_column(about: Fields) -> str | None:
    """Return the column of units that a file's metadata names, if any."""
    return about.text("unit") if "unit" in about else None


def check_repeats(repeats: IntArray) -> None:
    """Raise unless rows may have units; repeats (n,): the number of interactions of each row."""
    if repeats.max() > 1:
        raise InputError(
            f"row {int(repeats.argmax())} counts {repeats.max():,} interactions, which may be of several units; "
            "with units, each row is one interaction: leave out repeats, or the unit"
        )


def number_units(units: IntArray) -> IntArray:
    """Return the number (n,) of each row's unit, from 0 in the order of first rows."""
    _, first, which = np.unique(units, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first, kind="stable")] = np.arange(len(first))
    return numbers[which]


def visit_weights(units: IntArray) -> FloatArray:
    """Return 1/m (n,) for each of the m rows of a unit."""
    _, which, visits = np.unique(units, return_inverse=True, return_counts=True)
    return 1.0 / visits[which]


def joined_units(mine: IntArray | None, theirs: IntArray | None) -> IntArray | None:
    """Return the units of two logs, one after the other, whose codes mean the same in both."""
    if mine is None and theirs is None:
        return None
    if mine is None or theirs is None:
        raise InputError("one of the two logs has units, and the other has none")
    return np.concatenate([mine, theirs])


class OtherColumns(TypedDict, total=False):
    """The arguments of `Log.of` other than contexts, actions and propensities."""

    rewards: Required[ArrayLike]
    rounds: ArrayLike | None
    repeats: ArrayLike | None
    remarks: tuple[str, ...]
    action_names: Sequence[str] | None
    reward_range: tuple[float, float]
    units: ArrayLike | None
    known: ArrayLike | None
    metrics: Sequence[MetricSpec]
    metric_values: ArrayLike | None


@dataclass(frozen=True, eq=False)
class Log:
    """n rows of interactions.

    contexts: n rows, an unweighted sample: unequal weights are replaced by 1/n.
    actions (n,): the played actions.
    rewards (n,): their rewards; NaN while pending, where `known` must be -1.
    propensities (n, A): the probability of every action in that context at that time; positive for the played one.
    rounds (n,): the round of the experiment, from 0.
    repeats (n,): the number of identical interactions, 1 or more; a log of 10⁸ coin flips has few distinct rows.
    least (n, A): for logs with only the propensity of the played action: the declared minimum propensity of every
        action; `propensities` then equals it except for the played action. None for other logs.
    remarks: further assumptions about the log, in words; its certificates repeat them.
    action_names (A,): the names of the actions; None if they are only numbered.
    reward_range: the rewards, in the log's own units, that 0 and 1 stand for.
    dates: the columns of dates and times from which features were computed.
    units (n,): the unit of each row, for returning users, as any integers; None if every row is another unit's.
    known (n,): the round from which the reward was known, later than the row's own, -1 while pending; None if every
        reward of a round had arrived before the next began.
    notices: notices for the reader of the log's file; no certificate depends on them.
    metrics: outcomes beside the reward, each a column or a ratio of two.
    metric_values (n, columns): the values of their columns (`metric_columns`), scaled to [0, 1] by their ranges. A
        metric is known when the reward of its row is, and NaN while that is pending.
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
    metrics: tuple[AnyMetric, ...] = ()
    metric_values: FloatArray | None = None

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
            least = floats(self.least, name="minimum propensities", shape=propensities.shape)
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
        metrics, values = check_metric_values(self.metrics, self.metric_values, awaited=self.awaited)
        settle(self, metrics=metrics, metric_values=values)
        if np.ptp(self.contexts.weights) > 0:
            settle(self, contexts=replace(self.contexts, weights=np.full(n, 1.0 / n)))

    def __len__(self) -> int:
        return len(self.contexts)

    @property
    def samples(self) -> int:
        """The number of interactions, repeats included."""
        return int(self.repeats.sum())

    @cached_property
    def weights(self) -> FloatArray:
        """The weight of each row (n,): its repeats, or 1/m for each visit of a unit with m of them."""
        return self.repeats.astype(np.float64) if self.units is None else visit_weights(self.units)

    @property
    def n_units(self) -> int:
        """The number of units; without units, of interactions."""
        return self.samples if self.units is None else len(np.unique(self.units))

    @property
    def round_sizes(self) -> FloatArray:
        """The number of interactions of each round (rounds,), or of units, each of which is in a single round."""
        _, rounds = np.unique(self.rounds, return_inverse=True)
        return np.rint(np.bincount(rounds, weights=self.weights))

    @property
    def n_actions(self) -> int:
        return self.propensities.shape[1]

    @property
    def played_propensities(self) -> FloatArray:
        """The propensity of the played action (n,), by which rewards are divided."""
        return self.propensities[np.arange(len(self)), self.actions]

    @property
    def bounds(self) -> FloatArray:
        """The propensities, or their declared minima, known before an action was drawn (n, A)."""
        return self.propensities if self.least is None else self.least

    @property
    def assumed(self) -> tuple[str, ...]:
        """The remarks, and the declarations about minimum propensities and delayed rewards."""
        return (*self.remarks, *(() if self.least is None else declared(self.least)), *late.late_words(self.known))

    @property
    def awaited(self) -> BoolArray:
        """Which rewards (n,) are pending."""
        return np.zeros(len(self), dtype=np.bool_) if self.known is None else np.isnan(self.rewards)

    def known_by(self, round_number: int) -> BoolArray:
        """Return which rewards (n,) were known before round `round_number` began."""
        since = late.known_or_rounds(self.known, self.rounds)
        return (since >= 0) & (since <= round_number)

    def rows_in(self) -> Log | None:
        """Return the rows whose rewards have arrived; None if there are none."""
        out = self.awaited
        return self if not out.any() else None if out.all() else self.only(~out)

    def as_of(self, round_number: int) -> Log | None:
        """Return the log as of the start of round `round_number`; None if it had no rows then.

        It has the rows of earlier rounds; rewards that arrived later are pending.
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
        """Return the rows (n,) marked true."""
        return self.take(np.flatnonzero(rows))

    def take(self, rows: IntArray) -> Log:
        """Return the given rows."""
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
            metric_values=None if self.metric_values is None else self.metric_values[rows],
        )

    def followed_by(self, later: Log) -> Log:
        """Return the rows of this log followed by those of the other."""
        mine, theirs = self.contexts, later.contexts
        if (mine.names, mine.categories, mine.ids is None) != (theirs.names, theirs.categories, theirs.ids is None):
            raise InputError("the contexts of the two logs differ in their features")
        if (self.action_names, self.reward_range) != (later.action_names, later.reward_range):
            raise InputError("the two logs differ in the names of their actions, or in the range of their rewards")
        if self.metrics != later.metrics:
            raise InputError("the two logs differ in their metrics; read both with the same")
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
            metric_values=None
            if self.metric_values is None or later.metric_values is None
            else np.concatenate([self.metric_values, later.metric_values]),
        )

    def for_metric(self, name: str, *, ratio: float | None = None) -> Log:
        """Return the log with a metric as its reward, and no metrics.

        ratio: for a ratio of two columns, the c at which it is tested: the reward is numerator − c · denominator.
        """
        rewards, ends = metric_rewards(self.metrics, self.metric_values, name, ratio=ratio)
        return replace(self.only_metrics(()), rewards=rewards, reward_range=ends)

    def only_metrics(self, metrics: Sequence[MetricSpec]) -> Log:
        """Return the log with these of its metrics."""
        listed = read_metrics(metrics)
        if listed == self.metrics:
            return self
        values = kept_values(self.metrics, self.metric_values, listed)
        return replace(self, metrics=listed, metric_values=values)

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
        metrics: Sequence[MetricSpec] = (),
        metric_values: ArrayLike | None = None,
    ) -> Log:
        """Return a log from array-likes; rounds default to 0, repeats to 1.

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
            least=None if least is None else floats(least, name="minimum propensities", shape=(n, None)),
            metrics=read_metrics(metrics),
            metric_values=None if metric_values is None else np.asarray(metric_values),
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
        """Return a log that contains only the propensity of the played action.

        played (n,): that propensity.
        least (n, A): the minimum propensity of every action, known before the action was drawn; 0 if unknown, which
            proves less.
        rest: as for `of`.
        """
        n = len(check_contexts(contexts))
        bounds = floats(least, name="minimum propensities", shape=(n, None))
        own = integers(actions, name="actions", shape=(n,), below=bounds.shape[1])
        propensities = bounds.copy()
        propensities[np.arange(n), own] = floats(played, name="played propensities", shape=(n,))
        propensities.setflags(write=False)
        return cls.of(contexts, actions=own, propensities=propensities, least=bounds, **rest)

    @classmethod
    def read(cls, path: str | Path) -> Log:
        """Read a log from Parquet: `action`, `reward`, `propensities` (lists), optionally `round` and `repeats`.

        Instead of propensities there may be `propensity`, of the played action, and `least_propensity` (lists). The
        other columns are features, except `unit`, `known` and `metric_values` if the file's metadata names them. For
        logs in other formats see `read_log`.
        """
        with naming(Path(path)):
            table = parquet.read_table(path)
            only_counted(table.columns, table.about)
            return with_about(cls._of_table(table.columns, table.about, said=table.remarks), table.about)

    @classmethod
    def _of_table(cls, table: Columns, about: Fields, *, said: tuple[str, ...]) -> Log:
        """Return the log of a table's columns; about: the file's metadata; said: its remarks."""
        unit, known = unit_column(about), late.pop_known(table, late.known_column(about))
        metrics, values = pop_stored_metrics(table, about, missing=known is not None)
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
            "metrics": metrics,
            "metric_values": values,
        }
        if played is not None and least is not None:
            return cls.of_played(contexts, actions=actions, played=played, least=least, **rest)
        assert propensities is not None
        return cls.of(contexts, actions=actions, propensities=propensities, **rest)

    def write(self, path: str | Path | IO[bytes]) -> None:
        """Write to Parquet, to a path or an open file, so that `read` returns the same log."""
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
            **({} if self.metric_values is None else {METRICS_COLUMN: self.metric_values}),
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
        if self.metrics:
            about["metrics"] = [metric.to_json() for metric in self.metrics]
        parquet.write(path, self.contexts.columns() | columns, remarks=self.remarks, about=about)


def with_about(log: Log, about: Fields) -> Log:
    """Return the log with action names, reward range and date columns from a file's metadata."""
    names = about.texts("actions", most=log.n_actions) if "actions" in about else None
    ends = about.numbers("reward_range", shortest=2, longest=2) if "reward_range" in about else UNIT_RANGE
    return replace(log, action_names=names, reward_range=(ends[0], ends[1]), dates=stored_dates(about))


def check_log(log: object) -> Log:
    """Return the log; raise InputError if it is not one."""
    return instance(log, Log, name="log", remedy="make one by Log.of or read_log")


# Digests of logs and contexts: SHA-256 of texts, bytes and arrays, in order.


Part = str | bytes | np.ndarray[Any, Any]


def digest(parts: Iterable[Part]) -> str:
    """Return the SHA-256 of the parts in order; an array includes its shape."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            sha.update(str(part.shape).encode())
            sha.update(np.ascontiguousarray(part).data)
        else:
            sha.update(part.encode() if isinstance(part, str) else part)
    return sha.hexdigest()


def digest_log(log: Log) -> str:
    """Return the digest of everything in a log that a certificate depends on."""
    least = () if log.least is None else (log.least,)
    known = () if log.known is None else ("known", log.known)
    rest = (*_units(log), *known, *_metrics(log))
    columns = (log.actions, log.rewards, log.propensities, log.rounds, log.repeats, *least, *rest)
    return digest(chain(_described(log.contexts), columns, _phi(log.contexts)))


def _metrics(log: Log) -> tuple[Part, ...]:
    """Return names, ranges and values of metrics; nothing if there are none."""
    if log.metric_values is None:
        return ()
    return "metrics", repr([metric.to_json() for metric in log.metrics]), log.metric_values


def _units(log: Log) -> tuple[Part, ...]:
    """Return the units of rows, independent of their codes; nothing if every row is another unit's."""
    if log.units is None:
        return ()
    numbers = number_units(log.units)
    return ("units", numbers) if numbers.max() < len(log) - 1 else ()


def digest_contexts(contexts: Contexts) -> str:
    """Return the digest of contexts with their weights."""
    return digest(chain(_described(contexts), (contexts.weights,), _phi(contexts)))


def _described(contexts: Contexts) -> tuple[Part, ...]:
    """Return names, categories, features and ids."""
    ids = np.empty(0) if contexts.ids is None else contexts.ids
    return repr((contexts.names, contexts.categories)), contexts.features, ids


def _phi(contexts: Contexts) -> Iterable[Part]:
    """Yield φ block by block, as the whole array may be large."""
    return () if contexts.phi is None else contexts.phi.blocks()
