"""The log-wealth of bets against every policy, computed row by row from its definition.

`pacbandits.certificate.ledger` and `pacbandits.certificate.leaders` state the mathematics; the arithmetic here is
written from these formulas, in numpy, and shares no code with the kernels that certify.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.leaders import NOBODY
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log
from pacbandits.verifier.figures import LeaderBook
from pacbandits.verifier.order import weights_of

ROWS_AT_A_TIME = 2**14  # to save memory


def log_wealth(
    c: Certificate, book: LeaderBook, log: Log, rounds: IntArray, predictions: FloatArray, *, epsilon: float
) -> FloatArray:
    """Return w log(1 + λ(ε − X)) (n, K, A) for every row, expert of the certificate and action; w is the row's weight.

    With leaders it is w log(1 − λZ): their λε is the same for every policy, and `led_wealth` adds it up.

    rounds (n,): of the rows, from 0. predictions (n, A): made before the round of each row.
    """
    weights, out = weights_of(log), np.zeros((len(log), len(c.experts), log.n_actions))
    stakes = [c.bets.stakes(expert) for expert in c.experts]
    present: list[int] = np.unique(rounds).tolist()
    for number in present:
        turn, moves = book.leaders.turns[number], book.moves[number]
        if turn == NOBODY:
            continue
        mine = np.flatnonzero(rounds == number)
        for start in range(0, len(mine), ROWS_AT_A_TIME):
            part = mine[start : start + ROWS_AT_A_TIME]
            rows, foreseen = log.take(part), predictions[part]
            reference = np.asarray(book.leaders.policies[turn](rows.contexts))
            others = {j: np.asarray(book.leaders.policies[j](rows.contexts)) for j in moves}
            moved = np.ones(len(part))
            for j, share in moves.items():
                moved += share * (others[j] != reference)
            for place, stake in enumerate(float(own[number]) for own in stakes):
                if stake == 0:
                    continue
                own = score(rows, foreseen, reference, stake, np.maximum(c.bets.share / (stake * moved) - 1.0, 0.0))
                scores = own
                for j, share in moves.items():
                    scores = scores + share * own[np.arange(len(part)), others[j]][:, None]
                inside = epsilon if c.leaders is None else 0.0
                out[part, place] = weights[part, None] * np.log1p(stake * (inside - scores))
    return out


def led_wealth(c: Certificate, book: LeaderBook, counts: FloatArray, *, epsilon: float) -> list[float]:
    """Return Σ λε of every expert of the certificate over the rows that have a leader; 0 without leaders.

    counts (rounds,): interactions, or people, in each round.
    """
    if c.leaders is None:
        return [0.0] * len(c.experts)
    led = counts * (np.array(book.leaders.turns) != NOBODY)
    return [epsilon * float((led * c.bets.stakes(expert)).sum()) for expert in c.experts]


def score(rows: Log, predictions: FloatArray, reference: IntArray, stake: float, cap: FloatArray) -> FloatArray:
    """Return X (n, A), the capped doubly robust score of every action against the reference's.

    predictions (n, A): f. reference (n,): actions of q. stake: λ. cap (n,): M. With f₁ = max(g(f, λ/p), 1 − pM) and
    f₂ = min(1 − g(1 − f, λ/p), pM), X = f₁ − f₂ + (r − f₁)/p · 1{π = a} − (r − f₂)/p · 1{q = a}, and 0 where π = q.
    """
    numbers, p, played = np.arange(len(rows)), rows.bounds, rows.played_propensities[:, None]
    # A pending reward counts at its worst for q: 0 if q's action was played, else 1.
    worst = np.where(rows.actions == reference, 0.0, 1.0)
    reward = np.where(np.isnan(rows.rewards), worst, rows.rewards)[:, None]
    each, most = stake / np.maximum(p, 1e-12), p * cap[:, None]
    above = np.minimum(_room_above(predictions, each), most)  # 1 − f₁
    here = numbers, reference
    low = np.minimum(_room_above(1.0 - predictions[here], each[here]), most[here])[:, None]  # f₂
    mine = np.zeros_like(p, dtype=bool)
    mine[numbers, rows.actions] = True
    theirs = (rows.actions == reference)[:, None]
    found = 1.0 - above + mine * (above - (1.0 - reward)) / played - low - theirs * (reward - low) / played
    found[here] = 0.0
    return found


def _room_above(mean: FloatArray, stake: FloatArray) -> FloatArray:
    """Return 1 − g(f, k) for the best control variate g; not g, which rounding would bring too near to 1."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left = ((1.0 - stake) + np.sqrt((1.0 - stake) ** 2 + 4.0 * mean * stake)) / 2.0
        best = np.clip((1.0 - left) / stake, 0.0, 1.0 - mean)
    return np.where(stake > 1e6, 0.0, np.where(stake < 1e-6, 1.0 - mean, best))


