"""Reward models: a guess of r(c, a) from the past, to centre what is estimated from the future.

A model changes how many samples are needed and never what may be claimed: scores are unbiased whatever it says, as long
as it was fitted on earlier rounds only.
"""

from __future__ import annotations

import copy
import inspect
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards.regions import Regions
from pacbandits.rewards.steps import (
    Cuts,
    action_means,
    codes_of,
    cuts_from_json,
    cuts_to_json,
    inside,
    learn_cuts,
    steps_of,
)

_MOST_ROWS = 10**7  # given to an estimator that takes no weights


class Fitted(Protocol):
    """A fitted model."""

    def predict(self, contexts: Contexts) -> FloatArray:
        """A guess of every action's mean reward, in [0, 1], as (n, A)."""
        ...


class RewardModel(Protocol):
    """What can be fitted to a log."""

    def fit(self, log: Log) -> Fitted:
        """The model of this log."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What makes the same model again."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same guess for every context; one number an action."""

    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        return np.tile(self.means, (len(contexts), 1))


def no_idea(n_actions: int) -> Constant:
    """The model before there are data: one half."""
    return Constant(np.full(n_actions, 0.5))


@dataclass(frozen=True)
class CellMeans:
    """For contexts of a finite set: the mean of each (context, action), pulled toward the action's mean.

    strength: how many observations the pull is worth.
    """

    strength: float = 8.0

    def fit(self, log: Log) -> Fitted:
        if log.contexts.ids is None:
            raise InputError("a model of cell means needs contexts with ids")
        ids, where = np.unique(log.contexts.ids, return_inverse=True)
        shape = (len(ids), log.n_actions)
        cell = where * log.n_actions + log.actions
        counts = np.bincount(cell, weights=log.repeats, minlength=shape[0] * shape[1]).reshape(shape)
        totals = np.bincount(cell, weights=log.repeats * log.rewards, minlength=shape[0] * shape[1]).reshape(shape)
        means = action_means(log)
        return _Cells(ids, inside((totals + self.strength * means) / (counts + self.strength)), inside(means))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "cell-means", "strength": self.strength}


@dataclass(frozen=True, eq=False)
class _Cells:
    ids: Any
    table: FloatArray
    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        known = contexts.require_ids(below=np.iinfo(np.int64).max)
        spot = np.minimum(np.searchsorted(self.ids, known), len(self.ids) - 1)
        return np.where((self.ids[spot] == known)[:, None], self.table[spot], self.means)


@dataclass(frozen=True)
class Additive:
    """For contexts with features: for each action a sum of one step function a feature, by ridge regression.

    cuts: where each feature is cut, or how many labels a categorical one has, one step each. strength: of the ridge.
    """

    cuts: Cuts
    strength: float = 20.0

    @classmethod
    def learn(cls, contexts: Contexts, *, strength: float = 20.0) -> Additive:
        """Cuts at the quantiles of these contexts."""
        return cls(learn_cuts(contexts), strength)

    def fit(self, log: Log) -> Fitted:
        means = action_means(log)
        places = self.places(log.contexts)
        weights = log.repeats.astype(np.float64)
        residuals = weights * (log.rewards - means[log.actions])
        gram = np.tile(self.strength * np.eye(self._size), (log.n_actions, 1, 1))
        slopes = np.zeros((log.n_actions, self._size))

        def task(start: int, stop: int) -> None:
            _add_up(places, log.actions, weights, residuals, gram, slopes, start, stop)
            _solve(gram, slopes, start, stop)

        over_cores(task, count=log.n_actions)
        return _Sum(self, means, np.ascontiguousarray(slopes.T))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "additive", "cuts": cuts_to_json(self.cuts), "strength": self.strength}

    @property
    def _size(self) -> int:
        return sum(steps_of(cuts) for cuts in self.cuts)

    def places(self, contexts: Contexts) -> IntArray:
        """Which of all steps (n, d) a context is on, of each feature one."""
        starts = np.cumsum([0] + [steps_of(cuts) for cuts in self.cuts[:-1]])
        places = codes_of(self.cuts, contexts)
        places += starts
        return places


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
    """Add to gram (A, S, S) how often two steps come together, above its diagonal, and to pull (A, S) the residuals.

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
    """Put the solution of gram·x = pull in the place of pull, by Cholesky's decomposition in the place of gram."""
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


@dataclass(frozen=True, eq=False)
class _Sum:
    model: Additive
    means: FloatArray
    slopes: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        places = self.model.places(contexts)
        out = np.tile(self.means, (len(contexts), 1))
        over_cores(lambda a, b: _add_slopes(places, self.slopes, out, a, b), count=len(contexts))
        return inside(out)


