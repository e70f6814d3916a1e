"""The leaders of the rounds of a large log.

While all rows so far are early ones, which are in memory, leaders are chosen as in a small log. Later a leader is
chosen by a pass over all rows so far: when it settles, with another pass to simplify it, or else when they have
doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.certificate.choosing import (
    DOUBT_STANDARD_ERRORS,
    LEADING_GROWTH_FACTOR,
    MAX_CHOOSING_EPSILON,
    MIN_CHOOSING_EPSILON,
    Choices,
    favourite_scores,
    is_clear,
    lead_after,
    lead_rounds,
    marked_down,
)
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.summed.ledger import SummedLedger
from pacbandits.policies.base import PolicyClass, total
from pacbandits.records import Contexts, Log, Policy

MAX_PARTS = 64  # leaves of a tree that is simplified
LATE_GROWTH_FACTOR = 2.0  # growth of the data after which a leader is chosen again by passes over all rows


Settle = Callable[[int, Policy, Callable[[Policy], float]], Policy]


class Leading:
    """The choice of leaders for a large log.

    early: the early rows, numbered by round.
    predictions (n, A): for these.
    ledger: computes sums over all rows.
    policies: the class.
    single: whether all weight has to end at one policy.
    settled: the round from which on the leader stays, if there is one.
    """

    def __init__(
        self,
        early: Log,
        predictions: FloatArray,
        ledger: SummedLedger,
        policies: PolicyClass,
        *,
        single: bool,
        settled: int | None,
    ) -> None:
        self.early, self.predictions, self.ledger, self.policies = early, predictions, ledger, policies
        self.single, self.settled = single, settled

    def lead(self, *, sizes: Sequence[int], spared: int, settle: Settle | None = None) -> Leaders:
        """Return the leaders of all rounds.

        sizes (rounds,): the planned size of each. spared: the number of rounds that only teach. settle: returns the
        leader to use instead, given the number of a round, the chosen leader and a function that scores policies by the
        rows before it; for verification.
        """
        seen = np.concatenate([[0.0], np.cumsum(self.ledger.round_sizes)])

        late = LATE_GROWTH_FACTOR if self.settled is None else np.inf
        growth = [
            LEADING_GROWTH_FACTOR if self._all_early(number, self.early.rounds < number) else late
            for number in range(len(sizes))
        ]

        def known(number: int) -> Contexts:
            before = self.early.rounds < number
            return self.early.contexts.take(np.flatnonzero(before)) if before.any() else self.early.contexts

        return lead_rounds(
            Choices(seen, growth, self.choose, known),
            sizes=sizes,
            spared=spared,
            single=self.single,
            settled=self.settled,
            settle=None if settle is None else lambda i, chosen, led: settle(i, chosen, self._worth(led, i)),
        )

    def _all_early(self, number: int, early: BoolArray) -> bool:
        """Return whether all rows before a round are early ones."""
        return bool(self.early.weights[early].sum() == self.ledger.round_sizes[:number].sum())

    def choose(self, leader: Policy | None, number: int) -> Policy:
        """Return the leader from a round on, given the leader before."""
        before = self.early.rounds < number
        simple = self.settled is not None
        if leader is None or self._all_early(number, before):
            rows = np.flatnonzero(before)
            if not rows.size:  # no early row comes before the round
                return self.policies.argmax(self.early.contexts, np.zeros((len(self.early), self.policies.n_actions)))
            part = self.early.take(rows)
            laid = Ledger.of(part, self.predictions[rows])
            return lead_after(part, laid, self.policies, leader, single=self.single, simple=simple)
        return self._choose_late(leader, number, simple=simple)

    def _worth(self, led: Policy | None, number: int) -> Callable[[Policy], float]:
        """Return the function that scores policies by the rows before a round; led: the leader until then."""
        before = self.early.rounds < number

        def worth(policy: Policy) -> float:
            if self.policies.checks_membership and not self.policies.has(policy):
                return -np.inf
            if led is None or self._all_early(number, before):
                rows = np.flatnonzero(before)
                part = self.early.take(rows)
                laid = Ledger.of(part, self.predictions[rows])
                scores, _ = favourite_scores(laid, self.policies, all_propensities=part.least is None)
                return total(scores, policy(laid.contexts))
            gaps, squares, epsilon = self._compared(led, number)
            scores = marked_down(gaps, squares, epsilon=epsilon)
            return self.ledger.summing.policies.attained(self.ledger.contexts, scores, policy)

        return worth

    def _compared(self, leader: Policy, number: int) -> tuple[FloatArray, FloatArray, float]:
        """Return gaps of all policies to the leader, squares of their errors, and ε, the scale of their penalty."""
        ledger = self.ledger
        gaps, squares = ledger.gaps(leader, before=number)
        typical = float(np.sqrt(ledger.summing.totals(squares).mean()))
        return gaps, squares, min(max(typical, MIN_CHOOSING_EPSILON), MAX_CHOOSING_EPSILON)

    def _choose_late(self, leader: Policy, number: int, *, simple: bool) -> Policy:
        """Return the leader from a round on by all rows before it, through the engine."""
        ledger, searched = self.ledger, self.ledger.summing.policies
        gaps, squares, epsilon = self._compared(leader, number)
        favourite = searched.argmax(ledger.contexts, marked_down(gaps, squares, epsilon=epsilon))
        advantage = -searched.attained(ledger.contexts, gaps, favourite)
        error = float(np.sqrt(max(searched.attained(ledger.contexts, squares, favourite), 0.0)))
        favourite = self._simplified(favourite, number) if simple else favourite
        return favourite if is_clear(advantage, error, epsilon=epsilon, single=self.single) else leader

    def _simplified(self, favourite: Policy, number: int) -> Policy:
        """Return the simplest policy that the rows before a round cannot distinguish from the favourite.

        The favourite itself, if the class cannot simplify, or a part of the contexts has no early row.
        """
        if not self.policies.divides_contexts:
            return favourite
        parts = self.policies.parts(favourite, self.early.contexts)
        found, first = np.unique(parts, return_index=True)
        n_parts = int(parts.max(initial=0)) + 1
        if len(found) < n_parts or n_parts < 2:
            return favourite
        losses, squares = self.ledger.part_gaps(self.policies, favourite, before=number, n_parts=MAX_PARTS)
        return self.policies.simplest(
            favourite,
            self.early.contexts.take(first),
            losses[:n_parts],
            squares[:n_parts],
            standard_errors=DOUBT_STANDARD_ERRORS,
        )
