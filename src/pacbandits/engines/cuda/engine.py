"""Sums made by a CUDA card; by the cores of this machine where there is none, or it has too little memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pacbandits.engines.base import Aggregation, Engine, Source, Sums
from pacbandits.engines.cuda.card import Card, cupy, why_not
from pacbandits.engines.cuda.stretch import Stretch, cut_stretches
from pacbandits.engines.local import Local
from pacbandits.engines.progress import count_rows_aloud
from pacbandits.progress import hearer

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
