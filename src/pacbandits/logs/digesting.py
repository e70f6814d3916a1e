"""What names the rows of a log that may be larger than memory: the same however files are cut, and whoever reads them.

SHA-256 of a header (the names of features, their categories, how many rows and actions there are) and of the digests of
all blocks, in order. A block's digest is that of a log of its rows, 32 bytes, written as four whole numbers into the
row of its number: sums of such arrays, made by anyone in any order, are the digests side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.engines.base import Engine, Source, Sums, count_blocks
from pacbandits.errors import InputError
from pacbandits.records.digest import digest, digest_log
from pacbandits.records.log import Log

_NUMBERS = 4  # of 64 bits each, in a digest


@dataclass(frozen=True)
class RowDigests:
    """A question: the digests of all blocks, as (blocks, 4) numbers.

    n_blocks: how many there are.
    """

    n_blocks: int

    def begin(self) -> Sums:
        return (np.zeros((self.n_blocks, _NUMBERS), dtype=np.int64),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        """Add what a block comes to."""
        sums[0][number] += np.frombuffer(bytes.fromhex(digest_log(block)), dtype="<i8")

    def finish(self, sums: Sums, *, form: Log, n_rows: int) -> str:
        """The digest of all rows; form: a log of any of them, with the names and categories of all."""
        contexts = form.contexts
        header = repr((contexts.names, contexts.categories, n_rows, form.n_actions))
        return digest([header, sums[0].astype("<i8").tobytes()])


def digest_rows(source: Source, engine: Engine, *, form: Log) -> str:
    """SHA-256 of all rows of a source, by what an engine sums; form: a log of any of them."""
    if source.n_rows == 0:
        raise InputError("there are no rows to name")
    question = RowDigests(count_blocks(source.n_rows))
    sums = engine.ask(source, question, what="naming the rows")
    return question.finish(sums, form=form, n_rows=source.n_rows)
