"""What a pilot makes likely: truths drawn with all the uncertainty that its few rows leave.

Of a random half of the rows the policy of largest value is found, and the people whom it treats alike are a group. In
each group the mean reward of every action is estimated from the other half, which had no say in the groups. What
actions do in all groups, and beyond that in each, is then drawn from what a normal model makes of those estimates:
their variance beyond chance, which is drawn too, is that of the truth, and noise draws each toward none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import number, settle
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass
from pacbandits.problems.base import Problem
from pacbandits.problems.scenarios import Outcome
from pacbandits.records import Contexts, Log, check_log
from pacbandits.records.log import check_all_in, digest_log

MIN_ROWS_PER_ACTION = 20  # fewer say nothing of an action
MIN_GROUP_ROWS_PER_ACTION = 5  # a smaller group is not told apart


@dataclass(frozen=True, eq=False)
class PilotEffects:
    """What the rows of a pilot make likely.

    log: the pilot.
    weight: how likely it is taken to be, beside other scenarios.
    name: what reports call it.
    """

    log: Log
    weight: float = 1.0
    name: str = "pilot"

    def __post_init__(self) -> None:
        check_all_in(check_log(self.log).rewards, by="a pilot")
        if self.log.known is not None:
            settle(self, log=replace(self.log, known=None))
        settle(self, weight=number(self.weight, name="weight", above=0))
        counts = np.bincount(self.log.actions, weights=self.log.repeats, minlength=self.log.n_actions)
        fewest = int(counts.argmin())
        if counts[fewest] < MIN_ROWS_PER_ACTION:
            called = self.log.action_names[fewest] if self.log.action_names else f"action {fewest}"
            raise InputError(
                f"a pilot needs {MIN_ROWS_PER_ACTION} rows of every action, and {called} has {int(counts[fewest])}; "
                "state a baseline and effects instead"
            )
        if self.log.least is not None:
            raise InputError(
                "a pilot must tell the probability of every action, and this log tells that of the played one alone; "
                "say with --split what it was"
            )

    def __repr__(self) -> str:
        return f"PilotEffects({len(self.log)} rows, {digest_log(self.log)[:16]}, weight={self.weight})"

    @property
    def outcome(self) -> Outcome:
        """What rewards are like, by the pilot."""
        log = self.log
        low, high = log.reward_range or (0.0, 1.0)
        weights = log.repeats / log.repeats.sum()
        mean = float(np.clip(weights @ log.rewards, 1e-6, 1 - 1e-6))
        unit = high - low
        spread = float(np.sqrt(weights @ (log.rewards - mean) ** 2))
        whole = bool(np.isin(log.rewards, (0.0, 1.0)).all())
        tight = min(max(spread, 1e-6), 0.999 * float(np.sqrt(mean * (1 - mean))))
        return Outcome(low + unit * mean, None if whole else unit * tight, low, high, variation=0.0)

    def describe(self) -> str:
        """In words."""
        return f"what {count_of(self.log.samples, 'row')} of a pilot make likely"

    def check(self, outcome: Outcome, *, n_actions: int) -> None:
        """Raise where the class is for other actions."""
        if n_actions != self.log.n_actions:
            raise InputError(f"the pilot has {self.log.n_actions} actions, and the plan {n_actions}")

    def draw(self, contexts: Contexts, policies: PolicyClass, *, outcome: Outcome, rng: np.random.Generator) -> Problem:
        """A truth that the pilot leaves possible; rewards lie in [0, 1]."""
        log, n_actions = self.log, self.log.n_actions
        half: BoolArray = rng.random(len(log)) < 0.5
        played = log.propensities[np.arange(len(log)), log.actions]
        scores = np.zeros((len(log), n_actions))
        centred = log.rewards - float(np.average(log.rewards, weights=log.repeats))
        scores[np.arange(len(log)), log.actions] = np.where(half, log.repeats * centred / played, 0.0)
        policy = policies.argmax(log.contexts, scores)
        groups, n_groups = _groups(policy(log.contexts), log, ~half)
        means, errors = _estimates(log, ~half, groups, n_groups, played)
        shares = np.bincount(groups, weights=log.repeats * ~half, minlength=n_groups)
        truth = _drawn(means, errors, shares / shares.sum(), rng)
        lookup = np.zeros(n_actions, dtype=np.int64)
        lookup[policy(log.contexts)] = groups
        table = np.clip(truth[lookup[policy(contexts)]], 0.001, 0.999)
        return Problem(
            name=self.name,
            description=f"{len(contexts)} contexts and {n_actions} actions: {self.describe()}.",
            population=contexts,
            mean_rewards=table,
            noise=outcome.noise,
            policies=policies,
        )


def _groups(treated: IntArray, log: Log, rows: BoolArray) -> tuple[IntArray, int]:
    """The group (n,) of every row by how it is treated, and how many there are.

    Those too small are one with the largest. rows (n,): those that count.
    """
    counts = np.bincount(treated, weights=log.repeats * rows, minlength=log.n_actions)
    large = counts >= MIN_GROUP_ROWS_PER_ACTION * log.n_actions
    large[int(counts.argmax())] = True
    number_of = np.where(large, np.cumsum(large) - 1, 0)
    number_of[~large] = number_of[int(counts.argmax())]
    return number_of[treated], int(large.sum())


def _estimates(
    log: Log, rows: BoolArray, groups: IntArray, n_groups: int, played: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means (K, A) of rewards in every group under every action, and their standard errors.

    An action that a group did not get has the mean of all, and an error as large as a reward can be wrong.
    """
    n_actions = log.n_actions
    cell, size = groups * n_actions + log.actions, n_groups * n_actions
    weights = rows * log.repeats / played
    total = np.bincount(cell, weights=weights, minlength=size)
    overall = float(np.average(log.rewards, weights=log.repeats))
    sums = np.bincount(cell, weights=weights * log.rewards, minlength=size)
    means = np.divide(sums, total, out=np.full(size, overall), where=total > 0)
    squares = np.bincount(cell, weights=weights**2 / log.repeats, minlength=size)
    variance = float(np.average((log.rewards - overall) ** 2, weights=log.repeats))
    errors = np.divide(np.sqrt(variance * squares), total, out=np.full(size, 0.5), where=total > 0)
    return means.reshape(n_groups, n_actions), errors.reshape(n_groups, n_actions)


def _drawn(means: FloatArray, errors: FloatArray, shares: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A truth (K, A): the mean of each group, what actions do in all of them, and what they do in each."""
    base = means.mean(axis=1, keepdims=True)
    effects = means - base
    main = shares @ effects
    main_errors = np.sqrt((shares[:, None] ** 2 * errors**2).sum(axis=0))
    own = effects - main
    free, groups = means.shape[1] - 1, len(shares)
    return base + _shrunk(main, main_errors, rng, freedom=free) + _shrunk(own, errors, rng, freedom=free * (groups - 1))


def _shrunk(values: FloatArray, errors: FloatArray, rng: np.random.Generator, *, freedom: int) -> FloatArray:
    """A draw of what lies behind noisy values, whose own variance is theirs beyond chance.

    Few values tell little of their variance, so that it is drawn as well: chance makes the sum of squares larger or
    smaller.

    freedom: how many values there are less those that follow from the others, as they sum to nothing.
    """
    if freedom == 0:
        return np.zeros_like(values)
    beyond = max(float((values**2).sum() / rng.chisquare(freedom) - (errors**2).mean()), 0.0)
    kept = beyond / (beyond + errors**2)
    return kept * values + np.sqrt(kept) * errors * rng.standard_normal(values.shape)
