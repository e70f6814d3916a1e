"""Rules that an experiment is created with: what late rewards mean, what must not be exceeded, what was foretold."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from pacbandits.checks import number, settle, shown, text
from pacbandits.errors import InputError, nearest, plain
from pacbandits.fields import Fields, Json
from pacbandits.planning.playing import RIVALS
from pacbandits.planning.quantiles import SHOWN_SHARES
from pacbandits.planning.study import StudyPlan

LateRuleName = Literal["worst case", "window"]
LATE_RULES: tuple[LateRuleName, ...] = ("worst case", "window")
SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
MAX_DURATION_SECONDS = 10 * 366 * SECONDS["day"]
DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "year": 365.25}  # of periods of traffic
DEFAULT_FALSE_ALARMS = 0.01
MAX_LABEL_CHARACTERS = 80  # of a name that tables and pages show
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")


@dataclass(frozen=True)
class LateRule:
    """What a reward means that is not in.

    rule: "worst case": it may be anything, and the claim holds whatever it is. "window": a reward is defined as what
        came within the window, and else as `missing`.
    window_seconds: how long a reward of the window rule is waited for, from its assignment; None for the worst case.
    missing: what no reward within the window counts as, in the units of rewards; None for the worst case, and until the
        protocol says that it is the low end of their range.
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
        """How long a reward is waited for, in microseconds; None for the worst case."""
        return None if self.window_seconds is None else round(self.window_seconds * 1e6)

    def within(self, low: float, high: float) -> LateRule:
        """The same for rewards in that range, of which the low end stands for one that never came."""
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
        """In words, for a claim."""
        if self.window_seconds is None or self.missing is None:
            return "a reward that is not in may be anything, and is counted as what is worst for the claim"
        wait = spell_duration(self.window_seconds)
        return f"a reward is what came within {wait} of the assignment, and {self.missing:g} where nothing did"

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {"rule": self.rule, "window_seconds": self.window_seconds, "missing": self.missing}

    @classmethod
    def from_json(cls, value: object) -> LateRule:
        """What `to_json` wrote."""
        given = Fields.read(value, of="rule of late rewards")
        given.check_known(("rule", "window_seconds", "missing"))
        rule: LateRuleName = "window" if given.one_of("rule", LATE_RULES) == "window" else "worst case"
        return cls(rule, given.number_or_null("window_seconds"), given.number_or_null("missing"))


@dataclass(frozen=True)
class GuardrailRule:
    """An outcome that must not become too frequent: complaints, refunds, crashes.

    name: what it is called.
    most: the mean in [0, 1] that it must not exceed, over all and for each action.
    false_alarms: the probability of ever pausing where it does not.
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
        """As what JSON knows."""
        return {"name": self.name, "most": self.most, "false_alarms": self.false_alarms}

    @classmethod
    def from_json(cls, value: object) -> GuardrailRule:
        """What `to_json` wrote."""
        given = Fields.read(value, of="guardrail")
        given.check_known(("name", "most", "false_alarms"))
        return cls(given.text("name"), given.number("most"), given.number("false_alarms"))


_MOST = "lie strictly between 0 and 1, as the outcome is a number in [0, 1]"


@dataclass(frozen=True)
class Forecast:
    """What the plan that an experiment was made from foretold.

    people: how many people it takes in half, 80 % and 95 % of cases; None where it was not done by as many as allowed.
    days: how many days, likewise; None where the plan knew of no traffic.
    plain_trial: how many people a plain randomised trial takes in half of the cases; None likewise.
    """

    people: tuple[float | None, float | None, float | None]
    days: tuple[float | None, float | None, float | None] | None
    plain_trial: float | None

    @classmethod
    def of(cls, plan: StudyPlan, *, algorithm: str) -> Forecast:
        """What a plan foretells of a trial by this algorithm, `coda` or `uniform`."""
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
        """As what JSON knows: people and days by the share of cases."""
        shares = [f"{share:g}" for share in SHOWN_SHARES]
        days = None if self.days is None else dict(zip(shares, self.days, strict=True))
        return {
            "people": dict(zip(shares, self.people, strict=True)),
            "days": days,
            "plain_trial": self.plain_trial,
        }

    @classmethod
    def from_json(cls, value: object) -> Forecast:
        """What `to_json` wrote."""
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


def check_label(value: object, *, name: str) -> str:
    """A name that tables and pages can show: one line, neither empty nor long."""
    label = text(value, name=name)
    if not label.strip() or label != label.strip() or plain(label, most=MAX_LABEL_CHARACTERS) != label:
        raise InputError(
            f"{name} must be one line of 1 to {MAX_LABEL_CHARACTERS} visible characters, without blanks around it, got "
            f"{shown(value)}"
        )
    return label


def read_duration(words: object, *, name: str) -> float:
    """A duration in seconds, as people write it: 7 days, 36 hours, 1 day 12 hours."""
    given = text(words, name=name).strip().lower()
    total, at = 0.0, 0
    remedy = 'write it as "7 days", "36 hours" or "90 minutes"'
    for found in _PART.finditer(given):
        unit = found[2].removesuffix("s")
        if given[at : found.start()].strip(" ,") or unit not in SECONDS:
            raise InputError(f"{name} is '{plain(words)}', which is no duration; {remedy}")
        total, at = total + float(found[1]) * SECONDS[unit], found.end()
    if at == 0 or given[at:].strip():
        raise InputError(f"{name} is '{plain(words)}', which is no duration; {remedy}")
    if not 0 < total <= MAX_DURATION_SECONDS:
        raise InputError(f"{name} must be more than nothing and at most ten years, got '{plain(words)}'")
    return total


def spell_duration(seconds: float) -> str:
    """A duration in the largest unit of which it is a whole number, or else to three digits."""
    for unit in ("week", "day", "hour", "minute"):
        count = seconds / SECONDS[unit]
        if count >= 1 and abs(count - round(count)) < 1e-9 * count and not (unit == "week" and count < 3):
            return f"{round(count)} {unit}{'s' * (round(count) != 1)}"
    unit = next((one for one in ("day", "hour", "minute") if seconds >= SECONDS[one]), "second")
    count = seconds / SECONDS[unit]
    return f"{count:.3g} {unit}{'s' * (count != 1)}"
