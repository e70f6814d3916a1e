"""The certificate by betting: what was certified of a policy, and every figure needed to check it again."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.alarms import AssumptionCheck, alarm_words, look
from pacbandits.certificate.conventions import rearrange
from pacbandits.certificate.leaders import MAX_SLACK, NOBODY, Leaders
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.summed.limits import RELEASED_LIMITS, RowLimits
from pacbandits.checks import check_percentage
from pacbandits.confidence import check_delta, check_epsilon, check_positive_epsilon
from pacbandits.engines.base import LogSource
from pacbandits.engines.local import digest_source
from pacbandits.errors import InputError, one_line, plain
from pacbandits.policies import chosen_from_json, policy_from_json
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Chosen, Log, Lottery, describe_chosen
from pacbandits.records.log import digest_log
from pacbandits.records.log_metadata import UNIT_RANGE, check_range
from pacbandits.records.policy import call, check_names
from pacbandits.records.text_files import MAX_COLUMNS
from pacbandits.schema import Fields, json_object

# What a certificate tells of the log it was made from.


class ToldOfLog(Protocol):
    """What a certificate tells of the log it was made from: a `Log`, or what stands for one in files."""

    def __len__(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def samples(self) -> int: ...
    @property
    def n_units(self) -> int: ...
    @property
    def assumed(self) -> tuple[str, ...]: ...
    @property
    def action_names(self) -> tuple[str, ...] | None: ...
    @property
    def reward_range(self) -> tuple[float, float]: ...
    @property
    def dates(self) -> tuple[str, ...]: ...
    @property
    def units(self) -> IntArray | None: ...


# What every certificate is: a claim about a policy, and how such a claim is written down and read again.
#
# A kind of certificate adds the figures that its proof needs. How a claim is rechecked is no business of the claim: the
# code that verifies stands apart from the code that certifies.


Json = dict[str, Any]

MAX_STORED_MAGNITUDE = 1e100  # of numbers in a file; squares and inverses are still numbers
MAX_STORED_REMARKS = 100
FIELDS_BESIDE_A_CLAIM = ("class", "reading")  # in a file
# What every certificate rests on, as every A/B test does. `pacbandits.certificate.alarms` looks for signs against it.
ALIKE = "contexts, and what each action would earn in them, are independent draws from one distribution, first to last"
APART = "what a row earns does not depend on what was played in other rows"
BEFORE = "contexts were recorded before the action was drawn, and hold nothing that came after"
FIXED = "the policy class was fixed before the log was seen"
DOUBT = "the log speaks against an assumption of this claim"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Claim(ABC):
    """That except with probability δ a policy is within ε of the best, and all that this rests on.

    policy: q, of which it is claimed; or a lottery between policies.
    epsilon: the distance that was asked for, in the units of rewards; 0 for the best policy itself.
    delta: the probability of being wrong.
    certified_epsilon: the distance that is claimed, which bounds V* − V(q); that between the ends of `reward_range`, by
        default 1, if none below.
    samples: interactions.
    rows: of the log.
    digest: of the log.
    class_digest: of the policy class; None for a class that has no description in JSON.
    remarks: what else was assumed, in words.
    checks: what was found where the log was looked at for signs against the assumptions.
    action_names (A,): what the actions are called; None if they are but numbered.
    reward_range: the least and the largest that a reward can be, in whose units distances are.
    dates: the columns of dates and times that features were made of.
    """

    kind: ClassVar[str]
    speaks_of_contexts: ClassVar[bool] = False  # beyond those in its log, so that a file of them belongs to it
    unit_rewards: ClassVar[bool] = True  # whether every reward must lie in [0, 1]

    policy: Chosen
    epsilon: float
    delta: float
    certified_epsilon: float
    samples: int
    rows: int
    digest: str
    class_digest: str | None = None
    remarks: tuple[str, ...] = ()
    checks: tuple[AssumptionCheck, ...] = ()
    action_names: tuple[str, ...] | None = None
    reward_range: tuple[float, float] = UNIT_RANGE
    dates: tuple[str, ...] = ()

    @property
    def unit(self) -> float:
        """What a distance of 1 between rewards in [0, 1] stands for."""
        return self.reward_range[1] - self.reward_range[0]

    @property
    def unit_epsilon(self) -> float:
        """The distance that was asked for, of rewards in [0, 1]."""
        return self.epsilon / self.unit

    @property
    def unit_certified_epsilon(self) -> float:
        """The distance that is claimed, of rewards in [0, 1]."""
        return self.certified_epsilon / self.unit

    @property
    def within(self) -> str:
        """What is assumed of the range of rewards."""
        return f"rewards lie in [{self.reward_range[0]:g}, {self.reward_range[1]:g}]"

    @property
    def words(self) -> str:
        """What the policy does, in words, with the names of actions where they have any."""
        return describe_chosen(self.policy, self.action_names)

    @property
    @abstractmethod
    def certified(self) -> bool:
        """Whether the policy is within ε of the best."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """Everything the claim rests on."""

    @abstractmethod
    def figures(self) -> Json:
        """What this kind of certificate adds, as what JSON knows."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> Self:
        """The certificate that `to_json` wrote; policies: the class, where its policies are of a kind of its own."""

    @property
    def alarms(self) -> tuple[str, ...]:
        """Where the log speaks against what the claim rests on, in words."""
        return alarm_words(self.checks)

    @property
    def proviso(self) -> str:
        """What the claim is conditional on, before everything else."""
        return ""

    @property
    def best(self) -> str:
        """What the policy is compared with."""
        return "the best of its class"

    def describe(self) -> str:
        """The claim in a sentence."""
        what = "lottery" if isinstance(self.policy, Lottery) else "policy"
        sentence = f"{self.proviso}except with probability {self.delta:g} the {what} is within"
        if self.certified:
            return f"{sentence} {self.epsilon:g} of {self.best}"
        lacking = f"not certified at {self.epsilon:g}" if self.epsilon > 0 else "not certified as the best itself"
        if self.certified_epsilon < self.unit:
            near = f"{rounded_up(self.certified_epsilon):.3g}"
            return f"{lacking}; {sentence} {near} of {self.best}"
        return f"{lacking}, nor at any smaller distance than {self.unit:g}"

    def promise(self) -> str:
        """The claim and its assumptions in a sentence, after what speaks against them."""
        return f"{self._doubts()}{self.describe()}; assumes that {self.assuming()}"

    def _doubts(self) -> str:
        return "".join(f"{DOUBT} ({alarm}): " for alarm in self.alarms)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {one_line(self._doubts() + self.describe())}>"

    def assuming(self, between: str = "; that ") -> str:
        """The assumptions for people, each on one line whatever a remark may hold."""
        return between.join(one_line(words) for words in self.assumptions)

    def to_json(self) -> Json:
        """Everything, as what JSON knows."""
        return {
            "kind": self.kind,
            "claim": self.describe(),
            "certified": self.certified,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "certified_epsilon": self.certified_epsilon,
            "samples": self.samples,
            "rows": self.rows,
            **self.figures(),
            "digest": self.digest,
            "class_digest": self.class_digest,
            "remarks": list(self.remarks),
            "checks": [check.to_json() for check in self.checks],
            "alarms": list(self.alarms),
            "assumptions": list(self.assumptions),
            "policy": self.policy.to_json(),
            "words": self.words,
            "action_names": None if self.action_names is None else list(self.action_names),
            "reward_range": list(self.reward_range),
            "dates": list(self.dates),
        }

    def with_remarks(self, *words: str) -> Self:
        """The same claim, resting on a little more."""
        return replace(self, remarks=(*self.remarks, *words))

    def of(self, log: Log) -> Log:
        """The rows of a log that the claim is of, if it went on since: the first ones."""
        return log if len(log) <= self.rows else log.take(np.arange(self.rows))

    def looked_at(self, log: Log) -> Self:
        """The same claim, with what its log shows of signs against its assumptions."""
        return replace(self, checks=look(log))


