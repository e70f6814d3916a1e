"""Claims, the base of every kind of certificate: a sentence about a policy with its assumptions, and its JSON."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.certificate.alarms import AssumptionCheck, alarm_words, look
from pacbandits.checks import check_percentage
from pacbandits.confidence import check_delta, check_epsilon, check_positive_epsilon
from pacbandits.errors import InputError, one_line, plain
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.registry import chosen_from_json, policy_from_json
from pacbandits.progress import Displayed
from pacbandits.records import Chosen, Log, Mixture, describe_chosen
from pacbandits.records.log_metadata import UNIT_RANGE, check_range
from pacbandits.records.policy import call, check_names
from pacbandits.records.text_files import MAX_COLUMNS
from pacbandits.schema import Fields, Json, format_text, json_object, read_format


class ToldOfLog(Protocol):
    """The facts about a log that a certificate records: those of a `Log`, or of a source that reads it from files."""

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


# A kind of certificate adds the figures that its proof needs. Rechecking a claim is the task of `pacbandits.verifier`,
# which imports no module that makes certificates.


MAX_STORED_MAGNITUDE = 1e100  # of numbers in a file; their squares and inverses are still finite
MAX_STORED_REMARKS = 100
# The format of every kind of certificate (docs/stability.md). Those made before 0.2.0 state none, and have format 1.
FORMAT_NAME, UNNUMBERED, FORMAT = "certificate", 1, 2
FIELDS_BESIDE_A_CLAIM = ("class", "reading", "record", "plan")  # in a file
# Assumptions of every certificate, as of every A/B test; `pacbandits.certificate.alarms` tests some of them.
ALIKE = "contexts, and what each action would earn in them, are independent draws from one distribution, first to last"
APART = "what a row earns does not depend on what was played in other rows"
BEFORE = "contexts were recorded before the action was drawn, and hold nothing that came after"
FIXED = "the policy class was fixed before the log was seen"
DOUBT = "the log speaks against an assumption of this claim"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Claim(Displayed, ABC):
    """A claim that, except with probability δ, a policy is within ε of the best; with its assumptions.

    policy: q, the policy or mixture policy that the claim is about.
    epsilon: the requested distance, in units of rewards; 0 for the best policy itself.
    delta: the probability of being wrong.
    certified_epsilon: the proven bound on V* − V(q); the width of `reward_range` (default: 1) if none smaller is
        proven.
    samples: the number of interactions.
    rows: the number of rows of the log.
    digest: of the log.
    class_digest: of the policy class; None for a class without a description in JSON.
    remarks: further assumptions, in words.
    checks: the results of testing the assumptions on the log.
    along_file: the look for drift along the file of rows that count in another order: a remark, not recorded.
    action_names (A,): the names of the actions; None if they are only numbered.
    reward_range: the smallest and the largest possible reward; distances are in its units.
    dates: the columns of dates and times that features were made from.
    format: the number of the file's format: that of the file it was read from.
    """

    kind: ClassVar[str]
    speaks_of_contexts: ClassVar[bool] = False  # beyond those of its log: a file of contexts then belongs to it
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
    along_file: AssumptionCheck | None = None
    action_names: tuple[str, ...] | None = None
    reward_range: tuple[float, float] = UNIT_RANGE
    dates: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def unit(self) -> float:
        """The width of the reward range: a distance of 1 between rewards scaled to [0, 1]."""
        return self.reward_range[1] - self.reward_range[0]

    @property
    def unit_epsilon(self) -> float:
        """The requested distance, for rewards scaled to [0, 1]."""
        return self.epsilon / self.unit

    @property
    def unit_certified_epsilon(self) -> float:
        """The proven distance, for rewards scaled to [0, 1]."""
        return self.certified_epsilon / self.unit

    @property
    def within(self) -> str:
        """The assumption on the range of rewards, in words."""
        return f"rewards lie in [{self.reward_range[0]:g}, {self.reward_range[1]:g}]"

    @property
    def words(self) -> str:
        """A description of the policy in words, with the names of actions if they have any."""
        return describe_chosen(self.policy, self.action_names)

    @property
    @abstractmethod
    def certified(self) -> bool:
        """Whether the policy is proven to be within ε of the best."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """All assumptions of the claim, in words."""

    @abstractmethod
    def figures(self) -> Json:
        """Return the figures that this kind of certificate adds, as JSON-compatible values."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> Self:
        """Return the certificate that `to_json` wrote; policies: the class, for policies of a kind of its own."""

    @property
    def alarms(self) -> tuple[str, ...]:
        """The evidence in the log against the assumptions of the claim, in words."""
        return alarm_words(self.checks)

    @property
    def proviso(self) -> str:
        """The condition of the claim, as the start of its sentence; empty by default."""
        return ""

    @property
    def best(self) -> str:
        """The comparator of the policy, in words."""
        return "the best of its class"

    def describe(self) -> str:
        """Return the claim as a sentence."""
        what = "mixture policy" if isinstance(self.policy, Mixture) else "policy"
        sentence = f"{self.proviso}except with probability {self.delta:g} the {what} is within"
        if self.certified:
            return f"{sentence} {self.epsilon:g} of {self.best}"
        lacking = f"not certified at {self.epsilon:g}" if self.epsilon > 0 else "not certified as the best itself"
        if self.certified_epsilon < self.unit:
            near = f"{rounded_up(self.certified_epsilon):.3g}"
            return f"{lacking}; {sentence} {near} of {self.best}"
        return f"{lacking}, nor at any smaller distance than {self.unit:g}"

    def promise(self) -> str:
        """Return the alarms, the claim and its assumptions as a sentence."""
        return f"{self._doubts()}{self.describe()}; assumes that {self.assuming()}"

    def _doubts(self) -> str:
        return "".join(f"{DOUBT} ({alarm}): " for alarm in self.alarms)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {one_line(self._doubts() + self.describe())}>"

    def assuming(self, between: str = "; that ") -> str:
        """Return the assumptions for people, each on one line even if a remark has several."""
        return between.join(one_line(words) for words in self.assumptions)

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {
            "kind": self.kind,
            **({} if self.format == UNNUMBERED else {"format": format_text(FORMAT_NAME, self.format)}),
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

    @property
    def told(self) -> tuple[AssumptionCheck, ...]:
        """The checks for a reader: for rows that count in another order, the look along the file instead of none."""
        if self.along_file is None:
            return self.checks
        return (self.along_file, *(check for check in self.checks if check.kind != self.along_file.kind))

    def with_remarks(self, *words: str) -> Self:
        """Return the same claim with further assumptions."""
        return replace(self, remarks=(*self.remarks, *words))

    def of(self, log: Log) -> Log:
        """Return the rows of a log that the claim is about: the first ones, if the log has grown since."""
        return log if len(log) <= self.rows else log.take(np.arange(self.rows))

    def looked_at(self, log: Log) -> Self:
        """Return the same claim with the results of testing its assumptions on the log."""
        return replace(self, checks=look(log))


def check_distance(log: ToldOfLog, epsilon: float) -> float:
    """Return ε; raise InputError unless it is positive and less than the width of the reward range."""
    return _check_below_range(log, check_positive_epsilon(epsilon))


def check_distance_or_best(log: ToldOfLog, epsilon: float) -> float:
    """Return ε; raise InputError unless it is 0, which asks for the best policy itself, or as for `check_distance`."""
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
    """Raise InputError if the log has one action, or only one that could ever be played, so that nothing was compared.

    fixed: whether propensities that are the same in these rows are the same in all rows.
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
    """Return ε and δ; raise InputError if the log cannot support a claim about the class at these values."""
    policies = check_class(policies)
    asked = check_distance_or_best(log, epsilon), check_delta(delta)
    if log.n_actions != policies.n_actions:
        raise InputError(f"the log has {log.n_actions} actions, but the policies have {policies.n_actions}")
    return asked


def read_common(given: Json, policies: PolicyClass | None, *, single: bool = False) -> Json:
    """Return the fields of a `Claim` from its JSON, by name; single: refuse a mixture policy."""
    read = policy_from_json if single else chosen_from_json
    fields = Fields(given, "certificate")
    policy = read(fields["policy"], policies)
    low, high = check_range(fields.numbers("reward_range", shortest=2, longest=2))
    named = None if fields["action_names"] is None else fields.texts("action_names", most=policy.n_actions)
    return {
        "format": check_format(given),
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


def check_format(given: Json) -> int:
    """Return the number of a certificate's format; raise InputError for one that this version cannot read."""
    if "format" not in given and "checks" not in given:
        raise InputError(
            "the certificate lacks 'checks': it was altered, or made by pacbandits 0.1.0, whose certificates no later "
            "version reads; make it again from its log with `pacbandits certify`"
        )
    return read_format(given, FORMAT_NAME, latest=FORMAT, unnumbered=UNNUMBERED)


@contextmanager
def reading(value: object, *, kind: type[Claim]) -> Generator[Json]:
    """Yield the JSON of a certificate of this kind; prefix any InputError inside by naming the certificate."""
    given = json_object(value, name="a certificate")
    if given.get("kind") != kind.kind:
        raise InputError(f"this is not a {kind.kind}")
    check_format(given)
    try:
        yield given
    except InputError as error:
        raise InputError(f"the certificate cannot be read: {error}") from None


def check_follows(given: Json, made: Json, *, names: Iterable[str]) -> None:
    """Raise InputError unless these fields of a certificate follow from its figures and it has no unknown fields."""
    Fields(given, "certificate").check_known((*made, *FIELDS_BESIDE_A_CLAIM))
    for name in names:
        one, other = given.get(name), made[name]
        if name == "claim" and isinstance(one, str):  # as earlier versions spelt it
            one = one.replace("the lottery is within", "the mixture policy is within")
        if one != other or isinstance(one, bool) != isinstance(other, bool):  # 1 == True, but is not a flag
            raise InputError(
                f"the '{name}' of the certificate does not follow from its figures; it was altered, or made by another "
                "version"
            )


def rounded_up(value: float, *, digits: int = 3) -> float:
    """Return the value rounded up to so many digits: every bound that a sentence states is rounded so.

    A value is already rounded if it is so up to the rounding of arithmetic.
    """
    if value == 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    whole = value / unit
    return float(f"{math.ceil(whole - 1e-12 * abs(whole)) * unit:.{digits}g}")


def rounded_down(value: float, *, digits: int = 3) -> float:
    """Return the value rounded down to so many digits, as a sentence states what is gained at least."""
    return -rounded_up(-value, digits=digits)


def rounded_outward(low: float, high: float, *, digits: int = 3) -> tuple[float, float]:
    """Return the ends of an interval rounded to so many digits, so that it covers what it covered."""
    return rounded_down(low, digits=digits), rounded_up(high, digits=digits)
