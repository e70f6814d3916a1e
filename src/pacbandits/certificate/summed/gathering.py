"""Some rows of a large log brought into memory, through sums like everything else.

Each row that is wanted has a place of its own, where whoever has the row adds its bits to zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.certificate.summed.arrangement import NOT_EARLY, Arrangement
from pacbandits.engines import ROWS_PER_BLOCK, Engine, Source, Sums
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log


class Places(Protocol):
    """Which rows are wanted."""

    @property
    def count(self) -> int: ...

    def places_of(self, start: int, block: Log) -> IntArray:
        """The place (n,) of each row of a block; -1 for those that are not wanted."""
        ...

    def rounds_of(self, start: int, block: Log) -> IntArray:
        """The round (n,) that each row of a block is to have."""
        ...


@dataclass(frozen=True, eq=False)
class EarlyPlaces:
    """The early rows, in the order in which rows count."""

    arrangement: Arrangement

    @property
    def count(self) -> int:
        return self.arrangement.early

    def places_of(self, start: int, block: Log) -> IntArray:
        return self.arrangement.places_of(start, block)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return self.arrangement.rounds_of(start, block)


@dataclass(frozen=True)
class EverySo:
    """One row of so many, as they stand.

    step: every how many.
    n_rows: how many there are in all.
    """

    step: int
    n_rows: int

    @property
    def count(self) -> int:
        return -(-self.n_rows // self.step)

    def places_of(self, start: int, block: Log) -> IntArray:
        numbers = np.arange(start, start + len(block))
        return np.where(numbers % self.step == 0, numbers // self.step, NOT_EARLY)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return block.rounds


@dataclass(frozen=True, eq=False)
class Gathered:
    """The question for all rows that several want.

    wanted: who wants which.
    head: the first block, of whose shape all others are.
    """

    wanted: tuple[Places, ...]
    head: Log

    def begin(self) -> Sums:
        width = _bits(self.head, self.head.rounds).shape[1]
        return tuple(np.zeros((places.count, width), dtype=np.int64) for places in self.wanted)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        start = number * ROWS_PER_BLOCK
        for places, out in zip(self.wanted, sums, strict=True):
            where = places.places_of(start, block)
            mine = np.flatnonzero(where != NOT_EARLY)
            if mine.size:
                out[where[mine]] += _bits(block, places.rounds_of(start, block))[mine]

    def logs(self, sums: Sums) -> tuple[Log, ...]:
        """The rows that each wants, as logs."""
        return tuple(_log(bits, self.head) for bits in sums)


def first_block(source: Source) -> Log:
    """The first block of a source; raise unless its rows are cut into blocks as they are certified."""
    head = next(iter(source.blocks(0, 1)))
    if len(head) != min(source.n_rows, ROWS_PER_BLOCK):
        raise InputError(f"rows are certified in blocks of {ROWS_PER_BLOCK:,}, and those of this source are others")
    return head


def gather(source: Source, wanted: tuple[Places, ...], *, engine: Engine, head: Log, what: str) -> tuple[Log, ...]:
    """Some rows as logs, one for each who wants some."""
    asked = Gathered(wanted, head)
    return asked.logs(engine.ask(source, asked, what=what))


def _bits(block: Log, rounds: IntArray) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The bits (n, all) of rows: features, action, reward, propensities, round, repeats, ids and least propensities."""
    ids = () if block.contexts.ids is None else (block.contexts.ids[:, None],)
    least = () if block.least is None else (block.least.view(np.int64),)
    return np.concatenate(
        [
            np.ascontiguousarray(block.contexts.features).view(np.int64),
            block.actions[:, None],
            block.rewards[:, None].view(np.int64),
            np.ascontiguousarray(block.propensities).view(np.int64),
            np.asarray(rounds, dtype=np.int64)[:, None],
            block.repeats[:, None],
            *ids,
            *least,
        ],
        axis=1,
    )


def _log(bits: np.ndarray[tuple[int, int], np.dtype[np.int64]], head: Log) -> Log:
    n, d, actions, known = len(bits), head.contexts.n_features, head.n_actions, head.contexts
    widths = [d, 1, 1, actions, 1, 1, 0 if known.ids is None else 1, 0 if head.least is None else actions]
    parts = np.split(bits, np.cumsum(widths)[:-1], axis=1)
    features, action, reward, propensities, rounds, repeats, ids, least = (np.ascontiguousarray(one) for one in parts)
    contexts = Contexts(
        features=features.view(np.float64),
        names=known.names,
        categories=known.categories,
        ids=None if known.ids is None else ids[:, 0],
        weights=np.full(n, 1.0 / n),
    )
    return replace(
        head,
        contexts=contexts,
        actions=action[:, 0],
        rewards=reward.view(np.float64)[:, 0],
        propensities=propensities.view(np.float64),
        rounds=rounds[:, 0],
        repeats=repeats[:, 0],
        least=None if head.least is None else least.view(np.float64),
    )