def check_distance(log: ToldOfLog, epsilon: float) -> float:
    """ε > 0, if it is less than what rewards can differ by."""
    return _check_below_range(log, check_positive_epsilon(epsilon))


def check_distance_or_best(log: ToldOfLog, epsilon: float) -> float:
    """The same, or an ε of 0, which asks for the best policy itself."""
    check_percentage(epsilon, name="--epsilon", reward_range=log.reward_range)
    return _check_below_range(log, check_epsilon(epsilon))


def _check_below_range(log: ToldOfLog, epsilon: float) -> float:
    low, high = log.reward_range
    if epsilon >= high - low:
        raise InputError(
            f"an epsilon of {epsilon:g} is no less than all that rewards can differ by, from {low:g} to {high:g}, so "
            f"that every policy is that near to the best; ask for less, as in --epsilon {(high - low) / 100:g}"
        )
    return epsilon


def check_compared(log: Log, *, fixed: bool = True) -> None:
    """Raise where a log has one action, or only one that could ever be played: nothing was compared then.

    fixed: whether propensities that are the same in these rows are so in all.
    """
    first = int(log.actions[0])
    alone = log.n_actions == 1
    if not alone and fixed and log.least is None:
        alone = bool((log.actions == first).all() and (log.propensities[:, first] >= 1.0).all())
    if alone:
        raise InputError(
            f"every row of the log has the same action, {plain(call(first, log.action_names))}, and no other could be "
            "played, so nothing was compared; is --action the right column? If others could be played and never were, "
            "say with which probability (--split a=0.5,b=0.5)"
        )


def check_asked(log: ToldOfLog, policies: PolicyClass, *, epsilon: float, delta: float) -> tuple[float, float]:
    """ε and δ, if a log may be asked for a claim about a class at these."""
    policies = check_class(policies)
    asked = check_distance_or_best(log, epsilon), check_delta(delta)
    if log.n_actions != policies.n_actions:
        raise InputError(f"the log has {log.n_actions} actions, but the policies have {policies.n_actions}")
    return asked


