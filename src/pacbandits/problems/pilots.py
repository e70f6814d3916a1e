"""Problems drawn from the uncertainty that a pilot's rows leave about the true rewards.

On a random half of the rows, the policy of largest estimated value is found; people with the same action form a group.
In each group the mean reward of every action is estimated from the other half, which did not influence the groups.
Main effects of actions, and effects specific to a group, are then drawn from a normal random-effects model of those
estimates: the variance of the true effects is the estimates' variance beyond noise, drawn too, and each estimate is
shrunk toward zero.
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

MIN_ROWS_PER_ACTION = 20  # fewer are uninformative
MIN_GROUP_ROWS_PER_ACTION = 5  # smaller groups are merged


@dataclass(frozen=True, eq=False)
class PilotEffects:
    """A scenario: effects drawn from what the rows of a pilot make likely.

    log: the pilot.
    weight: its probability, relative to other scenarios.
    name: its name in reports.
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
                "a pilot needs the probability of every action, and this log contains only that of the logged "
                "one; pass --split"
            )

    def __repr__(self) -> str:
        return f"PilotEffects({len(self.log)} rows, {digest_log(self.log)[:16]}, weight={self.weight})"

    @property
    def outcome(self) -> Outcome:
        """The distribution of rewards by the pilot."""
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
        """Return the scenario in words."""
        return f"what {count_of(self.log.samples, 'row')} of a pilot make likely"

    def check(self, outcome: Outcome, *, n_actions: int) -> None:
        """Raise InputError if the plan has another number of actions."""
        if n_actions != self.log.n_actions:
            raise InputError(f"the pilot has {self.log.n_actions} actions, and the plan {n_actions}")

    def draw(self, contexts: Contexts, policies: PolicyClass, *, outcome: Outcome, rng: np.random.Generator) -> Problem:
        """Draw a problem consistent with the pilot; rewards lie in [0, 1]."""
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
    """Return the group (n,) of every row by its action under the policy, and the number of groups.

    Groups that are too small are merged into the largest. rows (n,): those that count.
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
    """Return the means (K, A) of rewards in every group under every action, and their standard errors.

    An action that a group did not get has the overall mean, and a standard error of 0.5.
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
    """Draw true means (K, A): the mean of each group, main effects of actions, and effects specific to a group."""
    base = means.mean(axis=1, keepdims=True)
    effects = means - base
    main = shares @ effects
    main_errors = np.sqrt((shares[:, None] ** 2 * errors**2).sum(axis=0))
    own = effects - main
    free, groups = means.shape[1] - 1, len(shares)
    return base + _shrunk(main, main_errors, rng, freedom=free) + _shrunk(own, errors, rng, freedom=free * (groups - 1))


def _shrunk(values: FloatArray, errors: FloatArray, rng: np.random.Generator, *, freedom: int) -> FloatArray:
    """Draw true values given noisy ones, under a normal prior whose variance is theirs beyond noise.

    Few values determine their variance poorly, so the variance is drawn as well: the sum of squares is divided by a
    χ² draw.

    freedom: the degrees of freedom: the number of values, less those determined by the others as sums vanish.
    """
    if freedom == 0:
        return np.zeros_like(values)
    beyond = max(float((values**2).sum() / rng.chisquare(freedom) - (errors**2).mean()), 0.0)
    kept = beyond / (beyond + errors**2)
    return kept * values + np.sqrt(kept) * errors * rng.standard_normal(values.shape)
