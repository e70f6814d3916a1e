"""Rows that lie in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pacbandits.engines.base import ROWS_PER_BLOCK, even_stripes
from pacbandits.records import Log


@dataclass(frozen=True, eq=False)
class LogSource:
    """The rows of a log.

    log: these.
    """

    log: Log

    @property
    def n_rows(self) -> int:
        return len(self.log)

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        for number in range(first, last):
            start = number * ROWS_PER_BLOCK
            yield self.log.take(np.arange(start, min(start + ROWS_PER_BLOCK, len(self.log))))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)
