"""The leaders of rounds, and the lottery between them that their bets certify.

Before every round t a policy q_t is fixed, the leader of the data so far, and a stake λ_t. Let X_t(π) be the score of π
against q_t, and Y_t that of the lottery q̄_t between earlier leaders, both of a row of round t, c_t ≥ 0 a number fixed
before it. With `Z_t(π) = X_t(π) + c_t Y_t`,

    M = Π_t (1 − λ_t Z_t(π)) / (1 − λ_t E Z_t(π))                           over all rows

is a nonnegative martingale, so that for π* (which is fixed) it ever reaches 1/δ with probability at most δ. As
1 − x ≤ e^−x, a wealth `Π_t (1 − λ_t Z_t(π*)) e^{λ_t ε} ≥ 1/δ` then implies `Σ_t λ_t(ε − E Z_t(π*)) > 0`, which is

    V(π*) − Σ_j (u_j/Λ) V(q_j) < ε,     Λ = Σ_t λ_t,     u_j = Σ_{t: q_t = q_j} λ_t(1 + c_t) − Σ_t λ_t c_t q̄_t(j).

M knows nothing of ε, so that this holds for all ε and at all times together. (Of one policy the gap to π* is a number,
and the wealth `Π_t (1 + λ_t(ε − X_t))` against that number alone is what a union asks about. What is left to gain by
the lottery is another number after every round, by chance, and its wealth could not be tied to a single M.)

π* is unknown, but refuting every policy refutes it. So the lottery that draws leader j with probability u_j/Λ is within
ε of the best, whatever the leaders were and however many policies there are: no log|Π| is paid, and every row counts
since the first leader. Several experts whose stakes are in proportion share one lottery, and their mean wealth serves.

Without c_t this is an average over all leaders, the early and poor ones included. Each row of a later round may take
some of their weight and give it to the leader of today, at the price of comparing them: where both act alike, Y_t is 0
and that is free. Weight is taken from those who have not led for longest, so that in the end few policies are left, and
often a single one.

Where a single policy is wanted, all weight has to end at it, and after a late change of leaders that takes as many rows
again as there were before. It is often cheaper to forget them: the proof may also start anew in a round whose leader is
a new one, and bet on nothing before. Each start has its own part of δ (`pacbandits.confidence.start_part`), and there
is one only where the data have doubled since the last, so that there are few.

Where it is known how many rows there will be, all this is easier: after about half of them the leader stays, and each
later row moves the same share of what the earlier leaders weigh, so that at the end all weight is at a policy that was
chosen from more data than an average leader was (`settled`). That proves about as much as the lottery.

Weights that are dropped, and those that were taken too often as a round had more rows than planned, cost what they
weigh, as values lie in [0, 1]: `slack` is added to ε.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.confidence import start_part
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Policy

LOTTERY_MOVING = 0.3  # of what a row stakes, the weight that it moves; more costs more than early leaders do
SINGLE_MOVING = 1.0  # where all weight has to end at one policy
MAX_MOVING = 1.0  # with the largest stake scores stay below what ruins an expert
MIN_LOTTERY_WEIGHT = 1e-6  # of a policy that is kept in a lottery
MAX_SLACK = 0.1  # more, and nothing is claimed
START_GROWTH_FACTOR = 2.0  # by which the data have grown since the last start when a new leader makes another
NOBODY = -1  # leads in a round before which nothing was seen


@dataclass(frozen=True, eq=False)
class Leaders:
    """Who led in which round.

    policies: each once, in the order in which they first led.
    turns (rounds,): which of them led; -1 where nobody did.
    sizes (rounds,): how many interactions each round was planned to have.
    moving: the weight that a row may move, as a share of its stake.
    start: the round, counted from 0, before which no leader counts.
    settled: the round from which on the leader stays and weight moves, evenly until the end; None where leaders may
        always change, and weight moves all the time.
    """

    policies: tuple[Policy, ...] = ()
    turns: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    moving: float = LOTTERY_MOVING
    start: int = 0
    settled: int | None = None

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
        """Whether the proof may also start anew where a new policy leads."""
        return self.single and self.settled is None

    @property
    def counted(self) -> tuple[int, ...]:
        """Which of the policies led in each round, as far as that counts; -1 where nobody did."""
        return (NOBODY,) * self.start + self.turns[self.start :]

    def starts(self, counts: FloatArray) -> tuple[int, ...]:
        """The rounds in which a proof may start; counts (rounds,): how many interactions each had.

        Whether there is a start is known before its round.
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
        """Of δ, what there is for this start; counts (rounds,): how many interactions each round had."""
        starts = self.starts(counts)
        if self.start not in starts:
            raise InputError(f"a proof may not start in round {self.start + 1}: its leader is not a new one")
        return start_part(starts.index(self.start)) if self.restarts else 1.0

    @property
    def last(self) -> Policy | None:
        """Who led last."""
        return None if not self.turns or self.turns[-1] == NOBODY else self.policies[self.turns[-1]]

    def followed_by(self, policy: Policy | None, contexts: Contexts, *, size: int) -> Leaders:
        """The same with one more round, of so many interactions, led by this policy, or one that acts alike.

        contexts: known before that round.
        """
        turn, policies = NOBODY, self.policies
        if policy is not None:
            own = policy(contexts)
            alike = (j for j, other in enumerate(policies) if np.array_equal(other(contexts), own))
            turn = next(alike, len(policies))
            policies = policies if turn < len(policies) else (*policies, policy)
        return replace(self, policies=policies, turns=(*self.turns, turn), sizes=(*self.sizes, size))
