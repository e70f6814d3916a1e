"""Intervals for the value of a policy and its gain over single actions, valid at all times together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.content_order import order_by_content
from pacbandits.certificate.conventions import CAP_SHARE, planned_ends, rearrange
from pacbandits.certificate.ledger import MAX_WHOLE, LedgerRows, log_below
from pacbandits.certificate.stakes import ExpertWealth, Stakes
from pacbandits.compiled import kernel, over_cores
from pacbandits.records import Log
from pacbandits.rewards.base import scrambled

if TYPE_CHECKING:
    from pacbandits.certificate.certificate import Certificate
    from pacbandits.certificate.worth import Kind

# Kernels for the sums over rows that the intervals need; the second part of this file has the mathematics.
#
# For large logs the sums are of whole numbers: `add_all_scores` and `add_all_bounds`. The kernels in `worth.cu` have
# the same operations in the same order, so that a card adds up the same numbers to the last bit.


GROUP_ROWS = 8  # rows whose factors are multiplied before a logarithm is taken: numbers 8k to 8k + 7
MIN_FACTOR, MAX_FACTOR = 2.0**-10, 2.0**100  # so that no product of a group is too small or too large for a double
REST_BITS = 20  # of the fraction of a group's log-wealth, which is summed separately from its whole number
REST = 2.0**REST_BITS


@kernel
def cut_to(f: float, u: float, most: float) -> float:
    """Return the prediction cut so small (so large for u < 0) that no reward can ruin an expert."""
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
    """Add Σ log(1 + λ(S − m)) over rows to each expert's log-wealth (K,); −∞ if no prediction keeps factors positive.

    A pending reward counts as the value that minimises S: 0 for u > 0, and 1 for u < 0.
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
    """Return the number, or 0 if it is negative."""
    return x if x > 0.0 else 0.0


@kernel
def nearest(value: float, scale: float) -> int:
    """Return the whole number nearest to value times scale, of two the even one; `MAX_WHOLE` at the most."""
    return int(np.rint(min(max(value * scale, -MAX_WHOLE), MAX_WHOLE)))


