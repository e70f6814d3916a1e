"""A log with its predictions, laid out for the wealth of every policy at once.

For a pair (π, q), a row with context c, played action a, reward r and propensities p gives the score

    X(π) = f₁(c, π) − f₂(c, q) + (r − f₁)/p · 1{π = a} − (r − f₂)/p · 1{q = a}     when π(c) ≠ q(c), else 0
    f₁ = max(g(f, λ/p), 1 − p·M),   f₂ = min(1 − g(1 − f, λ/p), p·M)               (f a prediction, M a cap)

It is unbiased for V(π) − V(q) whatever f₁ and f₂ are, as they were fixed before the row, and never exceeds 1 + M
however small p is: the cap acts through the control variate, not on the score. An action that is never played (p = 0)
gets f₁ = 1, which can only make π look better.

Unbiased means: on average over the action that is drawn. So f₁ and f₂ may be made only from what is known whichever it
is. Where a log tells the propensity of the played action alone, that is a number b ≤ p, declared beforehand: b takes
the place of p in f₁ and f₂, and the weights 1/p remain. X ≤ 1 + M still, as (1 − f₁)/p ≤ (1 − f₁)/b ≤ M; and b = 0 is
always right, with f₁ = 1 and f₂ = 0.

The best control variate for a bet λ is not the mean f itself but the g that maximises the expected logarithm of the
factor of a reward of mean f played with probability p, for small λ and any stake k = λ/p,

    k(μ − g) + f log(1 − k(1 − g)) + (1 − f) log(1 + kg),

whose maximiser does not depend on μ: with w = ((1 − k) + √((1 − k)² + 4fk))/2, g = 1 − (1 − w)/k. For small stakes that
is f, which makes the variance least; for large ones it moves to where a single reward cannot ruin the expert.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log


@dataclass(frozen=True, eq=False)
class Ledger:
    """Rows sorted by context; rows starts[c] to starts[c + 1] belong to context c of the m distinct ones.

    actions, rewards, repeats, rounds, played (n,): of each row, `played` the propensity of its action; rounds count
    from 0 without gaps. propensities, predictions (n, A): what the caps and the control variates are made from; where
    the log tells the played propensity alone, what all of them were at least.
    """

    contexts: Contexts
    starts: IntArray
    actions: IntArray
    rewards: FloatArray
    repeats: FloatArray
    rounds: IntArray
    played: FloatArray
    propensities: FloatArray
    predictions: FloatArray

    @property
    def n_rounds(self) -> int:
        return int(self.rounds.max()) + 1

    @property
    def samples(self) -> int:
        return int(self.repeats.sum())

    @classmethod
    def of(cls, log: Log, predictions: FloatArray) -> Ledger:
        """Lay out a log; predictions (n, A) were made before each row's round."""
        if log.rewards.min() < 0 or log.rewards.max() > 1:
            raise InputError(
                f"rewards must lie in [0, 1], but they range from {log.rewards.min():.6g} to {log.rewards.max():.6g}; "
                "rescale them"
            )
        if predictions.shape != log.propensities.shape or not ((predictions >= 0) & (predictions <= 1)).all():
            raise InputError("predictions must have one number in [0, 1] for each row and action")
        ids = log.contexts.ids
        if ids is None:
            first, which = np.arange(len(log)), np.arange(len(log))
        else:
            _, first, which = np.unique(ids, return_index=True, return_inverse=True)
            _check_alike(log.contexts, first[which])
        order = np.argsort(which, kind="stable")
        _, rounds = np.unique(log.rounds, return_inverse=True)
        return cls(
            contexts=log.contexts if ids is None else log.contexts.take(first),
            starts=np.concatenate([[0], np.cumsum(np.bincount(which))]).astype(np.int64),
            actions=log.actions[order],
            rewards=log.rewards[order],
            repeats=log.repeats[order].astype(np.float64),
            rounds=rounds[order].astype(np.int64),
            played=log.played_propensities[order],
            propensities=np.ascontiguousarray(log.bounds[order]),
            predictions=np.ascontiguousarray(predictions[order]),
        )

    def log_wealth(self, *, reference: IntArray, bets: FloatArray, caps: FloatArray, epsilon: float) -> FloatArray:
        """Scores (m, A) that sum to `Σ_i log(1 + λ(ε − X_i(π)))` over a policy's actions.

        reference (m,): q's actions. bets, caps (rounds,): λ and M of each round, with λ(1 + M) < 1.
        """
        self._check(reference)
        if bets.shape != (self.n_rounds,) or caps.shape != (self.n_rounds,):
            raise InputError(f"bets and caps must have one number for each of {self.n_rounds} rounds")
        if not ((bets >= 0) & (caps >= 0) & (bets * (1.0 + caps) < 1.0)).all():
            raise InputError("bets and caps must not be negative, and bet·(1 + cap) must stay below 1")
        out = np.zeros((len(self.contexts), self.propensities.shape[1]))
        over_cores(
            lambda a, b: _log_wealth(
                self.starts,
                self.actions,
                self.rewards,
                self.repeats,
                self.rounds,
                self.played,
                self.propensities,
                self.predictions,
                reference,
                bets,
                caps,
                epsilon,
                out,
                a,
                b,
            ),
            count=len(self.contexts),
            chunks_per_core=16,
        )
        return out

    def gaps(self, mixture: FloatArray, *, reference: IntArray) -> tuple[FloatArray, FloatArray]:
        """Scores (m, A) that sum to a policy's estimated gap against the reference (m,), and to its squared error.

        Doubly robust differences, with the propensities (m, A) of all rounds mixed: as if every row had been played by
        a round drawn at random, so that no round's rare actions weigh more than the others' common ones. Where the
        rounds' predictions differ this has a small bias; it serves to choose, never to certify.
        """
        self._check(reference)
        if mixture.shape != (len(self.contexts), self.propensities.shape[1]):
            raise InputError(f"mixed propensities must have a row for each of {len(self.contexts)} contexts")
        gaps, squares = (np.zeros((len(self.contexts), self.propensities.shape[1])) for _ in range(2))
        over_cores(
            lambda a, b: _gaps(
                self.starts,
                self.actions,
                self.rewards,
                self.repeats,
                mixture,
                self.predictions,
                reference,
                gaps,
                squares,
                a,
                b,
            ),
            count=len(self.contexts),
            chunks_per_core=16,
        )
        return gaps / self.samples, squares / self.samples**2

    def _check(self, reference: IntArray) -> None:
        """Raise unless the reference has an action for every context."""
        if (
            reference.shape != (len(self.contexts),)
            or not ((reference >= 0) & (reference < self.propensities.shape[1])).all()
        ):
            raise InputError(f"the reference must have one action for each of {len(self.contexts)} contexts")

    def values(self, weights: FloatArray) -> FloatArray:
        """Doubly robust scores (m, A) whose sum over a policy's actions is V̂(π) up to a constant factor.

        weights (rounds,): how much each round counts.
        """
        if weights.shape != (self.n_rounds,):
            raise InputError(f"weights must have one number for each of {self.n_rounds} rounds")
        out = np.zeros((len(self.contexts), self.propensities.shape[1]))
        over_cores(
            lambda a, b: _values(
                self.starts,
                self.actions,
                self.rewards,
                self.repeats * weights[self.rounds],
                self.played,
                self.predictions,
                out,
                a,
                b,
            ),
            count=len(self.contexts),
            chunks_per_core=16,
        )
        return out


