"""A reward model for contexts with features: for each action a sum of one step function per feature."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores, plain_if_few
from pacbandits.records import Contexts, Log
from pacbandits.rewards.base import (
    Cuts,
    RewardModel,
    StoredFit,
    action_means,
    codes_of,
    cuts_from_json,
    cuts_to_json,
    inside,
    learn_cuts,
    steps_of,
    strength_from_json,
    table_from_json,
    with_labels_of,
)
from pacbandits.schema import Fields, Json


@dataclass(frozen=True)
class Additive:
    """For contexts with features: for each action a sum of one step function per feature, by ridge regression.

    cuts: the cut points of each feature, or the number of labels of a categorical one, one step each.
    strength: the ridge penalty.
    """

    kind: ClassVar[str] = "additive"

    cuts: Cuts
    strength: float = 20.0

    @classmethod
    def learn(cls, contexts: Contexts, *, strength: float = 20.0) -> Additive:
        """Return a model with cuts at the quantiles of these contexts."""
        return cls(learn_cuts(contexts), strength)

    def fit(self, log: Log) -> FittedSum:
        cuts = with_labels_of(self.cuts, log.contexts)
        if cuts != self.cuts:
            return replace(self, cuts=cuts).fit(log)
        means = action_means(log)
        places = self.places(log.contexts)
        weights = log.weights
        residuals = weights * (log.rewards - means[log.actions])
        gram = np.tile(self.strength * np.eye(self.n_steps), (log.n_actions, 1, 1))
        slopes = np.zeros((log.n_actions, self.n_steps))

        def task(start: int, stop: int) -> None:
            _add_up(places, log.actions, weights, residuals, gram, slopes, start, stop)
            _solve(gram, slopes, start, stop)

        over_cores(task, count=log.n_actions)
        return FittedSum(self, means, np.ascontiguousarray(slopes.T))

    def places(self, contexts: Contexts) -> IntArray:
        """Return the index (n, d), among all steps, of each context's step in each feature."""
        starts = np.cumsum([0] + [steps_of(cuts) for cuts in self.cuts[:-1]])
        places = codes_of(self.cuts, contexts)
        places += starts
        return places

    def to_json(self) -> Json:
        return {"kind": self.kind, "cuts": cuts_to_json(self.cuts), "strength": self.strength}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Additive:
        given.check_known(("kind", "cuts", "strength"))
        return cls(cuts_from_json(given), strength_from_json(given))

    @property
    def n_steps(self) -> int:
        return sum(steps_of(cuts) for cuts in self.cuts)


@dataclass(frozen=True, eq=False)
class FittedSum:
    """A fitted sum of steps.

    model: the steps.
    means (A,): of each action.
    slopes (S, A): the contribution of each step.
    """

    kind: ClassVar[str] = "additive"

    model: Additive
    means: FloatArray
    slopes: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        places = self.model.places(contexts)
        out = np.tile(self.means, (len(contexts), 1))
        add = plain_if_few(_add_slopes, len(contexts))
        over_cores(lambda a, b: add(places, self.slopes, out, a, b), count=len(contexts))
        return inside(out)

    def to_json(self) -> Json:
        return self.model.to_json() | {"means": self.means.tolist(), "slopes": self.slopes.tolist()}

    @classmethod
    def from_json(cls, given: Fields, *, n_actions: int, read: Callable[[object], StoredFit]) -> FittedSum:
        given.check_known(("kind", "cuts", "strength", "means", "slopes"))
        model = Additive(cuts_from_json(given), strength_from_json(given))
        slopes = table_from_json(given, "slopes", model.n_steps, n_actions)
        return cls(model, table_from_json(given, "means", n_actions), slopes)


@kernel
def _add_up(
    places: IntArray,
    actions: IntArray,
    weights: FloatArray,
    residuals: FloatArray,
    gram: FloatArray,
    pull: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Add to gram (A, S, S), above its diagonal, how often two steps occur together, and to pull (A, S) the residuals.

    For actions from start to stop.
    """
    for i in range(len(actions)):
        a = actions[i]
        if start <= a < stop:
            for j in range(places.shape[1]):
                s = places[i, j]
                pull[a, s] += residuals[i]
                for k in range(j, places.shape[1]):
                    gram[a, s, places[i, k]] += weights[i]


@kernel
def _solve(gram: FloatArray, pull: FloatArray, start: int, stop: int) -> None:
    """Overwrite pull with the solution of gram·x = pull, and gram with its Cholesky factor."""
    size = gram.shape[1]
    for a in range(start, stop):
        for j in range(size):
            root = math.sqrt(gram[a, j, j])
            for k in range(j, size):
                gram[a, j, k] /= root
            pull[a, j] /= root
            for i in range(j + 1, size):
                factor = gram[a, j, i]
                pull[a, i] -= factor * pull[a, j]
                for k in range(i, size):
                    gram[a, i, k] -= factor * gram[a, j, k]
        for j in range(size - 1, -1, -1):
            for k in range(j + 1, size):
                pull[a, j] -= gram[a, j, k] * pull[a, k]
            pull[a, j] /= gram[a, j, j]


@kernel
def _add_slopes(places: IntArray, slopes: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    """Add to out (n, A) the slopes of each context's steps, for contexts from start to stop."""
    for i in range(start, stop):
        for j in range(places.shape[1]):
            for a in range(out.shape[1]):
                out[i, a] += slopes[places[i, j], a]