class Wealth(NamedTuple):
    """The log-wealth of all rows against every policy.

    policies: the class, in the form that takes these scores.
    contexts: of the scores.
    scores: one array per expert of the certificate, whose sum over a policy's actions is the log-wealth against it.
    """

    policies: PolicyClass
    contexts: Contexts
    scores: Sequence[FloatArray]


def least_wealth(c: Certificate, wealth: Wealth, beside: Sequence[float]) -> float:
    """Return the minimum log-wealth over the class, by the experts and the search that the certificate names.

    `min_π log Σ_k e^{S_k(π) + b_k}/K`; with an argmax oracle the lower bound `min_π Σ_k w_k (S_k(π) + b_k) + H(w)`.

    beside: b_k, additional log-wealth of each expert, the same for every policy.
    """
    policies, contexts, scores = wealth
    begun = float(np.log(len(c.bets)))  # each of the K experts began with 1/K
    if policies.lists_policies:
        rows = np.arange(len(contexts))
        table = np.asarray(policies.actions(contexts))
        each = np.array([[float(s[rows, one].sum()) for s in scores] for one in table]) + np.array(beside)
        return float(np.logaddexp.reduce(each, axis=1).min()) - begun
    if len(scores) == 2 and c.share is None and policies.has_frontier:
        frontier = policies.frontier(contexts, -scores[0], -scores[1])
        return float(np.logaddexp(beside[0] - frontier.first, beside[1] - frontier.second).min()) - begun
    weight, entropy = _combination(c.share)
    mixed = weight * scores[0] + (1.0 - weight) * scores[-1]
    found = policies.attained(contexts, mixed, policies.argmax(contexts, -mixed))
    return found + weight * beside[0] + (1.0 - weight) * beside[-1] + entropy - begun


def least_rival_wealth(c: Certificate, wealth: Wealth, own: IntArray) -> float:
    """Return the minimum log-wealth over the policies that differ from the certified one on some row; ∞ if none does.

    own (n,): actions of the certified policy. A listed class is searched exhaustively. For another class, the oracle
    minimises once per context, with a penalty on the certified policy's own action there.
    """
    policies, contexts, scores = wealth
    rows, begun = np.arange(len(own)), float(np.log(len(c.bets)))
    if policies.lists_policies:
        unlike = [one for one in np.asarray(policies.actions(contexts)) if not np.array_equal(one, own)]
        each = [np.logaddexp.reduce([float(s[rows, one].sum()) for s in scores]) for one in unlike]
        return float(min(each, default=np.inf)) - begun
    weight, entropy = _combination(c.share)
    mixed = weight * scores[0] + (1.0 - weight) * scores[-1]
    least, dear = np.inf, 2.0 * float(np.ptp(mixed, axis=1).sum()) + 1.0
    for here in _rows_by_context(contexts):
        asked = -mixed
        asked[here, own[here]] -= dear
        found = np.asarray(policies.argmax(contexts, asked)(contexts))
        if (found != own).any():
            least = min(least, float(mixed[rows, found].sum()))
    return least + entropy - begun


def _combination(share: float | None) -> tuple[float, float]:
    """Return the weight of the first of two experts, and the entropy of both weights; one expert alone has weight 1."""
    weight = 1.0 if share is None else share
    return weight, -float(sum(part * np.log(part) for part in (weight, 1.0 - weight) if part > 0))


def _rows_by_context(contexts: Contexts) -> list[list[int]]:
    """Return the rows of every distinct context, distinguished by id, features and φ."""
    found: dict[bytes, list[int]] = {}
    for row, features in enumerate(contexts.features):
        known = [features.tobytes()]
        if contexts.ids is not None:
            known.append(contexts.ids[row].tobytes())
        if contexts.phi is not None:
            known.append(contexts.phi.codes[row].tobytes())
        found.setdefault(b"".join(known), []).append(row)
    return list(found.values())