def read_common(given: Json, policies: PolicyClass | None, *, single: bool = False) -> Json:
    """The fields of a `Claim` from its JSON, by name; single: whether it is never of a lottery."""
    read = policy_from_json if single else chosen_from_json
    fields = Fields(given, "certificate")
    policy = read(fields["policy"], policies)
    low, high = check_range(fields.numbers("reward_range", shortest=2, longest=2))
    named = None if fields["action_names"] is None else fields.texts("action_names", most=policy.n_actions)
    return {
        "action_names": check_names(named, n_actions=policy.n_actions),
        "reward_range": (low, high),
        "dates": fields.texts("dates", most=MAX_COLUMNS) if "dates" in fields else (),
        "policy": policy,
        "epsilon": fields.number("epsilon", least=0.0, most=MAX_STORED_MAGNITUDE),
        "delta": fields.number("delta", least=1.0 / MAX_STORED_MAGNITUDE, most=1.0),
        "certified_epsilon": fields.number("certified_epsilon", least=0.0, most=high - low),
        "samples": fields.whole_number("samples", least=1),
        "rows": fields.whole_number("rows", least=1),
        "digest": fields.text("digest"),
        "class_digest": None if fields["class_digest"] is None else fields.text("class_digest"),
        "remarks": fields.texts("remarks", most=MAX_STORED_REMARKS),
        "checks": tuple(AssumptionCheck.from_json(check) for check in fields.items("checks", most=MAX_STORED_REMARKS)),
    }


@contextmanager
def reading(value: object, *, kind: type[Claim]) -> Generator[Json]:
    """The JSON of a certificate of this kind; what may be wrong with it is one sentence."""
    given = json_object(value, name="a certificate")
    if given.get("kind") != kind.kind:
        raise InputError(f"this is not a {kind.kind}")
    try:
        yield given
    except InputError as error:
        raise InputError(f"the certificate cannot be read: {error}") from None


def check_follows(given: Json, made: Json, *, names: Iterable[str]) -> None:
    """Raise unless these words of a certificate are what its figures say, and it has no others than such a one has."""
    Fields(given, "certificate").check_known((*made, *FIELDS_BESIDE_A_CLAIM))
    for name in names:
        one, other = given.get(name), made[name]
        if one != other or isinstance(one, bool) != isinstance(other, bool):  # 1 is no flag
            raise InputError(
                f"the '{name}' of the certificate does not follow from its figures; it was altered, or made by another "
                "version"
            )


def rounded_up(value: float) -> float:
    """To three digits, and not below."""
    if value <= 0:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit * (1.0 - 1e-12)) * unit:.3g}")


# How much each expert stakes in each round.


MIN_BET_FACTOR, MAX_BET_FACTOR = 1e-12, 1e100  # of multipliers and of scales, so that their inverses are numbers
CAP_SHARE = 0.9  # how near λ(1 + M) comes to 1, where a single row could ruin an expert
MAX_STAKE = 0.45  # more would leave no room for a cap


@dataclass(frozen=True)
class Bets:
    """Expert k stakes λ = multiplier_k · scale_l in round l, the scale cut where the boldest would stake too much.

    So the stakes of all experts are in proportion, round by round. Scores are capped at `M = share/λ − 1`.

    multipliers (K,): one an expert, fixed in advance.
    scales (rounds,): fixed before each round.
    share: how near λ(1 + M) comes to 1.
    spared: rounds at the beginning in which nobody stakes anything.
    """

    multipliers: tuple[float, ...]
    scales: tuple[float, ...]
    share: float = CAP_SHARE
    spared: int = 0

    def __post_init__(self) -> None:
        for name, given in (("multipliers", self.multipliers), ("scales", self.scales)):
            if not given or not all(MIN_BET_FACTOR < value < MAX_BET_FACTOR for value in given):
                raise InputError(
                    f"the {name} of bets must lie between {MIN_BET_FACTOR:g} and {MAX_BET_FACTOR:g}, got {given}"
                )
        if not 0 < self.share < 1:
            raise InputError(f"share must lie between 0 and 1, got {self.share}")
        if not 0 <= self.spared < len(self.scales):
            raise InputError(f"{self.spared} of {len(self.scales)} rounds cannot be spared; one must be left to bet in")

    def __len__(self) -> int:
        return len(self.multipliers)

    @property
    def units(self) -> FloatArray:
        """What a multiplier of 1 stakes (rounds,)."""
        units = np.minimum(np.array(self.scales), MAX_STAKE / max(self.multipliers))
        units[: self.spared] = 0.0
        return units

    def stakes(self, expert: int) -> FloatArray:
        """λ (rounds,)."""
        return self.multipliers[expert] * self.units


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
    limits: RowLimits = RELEASED_LIMITS[0]

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
                limits=RowLimits.from_json(given.get("limits")),
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
