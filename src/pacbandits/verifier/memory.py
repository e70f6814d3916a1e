"""The rows of a log in memory, arranged as a certificate states."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log
from pacbandits.records.digest import digest_log
from pacbandits.rewards import RewardModel, predict_by_round
from pacbandits.verifier.figures import LeaderBook
from pacbandits.verifier.order import (
    has_rounds,
    order_log,
    planned_sizes,
    set_teaching_rows_apart,
    settling_round,
)
from pacbandits.verifier.rule import fewest_to_teach
from pacbandits.verifier.wealth import Wealth, log_wealth, weights_of


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """The rows of a log in memory.

    early: all rows in their order. told: the same with the rows that taught the class as a round of their own, which
    bets go by. n_rows: before they were arranged. ordered, shuffled: as of the certificate. predictions (n, A): if a
    reward model was given.
    """

    early: Log
    told: Log
    n_rows: int
    digest: str
    ordered: bool
    shuffled: bool
    predictions: FloatArray

    late = None
    rounding = 0.0

    @property
    def n_actions(self) -> int:
        return self.told.n_actions

    @property
    def rounds(self) -> IntArray:
        """The round (n,) of each row by which bets go, from 0."""
        return np.unique(self.told.rounds, return_inverse=True)[1]

    @property
    def counts(self) -> FloatArray:
        return np.rint(np.bincount(self.rounds, weights=weights_of(self.told)))

    @property
    def labels(self) -> IntArray:
        return np.unique(self.early.rounds)

    @property
    def has_order(self) -> bool:
        return has_rounds(self.early)

    @property
    def sizes(self) -> tuple[int, ...]:
        return planned_sizes(self.counts, self.early.n_units, ordered=self.ordered, shuffled=self.shuffled)

    def settling_round(self, spared: int) -> int | None:
        return settling_round(self.early.n_units, spared=spared) if self.shuffled else None

    def with_model(self, model: RewardModel) -> MemoryRows:
        """Return the rows with the predictions of a reward model, fitted on the rows known before each round."""
        return replace(self, predictions=predict_by_round(self.early, model))

    def wealth(self, c: Certificate, book: LeaderBook, policies: PolicyClass, *, epsilon: float) -> Wealth:
        """Return the log-wealth of all rows against every policy."""
        found = log_wealth(c, book, self.told, self.rounds, self.predictions, epsilon=epsilon)
        return Wealth(policies, self.told.contexts, [np.ascontiguousarray(one) for one in found.transpose(1, 0, 2)])


def arrange_rows(c: Certificate, log: Log) -> MemoryRows:
    """Return the rows of a log as the certificate arranges them."""
    early = order_log(log, ordered=c.ordered, shuffled=c.shuffled)
    learning = c.learning if c.learning is not None and c.learning.spared else None
    told = early if learning is None else set_teaching_rows_apart(early, fewest=fewest_to_teach(learning.spec))
    return MemoryRows(early, told, len(log), digest_log(told), c.ordered, c.shuffled, np.zeros((0, 0)))
