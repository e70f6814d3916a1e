"""Scenarios: assumptions about rewards before a trial, from which problems are drawn.

    none       all actions have the same mean
    winner     one action is better by the effect, for everybody
    segments   one action is better by the effect for most people, and another one for a share of them
    few        of many actions a few matter: each is better by the effect for its part of the people, and by half of it
               for the others; the rest are not

The winner and the segments are drawn anew each time. Baseline means vary between people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.checks import number, settle, text, whole_number
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies.base import PolicyClass
from pacbandits.problems.base import Problem
from pacbandits.problems.noise import Bernoulli, Beta, Noise
from pacbandits.problems.people import ranks
from pacbandits.records import Contexts

ScenarioKind = Literal["none", "winner", "segments", "few"]
KINDS: tuple[str, ...] = get_args(ScenarioKind)
IN_WORDS: dict[str, str] = {
    "none": "every action alike",
    "winner": "one action better for everybody",
    "segments": "another action better for some people",
    "few": "a few of many actions matter",
}
DEFAULT_SHARE = 0.3  # of people in the segment
DEFAULT_MATTER = 2  # actions
DEFAULT_VARIATION = 0.3  # of baseline means between people, as a share of the room
NEAR_SHARE = 0.05  # features whose cut is this close to the share count as equally good


@dataclass(frozen=True)
class Outcome:
    """The distribution of rewards at baseline, in their own units.

    baseline: their mean.
    spread: their standard deviation; None if a reward is one of two values, as a conversion is.
    low, high: their range.
    variation: how far baseline means vary between people, as a share of `room`.
    """

    baseline: float
    spread: float | None = None
    low: float = 0.0
    high: float = 1.0
    variation: float = DEFAULT_VARIATION

    def __post_init__(self) -> None:
        low, high = number(self.low, name="the low end of --reward-range"), number(self.high, name="its high end")
        if not low < high:
            raise InputError(f"--reward-range must be increasing, got {low:g} to {high:g}")
        settle(self, low=low, high=high, baseline=number(self.baseline, name="--baseline"))
        if not low < self.baseline < high:
            raise InputError(
                f"--baseline must lie between {low:g} and {high:g}, the range of rewards, got {self.baseline:g}; "
                "state another --reward-range if rewards may lie outside"
            )
        settle(self, variation=number(self.variation, name="--variation", least=0, most=0.9))
        if self.spread is None:
            return
        settle(self, spread=number(self.spread, name="--spread", above=0))
        largest = float(np.sqrt((self.baseline - low) * (high - self.baseline)))
        if self.spread >= largest * (1.0 - 1e-9):
            raise InputError(
                f"--spread must be below {largest:.4g}, the most that rewards from {low:g} to {high:g} with a mean of "
                f"{self.baseline:g} can have, got {self.spread:g}; leave it out where a reward is {low:g} or {high:g}"
            )

    @property
    def unit(self) -> float:
        """The width of the range."""
        return self.high - self.low

    @property
    def room(self) -> float:
        """The distance of the baseline to the nearer end of the range."""
        return min(self.baseline - self.low, self.high - self.baseline)

    @property
    def largest_effect(self) -> float:
        """The largest effect that an action can have for everybody."""
        return self.high - self.baseline - self.variation * self.room

    @property
    def noise(self) -> Noise:
        """The noise of rewards rescaled to [0, 1]."""
        if self.spread is None:
            return Bernoulli()
        mean = (self.baseline - self.low) / self.unit
        return Beta((self.spread / self.unit) ** 2 / (mean * (1.0 - mean)))


@dataclass(frozen=True)
class Scenario:
    """An assumption about the effects of actions.

    kind: one of the kinds above.
    effect: the effect size of a better action, in the units of rewards; ignored by `none`.
    share: of people in the segment, in `segments`.
    matter: the number of actions that matter, in `few`.
    weight: its probability, relative to the others.
    name: its name in reports; by default its kind.
    """

    kind: ScenarioKind
    effect: float = 0.0
    share: float = DEFAULT_SHARE
    matter: int = DEFAULT_MATTER
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        if text(self.kind, name="kind") not in KINDS:
            raise InputError(f"there is no scenario '{plain(self.kind)}'{nearest(str(self.kind), KINDS)}")
        settle(self, name=text(self.name, name="name") or self.kind)
        called = f"the effect of scenario '{plain(self.name)}'"
        above = None if self.kind == "none" else 0.0
        least = 0.0 if self.kind == "none" else None
        settle(self, effect=number(self.effect, name=called, least=least, above=above))
        settle(self, share=number(self.share, name="share", above=0, below=1))
        settle(self, matter=whole_number(self.matter, name="matter", least=1))
        settle(self, weight=number(self.weight, name="weight", above=0))

    def describe(self) -> str:
        """Return the scenario in words, with its figures."""
        if self.kind == "none":
            return IN_WORDS["none"]
        if self.kind == "winner":
            return f"one action is better by {self.effect:g} for everybody"
        if self.kind == "segments":
            return (
                f"one action is better by {self.effect:g}, but another one for {100 * self.share:g} % of the people, "
                "by as much"
            )
        return f"{self.matter} of the actions are better by {self.effect:g}, each for a part of the people"

    def check(self, outcome: Outcome, *, n_actions: int) -> None:
        """Raise if the effect leads out of the range of rewards, or there are too few actions."""
        if self.kind != "none" and self.effect > outcome.largest_effect + 1e-9 * outcome.unit:
            raise InputError(
                f"scenario '{plain(self.name)}': {outcome.baseline:g} and an effect of {self.effect:g} lead beyond "
                f"{outcome.high:g}, the largest reward; take a smaller effect, or a smaller variation of people than "
                f"{outcome.variation:g}"
            )
        if self.kind == "few" and self.matter >= n_actions:
            raise InputError(f"scenario '{plain(self.name)}': {self.matter} of {n_actions} actions are not a few")

    def draw(
        self,
        contexts: Contexts,
        policies: PolicyClass,
        *,
        outcome: Outcome,
        rng: np.random.Generator,
        control: int | None = None,
    ) -> Problem:
        """Draw a problem for contexts with ids 0 … n − 1; rewards are rescaled to [0, 1].

        control: the action in use now, if others are to be better than it: it is not among those with an effect, and in
        `segments` it is the one that is better for most people.
        """
        n, n_actions = len(contexts), policies.n_actions
        self.check(outcome, n_actions=n_actions)
        means = np.tile(_bases(contexts, outcome, rng)[:, None], (1, n_actions))
        order = rng.permutation(n_actions)
        if control is not None:
            order = np.insert(order[order != control], 0 if self.kind == "segments" else n_actions - 1, control)
        if self.kind == "winner":
            means[:, order[0]] += self.effect
        elif self.kind == "segments":
            differ = segment(contexts, self.share, rng)
            means[~differ, order[0]] += self.effect
            means[differ, order[1 % n_actions]] += self.effect
        elif self.kind == "few":
            left = np.ones(n, dtype=np.bool_)
            for k in range(self.matter):
                last = k == self.matter - 1
                part = left if last else left & segment(contexts, 1.0 / (self.matter - k), rng, within=left)
                means[:, order[k]] += np.where(part, self.effect, self.effect / 2)
                left &= ~part
        return Problem(
            name=self.name,
            description=f"{n} contexts and {n_actions} actions: {self.describe()}.",
            population=contexts,
            mean_rewards=np.clip((means - outcome.low) / outcome.unit, 0.0, 1.0),
            noise=outcome.noise,
            policies=policies,
        )


def _bases(contexts: Contexts, outcome: Outcome, rng: np.random.Generator) -> FloatArray:
    """Return baseline means (n,): a smooth wave over people's features about the baseline."""
    n = len(contexts)
    if contexts.n_features:
        x = ranks(contexts)
        direction = rng.standard_normal(contexts.n_features)
        wave = np.sin(2 * np.pi * (x @ direction / float(np.sqrt((direction**2).sum())) + rng.random()))
    else:
        wave = rng.uniform(-1.0, 1.0, n)
    wave -= contexts.weights @ wave
    return outcome.baseline + outcome.variation * outcome.room * wave / max(1.0, float(np.abs(wave).max()))


