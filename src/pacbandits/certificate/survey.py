"""A log after it was read for the first time: what `certify` asks of it, and the answers of a log in memory.

`pacbandits.certificate.certify` and `pacbandits.certificate.evaluation` are written against `LogSurvey`. There are two
of them: `LogInMemory` works with floats, every row has a prediction of its own and any policy class will do;
`summed.laying.Surveyed` adds up whole numbers over the blocks of a source, wherever these are, through an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.bets import Bets
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
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.learning import LearntClass, learn_arranged
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.ledger import AnyLedger, Ledger
from pacbandits.certificate.summed.limits import Limits
from pacbandits.certificate.told import ToldOfLog
from pacbandits.certificate.values import RowWeighing
from pacbandits.certificate.worth import Decided, Weighing
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.costs import check_memory
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.digest import digest_log
from pacbandits.rewards import RewardModel, predict_by_round


class LaidOut(NamedTuple):
    """A log with predictions and leaders, ready to be bet on.

    ledger: what is asked for the wealth of policies.
    leaders: of the rounds; None where the proof is a union over all policies.
    favourite: returns the policy that all rows favour; ε is what errors are counted by, of rewards in [0, 1].
    """

    ledger: AnyLedger
    leaders: Leaders | None
    favourite: Callable[[float], Policy]


class LogSurvey(Protocol):
    """A log after it was read for the first time.

    shuffled: whether rows were shuffled.
    limits: by which a log was certified by sums; None for floats.
    """

    @property
    def shuffled(self) -> bool: ...
    @property
    def limits(self) -> Limits | None: ...
    @property
    def facts(self) -> ToldOfLog:
        """What a certificate records of the rows that count."""
        ...

    @property
    def rows(self) -> int:
        """How many rows the log has as it was given."""
        ...

    @property
    def n_actions(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def watched(self) -> Log:
        """The rows in which signs against the assumptions are looked for."""
        ...

    @property
    def early(self) -> Log:
        """The rows that may teach a reward model, numbered by round."""
        ...

    @property
    def has_rounds(self) -> bool:
        """Whether the log has rounds of its own."""
        ...

    @property
    def in_order(self) -> bool:
        """Whether rows were cut into blocks by their order, or after a shuffle."""
        ...

    @property
    def counts(self) -> FloatArray:
        """How many interactions, or units, each round has (rounds,)."""
        ...

    @property
    def rows_by_round(self) -> FloatArray:
        """How many interactions each round has (rounds,), those of units too."""
        ...

    def learn(self, policies: PolicyClass | LearntClass | str, contexts: Contexts | None) -> LearntClass:
        """Learn the class from contexts or the first rows, if it was asked for by its name."""
        ...

    def set_apart(self, learning: Learning | None) -> Self:
        """The same with the rows that taught the class as a round of their own."""
        ...

    def lay_out(self, learnt: LearntClass, *, model: RewardModel, single: bool, led: bool) -> LaidOut:
        """Predict rewards and choose leaders.

        single: whether a mixture of policies will not do. led: whether there may be leaders, as where ε > 0.
        """
        ...

    def first_rounds(self, learnt: LearntClass, *, epsilon: float) -> Self | None:
        """The first rounds, if these may prove more as rewards of later ones are missing; ε: of rewards in [0, 1]."""
        ...

    def weigh(self, decided: Decided, bets: Bets, model: RewardModel, *, needed: float) -> Weighing:
        """Return what intervals are made from; needed: about what log-wealth a bound takes."""
        ...


@dataclass(frozen=True, eq=False)
class LogInMemory:
    """A log in memory, whose wealth is sums of floats.

    log: as it was read.
    blocks: the same, cut into blocks if it has an order.
    cut: the same with rows that taught the class as a round of their own.
    shuffled: whether rows were shuffled.
    """

    log: Log
    blocks: Log
    cut: Log
    shuffled: bool
    limits: None = None

    @classmethod
    def arranged(cls, log: Log, *, ordered: bool, shuffle: bool) -> LogInMemory:
        """The log in the order in which it can be learnt from."""
        blocks, shuffled = arrange(log, ordered=ordered, shuffle=shuffle)
        return cls(log, blocks, blocks, shuffled)

    @classmethod
    def certified(cls, certificate: Certificate, log: Log) -> LogInMemory:
        """The rows of a log as they counted for a certificate of it."""
        c, part = certificate, certificate.of(log)
        blocks = rearrange(part, ordered=c.ordered, shuffle=c.shuffled)
        return cls(part, blocks, blocks, c.shuffled).set_apart(c.learning)

    @property
    def facts(self) -> Log:
        return self.cut

    @property
    def rows(self) -> int:
        return len(self.log)

    @property
    def n_actions(self) -> int:
        return self.log.n_actions

    @property
    def watched(self) -> Log:
        return self.log

    @property
    def early(self) -> Log:
        return self.blocks

    @cached_property
    def digest(self) -> str:
        return digest_log(self.cut)

    @property
    def has_rounds(self) -> bool:
        return has_rounds(self.log)

    @property
    def in_order(self) -> bool:
        return self.blocks is not self.log and not self.has_rounds

    @property
    def counts(self) -> FloatArray:
        return self.cut.round_sizes

    @property
    def rows_by_round(self) -> FloatArray:
        return np.bincount(np.unique(self.cut.rounds, return_inverse=True)[1], weights=self.cut.repeats)

    def learn(self, policies: PolicyClass | LearntClass | str, contexts: Contexts | None) -> LearntClass:
        if isinstance(policies, str):
            return learn_arranged(policies, self.blocks, contexts)
        return policies if isinstance(policies, LearntClass) else LearntClass(policies, None)

    def set_apart(self, learning: Learning | None) -> LogInMemory:
        return self if learning is None else replace(self, cut=learning.set_apart(self.blocks))

    def lay_out(self, learnt: LearntClass, *, model: RewardModel, single: bool, led: bool) -> LaidOut:
        blocks, cut, policies = self.blocks, self.cut, learnt.policies
        predictions = predict_by_round(blocks, model)
        ledger = Ledger.of(cut, predictions)
        check_memory(policies, len(ledger.contexts))
        spared, leaders = learnt.spared, None
        if led and worth_leading(policies) and has_rounds(blocks):
            leaders = lead_log(
                blocks,
                predictions,
                policies,
                sizes=sizes_beforehand(blocks, in_order=self.in_order, shuffled=self.shuffled),
                spared=spared,
                single=single and not self.shuffled,
                settled=settling_round(blocks, spared) if self.shuffled else None,
            )
        informed: Ledger | None = ledger
        if cut.awaited.any():
            part = cut.rows_in()
            informed = None if part is None else Ledger.of(part, predictions[~cut.awaited])

        def favourite(epsilon: float) -> Policy:
            if informed is None:
                return policies.argmax(ledger.contexts, np.zeros((len(ledger.contexts), policies.n_actions)))
            return find_favourite(informed, policies, epsilon=epsilon or None, all_propensities=cut.least is None)

        return LaidOut(ledger, leaders, favourite)

    def first_rounds(self, learnt: LearntClass, *, epsilon: float) -> LogInMemory | None:
        end = end_that_pays(self.log, epsilon=epsilon)
        if end is None:
            return None
        part = self.log.only(self.log.rounds < end)
        if len(np.unique(part.rounds)) <= learnt.spared:
            return None
        return self.arranged(part, ordered=False, shuffle=False).set_apart(learnt.learning)

    def weigh(self, decided: Decided, bets: Bets, model: RewardModel, *, needed: float) -> Weighing:
        rounds = np.unique(self.cut.rounds, return_inverse=True)[1]
        weights, counted = decided.weights(self.cut, rounds)
        return RowWeighing(self.cut, predict_by_round(self.blocks, model), weights, bets, counted)
