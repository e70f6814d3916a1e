"""Pilots: what is drawn from one is what its rows leave possible, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies.trees import Trees
from pacbandits.problems.noise import Bernoulli, Beta
from pacbandits.problems.pilots import PilotEffects
from pacbandits.records import Contexts, Log

ACTIONS = 3


def pilot(rows, *, main=0.0, own=0.0, seed=0, spread=None):
    """A log of a uniform split: action 1 better by `main`, and by `own` for half of the people, 2 for the others."""
    rng = np.random.default_rng(seed)
    x = rng.random((rows, 2))
    actions = rng.integers(ACTIONS, size=rows)
    means = 0.4 + main * (actions == 1) + own * (actions == np.where(x[:, 0] < 0.5, 1, 2))
    rewards = rng.random(rows) < means if spread is None else np.clip(means + spread * rng.normal(size=rows), 0, 1)
    return Log.of(
        Contexts.of(x),
        actions=actions,
        rewards=np.asarray(rewards, dtype=float),
        propensities=np.full((rows, ACTIONS), 1 / ACTIONS),
    )


def drawn(log, count=12):
    """Truths (count, n, A) for the people of a grid."""
    people = Contexts.of(np.random.default_rng(9).random((80, 2)), ids=np.arange(80))
    policies, effects = Trees.learn(people, n_actions=ACTIONS, depth=1), PilotEffects(log)
    rngs = map(np.random.default_rng, range(count))
    outcome = effects.outcome
    return np.array([effects.draw(people, policies, outcome=outcome, rng=rng).mean_rewards for rng in rngs])


def sizes(truths):
    """The root of the mean square of what actions do, of each truth."""
    return np.sqrt(((truths - truths.mean(axis=2, keepdims=True)) ** 2).mean(axis=(1, 2)))


def test_without_effects_what_is_drawn_is_small_and_shrinks_with_rows():
    few, many = (np.mean([sizes(drawn(pilot(rows, seed=s))).mean() for s in range(3)]) for rows in (300, 3_000))
    # The standard error of the mean of an action, from half of the rows, is 0.065 and 0.02, and in one of two groups
    # 0.09 and 0.03: what is drawn is about as large as that, or less.
    assert few < 0.08
    assert many < 0.022
    assert many < few / 2


def test_effects_for_all_and_for_some_are_found():
    log = pilot(3_000, main=0.3)
    seen, winner = log.rewards[log.actions == 1].mean() - log.rewards[log.actions == 0].mean(), drawn(log)
    gains = (winner[:, :, 1] - winner[:, :, 0]).mean(axis=1)
    assert (winner.mean(axis=1).argmax(axis=1) == 1).all()
    assert abs(gains.mean() - seen) < 0.03
    assert 0.005 < gains.std() < 0.08
    first = np.random.default_rng(9).random((80, 2))[:, 0] < 0.5
    segments = drawn(pilot(4_000, own=0.4))
    for inside, best in ((first, 1), (~first, 2)):
        gains = segments[:, inside] - segments[:, inside, :1]
        assert abs(gains[:, :, best].mean() - 0.4) < 0.08
        assert abs(gains[:, :, 3 - best].mean()) < 0.08


def test_uncertainty_shrinks_with_rows():
    scatter = []
    for rows in (400, 6_400):
        truths = drawn(pilot(rows, main=0.3), count=30)
        scatter.append((truths[:, :, 1] - truths[:, :, 0]).mean(axis=1).std())
    assert scatter[1] < scatter[0] / 2  # a quarter, but for chance


def test_rewards_are_like_those_of_the_pilot():
    whole = PilotEffects(pilot(600)).outcome
    assert whole.spread is None
    assert isinstance(whole.noise, Bernoulli)
    assert whole.baseline == pytest.approx(pilot(600).rewards.mean())
    log = pilot(600, spread=0.1)
    outcome = PilotEffects(log).outcome
    assert outcome.spread == pytest.approx(log.rewards.std())
    assert isinstance(outcome.noise, Beta)
    truths = drawn(log, count=3)
    assert 0 < truths.min() < truths.max() < 1


def test_a_pilot_that_says_too_little_is_refused():
    log = pilot(600)
    with pytest.raises(InputError, match="needs 20 rows of every action, and action 2 has 4"):
        PilotEffects(log.take(np.r_[np.flatnonzero(log.actions < 2), np.flatnonzero(log.actions == 2)[:4]]))
    with pytest.raises(InputError, match="the pilot has 3 actions, and the plan 4"):
        PilotEffects(log).check(PilotEffects(log).outcome, n_actions=4)
    with pytest.raises(InputError, match="weight must be"):
        PilotEffects(log, weight=-1.0)


def test_pilots_of_as_many_rows_and_rewards_are_told_apart():
    log = pilot(600)
    turned = Log.of(log.contexts, actions=log.actions[::-1].copy(), rewards=log.rewards, propensities=log.propensities)
    assert repr(PilotEffects(log)) == repr(PilotEffects(pilot(600)))
    assert repr(PilotEffects(log)) != repr(PilotEffects(turned))
