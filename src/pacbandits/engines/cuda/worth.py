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


def plain_scores(rows: CardRows, decided: CardDecided, *, bits: int, most: float, most_whole: float) -> Any:
    """Doubly robust values of each action and of the policy, (n, A + 1) int64 on the card.

    Rounded to the nearest multiple of 2^−bits; 0 in rounds that do not count. most: what an importance-weighted
    residual is cut to; most_whole: what a whole number is.
    """
    cp, n, width = cupy(), len(rows), rows.n_actions
    out = cp.empty((n, width + 1), dtype=cp.int64)
    if n > 0:
        threads, scales = block_threads(width + 1), (np.float64(2.0**bits), np.float64(most_whole))
        function("worth", "plain_scores", ACTIONS=width, THREADS=threads)(
            (-(-n // threads),), (threads,), (*_given(rows, decided), np.float64(most), *scales, out)
        )
    return out


@dataclass(frozen=True, eq=False)
class Betting:
    """How experts bet, and how what they win is counted; see `add_all_bounds` of `pacbandits.certificate.bounding`.

    stakes, caps (K, rounds): what each stakes, and what it may lose over that; on the host.
    centres (2A + 1, rounds): of each kind; on the host.
    slack: what is taken off for the rounding of a row.
    factors: between which those of a row are kept.
    group: rows whose factors are multiplied.
    bits, rest_bits: of whole numbers, and of what they leave.
    """

    stakes: FloatArray
    caps: FloatArray
    centres: FloatArray
    slack: float
    factors: tuple[float, float]
    group: int
    bits: int
    rest_bits: int


def add_bounds(rows: CardRows, decided: CardDecided, betting: Betting, sums: tuple[Any, ...]) -> None:
    """Add log-wealth (2A + 1, 2, K) for θ and −θ of every kind, what is left of it, and rows without room to bet.

    The same as `pacbandits.certificate.bounding` adds up. Rows begin where a group does.
    """
    cp, n, width = cupy(), len(rows), rows.n_actions
    if n == 0:
        return
    experts, rounds = betting.stakes.shape
    all_sides = 2 * (2 * width + 1)
    sides, tile = min(all_sides, THREADS), tile_rows(width, group=betting.group)
    grid = (min(BLOCKS_PER_MULTIPROCESSOR * multiprocessors(), -(-n // tile)), -(-all_sides // sides))
    numbers = (betting.stakes, betting.caps, betting.centres)
    tables = (*(cp.asarray(np.ascontiguousarray(one)) for one in numbers), np.int32(rounds))
    scales = tuple(np.float64(one) for one in (betting.slack, *betting.factors, 2.0**betting.bits))
    given, fixed = _given(rows, decided), {"GROUP": betting.group, "REST_BITS": betting.rest_bits}
    for at in range(0, experts, MOST_EXPERTS):
        some = min(MOST_EXPERTS, experts - at)
        function("worth", "bounds", ACTIONS=width, THREADS=THREADS, EXPERTS=some, ROWS=tile, **fixed)(
            grid, (THREADS,), (*given, *tables, *scales, np.int32(at), np.int32(experts), np.int32(sides), *sums)
        )


def tile_rows(n_actions: int, *, group: int) -> int:
    """The rows of a tile, whose weights, predictions and propensities fit into the usual shared memory.

    They are whole groups, as many for each of the threads that own the same side.
    """
    most = USUAL_SHARED_BYTES // (24 * n_actions + 48)
    each = group * (THREADS // min(2 * (2 * n_actions + 1), THREADS))
    return min(max(MOST_TILE_ROWS, each), most) // each * each


def _given(rows: CardRows, decided: CardDecided) -> tuple[Any, ...]:
    cp, n, width = cupy(), len(rows), rows.n_actions
    pitch = width if rows.propensities.shape[0] == n else 0
    played = (rows.actions, rows.rewards, rows.repeats, rows.rounds, rows.played, rows.propensities, np.int64(pitch))
    shares, counted = cp.asarray(np.ascontiguousarray(decided.shares)), cp.asarray(decided.counted.astype(np.uint8))
    leaders = (decided.leaders, np.int32(len(decided.leaders)))
    return (*played, rows.predictions, np.int64(n), *leaders, shares, counted)
