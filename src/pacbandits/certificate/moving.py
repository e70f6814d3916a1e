"""How weight moves between the leaders of rounds, and what is certified of them in the end."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.leaders import MIN_LOTTERY_WEIGHT, NOBODY, Leaders
from pacbandits.certificate.rows import Against
from pacbandits.records import Chosen, Contexts, Lottery

MAX_WEIGHT_ROUNDING = 1e-12  # of all weights together


class AnyAgainst(Protocol):
    """What policies are scored against, whichever way their actions are known.

    turns (rounds,): which of the leaders leads in each round; -1 where nobody does.
    moves (rounds, L): the weight that a row takes from each, as a share of its stake.
    """

    @property
    def turns(self) -> IntArray: ...
    @property
    def moves(self) -> FloatArray: ...


def move_weight(
    leaders: Leaders, contexts: Contexts, *, units: FloatArray, counts: FloatArray
) -> tuple[Against, FloatArray]:
    """What policies are scored against on these contexts, and the weight u_j (L,) of every leader in the end.

    units, counts: as for `plan_moves`.
    """
    moves, weights = plan_moves(leaders, units=units, counts=counts)
    n = len(leaders.policies)
    actions = np.array([policy(contexts) for policy in leaders.policies], dtype=np.int64).reshape(n, len(contexts))
    return Against(actions, np.array(leaders.counted, dtype=np.int64), moves), weights


def plan_moves(leaders: Leaders, *, units: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Which share of its stake a row of each round moves from each leader (rounds, L), and all weights (L,) in the end.

    Weight is taken from those who have not led for longest, or evenly from all where the leader has settled. How much
    is fixed before a round, by its planned size and what earlier rounds came to.

    units (rounds,): stakes, up to a factor. counts (rounds,): how many interactions each round had.
    """
    if leaders.settled is not None:
        return _move_evenly(leaders, leaders.settled, units=units, counts=counts)
    n = len(leaders.policies)
    weights, last, moves = np.zeros(n), np.full(n, NOBODY), np.zeros((len(leaders.turns), n))
    for t, (turn, size) in enumerate(zip(leaders.counted, leaders.sizes, strict=True)):
        if turn == NOBODY or units[t] == 0:
            continue
        last[turn] = t
        planned = units[t] * size
        left = leaders.moving * planned
        for j in sorted(np.flatnonzero(weights > 0), key=lambda one: last[one]):
            if j != turn:
                taken = min(float(weights[j]), left)
                moves[t, j] = taken / planned
                left -= taken
        earned = units[t] * counts[t]
        weights -= earned * moves[t]
        weights[turn] += earned * (1.0 + moves[t].sum())
    return moves, weights


def _move_evenly(
    leaders: Leaders, settled: int, *, units: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same where the leader has settled.

    From the settled round on a row moves what it takes for nothing to be left of earlier leaders once as many rows as
    planned have come.
    """
    moves, weights = np.zeros((len(leaders.turns), len(leaders.policies))), np.zeros(len(leaders.policies))
    earned, planned = units * counts, units * np.array(leaders.sizes)
    for t, turn in enumerate(leaders.counted):
        if turn == NOBODY or units[t] == 0:
            continue
        if t >= settled:
            moves[t] = np.where(np.arange(len(weights)) == turn, 0.0, weights / planned[t:].sum())
        weights -= earned[t] * moves[t]
        weights[turn] += earned[t] * (1.0 + moves[t].sum())
    return moves, weights


def choose(leaders: Leaders, weights: FloatArray) -> tuple[Chosen, float]:
    """What is certified by these weights (L,), and what that costs: the slack.

    V* < ε + Σ_j (u_j/Λ) V(q_j). With G the policies that are kept and w = Σ_G u_j/Λ, the sum is at most
    `w V(G) + Σ_{j ∉ G} max(u_j, 0)/Λ ≤ V(G) + max(w − 1, 0) + Σ_{j ∉ G} max(u_j, 0)/Λ`.
    """
    shares = weights / weights.sum()
    kept = [int(np.argmax(shares))] if leaders.single else np.flatnonzero(shares >= MIN_LOTTERY_WEIGHT).tolist()
    held = float(shares[kept].sum())
    slack = max(held - 1.0, 0.0) + float(np.maximum(np.delete(shares, kept), 0.0).sum())
    slack = slack if slack > MAX_WEIGHT_ROUNDING else 0.0
    if len(kept) == 1:
        return leaders.policies[kept[0]], slack
    drawn = tuple(float(share) for share in shares[kept] / held)
    return Lottery(tuple(leaders.policies[j] for j in kept), drawn), slack


def alone(rounds: int) -> tuple[IntArray, FloatArray]:
    """Turns and moves where a single policy leads in all of so many rounds."""
    return np.zeros(rounds, dtype=np.int64), np.zeros((rounds, 1))


def against_one(actions: IntArray, *, rounds: int) -> Against:
    """A single policy, by its actions (m,), in all rounds."""
    return Against(np.asarray(actions, dtype=np.int64)[None, :], *alone(rounds))
