"""Scores of rows for whoever verifies: plainly, from the definition in `pacbandits.certificate.ledger`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.bookkeeping import Book
from pacbandits.certificate.certificate import Certificate
from pacbandits.records import Log


class ScoredRows(NamedTuple):
    """What the scores of rows are made from.

    predictions (n, A): of the reward model.
    bounds (n, A): propensities, or what they were at least.
    actions (n,): what was played.
    rewards (n,): what it earned; NaN where that is not in.
    played (n,): the propensity of what was played.
    reference (n,): q's actions.
    bet (n,): λ.
    cap (n,): M.
    """

    predictions: FloatArray
    bounds: FloatArray
    actions: IntArray
    rewards: FloatArray
    played: FloatArray
    reference: IntArray
    bet: FloatArray
    cap: FloatArray


def score(rows: ScoredRows) -> FloatArray:
    """X of these rows for every action (n, A)."""
    numbers, p = np.arange(len(rows.actions)), rows.bounds
    reward, played, cap = _worst(rows)[:, None], rows.played[:, None], rows.cap[:, None]
    stake = rows.bet[:, None] / np.maximum(p, 1e-12)
    above = np.minimum(_room_above(rows.predictions, stake), p * cap)
    low = np.minimum(_room_above(1.0 - rows.predictions, stake), p * cap)[numbers, rows.reference][:, None]
    mine = np.zeros_like(p, dtype=bool)
    mine[numbers, rows.actions] = True
    theirs = (rows.actions == rows.reference)[:, None]
    found = 1.0 - above + mine * (above - (1.0 - reward)) / played - low - theirs * (reward - low) / played
    found[numbers, rows.reference] = 0.0
    return found


def _worst(rows: ScoredRows) -> FloatArray:
    """Rewards (n,), those not in as they would be worst for q: nothing where it played, and all where it did not."""
    least_for_q = np.where(rows.actions == rows.reference, 0.0, 1.0)
    return np.where(np.isnan(rows.rewards), least_for_q, rows.rewards)


def _room_above(mean: FloatArray, stake: FloatArray) -> FloatArray:
    """1 − g(f, k) of `pacbandits.certificate.ledger`; not g, which rounding would bring too near to 1."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left = ((1.0 - stake) + np.sqrt((1.0 - stake) ** 2 + 4.0 * mean * stake)) / 2.0
        best = np.clip((1.0 - left) / stake, 0.0, 1.0 - mean)
    return np.where(stake > 1e6, 0.0, np.where(stake < 1e-6, 1.0 - mean, best))


def growth(
    c: Certificate,
    book: Book,
    log: Log,
    predictions: FloatArray,
    *,
    turn: int,
    moves: dict[int, float],
    stake: float,
    epsilon: float,
) -> FloatArray:
    """log(1 + λ(ε − X)) of rows of one round for every action (n, A); log(1 − λZ) + λε where they have leaders.

    predictions (n, A): made before the round. turn: who leads in it. moves: the weight taken from earlier leaders, by
    their numbers. stake: λ.
    """
    contexts, numbers = log.contexts, np.arange(len(log))
    reference = np.asarray(book.leaders.policies[turn](contexts))
    others = {j: np.asarray(book.leaders.policies[j](contexts)) for j in moves}
    moved = np.ones(len(log))
    for j, share in moves.items():
        moved += share * (others[j] != reference)
    rows = ScoredRows(
        predictions=predictions,
        bounds=log.bounds,
        actions=log.actions,
        rewards=log.rewards,
        played=log.played_propensities,
        reference=reference,
        bet=np.full(len(log), stake),
        cap=np.maximum(c.bets.share / (stake * moved) - 1.0, 0.0),
    )
    scores = own = score(rows)
    for j, share in moves.items():
        scores = scores + share * own[numbers, others[j]][:, None]
    if c.leaders is None:
        return np.log1p(stake * (epsilon - scores))
    return np.log1p(-stake * scores) + stake * epsilon
