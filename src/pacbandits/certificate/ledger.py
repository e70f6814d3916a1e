"""A log with its predictions, laid out for the wealth of every policy at once.

For a pair (π, q), a row with context c, played action a, reward r and propensities p gives the score

    X(π) = f₁(c, π) − f₂(c, q) + (r − f₁)/p · 1{π = a} − (r − f₂)/p · 1{q = a}     when π(c) ≠ q(c), else 0
    f₁ = max(g(f, λ/p), 1 − p·M),   f₂ = min(1 − g(1 − f, λ/p), p·M)               (f a prediction, M a cap)

Where rows also move weight between leaders, Z = X(π) + Σ_j c_j X(q_j) takes the place of X (see
`pacbandits.certificate.leaders`), and M = share/(λ(1 + Σ c_j)) − 1, the sum over leaders that act otherwise than q on
this context, keeps `λZ` below 1: no more than `share` of it where M > 0, and λ(1 + Σ c_j) elsewhere.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.leaders import NOBODY
from pacbandits.certificate.moving import AnyAgainst
from pacbandits.certificate.rows import Against, Rows, add_gaps, add_log_wealth, add_values
from pacbandits.compiled import over_cores
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, RememberingClass
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.missing import unlike


class AnyLedger(Protocol):
    """What the wealth of policies is asked of: rows in memory (`Ledger`), or sums over rows (`summed.SummedLedger`)."""

    @property
    def contexts(self) -> Contexts: ...
    @property
    def n_rounds(self) -> int: ...
    @property
    def round_sizes(self) -> FloatArray: ...

    def searched(self, policies: PolicyClass) -> PolicyClass:
        """The class as it is asked for the least refuted policy by this ledger's scores."""
        ...

    def against(self, policies: Sequence[Policy], turns: IntArray, moves: FloatArray) -> AnyAgainst:
        """What policies are scored against: these, who lead in turns (rounds,) and give up moves (rounds, L)."""
        ...

    def log_wealths(
        self, against: AnyAgainst, *, stakes: Sequence[FloatArray], share: float, epsilon: float
    ) -> list[FloatArray]:
        """Scores that sum to the log-wealth of experts with these stakes (rounds,) each."""
        ...


