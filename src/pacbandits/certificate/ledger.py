"""A ledger: a log with its predictions, sorted by context, from which the wealth of every policy is computed at once.

For a pair (π, q), a row with context c, played action a, reward r and propensities p gives the score

    X(π) = f₁(c, π) − f₂(c, q) + (r − f₁)/p · 1{π = a} − (r − f₂)/p · 1{q = a}     when π(c) ≠ q(c), else 0
    f₁ = max(g(f, λ/p), 1 − p·M),   f₂ = min(1 − g(1 − f, λ/p), p·M)               (f a prediction, M a cap)

If rows also move weight between leaders, Z = X(π) + Σ_j c_j X(q_j) replaces X (see `pacbandits.certificate.leaders`),
and M = share/(λ(1 + Σ c_j)) − 1, the sum over leaders that act otherwise than q on this context, keeps `λZ` below 1: at
most `share` if M > 0, and λ(1 + Σ c_j) otherwise.

The score is unbiased for V(π) − V(q) for all f₁ and f₂ that were fixed before the row, and never exceeds 1 + M however
small p is: the cap acts through the control variate, not on the score. An action that is never played (p = 0) gets
f₁ = 1, which can only raise the score of π.

Unbiased means: on average over the action that is drawn. So f₁ and f₂ may depend only on what is known before the draw.
If a log has the propensity of the played action alone, that is a minimum propensity b ≤ p, declared beforehand: b
replaces p in f₁ and f₂, and the weights 1/p remain. X ≤ 1 + M still, as (1 − f₁)/p ≤ (1 − f₁)/b ≤ M; and b = 0 is
always valid, with f₁ = 1 and f₂ = 0.

The best control variate for a bet λ is not the mean f itself but the g that maximises the expected logarithm of the
factor of a reward of mean f played with probability p, for small λ and any stake k = λ/p,

    k(μ − g) + f log(1 − k(1 − g)) + (1 − f) log(1 + kg),

whose maximiser does not depend on μ: with w = ((1 − k) + √((1 − k)² + 4fk))/2, g = 1 − (1 − w)/k. For small stakes that
is f, which minimises the variance; for large ones it moves to where a single reward cannot ruin the expert.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.leaders import MIN_MIXTURE_WEIGHT, NOBODY, Leaders
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, RememberingClass
from pacbandits.records import Chosen, Contexts, Log, Mixture, Policy
from pacbandits.records.columns import unlike

# A lower bound on the logarithm that is the same to the last bit on every processor and on a CUDA card.
#
# Libraries of logarithms differ in the last bit. This function uses only sums, products and one quotient of doubles,
# which IEEE 754 rounds the same everywhere, in a fixed order and without fused products; `logarithm.cu` has the same
# operations in the same order.
#
# For x = 2^k m with m between √½ and √2, up to rounding, and s = (m − 1)/(m + 1),
#
#     log x = k log 2 + 2s + 2s³/3 + 2s⁵/5 + … + 2s²¹/21 + R.
#
# Let y be the computed value, and u = 2^−53, the largest relative error of an operation.
#
# - R: |s| < 0.1716, so that |R| ≤ 2|s|²³/(23(1 − s²)) < 2^−61.
# - log m: m − 1 is exact. The sum m + 1, the quotient and the last product have an error of u each; in the sum of
#   powers, which is between 2 and 2.03, the last two steps have u each, and all before them, which come to 0.03, 0.2u.
#   Together these are 5.2u of log m, which is at most 0.347 in absolute value: 1.8u.
# - k log 2: `LN2_HIGH` has 32 bits, so that its product with k is exact. That of `LN2_LOW` is below 2^−22, with an
#   error of 2^−75. Its sum with log m has an error of 0.4u.
# - x: if it is 1 + b, a rounded sum, log x has an error of u.
# - The sum of both parts has an error of u|y|, and so has each later operation: the subtraction here, that of a caller,
#   and the product with the number of repeats of a row.
#
# The total is less than 4u + 4u|y|, which is subtracted.


SLACK = 2.0**-51  # of 1 + |log x|
ROOT_HALF = 0.7071067811865476
LN2_HIGH = 0.6931471803691238  # the first 32 bits of log 2
LN2_LOW = 1.9082149292705877e-10  # the rest of it
DIGITS = 52  # mantissa bits of a double
DIGIT_BITS = 2**DIGITS - 1  # the mask of the mantissa
HALF_BITS = 1022 << DIGITS  # the exponent of one half: with any mantissa, a number in [½, 1)


@kernel
def log_below(x: float) -> float:
    """Return a lower bound on log x, less by 2^−50 (1 + |log x|) at the most, for 2^−1000 < x < 2^1000.

    −∞ if x is not positive, or not a number.
    """
    if not x > 0.0:
        return -np.inf
    bits = np.float64(x).view(np.int64)
    k = (bits >> DIGITS) - 1022
    m = np.int64(bits & DIGIT_BITS | HALF_BITS).view(np.float64)
    if m < ROOT_HALF:
        m += m
        k -= 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    w = z * z
    odd = ((((2.0 / 19.0) * w + 2.0 / 15.0) * w + 2.0 / 11.0) * w + 2.0 / 7.0) * w + 2.0 / 3.0
    even = (((((2.0 / 21.0) * w + 2.0 / 17.0) * w + 2.0 / 13.0) * w + 2.0 / 9.0) * w + 2.0 / 5.0) * w + 2.0
    twos = float(k)
    y = twos * LN2_HIGH + (twos * LN2_LOW + s * (odd * z + even))
    return y - SLACK * (1.0 + abs(y))


# The rows of a ledger in the form that kernels take, and their sums over the rows of each context for every action.
# Kernels stand in the file of their record: compiled code is cached until its own file changes, and it depends on the
# order of the record's fields.


class Against(NamedTuple):
    """The comparator of scores: the leaders, by their actions.

    actions (L, m): of every leader on every context.
    turns (rounds,): the leader of each round; -1 for none.
    moves (rounds, L): the weight that a row takes from each leader, as a share of its stake.
    """

    actions: IntArray
    turns: IntArray
    moves: FloatArray


class LedgerRows(NamedTuple):
    """Rows of a log sorted by context: rows starts[c] to starts[c + 1] belong to context c of the m distinct ones.

    starts (m + 1,): the first row of each context; last, the number of rows.
    actions (n,): the played actions.
    rewards (n,): their rewards; NaN if pending.
    repeats (n,): the weight of a row: its number of repeats, or 1/m for each of m visits of a unit.
    rounds (n,): the round of a row, counted from 0 without gaps.
    played (n,): the propensity of the played action.
    propensities (n, A): the propensities for caps and control variates; if the log has those of played actions alone,
        the minimum propensities.
    predictions (n, A): made before the round of a row.
    """

    starts: IntArray
    actions: IntArray
    rewards: FloatArray
    repeats: FloatArray
    rounds: IntArray
    played: FloatArray
    propensities: FloatArray
    predictions: FloatArray


@kernel
def room_above(mean: float, stake: float) -> float:
    """Return 1 − g(f, k) for the control variate g that maximises the growth of a bet on an action of this mean.

    Not g: divided by a small propensity, the rounding error of 1 − g would be more than a cap allows.
    """
    # The limits of the formula, which would lose all its digits for stakes so large or small.
    if stake > 1e6:
        return 0.0
    if stake < 1e-6:
        return 1.0 - mean
    left = 0.5 * ((1.0 - stake) + math.sqrt((1.0 - stake) ** 2 + 4.0 * mean * stake))
    return max(min((1.0 - left) / stake, 1.0 - mean), 0.0)


@kernel
def add_log_wealth(
    rows: LedgerRows,
    against: Against,
    bets: FloatArray,
    share: float,
    epsilon: float,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Add `log(1 + λ(ε − Z))` to out (m, A), with the λ (rounds,) of each round; for contexts start to stop.

    The logarithm is rounded down, and the same to the last bit on a card (`log_below`). A pending reward counts at its
    worst, which is the same for every policy: Z is linear in r, and is largest at r = 0 if q played a, as each X has
    −r/p or no term in r, and at r = 1 otherwise, as each has r/p or none.
    """
    p, f = rows.propensities, rows.predictions
    high = np.empty(p.shape[1])
    for c in range(start, stop):
        for i in range(rows.starts[c], rows.starts[c + 1]):
            t = rows.rounds[i]
            bet, turn = float(bets[t]), against.turns[t]
            if bet == 0.0 or turn < 0:
                continue
            q, a, r = against.actions[turn, c], rows.actions[i], rows.rewards[i]
            if math.isnan(r):
                r = 0.0 if a == q else 1.0
            moved = 0.0
            for j in range(against.actions.shape[0]):
                if against.moves[t, j] > 0.0 and against.actions[j, c] != q:
                    moved += against.moves[t, j]
            cap = max(share / (bet * (1.0 + moved)) - 1.0, 0.0)
            low = min(room_above(1.0 - f[i, q], bet / max(p[i, q], 1e-12)), p[i, q] * cap)
            base = low + ((r - low) / rows.played[i] if a == q else 0.0)
            for x in range(p.shape[1]):
                room = min(room_above(f[i, x], bet / max(p[i, x], 1e-12)), p[i, x] * cap)
                high[x] = 1.0 - room
                if a == x:
                    high[x] += (room - (1.0 - r)) / rows.played[i]
            high[q] = base
            gained = epsilon
            if moved > 0.0:
                for j in range(against.actions.shape[0]):
                    gained -= against.moves[t, j] * (high[against.actions[j, c]] - base)
            for x in range(p.shape[1]):
                out[c, x] += rows.repeats[i] * log_below(1.0 + bet * (gained - (high[x] - base)))


