"""What is fixed when an experiment is created, and can be published before anyone is assigned."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Literal, cast

from pacbandits.algorithms import make_algorithm
from pacbandits.arrays import as_read, plain_number
from pacbandits.certificate import Learning
from pacbandits.checks import instance, number, settle, text
from pacbandits.confidence import check_delta, check_positive_epsilon, withdrawal_part
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.experiment.checking import (
    MAX_ACTIONS,
    NO_FEATURES,
    check_actions,
    check_algorithm,
    check_dates,
    check_experiment_name,
    check_people,
    check_seed,
    one_of,
    sampled,
)
from pacbandits.experiment.rules import Forecast, GuardrailRule, LateRule
from pacbandits.fields import Fields, Json
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.registry import class_from_json, class_to_json, describe_class, digest_class, load_policies
from pacbandits.policies.without import without
from pacbandits.records import Contexts, RewardBounds, check_contexts
from pacbandits.records.digest import digest_contexts
from pacbandits.records.log import UNIT_RANGE, check_range
from pacbandits.trials.protocol import Setting
from pacbandits.trials.trial import Trial
from pacbandits.version import __version__

FORMAT = "pacbandits experiment 1"
Visits = Literal["sticky", "each"]
VISITS: tuple[Visits, ...] = ("sticky", "each")
UnknownLabels = Literal["refuse", "missing"]
UNKNOWN_LABELS: tuple[UnknownLabels, ...] = ("refuse", "missing")
DEFAULT_DELTA, DEFAULT_ALGORITHM = 0.05, "coda"
MAX_HOLDOUT = 0.9  # of units
MAX_ROUND_HOURS = 24 * 366
FIELDS = (
    *("format", "made_by", "name", "contexts", "actions", "policies", "epsilon", "delta", "reward_range", "algorithm"),
    *("seed", "visits", "unknown_labels", "standard", "holdout", "late", "round_hours", "guardrail", "plan"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExperimentProtocol:
    """All that is fixed when an experiment is created.

    name: letters, digits, dots, dashes and underlines, as it stands in addresses.
    contexts: of people as they come, from before the experiment: which features there are, and who comes.
    actions (A,): what the actions are called.
    policies: the class to search, or its name, `trees:depth=2`: it is then made from the contexts.
    epsilon: how near to the best the policy is to be, in the units of rewards.
    delta: the probability that the claim is wrong.
    reward_range: the least and the largest that a reward can be.
    algorithm: `coda` or `uniform`, with options as in commands.
    seed: of all that is drawn; None for one that nobody can guess.
    visits: "sticky" gives a unit the same action whenever it comes; "each" draws anew, and the claim is of first
        visits.
    unknown_labels: what a label means that the contexts did not have: "refuse" gives an error, "missing" takes it for a
        missing one.
    standard: the action of the holdout, with which others are compared; None for the first.
    holdout: the share of units that always get the standard action, and are not part of the trial.
    late: what a reward means that is not in.
    round_hours: after how many hours a round closes at the latest; None for no limit.
    guardrail: an outcome that must not become too frequent, if there is one.
    plan: what was foretold, where the experiment comes from a plan.
    dates: columns of dates and times that features were made of; by default those that names of features tell.
    spec: the name of the class, where it was given by one.
    made_by: the version that made the protocol.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
    >>> protocol = pb.ExperimentProtocol(
    ...     name="checkout", contexts=people, actions=["standard", "discount"], policies="trees:depth=1", epsilon=0.1
    ... )
    >>> protocol.standard, protocol.late.describe()
    ('standard', 'a reward that is not in may be anything, and is counted as what is worst for the claim')

    Raises:
        InputError: When something cannot be, in a sentence that says what and how to mend it.
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
    dates: tuple[str, ...] | None = None
    spec: str | None = None
    made_by: str = f"pacbandits {__version__}"

    def __post_init__(self) -> None:
        settle(self, name=check_experiment_name(self.name), actions=check_actions(self.actions))
        settle(self, reward_range=check_range(self.reward_range), delta=check_delta(self.delta))
        settle(self, epsilon=self._check_epsilon(), seed=check_seed(self.seed))
        for name, known in (("visits", VISITS), ("unknown_labels", UNKNOWN_LABELS)):
            settle(self, **{name: one_of(getattr(self, name), known, name=name)})
        standard = self.actions[0] if self.standard is None else text(self.standard, name="standard")
        if standard not in self.actions:
            raise InputError(f"standard is '{plain(standard)}', which is no action{nearest(standard, self.actions)}")
        holdout = number(self.holdout, name="holdout, a share of units,", least=0, most=MAX_HOLDOUT)
        settle(self, standard=standard, holdout=holdout)
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
        settle(self, dates=check_dates(self.dates, self.contexts))
        self.trial()  # options of the algorithm are checked by making it

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    @property
    def unit_epsilon(self) -> float:
        """ε where rewards lie in [0, 1]."""
        low, high = self.reward_range
        return self.epsilon / (high - low)

    @property
    def policy_class(self) -> PolicyClass:
        """The class to search, made."""
        return cast(PolicyClass, self.policies)

    @property
    def drawn_seed(self) -> int:
        """The seed, drawn where none was given."""
        return cast(int, self.seed)

    @property
    def standard_action(self) -> int:
        """The number of the standard action."""
        return self.actions.index(cast(str, self.standard))

    @property
    def date_columns(self) -> tuple[str, ...]:
        """The columns of dates and times that features are made of."""
        return cast(tuple[str, ...], self.dates)

    @cached_property
    def contexts_digest(self) -> str:
        """What names the contexts."""
        return digest_contexts(self.contexts)

    @property
    def learning(self) -> Learning | None:
        """How the class came about, for the certificate; None for one that was handed in."""
        if self.spec is None:
            return None
        return Learning(self.spec, len(self.contexts), self.contexts_digest, 0, in_order=True)

    @property
    def words(self) -> str:
        """The class as people call it."""
        return describe_class(self.policy_class) if self.spec is None else self.spec

    def remarks(self) -> tuple[str, ...]:
        """What a claim of the experiment has to say beside what every claim says."""
        found = [self.late.describe()]
        if self.visits == "each":
            found.append("actions are drawn anew at each visit, and the claim is of first visits")
        if self.holdout:
            found.append(f"{100 * self.holdout:g} % of units always get '{plain(self.standard)}' and do not count")
        return tuple(found)

    def to_unit(self, reward: float) -> float:
        """A reward in its own units as one in [0, 1]."""
        low, high = self.reward_range
        return (reward - low) / (high - low)

    def trial(self, withdrawn: Collection[str] = ()) -> tuple[Trial, PolicyClass]:
        """The trial and the class it searches, when these actions are withdrawn.

        Which are withdrawn is decided by what is seen. So each set of actions has a part of δ of its own, fixed before:
        whatever is withdrawn when, all claims together err with probability at most δ.
        """
        for name in withdrawn:
            if name not in self.actions:
                raise InputError(f"there is no action '{plain(name)}' to withdraw{nearest(name, self.actions)}")
        gone = {self.actions.index(name) for name in withdrawn}
        policies = without(self.policy_class, gone)
        delta = self.delta * withdrawal_part(self.n_actions, len(gone))
        setting = Setting(policies, self.unit_epsilon, delta, RewardBounds())
        return cast(Trial, make_algorithm(self.algorithm, setting)), policies

    @cached_property
    def digest(self) -> str:
        """What names the protocol: SHA-256 of what `published` gives. It can be shown before the experiment ends."""
        return digest_published(self.published())

    def published(self) -> Json:
        """What anyone may see from the start: all but the seed, of which there is a hash, and whom it was learnt from.

        Contexts are named by their digest alone; the class stands there whole.
        """
        return publish(self.to_json())

    def to_json(self) -> Json:
        """As what JSON knows; contexts by their digest, as they are a table of their own."""
        c = self.contexts
        return {
            "format": FORMAT,
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
            "seed": str(self.seed),  # a whole number of any size, which not all that read JSON keep
            "visits": self.visits,
            "unknown_labels": self.unknown_labels,
            "standard": self.standard,
            "holdout": self.holdout,
            "late": self.late.to_json(),
            "round_hours": self.round_hours,
            "guardrail": None if self.guardrail is None else self.guardrail.to_json(),
            "plan": None if self.plan is None else self.plan.to_json(),
        }

    @classmethod
    def from_json(cls, value: object, *, contexts: Contexts, policies: PolicyClass | None = None) -> ExperimentProtocol:
        """What `to_json` wrote; contexts: those it names. policies: the class, if it is one of the user's own."""
        given = Fields.read(value, of="protocol")
        if given.given.get("format") != FORMAT:
            raise InputError(f"this is no protocol of an experiment: its format must be '{FORMAT}'")
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
            dates=about.texts("dates"),
            made_by=given.text("made_by"),
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
        """Make the class of a name; and leave out ids of contexts where the class does not go by them."""
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
        class_to_json(made)  # or a sentence: what has no form in JSON cannot be published
        settle(self, contexts=contexts)


def publish(protocol: Json) -> Json:
    """What anyone may see of a protocol in JSON: a hash in the place of its seed."""
    if "seed" not in protocol:
        return protocol
    shown = {name: value for name, value in protocol.items() if name != "seed"}
    return shown | {"seed_sha256": hash_seed(str(protocol["seed"]))}


def hash_seed(seed: str) -> str:
    """What a seed is known by until it is told: it can be checked then, and not guessed before, if it was drawn."""
    return sha256(f"pacbandits seed {seed}".encode()).hexdigest()


def digest_published(protocol: Json) -> str:
    """What names a protocol in JSON, with its seed or with the hash of it."""
    canonical = json.dumps(publish(protocol), sort_keys=True, separators=(",", ":"), default=plain_number)
    return sha256(canonical.encode("utf-8")).hexdigest()
