"""Logs to fit reward models to, and an estimator as small as one can be."""

from __future__ import annotations

import numpy as np

from pacbandits.records import Contexts, Log

LABELS = ("north", "south", "west")


class Line:
    """Least squares on one feature, as small as an estimator can be; it keeps count of what it was shown."""

    seen = 0

    def fit(self, features, rewards):
        assert self.seen == 0  # a copy for each action
        self.seen = len(rewards)
        design = np.column_stack([np.ones(len(features)), features[:, 0]])
        self.slope = np.linalg.lstsq(design, rewards, rcond=None)[0]
        return self

    def predict(self, features):
        return self.slope[0] + self.slope[1] * features[:, 0]


def draw(seed, *, n=40, n_actions=3, rounds=3, repeats=True):
    """A log with a number, a category and ids; the last action is never played."""
    rng = np.random.default_rng(seed)
    which = rng.integers(6, size=n)
    features = np.column_stack([np.sin(which), which % 3])
    contexts = Contexts.of(features, names=["x", "place"], categories=[None, LABELS], ids=2 * which)
    actions = rng.integers(n_actions - 1, size=n)
    means = np.clip(0.5 + 0.3 * features[:, 0] * (1 - 2 * actions) + 0.1 * (which % 3 - 1), 0, 1)
    return Log.of(
        contexts,
        actions=actions,
        rewards=rng.random(n) < means,
        propensities=np.full((n, n_actions), 1 / n_actions),
        rounds=rng.integers(rounds, size=n),
        repeats=rng.integers(1, 5, size=n) if repeats else None,
    )


def uniform_log(means, features, *, seed, categories=None):
    """Every action equally likely; rewards of the given means (n, A)."""
    rng = np.random.default_rng(seed)
    n, n_actions = means.shape
    actions = rng.integers(n_actions, size=n)
    return Log.of(
        Contexts.of(features, categories=categories),
        actions=actions,
        rewards=rng.random(n) < means[np.arange(n), actions],
        propensities=np.full((n, n_actions), 1 / n_actions),
    )


def error(fitted, contexts, means):
    return np.sqrt(((fitted.predict(contexts) - means) ** 2).mean())


def by_region(x):
    """Two actions that change places in one quarter, which no sum of steps can tell."""
    corner = (x[:, 0] > 0) & (x[:, 1] > 0)
    return np.column_stack([np.where(corner, 0.8, 0.3), np.where(corner, 0.3, 0.6)])


def by_sum(x):
    return np.clip(0.5 + 0.12 * x @ np.array([[1, -1], [1, 1], [-1, 1]]), 0.02, 0.98)
