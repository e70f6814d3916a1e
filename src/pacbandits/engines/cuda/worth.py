"""How good a policy is by rows on the card: plain scores, and the log-wealth of bets on values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.modules import USUAL_SHARED_BYTES, function, multiprocessors
from pacbandits.engines.cuda.scores import CardRows, block_threads

THREADS = 128  # of a block that bets
MOST_EXPERTS = 5  # that a thread adds up at once; with 10 it has so many registers that few threads run
MOST_TILE_ROWS = 64
BLOCKS_PER_MULTIPROCESSOR = 12
# By which the log-wealth of each row is lowered: more than what the card's operations, and sums over the rows of a
# tile, may be off by. Each logarithm is below 8, so that sums of 64 of them are off by less than 2^−44 for each.
SLACK = 2.0**-43


@dataclass(frozen=True, eq=False)
class CardDecided:
    """Who decides in each round.

    leaders (L, n): uint8 on the card, what each policy does.
    shares (rounds, L): how much each counts for in a row of each round.
    counted (rounds,): which rounds count.
    """

    leaders: Any
    shares: FloatArray
    counted: BoolArray


def plain_scores(rows: CardRows, decided: CardDecided, *, bits: int, most: float) -> Any:
    """Doubly robust values of each action and of the policy, (n, A + 1) int64 on the card.

    Each cut to at most `most`, and rounded to the nearest multiple of 2^−bits; 0 in rounds that do not count.
    """
    cp, n, width = cupy(), len(rows), rows.n_actions
    out = cp.empty((n, width + 1), dtype=cp.int64)
    if n > 0:
        threads = block_threads(width + 1)
        function("worth", "plain_scores", ACTIONS=width, THREADS=threads)(
            (-(-n // threads),), (threads,), (*_given(rows, decided), np.float64(most), np.float64(2.0**bits), out)
        )
    return out


def add_bounds(
    rows: CardRows,
    decided: CardDecided,
    *,
    stakes: FloatArray,
    centres: FloatArray,
    share: float,
    bits: int,
    wealth: Any,
    lost: Any,
) -> None:
    """Add log-wealth (2A + 1, 2, K) for θ and −θ of every kind, and how often (2A + 1, 2, K) there was no room to bet.

    stakes (K, rounds), centres (2A + 1, rounds): on the host. The same as `pacbandits.certificate.bounding` adds up.
    """
    cp, n, width = cupy(), len(rows), rows.n_actions
    if n == 0:
        return
    experts, rounds = stakes.shape
    all_sides = 2 * (2 * width + 1)
    sides = min(all_sides, THREADS)
    tile = tile_rows(width)
    grid = (min(BLOCKS_PER_MULTIPROCESSOR * multiprocessors(), -(-n // tile)), -(-all_sides // sides))
    tables = (cp.asarray(np.ascontiguousarray(stakes)), cp.asarray(np.ascontiguousarray(centres)), np.int32(rounds))
    scales = (np.float64(share), np.float64(2.0**bits), np.float64(SLACK))
    given = _given(rows, decided)
    for at in range(0, experts, MOST_EXPERTS):
        some = min(MOST_EXPERTS, experts - at)
        function("worth", "bounds", ACTIONS=width, THREADS=THREADS, EXPERTS=some, ROWS=tile)(
            grid,
            (THREADS,),
            (*given, *tables, *scales, np.int32(at), np.int32(experts), np.int32(sides), wealth, lost),
        )


def tile_rows(n_actions: int) -> int:
    """The rows of a tile whose weights, predictions and propensities fit into the usual shared memory."""
    return min(USUAL_SHARED_BYTES // (24 * n_actions + 48), MOST_TILE_ROWS)


def _given(rows: CardRows, decided: CardDecided) -> tuple[Any, ...]:
    cp, n, width = cupy(), len(rows), rows.n_actions
    pitch = width if rows.propensities.shape[0] == n else 0
    played = (rows.actions, rows.rewards, rows.repeats, rows.rounds, rows.played, rows.propensities, np.int64(pitch))
    shares, counted = cp.asarray(np.ascontiguousarray(decided.shares)), cp.asarray(decided.counted.astype(np.uint8))
    leaders = (decided.leaders, np.int32(len(decided.leaders)))
    return (*played, rows.predictions, np.int64(n), *leaders, shares, counted)
