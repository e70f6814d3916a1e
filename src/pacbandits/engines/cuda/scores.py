"""What rows on the card say of every action, as whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.modules import USUAL_SHARED_BYTES, function
from pacbandits.errors import InputError

MOST_THREADS = 128
MOST_ACTIONS = 190  # of which a row's scores, times 32, fit into the shared memory of a block


@dataclass(frozen=True, eq=False)
class CardRows:
    """Rows on the card, as `pacbandits.certificate.rows` has them, each a context of its own.

    actions (n,): uint8.
    rewards (n,): float64; NaN where one is not in.
    repeats (n,): float64.
    rounds (n,): int32.
    played (n,): float64.
    propensities (n, A): float64; or (1, A) where all rows have the same.
    predictions (n, A): float64 or float32.
    """

    actions: Any
    rewards: Any
    repeats: Any
    rounds: Any
    played: Any
    propensities: Any
    predictions: Any

    def __len__(self) -> int:
        return int(self.actions.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.predictions.shape[1])


def log_wealth(
    rows: CardRows,
    leaders: Any,
    *,
    turns: IntArray,
    moves: FloatArray,
    stakes: FloatArray,
    share: float,
    epsilon: float,
    bits: int,
    sizes: Any,
    size_shift: int,
) -> Any:
    """`⌊2^bits w log(1 + λ(ε − Z))⌋`, (n, A) int64 on the card; see `add_log_wealth` there.

    leaders (L, n): uint8 on the card, what each leader does; turns (rounds,), moves (rounds, L), stakes (rounds,): on
    the host. sizes (n,): int64 on the card, raised to the largest of a row's numbers without sign, cut by so many bits.
    """
    cp, n = cupy(), len(rows)
    out = cp.empty((n, rows.n_actions), dtype=cp.int64)
    if n == 0:
        return out
    given = (cp.asarray(turns.astype(np.int32)), cp.asarray(moves.astype(np.float64)), cp.asarray(stakes))
    more = (np.float64(share), np.float64(epsilon), np.float64(2.0**bits), np.int32(size_shift))
    _launch("log_wealth", rows, leaders, np.int64(n), np.int32(len(leaders)), *given, *more, out, sizes)
    return out


def gaps(
    rows: CardRows,
    reference: Any,
    *,
    before: int,
    bits: tuple[int, int],
    most: tuple[float, float],
) -> Any:
    """Doubly robust gaps to a reference, and their squares, (n, 2A) int64 on the card; see `add_gaps` there.

    Each cut to at most `most`, and rounded to the nearest multiple of 2^−bits; 0 in the round `before` and later ones.
    reference (n,): uint8 on the card, its actions.
    """
    cp, n = cupy(), len(rows)
    out = cp.empty((n, 2 * rows.n_actions), dtype=cp.int64)
    if n > 0:
        scales = [np.float64(x) for one, bit in zip(most, bits, strict=True) for x in (one, 2.0**bit)]
        _launch("gaps", rows, reference, np.int32(before), *scales, out)
    return out


def values(rows: CardRows, weights: Any, *, bits: int, most: float) -> Any:
    """Doubly robust values of actions, rows weighted (n,), (n, A) int64 on the card; see `add_values` there."""
    cp, n = cupy(), len(rows)
    out = cp.empty((n, rows.n_actions), dtype=cp.int64)
    if n > 0:
        _launch("values", rows, weights, np.float64(most), np.float64(2.0**bits), out)
    return out


def block_threads(n_actions: int) -> int:
    """The threads of a block, a row each, whose scores fit into shared memory.

    Raises:
        InputError: When there are too many actions.
    """
    if n_actions > MOST_ACTIONS:
        raise InputError(f"on a card there can be {MOST_ACTIONS} actions, got {n_actions}; use the engine 'stream'")
    return min(USUAL_SHARED_BYTES // (8 * (n_actions | 1)) // 32 * 32, MOST_THREADS)


def _launch(kernel: str, rows: CardRows, *more: Any) -> None:
    n, width = len(rows), rows.n_actions
    pitch = width if rows.propensities.shape[0] == n else 0
    threads = block_threads(width)
    single = int(rows.predictions.dtype == np.float32)
    given = (rows.actions, rows.rewards, rows.repeats, rows.rounds, rows.played, rows.propensities, np.int64(pitch))
    function("scores", kernel, ACTIONS=width, SINGLE=single, THREADS=threads)(
        (-(-n // threads),), (threads,), (*given, rows.predictions, np.int64(0), np.int64(n), *more)
    )
