"""Assumptions of a plan: contexts, actions, policy class, rewards, and scenarios of effects; its forecast in short."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from pacbandits.checks import (
    Percentage,
    check_percentage,
    entries,
    flag,
    instance,
    number,
    positive,
    read_rate,
    settle,
    text,
    whole_number,
)
from pacbandits.confidence import check_asked_delta, check_positive_epsilon
from pacbandits.errors import InputError, count_of, plain
from pacbandits.options import parse_spec
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.registry import load_policies
from pacbandits.problems import Problem
from pacbandits.problems.pilots import PilotEffects
from pacbandits.problems.scenarios import DEFAULT_SHARE, Outcome, Scenario, ScenarioKind
from pacbandits.records import Contexts, Log, check_contexts
from pacbandits.records.columns import comparable
from pacbandits.records.log_metadata import UNIT_RANGE
from pacbandits.schema import Fields, Json

if TYPE_CHECKING:
    from pacbandits.planning.study_plan import StudyPlan

RIVALS = ("coda", "uniform")  # the algorithms that a plan compares
SHOWN_SHARES = (0.5, 0.8, 0.95)  # of cases, for which a plan says how many users suffice
EFFECT_FACTORS = (0.5, 1.0, 1.5)  # of the assumed effect: +10, +20 and +30 % where it is the default

# Traffic of a trial: users per period, batches, and the delay of rewards.


DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "year": 365.25}  # per period of traffic


@dataclass(frozen=True)
class Traffic:
    """The traffic of a trial: users per period.

    people: users in one period.
    period: hour, day, week, month or year.
    batched: whether the design may change only between periods.
    delay: the number of periods until a reward is known.

    >>> import pacbandits as pb
    >>> pb.Traffic.read("4000/week")
    Traffic(people=4000, period='week', batched=False, delay=0)
    """

    people: int
    period: str = "week"
    batched: bool = False
    delay: int = 0

    def __post_init__(self) -> None:
        settle(self, people=whole_number(self.people, name="--traffic", least=1))
        settle(self, delay=whole_number(self.delay, name="--delay, in periods of the traffic,", least=0))
        settle(self, batched=flag(self.batched, name="batched") or self.delay > 0)
        if text(self.period, name="period") not in DAYS:
            raise InputError(f"--traffic must be a number of users per {', '.join(DAYS)}; got '{plain(self.period)}'")

    @classmethod
    def read(cls, words: str, *, batched: bool = False, delay: int = 0) -> Traffic:
        """Parse traffic as written by a user: 4000/week, 150 a day."""
        found = re.fullmatch(
            r"\s*([\d_,.]*\d)\s*(?:/|an? |per )\s*([a-z]+?)s?\s*", text(words, name="--traffic").lower()
        )
        count = "" if found is None else re.sub(r"[_,]|\.(?=\d{3}\b)", "", found[1])
        if found is None or not count.isdigit():
            raise InputError(f"--traffic must be a number of users per period, such as 4000/week; got '{plain(words)}'")
        return cls(int(count), found[2], batched=batched, delay=delay)

    def taken(self, samples: float) -> float:
        """Return how many users come until the rewards of `samples` are known: whole periods, and the delay."""
        if math.isinf(samples) or not self.batched:
            return samples
        return float((self.periods(samples) + self.delay) * self.people)

    def counted(self, people: float) -> float:
        """Return how many rewards are known once this many users have come."""
        return float(max(people // self.people - self.delay, 0) * self.people) if self.batched else people

    def periods(self, people: float) -> float:
        """Return the number of periods until this many users have come."""
        if math.isinf(people):
            return people
        exact = number(people, name="people", least=0) / self.people
        return float(math.ceil(exact - 1e-9)) if self.batched else exact  # the tolerance absorbs rounding

    def people_in(self, periods: float) -> float:
        """Return how many users come in this many periods."""
        return periods * self.people

    def describe(self) -> str:
        """Return the traffic in words."""
        words = f"{self.people:,} people a {self.period}"
        if self.batched:
            words += f", a design that changes once a {self.period}"
        if self.delay:
            words += f", rewards known {self.delay} {self.period}{'s' * (self.delay > 1)} later"
        return words

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {"people": self.people, "period": self.period, "batched": self.batched, "delay": self.delay}


# Contexts that trials are simulated with, drawn from those given. With 1,000, 2,000 or 8,000 of 50,000 the uniform
# trial took 15,700, 14,800 and 15,100 (6 actions, one of which wins; means of 5): more would only take longer.
MAX_PEOPLE = 2_000
DEFAULT_RELATIVE_EFFECT = 0.2  # of the baseline: a choice, stated in the first line of every plan
MIN_ACTIONS_OF_FEW = 4  # below it, `few` would not differ from `segments`


@runtime_checkable
class Supposition(Protocol):
    """An assumption about the effects of actions: a `Scenario`, or the estimates of a pilot.

    name: its name in reports.
    weight: its probability, relative to the others.
    """

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float: ...

    def describe(self) -> str:
        """Return the assumption in words."""
        ...

    def check(self, outcome: Outcome, *, n_actions: int) -> None:
        """Raise if the assumption is impossible."""
        ...

    def draw(self, contexts: Contexts, policies: PolicyClass, *, outcome: Outcome, rng: np.random.Generator) -> Problem:
        """Draw a problem under the assumption."""
        ...


@dataclass(frozen=True, eq=False)
class Assumptions:
    """The assumptions of a plan.

    people: the contexts of users, with ids 0 … n − 1.
    policies: the class to search.
    epsilon, delta: how close to the best, in the units of rewards, and the probability of being wrong.
    outcome: the distribution of rewards.
    scenarios: the assumptions about effects.
    control: the action in use now.
    traffic: users per period; None if time does not matter.
    seed: of all random draws.
    spec: the name of the class, if it was given by name: it can then be made for fewer actions.
    power: the probability with which a gain over the control is to be proven; None for a plan to find a policy within
        ε, which has no meaning otherwise.
    count_pilot: whether the rows of the pilot among the scenarios count as the first of the trial; numbers of users are
        then of those to come.
    """

    people: Contexts
    policies: PolicyClass
    epsilon: float
    delta: float
    outcome: Outcome
    scenarios: tuple[Supposition, ...]
    control: int = 0
    traffic: Traffic | None = None
    seed: int = 0
    spec: str | None = None
    power: float | None = None
    count_pilot: bool = False

    def __post_init__(self) -> None:
        settle(self, policies=check_class(self.policies))
        if self.power is not None:
            settle(self, power=number(self.power, name="--power", above=0, below=1))
        check_contexts(self.people, name="people")
        instance(self.outcome, Outcome, name="outcome")
        if self.traffic is not None:
            instance(self.traffic, Traffic, name="traffic", remedy="say Traffic.read('4000/week')")
        settle(self, scenarios=check_scenarios(self.scenarios))
        settle(self, people=self._people(whole_number(self.seed, name="seed", least=0)))
        settle(self, epsilon=check_plan_epsilon(self.epsilon, self.outcome), delta=check_asked_delta(self.delta))
        settle(self, control=whole_number(self.control, name="--control", least=0, most=self.n_actions - 1))
        if not self.scenarios:
            raise InputError("a plan needs a scenario; leave out --scenarios for the default ones")
        for one in self.scenarios:
            one.check(self.outcome, n_actions=self.n_actions)
        names = [one.name for one in self.scenarios]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two scenarios are named '{plain(twice)}'; give each its own name")
        self._check_people()
        self._check_traffic()
        if flag(self.count_pilot, name="count_pilot"):
            self._check_pilot()

    def _check_pilot(self) -> None:
        """Raise if there is no pilot whose rows could count."""
        if not any(isinstance(one, PilotEffects) for one in self.scenarios):
            raise InputError(
                "--count-pilot needs a pilot: plan from its log, with --action and --reward, and without --scenarios"
            )
        if self.power is not None:
            raise InputError(
                "a plan for --improve-on is of one analysis of a finished test, in which no pilot counts; leave out "
                "--count-pilot"
            )
        if self.people.n_features == 0:
            raise InputError("rows of a pilot count in a plan if contexts have features; leave out --count-pilot")

    @cached_property
    def counted_pilot(self) -> Log | None:
        """The rows of the pilot that count, with rewards in [0, 1] and contexts by the ids of `people`."""
        if not self.count_pilot:
            return None
        log = next(one.log for one in self.scenarios if isinstance(one, PilotEffects))
        every = comparable(np.concatenate([self.people.features, log.contexts.features]))
        _, first, which = np.unique(every, axis=0, return_index=True, return_inverse=True)
        ids = first[which.reshape(-1)[len(self.people) :]]  # rows that `people` lacks have larger ones
        plain_log = replace(log, action_names=None, reward_range=UNIT_RANGE, dates=(), remarks=())
        return replace(plain_log.only_metrics(()), contexts=replace(log.contexts, ids=ids))

    def _people(self, seed: int) -> Contexts:
        """Return the given contexts, or a sample of them; all if the class identifies each by an id."""
        most = len(self.people) if self.policies.n_contexts else MAX_PEOPLE
        return people_of(self.people, seed=seed, most=most)

    def _check_people(self) -> None:
        """Raise if all contexts are equal: no policy could do better than the best single action."""
        looks = replace(self.people, ids=None)
        if self.people.n_features and len(self.people) > 1 and len(looks.distinct()[0]) == 1:
            raise InputError(
                f"all {len(self.people):,} contexts are the same, so no policy can treat them differently; take a "
                "file with columns that vary, or plan an ordinary A/B test"
            )

    def _check_traffic(self) -> None:
        """Raise if fewer users come in a period than there are actions."""
        if self.traffic is not None and self.traffic.people < self.n_actions:
            raise InputError(
                f"{self.n_actions} actions are too many for {self.traffic.describe()}: not every action could be "
                f"tried once per {self.traffic.period}; drop actions, or state traffic for a longer period"
            )

    @property
    def n_actions(self) -> int:
        return self.policies.n_actions

    @property
    def unit_epsilon(self) -> float:
        """ε in units of rewards in [0, 1]."""
        return self.epsilon / self.outcome.unit

    @property
    def shares(self) -> tuple[float, ...]:
        """The probability of each scenario."""
        total = sum(one.weight for one in self.scenarios)
        return tuple(one.weight / total for one in self.scenarios)

    def problem(self, scenario: int, number: int) -> Problem:
        """Draw problem `number` of a scenario."""
        rng, one = np.random.default_rng([self.seed, scenario, number]), self.scenarios[scenario]
        if isinstance(one, Scenario):
            control = None if self.power is None else self.control
            return one.draw(self.people, self.policies, outcome=self.outcome, rng=rng, control=control)
        return one.draw(self.people, self.policies, outcome=self.outcome, rng=rng)

    def with_fewer_people(self, most: int) -> Assumptions:
        """Return the same with at most this many contexts, unless the class identifies each by an id."""
        if self.policies.n_contexts:
            return self
        return replace(self, people=people_of(self.people, seed=self.seed, most=most))

    def with_actions(self, n_actions: int) -> Assumptions:
        """Return the same with fewer actions, without scenarios of kind `few` in which all of these would matter."""
        assert self.spec is not None
        scenarios = tuple(
            one
            for one in self.scenarios
            if not (isinstance(one, Scenario) and one.kind == "few" and one.matter >= n_actions)
        )
        policies = load_policies(self.spec, self.people, n_actions=n_actions)
        control = min(self.control, n_actions - 1)
        return replace(self, policies=policies, scenarios=scenarios or self.scenarios, control=control)

    def with_trees(self, **options: int) -> Assumptions | None:
        """Return the same with other options of trees, `depth` or `bins`; None for other classes."""
        if self.spec is None:
            return None
        name, given = parse_spec(self.spec)
        if name != "trees":
            return None
        spec = f"{name}:" + ",".join(f"{key}={value}" for key, value in {**given, **options}.items())
        try:
            policies = load_policies(spec, self.people, n_actions=self.n_actions)
        except InputError:  # options that only deeper trees have
            return None
        return replace(self, policies=policies, spec=spec)

    def with_epsilon(self, epsilon: float) -> Assumptions:
        """Return the same for another ε."""
        return replace(self, epsilon=epsilon)

    def remarks(self) -> tuple[str, ...]:
        """Return warnings about the assumptions, in sentences."""
        small: dict[float, list[str]] = {}
        for one in self.scenarios:
            if isinstance(one, Scenario) and one.kind != "none" and one.effect <= self.epsilon:
                small.setdefault(one.effect, []).append(f"'{one.name}'")
        return tuple(
            f"The effect of {effect:g} (scenario {', '.join(names)}) is no more than ε = {self.epsilon:g}, so any "
            f"policy is good enough there. Take a smaller ε if such an effect matters: {effect / 2:.2g}, say."
            for effect, names in small.items()
        )

    @property
    def effects(self) -> tuple[float, ...]:
        """The effects that scenarios assume, the smallest first."""
        return tuple(sorted({one.effect for one in self.scenarios if isinstance(one, Scenario) and one.kind != "none"}))

    def describe(self) -> list[tuple[str, str]]:
        """Return the assumptions as pairs of a title and a text."""
        o = self.outcome
        rewards = f"mean {o.baseline:.4g}, from {o.low:g} to {o.high:g}, "
        rewards += "all or nothing" if o.spread is None else f"standard deviation {o.spread:g}"
        differ = f"; people differ by {100 * o.variation:g} % of that, whatever is done" if o.variation else ""
        lines = [
            ("people", f"{count_of(len(self.people), 'context')} with {count_of(self.people.n_features, 'feature')}"),
            ("actions", f"{self.n_actions}"),
            (
                "policies",
                f"{self.policies.type_name.lower()}, about {_power_of_ten(self.policies.log_size)} of them",
            ),
            ("wanted", self._wanted()),
            ("rewards", f"{rewards}{differ}"),
        ]
        if self.traffic is not None:
            lines.append(("traffic", self.traffic.describe()))
        if self.counted_pilot is not None:
            rows = count_of(self.counted_pilot.samples, "row")
            lines.append(("pilot", f"its {rows} count as the first of the trial; people are those to come"))
        for one, share in zip(self.scenarios, self.shares, strict=True):
            lines.append((f"scenario '{one.name}'", f"{one.describe()} ({100 * share:.0f} %)"))
        return lines

    def _wanted(self) -> str:
        sure = f"with probability {1 - self.delta:g}"
        if self.power is None:
            return f"a policy within {self.epsilon:g} of the best, {sure}"
        return f"a policy that is proven to gain over action {self.control}, {sure}; in {100 * self.power:g} % of tests"


def check_scenarios(scenarios: object) -> tuple[Supposition, ...]:
    """Return scenarios as a checked tuple."""
    given = entries(scenarios, name="scenarios")
    for one in given:
        instance(one, Supposition, name="each of scenarios", remedy="say Scenario('winner', effect=0.1)")
    return cast(tuple[Supposition, ...], given)


def check_plan_epsilon(epsilon: float, outcome: Outcome) -> float:
    """Return ε, checked to be positive and below the range of rewards."""
    epsilon = check_positive_epsilon(epsilon, asker="a plan")
    if epsilon >= outcome.unit:
        raise InputError(
            f"--epsilon must be below {outcome.unit:g}, the width of the reward range; got {epsilon:g}; no trial "
            "is needed for that"
        )
    return epsilon


def effect_of(given: float | str | None, outcome: Outcome) -> float:
    """Return the effect in the units of rewards: as stated, "+20%" of the baseline, or the default."""
    if given is None:
        return min(DEFAULT_RELATIVE_EFFECT * outcome.room, outcome.largest_effect)
    if not isinstance(given, str):
        return positive(given, name="--effect")
    try:
        value = read_rate(given)
    except ValueError:
        value = math.nan
    if not isinstance(value, Percentage):
        raise InputError(f"--effect must be a number, or a percentage such as '+20%'; got '{plain(given)}'")
    if given.strip().startswith("+"):
        if outcome.baseline <= 0:
            raise InputError(
                f"--effect {plain(given)} is a share of the baseline, which is {outcome.baseline:g}; give the "
                "effect in reward units"
            )
        return positive(value * outcome.baseline, name="--effect")
    check_percentage(value, name="--effect", reward_range=(outcome.low, outcome.high))
    return positive(value, name="--effect")


def people_of(contexts: Contexts, *, seed: int = 0, most: int = MAX_PEOPLE) -> Contexts:
    """Return up to `most` contexts, sampled by their weights, with ids 0 … n − 1."""
    check_contexts(contexts)
    if len(contexts) > most:
        rng, some = np.random.default_rng([seed, len(contexts)]), min(most, int((contexts.weights > 0).sum()))
        contexts = contexts.take(np.sort(rng.choice(len(contexts), some, replace=False, p=contexts.weights)))
    return replace(contexts, ids=np.arange(len(contexts)))


def usual_scenarios(*, effect: float, n_actions: int, share: float | None = None) -> tuple[Scenario, ...]:
    """Return the scenarios none, winner, segments; and few, if there are enough actions."""
    kinds: list[ScenarioKind] = ["none", "winner", "segments"]
    if n_actions >= MIN_ACTIONS_OF_FEW:
        kinds.append("few")
    differ = DEFAULT_SHARE if share is None else number(share, name="--share", above=0, below=1)
    return tuple(Scenario(kind, effect=effect, share=differ) for kind in kinds)


def _power_of_ten(log_size: float) -> str:
    """Format a number given its logarithm: 340, or 10^12."""
    if not math.isfinite(log_size):
        return "infinitely many"
    return f"{math.exp(log_size):,.0f}" if log_size < math.log(1e6) else f"10^{log_size / math.log(10):.0f}"


# The forecast that the protocol of an experiment takes from a plan.


@dataclass(frozen=True)
class Forecast:
    """The forecast of the plan that an experiment was made from.

    people: sample sizes that suffice in 50 %, 80 % and 95 % of cases; None where the plan's maximum did not suffice.
    days: the same in days; None if the plan has no traffic.
    plain_trial: median sample size of a plain randomised trial; None if the plan's maximum did not suffice.
    """

    people: tuple[float | None, float | None, float | None]
    days: tuple[float | None, float | None, float | None] | None
    plain_trial: float | None

    @classmethod
    def of(cls, plan: StudyPlan, *, algorithm: str) -> Forecast:
        """Return a plan's forecast for a trial by this algorithm; that for `coda` if the plan has none for it."""
        known = algorithm if algorithm in RIVALS else "coda"
        made, traffic = plan.quantiles(known), plan.supposed.traffic
        days = None
        if traffic is not None:
            a, b, c = (plan.periods(known, share) for share in SHOWN_SHARES)
            a_day = DAYS[traffic.period]
            days = (_finite(a, a_day), _finite(b, a_day), _finite(c, a_day))
        people = (_finite(made.median), _finite(made.p80), _finite(made.p95))
        return cls(people, days, _finite(plan.quantiles("uniform").median))

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values, with people and days keyed by the share of cases."""
        shares = [f"{share:g}" for share in SHOWN_SHARES]
        days = None if self.days is None else dict(zip(shares, self.days, strict=True))
        return {
            "people": dict(zip(shares, self.people, strict=True)),
            "days": days,
            "plain_trial": self.plain_trial,
        }

    @classmethod
    def from_json(cls, value: object) -> Forecast:
        """Parse the output of `to_json`."""
        given = Fields.read(value, of="forecast of the plan")
        given.check_known(("people", "days", "plain_trial"))
        days = None if given["days"] is None else _by_share(given.fields("days", of="forecast of the plan, in days,"))
        people = _by_share(given.fields("people", of="forecast of the plan, in people,"))
        return cls(people, days, given.number_or_null("plain_trial"))


def _by_share(given: Fields) -> tuple[float | None, float | None, float | None]:
    shares = [f"{share:g}" for share in SHOWN_SHARES]
    given.check_known(shares)
    a, b, c = (given.number_or_null(share, least=0) for share in shares)
    return a, b, c


def _finite(value: float | None, times: float = 1.0) -> float | None:
    return value * times if value is not None and math.isfinite(value) else None
