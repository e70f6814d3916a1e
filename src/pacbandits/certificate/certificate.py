"""The certificate by betting: what was certified of a policy, and every figure needed to check it again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from pacbandits.certificate.bets import Bets, Naming
from pacbandits.certificate.claim import (
    LEARNT,
    MAX_STORED_MAGNITUDE,
    Claim,
    Json,
    check_follows,
    read_common,
    reading,
)
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.policies.base import PolicyClass

MAX_STORED_EXPERTS = 100  # in a file; a named policy has as many again
FIXED = "the policy class was fixed before the log was seen"
ASSUMPTIONS = (
    "contexts are independent draws from one distribution",
    "the logged propensities are those with which actions were drawn",
    "rewards lie in [0, 1]",
    "predictions and bets were fixed before the round they were used in",
    FIXED,
)
ROUNDS = "rounds are numbered in the order in which they occurred, and no row chose its round by its outcome"
ORDERED = "the rows of the log stand in the order in which they occurred"
NAMED = "the policy was named, as number {number}, before {kind} {round} of {rounds} of the log"
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

    @property
    def certified(self) -> bool:
        return bool(self.value >= self.threshold)

    @property
    def assumptions(self) -> tuple[str, ...]:
        rounds = len(self.bets.scales) > 1 and not self.ordered
        naming, kind = self.bets.naming, "block" if self.ordered else "round"
        named = ""
        if naming is not None:
            named = NAMED.format(number=naming.number, kind=kind, round=naming.round + 1, rounds=len(self.bets.scales))
        asked = ((ROUNDS, rounds), (ORDERED, self.ordered), (named, naming is not None), (INEXACT, not self.exact))
        said = (*ASSUMPTIONS, *(words for words, needed in asked if needed), *self.remarks)
        return tuple(words for words in said if words != FIXED or LEARNT not in said)

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
                ),
                experts=fields.whole_numbers("experts", shortest=1, longest=2 * MAX_STORED_EXPERTS),
                share=fields.number_or_null("expert_share", least=0.0, most=1.0),
                log_size=fields.number("log_size", least=0.0, most=most),
                model=fields.json_object("model"),
                exact=fields.flag("exact"),
                ordered=fields.flag("ordered"),
                reserved=fields.flag("reserved"),
            )
            if len(set(made.experts)) < len(made.experts):
                raise InputError("the 'experts' of the certificate name one twice")
        check_follows(given, made.to_json(), names=("claim", "certified", "words", "score", "assumptions"))
        return made


def _naming_of(given: Fields) -> Naming | None:
    if given["naming"] is None:
        return None
    naming = given.fields("naming", of="naming")
    naming.check_known(("round", "number"))
    return Naming(naming.whole_number("round"), naming.whole_number("number"))
