"""The certificate by betting: a claim about a policy with every figure needed to recheck it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np

from pacbandits.certificate.claim import (
    ALIKE,
    APART,
    BEFORE,
    FIXED,
    MAX_STORED_MAGNITUDE,
    MAX_STORED_REMARKS,
    Claim,
    check_follows,
    read_common,
    reading,
    rounded_down,
    rounded_up,
)
from pacbandits.certificate.content_order import order_items, row_digests
from pacbandits.certificate.conventions import MAX_BET_FACTOR, MIN_BET_FACTOR, Bets, rearrange
from pacbandits.certificate.leaders import MAX_SLACK, NOBODY, Leaders
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.summed.limits import RELEASED_LIMITS, RowLimits
from pacbandits.engines.base import LogSource
from pacbandits.engines.local import CONTENT_DIGEST, digest_by_content, digest_source
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import chosen_from_json, policy_from_json
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.records import Chosen, Log
from pacbandits.records.log import digest_log
from pacbandits.records.metrics import Guardrail, read_guardrail
from pacbandits.records.policy import call
from pacbandits.records.row_order import COUNTED, says
from pacbandits.schema import Fields, Json, json_object

MAX_STORED_EXPERTS = 100  # in a file
MAX_STORED_LEADERS = 10_000  # in a file
ASSUMPTIONS = (
    ALIKE,
    APART,
    BEFORE,
    "the logged propensities are those with which actions were drawn",
)
# For logs with units (see `pacbandits.certificate.conventions`): UNITS_ALIKE replaces ALIKE, the others are added.
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


RULE, ONE_ACTION, CONTROL = "rule", "one action", "control"  # the names of candidates


KEPT, VIOLATED, OPEN = "kept", "violated", "not proven yet"  # the states of a guardrail
MIN_DENOMINATOR = 1e-9  # of a ratio, over its largest value: a smaller mean counts as 0, so that quotients are precise


@dataclass(frozen=True)
class GuardedMetric:
    """A guardrail and bounds on the difference that it limits, for one candidate, in the units of the metric.

    The difference is V(q) − V(c) of the metric, or V(q) − f V(c) for a relative guardrail with the factor f.

    guardrail: the guardrail.
    limit: the largest (for <=) or smallest (for >=) difference that it allows.
    low, estimate, high: of the difference. Ends are infinite, and the estimate may be not a number, if the rows do not
        show that the denominator of a ratio is above 0; all three are null in a file then.
    """

    guardrail: Guardrail
    limit: float
    low: float
    estimate: float
    high: float

    @property
    def state(self) -> str:
        """Whether the guardrail is proven to be kept, proven to be violated, or neither yet."""
        upper = self.guardrail.side == "<="
        if (self.high <= self.limit) if upper else (self.low >= self.limit):
            return KEPT
        return VIOLATED if (self.low > self.limit if upper else self.high < self.limit) else OPEN

    @property
    def room(self) -> float:
        """The distance from the estimate to the limit; negative if the estimate is beyond it, NaN without one."""
        return self.limit - self.estimate if self.guardrail.side == "<=" else self.estimate - self.limit

    @property
    def slack(self) -> float:
        """The distance from the estimate to the bound that must stay within the limit."""
        return self.high - self.estimate if self.guardrail.side == "<=" else self.estimate - self.low

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        figures = {"limit": self.limit, "low": self.low, "estimate": self.estimate, "high": self.high}
        figures = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        return {"guardrail": self.guardrail.spelt, **figures, "state": self.state}

    @classmethod
    def from_json(cls, value: object) -> GuardedMetric:
        """Return the guarded metric that `to_json` wrote."""
        fields, most = Fields(json_object(value, name="a guardrail"), "guardrail"), MAX_STORED_MAGNITUDE
        fields.check_known(("guardrail", "limit", "low", "estimate", "high", "state"))
        limit, unknown = (
            fields.number("limit", least=-most, most=most),
            {"low": -math.inf, "estimate": math.nan, "high": math.inf},
        )
        figures = {name: fields.number_or_null(name, least=-most, most=most) for name in unknown}
        known = {name: unknown[name] if value is None else value for name, value in figures.items()}
        made = cls(read_guardrail(fields.text("guardrail")), limit, **known)
        if fields.text("state") != made.state:
            raise InputError(f"by its figures guardrail '{plain(made.guardrail.spelt)}' is {made.state}")
        return made


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy that may be recommended, with the bound on its gain over control (see `pacbandits.certificate.gains`).

    name: "rule" for the class's, "one action" for everybody.
    policy: the policy that its leaders end with.
    leaders: its leaders.
    low: the proven gain over control, in units of rewards; negative if the log does not exclude a loss.
    estimate: the estimated gain.
    guarded: its guardrails.
    """

    name: str
    policy: Chosen
    leaders: Leaders
    low: float
    estimate: float
    guarded: tuple[GuardedMetric, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether no guardrail is proven to be violated."""
        return all(one.state != VIOLATED for one in self.guarded)

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {
            "name": self.name,
            "policy": self.policy.to_json(),
            "leaders": leaders_to_json(self.leaders),
            "low": self.low,
            "estimate": self.estimate,
            **({"guardrails": [one.to_json() for one in self.guarded]} if self.guarded else {}),
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None) -> Candidate:
        """Return the candidate that `to_json` wrote."""
        fields, most = Fields(json_object(value, name="a candidate"), "candidate"), MAX_STORED_MAGNITUDE
        fields.check_known(("name", "policy", "leaders", "low", "estimate", "guardrails"))
        name = fields.text("name")
        if name not in (RULE, ONE_ACTION):
            raise InputError(f"a candidate is the '{RULE}' or '{ONE_ACTION}', got '{plain(name)}'")
        return cls(
            name,
            chosen_from_json(fields["policy"], policies),
            leaders_from_json(fields, policies),
            low=fields.number("low", least=-most, most=most),
            estimate=fields.number("estimate", least=-most, most=most),
            guarded=tuple(
                GuardedMetric.from_json(one)
                for one in (fields.items("guardrails", most=MAX_STORED_REMARKS) if "guardrails" in fields else ())
            ),
        )


@dataclass(frozen=True, eq=False)
class Improvement:
    """The proven gains of candidates over control; each holds with its part of δ, so that all hold together.

    control: the action that is today's practice.
    candidates: at most two.
    scale: the stake of a multiplier of 1 (see `pacbandits.certificate.stakes`).
    spared: the number of first rounds that do not bet.
    """

    control: int
    candidates: tuple[Candidate, ...]
    scale: float
    spared: int

    @property
    def recommended(self) -> Candidate | None:
        """The candidate of largest proven gain that violates no guardrail; None if no gain is proven: keep control."""
        allowed = [one for one in self.candidates if one.allowed]
        best = max(allowed, key=lambda one: one.low, default=None)
        return best if best is not None and best.low > 0 else None

    @property
    def guardrails(self) -> tuple[Guardrail, ...]:
        """The guardrails, the same for all candidates."""
        return tuple(one.guardrail for one in self.candidates[0].guarded)

    @property
    def open_guardrails(self) -> tuple[GuardedMetric, ...]:
        """The guardrails that the recommended candidate is not proven to keep; nothing if no gain is proven."""
        found = self.recommended
        return () if found is None else tuple(one for one in found.guarded if one.state != KEPT)

    @property
    def chosen(self) -> str:
        """The name of the recommended candidate, or "control"."""
        return CONTROL if self.recommended is None else self.recommended.name

    @property
    def policy(self) -> Chosen:
        """The recommended policy."""
        if self.recommended is not None:
            return self.recommended.policy
        return TreePolicy(self.control, self.candidates[0].policy.n_actions)

    @property
    def leaders(self) -> Leaders:
        """The leaders of the recommended policy."""
        return self.leaders_of(self.chosen)

    def leaders_of(self, name: str) -> Leaders:
        """Return the leaders of a candidate, or of "control", which leads in every round in which a candidate does."""
        for one in self.candidates:
            if one.name == name:
                return one.leaders
        own, constant = self.candidates[0].leaders, TreePolicy(self.control, self.candidates[0].policy.n_actions)
        turns = tuple(NOBODY if turn == NOBODY else 0 for turn in own.turns)
        return replace(own, policies=(constant,), turns=turns, cross_validated=False)

    def describe(self, names: tuple[str, ...] | None, *, delta: float) -> str:
        """Return the claim as a sentence; names (A,): of the actions."""
        control, found = plain(call(self.control, names)), self.recommended
        if found is None:
            return f"no gain over {control} is proven"
        gain = f"{rounded_down(found.low):g}"
        return f"except with probability {delta:g} the policy earns at least {gain} more than {control}"

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {
            "control": self.control,
            "recommended": self.chosen,
            "candidates": [one.to_json() for one in self.candidates],
            "scale": self.scale,
            "spared_rounds": self.spared,
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None) -> Improvement:
        """Return the improvement that `to_json` wrote."""
        fields = Fields(json_object(value, name="an improvement"), "improvement")
        fields.check_known(("control", "recommended", "candidates", "scale", "spared_rounds"))
        listed = [Candidate.from_json(one, policies) for one in fields.items("candidates", most=2)]
        made = cls(
            fields.whole_number("control"),
            tuple(listed),
            fields.number("scale", least=MIN_BET_FACTOR, most=MAX_BET_FACTOR),
            fields.whole_number("spared_rounds"),
        )
        if not listed or len({one.name for one in listed}) < len(listed):
            raise InputError("an improvement has one or two candidates, each once")
        if made.control >= listed[0].policy.n_actions or len({one.policy.n_actions for one in listed}) > 1:
            raise InputError(f"the control of an improvement, {made.control}, is no action of its candidates")
        if any(tuple(each.guardrail for each in one.guarded) != made.guardrails for one in listed):
            raise InputError("the candidates of an improvement have the same guardrails")
        if fields.text("recommended") != made.chosen:
            raise InputError(f"by the proven gains the recommendation is '{made.chosen}', and the certificate differs")
        return made


@dataclass(frozen=True)
class CountedPilot:
    """The pilot whose rows are the first of a trial's log (see `pacbandits.trials.pilot_rows`).

    rows, samples: the number of its rows, and of its interactions.
    rounds: the number of first rounds that they make up.
    by_content: whether they stand in the order of their contents; else in that of the rounds of the pilot.
    digest: of its rows in this order, if by content without rounds.
    """

    rows: int
    samples: int
    rounds: int
    by_content: bool
    digest: str

    @property
    def assumption(self) -> str:
        """The assumption of the claim about the pilot, in words."""
        words = (
            f"the first {self.rows:,} rows are those of a pilot, all of them, which ended before the trial began: its "
            "people, and what each action would earn for them, are draws from the same distribution as those of the "
            "trial, its rewards chose neither the policy class nor what was asked, and what was bet on a row of it "
            "follows from rows before that row"
        )
        fixed = "; neither the probability of an action in it nor when it ended depended on earlier rows"
        return words + (fixed if self.by_content else "")

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> CountedPilot:
        """Return the record that `to_json` wrote."""
        fields = Fields(json_object(value, name="a pilot"), "pilot")
        fields.check_known(("rows", "samples", "rounds", "by_content", "digest"))
        rows, samples, rounds = (fields.whole_number(name, least=1) for name in ("rows", "samples", "rounds"))
        return cls(rows, samples, rounds, fields.flag("by_content"), fields.text("digest"))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Certificate(Claim):
    """A certificate by betting: a `Claim` that is certified if every policy is refuted at ε.

    If ε is 0, it is certified if every policy is refuted that acts otherwise on a context of the log.
    `certified_epsilon` then bounds the lead of the others, 0 if the log has all contexts
    (`pacbandits.confidence.unseen_share`).

    value: the log-wealth against the least refuted policy.
    threshold: the log-wealth needed; infinite for a union over a class of unknown size.
    bets: the stakes of each expert in each round.
    leaders: the leaders of rounds; the policy is one of them or a mixture. None if the proof is a union over all
        policies.
    slack: the part of ε that pays for dropped weight (see `ledger.choose`).
    experts: the experts that were used.
    share: the weight of the first of two experts; None if the search was exact (see `making.Least`).
    log_size: log|Π|; infinite for a class of unknown size.
    model: the reward model in JSON.
    exact: whether the argmax oracle is exact.
    ordered: whether a log of one round was cut into blocks, in the order of its rows.
    shuffled: whether that is their order after a shuffle.
    by_content: whether rows were shuffled by their contents; False for certificates of earlier versions, which shuffled
        the numbers of rows. A file records it if it is true.
    by_rule: whether model, bets and leaders follow from the log by the rule of `certify`, so that a verifier can derive
        them again; else the trial fixed them.
    learning: how the policy class was learnt, if it was given by its name.
    units: the number of people, by which evidence is counted; None if each interaction is of another person.
    summed: whether all sums over rows are of whole numbers, by the rule of `pacbandits.certificate.summed`.
    limits: the row limits of those sums; a file records them unless they are those of the first release.
    improvement: the proven gains over control, if one was named; the policy is then the recommended one.
    pilot: the pilot whose rows are the first of the log, if a trial began with one; a file records it only then.
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
    by_content: bool = False
    by_rule: bool = False
    learning: Learning | None = None
    units: int | None = None
    summed: bool = False
    limits: RowLimits = RELEASED_LIMITS[0]
    improvement: Improvement | None = None
    pilot: CountedPilot | None = None

    def __post_init__(self) -> None:
        if self.improvement is not None and self.policy.to_json() != self.improvement.policy.to_json():
            raise InputError("the certificate's policy is not the one that its proven gains recommend")

    @property
    def independent(self) -> int:
        """The number of independent draws: people, or interactions if there are no units."""
        return self.samples if self.units is None else self.units

    @property
    def any_time(self) -> bool:
        """Whether the claim holds at all analyses of a growing log together, for any stopping rule."""
        chosen = self.shuffled or self.any_file_order  # anew at each length of the log
        return not chosen and (self.units is None or self.by_rounds or self.ordered)

    @property
    def any_file_order(self) -> bool:
        """Whether the certificate is the same for every order of the rows in their file."""
        return self.by_content or (self.learning is not None and self.learning.by_content)

    @property
    def by_rounds(self) -> bool:
        """Whether the log has rounds of its own."""
        known = self.learning is None or self.learning.in_order
        return len(self.bets.scales) > 1 and not self.ordered and known

    @property
    def counted(self) -> str:
        """The number of interactions, of people if there are units, and of those in a pilot, in words."""
        begun = "" if self.pilot is None else f", {self.pilot.samples:,} of them of a pilot"
        return count_words(self.samples, self.units) + begun

    @property
    def certified(self) -> bool:
        return bool(self.value >= self.threshold) and self.slack <= MAX_SLACK

    def describe(self) -> str:
        """Return the claim as a sentence."""
        if self.improvement is None:
            return self.describe_distance()
        gain = self.improvement.describe(self.action_names, delta=self.delta)
        return f"{self.proviso}{gain}; and by itself: {self.describe_distance()}"

    def describe_distance(self) -> str:
        """Return the claim about the distance from the best as a sentence."""
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
            (UNITS_END, learning is not None and learning.by_content and self.units is None),
            (ROUNDS, self.by_rounds),
            (ORDERED, self.ordered and not self.shuffled),
            (SHUFFLED if self.units is None else UNITS_SHUFFLED, self.shuffled and not says(self.remarks, COUNTED)),
            (BETS_FIXED, trusted),
            (LED, trusted and self.leaders is not None),
            (INEXACT, not self.exact),
        )
        # The log of an experiment says it, too.
        begun = () if self.pilot is None or self.pilot.assumption in self.remarks else (self.pilot.assumption,)
        return (*basis, self.within, *(words for words, needed in asked if needed), *begun, *self.remarks)

    def of(self, log: Log) -> Log:
        """Return the rows of a log that the claim is about: the first ones, if the log has grown since.

        If rewards are late, only those known before the round in which the claim was made are kept, if the claim fits
        such a round.
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
        """Return whether the certificate was made from this log, which may have grown since."""
        return self._is_of(self.of(log))

    def _is_of(self, log: Log) -> bool:
        """Return whether the certificate was made from exactly these rows."""
        if self.summed:
            if self.digest.startswith(CONTENT_DIGEST):
                words = row_digests(log)
                return digest_by_content(log, words[order_items(words)]) == self.digest
            return digest_source(LogSource(log)) == self.digest
        if self.ordered and log.known is not None:  # altered: late rewards exclude blocks
            return False
        cut = rearrange(log, ordered=self.ordered, shuffle=self.shuffled, by_content=self.by_content)
        if self.learning is not None:
            cut = self.learning.set_apart(self.learning.arrange(cut))
        return digest_log(cut) == self.digest

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
            **({"by_content": True} if self.by_content else {}),
            "units": self.units,
            "summed": self.summed,
            **({} if self.limits == RELEASED_LIMITS[0] else {"limits": self.limits.to_json()}),
            **({} if self.improvement is None else {"improvement": self.improvement.to_json()}),
            **({} if self.pilot is None else {"pilot": self.pilot.to_json()}),
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
                by_content="by_content" in given and fields.flag("by_content"),
                by_rule=fields.flag("by_rule"),
                learning=None if fields["learning"] is None else Learning.from_json(fields["learning"]),
                units=None if given.get("units") is None else fields.whole_number("units", least=1),
                summed="summed" in given and fields.flag("summed"),
                limits=RowLimits.from_json(given.get("limits")),
                improvement=Improvement.from_json(given["improvement"], policies) if "improvement" in given else None,
                pilot=CountedPilot.from_json(given["pilot"]) if "pilot" in given else None,
            )
            if made.shuffled and not made.ordered:
                raise InputError("rows were shuffled, but the certificate does not go by their order")
            if made.by_content and not made.shuffled:
                raise InputError("rows stand in an order by their contents, but the certificate says no shuffle")
            if made.learning is not None and made.learning.by_content and made.ordered:
                raise InputError("the rows that taught were chosen by their contents, but the rows have an order")
            if made.units is not None and made.units > made.samples:
                raise InputError(f"{made.samples:,} interactions cannot be of {made.units:,} people")
            if len(set(made.experts)) < len(made.experts):
                raise InputError("the 'experts' of the certificate name one twice")
        check_follows(given, made.to_json(), names=("claim", "certified", "words", "score", "assumptions", "alarms"))
        return made


def basic_assumptions(*, units: bool, shuffled: bool, in_order: bool) -> tuple[str, ...]:
    """Return the assumptions of every claim, in words.

    units: whether the log has units. The weight of a visit is known once all visits are in, so the end of the log must
    not depend on rewards; shuffled rows assume that anyway. in_order: whether rows stand in order, or have rounds; then
    only the first visit of a unit counts.
    """
    if not units:
        return ASSUMPTIONS
    if in_order and not shuffled:
        return (UNITS_ALIKE, *ASSUMPTIONS[1:], UNITS_FIRST)
    return (UNITS_ALIKE, *ASSUMPTIONS[1:], UNITS_COME, UNITS_VALUE, *(() if shuffled else (UNITS_END,)))


def count_words(samples: int, units: int | None) -> str:
    """Return the number of interactions, and of people if there are units, in words."""
    if units is None:
        return f"{samples:,}"
    if samples == units:
        return f"{units:,} people, one visit each"
    return f"{samples:,} visits of {units:,} people, {samples / units:.3g} each; evidence counts people"


def leaders_to_json(leaders: Leaders) -> Json:
    """Serialise leaders to JSON-compatible values."""
    return {
        "policies": [policy.to_json() for policy in leaders.policies],
        "turns": list(leaders.turns),
        "sizes": list(leaders.sizes),
        "moving": leaders.moving,
        "start": leaders.start,
        "settled": leaders.settled,
        **({"cross_validated": True} if leaders.cross_validated else {}),
    }


def leaders_from_json(given: Fields, policies: PolicyClass | None) -> Leaders:
    """Return the leaders that `leaders_to_json` wrote; policies: the class, for policies of a kind of its own."""
    fields = given.fields("leaders", of="leaders")
    fields.check_known(("policies", "turns", "sizes", "moving", "start", "settled", "cross_validated"))
    listed = fields.items("policies", most=MAX_STORED_LEADERS)
    return Leaders(
        tuple(policy_from_json(value, policies) for value in listed),
        fields.whole_numbers("turns", shortest=1, least=NOBODY),
        fields.whole_numbers("sizes", shortest=1, least=1),
        fields.number("moving", least=0.0, most=1.0),
        fields.whole_number("start"),
        fields.whole_number("settled") if fields.given.get("settled") is not None else None,
        "cross_validated" in fields and fields.flag("cross_validated"),
    )
