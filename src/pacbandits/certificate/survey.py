"""A log after its first reading: the interface that `certify` uses, and its implementation for a log in memory.

`pacbandits.certificate.certify` is written against `LogSurvey`, which has two implementations: `LogInMemory` uses
floats, every row has its own prediction, and any policy class is supported; `summed.survey.Surveyed` adds up whole
numbers over the blocks of a source through an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.choosing import end_that_pays, find_favourite, lead_log
from pacbandits.certificate.conventions import (
    arrange,
    has_rounds,
    rearrange,
    settling_round,
    sizes_beforehand,
    worth_leading,
)
from pacbandits.certificate.intervals import RowWeighing
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.ledger import AnyLedger, Ledger
from pacbandits.certificate.stakes import Stakes
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.certificate.worth import Decided, Weighable, Weighing
from pacbandits.policies.base import PolicyClass, check_memory
from pacbandits.policies.trees.classes import single_actions
from pacbandits.records import Log, Policy
from pacbandits.records.log import digest_log
from pacbandits.rewards import RewardModel, predict_by_round


class LaidOut(NamedTuple):
    """A log with predictions and leaders, ready for bets.

    ledger: computes the wealth of policies.
    leaders: the leaders of rounds; None if the proof is a union over all policies.
    favourite: returns the policy that all rows favour; its argument ε scales the penalty for errors, for rewards in [0,
        1].
    """

    ledger: AnyLedger
    leaders: Leaders | None
    favourite: Callable[[float], Policy]


class LogSurvey(Weighable, Protocol):
    """A log after its first reading.

    facts: the facts that a certificate records about the rows that count.
    rows: the number of rows of the log as it was given.
    watched: the rows on which the assumptions are tested.
    early: the rows that may teach a reward model, numbered by round.
    shuffled: whether rows were shuffled.
    has_rounds: whether the log has rounds of its own.
    in_order: whether rows were cut into blocks by their order, or after a shuffle.
    limits: the row limits of a certificate by sums; None for floats.
    """

    @property
    def rows(self) -> int: ...
    @property
    def limits(self) -> RowLimits | None: ...
    @property
    def digest(self) -> str: ...

    def lay_out(
        self, learnt: LearntClass, *, model: RewardModel, single: bool, led: bool, always: bool = False
    ) -> LaidOut:
        """Predict rewards and choose leaders.

        single: certify a single policy, not a mixture. led: whether there may be leaders, as for ε > 0. always: whether
        a small class has leaders, too.
        """
        ...

    def lead_single_actions(self, learnt: LearntClass, *, model: RewardModel, single: bool) -> Leaders:
        """Return the leaders among the policies that give everybody one action; the log must have an order."""
        ...

    def first_rounds(self, learnt: LearntClass, *, epsilon: float) -> LogSurvey | None:
        """Return the first rounds, if they may prove more as later rewards are pending; ε: for rewards in [0, 1]."""
        ...


@dataclass(frozen=True, eq=False)
class LogInMemory:
    """A log in memory, whose wealth is sums of floats.

    watched: the log as it was read.
    early: the same, cut into blocks if it has an order; sorted by content if contents chose the rows that taught.
    facts: the same with the rows that taught the class as a round of their own.
    predicted: predictions for its rows, by the reward model.
    by_metric: the survey with a metric as the reward, by its name and the number that a ratio is tested at.
    """

    watched: Log
    early: Log
    facts: Log
    rows: int
    shuffled: bool
    has_rounds: bool
    in_order: bool
    limits: None = None
    predicted: dict[str, FloatArray] = field(default_factory=dict[str, FloatArray], repr=False)
    by_metric: dict[tuple[str, float | None], LogInMemory] = field(
        default_factory=dict[tuple[str, float | None], "LogInMemory"], repr=False
    )

    @classmethod
    def arranged(cls, log: Log, *, ordered: bool, shuffle: bool) -> LogInMemory:
        """Return the log in an order for sequential learning."""
        blocks, shuffled = arrange(log, ordered=ordered, shuffle=shuffle)
        rounds = has_rounds(log)
        return cls(log, blocks, blocks, len(log), shuffled, rounds, in_order=blocks is not log and not rounds)

    @classmethod
    def certified(cls, certificate: Certificate, log: Log) -> LogInMemory:
        """Return the rows of a log as a certificate of it counts them."""
        c, part = certificate, certificate.of(log)
        blocks = rearrange(part, ordered=c.ordered, shuffle=c.shuffled, by_content=c.by_content)
        made = cls(part, blocks, blocks, len(part), c.shuffled, has_rounds(part), c.ordered)
        return made.set_apart(c.learning)

    def set_apart(self, learning: Learning | None) -> LogInMemory:
        """Return the survey with the rows that taught the class as a round of their own."""
        if learning is None:
            return self
        early = learning.arrange(self.early)
        predicted = self.predicted if early is self.early else {}
        return replace(self, early=early, facts=learning.set_apart(early), predicted=predicted, by_metric={})

    @property
    def digest(self) -> str:
        return digest_log(self.facts)

    @property
    def counts(self) -> FloatArray:
        return self.facts.round_sizes

    @property
    def rows_by_round(self) -> FloatArray:
        counts = np.bincount(np.unique(self.facts.rounds, return_inverse=True)[1], weights=self.facts.repeats)
        return counts.astype(np.float64)

    def predict_early(self, model: RewardModel) -> FloatArray:
        key = str(model.to_json())
        if key not in self.predicted:
            self.predicted[key] = predict_by_round(self.early, model)
        return self.predicted[key]

    def for_metric(self, name: str, *, ratio: float | None = None) -> LogInMemory:
        if (name, ratio) not in self.by_metric:
            own = {part: getattr(self, part).for_metric(name, ratio=ratio) for part in ("watched", "early", "facts")}
            self.by_metric[name, ratio] = replace(self, **own, predicted={}, by_metric={})
        return self.by_metric[name, ratio]

    def lay_out(
        self, learnt: LearntClass, *, model: RewardModel, single: bool, led: bool, always: bool = False
    ) -> LaidOut:
        blocks, cut, policies = self.early, self.facts, learnt.policies
        predictions = self.predict_early(model)
        ledger = Ledger.of(cut, predictions)
        check_memory(policies, len(ledger.contexts))
        leaders = None
        if led and (always or worth_leading(policies)) and has_rounds(blocks):
            leaders = self._lead(policies, predictions, spared=learnt.spared, single=single)
        informed: Ledger | None = ledger
        if cut.awaited.any():
            part = cut.rows_in()
            informed = None if part is None else Ledger.of(part, predictions[~cut.awaited])

        def favourite(epsilon: float) -> Policy:
            if informed is None:
                return policies.argmax(ledger.contexts, np.zeros((len(ledger.contexts), policies.n_actions)))
            return find_favourite(informed, policies, epsilon=epsilon or None, all_propensities=cut.least is None)

        return LaidOut(ledger, leaders, favourite)

    def _lead(self, policies: PolicyClass, predictions: FloatArray, *, spared: int, single: bool) -> Leaders:
        blocks = self.early
        return lead_log(
            blocks,
            predictions,
            policies,
            sizes=sizes_beforehand(blocks, in_order=self.in_order, shuffled=self.shuffled),
            spared=spared,
            single=single and not self.shuffled,
            settled=settling_round(blocks, spared) if self.shuffled else None,
        )

    def lead_single_actions(self, learnt: LearntClass, *, model: RewardModel, single: bool) -> Leaders:
        policies = single_actions(self.early.n_actions)
        return self._lead(policies, self.predict_early(model), spared=learnt.spared, single=single)

    def first_rounds(self, learnt: LearntClass, *, epsilon: float) -> LogInMemory | None:
        end = end_that_pays(self.watched, epsilon=epsilon)
        if end is None:
            return None
        part = self.watched.only(self.watched.rounds < end)
        if len(np.unique(part.rounds)) <= learnt.spared:
            return None
        return self.arranged(part, ordered=False, shuffle=False).set_apart(learnt.learning)

    def weigh(self, decided: Decided, stakes: Stakes, model: RewardModel) -> Weighing:
        rounds = np.unique(self.facts.rounds, return_inverse=True)[1]
        # Leaders first, then the policies whose weight moves: the last bit of floats depends on the order.
        gains, losses = (decided._replace(shares=cut(decided.shares, 0.0)) for cut in (np.maximum, np.minimum))
        weights, counted = losses.weights(self.facts, rounds, onto=gains.weights(self.facts, rounds)[0])
        return RowWeighing(self.facts, self.predict_early(model), weights, stakes, counted)
