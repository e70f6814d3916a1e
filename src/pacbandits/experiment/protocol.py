"""The protocol of an experiment: everything fixed at creation, publishable before the first assignment."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from typing import Literal, cast

import numpy as np

from pacbandits.algorithms import find_algorithm, list_profiles, make_algorithm, profile_of
from pacbandits.arrays import as_read
from pacbandits.certificate import Learning
from pacbandits.certificate.certificate import CountedPilot
from pacbandits.checks import flag, instance, number, settle, shown, text, texts, whole_number
from pacbandits.confidence import check_delta, check_positive_epsilon, withdrawal_part
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.experiment.chain import digest_published, publish
from pacbandits.experiment.draws import DRAWINGS, Drawing
from pacbandits.experiment.stored_rows import MAX_DURATION_SECONDS, spell_duration
from pacbandits.experiment.stored_rows import read_duration as read_duration
from pacbandits.planning.assumptions import Forecast
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.constraints import without
from pacbandits.policies.registry import (
    class_from_json,
    class_to_json,
    describe_class,
    digest_class,
    learns,
    load_policies,
)
from pacbandits.records import Contexts, Log, RewardBounds, check_contexts
from pacbandits.records.column_types import DAY_ENDING, WEEKDAYS, date_parts
from pacbandits.records.columns import ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN, missing_label, tells_missing
from pacbandits.records.log import UNIT_RANGE, check_range, digest_contexts
from pacbandits.records.metrics import AnyMetric, Guardrail, read_guardrails, read_metrics, read_sealed_metrics
from pacbandits.schema import Fields, Json, format_text, read_format
from pacbandits.trials.pilot_rows import ArrangedPilot, arrange_stored
from pacbandits.trials.protocol import Setting
from pacbandits.trials.trial import Trial
from pacbandits.version import __version__

# Parts of a protocol: the rule for late rewards and the guardrail.


LateRuleName = Literal["worst case", "window"]
LATE_RULES: tuple[LateRuleName, ...] = ("worst case", "window")
DEFAULT_FALSE_ALARMS = 0.01
MAX_LABEL_CHARACTERS = 80  # of a name shown in tables and pages


@dataclass(frozen=True)
class LateRule:
    """The rule for pending and missing rewards.

    rule: "worst case": a pending reward may be anything, and the claim holds whatever it is. "window": the reward is
        the value reported within the window, or else `missing`.
    window_seconds: length of the window, from the assignment; None for the worst case.
    missing: value of a reward not reported within the window, in the units of rewards. None for the worst case; with
        a window, None until the protocol sets it to the low end of the reward range.
    """

    rule: LateRuleName = "worst case"
    window_seconds: float | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        word = text(self.rule, name="rule of late rewards")
        if word not in LATE_RULES:
            raise InputError(f"there is no rule '{plain(word)}' of late rewards{nearest(word, LATE_RULES)}")
        if self.rule == "worst case":
            for given, name in ((self.window_seconds, "window"), (self.missing, "missing")):
                if given is not None:
                    raise InputError(
                        f"'{name}' is of the window rule, and late rewards count by their worst case; leave it out, or "
                        'say rule = "window"'
                    )
            return
        if self.window_seconds is None:
            raise InputError('the window rule of late rewards needs to know how long to wait: window = "7 days"')
        seconds = number(self.window_seconds, name="window, in seconds,", above=0, most=MAX_DURATION_SECONDS)
        settle(self, window_seconds=seconds)
        if self.missing is not None:
            settle(self, missing=number(self.missing, name="missing, what no reward within the window counts as,"))

    @property
    def window(self) -> int | None:
        """Return the window in microseconds; None for the worst case."""
        return None if self.window_seconds is None else round(self.window_seconds * 1e6)

    def within(self, low: float, high: float) -> LateRule:
        """Return the rule for rewards in [low, high], with `missing` set to the low end unless it was given."""
        if self.rule == "worst case":
            return self
        missing = low if self.missing is None else self.missing
        if not low <= missing <= high:
            raise InputError(
                f"missing, what no reward within the window counts as, is {missing:g}, and rewards lie between {low:g} "
                f"and {high:g}; take a number between them"
            )
        return LateRule(self.rule, self.window_seconds, missing)

    def describe(self) -> str:
        """Return the rule in words, for a claim."""
        if self.window_seconds is None or self.missing is None:
            return "a reward that is not in may be anything, and is counted as what is worst for the claim"
        wait = spell_duration(self.window_seconds)
        return f"a reward is what came within {wait} of the assignment, and {self.missing:g} where nothing did"

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"rule": self.rule, "window_seconds": self.window_seconds, "missing": self.missing}

    @classmethod
    def from_json(cls, value: object) -> LateRule:
        """Parse the output of `to_json`."""
        given = Fields.read(value, of="rule of late rewards")
        given.check_known(("rule", "window_seconds", "missing"))
        rule: LateRuleName = "window" if given.one_of("rule", LATE_RULES) == "window" else "worst case"
        return cls(rule, given.number_or_null("window_seconds"), given.number_or_null("missing"))


@dataclass(frozen=True)
class GuardrailRule:
    """A guardrail: an outcome that must not become too frequent, such as complaints, refunds or crashes.

    name: name of the outcome.
    most: limit on its mean, in (0, 1), over all rows and for each action.
    false_alarms: probability of ever pausing although the limit is not exceeded.
    """

    name: str
    most: float
    false_alarms: float = DEFAULT_FALSE_ALARMS

    def __post_init__(self) -> None:
        settle(self, name=check_label(self.name, name="name of the guardrail"))
        most = number(
            self.most, name="most, the mean that the guardrail must not exceed,", above=0, below=1, wanted=_MOST
        )
        alarms = number(self.false_alarms, name="false_alarms of the guardrail", above=0, below=1)
        settle(self, most=most, false_alarms=alarms)

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"name": self.name, "most": self.most, "false_alarms": self.false_alarms}

    @classmethod
    def from_json(cls, value: object) -> GuardrailRule:
        """Parse the output of `to_json`."""
        given = Fields.read(value, of="guardrail")
        given.check_known(("name", "most", "false_alarms"))
        return cls(given.text("name"), given.number("most"), given.number("false_alarms"))


_MOST = "lie strictly between 0 and 1, as the outcome is a number in [0, 1]"


def check_label(value: object, *, name: str) -> str:
    """Return a name that tables and pages can show; raise InputError unless it is one short, non-empty line."""
    label = text(value, name=name)
    if not label.strip() or label != label.strip() or plain(label, most=MAX_LABEL_CHARACTERS) != label:
        raise InputError(
            f"{name} must be one line of 1 to {MAX_LABEL_CHARACTERS} visible characters, without blanks around it, got "
            f"{shown(value)}"
        )
    return label


# Checks of a protocol: names, actions, contexts, dates, the algorithm.


MAX_CONTEXTS = 20_000  # that designs are solved for; of more, a sample this large represents the population well enough
MAX_ACTIONS = 1_000
SEED_BITS = 128  # of a drawn seed: too many for a brute-force search
NO_FEATURES = "the contexts have no features, so nobody could be treated differently; give some columns"
# Columns of an exported log.
LOG_COLUMNS = frozenset(
    {"action", "reward", "propensities", "propensity", "least_propensity", "round", "repeats", "unit", "known"}
    | {ID_COLUMN, PHI_COLUMN, WEIGHT_COLUMN}
)
MAX_NAME_CHARACTERS = 64  # of an experiment's name
NAME_PATTERN = rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_NAME_CHARACTERS - 1}}}$"


def check_experiment_name(name: object) -> str:
    """Return a valid name of an experiment; raise InputError for any other."""
    given = text(name, name="name of the experiment")
    if re.fullmatch(NAME_PATTERN, given) is None:
        raise InputError(
            f"'{plain(given)}' is no name for an experiment: it stands in addresses, so take up to "
            f"{MAX_NAME_CHARACTERS} letters, digits, dots, dashes and underlines, a letter or digit first"
        )
    return given


def check_people(contexts: object, *, unknown_labels: str) -> Contexts:
    """Return contexts whose features can be given with each assignment; raise InputError if they cannot.

    With unknown_labels "missing", every categorical feature gets a label for missing values.
    """
    given = check_contexts(contexts)
    if given.phi is not None:
        raise InputError(
            "the contexts carry features of actions (phi), which cannot be given with each assignment; leave that "
            "column out"
        )
    for name in given.names:
        check_label(name, name="a feature's name")
        if name in LOG_COLUMNS:
            raise InputError(f"the feature '{plain(name)}' has the name of a column of the log; rename it")
    if given.n_features == 0 and given.ids is None:
        raise InputError(NO_FEATURES)
    if unknown_labels == "missing":
        labels = tuple(None if one is None else _with_missing(one) for one in given.categories)
        given = replace(given, categories=labels)
    return given


def check_dates(dates: object, contexts: Contexts) -> tuple[str, ...]:
    """Return the date columns: those given, or by default those that feature names imply."""
    names = contexts.names
    if dates is None:
        return tuple(
            name.removesuffix(DAY_ENDING)
            for name in names
            if name.endswith(DAY_ENDING) and f"{name.removesuffix(DAY_ENDING)} weekday" in names
        )
    given = texts(dates, name="dates")
    for column in given:
        parts = date_parts(names, (column,))
        if not parts:
            raise InputError(f"no feature is made of the column of dates '{plain(column)}'; leave it out of dates")
        for feature, part in parts.items():
            labels = contexts.categories[names.index(feature)]
            weekday = labels is not None and labels[: len(WEEKDAYS)] == WEEKDAYS
            if weekday != (part.part == "weekday") or (labels is not None and not weekday):
                raise InputError(f"the feature '{plain(feature)}' is not what is made of dates; rename it")
    return given


def check_actions(actions: object) -> tuple[str, ...]:
    """Return the action names; raise InputError unless there are 2 to 1,000 valid and distinct ones."""
    given = tuple(check_label(name, name="an action's name") for name in texts(actions, name="actions"))
    if not 2 <= len(given) <= MAX_ACTIONS:
        raise InputError(f"an experiment has 2 to {MAX_ACTIONS:,} actions, got {len(given)}")
    if len(set(given)) < len(given):
        twice = next(name for i, name in enumerate(given) if name in given[:i])
        raise InputError(f"two actions are called '{plain(twice)}'; give each a name of its own")
    return given


def check_seed(seed: object) -> int:
    """Return the seed, or a random one if it is None."""
    if seed is None:
        return secrets.randbits(SEED_BITS)
    return whole_number(seed, name="seed", least=0, most=2**SEED_BITS - 1)


def check_algorithm(spec: object) -> str:
    """Return an algorithm spec; raise InputError unless it certifies along the way and its state can be stored."""
    given = text(spec, name="algorithm")
    find_algorithm(given)
    profile = profile_of(given)
    if not (profile.certifies and profile.keeps_state):
        able = ", ".join(one.name for one in list_profiles() if one.certifies and one.keeps_state)
        raise InputError(f"{profile.name} cannot run an experiment, as it proves nothing on the way; these can: {able}")
    return given


def one_of(value: object, known: Collection[str], *, name: str) -> str:
    """Return one of the known words; raise InputError with the nearest one otherwise."""
    word = text(value, name=name)
    if word not in known:
        raise InputError(f"{name} is '{plain(word)}', which means nothing here{nearest(word, known)}")
    return word


def _with_missing(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels with one for missing values at the end."""
    return labels if tells_missing(labels) else (*labels, missing_label(labels))


