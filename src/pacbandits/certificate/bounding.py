"""What the intervals of a policy's value are bounded by, row by row: see `pacbandits.certificate.values`.

Sums over the rows of large logs are of whole numbers: `add_all_scores` and `add_all_bounds`. The kernels in `worth.cu`
have the same operations in the same order, so that a card adds up the same numbers to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.logarithm import log_below
from pacbandits.certificate.rows import Rows
from pacbandits.compiled import kernel

GROUP_ROWS = 8  # rows whose factors are multiplied before a logarithm is taken: those of numbers 8k to 8k + 7
MIN_FACTOR, MAX_FACTOR = 2.0**-10, 2.0**100  # so that no product of a group is too small or too large for a double
REST_BITS = 20  # to which what a whole number leaves of a group's log-wealth is counted beside it
REST = 2.0**REST_BITS
MAX_WHOLE = 2.0**62  # of a row's score, as a whole number


@kernel
def cut_to(f: float, u: float, most: float) -> float:
    """A prediction made so small (or large, for u < 0) that no reward can ruin an expert."""
    return min(f, most) if u > 0 else max(f, 1.0 - most)


@kernel
def add_log_wealth(
    actions: IntArray,
    rewards: FloatArray,
    repeats: FloatArray,
    played: FloatArray,
    known: FloatArray,
    predictions: FloatArray,
    weights: FloatArray,
    counted: BoolArray,
    rounds: IntArray,
    stakes: FloatArray,
    centres: FloatArray,
    share: float,
    out: FloatArray,
) -> None:
    """Add Σ log(1 + λ(S − m)) over rows to what each expert has (K,); −∞ where no prediction keeps factors positive.

    A reward that is not in counts as what makes S least: nothing where u > 0, and all where u < 0.
    """
    for i in range(actions.shape[0]):
        if not counted[i]:
            continue
        centre, below = centres[rounds[i]], 0.0
        for a in range(weights.shape[1]):
            below += max(-weights[i, a], 0.0)
        for k in range(stakes.shape[0]):
            stake = stakes[k, rounds[i]]
            room = share / stake - max(centre, 0.0) - below
            if room <= 0.0:
                out[k] = -np.inf
                continue
            score = 0.0
            for a in range(weights.shape[1]):
                u = weights[i, a]
                if u == 0.0:
                    continue
                f, most = predictions[i, a], room * known[i, a] / abs(u)
                f = cut_to(f, u, most)
                score += u * f
                if a == actions[i]:
                    reward = rewards[i]
                    if math.isnan(reward):
                        reward = 0.0 if u > 0 else 1.0
                    score += u * (reward - f) / played[i]
            out[k] += repeats[i] * math.log1p(stake * (score - centre))


@kernel
def positive(x: float) -> float:
    """The number, or 0 where it is negative."""
    return x if x > 0.0 else 0.0


@kernel
def nearest(value: float, scale: float) -> int:
    """The whole number nearest to value times scale, the even one of two; `MAX_WHOLE` at the most."""
    return int(np.rint(min(max(value * scale, -MAX_WHOLE), MAX_WHOLE)))


@kernel
def add_all_scores(
    rows: Rows, done: IntArray, shares: FloatArray, counted: BoolArray, most: float, scale: float, out: IntArray
) -> None:
    """Add to out (A + 1, rounds) the plain scores S of each action alone and of the policy, as multiples of 1/scale.

    done (L, n): what each policy does. shares (rounds, L): how much each counts for. counted (rounds,): which rounds
    count. most: what an importance-weighted residual is cut to.
    """
    f, n_actions = rows.predictions, rows.predictions.shape[1]
    single = np.empty(n_actions)
    for i in range(rows.actions.shape[0]):
        t, a, weight = rows.rounds[i], rows.actions[i], rows.repeats[i]
        if not counted[t]:
            continue
        off = min(max((rows.rewards[i] - f[i, a]) / rows.played[i], -most), most)
        for x in range(n_actions):
            score = f[i, x]
            if x == a:
                score += off
            single[x] = score * weight
            out[x, t] += nearest(single[x], scale)
        whole = 0.0
        for j in range(done.shape[0]):
            if shares[t, j] != 0.0:
                whole += shares[t, j] * single[done[j, i]]
        out[n_actions, t] += nearest(whole, scale)


def rounding_of(n_actions: int) -> float:
    """What rounding may add to the logarithm of a row's factor φ = 1 + λ(S − m), or of a product with it, at the most.

    Let u = 2^−53, which is what an operation may be off by, as a share of its result. S is a sum of at most A terms
    u_a (f + (r − f)/p), where f is the prediction as it was cut and rounded: any prediction will do. A term is off by
    5u of its parts u_a f and u_a (r − f)/p, and the sum by (A − 1)u of all terms, whatever their signs.

    How large are these? Let N be the sum of the negative weights, and M the room that the cut leaves, λ(N + M) ≤ 0.9.
    Negative terms come to N + M at the most, so that positive ones do to S + N + M. Where the two parts of a term have
    other signs, they exceed it by 2 |u_a| f, which is at most 2M for u_a > 0, and 2N for u_a < 0. So λ times all parts
    is at most λS + 4 · 0.9 ≤ φ + 3.1, as λ|m| ≤ 0.45. As φ ≥ 0.1, this is at most 32φ, and φ is off by 32(A + 4)u of
    itself.

    The difference S − m, its product with λ and the sum with 1 add at most 23u, and the product of factors u. All are
    less than 32(A + 6)u. Twice that, and more, is taken off.
    """
    return (n_actions + 8) * 2.0**-47


@kernel
def add_whole(value: float, scale: float, wealth: IntArray, rest: IntArray, at: int) -> None:
    """Add ⌊value · scale⌋ to a sum of whole numbers, and what is left of it, as a multiple of 1/REST, to another."""
    fine = np.floor(value * scale * REST)
    whole = np.floor(fine * (1.0 / REST))
    wealth[at] += int(whole)
    rest[at] += int(fine - whole * REST)


@kernel
def add_all_bounds(
    rows: Rows,
    own: FloatArray,
    counted: BoolArray,
    stakes: FloatArray,
    caps: FloatArray,
    centres: FloatArray,
    slack: float,
    scale: float,
    wealth: IntArray,
    rest: IntArray,
    lost: IntArray,
) -> None:
    """Add Σ log(1 + λ(S − m)) over rows, for u of all kinds (`worth.kinds_of`) and for −u, and where that is lost.

    own (n, A): u of the policy. counted (n,): which rows count. stakes (K, rounds): λ. caps (K, rounds): what a bet may
    lose, over λ. centres (kinds, rounds): m, that of −u is −m. slack: `rounding_of` a row, which is taken off. wealth,
    rest, lost (kinds · 2 · K,): multiples of 1/scale, what is left of them, and rows in which there was no room to bet.
    Rewards are all in.

    Factors of `GROUP_ROWS` rows, counted from the first, are multiplied before a logarithm is taken, as that is much
    quicker than logarithms of all of them. A row that occurred several times, or in parts, has its own.
    """
    factors, held = np.ones(wealth.shape[0]), 0.0
    n, n_actions = own.shape
    which, much, reach = np.empty(n_actions, dtype=np.int64), np.empty(n_actions), np.empty(n_actions)
    for i in range(n):
        if counted[i]:
            if rows.repeats[i] == 1.0:
                held += 1.0
            above, below, at = 0.0, 0.0, 0
            for a in range(n_actions):
                if own[i, a] > 0.0:
                    above += own[i, a]
                else:
                    below -= own[i, a]
            for kind in range(2 * n_actions + 1):
                used = _find_weights(rows, own, i, kind, which, much, reach)
                for side in range(2):
                    sign = 1.0 if side == 0 else -1.0
                    under = _below_nothing(own, i, kind, sign, below if side == 0 else above)
                    for k in range(stakes.shape[0]):
                        centre = sign * centres[kind, rows.rounds[i]]
                        stake, cap = stakes[k, rows.rounds[i]], caps[k, rows.rounds[i]]
                        room = cap - positive(centre) - under
                        score = _score(rows, i, sign, room, used, which, much, reach)
                        factor = 1.0 + stake * (score - centre)
                        if not (room > 0.0 and factor >= MIN_FACTOR):
                            lost[at] += 1
                        elif rows.repeats[i] == 1.0:
                            factors[at] *= min(factor, MAX_FACTOR)
                        else:
                            value = rows.repeats[i] * (log_below(min(factor, MAX_FACTOR)) - slack)
                            add_whole(value, scale, wealth, rest, at)
                        at += 1
        if held > 0.0 and (i + 1 == n or (i + 1) % GROUP_ROWS == 0):
            for at in range(factors.shape[0]):
                add_whole(log_below(factors[at]) - slack * held, scale, wealth, rest, at)
                factors[at] = 1.0
            held = 0.0


@kernel
def _find_weights(
    rows: Rows, own: FloatArray, i: int, kind: int, which: IntArray, much: FloatArray, reach: FloatArray
) -> int:
    """How many actions have a weight u of this kind; which, u itself, and what a prediction may be for a room of 1."""
    n_actions, used = own.shape[1], 0
    for a in range(n_actions):
        u = own[i, a] if kind <= n_actions else 0.0
        if a == kind - 1:
            u -= 1.0
        elif a == kind - 1 - n_actions:
            u = 1.0
        if u != 0.0:
            which[used], much[used], reach[used] = a, u, rows.propensities[i, a] / abs(u)
            used += 1
    return used


@kernel
def _below_nothing(own: FloatArray, i: int, kind: int, sign: float, policy: float) -> float:
    """What all negative weights of a kind come to, by that of the policy."""
    n_actions = own.shape[1]
    if kind > n_actions:
        return 0.0 if sign > 0.0 else 1.0
    if kind == 0:
        return policy
    u = own[i, kind - 1]
    return policy + (positive(-sign * (u - 1.0)) - positive(-sign * u))


@kernel
def _score(
    rows: Rows, i: int, sign: float, room: float, used: int, which: IntArray, much: FloatArray, reach: FloatArray
) -> float:
    """S of a row, with predictions cut so that no reward can ruin an expert with this room."""
    score, played, inverse = 0.0, rows.actions[i], 1.0 / rows.played[i]
    for j in range(used):
        a, u = which[j], sign * much[j]
        f = cut_to(rows.predictions[i, a], u, room * reach[j])
        if a == played:
            f += (rows.rewards[i] - f) * inverse
        score += u * f
    return score