def _check_alike(contexts: Contexts, first: IntArray) -> None:
    """Raise unless contexts of one id have the same features; first (n,): where each row's id stands first."""
    off = (contexts.features != contexts.features[first]).any(axis=1)
    if contexts.phi is not None:
        off |= contexts.phi.codes != contexts.phi.codes[first]
    if off.any():
        row = int(off.argmax())
        assert contexts.ids is not None
        raise InputError(
            f"rows {first[row]} and {row} have the context id {contexts.ids[row]} but different features; ids must "
            "name contexts, not people or sessions: leave them out"
        )


@kernel
def _gaps(
    starts: IntArray,
    actions: IntArray,
    rewards: FloatArray,
    repeats: FloatArray,
    mixture: FloatArray,
    predictions: FloatArray,
    reference: IntArray,
    gaps: FloatArray,
    squares: FloatArray,
    start: int,
    stop: int,
) -> None:
    for c in range(start, stop):
        q = reference[c]
        for i in range(starts[c], starts[c + 1]):
            a = actions[i]
            base = predictions[i, q] + ((rewards[i] - predictions[i, q]) / mixture[c, q] if a == q else 0.0)
            for x in range(predictions.shape[1]):
                if x != q:
                    f = predictions[i, x]
                    gap = base - f - ((rewards[i] - f) / mixture[c, x] if a == x else 0.0)
                    gaps[c, x] += repeats[i] * gap
                    squares[c, x] += repeats[i] * gap**2


@kernel
def _centre(mean: float, stake: float) -> float:
    """g(f, k): the control variate that makes a bet on an action of this mean grow fastest."""
    if stake > 1e6:
        return 1.0
    if stake < 1e-6:
        return mean
    left = 0.5 * ((1.0 - stake) + math.sqrt((1.0 - stake) ** 2 + 4.0 * mean * stake))
    return min(max(1.0 - (1.0 - left) / stake, mean), 1.0)


@kernel
def _log_wealth(
    starts: IntArray,
    actions: IntArray,
    rewards: FloatArray,
    repeats: FloatArray,
    rounds: IntArray,
    played: FloatArray,
    propensities: FloatArray,
    predictions: FloatArray,
    reference: IntArray,
    bets: FloatArray,
    caps: FloatArray,
    epsilon: float,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    n_actions = propensities.shape[1]
    for c in range(start, stop):
        q = reference[c]
        for i in range(starts[c], starts[c + 1]):
            bet, cap = float(bets[rounds[i]]), float(caps[rounds[i]])
            a, r = actions[i], rewards[i]
            stake = bet / max(propensities[i, q], 1e-12)
            low = min(1.0 - _centre(1.0 - predictions[i, q], stake), propensities[i, q] * cap)
            base = low + ((r - low) / played[i] if a == q else 0.0)
            for x in range(n_actions):
                if x == q:
                    out[c, x] += repeats[i] * math.log1p(bet * epsilon)
                else:
                    stake = bet / max(propensities[i, x], 1e-12)
                    high = max(_centre(predictions[i, x], stake), 1.0 - propensities[i, x] * cap)
                    score = high + ((r - high) / played[i] if a == x else 0.0) - base
                    out[c, x] += repeats[i] * math.log1p(bet * (epsilon - score))


@kernel
def _values(
    starts: IntArray,
    actions: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    played: FloatArray,
    predictions: FloatArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    for c in range(start, stop):
        for i in range(starts[c], starts[c + 1]):
            for x in range(predictions.shape[1]):
                out[c, x] += weights[i] * predictions[i, x]
            a = actions[i]
            out[c, a] += weights[i] * (rewards[i] - predictions[i, a]) / played[i]
