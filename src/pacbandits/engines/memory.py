"""Rows that lie in memory, of logs and of contexts alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pacbandits.engines.base import ROWS_PER_BLOCK, even_stripes
from pacbandits.records import Contexts, Log


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


@dataclass(frozen=True, eq=False)
class ContextsSource:
    """The rows of contexts, as a log in which nothing was ever done: one action, always played, that earned nothing.

    contexts: these, which all count alike.
    """

    contexts: Contexts

    @property
    def n_rows(self) -> int:
        return len(self.contexts)

    def blocks(self, first: int, last: int) -> Iterator[Log]:
        for number in range(first, last):
            start = number * ROWS_PER_BLOCK
            yield log_of_contexts(self.contexts.take(np.arange(start, min(start + ROWS_PER_BLOCK, self.n_rows))))

    def stripes(self, *, most_blocks: int) -> Sequence[range]:
        return even_stripes(self.n_rows, most_blocks=most_blocks)


def log_of_contexts(contexts: Contexts) -> Log:
    """Contexts as a log in which nothing was ever done."""
    n = len(contexts)
    none = np.zeros(n, dtype=np.int64)
    return Log(contexts, none, np.zeros(n), np.ones((n, 1)), rounds=none, repeats=np.ones(n, dtype=np.int64))
