"""The rows of a ledger as kernels take them, and what these sum over the rows of each context for every action.

`pacbandits.certificate.ledger` says what the sums are for. Kernels stand beside the record that they take: compiled
code is kept on disk until its own file changes, and the order of the record's fields is part of that code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.logarithm import log_below
from pacbandits.compiled import kernel


class Against(NamedTuple):
    """What policies are scored against.

    actions (L, m): of every leader on every context.
    turns (rounds,): which of them leads in each round; -1 where nobody does.
    moves (rounds, L): the weight that a row takes from each, as a share of its stake.
    """

    actions: IntArray
    turns: IntArray
    moves: FloatArray


class Rows(NamedTuple):
    """Rows of a log sorted by context: rows starts[c] to starts[c + 1] belong to context c of the m distinct ones.

    starts (m + 1,): where the rows of each context begin; last, how many rows there are.
    actions (n,): what was played.
    rewards (n,): what it earned; NaN where that is not in.
    repeats (n,): how much a row counts: as often as it occurred, and of m visits of a unit each 1/m.
    rounds (n,): the round of a row, counted from 0 without gaps.
    played (n,): the propensity of the played action.
    propensities (n, A): what caps and control variates are made from; where the log tells the played propensity alone,
        what all of them were at least.
    predictions (n, A): made before the round of a row.
    """

    starts: IntArray
    actions: IntArray
    rewards: FloatArray
    repeats: FloatArray
    rounds: IntArray
    played: FloatArray
    propensities: FloatArray
    predictions: FloatArray


@kernel
def room_above(mean: float, stake: float) -> float:
    """1 − g(f, k), of the control variate g that makes a bet on an action of this mean grow fastest.

    Not g: divided by a small propensity, what rounding takes from 1 − g would be more than a cap allows.
    """
    # For stakes so large or small its limits, as the formula would lose all its digits.
    if stake > 1e6:
        return 0.0
    if stake < 1e-6:
        return 1.0 - mean
    left = 0.5 * ((1.0 - stake) + math.sqrt((1.0 - stake) ** 2 + 4.0 * mean * stake))
    return max(min((1.0 - left) / stake, 1.0 - mean), 0.0)


@kernel
def add_log_wealth(
    rows: Rows,
    against: Against,
    bets: FloatArray,
    share: float,
    epsilon: float,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Add `log(1 + λ(ε − Z))` to out (m, A), with the λ (rounds,) of each round; for contexts start to stop.

    The logarithm is never too large, and the same to the last bit on a card (`pacbandits.certificate.logarithm`).
    A reward that is not in counts at its worst, which is the same for every policy: Z is linear in r, and r = 0 makes
    it largest where q played a, for each X has −r/p or nothing of it, and r = 1 elsewhere, for each has r/p or nothing.
    """
    p, f = rows.propensities, rows.predictions
    high = np.empty(p.shape[1])
    for c in range(start, stop):
        for i in range(rows.starts[c], rows.starts[c + 1]):
            t = rows.rounds[i]
            bet, turn = float(bets[t]), against.turns[t]
            if bet == 0.0 or turn < 0:
                continue
            q, a, r = against.actions[turn, c], rows.actions[i], rows.rewards[i]
            if math.isnan(r):
                r = 0.0 if a == q else 1.0
            moved = 0.0
            for j in range(against.actions.shape[0]):
                if against.moves[t, j] > 0.0 and against.actions[j, c] != q:
                    moved += against.moves[t, j]
            cap = max(share / (bet * (1.0 + moved)) - 1.0, 0.0)
            low = min(room_above(1.0 - f[i, q], bet / max(p[i, q], 1e-12)), p[i, q] * cap)
            base = low + ((r - low) / rows.played[i] if a == q else 0.0)
            for x in range(p.shape[1]):
                room = min(room_above(f[i, x], bet / max(p[i, x], 1e-12)), p[i, x] * cap)
                high[x] = 1.0 - room
                if a == x:
                    high[x] += (room - (1.0 - r)) / rows.played[i]
            high[q] = base
            gained = epsilon
            if moved > 0.0:
                for j in range(against.actions.shape[0]):
                    gained -= against.moves[t, j] * (high[against.actions[j, c]] - base)
            for x in range(p.shape[1]):
                out[c, x] += rows.repeats[i] * log_below(1.0 + bet * (gained - (high[x] - base)))


@kernel
def add_gaps(
    rows: Rows,
    mixture: FloatArray,
    reference: IntArray,
    gaps: FloatArray,
    squares: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Add to gaps and squares (m, A) the doubly robust gaps against the reference, and their squares.

    mixture (m, A): propensities in the place of those of each row. For contexts start to stop.
    """
    f = rows.predictions
    for c in range(start, stop):
        q = reference[c]
        for i in range(rows.starts[c], rows.starts[c + 1]):
            a, r = rows.actions[i], rows.rewards[i]
            base = f[i, q] + ((r - f[i, q]) / mixture[c, q] if a == q else 0.0)
            for x in range(f.shape[1]):
                if x != q:
                    gap = base - f[i, x] - ((r - f[i, x]) / mixture[c, x] if a == x else 0.0)
                    gaps[c, x] += rows.repeats[i] * gap
                    squares[c, x] += rows.repeats[i] * gap**2


@kernel
def add_values(rows: Rows, weights: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    """Add to out (m, A) the doubly robust values of actions, rows weighted (n,); for contexts start to stop."""
    f = rows.predictions
    for c in range(start, stop):
        for i in range(rows.starts[c], rows.starts[c + 1]):
            for x in range(f.shape[1]):
                out[c, x] += weights[i] * f[i, x]
            a = rows.actions[i]
            out[c, a] += weights[i] * (rows.rewards[i] - f[i, a]) / rows.played[i]


@kernel
def add_differences(
    rows: Rows, weights: FloatArray, reference: IntArray, squared: bool, out: FloatArray, start: int, stop: int
) -> None:
    """Add to out (m, A) the doubly robust differences to the reference, or their squares, rows weighted (n,).

    For contexts start to stop.
    """
    f = rows.predictions
    for c in range(start, stop):
        q = reference[c]
        for i in range(rows.starts[c], rows.starts[c + 1]):
            a, r = rows.actions[i], rows.rewards[i]
            base = f[i, q] + ((r - f[i, q]) / rows.played[i] if a == q else 0.0)
            for x in range(f.shape[1]):
                if x != q:
                    score = f[i, x] + ((r - f[i, x]) / rows.played[i] if a == x else 0.0) - base
                    out[c, x] += weights[i] * (score * score if squared else score)
