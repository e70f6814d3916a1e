"""The certificate by betting: what was certified of a policy, and every figure needed to check it again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacbandits.certificate.bets import Bets
from pacbandits.certificate.claim import (
    ALIKE,
    APART,
    BEFORE,
    FIXED,
    MAX_STORED_MAGNITUDE,
    Claim,
    Json,
    check_follows,
    read_common,
    reading,
    rounded_up,
)
from pacbandits.certificate.conventions import rearrange
from pacbandits.certificate.leaders import MAX_SLACK, NOBODY, Leaders
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.summed.limits import RELEASED_LIMITS, Limits
from pacbandits.engines.digesting import digest_source
from pacbandits.engines.memory import LogSource
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.policies import policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log
from pacbandits.records.digest import digest_log

MAX_STORED_EXPERTS = 100  # in a file
MAX_STORED_LEADERS = 10_000  # in a file
ASSUMPTIONS = (
    ALIKE,
    APART,
    BEFORE,
    "the logged propensities are those with which actions were drawn",
)
# The first of these where a log tells whose row each is (see `pacbandits.certificate.conventions`), and what it adds.
UNITS_ALIKE = (
    "people, each with all their visits and with what each action would earn in them, are independent draws from one "
    "distribution, first to last (the visits of one person need not be independent of each other)"
)
UNITS_COME = "how often and in what contexts a person came does not depend on what they were given"
UNITS_VALUE = "the value of a policy is its reward averaged over the visits of a person, and then over people"
UNITS_FIRST = "the value of a policy is its reward at the first visit of a person, whose row comes first in the log"
UNITS_END = "when the log ended did not depend on what people had earned"
BETS_FIXED = "predictions and bets were fixed before the round they were used in, by whoever ran the trial"
MODEL_GIVEN = "the reward model was chosen before the log was seen"
ROUNDS = "rounds are numbered in the order in which they occurred, and no row chose its round by its outcome"
ORDERED = "the rows of the log stand in the order in which they occurred"
SHUFFLED = (
    "neither the probability of an action nor when the log ended depended on earlier rows, so that its rows are as "
    "good in any order (they were shuffled)"
)
UNITS_SHUFFLED = (
    "neither the probability of an action nor when the log ended depended on rows of other people, so that people are "
    "as good in any order (they were shuffled, each with all their visits)"
)
LED = "the leader of every round and what weight moves to it were fixed before it, by whoever ran the trial"
SCORE = "capped doubly robust difference, log(1 + bet (epsilon - score))"
LED_SCORE = "capped doubly robust difference, log(1 - bet score) + bet epsilon"
INEXACT = "the argmax oracle, which is not exact, found the least refuted policy"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Certificate(Claim):
    """What betting has proven of a policy: a `Claim`, certified when every policy is refuted at ε, and

    (Where ε is 0, when all are that act otherwise on a context of the log. What others may be ahead by is
    `certified_epsilon` then, 0 where the log has all contexts that there are: `pacbandits.confidence.unseen_share`.)

    value: the log-wealth against the least refuted policy.
    threshold: what that must reach; infinite where a union over a class without a size is asked for.
    bets: what each expert stakes in each round.
    leaders: of the rounds, of whom the policy is a lottery or one; None where the proof is a union over all policies.
    slack: by how much ε is larger than what the wealth speaks of (see `moving.choose`).
    experts: which of them were used.
    share: the weight of the first of two experts; None where the search was exact (see `search.Least`).
    log_size: log|Π|; infinite for a class without a size.
    model: the reward model in JSON.
    exact: whether the argmax oracle is.
    ordered: whether a log of one round was cut into blocks, in the order of its rows.
    shuffled: whether that is the order of its rows after a shuffle.
    by_rule: whether model, bets and leaders follow from the log by the rule of `certify`, so that who verifies can
        derive them again; else they were fixed by whoever ran the trial.
    learning: how the policy class was learnt, if it was asked for by its name.
    units: how many people the interactions are of, by which evidence is counted; None where each is of another.
    summed: whether all is sums of whole numbers over rows, by the rule of `pacbandits.certificate.summed`.
    limits: of rows, by which those sums were made; a file records them unless they are those of the first release.
    """

    kind: ClassVar[str] = "pacbandits certificate"

    value: float
    threshold: float
    bets: Bets
    leaders: Leaders | None
    experts: tuple[int, ...]
    share: float | None
    log_size: float
    model: Json
    exact: bool
    slack: float = 0.0
    ordered: bool = False
    shuffled: bool = False
    by_rule: bool = False
    learning: Learning | None = None
    units: int | None = None
    summed: bool = False
    limits: Limits = RELEASED_LIMITS[0]

    @property
    def independent(self) -> int:
        """How many independent draws there are: people, or interactions where each is of another."""
        return self.samples if self.units is None else self.units

    @property
    def any_time(self) -> bool:
        """Whether the claim holds however often one looks at a log that grows, and whenever one stops."""
        return not self.shuffled and (self.units is None or self.by_rounds or self.ordered)

    @property
    def by_rounds(self) -> bool:
        """Whether the log has rounds of its own."""
        known = self.learning is None or self.learning.in_order
        return len(self.bets.scales) > 1 and not self.ordered and known

    @property
    def counted(self) -> str:
        """What evidence was counted by, in words: interactions, or people and their visits."""
        return count_words(self.samples, self.units)

    @property
    def certified(self) -> bool:
        return bool(self.value >= self.threshold) and self.slack <= MAX_SLACK

    def describe(self) -> str:
        """The claim in a sentence."""
        if self.epsilon > 0 or not self.certified:
            return super().describe()
        sentence = f"{self.proviso}except with probability {self.delta:g} the policy is {self.best}"
        if self.certified_epsilon == 0:
            return f"{sentence}, and no other is as good"
        share, near = (f"{rounded_up(one):.3g}" for one in (self.unit_certified_epsilon, self.certified_epsilon))
        return (
            f"{sentence}, as far as the log can tell: those who are best act as it does on all but a share of {share} "
            f"of contexts, so that it is within {near} of them"
        )

    @property
    def best(self) -> str:
        return super().best if self.learning is None else self.learning.best

    @property
    def assumptions(self) -> tuple[str, ...]:
        learning, trusted = self.learning, not self.by_rule
        in_order = self.by_rounds or self.ordered
        basis = basic_assumptions(units=self.units is not None, shuffled=self.shuffled, in_order=in_order)
        asked = (
            (FIXED if learning is None else learning.assumption, True),
            (ROUNDS, self.by_rounds),
            (ORDERED, self.ordered and not self.shuffled),
            (SHUFFLED if self.units is None else UNITS_SHUFFLED, self.shuffled),
            (BETS_FIXED, trusted),
            (LED, trusted and self.leaders is not None),
            (INEXACT, not self.exact),
        )
        return (*basis, self.within, *(words for words, needed in asked if needed), *self.remarks)

    def of(self, log: Log) -> Log:
        """The rows of a log that the claim is of, if it went on since: the first ones.

        Where rewards come late, with those alone that were in before the round in which the claim was made, if there is
        one of which it is.
        """
        part = super().of(log)
        if log.known is None or self._is_of(part):
            return part
        for number in np.unique(log.known[log.known >= 0]):
            then = log.as_of(int(number))
            if then is not None and len(then) >= self.rows and self._is_of(then := super().of(then)):
                return then
        return part

    def is_of(self, log: Log) -> bool:
        """Whether this is the log it was made from, which may have gone on since."""
        return self._is_of(self.of(log))

    def _is_of(self, log: Log) -> bool:
        """Whether these are the very rows it was made from."""
        if self.summed:
            return digest_source(LogSource(log)) == self.digest
        if self.ordered and log.known is not None:  # of a file that was altered: late rewards have no such order
            return False
        cut = rearrange(log, ordered=self.ordered, shuffle=self.shuffled)
        return digest_log(cut if self.learning is None else self.learning.set_apart(cut)) == self.digest

    def figures(self) -> Json:
        return {
            "value": self.value,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "log_size": self.log_size if math.isfinite(self.log_size) else None,
            "score": SCORE if self.leaders is None else LED_SCORE,
            "multipliers": list(self.bets.multipliers),
            "scales": list(self.bets.scales),
            "cap_share": self.bets.share,
            "experts": list(self.experts),
            "expert_share": self.share,
            "leaders": None if self.leaders is None else leaders_to_json(self.leaders),
            "slack": self.slack,
            "spared_rounds": self.bets.spared,
            "by_rule": self.by_rule,
            "learning": None if self.learning is None else self.learning.to_json(),
            "model": self.model,
            "exact": self.exact,
            "ordered": self.ordered,
            "shuffled": self.shuffled,
            "units": self.units,
            "summed": self.summed,
            **({} if self.limits == RELEASED_LIMITS[0] else {"limits": self.limits.to_json()}),
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> Certificate:
        with reading(value, kind=cls) as given:
            fields, most = Fields(given, "certificate"), MAX_STORED_MAGNITUDE
            common = read_common(given, policies)
            needed = fields.number_or_null("threshold", least=-most, most=most)
            made = cls(
                **common,
                value=fields.number("value", least=-most, most=most),
                threshold=math.inf if needed is None else needed,
                bets=Bets(
                    fields.numbers("multipliers", shortest=1, longest=MAX_STORED_EXPERTS),
                    fields.numbers("scales", shortest=1),
                    fields.number("cap_share"),
                    fields.whole_number("spared_rounds"),
                ),
                leaders=None if fields["leaders"] is None else leaders_from_json(fields, policies),
                slack=fields.number("slack", least=0.0, most=most),
                experts=fields.whole_numbers("experts", shortest=1, longest=MAX_STORED_EXPERTS),
                share=fields.number_or_null("expert_share", least=0.0, most=1.0),
                log_size=math.inf if fields["log_size"] is None else fields.number("log_size", least=0.0, most=most),
                model=fields.json_object("model"),
                exact=fields.flag("exact"),
                ordered=fields.flag("ordered"),
                shuffled=fields.flag("shuffled"),
                by_rule=fields.flag("by_rule"),
                learning=None if fields["learning"] is None else Learning.from_json(fields["learning"]),
                units=None if given.get("units") is None else fields.whole_number("units", least=1),
                summed="summed" in given and fields.flag("summed"),
                limits=Limits.from_json(given.get("limits")),
            )
            if made.shuffled and not made.ordered:
                raise InputError("rows were shuffled, but the certificate does not go by their order")
            if made.units is not None and made.units > made.samples:
                raise InputError(f"{made.samples:,} interactions cannot be of {made.units:,} people")
            if len(set(made.experts)) < len(made.experts):
                raise InputError("the 'experts' of the certificate name one twice")
        check_follows(given, made.to_json(), names=("claim", "certified", "words", "score", "assumptions", "alarms"))
        return made


def basic_assumptions(*, units: bool, shuffled: bool, in_order: bool) -> tuple[str, ...]:
    """What every claim rests on.

    units: whether the log tells whose row each is. The weight of a visit is known once all have come, so that the end
    of the log must not depend on rewards: of shuffled rows that is assumed anyway. in_order: whether rows stand in
    order, or have rounds; of units only first visits count then.
    """
    if not units:
        return ASSUMPTIONS
    if in_order and not shuffled:
        return (UNITS_ALIKE, *ASSUMPTIONS[1:], UNITS_FIRST)
    return (UNITS_ALIKE, *ASSUMPTIONS[1:], UNITS_COME, UNITS_VALUE, *(() if shuffled else (UNITS_END,)))


def count_words(samples: int, units: int | None) -> str:
    """How many interactions there are, and of how many people, if that is told."""
    if units is None:
        return f"{samples:,}"
    if samples == units:
        return f"{units:,} people, one visit each"
    return f"{samples:,} visits of {units:,} people, {samples / units:.3g} each; evidence counts people"


def leaders_to_json(leaders: Leaders) -> Json:
    """Who led in which round, as what JSON knows."""
    return {
        "policies": [policy.to_json() for policy in leaders.policies],
        "turns": list(leaders.turns),
        "sizes": list(leaders.sizes),
        "moving": leaders.moving,
        "start": leaders.start,
        "settled": leaders.settled,
    }


def leaders_from_json(given: Fields, policies: PolicyClass | None) -> Leaders:
    """The leaders that `leaders_to_json` wrote; policies: the class, where its policies are of a kind of its own."""
    fields = given.fields("leaders", of="leaders")
    fields.check_known(("policies", "turns", "sizes", "moving", "start", "settled"))
    listed = fields.items("policies", most=MAX_STORED_LEADERS)
    return Leaders(
        tuple(policy_from_json(value, policies) for value in listed),
        fields.whole_numbers("turns", shortest=1, least=NOBODY),
        fields.whole_numbers("sizes", shortest=1, least=1),
        fields.number("moving", least=0.0, most=1.0),
        fields.whole_number("start"),
        fields.whole_number("settled") if fields.given.get("settled") is not None else None,
    )
