"""The value of a policy and its gain over single actions, with intervals valid at all times together."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.certificate import CAP_SHARE, Bets, Certificate
from pacbandits.certificate.conventions import planned_ends, rearrange
from pacbandits.certificate.ledger import LedgerRows, log_below
from pacbandits.certificate.worth import Kind
from pacbandits.compiled import kernel, over_cores
from pacbandits.records import Log
from pacbandits.rewards.base import scrambled

# What the intervals of a policy's value are bounded by, row by row: see `pacbandits.certificate.intervals`.
#
# Sums over the rows of large logs are of whole numbers: `add_all_scores` and `add_all_bounds`. The kernels in
# `worth.cu` have the same operations in the same order, so that a card adds up the same numbers to the last bit.


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
    rows: LedgerRows, done: IntArray, shares: FloatArray, counted: BoolArray, most: float, scale: float, out: IntArray
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
    rows: LedgerRows,
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
    rows: LedgerRows, own: FloatArray, i: int, kind: int, which: IntArray, much: FloatArray, reach: FloatArray
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
    rows: LedgerRows, i: int, sign: float, room: float, used: int, which: IntArray, much: FloatArray, reach: FloatArray
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


# How good a policy is: its value, and its lead over single actions, with intervals that hold at all times together.
#
# Let θ = Σ_t λ_t μ_t / Λ, Λ = Σ_t λ_t, where before every row a stake λ_t > 0 and coefficients u_t(c, a) are fixed and
# μ_t = E Σ_a u_t(c, a) r(c, a). For a policy π that was fixed before the log u is 1 at a = π(c), and θ = V(π); for the
# leaders of rounds it is what `pacbandits.certificate.leaders` moves, and θ the value of the lottery between them; with
# 1 taken off at an action, or at what another policy does, θ is the lead over that. With any predictions f fixed
# before,
#
#     S_t = Σ_a u_t(c, a) f(c, a) + u_t(c, a_t) (r − f(c, a_t))/p(a_t)
#
# has mean μ_t. As E[1 + λ_t(S_t − m_t)] ≤ exp(λ_t(μ_t − m_t)) for a centre m_t fixed before the round,
#
#     Π_t (1 + λ_t(S_t − m_t)) exp(−λ_t(μ_t − m_t))
#
# is a nonnegative supermartingale where no factor is negative, and by Ville's inequality, except with probability α, at
# all times together
#
#     θ > (Σ_t log(1 + λ_t(S_t − m_t)) + Σ_t λ_t m_t − log(1/α))/Λ.
#
# Each of K experts, whose stakes are in proportion and so speak of the same θ, has α/K. The same of −S bounds θ above.
# No factor is negative, as predictions are cut: where a reward of 0 (or 1, for u < 0) could ruin an expert, f is made
# so small (or large) that it does not, which changes no mean.
#
# Rewards that are not in make S as small as they could, so that the bound is no larger than it will be; and the centre
# of a round is made from rewards that were known before it, so that it is the same at every look (see `trials.late`).
#
# The best single action a* is one fixed action, if an unknown one. So for a bound from below on the lead over it every
# action's bound may use all of α: the least of them holds whenever that of a* does. From above it takes a union over
# actions.


ROWS_AT_A_TIME = 2**14  # by one core
MAX_RANKED_ROWS = 2**24  # whose places in a shuffle are found in memory


def rows_held_out(certificate: Certificate, log: Log) -> Log | None:
    """The rows that had no part in choosing the policy of a certificate: those after its leader has settled.

    log: as it was read; or of files one row of so many, from the first on. None where there are no such rows, or the
    files have too many to tell which they are.
    """
    c, leaders = certificate, certificate.leaders
    if leaders is None or leaders.settled is None or c.policy is not leaders.last:
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
    blocks = rearrange(c.of(log), ordered=c.ordered, shuffle=c.shuffled)
    cut = blocks if c.learning is None else c.learning.set_apart(blocks)
    _, rounds = np.unique(cut.rounds, return_inverse=True)
    kept = rounds >= leaders.settled
    return cut.only(kept) if kept.any() else None


class RowWeighing(NamedTuple):
    """What intervals are made from.

    log: n rows.
    predictions (n, A): made before the round of each.
    weights (n, A): u.
    bets: what each expert stakes in each round.
    counted (n,): which rows speak of θ: those that are bet on.
    """

    log: Log
    predictions: FloatArray
    weights: FloatArray
    bets: Bets
    counted: BoolArray

    def below(self, kind: Kind, *, needed: float, sign: float = 1.0) -> float:
        """As `Weighing` has it."""
        return bound_below(self._of(kind), needed=needed, sign=sign)

    def estimate(self, kind: Kind) -> float:
        """As `Weighing` has it."""
        return _estimate(self._of(kind))

    def _of(self, kind: Kind) -> RowWeighing:
        return self._replace(weights=kind.weights(self.weights, self.counted))


def bound_below(rows: RowWeighing, *, needed: float, sign: float = 1.0) -> float:
    """The largest number that θ (or −θ, with a sign of −1) exceeds by the experts' wealth; −∞ if none."""
    log, weights = rows.log, sign * rows.weights
    _, rounds = np.unique(log.rounds, return_inverse=True)
    counted, centres = rows.counted, _centres(rows, weights, rounds)
    stakes = np.array([rows.bets.stakes(expert) for expert in range(len(rows.bets))])
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
    bounds = (wealth.sum(axis=0) + middles - needed) / totals
    return float(bounds.max())


def _centres(rows: RowWeighing, weights: FloatArray, rounds: IntArray) -> FloatArray:
    """m (rounds,): the mean of S over the rounds before, and 0 in the first that counts; between −1 and 1.

    Of rewards that come late, over the rows whose rewards were known before the round.
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
    """S (n,), with predictions as they are; of a reward that is not in the prediction takes the place."""
    log, f, at = rows.log, rows.predictions, np.arange(len(rows.log))
    off = np.where(log.awaited, 0.0, (log.rewards - f[at, log.actions]) / log.played_propensities)
    return (weights * f).sum(axis=1) + weights[at, log.actions] * off


def _estimate(rows: RowWeighing) -> float:
    """θ, estimated: the mean of S by stakes."""
    _, rounds = np.unique(rows.log.rounds, return_inverse=True)
    stakes = np.where(rows.counted, rows.bets.units[rounds], 0.0) * rows.log.weights
    return float((stakes * _plain_scores(rows, rows.weights)).sum() / stakes.sum())