@dataclass(frozen=True, eq=False)
class Ledger:
    """A log by context.

    contexts: the m distinct ones.
    rows: of the log, sorted by context, with their predictions.
    """

    contexts: Contexts
    rows: Rows

    @property
    def n_actions(self) -> int:
        return self.rows.propensities.shape[1]

    @property
    def n_rounds(self) -> int:
        return int(self.rows.rounds.max()) + 1

    @property
    def samples(self) -> int:
        """How many interactions there are, or units."""
        return round(self.rows.repeats.sum())

    @property
    def counts(self) -> FloatArray:
        """How often each context occurred (m,)."""
        return np.add.reduceat(self.rows.repeats, self.rows.starts[:-1])

    @property
    def mean_propensities(self) -> FloatArray:
        """The propensities (m, A) of each context, rounds taken together."""
        rows = self.rows
        return np.add.reduceat(rows.repeats[:, None] * rows.propensities, rows.starts[:-1]) / self.counts[:, None]

    @classmethod
    def of(cls, log: Log, predictions: FloatArray) -> Ledger:
        """Lay out a log; predictions (n, A) were made before each row's round.

        Rewards that are not in lower the wealth of every policy. Values and gaps are of rows whose rewards are in.
        """
        if ((log.rewards < 0) | (log.rewards > 1)).any():
            low, high = np.nanmin(log.rewards), np.nanmax(log.rewards)
            raise InputError(f"rewards must lie in [0, 1], but they range from {low:.6g} to {high:.6g}; rescale them")
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
        rows = Rows(
            starts=np.concatenate([[0], np.cumsum(np.bincount(which))]).astype(np.int64),
            actions=log.actions[order],
            rewards=log.rewards[order],
            repeats=log.weights[order],
            rounds=rounds[order].astype(np.int64),
            played=log.played_propensities[order],
            propensities=np.ascontiguousarray(log.bounds[order]),
            predictions=np.ascontiguousarray(predictions[order]),
        )
        return cls(log.contexts if ids is None else log.contexts.take(first), rows)

    @property
    def round_sizes(self) -> FloatArray:
        """How many interactions each round had (rounds,), or units."""
        return np.rint(np.bincount(self.rows.rounds, weights=self.rows.repeats, minlength=self.n_rounds))

    def searched(self, policies: PolicyClass) -> PolicyClass:
        """The class, which remembers what it finds out about these contexts."""
        known = policies.exact or policies.lists_policies
        return policies if known else RememberingClass(policies, self.contexts)

    def log_wealth(self, against: Against, *, bets: FloatArray, share: float, epsilon: float) -> FloatArray:
        """Scores (m, A) that sum to `Σ_i log(1 + λ(ε − Z_i(π)))` over a policy's actions.

        against: what policies are scored against. bets (rounds,): λ of each round. share: how near λ(1 + M) comes to 1.
        """
        self._check_against(against)
        if bets.shape != (self.n_rounds,):
            raise InputError(f"bets must have one number for each of {self.n_rounds} rounds")
        boldest = bets * (1.0 + against.moves.sum(axis=1))
        if not ((bets >= 0) & (boldest < 1.0)).all() or not 0 < share < 1 or not epsilon >= 0:
            raise InputError(
                "bets and epsilon must not be negative, and a single row must not be able to ruin an expert"
            )
        out = self._zeros()
        over_cores(
            lambda a, b: add_log_wealth(self.rows, against, bets, share, epsilon, out, a, b),
            count=len(self.contexts),
            chunks_per_core=16,
        )
        return out

    def against(self, policies: Sequence[Policy], turns: IntArray, moves: FloatArray) -> Against:
        """What policies are scored against: these, who lead in turns (rounds,) and give up moves (rounds, L)."""
        shape = len(policies), len(self.contexts)
        actions = np.array([policy(self.contexts) for policy in policies], dtype=np.int64).reshape(shape)
        return Against(actions, turns, moves)

    def log_wealths(
        self, against: AnyAgainst, *, stakes: Sequence[FloatArray], share: float, epsilon: float
    ) -> list[FloatArray]:
        """The same as `log_wealth` of several experts, by their bets (rounds,) each."""
        assert isinstance(against, Against)
        return [self.log_wealth(against, bets=bets, share=share, epsilon=epsilon) for bets in stakes]

    def gaps(self, mixture: FloatArray, *, reference: IntArray) -> tuple[FloatArray, FloatArray]:
        """Scores (m, A) that sum to a policy's estimated gap against the reference (m,), and to its squared error.

        Doubly robust differences, with the propensities (m, A) of all rounds mixed: as if every row had been played by
        a round drawn at random, so that no round's rare actions weigh more than the others' common ones. Where the
        rounds' predictions differ this has a small bias; it serves to choose, never to certify.
        """
        self._check(reference)
        self._check_in()
        if mixture.shape != (len(self.contexts), self.n_actions):
            raise InputError(f"mixed propensities must have a row for each of {len(self.contexts)} contexts")
        gaps, squares = self._zeros(), self._zeros()
        over_cores(
            lambda a, b: add_gaps(self.rows, mixture, reference, gaps, squares, a, b),
            count=len(self.contexts),
            chunks_per_core=16,
        )
        return gaps / self.samples, squares / self.samples**2

    def values(self, weights: FloatArray) -> FloatArray:
        """Doubly robust scores (m, A) whose sum over a policy's actions is V̂(π) up to a constant factor.

        weights (rounds,): how much each round counts.
        """
        if weights.shape != (self.n_rounds,):
            raise InputError(f"weights must have one number for each of {self.n_rounds} rounds")
        self._check_in()
        of_rows, out = self.rows.repeats * weights[self.rows.rounds], self._zeros()
        over_cores(lambda a, b: add_values(self.rows, of_rows, out, a, b), count=len(self.contexts), chunks_per_core=16)
        return out

    def _check_against(self, against: Against) -> None:
        """Raise unless leaders have an action for every context, and rounds a leader and what it takes from each."""
        leaders = len(against.actions)
        for actions in against.actions:
            self._check(actions)
        shapes = against.turns.shape == (self.n_rounds,) and against.moves.shape == (self.n_rounds, leaders)
        if not shapes or not ((against.turns >= NOBODY) & (against.turns < leaders)).all():
            raise InputError(f"each of {self.n_rounds} rounds must be led by one of {leaders} policies, or by nobody")
        if not (against.moves >= 0).all():
            raise InputError("no negative weight moves between leaders")

    def _check(self, reference: IntArray) -> None:
        """Raise unless the reference has an action for every context."""
        if reference.shape != (len(self.contexts),) or not ((reference >= 0) & (reference < self.n_actions)).all():
            raise InputError(f"the reference must have one action for each of {len(self.contexts)} contexts")

    def _check_in(self) -> None:
        """Raise unless all rewards are in: what is chosen by must not know of rows without."""
        if np.isnan(self.rows.rewards).any():
            raise InputError("values and gaps are of rows whose rewards are in; lay out those alone (log.rows_in())")

    def _zeros(self) -> FloatArray:
        return np.zeros((len(self.contexts), self.n_actions))


def _check_alike(contexts: Contexts, first: IntArray) -> None:
    """Raise unless contexts of one id have the same features; first (n,): where each row's id stands first."""
    off = unlike(contexts.features, contexts.features[first])
    if contexts.phi is not None:
        off |= contexts.phi.codes != contexts.phi.codes[first]
    if off.any():
        row = int(off.argmax())
        assert contexts.ids is not None
        raise InputError(
            f"rows {first[row]} and {row} have the context id {contexts.ids[row]} but different features; ids must "
            "name contexts, not people or sessions: leave them out"
        )