def sampled(contexts: Contexts) -> Contexts:
    """Return the contexts, or MAX_CONTEXTS of them sampled by weight without replacement if there are more."""
    if len(contexts) <= MAX_CONTEXTS:
        return contexts
    rng, some = np.random.default_rng(len(contexts)), min(MAX_CONTEXTS, int((contexts.weights > 0).sum()))
    return contexts.take(np.sort(rng.choice(len(contexts), some, replace=False, p=contexts.weights)))


FORMAT = 1  # of the protocol (docs/stability.md); sealed in its digest
Visits = Literal["sticky", "each"]
VISITS: tuple[Visits, ...] = ("sticky", "each")
UnknownLabels = Literal["refuse", "missing"]
StopRule = Literal["epsilon", "gain"]
STOP_RULES: tuple[StopRule, ...] = ("epsilon", "gain")
UNKNOWN_LABELS: tuple[UnknownLabels, ...] = ("refuse", "missing")
DEFAULT_DELTA, DEFAULT_ALGORITHM = 0.05, "coda"
MISSING_METRICS = "a metric is what came with the reward, and 0 or what its range has nearest to 0 where nothing did"
REHEARSED = "the experiment is a rehearsal: people and rewards may be simulated"
MAX_HOLDOUT = 0.9  # share of units
MAX_ROUND_HOURS = 24 * 366
FIELDS = (
    *("format", "made_by", "name", "contexts", "actions", "policies", "epsilon", "delta", "reward_range", "algorithm"),
    *("seed", "visits", "unknown_labels", "standard", "holdout", "late", "round_hours", "guardrail", "plan"),
    *("rehearsal", "draws", "metrics", "guardrails", "stop", "gain", "pilot"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExperimentProtocol:
    """The settings of an experiment, all fixed at creation.

    name: letters, digits, dots, dashes and underscores, as it is part of URLs.
    contexts: contexts of past users, which define the features and their distribution.
    actions (A,): names of the actions.
    policies: the policy class to search, or its spec such as `trees:depth=2`, which is built from the contexts.
    epsilon: the goal: the largest distance from the best policy, in the units of rewards.
    delta: probability that the claim is wrong.
    reward_range: smallest and largest possible reward.
    algorithm: `coda` or `uniform`, with options as on the command line.
    seed: seed of all random draws; None draws one that cannot be guessed.
    draws: "unit" draws by a keyed hash of the unit, so that what a unit would get from a design does not depend on when
        it is asked for. "row" draws by the number of the assignment, so that the same seed and the same events give
        the same decisions. None is "row" if a seed is given, for a rehearsal, and else "unit".
    visits: "sticky" gives a unit the same action at every visit; "each" draws anew, and the claim is about first
        visits.
    unknown_labels: treatment of a label that the contexts do not have: "refuse" raises an error, "missing" treats it
        as a missing value.
    standard: the action of the holdout and of comparisons; None for the first action.
    control: the same by the name that `certify` has for it; name one of the two.
    metrics: outcomes beside the reward that are reported with it: ["returned", ("minutes", 0, 600)].
    guardrails: how much worse than control a policy may be in a metric: ["returned <= control + 0.01"]. They are sealed
        with the protocol, and proven by `certify` on the exported log.
    stop: "epsilon" ends the experiment when the policy is proven to be within epsilon of the best; "gain" when a gain
        over control is proven of a policy that violates no guardrail. Epsilon is then only the size of differences by
        which exploration is chosen.
    gain: the smallest proven gain to stop at, in the units of rewards; None for any above 0.
    pilot: the log of a randomised pilot with the propensities of all actions, whose rows count as the first of the
        trial. They are stored, sealed and exported with the experiment; the protocol has their number and digest.
    holdout: share of units that always get the standard action and are not part of the trial.
    late: the rule for pending and missing rewards.
    round_hours: maximum length of a round in hours; None for no limit.
    guardrail: an outcome that must not become too frequent, if there is one: the experiment pauses if it does.
    plan: the forecast of the plan that the experiment comes from, if any.
    dates: date and time columns that features were derived from; by default those that feature names imply.
    spec: the spec of the class, if it was given by one.
    made_by: the version that made the protocol.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
    >>> protocol = pb.ExperimentProtocol(
    ...     name="checkout", contexts=people, actions=["standard", "discount"], policies="trees:depth=1", epsilon=0.1
    ... )
    >>> protocol.standard, protocol.late.describe()
    ('standard', 'a reward that is not in may be anything, and is counted as what is worst for the claim')

    Raises:
        InputError: If a setting is invalid; the message says which and how to fix it.
    """

    name: str
    contexts: Contexts
    actions: tuple[str, ...]
    policies: PolicyClass | str
    epsilon: float
    delta: float = DEFAULT_DELTA
    reward_range: tuple[float, float] = UNIT_RANGE
    algorithm: str = DEFAULT_ALGORITHM
    seed: int | None = None
    visits: Visits = "sticky"
    unknown_labels: UnknownLabels = "refuse"
    standard: str | None = None
    holdout: float = 0.0
    late: LateRule = field(default_factory=LateRule)
    round_hours: float | None = None
    guardrail: GuardrailRule | None = None
    plan: Forecast | None = None
    rehearsal: bool = False
    dates: tuple[str, ...] | None = None
    spec: str | None = None
    draws: Drawing | None = None
    made_by: str = f"pacbandits {__version__}"
    control: InitVar[str | None] = None
    metrics: tuple[AnyMetric, ...] = ()
    guardrails: tuple[Guardrail, ...] = ()
    stop: StopRule = "epsilon"
    gain: float | None = None
    pilot: Log | ArrangedPilot | CountedPilot | None = None

    def __post_init__(self, control: str | None) -> None:
        settle(self, name=check_experiment_name(self.name), actions=check_actions(self.actions))
        settle(self, reward_range=check_range(self.reward_range), delta=check_delta(self.delta))
        drawn = "unit" if self.seed is None else "row"
        settle(self, draws=drawn if self.draws is None else self.draws)
        settle(self, epsilon=self._check_epsilon(), seed=check_seed(self.seed))
        listed = (("visits", VISITS), ("unknown_labels", UNKNOWN_LABELS), ("draws", DRAWINGS), ("stop", STOP_RULES))
        for name, known in listed:
            settle(self, **{name: one_of(getattr(self, name), known, name=name)})
        named = {"standard": self.standard, "control": control}
        named = {name: text(one, name=name) for name, one in named.items() if one is not None}
        for name, one in named.items():
            if one not in self.actions:
                raise InputError(f"{name} is '{plain(one)}', which is no action{nearest(one, self.actions)}")
        standard, *other = dict.fromkeys(named.values()) or self.actions[:1]
        if other:
            words = f"standard is '{plain(standard)}' and control is '{plain(other[0])}'"
            raise InputError(f"{words}, but both name one action, today's practice; leave one of them out")
        if self.stop == "gain" and not named:
            raise InputError("an experiment that stops by a gain compares with today's practice; name it as 'control'")
        if self.gain is not None:
            if self.stop != "gain":
                raise InputError(f'a gain of {self.gain} is to stop at; add stop = "gain", or leave it out')
            width = self.reward_range[1] - self.reward_range[0]
            settle(self, gain=number(self.gain, name="gain", least=0, below=width))
        holdout = number(self.holdout, name="holdout, a share of units,", least=0, most=MAX_HOLDOUT)
        settle(self, standard=standard, holdout=holdout, rehearsal=flag(self.rehearsal, name="rehearsal"))
        late = instance(self.late, LateRule, name="late", remedy='say LateRule("window", window_seconds=604800)')
        settle(self, late=late.within(*self.reward_range))
        if self.round_hours is not None:
            hours = number(self.round_hours, name="hours of a round", above=0, most=MAX_ROUND_HOURS)
            settle(self, round_hours=hours)
        if self.guardrail is not None:
            instance(self.guardrail, GuardrailRule, name="guardrail", remedy='say GuardrailRule("complaint", 0.02)')
        if self.plan is not None:
            instance(self.plan, Forecast, name="plan", remedy="say Forecast.of(plan, algorithm=…)")
        settle(self, algorithm=check_algorithm(self.algorithm))
        settle(self, contexts=check_people(self.contexts, unknown_labels=self.unknown_labels))
        self._make_class()
        taken = LOG_COLUMNS | {*self.contexts.names}
        metrics, guardrails = read_sealed_metrics(self.metrics, self.guardrails, taken=taken)
        settle(self, metrics=metrics, guardrails=guardrails)
        settle(self, dates=check_dates(self.dates, self.contexts))
        trial, _ = self.trial()  # building the trial checks the algorithm's options
        if self.pilot is not None and not isinstance(self.pilot, CountedPilot):
            rows = arrange_stored(
                trial,
                self.pilot,
                self.policy_class,
                self.contexts,
                taught=self.spec is not None and learns(self.spec),
                action_names=self.actions,
                reward_range=self.reward_range,
                metrics=self.metrics,
                dates=self.date_columns,
            )
            settle(self, pilot=rows)

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    @property
    def unit_epsilon(self) -> float:
        """Return ε on the scale of rewards in [0, 1]."""
        low, high = self.reward_range
        return self.epsilon / (high - low)

    @property
    def policy_class(self) -> PolicyClass:
        """Return the policy class to search, built from its spec if one was given."""
        return cast(PolicyClass, self.policies)

    @property
    def drawn_seed(self) -> int:
        """Return the seed, which was drawn if none was given."""
        return cast(int, self.seed)

    @property
    def standard_action(self) -> int:
        """Return the index of the standard action."""
        return self.actions.index(cast(str, self.standard))

    @property
    def date_columns(self) -> tuple[str, ...]:
        """Return the date and time columns that features are derived from."""
        return cast(tuple[str, ...], self.dates)

    @cached_property
    def contexts_digest(self) -> str:
        """Return the digest of the contexts."""
        return digest_contexts(self.contexts)

    @property
    def learning(self) -> Learning | None:
        """Return how the class was built from its spec, for the certificate; None if it was given as an object."""
        if self.spec is None:
            return None
        return Learning(self.spec, len(self.contexts), self.contexts_digest, 0, in_order=True)

    @property
    def words(self) -> str:
        """Return the class's spec, or its description if it was given as an object."""
        return describe_class(self.policy_class) if self.spec is None else self.spec

    @property
    def counted_pilot(self) -> CountedPilot | None:
        """Return what certificates record of the pilot; None if there is none."""
        return self.pilot_rows.record if self.pilot_rows is not None else cast(CountedPilot | None, self.pilot)

    @property
    def pilot_rows(self) -> ArrangedPilot | None:
        """Return the rows of the pilot in the order in which they count; None without, or once they are stored."""
        return self.pilot if isinstance(self.pilot, ArrangedPilot) else None

    def remarks(self) -> tuple[str, ...]:
        """Return the remarks that a claim of this experiment carries besides those of every claim."""
        pilot = self.counted_pilot
        said = spell_remarks(self.late, self.visits, self.holdout, cast(str, self.standard), bool(self.metrics), pilot)
        return (REHEARSED, *said) if self.rehearsal else said

    def trial(self, withdrawn: Collection[str] = ()) -> tuple[Trial, PolicyClass]:
        """Return the trial, and the class it searches, without the withdrawn actions.

        Withdrawals may depend on the data. So each set of actions has its own part of δ, fixed in advance: whatever is
        withdrawn and when, all claims together err with probability at most δ.
        """
        for name in withdrawn:
            if name not in self.actions:
                raise InputError(f"there is no action '{plain(name)}' to withdraw{nearest(name, self.actions)}")
        gone = {self.actions.index(name) for name in withdrawn}
        policies = without(self.policy_class, gone)
        delta = self.delta * withdrawal_part(self.n_actions, len(gone))
        setting = Setting(policies, self.unit_epsilon, delta, RewardBounds())
        if self.stop == "gain":
            if self.standard_action in gone:
                raise InputError(
                    f"'{plain(self.standard)}' is the control that gains are over, and cannot be withdrawn; stop the "
                    "experiment instead"
                )
            low, high = self.reward_range
            least = None if self.gain is None else self.gain / (high - low)
            setting = replace(setting, improve_on=self.standard_action, gain=least)
        return cast(Trial, make_algorithm(self.algorithm, setting)), policies

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of `published`, which can be shown before the experiment ends."""
        return digest_published(self.published())

    def published(self) -> Json:
        """Return the protocol as it may be published from the start: with a hash instead of the seed.

        The contexts are given by digest, size, feature names and labels, without rows; the class is given in full.
        """
        return publish(self.to_json())

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values; of the contexts, stored separately, only the digest and schema."""
        c = self.contexts
        return {
            "format": format_text("experiment", FORMAT),
            "made_by": self.made_by,
            "name": self.name,
            "contexts": {
                "digest": self.contexts_digest,
                "size": len(c),
                "names": list(c.names),
                "categories": [None if labels is None else list(labels) for labels in c.categories],
                "ids": c.ids is not None,
                "dates": list(self.date_columns),
            },
            "actions": list(self.actions),
            "policies": {
                "spec": self.spec,
                "words": describe_class(self.policy_class),
                "digest": digest_class(self.policy_class),
                "class": as_read(class_to_json(self.policy_class)),
            },
            "epsilon": self.epsilon,
            "delta": self.delta,
            "reward_range": list(self.reward_range),
            "algorithm": self.algorithm,
            "seed": str(self.seed),  # as text: some JSON parsers lose digits of large integers
            "visits": self.visits,
            "unknown_labels": self.unknown_labels,
            "standard": self.standard,
            "holdout": self.holdout,
            "late": self.late.to_json(),
            "round_hours": self.round_hours,
            "guardrail": None if self.guardrail is None else self.guardrail.to_json(),
            "plan": None if self.plan is None else self.plan.to_json(),
            **({"rehearsal": True} if self.rehearsal else {}),
            **({"draws": self.draws} if self.draws == "unit" else {}),
            **({"metrics": [one.to_json() for one in self.metrics]} if self.metrics else {}),
            **({"guardrails": [one.spelt for one in self.guardrails]} if self.guardrails else {}),
            **({"stop": "gain", "gain": self.gain} if self.stop == "gain" else {}),
            **({} if self.counted_pilot is None else {"pilot": self.counted_pilot.to_json()}),
        }

    @classmethod
    def from_json(cls, value: object, *, contexts: Contexts, policies: PolicyClass | None = None) -> ExperimentProtocol:
        """Parse the output of `to_json`.

        contexts: those whose digest it holds. policies: the class, if it is user-defined.
        """
        given = Fields.read(value, of="protocol")
        read_format(given.given, "experiment", latest=FORMAT)
        given.check_known(FIELDS)
        about = given.fields("contexts", of="protocol's contexts")
        if about.text("digest") != digest_contexts(check_contexts(contexts)):
            raise InputError("the contexts are not those that the protocol names: their digest is another")
        called = given.fields("policies", of="protocol's class")
        made = class_from_json(called["class"], policies)
        if called["digest"] != digest_class(made):
            raise InputError("the policy class is not the one that the protocol names: its digest is another")
        low, high = given.numbers("reward_range", shortest=2, longest=2)
        seed = given.text("seed", most=100)
        if not (seed.isascii() and seed.isdigit()):
            raise InputError(f"the seed of the protocol must be a whole number, got '{plain(seed)}'")
        return cls(
            name=given.text("name"),
            contexts=contexts,
            actions=given.texts("actions", most=MAX_ACTIONS),
            policies=made,
            spec=None if called["spec"] is None else called.text("spec"),
            epsilon=given.number("epsilon"),
            delta=given.number("delta"),
            reward_range=(low, high),
            algorithm=given.text("algorithm"),
            seed=int(seed),
            visits="each" if given.one_of("visits", VISITS) == "each" else "sticky",
            unknown_labels="missing" if given.one_of("unknown_labels", UNKNOWN_LABELS) == "missing" else "refuse",
            standard=given.text("standard"),
            holdout=given.number("holdout"),
            late=LateRule.from_json(given["late"]),
            round_hours=given.number_or_null("round_hours"),
            guardrail=None if given["guardrail"] is None else GuardrailRule.from_json(given["guardrail"]),
            plan=None if given["plan"] is None else Forecast.from_json(given["plan"]),
            rehearsal="rehearsal" in given.given and given.flag("rehearsal"),
            dates=about.texts("dates"),
            draws="unit" if "draws" in given and given.one_of("draws", DRAWINGS) == "unit" else "row",
            made_by=given.text("made_by"),
            metrics=read_metrics(given.items("metrics")) if "metrics" in given else (),
            guardrails=read_guardrails(given.items("guardrails")) if "guardrails" in given else (),
            stop="gain" if "stop" in given and given.one_of("stop", STOP_RULES) == "gain" else "epsilon",
            gain=given.number_or_null("gain") if "gain" in given else None,
            pilot=CountedPilot.from_json(given["pilot"]) if "pilot" in given else None,
        )

    def _check_epsilon(self) -> float:
        low, high = self.reward_range
        epsilon = check_positive_epsilon(self.epsilon, asker="an experiment")
        if epsilon >= high - low:
            raise InputError(
                f"epsilon must be below {high - low:g}, as far as rewards can be apart, got {epsilon:g}; no experiment "
                "is needed for that"
            )
        return epsilon

    def _make_class(self) -> None:
        """Build the class from its spec if one was given; drop context ids (and sample) unless the class uses ids."""
        contexts, bare = self.contexts, sampled(replace(self.contexts, ids=None))
        if isinstance(self.policies, str):
            spec = self.policies
            made = load_policies(spec, bare if contexts.ids is None else contexts, n_actions=self.n_actions)
            if contexts.ids is not None and not made.n_contexts:
                made = load_policies(spec, bare, n_actions=self.n_actions)
            settle(self, spec=spec, policies=made)
        else:
            made = check_class(self.policies)
            settle(self, policies=made)
        if not made.n_contexts:
            contexts = bare
        if made.n_actions != self.n_actions:
            raise InputError(
                f"the policies are for {count_of(made.n_actions, 'action')}, and there are {self.n_actions}"
            )
        if made.n_contexts:
            contexts.require_ids(below=made.n_contexts)
        elif contexts.n_features == 0:
            raise InputError(NO_FEATURES)
        class_to_json(made)  # raises if the class has no JSON form, as it could not be published
        settle(self, contexts=contexts)


def spell_remarks(
    late: LateRule, visits: str, holdout: float, standard: str, measured: bool, pilot: CountedPilot | None
) -> tuple[str, ...]:
    """Return the remarks that a claim of an experiment carries, by its protocol; measured: whether it has metrics."""
    found = [late.describe(), *(() if pilot is None else (pilot.assumption,))]
    if measured and late.window_seconds is not None:
        found.append(MISSING_METRICS)
    if visits == "each":
        found.append("actions are drawn anew at each visit, and the claim is of first visits")
    if holdout:
        found.append(f"{100 * holdout:g} % of units always get '{plain(standard)}' and do not count")
    return tuple(found)
