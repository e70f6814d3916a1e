"""How badly a design serves the actions of rows on the card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.modules import function

THREADS = 128
MOST_ACTIONS = 64  # of which a row's numbers stay with its thread


@dataclass(frozen=True, eq=False)
class CardWeights:
    """The weights of trees by the bins of two features, on the card; fields are those of a `Forest`.

    starts (d + 1,), pairs (P, 2): int32.
    table (all bins, all bins, A), always (A,): int64.
    """

    starts: Any
    pairs: Any
    table: Any
    always: Any

    @classmethod
    def send(cls, starts: IntArray, pairs: IntArray, table: IntArray, always: IntArray) -> CardWeights:
        """Weights that lie in memory."""
        cp = cupy()
        first, second = (cp.asarray(one.astype(np.int32)) for one in (starts, pairs))
        return cls(first, second, cp.asarray(table), cp.asarray(always))


def serve_rows(
    codes: Any,
    weights: CardWeights,
    *,
    reference: Any,
    noise: Any,
    floors: tuple[float, float],
    scales: tuple[float, float],
    total: Any,
) -> Any:
    """Costs (n, A) of rows, int64 on the card, rounded up; their values, rounded down, are added to total (1,).

    See `score_rows` of `pacbandits.design.large.questions`. codes (n, d or more), reference (n,): uint8 on the card.
    noise (n, A) or (1, A): float64 on the card.
    """
    cp, n, n_actions = cupy(), int(codes.shape[0]), int(weights.table.shape[2])
    out = cp.empty((n, n_actions), dtype=cp.int64)
    if n == 0:
        return out
    pitch = n_actions if noise.shape[0] == n else 0
    function("serving", "serve_rows", ACTIONS=n_actions, THREADS=THREADS)(
        (-(-n // THREADS),),
        (THREADS,),
        (
            *(codes, np.int32(codes.shape[1]), np.int64(n), weights.starts, weights.pairs),
            *(np.int32(len(weights.pairs)), weights.table, np.int32(weights.table.shape[0]), weights.always),
            *(reference, noise, np.int32(pitch), *(np.float64(one) for one in (*floors, *scales)), out, total),
        ),
    )
    return out
