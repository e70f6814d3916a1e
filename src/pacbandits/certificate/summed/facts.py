"""What has to be known of a large log as a whole before its rows are asked anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.conventions import has_fixed_split, has_rounds
from pacbandits.certificate.learning_record import NO_SAMPLE
from pacbandits.certificate.summed.arrangement import (
    Arrangement,
    ByRound,
    by_mixed_rounds,
    in_rows,
    in_shuffled_rows,
    in_two,
)
from pacbandits.engines import Engine, LogSource, Source
from pacbandits.errors import InputError
from pacbandits.records import Log


@runtime_checkable
class SurveyedSource(Source, Protocol):
    """Files whose rows were all looked at once.

    samples: how many interactions there are, repeats included.
    n_actions, action_names, reward_range, dates, assumed: as of a `Log`.
    fixed_split: whether every row was played with the same propensities, which are all known.
    round_counts: how many interactions each round has, by its number.
    rounds_rise: whether rows stand in the order of their rounds.
    max_repeats: how often a row occurred at the most.
    """

    @property
    def samples(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def action_names(self) -> tuple[str, ...] | None: ...
    @property
    def reward_range(self) -> tuple[float, float]: ...
    @property
    def dates(self) -> tuple[str, ...]: ...
    @property
    def assumed(self) -> tuple[str, ...]: ...
    @property
    def fixed_split(self) -> bool: ...
    @property
    def round_counts(self) -> dict[int, int]: ...
    @property
    def rounds_rise(self) -> bool: ...
    @property
    def max_repeats(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Facts:
    """What is told of a log in the place of its rows.

    rows: how many there are.
    samples: interactions, repeats included.
    n_actions, action_names, reward_range, dates, assumed: as of a `Log`.
    fixed_split: whether every row was played with the same propensities, which are all known.
    rounds (rounds,): their numbers, rising.
    round_counts (rounds,): interactions in each.
    rounds_rise: whether rows stand in their order.
    max_repeats: how often a row occurred at the most.
    """

    rows: int
    samples: int
    n_actions: int
    action_names: tuple[str, ...] | None
    reward_range: tuple[float, float]
    dates: tuple[str, ...]
    assumed: tuple[str, ...]
    fixed_split: bool
    rounds: IntArray
    round_counts: FloatArray
    rounds_rise: bool
    max_repeats: int
    units: None = None

    def __len__(self) -> int:
        return self.rows

    @property
    def n_units(self) -> int:
        return self.samples

    @property
    def has_rounds(self) -> bool:
        return len(self.rounds) > 1

    @property
    def round_sizes(self) -> FloatArray:
        return self.round_counts


def facts_of(source: Source) -> Facts:
    """What is told of the rows of a source.

    Raises:
        InputError: When they are of people who come back, or rewards are late: these need all rows at once.
    """
    if isinstance(source, LogSource):
        return _of_log(source.log)
    if not isinstance(source, SurveyedSource):
        raise InputError(f"rows of a {type(source).__name__} cannot be certified; open files by open_set")
    counts = source.round_counts
    numbers = sorted(counts)
    return Facts(
        rows=source.n_rows,
        samples=source.samples,
        n_actions=source.n_actions,
        action_names=source.action_names,
        reward_range=source.reward_range,
        dates=source.dates,
        assumed=source.assumed,
        fixed_split=source.fixed_split,
        rounds=np.array(numbers, dtype=np.int64),
        round_counts=np.array([counts[number] for number in numbers], dtype=np.float64),
        rounds_rise=source.rounds_rise,
        max_repeats=source.max_repeats,
    )


def can_be_streamed(log: Log) -> bool:
    """Whether sums over the rows of a log, in any order, are all that a certificate needs of it."""
    return log.units is None and log.known is None and log.contexts.phi is None


def _of_log(log: Log) -> Facts:
    if not can_be_streamed(log):
        what = "rewards came late" if log.known is not None else "people come back"
        what = "contexts have features for each action" if log.contexts.phi is not None else what
        raise InputError(f"{what}, which needs all rows at once; certify in memory, without --engine")
    numbers, which = np.unique(log.rounds, return_inverse=True)
    return Facts(
        rows=len(log),
        samples=log.samples,
        n_actions=log.n_actions,
        action_names=log.action_names,
        reward_range=log.reward_range,
        dates=log.dates,
        assumed=log.assumed,
        fixed_split=has_fixed_split(log) and not has_rounds(log),
        rounds=numbers,
        round_counts=np.rint(np.bincount(which, weights=log.weights)),
        rounds_rise=bool((np.diff(log.rounds) >= 0).all()),
        max_repeats=int(log.repeats.max()),
    )


def arrange_rows(
    source: Source, facts: Facts, *, engine: Engine, ordered: bool, shuffle: bool, spared: int, early: int
) -> tuple[Arrangement, bool]:
    """The order in which rows count, and whether they are shuffled: as `conventions.arrange` has it.

    spared: rows that only teach, where rows have no order. early: how many may teach at the most.
    """
    if ordered and shuffle:
        raise InputError("rows that stand in the order in which they occurred need no shuffle; leave one of them out")
    if facts.has_rounds:
        numbers, counts = facts.rounds, facts.round_counts
        if facts.rows > early and not facts.rounds_rise:
            return by_mixed_rounds(source, numbers, counts, early=early, engine=engine), False
        return ByRound(numbers, counts, min(early, facts.rows)), False
    if (ordered or shuffle) and facts.max_repeats > 1:
        raise InputError(
            "the log counts repeated interactions, so its rows cannot stand in the order in which they occurred; "
            "certify it without that assumption"
        )
    if ordered:
        return in_rows(facts.rows, early=early), False
    if shuffle or (facts.fixed_split and facts.max_repeats == 1):
        return in_shuffled_rows(facts.rows, early=early), True
    if spared and facts.max_repeats > 1:
        raise InputError(NO_SAMPLE)
    return in_two(facts.rows, samples=facts.samples, spared=spared, early=early), False
