"""The leaders of rounds, and the mixture policy that their bets certify.

Before every round t a policy q_t is fixed, the leader of the data so far, and a stake λ_t. Let X_t(π) be the score of π
against q_t, and Y_t that of the mixture q̄_t of earlier leaders, both for a row of round t, and c_t ≥ 0 a number fixed
before it. With `Z_t(π) = X_t(π) + c_t Y_t`,

    M = Π_t (1 − λ_t Z_t(π)) / (1 − λ_t E Z_t(π))                           over all rows

is a nonnegative martingale, so that for π* (which is fixed) it ever reaches 1/δ with probability at most δ. As
1 − x ≤ e^−x, a wealth `Π_t (1 − λ_t Z_t(π*)) e^{λ_t ε} ≥ 1/δ` then implies `Σ_t λ_t(ε − E Z_t(π*)) > 0`, which is

    V(π*) − Σ_j (u_j/Λ) V(q_j) < ε,     Λ = Σ_t λ_t,     u_j = Σ_{t: q_t = q_j} λ_t(1 + c_t) − Σ_t λ_t c_t q̄_t(j).

M does not depend on ε, so this holds for all ε and at all times together. (For one policy the gap to π* is a number,
and a union tests the wealth `Π_t (1 + λ_t(ε − X_t))` against that number alone. The gap of the mixture is another
number after every round, by chance, and its wealth could not be tied to a single M.)

π* is unknown, but refuting every policy refutes it. So the mixture that draws leader j with probability u_j/Λ is within
ε of the best, for any leaders and any number of policies: no log|Π| is paid, and every row counts from the first leader
on. Several experts whose stakes are in proportion share one mixture, and their mean wealth serves.

Without c_t this is an average over all leaders, the early and poor ones included. Each row of a later round may take
some of their weight and give it to the current leader, at the price of comparing them: where both act alike, Y_t is 0
and that is free. Weight is taken first from the leaders that have not led for longest, so that in the end few policies
are left, often a single one.

If a single policy is wanted, all weight has to end at it, and after a late change of leaders that takes as many rows
again as there were before. It is often cheaper to drop the earlier rows: the proof may also restart in a round with a
new leader, and bet on nothing before. Each start has its own part of δ (`pacbandits.confidence.start_part`), and there
is one only if the data have doubled since the last, so that there are few.

If the number of rows is known, all this is easier: after about half of them the leader stays, and each later row moves
the same share of the earlier leaders' weight, so that at the end all weight is at a policy that was chosen from more
data than an average leader was (`settled`). That proves about as much as the mixture.

Dropped weights, and those that were taken too often as a round had more rows than planned, cost their size, as values
lie in [0, 1]: `slack` is added to ε.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.confidence import start_part
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Policy

MIXTURE_MOVING = 0.3  # the weight that a row moves, as a share of its stake; more costs more than early leaders do
SINGLE_MOVING = 1.0  # the same if all weight has to end at one policy
MAX_MOVING = 1.0  # with the largest stake, scores then cannot ruin an expert
MIN_MIXTURE_WEIGHT = 1e-6  # of a policy that is kept in a mixture
MAX_SLACK = 0.1  # with more, nothing is claimed
START_GROWTH_FACTOR = 2.0  # growth of the data since the last start that a new start needs
NOBODY = -1  # the leader of a round before which no data were known


@dataclass(frozen=True, eq=False)
class Leaders:
    """The leaders of all rounds.

    policies: the leaders, each once, in the order in which they first led.
    turns (rounds,): the leader of each round; -1 for none.
    sizes (rounds,): the planned number of interactions of each round.
    moving: the weight that a row may move, as a share of its stake.
    start: the round, counted from 0, before which no leader counts.
    settled: the round from which on the leader stays and weight moves, evenly until the end; None if leaders may
        always change, and weight moves all the time.
    cross_validated: whether the size of a settled leader was chosen by cross-validation; else by pruning.
    """

    policies: tuple[Policy, ...] = ()
    turns: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    moving: float = MIXTURE_MOVING
    start: int = 0
    settled: int | None = None
    cross_validated: bool = False

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.turns) or not all(size >= 1 for size in self.sizes):
            raise InputError("leaders need a planned size, 1 or more, for every round")
        if not all(NOBODY <= turn < len(self.policies) for turn in self.turns):
            raise InputError(
                f"one of {len(self.policies)} leaders must lead in each round, or nobody; got {self.turns}"
            )
        if not 0 <= self.moving <= MAX_MOVING:
            raise InputError(f"the weight that moves must be a share from 0 to {MAX_MOVING:g}, got {self.moving}")
        if not 0 <= self.start <= len(self.turns):
            raise InputError(f"leaders of {len(self.turns)} rounds cannot start in round {self.start}")
        if self.settled is not None and (self.settled < 0 or len(set(self.turns[self.settled :])) > 1):
            raise InputError(f"the leader of round {self.settled + 1} has to stay, as it has settled")

    @property
    def single(self) -> bool:
        """Whether all weight is meant to end at one policy."""
        return self.moving == SINGLE_MOVING or self.settled is not None

    @property
    def restarts(self) -> bool:
        """Whether the proof may also restart in a round with a new leader."""
        return self.single and self.settled is None

    @property
    def counted(self) -> tuple[int, ...]:
        """The leader of each round, as far as it counts; -1 for none."""
        return (NOBODY,) * self.start + self.turns[self.start :]

    def starts(self, counts: FloatArray) -> tuple[int, ...]:
        """Return the rounds in which a proof may start; counts (rounds,): the number of interactions of each.

        Whether a round is a start is known before it.
        """
        found, last, seen = [0], np.inf, 0.0
        for number, ((before, turn), count) in enumerate(zip(pairwise((NOBODY, *self.turns)), counts, strict=True)):
            if turn != NOBODY:
                last = min(last, seen)
            if self.restarts and turn not in (NOBODY, before) and seen > 0 and seen >= START_GROWTH_FACTOR * last:
                found.append(number)
                last = seen
            seen += float(count)
        return tuple(found)

    def part(self, counts: FloatArray) -> float:
        """Return the share of δ for this start; counts (rounds,): the number of interactions of each round."""
        starts = self.starts(counts)
        if self.start not in starts:
            raise InputError(f"a proof may not start in round {self.start + 1}: its leader is not a new one")
        return start_part(starts.index(self.start)) if self.restarts else 1.0

    @property
    def last(self) -> Policy | None:
        """The leader of the last round; None if it had none."""
        return None if not self.turns or self.turns[-1] == NOBODY else self.policies[self.turns[-1]]

    def followed_by(self, policy: Policy | None, contexts: Contexts, *, size: int) -> Leaders:
        """Return the leaders with one more round, led by the policy or an earlier leader that acts alike.

        contexts: known before that round. size: its planned number of interactions.
        """
        turn, policies = NOBODY, self.policies
        if policy is not None:
            own = policy(contexts)
            alike = (j for j, other in enumerate(policies) if np.array_equal(other(contexts), own))
            turn = next(alike, len(policies))
            policies = policies if turn < len(policies) else (*policies, policy)
        return replace(self, policies=policies, turns=(*self.turns, turn), sizes=(*self.sizes, size))
