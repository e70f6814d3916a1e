"""What names the rows of a log wherever they are: a digest that does not depend on how files are cut.

SHA-256 of a line that says how many rows there are, and of the digests of all blocks in their order. Each of those is
that of the block as a log of its own, so that blocks may be digested in any order, by whoever has them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from pacbandits.engines.base import ROWS_PER_BLOCK, Engine, Source, Sums, count_blocks
from pacbandits.engines.local import Local
from pacbandits.records import Log
from pacbandits.records.digest import digest_log

WORDS_PER_DIGEST = 4  # of 64 bits


@dataclass(frozen=True)
class BlockDigests:
    """The digest (blocks, 4) of each block.

    n_blocks: how many there are.
    """

    n_blocks: int

    def begin(self) -> Sums:
        return (np.zeros((self.n_blocks, WORDS_PER_DIGEST), dtype=np.int64),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        sums[0][number] += np.frombuffer(bytes.fromhex(digest_log(block)), dtype="<i8")


def digest_source(source: Source, *, engine: Engine | None = None) -> str:
    """The digest of all rows; engine: who reads them."""
    asked = BlockDigests(count_blocks(source.n_rows))
    (found,) = (engine or Local("threads")).ask(source, asked, what="naming rows")
    return whole_digest(found, n_rows=source.n_rows)


def whole_digest(blocks: np.ndarray[tuple[int, int], np.dtype[np.int64]], *, n_rows: int) -> str:
    """The digest of all rows by those of blocks (blocks, 4)."""
    head = f"{n_rows} rows in blocks of {ROWS_PER_BLOCK}".encode()
    return hashlib.sha256(head + blocks.astype("<i8").tobytes()).hexdigest()