@kernel
def add_all_scores(
    rows: LedgerRows, done: IntArray, shares: FloatArray, counted: BoolArray, most: float, scale: float, out: IntArray
) -> None:
    """Add to out (A + 1, rounds) the plain scores S of each action alone and of the policy, as multiples of 1/scale.

    done (L, n): the action of each policy. shares (rounds, L): their weights. counted (rounds,): the rounds that count.
    most: the largest importance-weighted residual; larger ones are cut.
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
    """Bound the rounding error of the logarithm of a row's factor φ = 1 + λ(S − m), or of a product with it.

    Let u = 2^−53, the largest relative error of an operation. S is a sum of at most A terms u_a (f + (r − f)/p), where
    f is the prediction as it was cut and rounded: any prediction is valid. A term has an error of 5u of its parts u_a f
    and u_a (r − f)/p, and the sum one of (A − 1)u of all terms in absolute value.

    Let N be the sum of the negative weights, and M the room that the cut leaves, λ(N + M) ≤ 0.9. Negative terms come to
    N + M at the most, so that positive ones come to S + N + M. If the two parts of a term have different signs, they
    exceed it by 2 |u_a| f, which is at most 2M for u_a > 0, and 2N for u_a < 0. So λ times all parts is at most λS + 4
    · 0.9 ≤ φ + 3.1, as λ|m| ≤ 0.45. As φ ≥ 0.1, this is at most 32φ, and φ has an error of 32(A + 4)u of itself.

    The difference S − m, its product with λ and the sum with 1 add at most 23u, and the product of factors u. The total
    is less than 32(A + 6)u. Twice that, and more, is subtracted.
    """
    return (n_actions + 8) * 2.0**-47


@kernel
def add_whole(value: float, scale: float, wealth: IntArray, rest: IntArray, at: int) -> None:
    """Add ⌊value · scale⌋ to a sum of whole numbers, and the remainder, as a multiple of 1/REST, to another."""
    fine = np.floor(value * scale * REST)
    whole = np.floor(fine * (1.0 / REST))
    wealth[at] += int(whole)
    rest[at] += int(fine - whole * REST)


@kernel
def add_all_bounds(
    rows: LedgerRows,
    own: FloatArray,
    counted: BoolArray,
    stakes: FloatArray,
    caps: FloatArray,
    centres: FloatArray,
    times: float,
    slack: float,
    scale: float,
    wealth: IntArray,
    rest: IntArray,
    lost: IntArray,
) -> None:
    """Add Σ log(1 + λ(S − m)) over rows, for u of all kinds (`worth.kinds_of`) and for −u, and count rows without room.

    own (n, A): u of the policy. counted (n,): the rows that count. stakes (K, rounds): λ. caps (K, rounds): the largest
    loss of a bet, over λ. centres (kinds, rounds): m; that of −u is −m. times: what is subtracted at an action. slack:
    `rounding_of` a row, which is subtracted.
    wealth, rest, lost (kinds · 2 · K,): multiples of 1/scale, their remainders, and the number of rows without room to
    bet. No reward may be pending.

    Factors of `GROUP_ROWS` rows, counted from the first, are multiplied before a logarithm is taken, which is much
    faster than a logarithm for each. A row that occurred several times, or counts in part, has its own.
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
                used = _find_weights(rows, own, i, kind, times, which, much, reach)
                for side in range(2):
                    sign = 1.0 if side == 0 else -1.0
                    under = _below_nothing(own, i, kind, times, sign, below if side == 0 else above)
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
    rows: LedgerRows,
    own: FloatArray,
    i: int,
    kind: int,
    times: float,
    which: IntArray,
    much: FloatArray,
    reach: FloatArray,
) -> int:
    """Return the number of actions with u ≠ 0 of this kind.

    Fill in these actions (which), their u (much), and the largest prediction for a room of 1 (reach).
    """
    n_actions, used = own.shape[1], 0
    for a in range(n_actions):
        u = own[i, a] if kind <= n_actions else 0.0
        if a == kind - 1:
            u -= times
        elif a == kind - 1 - n_actions:
            u = 1.0
        if u != 0.0:
            which[used], much[used], reach[used] = a, u, rows.propensities[i, a] / abs(u)
            used += 1
    return used


@kernel
def _below_nothing(own: FloatArray, i: int, kind: int, times: float, sign: float, policy: float) -> float:
    """Return the sum of all negative weights of a kind in absolute value, given that of the policy."""
    n_actions = own.shape[1]
    if kind > n_actions:
        return 0.0 if sign > 0.0 else 1.0
    if kind == 0:
        return policy
    u = own[i, kind - 1]
    return policy + (positive(-sign * (u - times)) - positive(-sign * u))


@kernel
def _score(
    rows: LedgerRows, i: int, sign: float, room: float, used: int, which: IntArray, much: FloatArray, reach: FloatArray
) -> float:
    """Return S of a row, with predictions cut so that no reward can ruin an expert with this room."""
    score, played, inverse = 0.0, rows.actions[i], 1.0 / rows.played[i]
    for j in range(used):
        a, u = which[j], sign * much[j]
        f = cut_to(rows.predictions[i, a], u, room * reach[j])
        if a == played:
            f += (rows.rewards[i] - f) * inverse
        score += u * f
    return score


