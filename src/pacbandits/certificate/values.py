"""How good a policy is: its value, and its lead over single actions, with intervals that hold at all times together.

Let θ = Σ_t λ_t μ_t / Λ, Λ = Σ_t λ_t, where before every row a stake λ_t > 0 and coefficients u_t(c, a) are fixed and
μ_t = E Σ_a u_t(c, a) r(c, a). For a policy π that was fixed before the log u is 1 at a = π(c), and θ = V(π); for the
leaders of rounds it is what `pacbandits.certificate.leaders` moves, and θ the value of the lottery between them; with 1
taken off at an action, or at what another policy does, θ is the lead over that. With any predictions f fixed before,

    S_t = Σ_a u_t(c, a) f(c, a) + u_t(c, a_t) (r − f(c, a_t))/p(a_t)

has mean μ_t. As E[1 + λ_t(S_t − m_t)] ≤ exp(λ_t(μ_t − m_t)) for a centre m_t fixed before the round,

    Π_t (1 + λ_t(S_t − m_t)) exp(−λ_t(μ_t − m_t))

is a nonnegative supermartingale where no factor is negative, and by Ville's inequality, except with probability α, at
all times together

    θ > (Σ_t log(1 + λ_t(S_t − m_t)) + Σ_t λ_t m_t − log(1/α))/Λ.

Each of K experts, whose stakes are in proportion and so speak of the same θ, has α/K. The same of −S bounds θ above. No
factor is negative, as predictions are cut: where a reward of 0 (or 1, for u < 0) could ruin an expert, f is made so
small (or large) that it does not, which changes no mean.

Rewards that are not in make S as small as they could, so that the bound is no larger than it will be; and the centre of
a round is made from rewards that were known before it, so that it is the same at every look (see `trials.late`).

The best single action a* is one fixed action, if an unknown one. So for a bound from below on the lead over it every
action's bound may use all of α: the least of them holds whenever that of a* does. From above it takes a union over
actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.bets import CAP_SHARE, Bets
from pacbandits.certificate.bounding import add_log_wealth
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.conventions import planned_ends, rearrange
from pacbandits.certificate.worth import Kind
from pacbandits.compiled import over_cores
from pacbandits.records import Log
from pacbandits.rewards.halves import scrambled

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
