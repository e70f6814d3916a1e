"""The hardest rival of the leader by the data so far, for trials of the best policy itself (ε = 0).

Nothing says beforehand how small the gaps are that must be told apart; the data do, as they come. A stake λ against a
rival of gap g, whose score has variance V, makes about λg − λ²V/2 nats of a row. Both g and V are sums over contexts:
for each λ the rival against which that is least is one search (`pacbandits.policies.rivals`), and the best λ is where
it is largest. That rival is the hardest, and its stake is what the next round bets by. A rival that seems to be tied
needs a stake of which nobody knows how small: it is never less than suits a gap that ten times the data would prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate import Ledger
from pacbandits.certificate.bets import MAX_STAKE
from pacbandits.confidence import best_threshold
from pacbandits.policies.base import PolicyClass, total
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.rivals import RivalClass, rivals_of

STAKE_HALVINGS = 24  # of the largest stake, down to the smallest that is looked at
STEPS_PER_HALVING = 2
PATIENCE = 10.0  # times the data so far, by which the least gap would be proven that stakes are made for


@dataclass(frozen=True)
class Hardest:
    """The rival that will be refuted last, by the data so far.

    gap: what it seems to lack.
    error: the standard error of that.
    stake: the λ that refutes it fastest.
    nats: that refute a policy.
    """

    gap: float
    error: float
    stake: float
    nats: float

    @property
    def resolution(self) -> float:
        """What must be told apart now: its gap, but no less than its error, nor more than so many nats would prove."""
        return min(max(self.gap, self.error), self.error * math.sqrt(2.0 * self.nats))


def nominal_variance(n_actions: int) -> float:
    """V of a policy that differs everywhere, under uniform exploration: 2A, of rewards that vary by 1/4."""
    return 0.5 * n_actions


def nominal_hardest(policies: PolicyClass, samples: float, *, delta: float) -> Hardest:
    """Such a policy, of the gap that so many samples would just prove, 1/2 at the most."""
    nats, variance = best_threshold(log_size=policies.log_size, delta=delta), nominal_variance(policies.n_actions)
    error = min(math.sqrt(variance / samples), 0.5 / math.sqrt(2.0 * nats))
    gap = error * math.sqrt(2.0 * nats)
    return Hardest(gap, error, gap / (math.sqrt(PATIENCE) * variance), nats)


def find_hardest(
    policies: PolicyClass, ledger: Ledger, mixed: FloatArray, reference: IntArray, *, delta: float
) -> Hardest | None:
    """The hardest rival of a policy, by its actions (m,) on the contexts of a ledger; None where it has none.

    mixed (m, A): propensities of these contexts, rounds taken together. delta: what there is for the proof.
    """
    rivals = rivals_of(policies, ledger.contexts, reference)
    if rivals is None:
        return None
    gaps, squares = ledger.gaps(mixed, reference=reference)
    samples, nominal = ledger.samples, nominal_hardest(policies, ledger.samples, delta=delta)
    grid = MAX_STAKE * 0.5 ** (np.arange(STAKE_HALVINGS * STEPS_PER_HALVING + 1) / STEPS_PER_HALVING)
    stake, gap, variance = _best_stake(rivals, ledger, gaps, samples * squares, grid)
    return Hardest(gap, math.sqrt(max(variance, 1e-12) / samples), max(stake, nominal.stake), nominal.nats)


def _best_stake(
    rivals: RivalClass, ledger: Ledger, gaps: FloatArray, variances: FloatArray, grid: FloatArray
) -> tuple[float, float, float]:
    """Of falling stakes the one at which the least growth is largest; the gap and variance of the rival it is of.

    The least of functions that are concave in λ is concave: so it is looked for where it turns.
    """
    if rivals.lists_policies:
        table = np.ascontiguousarray(rivals.actions(ledger.contexts))
        each = sum_scores(table, gaps), sum_scores(table, variances)

        def look(stake: float) -> tuple[float, float, float]:
            growth = stake * each[0] - 0.5 * stake**2 * each[1]
            worst = int(growth.argmin())
            return float(growth[worst]), float(each[0][worst]), float(each[1][worst])

    else:

        def look(stake: float) -> tuple[float, float, float]:
            scores = stake * gaps - 0.5 * stake**2 * variances
            actions = rivals.argmax(ledger.contexts, -scores)(ledger.contexts)
            return total(scores, actions), total(gaps, actions), total(variances, actions)

    low, high = 0, len(grid) - 1
    while low < high:
        middle = (low + high) // 2
        # Of two that are equal the smaller stake.
        low, high = (low, middle) if look(grid[middle])[0] > look(grid[middle + 1])[0] else (middle + 1, high)
    _, gap, variance = look(grid[low])
    return float(grid[low]), gap, variance