@kernel
def add_gaps(
    rows: LedgerRows,
    mixture: FloatArray,
    reference: IntArray,
    gaps: FloatArray,
    squares: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Add to gaps and squares (m, A) the doubly robust gaps against the reference, and their squares.

    mixture (m, A): propensities that replace those of each row. For contexts start to stop.
    """
    f = rows.predictions
    for c in range(start, stop):
        q = reference[c]
        for i in range(rows.starts[c], rows.starts[c + 1]):
            a, r = rows.actions[i], rows.rewards[i]
            base = f[i, q] + ((r - f[i, q]) / mixture[c, q] if a == q else 0.0)
            for x in range(f.shape[1]):
                if x != q:
                    gap = base - f[i, x] - ((r - f[i, x]) / mixture[c, x] if a == x else 0.0)
                    gaps[c, x] += rows.repeats[i] * gap
                    squares[c, x] += rows.repeats[i] * gap**2


@kernel
def add_values(rows: LedgerRows, weights: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    """Add to out (m, A) the doubly robust values of actions, rows weighted (n,); for contexts start to stop."""
    f = rows.predictions
    for c in range(start, stop):
        for i in range(rows.starts[c], rows.starts[c + 1]):
            for x in range(f.shape[1]):
                out[c, x] += weights[i] * f[i, x]
            a = rows.actions[i]
            out[c, a] += weights[i] * (rows.rewards[i] - f[i, a]) / rows.played[i]


@kernel
def add_differences(
    rows: LedgerRows, weights: FloatArray, reference: IntArray, squared: bool, out: FloatArray, start: int, stop: int
) -> None:
    """Add to out (m, A) the doubly robust differences to the reference, or their squares, rows weighted (n,).

    For contexts start to stop.
    """
    f = rows.predictions
    for c in range(start, stop):
        q = reference[c]
        for i in range(rows.starts[c], rows.starts[c + 1]):
            a, r = rows.actions[i], rows.rewards[i]
            base = f[i, q] + ((r - f[i, q]) / rows.played[i] if a == q else 0.0)
            for x in range(f.shape[1]):
                if x != q:
                    score = f[i, x] + ((r - f[i, x]) / rows.played[i] if a == x else 0.0) - base
                    out[c, x] += weights[i] * (score * score if squared else score)


# Weight that rows move between leaders, and the policy that is certified in the end.


MAX_WHOLE = 2.0**62  # the largest score of a row, as a whole number, in sums of these
MAX_WEIGHT_ROUNDING = 1e-12  # of the sum of all weights


class AnyAgainst(Protocol):
    """The comparator of scores, with or without the actions of its leaders.

    turns (rounds,): the leader of each round; -1 for none.
    moves (rounds, L): the weight that a row takes from each leader, as a share of its stake.
    """

    @property
    def turns(self) -> IntArray: ...
    @property
    def moves(self) -> FloatArray: ...


def plan_moves(leaders: Leaders, *, units: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the share of its stake that a row takes from each leader (rounds, L), and final weights (L,).

    Weight is taken first from the leaders that have not led for longest, or evenly from all if the leader has settled.
    The amount is fixed before a round, by its planned size and the actual sizes of earlier rounds.

    units (rounds,): stakes, up to a factor. counts (rounds,): the number of interactions of each round.
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
    """Return the same as `plan_moves` if the leader has settled.

    From the settled round on, each row moves the share that leaves earlier leaders no weight after the planned number
    of rows.
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
    """Return the policy that these weights (L,) certify, and the slack that it costs.

    V* < ε + Σ_j (u_j/Λ) V(q_j). With G the policies that are kept and w = Σ_G u_j/Λ, the sum is at most
    `w V(G) + Σ_{j ∉ G} max(u_j, 0)/Λ ≤ V(G) + max(w − 1, 0) + Σ_{j ∉ G} max(u_j, 0)/Λ`.
    """
    shares = weights / weights.sum()
    kept = [int(np.argmax(shares))] if leaders.single else np.flatnonzero(shares >= MIN_MIXTURE_WEIGHT).tolist()
    held = float(shares[kept].sum())
    slack = max(held - 1.0, 0.0) + float(np.maximum(np.delete(shares, kept), 0.0).sum())
    slack = slack if slack > MAX_WEIGHT_ROUNDING else 0.0
    if len(kept) == 1:
        return leaders.policies[kept[0]], slack
    drawn = tuple(float(share) for share in shares[kept] / held)
    return Mixture(tuple(leaders.policies[j] for j in kept), drawn), slack


def alone(rounds: int) -> tuple[IntArray, FloatArray]:
    """Return turns and moves of a single policy that leads in all rounds."""
    return np.zeros(rounds, dtype=np.int64), np.zeros((rounds, 1))


class AnyLedger(Protocol):
    """A ledger: rows in memory (`Ledger`), or sums over rows (`summed.ledger.SummedLedger`)."""

    @property
    def contexts(self) -> Contexts: ...
    @property
    def n_rounds(self) -> int: ...
    @property
    def round_sizes(self) -> FloatArray: ...

    def searched(self, policies: PolicyClass) -> PolicyClass:
        """Return the class to search for the least refuted policy by this ledger's scores."""
        ...

    def against(self, policies: Sequence[Policy], turns: IntArray, moves: FloatArray) -> AnyAgainst:
        """Return the comparator of scores: policies that lead in turns (rounds,), and moves (rounds, L) of weight."""
        ...

    def log_wealths(
        self, against: AnyAgainst, *, stakes: Sequence[FloatArray], share: float, epsilon: float
    ) -> list[FloatArray]:
        """Return scores that sum to the log-wealth of experts with these stakes (rounds,) each."""
        ...


@dataclass(frozen=True, eq=False)
class Ledger:
    """A log by context.

    contexts: the m distinct contexts.
    rows: the rows of the log, sorted by context, with their predictions.
    """

    contexts: Contexts
    rows: LedgerRows

    @property
    def n_actions(self) -> int:
        return self.rows.propensities.shape[1]

    @property
    def n_rounds(self) -> int:
        return int(self.rows.rounds.max()) + 1

    @property
    def samples(self) -> int:
        """The number of interactions, or of units."""
        return round(self.rows.repeats.sum())

    @property
    def counts(self) -> FloatArray:
        """The number of occurrences of each context (m,)."""
        return np.add.reduceat(self.rows.repeats, self.rows.starts[:-1])

    @property
    def mean_propensities(self) -> FloatArray:
        """The mean propensities (m, A) of each context over all rounds."""
        rows = self.rows
        return np.add.reduceat(rows.repeats[:, None] * rows.propensities, rows.starts[:-1]) / self.counts[:, None]

    @classmethod
    def of(cls, log: Log, predictions: FloatArray) -> Ledger:
        """Return the ledger of a log; predictions (n, A) were made before each row's round.

        Pending rewards lower the wealth of every policy. Values and gaps need a log without them.
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
        rows = LedgerRows(
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
        """The number of interactions, or of units, of each round (rounds,)."""
        return np.rint(np.bincount(self.rows.rounds, weights=self.rows.repeats, minlength=self.n_rounds))

    def searched(self, policies: PolicyClass) -> PolicyClass:
        """Return the class; one without an exact oracle or a list is wrapped to remember the policies it finds."""
        known = policies.exact or policies.lists_policies
        return policies if known else RememberingClass(policies, self.contexts)

    def log_wealth(self, against: Against, *, bets: FloatArray, share: float, epsilon: float) -> FloatArray:
        """Return scores (m, A) that sum to `Σ_i log(1 + λ(ε − Z_i(π)))` over a policy's actions.

        against: the comparator. bets (rounds,): λ of each round. share: the largest λ(1 + M), below 1.
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
        """Return the comparator of scores: policies that lead in turns (rounds,), and moves (rounds, L) of weight."""
        shape = len(policies), len(self.contexts)
        actions = np.array([policy(self.contexts) for policy in policies], dtype=np.int64).reshape(shape)
        return Against(actions, turns, moves)

    def log_wealths(
        self, against: AnyAgainst, *, stakes: Sequence[FloatArray], share: float, epsilon: float
    ) -> list[FloatArray]:
        """Return `log_wealth` of several experts, by their bets (rounds,) each."""
        assert isinstance(against, Against)
        return [self.log_wealth(against, bets=bets, share=share, epsilon=epsilon) for bets in stakes]

    def gaps(self, mixture: FloatArray, *, reference: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return scores (m, A) that sum to a policy's estimated gap to the reference (m,), and to its squared error.

        Doubly robust differences, with the propensities (m, A) of all rounds mixed: as if every row had been played by
        a round drawn at random, so that no round's rare actions weigh more than the others' common ones. If the rounds'
        predictions differ, this has a small bias; gaps are used to choose policies, never to certify.
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
        """Return doubly robust scores (m, A) whose sum over a policy's actions is V̂(π) up to a constant factor.

        weights (rounds,): the weight of each round.
        """
        if weights.shape != (self.n_rounds,):
            raise InputError(f"weights must have one number for each of {self.n_rounds} rounds")
        self._check_in()
        of_rows, out = self.rows.repeats * weights[self.rows.rounds], self._zeros()
        over_cores(lambda a, b: add_values(self.rows, of_rows, out, a, b), count=len(self.contexts), chunks_per_core=16)
        return out

    def _check_against(self, against: Against) -> None:
        """Raise InputError unless leaders have an action for every context, and rounds a leader or none."""
        leaders = len(against.actions)
        for actions in against.actions:
            self._check(actions)
        shapes = against.turns.shape == (self.n_rounds,) and against.moves.shape == (self.n_rounds, leaders)
        if not shapes or not ((against.turns >= NOBODY) & (against.turns < leaders)).all():
            raise InputError(f"each of {self.n_rounds} rounds must be led by one of {leaders} policies, or by nobody")
        if not (against.moves >= 0).all():
            raise InputError("no negative weight moves between leaders")

    def _check(self, reference: IntArray) -> None:
        """Raise InputError unless the reference has an action for every context."""
        if reference.shape != (len(self.contexts),) or not ((reference >= 0) & (reference < self.n_actions)).all():
            raise InputError(f"the reference must have one action for each of {len(self.contexts)} contexts")

    def _check_in(self) -> None:
        """Raise InputError if a reward is pending: choices must not depend on rows without rewards."""
        if np.isnan(self.rows.rewards).any():
            raise InputError("values and gaps are of rows whose rewards are in; lay out those alone (log.rows_in())")

    def _zeros(self) -> FloatArray:
        return np.zeros((len(self.contexts), self.n_actions))


def _check_alike(contexts: Contexts, first: IntArray) -> None:
    """Raise InputError unless contexts of one id have the same features; first (n,): the first row of each id."""
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