def segment(
    contexts: Contexts, share: float, rng: np.random.Generator, *, within: BoolArray | None = None
) -> BoolArray:
    """Return about this share of people (n,), selected by one feature: above or below a value, or with some labels.

    within: the people it is a share of, if not all. Without features, people are drawn independently.
    """
    weights = contexts.weights if within is None else np.where(within, contexts.weights, 0.0)
    if not contexts.n_features:
        return rng.random(len(contexts)) < share
    weights = weights / (weights.sum() or 1.0)  # no people may be left
    cuts = [_cut(contexts, j, weights, share, rng) for j in rng.permutation(contexts.n_features)]
    errors = [abs(float(weights @ cut) - share) for cut in cuts]
    near = [cut for cut, error in zip(cuts, errors, strict=True) if error <= NEAR_SHARE]
    return near[0] if near else cuts[int(np.argmin(errors))]


def _cut(contexts: Contexts, j: int, weights: FloatArray, share: float, rng: np.random.Generator) -> BoolArray:
    """Return about this share of people (n,): those below or above a value of feature j, or with some of its labels."""
    values = np.nan_to_num(contexts.features[:, j], nan=-np.inf)
    distinct, which = np.unique(values, return_inverse=True)
    if contexts.categories[j] is not None:
        which = rng.permutation(len(distinct))[which.reshape(-1)]  # labels have no order
    elif rng.random() < 0.5:
        which = len(distinct) - 1 - which.reshape(-1)
    below = np.cumsum(np.bincount(which.reshape(-1), weights=weights, minlength=len(distinct)))
    last = int(np.argmin(np.abs(below - share)))
    return which.reshape(-1) <= last
