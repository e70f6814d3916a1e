"""Runs of blocks whose rows are on the card together: longer than a block, as a card is quick with many rows only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from pacbandits.compiled import cores, over_cores, using_cores
from pacbandits.engines.base import ROWS_PER_BLOCK, Source
from pacbandits.engines.cuda.card import Card, cupy
from pacbandits.records import Log

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
