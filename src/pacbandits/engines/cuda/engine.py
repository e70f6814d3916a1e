"""The CUDA engine; the cores of this machine are used if there is no GPU or it has too little memory."""

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

# Stretches: runs of blocks whose rows are on the GPU together, as it is fast only with many rows.


BLOCKS_PER_STRIPE = 4  # read by one core at a time
SCORE_BYTES = 1 << 31  # for two scores per action of a stretch's rows
LEAST_BLOCKS, MOST_BLOCKS = 16, 256

Parts = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Wanted:
    """Arrays that a question needs for every row, computed from blocks and cached on the GPU.

    name: the name of the arrays together.
    owner: the object they are computed with; an equal owner means the same arrays.
    make: returns the arrays (n, …) of a block by name, from the block's number and the block.
    finish: converts the arrays on the GPU to those that are cached, if they differ.
    """

    name: str
    owner: object
    make: Callable[[int, Log], Parts]
    finish: Callable[[dict[str, Any]], dict[str, Any]] | None = None


@dataclass(frozen=True, eq=False)
class Stretch:
    """Rows of consecutive blocks.

    card: the cache of their arrays.
    source: the source to read them from, if they are not cached.
    stripes: their blocks, in runs that are read together.
    number: the number of the stretch.
    n_rows: the number of rows.
    """

    card: Card
    source: Source
    stripes: tuple[range, ...]
    number: int
    n_rows: int

    def get(self, *wanted: Wanted) -> list[dict[str, Any]]:
        """Return the arrays on the GPU; those not cached are computed, in one pass over the rows."""
        found = [self.card.get((one.name, self.number), one.owner) for one in wanted]
        missing = [i for i, one in enumerate(found) if one is None]
        for i, read in zip(missing, self._read([wanted[i] for i in missing]), strict=True):
            finish = wanted[i].finish
            made = read if finish is None else finish(read)
            self.card.keep((wanted[i].name, self.number), wanted[i].owner, made)
            found[i] = made
        return [one for one in found if one is not None]

    def made(self, name: str, owner: object, make: Callable[[], Any]) -> Any:
        """Return something computed on the GPU from such arrays, cached with them."""
        return self.card.made((name, self.number), owner, make)

    def kept_owner(self, name: str) -> object | None:
        """Return the owner of a name's cache entry."""
        return self.card.owner((name, self.number))

    def _read(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        """Return the arrays of all rows, computed from blocks by all cores."""
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
    """Return all rows of a source in stretches that fit on the GPU for one question."""
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


INSTEAD = "the CPU cores of this machine are used instead"


@runtime_checkable
class CardQuestion(Aggregation, Protocol):
    """A question that a GPU can answer."""

    def can_use_card(self) -> bool:
        """Return whether a GPU can answer it, for this policy class and log."""
        ...

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        """Add the contribution of a stretch's rows to sums, in place on the GPU."""
        ...


@dataclass(eq=False)
class CudaEngine:
    """A CUDA GPU. Arrays stay in its memory for the next question about the same source, while there is room.

    local: the engine for all other questions.
    fallback: why the GPU is not used, in words; empty if it is.
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
                self.fallback = "the GPU's memory is too small for this log"
                self._remark(self.fallback)
        return self.local.ask(source, question, what=what)

    @property
    def card_bytes(self) -> int | None:
        """The size of the GPU's memory; None if it is not used."""
        return None if self.fallback else int(cupy().cuda.runtime.memGetInfo()[1])

    def close(self) -> None:
        """Free all memory on the GPU."""
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
        """Report once why the GPU is not used."""
        heard = hearer()
        if heard is not None and self._told != why:
            self._told = why
            heard[0](f"{why}; {INSTEAD}")


def available() -> bool:
    """Return whether a GPU can be used."""
    return not why_not()


# Rows of a log on the GPU, shared by all questions about it.


ANY = "any"  # owner of arrays that depend on rows alone


def wanted_log() -> Wanted:
    """Return the arrays of actions, rewards, repeats and propensities, which depend on rows alone."""
    return Wanted("log", ANY, _log_parts, _with_common_split)


def wanted_ids(*, below: int) -> Wanted:
    """Return the array of context ids, which lie in [0, below)."""
    return Wanted("ids", below, lambda _, block: {"ids": block.contexts.require_ids(below=below)})


def first_row(number: int) -> int:
    """Return the number of the first row of a block."""
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
    """Replace the propensities by a single row if all rows are the same."""
    given = made["propensities"]
    if len(given) > 1 and bool((given == given[:1]).all()):
        return made | {"propensities": given[:1].copy()}
    return made