# The value of a policy and its gain over single actions: intervals that hold at all times together.
#
# Let θ = Σ_t λ_t μ_t / Λ, Λ = Σ_t λ_t, where before every row a stake λ_t > 0 and coefficients u_t(c, a) are fixed and
# μ_t = E Σ_a u_t(c, a) r(c, a). For a policy π that was fixed before the log u is 1 at a = π(c), and θ = V(π). For the
# leaders of rounds u follows from the weight that `pacbandits.certificate.leaders` moves, and θ is the value of their
# mixture. With 1 subtracted at an action, or at the action of another policy, θ is the gain over that. With any
# predictions f fixed before,
#
#     S_t = Σ_a u_t(c, a) f(c, a) + u_t(c, a_t) (r − f(c, a_t))/p(a_t)
#
# has mean μ_t. As E[1 + λ_t(S_t − m_t)] ≤ exp(λ_t(μ_t − m_t)) for a centre m_t fixed before the round,
#
#     Π_t (1 + λ_t(S_t − m_t)) exp(−λ_t(μ_t − m_t))
#
# is a nonnegative supermartingale if no factor is negative, and by Ville's inequality, except with probability α, at
# all times together
#
#     θ > (Σ_t log(1 + λ_t(S_t − m_t)) + Σ_t λ_t m_t − log(1/α))/Λ.
#
# Experts whose stakes are in proportion, so that θ is the same, share the first wealth, and their wealth together is
# used (`stakes.ExpertWealth`). The same for −S bounds θ above. No factor is negative, as predictions are cut: where a
# reward of 0 (or 1, for u < 0) could ruin an expert, f is made so small (or large) that it cannot, which changes no
# mean.
#
# Pending rewards count at the value that minimises S, so that the bound is no larger than it will be; and the centre of
# a round is computed from rewards that were known before it, so that it is the same at every analysis (see
# `trials.late_rewards`).
#
# The best single action a* is one fixed action, if an unknown one. So for a lower bound on the gain over it every
# action's bound may use all of α: the smallest of them holds whenever that of a* does. An upper bound takes a union
# over actions.


ROWS_AT_A_TIME = 2**14  # by one core
MAX_RANKED_ROWS = 2**24  # whose ranks in a shuffle are computed in memory


