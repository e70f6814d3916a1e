"""What every certificate is: a claim about a policy, and how such a claim is written down and read again.

A kind of certificate adds the figures that its proof needs. How a claim is rechecked is no business of the claim: the
code that verifies stands apart from the code that certifies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from pacbandits.certificate.told import ToldOfLog
from pacbandits.certificate.watching import Check, alarm_words, look
from pacbandits.checks import check_percentage
from pacbandits.confidence import check_delta, check_epsilon, check_positive_epsilon
from pacbandits.errors import InputError, one_line, plain
from pacbandits.fields import Fields, json_object
from pacbandits.policies import chosen_from_json, policy_from_json
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Chosen, Log, Lottery, describe_chosen
from pacbandits.records.beside import UNIT_RANGE, check_range
from pacbandits.records.files import MAX_COLUMNS
from pacbandits.records.naming import call, check_names

Json = dict[str, Any]

MAX_STORED_MAGNITUDE = 1e100  # of numbers in a file; squares and inverses are still numbers
MAX_STORED_REMARKS = 100
FIELDS_BESIDE_A_CLAIM = ("class", "reading")  # in a file
# What every certificate rests on, as every A/B test does. `pacbandits.certificate.watching` looks for signs against it.
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
    checks: tuple[Check, ...] = ()
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
        "checks": tuple(Check.from_json(check) for check in fields.items("checks", most=MAX_STORED_REMARKS)),
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
