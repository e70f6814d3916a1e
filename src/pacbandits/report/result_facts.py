"""The facts about a result that its summary and its report show: arms, marks, groups, costs and the scale of ε."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from typing import Any, Literal

import numpy as np

from pacbandits.certificate import Certificate
from pacbandits.certificate.claim import rounded_outward
from pacbandits.certificate.worth import Interval, Worth
from pacbandits.records import Log
from pacbandits.report.numbers import mean_digits, show_gain, show_interval, show_mean

# The arms of an A/B test: the number of rows of each action, and their mean outcome.


@dataclass(frozen=True)
class Arm:
    """An action as it was tried.

    action: its name.
    rows: the number of rows with it.
    share: of all rows.
    mean: their mean reward as logged, in the units of rewards; None if no row has a reward.
    awaited: the number of rows whose reward is pending; the mean excludes them.
    """

    action: str
    rows: int
    share: float
    mean: float | None
    awaited: int = 0


def tried_arms(log: Log, names: tuple[str, ...]) -> tuple[Arm, ...]:
    """Return every action as it was tried, neither weighted nor modelled; names (A,): of the actions."""
    rows = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions)
    awaited = np.bincount(log.actions[log.awaited], minlength=log.n_actions)
    earned = np.bincount(
        log.actions, weights=log.repeats * np.where(log.awaited, 0.0, log.rewards), minlength=log.n_actions
    )
    low, high = log.reward_range
    return tuple(
        Arm(
            name,
            int(n),
            float(n / rows.sum()),
            float(low + (high - low) * total / (n - out)) if n > out else None,
            int(out),
        )
        for name, n, total, out in zip(names, rows, earned, awaited, strict=True)
    )


Light = Literal["green", "yellow", "red"]


@dataclass(frozen=True)
class Mark:
    """The result of a check.

    light: green if nothing was found, yellow if it could not be checked or is a caution, red for an alarm.
    title: what was checked, in a few words.
    words: the finding.
    """

    light: Light
    title: str
    words: str


@dataclass(frozen=True)
class GroupResult:
    """A leaf of a tree, with estimates from the log.

    conditions: the tests that lead to it, in words.
    action: its action.
    rows: the number of rows in it, of those used for the estimates.
    share: of these rows.
    estimates (A,): the mean reward of each action in it, in the units of rewards; NaN if it was not played there.
    """

    conditions: tuple[str, ...]
    action: str
    rows: int
    share: float
    estimates: tuple[float, ...]


@dataclass(frozen=True)
class Price:
    """The cost of a policy.

    cost: its mean over all rows of the log.
    budget: the largest mean cost allowed over the contexts known when the policy was chosen.
    limited: the actions with a limited share, if the budget is a limit on shares and all costs are 0 or 1.
    """

    cost: float
    budget: float
    limited: tuple[str, ...] = ()

    @property
    def figure(self) -> tuple[str, str]:
        """Return the name of the figure and its value, as text."""
        if self.limited:
            given = f"{100 * self.cost:.3g} % (at most {100 * self.budget:.4g} %)"
            return f"share who get {' or '.join(self.limited)}", given
        return "mean cost in the log", f"{self.cost:.4g} (the budget is {self.budget:g})"

    def describe(self) -> str:
        if self.limited:
            return (
                f"{' or '.join(self.limited)} for {100 * self.cost:.3g} % of all rows of the log; the limit is "
                f"{100 * self.budget:.4g} % of the contexts that were known"
            )
        return (
            f"it costs {self.cost:.4g} on average over all rows of the log; the budget is {self.budget:g} on average "
            "over the contexts that were known"
        )

    def mark(self) -> Mark:
        """Return a warning if the cost over the log exceeds the budget, by chance or as the known contexts differ."""
        light = "green" if self.cost <= self.budget else "yellow"
        title = "Does it keep the limit?" if self.limited else "Does it keep the budget?"
        return Mark(light, title, self.describe())


@dataclass(frozen=True)
class Scale:
    """The quantities to compare a certified ε with; in the units of rewards.

    epsilon: the certified distance.
    possible: the largest gain of any rule over the policy: the largest reward less the lower end of the policy's
        value.
    likely: the same with the estimate of the value.
    in_sight: the estimated gain of the policy over the best single action.
    """

    epsilon: float
    possible: float
    likely: float
    in_sight: float

    @classmethod
    def of(cls, certificate: Certificate, worth: Worth) -> Scale:
        """Return the scale of a certificate and the value of its policy."""
        top, value = certificate.reward_range[1], worth.value
        low = certificate.reward_range[0] if value.empty else value.low
        return cls(certificate.certified_epsilon, top - low, top - value.estimate, worth.over_best.estimate)

    @property
    def says_nothing(self) -> bool:
        """Return whether ε is vacuous: by the estimate, no rule could be better by more than ε."""
        return self.epsilon >= self.likely > 0

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return asdict(self) | {"says_nothing": self.says_nothing}


def metric_words(interval: Interval, *, difference: bool = False) -> str:
    """Return a metric, or a difference between two, with its interval; what is unknown is said to be."""
    if not isfinite(interval.estimate):
        return "unknown yet"
    least, most = rounded_outward(interval.low, interval.high, digits=4)
    low, middle, high = (f"{end:{'+' if difference else ''}.4g}" for end in (least, interval.estimate, most))
    bounded = isfinite(interval.low) and isfinite(interval.high) and not interval.empty
    return f"{middle} ({f'{low} to {high}' if bounded else 'no bounds yet'})"


def interval_words(interval: Interval, *, percent: bool, difference: bool) -> str:
    """Return a mean reward, or a difference between two, with its interval; percent: whether rewards are rates."""
    show = partial(show_gain, percent=percent, sign=True) if difference else partial(show_mean, percent=percent)
    low, high = (None, None) if interval.empty else (interval.low, interval.high)
    return show_interval(
        low, interval.estimate, high, show=show, digits=3 if difference else mean_digits(percent=percent)
    )