@kernel
def _add_slopes(places: IntArray, slopes: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    for i in range(start, stop):
        for j in range(places.shape[1]):
            for a in range(out.shape[1]):
                out[i, a] += slopes[places[i, j], a]


@dataclass(frozen=True)
class Either:
    """Whichever of two models, fitted to half of the rows, predicts the other half better."""

    first: RewardModel
    second: RewardModel

    def fit(self, log: Log) -> Fitted:
        coins = _coins(len(log))
        if coins.all() or not coins.any():
            return self.first.fit(log)
        halves = log.only(coins), log.only(~coins)
        errors = [
            sum(_error(model.fit(one), other) for one, other in (halves, halves[::-1]))
            for model in (self.first, self.second)
        ]
        return (self.second if errors[1] < errors[0] else self.first).fit(log)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "either", "first": self.first.to_json(), "second": self.second.to_json()}


def _coins(n: int) -> BoolArray:
    """n coins, the same everywhere and always, as what is chosen by them must be checked by others.

    They are the top bits of scrambled row numbers (splitmix64), as rows may come in patterns.
    """
    bits = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits >> np.uint64(63)).astype(np.bool_)


def _error(fitted: Fitted, log: Log) -> float:
    """The squared error of the predictions of what was played."""
    guesses = fitted.predict(log.contexts)[np.arange(len(log)), log.actions]
    return float((log.repeats * (log.rewards - guesses) ** 2).sum())


@dataclass(frozen=True, eq=False)
class PerAction:
    """Anything with `fit(X, y)` and `predict(X)`: a copy for each action, fitted to what was seen of it.

    least: an action seen less often than this is predicted by its mean.
    """

    estimator: Any
    least: int = 20

    def fit(self, log: Log) -> Fitted:
        fitted: list[Any] = []
        for action in range(log.n_actions):
            mine = np.flatnonzero(log.actions == action)
            if log.repeats[mine].sum() < self.least:
                fitted.append(None)
            else:
                own = copy.deepcopy(self.estimator)
                _fit_counted(own, log.contexts.features[mine], log.rewards[mine], log.repeats[mine])
                fitted.append(own)
        return _Each(tuple(fitted), action_means(log))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "given", "estimator": type(self.estimator).__name__}


def _fit_counted(estimator: Any, features: FloatArray, rewards: FloatArray, repeats: IntArray) -> None:
    """Fit to rows that occurred so many times: by weights if it takes them, else row by row."""
    if repeats.max() == 1:
        estimator.fit(features, rewards)
    elif "sample_weight" in inspect.signature(estimator.fit).parameters:
        estimator.fit(features, rewards, sample_weight=repeats)
    elif repeats.sum() <= _MOST_ROWS:
        estimator.fit(np.repeat(features, repeats, axis=0), np.repeat(rewards, repeats))
    else:
        raise InputError(
            f"{type(estimator).__name__} takes no sample_weight, and {repeats.sum():,} interactions are too many to "
            "fit one by one; give a model that takes weights"
        )


@dataclass(frozen=True, eq=False)
class _Each:
    fitted: tuple[Any, ...]
    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        columns = [
            np.full(len(contexts), mean) if own is None else np.asarray(own.predict(contexts.features), dtype=float)
            for own, mean in zip(self.fitted, self.means, strict=True)
        ]
        return inside(np.stack(columns, axis=1))


def default_model(contexts: Contexts) -> RewardModel:
    """The model for these contexts: regions or additive steps where there are features, else cell means."""
    return Either(Regions.learn(contexts), Additive.learn(contexts)) if contexts.n_features else CellMeans()


def model_from_json(value: dict[str, Any]) -> RewardModel:
    """The model that `to_json` described."""
    if value.get("kind") == "cell-means":
        return CellMeans(float(value["strength"]))
    if value.get("kind") == "additive":
        return Additive(cuts_from_json(value["cuts"]), float(value["strength"]))
    if value.get("kind") == "either":
        return Either(model_from_json(dict(value["first"])), model_from_json(dict(value["second"])))
    if value.get("kind") == "regions":
        return Regions.from_json(value)
    raise InputError(f"a reward model of kind '{value.get('kind')}' cannot be made again from a file; pass it")


def can_be_made_again(model: RewardModel) -> bool:
    """Whether its description in JSON is enough to make it again."""
    try:
        model_from_json(model.to_json())
    except InputError:
        return False
    return True


def predict_by_round(log: Log, model: RewardModel) -> FloatArray:
    """For every row (n, A) the prediction of the model fitted on the rows of earlier rounds."""
    out = np.empty((len(log), log.n_actions))
    for number in np.unique(log.rounds):
        now, before = log.rounds == number, log.rounds < number
        fitted = model.fit(log.only(before)) if before.any() else no_idea(log.n_actions)
        out[now] = fitted.predict(log.contexts.take(np.flatnonzero(now)))
    return out