def rows_held_out(certificate: Certificate, log: Log, *, rounds: IntArray | None = None) -> Log | None:
    """Return the rows that had no part in choosing a certificate's policy: those after its leader has settled.

    log: as it was read; or every k-th row of files, from the first on. rounds (n,): of these rows, if they are known.
    None if there are no such rows, or if their rounds are not known and do not follow from the log alone.
    """
    c, leaders = certificate, certificate.leaders
    if leaders is None or leaders.settled is None or c.policy is not leaders.last:
        return None
    if rounds is None and c.by_content and c.summed and len(log) == c.rows:
        rounds = np.empty(len(log), dtype=np.int64)
        rounds[order_by_content(log)] = np.searchsorted(planned_ends(len(log)), np.arange(len(log)), side="right")
    if rounds is not None:
        kept = rounds >= leaders.settled
        return log.only(kept) if kept.any() else None
    if c.summed and c.by_content:
        return None
    if c.summed:
        numbers = np.arange(0, c.rows, -(-c.rows // len(log)), dtype=np.uint64)
        if len(numbers) != len(log) or c.rows > MAX_RANKED_ROWS:
            return None
        place = int(planned_ends(c.rows)[leaders.settled - 1])
        if place >= c.rows:
            return None
        first = np.partition(scrambled(np.arange(c.rows, dtype=np.uint64)), place)[place]
        return log.only(scrambled(numbers) >= first)
    blocks = rearrange(c.of(log), ordered=c.ordered, shuffle=c.shuffled, by_content=c.by_content)
    cut = blocks if c.learning is None else c.learning.set_apart(blocks)
    kept = np.unique(cut.rounds, return_inverse=True)[1] >= leaders.settled
    return cut.only(kept) if kept.any() else None


class RowWeighing(NamedTuple):
    """The inputs of intervals, for rows in memory.

    log: n rows.
    predictions (n, A): made before the round of each.
    weights (n, A): u.
    stakes: the stakes of each expert in each round.
    counted (n,): the rows that count for θ: those with a stake.
    """

    log: Log
    predictions: FloatArray
    weights: FloatArray
    stakes: Stakes
    counted: BoolArray

    def wealth(self, kind: Kind, *, sign: float = 1.0) -> ExpertWealth:
        """Return the experts' wealth from bets on θ, or −θ, as `Weighing.wealth`."""
        return wealth_of(self._of(kind), sign=sign)

    def estimate(self, kind: Kind) -> float:
        """Return the estimate of θ, as `Weighing.estimate`."""
        return _estimate(self._of(kind))

    def _of(self, kind: Kind) -> RowWeighing:
        return self._replace(weights=kind.weights(self.weights, self.counted))


def wealth_of(rows: RowWeighing, *, sign: float = 1.0) -> ExpertWealth:
    """Return the experts' wealth from bets on θ (on −θ for a sign of −1)."""
    log, weights = rows.log, sign * rows.weights
    _, rounds = np.unique(log.rounds, return_inverse=True)
    counted, centres = rows.counted, _centres(rows, weights, rounds)
    stakes = np.array([rows.stakes.bets.stakes(expert) for expert in range(len(rows.stakes.bets))])
    per_round = np.bincount(rounds, weights=counted * log.weights, minlength=stakes.shape[1])
    totals, middles = stakes @ per_round, stakes @ (per_round * centres)
    repeats, played = log.weights, log.played_propensities
    # Kernels are compiled once, for arrays that are contiguous and writeable; others are copied.
    known, predictions = (np.require(one, requirements=("C", "W")) for one in (log.bounds, rows.predictions))
    wealth = np.zeros((len(log) // ROWS_AT_A_TIME + 1, len(stakes)))

    def add(first: int, last: int) -> None:
        for part in range(first, last):
            here = slice(part * ROWS_AT_A_TIME, (part + 1) * ROWS_AT_A_TIME)
            add_log_wealth(
                log.actions[here],
                log.rewards[here],
                repeats[here],
                played[here],
                known[here],
                predictions[here],
                weights[here],
                counted[here],
                rounds[here],
                stakes,
                centres,
                CAP_SHARE,
                wealth[part],
            )

    over_cores(add, count=len(wealth))
    return ExpertWealth(wealth.sum(axis=0) + middles, totals, np.array(rows.stakes.shares))


def _centres(rows: RowWeighing, weights: FloatArray, rounds: IntArray) -> FloatArray:
    """Return m (rounds,): the mean of S over the rounds before, and 0 in the first that counts; between −1 and 1.

    If rewards are late, the mean is over the rows whose rewards were known before the round.
    """
    log, counted = rows.log, rows.counted
    scores, n_rounds = _plain_scores(rows, weights), int(rounds.max()) + 1
    mine = counted * log.weights
    if log.known is not None:
        known = [mine * log.known_by(int(number)) for number in np.unique(log.rounds)]
        return np.clip([float(own @ scores / own.sum()) if own.any() else 0.0 for own in known], -1.0, 1.0)
    sums = np.bincount(rounds, weights=mine * scores, minlength=n_rounds)
    counts = np.bincount(rounds, weights=mine, minlength=n_rounds)
    before, seen = np.cumsum(sums) - sums, np.cumsum(counts) - counts
    return np.clip(np.divide(before, seen, out=np.zeros(n_rounds), where=seen > 0), -1.0, 1.0)


def _plain_scores(rows: RowWeighing, weights: FloatArray) -> FloatArray:
    """Return S (n,) with uncut predictions; the prediction replaces a pending reward."""
    log, f, at = rows.log, rows.predictions, np.arange(len(rows.log))
    off = np.where(log.awaited, 0.0, (log.rewards - f[at, log.actions]) / log.played_propensities)
    return (weights * f).sum(axis=1) + weights[at, log.actions] * off


def _estimate(rows: RowWeighing) -> float:
    """Return the estimate of θ: the mean of S weighted by stakes."""
    _, rounds = np.unique(rows.log.rounds, return_inverse=True)
    stakes = np.where(rows.counted, rows.stakes.bets.units[rounds], 0.0) * rows.log.weights
    return float((stakes * _plain_scores(rows, rows.weights)).sum() / stakes.sum())
