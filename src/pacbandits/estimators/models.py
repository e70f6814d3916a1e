"""Reward models: a guess of r(c, a) from the past, to centre what is estimated from the future.

A model changes how many samples are needed and never what may be claimed: scores are unbiased whatever it says, as long
as it was fitted on earlier rounds only.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pacbandits.errors import FloatArray, InputError, IntArray
from pacbandits.policies.trees.bins import cut
from pacbandits.records import Contexts, Log

_EDGE = 0.02  # predictions stay this far inside [0, 1]
_MOST_COLUMNS = 400
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
        return _Cells(ids, _inside((totals + self.strength * means) / (counts + self.strength)), _inside(means))

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

    cuts: tuple[tuple[float, ...] | int, ...]
    strength: float = 20.0

    @classmethod
    def learn(cls, contexts: Contexts, *, strength: float = 20.0) -> Additive:
        """Cuts at the quantiles of these contexts: up to 15 a feature, fewer when there are many features."""
        bins = int(np.clip(_MOST_COLUMNS // max(contexts.n_features, 1), 2, 16))
        return cls(
            tuple(
                cut(contexts.features[:, j], contexts.weights, bins=bins) if labels is None else len(labels)
                for j, labels in enumerate(contexts.categories)
            ),
            strength,
        )

    def fit(self, log: Log) -> Fitted:
        steps = self._steps(log.contexts)
        means = action_means(log)
        slopes = np.zeros((steps.shape[1], log.n_actions))
        for action in range(log.n_actions):
            mine = log.actions == action
            if not mine.any():
                continue
            rows, weights = steps[mine], log.repeats[mine, None]
            gram = (rows * weights).T @ rows + self.strength * np.eye(steps.shape[1])
            slopes[:, action] = np.linalg.solve(gram, (rows * weights).T @ (log.rewards[mine] - means[action]))
        return _Sum(self, means, slopes)

    def to_json(self) -> dict[str, Any]:
        cuts = [c if isinstance(c, int) else list(c) for c in self.cuts]
        return {"kind": "additive", "cuts": cuts, "strength": self.strength}

    def _steps(self, contexts: Contexts) -> FloatArray:
        """Which step of each feature a context is on, one column a step."""
        if len(self.cuts) != contexts.n_features:
            raise InputError(f"the model is of {len(self.cuts)} features, but the contexts have {contexts.n_features}")
        blocks: list[FloatArray] = []
        for j, (cuts, labels) in enumerate(zip(self.cuts, contexts.categories, strict=True)):
            values = contexts.features[:, j]
            known = cuts if isinstance(cuts, int) else None
            if known != (None if labels is None else len(labels)):
                raise InputError(f"feature '{contexts.names[j]}' has other labels than those the model was made for")
            size = cuts if isinstance(cuts, int) else len(cuts) + 1
            if isinstance(cuts, int):
                codes = values.astype(np.int64)
            else:
                codes = np.searchsorted(np.array(cuts), values, side="left")
            blocks.append((codes[:, None] == np.arange(size)).astype(np.float64))
        return np.concatenate(blocks, axis=1)


@dataclass(frozen=True, eq=False)
class _Sum:
    model: Additive
    means: FloatArray
    slopes: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        return _inside(self.means + self.model._steps(contexts) @ self.slopes)  # pyright: ignore[reportPrivateUsage]


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
        return _inside(np.stack(columns, axis=1))


def default_model(contexts: Contexts) -> RewardModel:
    """The model for these contexts: additive where there are features, else cell means."""
    return Additive.learn(contexts) if contexts.n_features else CellMeans()


def model_from_json(value: dict[str, Any]) -> RewardModel:
    """The model that `to_json` described."""
    if value.get("kind") == "cell-means":
        return CellMeans(float(value["strength"]))
    if value.get("kind") == "additive":
        cuts = tuple(c if isinstance(c, int) else tuple(float(x) for x in c) for c in value["cuts"])
        return Additive(cuts, float(value["strength"]))
    raise InputError(f"a reward model of kind '{value.get('kind')}' cannot be made again from a file; pass it")


def predict_by_round(log: Log, model: RewardModel) -> FloatArray:
    """For every row (n, A) the prediction of the model fitted on the rows of earlier rounds."""
    out = np.empty((len(log), log.n_actions))
    for number in np.unique(log.rounds):
        now, before = log.rounds == number, log.rounds < number
        fitted = model.fit(log.only(before)) if before.any() else no_idea(log.n_actions)
        out[now] = fitted.predict(log.only(now).contexts)
    return out


def action_means(log: Log) -> FloatArray:
    """The mean reward of each action (A,), pulled a little toward the mean of all."""
    counts = np.bincount(log.actions, weights=log.repeats, minlength=log.n_actions)
    totals = np.bincount(log.actions, weights=log.repeats * log.rewards, minlength=log.n_actions)
    overall = (totals.sum() + 0.5) / (counts.sum() + 1.0)
    return (totals + 2.0 * overall) / (counts + 2.0)


def _inside(values: FloatArray) -> FloatArray:
    return np.clip(values, _EDGE, 1.0 - _EDGE)
