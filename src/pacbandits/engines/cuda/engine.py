"""Sums made by a CUDA card; by the cores of this machine where there is none, or it has too little memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pacbandits.compiled import cores, over_cores, using_cores
from pacbandits.engines.base import ROWS_PER_BLOCK, Aggregation, Engine, Source, Sums
from pacbandits.engines.cuda.card import Card, cupy, why_not
from pacbandits.engines.local import Local, count_rows_aloud
from pacbandits.errors import InputError
from pacbandits.progress import hearer
from pacbandits.records import Log

# Runs of blocks whose rows are on the card together: longer than a block, as a card is quick with many rows only.


BLOCKS_PER_STRIPE = 4  # that one core reads at a time
SCORE_BYTES = 1 << 31  # of two scores for each action of a stretch's rows
LEAST_BLOCKS, MOST_BLOCKS = 16, 256

Parts = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Wanted:
    """Arrays that a question needs of every row, to be made from blocks and kept on the card.

    name: of the arrays together.
    owner: what they are made with; what equals it means the same arrays.
    make: the arrays (n, …) of a block, by their names; it is given the number of the block, and the block.
    finish: what is kept of the arrays on the card, if not these.
    """

    name: str
    owner: object
    make: Callable[[int, Log], Parts]
    finish: Callable[[dict[str, Any]], dict[str, Any]] | None = None


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows of consecutive blocks.

    card: what keeps their arrays.
    source: where they are read from, if they are not kept.
    stripes: their blocks, in runs that are read together.
    number: of the stretch.
    n_rows: how many rows there are.
    """

    card: Card
    source: Source
    stripes: tuple[range, ...]
    number: int
    n_rows: int

    def get(self, *wanted: Wanted) -> list[dict[str, Any]]:
        """The arrays on the card; those that are not kept are made, in one reading of the rows for all of them."""
        found = [self.card.get((one.name, self.number), one.owner) for one in wanted]
        missing = [i for i, one in enumerate(found) if one is None]
        for i, read in zip(missing, self._read([wanted[i] for i in missing]), strict=True):
            finish = wanted[i].finish
            made = read if finish is None else finish(read)
            self.card.keep((wanted[i].name, self.number), wanted[i].owner, made)
            found[i] = made
        return [one for one in found if one is not None]

    def made(self, name: str, owner: object, make: Callable[[], Any]) -> Any:
        """Something made on the card from such arrays, and kept with them."""
        return self.card.made((name, self.number), owner, make)

    def kept_owner(self, name: str) -> object | None:
        """What that which is kept under a name was made for."""
        return self.card.owner((name, self.number))

    def _read(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """The arrays of all rows, made from blocks by all cores."""
        made = [dict[str, Any]() for _ in wanted]
        if not wanted:
            return made
        cp, lock, before = cupy(), Lock(), self.stripes[0].start

        def put(out: dict[str, Any], name: str, part: np.ndarray, at: int) -> None:
            with lock:
                if name not in out:
                    out[name] = cp.empty((self.n_rows, *part.shape[1:]), dtype=part.dtype)
            out[name][at : at + len(part)].set(np.ascontiguousarray(part))

        def work(start: int, stop: int) -> None:
            for stripe in self.stripes[start:stop]:
                for number, block in zip(stripe, self.source.blocks(stripe.start, stripe.stop), strict=True):
                    for one, out in zip(wanted, made, strict=True):
                        with using_cores(1):
                            parts = one.make(number, block)
                        for name, part in parts.items():
                            put(out, name, part, (number - before) * ROWS_PER_BLOCK)

        over_cores(work, count=len(self.stripes), chunks_per_core=max(1, -(-len(self.stripes) // cores())))
        return made


def cut_stretches(source: Source, card: Card, *, n_actions: int) -> list[Stretch]:
    """All rows of a source, cut so that what is made of them for one question fits on the card."""
    most = min(max(SCORE_BYTES // (16 * n_actions * ROWS_PER_BLOCK), LEAST_BLOCKS), MOST_BLOCKS)
    groups: list[list[range]] = []
    for stripe in source.stripes(most_blocks=BLOCKS_PER_STRIPE):
        if not groups or stripe.stop - groups[-1][0].start > most:
            groups.append([])
        groups[-1].append(stripe)
    out: list[Stretch] = []
    for number, group in enumerate(groups):
        first, last = group[0].start * ROWS_PER_BLOCK, min(group[-1].stop * ROWS_PER_BLOCK, source.n_rows)
        out.append(Stretch(card, source, tuple(group), number, last - first))
    return out


INSTEAD = "the cores of this machine add up in its place"


@runtime_checkable
class CardQuestion(Aggregation, Protocol):
    """A question that a card can answer."""

    def can_use_card(self) -> bool:
        """Whether it can be answered there, of this class of policies and this log."""
        ...

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        """Add to sums, on the card and in place, what the rows of a stretch come to."""
        ...


@dataclass(eq=False)
class CudaEngine:
    """A CUDA card. What was sent to it stays there for the next question of the same source, while there is room.

    local: who answers what a card cannot.
    fallback: why nothing is done on the card, in words; empty where it is.
    """

    local: Engine = field(default_factory=lambda: Local("stream"))
    fallback: str = field(default_factory=why_not)
    _card: Card = field(default_factory=Card, repr=False)
    _source: Source | None = field(default=None, repr=False)
    _stretches: list[Stretch] = field(default_factory=list[Stretch], repr=False)
    _told: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return "cuda"

    def ask(self, source: Source, question: Aggregation, *, what: str) -> Sums:
        if self.fallback:
            self._remark(self.fallback)
        elif isinstance(question, CardQuestion) and question.can_use_card():
            try:
                return self._ask_card(source, question, what=what)
            except cupy().cuda.memory.OutOfMemoryError:
                self.close()
                self.fallback = "the memory of the card is too small for this log"
                self._remark(self.fallback)
        return self.local.ask(source, question, what=what)

    @property
    def card_bytes(self) -> int | None:
        """How much memory the card has; None where nothing is done on one."""
        return None if self.fallback else int(cupy().cuda.runtime.memGetInfo()[1])

    def close(self) -> None:
        """Let go of all that is on the card."""
        self._card.clear()
        self._source, self._stretches = None, []
        if not why_not():
            cupy().get_default_memory_pool().free_all_blocks()

    def _ask_card(self, source: Source, question: CardQuestion, *, what: str) -> Sums:
        cp = cupy()
        done = count_rows_aloud(what, source.n_rows, started=monotonic())
        if self._source is not source:
            self.close()
            head = next(iter(source.blocks(0, 1)))
            self._source, self._stretches = source, cut_stretches(source, self._card, n_actions=head.n_actions)
        sums = tuple(cp.zeros(one.shape, dtype=cp.int64) for one in question.begin())
        for stretch in self._stretches:
            question.add_on_card(stretch, sums)
            cp.cuda.get_current_stream().synchronize()
            done(stretch.n_rows)
        return tuple(np.asarray(cp.asnumpy(one)) for one in sums)

    def _remark(self, why: str) -> None:
        """Say once, to whoever listens, why the card does nothing."""
        heard = hearer()
        if heard is not None and self._told != why:
            self._told = why
            heard[0](f"{why}; {INSTEAD}")


def available() -> bool:
    """Whether there is a card to work with."""
    return not why_not()


# Rows of a log on the card, as all questions about it share them.


ANY = "any"  # owner of what is made of rows alone


def wanted_log() -> Wanted:
    """What was played, what it earned, how often and with what propensity: nothing but what the rows say."""
    return Wanted("log", ANY, _log_parts, _with_common_split)


def wanted_ids(*, below: int) -> Wanted:
    """The ids of contexts, of which there are so many."""
    return Wanted("ids", below, lambda _, block: {"ids": block.contexts.require_ids(below=below)})


def first_row(number: int) -> int:
    """The number of the first row of a block."""
    return number * ROWS_PER_BLOCK


def _log_parts(_: int, block: Log) -> Parts:
    if not ((block.rewards >= 0) & (block.rewards <= 1)).all():
        low, high = block.rewards.min(), block.rewards.max()
        raise InputError(f"rewards must lie in [0, 1], but they range from {low:.6g} to {high:.6g}; rescale them")
    return {
        "actions": block.actions.astype(np.uint8),
        "rewards": block.rewards,
        "repeats": block.weights,
        "played": block.played_propensities,
        "propensities": block.bounds,
    }


def _with_common_split(made: dict[str, Any]) -> dict[str, Any]:
    """One row of propensities in the place of all, where all rows have the same."""
    given = made["propensities"]
    if len(given) > 1 and bool((given == given[:1]).all()):
        return made | {"propensities": given[:1].copy()}
    return made
