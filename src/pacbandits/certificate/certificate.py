"""The certificate by betting: what was certified of a policy, and every figure needed to check it again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from pacbandits.certificate.bets import Bets, Naming
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
)
from pacbandits.certificate.learning import Learning
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.policies.base import PolicyClass

MAX_STORED_EXPERTS = 100  # in a file; a named policy has as many again
ASSUMPTIONS = (
    ALIKE,
    APART,
    BEFORE,
    "the logged propensities are those with which actions were drawn",
    "rewards lie in [0, 1]",
)
BETS_FIXED = "predictions and bets were fixed before the round they were used in, by whoever ran the trial"
MODEL_GIVEN = "the reward model was chosen before the log was seen"
ROUNDS = "rounds are numbered in the order in which they occurred, and no row chose its round by its outcome"
ORDERED = "the rows of the log stand in the order in which they occurred"
NAMED = "the policy was named, as number {number}, before round {round} of {rounds}, by whoever ran the trial"
INEXACT = "the argmax oracle, which is not exact, found the least refuted policy"


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate(Claim):
    """What betting has proven of a policy: a `Claim`, certified when every policy is refuted at ε, and

    value: the log-wealth against the least refuted policy.
    threshold: what that must reach.
    bets: what each expert stakes in each round.
    experts: which of them were used.
    share: the weight of the first of two experts; None where the search was exact (see `search.Least`).
    log_size: log|Π|.
    model: the reward model in JSON.
    exact: whether the argmax oracle is.
    ordered: whether a log of one round was cut into blocks, in the order of its rows.
    reserved: whether half of δ is for policies named in advance.
    by_rule: whether model, bets and names follow from the log by the rule of `certify`, so that who verifies can derive
        them again; else they were fixed by whoever ran the trial.
    learning: how the policy class was learnt, if it was asked for by its name.
    """

    kind: ClassVar[str] = "pacbandits certificate"

    value: float
    threshold: float
    bets: Bets
    experts: tuple[int, ...]
    share: float | None
    log_size: float
    model: Json
    exact: bool
    ordered: bool = False
    reserved: bool = False
    by_rule: bool = False
    learning: Learning | None = None

    @property
    def certified(self) -> bool:
        return bool(self.value >= self.threshold)

    @property
    def assumptions(self) -> tuple[str, ...]:
        naming, learning, rounds = self.bets.naming, self.learning, len(self.bets.scales)
        trusted, named = not self.by_rule, ""
        if naming is not None:
            named = NAMED.format(number=naming.number, round=naming.round + 1, rounds=rounds)
        asked = (
            (FIXED if learning is None else learning.assumption, True),
            (ROUNDS, rounds > 1 and not self.ordered and (learning is None or learning.in_order)),
            (ORDERED, self.ordered),
            (BETS_FIXED, trusted),
            (named, trusted and naming is not None),
            (INEXACT, not self.exact),
        )
        return (*ASSUMPTIONS, *(words for words, needed in asked if needed), *self.remarks)

    def figures(self) -> Json:
        return {
            "value": self.value,
            "threshold": self.threshold,
            "log_size": self.log_size,
            "score": "capped doubly robust difference, log(1 + bet (epsilon - score))",
            "multipliers": list(self.bets.multipliers),
            "scales": list(self.bets.scales),
            "cap_share": self.bets.share,
            "experts": list(self.experts),
            "expert_share": self.share,
            "naming": None if self.bets.naming is None else asdict(self.bets.naming),
            "spared_rounds": self.bets.spared,
            "by_rule": self.by_rule,
            "learning": None if self.learning is None else self.learning.to_json(),
            "reserved": self.reserved,
            "model": self.model,
            "exact": self.exact,
            "ordered": self.ordered,
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> Certificate:
        with reading(value, kind=cls) as given:
            fields, most = Fields({"naming": None, "reserved": False} | given, "certificate"), MAX_STORED_MAGNITUDE
            made = cls(
                **read_common(given, policies),
                value=fields.number("value", least=-most, most=most),
                threshold=fields.number("threshold", least=-most, most=most),
                bets=Bets(
                    fields.numbers("multipliers", shortest=1, longest=MAX_STORED_EXPERTS),
                    fields.numbers("scales", shortest=1),
                    fields.number("cap_share"),
                    _naming_of(fields),
                    fields.whole_number("spared_rounds"),
                ),
                experts=fields.whole_numbers("experts", shortest=1, longest=2 * MAX_STORED_EXPERTS),
                share=fields.number_or_null("expert_share", least=0.0, most=1.0),
                log_size=fields.number("log_size", least=0.0, most=most),
                model=fields.json_object("model"),
                exact=fields.flag("exact"),
                ordered=fields.flag("ordered"),
                reserved=fields.flag("reserved"),
                by_rule=fields.flag("by_rule"),
                learning=None if fields["learning"] is None else Learning.from_json(fields["learning"]),
            )
            if len(set(made.experts)) < len(made.experts):
                raise InputError("the 'experts' of the certificate name one twice")
        check_follows(given, made.to_json(), names=("claim", "certified", "words", "score", "assumptions", "alarms"))
        return made


def _naming_of(given: Fields) -> Naming | None:
    if given["naming"] is None:
        return None
    naming = given.fields("naming", of="naming")
    naming.check_known(("round", "number"))
    return Naming(naming.whole_number("round"), naming.whole_number("number"))
