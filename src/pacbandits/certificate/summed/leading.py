"""The leaders of the rounds of a large log.

While all rows so far are early ones, which are in memory, leaders are chosen as in a small log. Later a leader is
chosen by a pass over all rows so far: when it settles, with another pass to prune it, or else when they have doubled. A
leader that settles in a simpler class, by cross-validation on the early rows, is chosen by these rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.certificate.choosing import (
    DOUBT_STANDARD_ERRORS,
    LEADING_GROWTH_FACTOR,
    MAX_CHOOSING_EPSILON,
    MIN_CHOOSING_EPSILON,
    Choices,
    is_clear,
    lead_after,
    lead_rounds,
    marked_down,
    validated_class,
)
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.summed.ledger import SummedLedger
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log, Policy

MAX_PARTS = 64  # leaves of a tree that is simplified
LATE_GROWTH_FACTOR = 2.0  # growth of the data after which a leader is chosen again by passes over all rows


class Leading:
    """The choice of leaders for a large log.

    early: the early rows, numbered by round.
    predictions (n, A): for these.
    ledger: computes sums over all rows; None to choose by the early rows alone.
    counts (rounds,): the interactions of each round.
    policies: the class.
    single: whether all weight has to end at one policy.
    settled: the round from which on the leader stays, if there is one.
    """

    def __init__(
        self,
        early: Log,
        predictions: FloatArray,
        ledger: SummedLedger | None,
        policies: PolicyClass,
        *,
        counts: FloatArray,
        single: bool,
        settled: int | None,
    ) -> None:
        self.early, self.predictions, self.ledger, self.policies = early, predictions, ledger, policies
        self.counts = counts
        self.single, self.settled = single, settled
        self.cross_validated = settled is not None and bool(policies.simpler())

    def lead(self, *, sizes: Sequence[int], spared: int) -> Leaders:
        """Return the leaders of all rounds.

        sizes (rounds,): the planned size of each. spared: the number of rounds that only teach.
        """
        seen = np.concatenate([[0.0], np.cumsum(self.counts)])

        late = LATE_GROWTH_FACTOR if self.settled is None else np.inf
        growth = [
            LEADING_GROWTH_FACTOR if self._all_early(number, self.early.rounds < number) else late
            for number in range(len(sizes))
        ]

        def known(number: int) -> Contexts:
            before = self.early.rounds < number
            return self.early.contexts.take(np.flatnonzero(before)) if before.any() else self.early.contexts

        return lead_rounds(
            Choices(seen, growth, self.choose, known, cross_validated=self.cross_validated),
            sizes=sizes,
            spared=spared,
            single=self.single,
            settled=self.settled,
        )

    def _all_early(self, number: int, early: BoolArray) -> bool:
        """Return whether all rows before a round are early ones."""
        return bool(self.early.weights[early].sum() == self.counts[:number].sum())

    def choose(self, leader: Policy | None, number: int) -> Policy:
        """Return the leader from a round on, given the leader before."""
        before = self.early.rounds < number
        simple = self.settled is not None
        if leader is None or self.ledger is None or self._all_early(number, before):
            rows = np.flatnonzero(before)
            if not rows.size:  # no early row comes before the round
                return self.policies.argmax(self.early.contexts, np.zeros((len(self.early), self.policies.n_actions)))
            part, own = self.early.take(rows), self.predictions[rows]
            return lead_after(part, own, self.policies, leader, single=self.single, simple=simple)
        if self.cross_validated:
            rows = np.flatnonzero(before)
            part, own = self.early.take(rows), self.predictions[rows]
            searched = validated_class(part, own, self.policies)
            if searched is not self.policies:
                return lead_after(part, own, self.policies, leader, single=False, simple=True, searched=searched)
        return self._choose_late(self.ledger, leader, number, simple=simple)

    def _choose_late(self, ledger: SummedLedger, leader: Policy, number: int, *, simple: bool) -> Policy:
        """Return the leader from a round on by all rows before it, through the engine."""
        searched = ledger.summing.policies
        gaps, squares = ledger.gaps(leader, before=number)
        typical = float(np.sqrt(ledger.summing.totals(squares).mean()))
        epsilon = min(max(typical, MIN_CHOOSING_EPSILON), MAX_CHOOSING_EPSILON)
        favourite = searched.argmax(ledger.contexts, marked_down(gaps, squares, epsilon=epsilon))
        advantage = -searched.attained(ledger.contexts, gaps, favourite)
        error = float(np.sqrt(max(searched.attained(ledger.contexts, squares, favourite), 0.0)))
        favourite = self._simplified(ledger, favourite, number) if simple else favourite
        return favourite if is_clear(advantage, error, epsilon=epsilon, single=self.single) else leader

    def _simplified(self, ledger: SummedLedger, favourite: Policy, number: int) -> Policy:
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
        losses, squares = ledger.part_gaps(self.policies, favourite, before=number, n_parts=MAX_PARTS)
        return self.policies.simplest(
            favourite,
            self.early.contexts.take(first),
            losses[:n_parts],
            squares[:n_parts],
            standard_errors=DOUBT_STANDARD_ERRORS,
        )
