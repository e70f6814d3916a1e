"""Reward models made of others: weighted sums, and the better of two by held-out error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.optimize

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.checks import settle
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards.base import (
    Constant,
    FittedModel,
    Json,
    RewardModel,
    action_means,
    check_model,
    factored,
    fit_halves,
    half_of,
    inside,
    some_rows,
)
from pacbandits.schema import Fields

# A reward model made of several: a sum of them, weighed by how well they foretell what they have not seen.
#
#     f(c, a) = m(a) + Σ_j w_j d_j(c, a) + Σ_j u_j d̄_j(c),     d_j = f_j − m,     d̄_j(c) = mean of d_j(c, a) over a
#
# m are the means of actions and f_j the models. The last part lets one action speak for another: where exactly one
# action is right, say, what is more than usual on one is less on the others, and u is about −w; where some contexts are
# good for all actions, u is positive.
#
# The weights w ≥ 0 and u are those of least squares for each half of the rows, predicted by models of the other half,
# with a pull to w = 0 and, more, to u = 0 that is worth the squared error of one row.


optimize: Any = scipy.optimize  # it ships no complete types

MAX_STORED_MODELS = 8
MAX_JUDGED_ROWS = 2000  # of each half: enough to tell a handful of weights
USUAL_WEIGHT, USUAL_SHARED_WEIGHT = 1.0, 0.5  # how far from 0 weights w and u are before there are data
MIN_ROW_ERROR = 1e-4  # squared: predictions stay 0.02 away from certainty


@dataclass(frozen=True)
class Stacked:
    """A sum of models, weighed by how well each, fitted to half of the rows, predicts the other half.

    models: one or more.
    """

    kind: ClassVar[str] = "stacked"

    models: tuple[RewardModel, ...]

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError("a stacked reward model needs at least one to be made of")
        settle(self, models=tuple(check_model(model) for model in self.models))

    def fit(self, log: Log) -> FittedModel:
        heads = half_of(log)
        if heads.all() or not heads.any():
            return Constant(inside(action_means(log)))
        fits = [fit_halves(model, log, heads) for model in self.models]
        judged = [
            _foretell([one for one, _, _ in fits], log.only(heads), log.only(~heads)),
            _foretell([one for _, one, _ in fits], log.only(~heads), log.only(heads)),
        ]
        own, shared = _weigh(*(np.concatenate(parts) for parts in zip(*judged, strict=True)))
        weighed = zip(fits, own, shared, strict=True)
        parts = tuple(WeightedModel(whole, float(w), float(u)) for (_, _, whole), w, u in weighed if w or u)
        return FittedStack(action_means(log), _played(log), parts)

    def to_json(self) -> Json:
        return {"kind": self.kind, "models": [model.to_json() for model in self.models]}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Stacked:
        given.check_known(("kind", "models"))
        return cls(tuple(read(one) for one in given.items("models", least=1, most=MAX_STORED_MODELS)))


@dataclass(frozen=True, eq=False)
class WeightedModel:
    """One of the models of a sum.

    fitted: the model.
    own: its weight w.
    shared: its weight u.
    """

    fitted: FittedModel
    own: float
    shared: float


@dataclass(frozen=True, eq=False)
class FittedStack:
    """A sum of fitted models.

    means (A,): of each action.
    played (A,): whether it was.
    parts: the models, with their weights.
    """

    means: FloatArray
    played: BoolArray
    parts: tuple[WeightedModel, ...]

    def predict(self, contexts: Contexts) -> FloatArray:
        out = np.tile(self.means, (len(contexts), 1))
        for part in self.parts:
            own, shared = _deviations(part.fitted, contexts, self.means, self.played)
            out += part.own * own
            out[:, self.played] += part.shared * shared[:, None]
        return inside(out)


def _played(log: Log) -> BoolArray:
    """Which actions were played (A,): the others say nothing and hear nothing."""
    return np.bincount(log.actions, minlength=log.n_actions) > 0


def _deviations(
    fitted: FittedModel, contexts: Contexts, means: FloatArray, played: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """d (n, A), and d̄ (n,): its mean over the actions that were played."""
    own, shared = fitted.predict(contexts) - means, np.zeros(len(contexts))
    for action in np.flatnonzero(played):  # one after the other, as a card adds them up: to the same last bit
        shared += own[:, action]
    return own, shared / played.sum()


def _foretell(fitted: list[FittedModel], seen: Log, other: Log) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What models of the rows seen say of others: d_j and d̄_j (n, 2k), r − m (n,), and how often each occurred (n,)."""
    other = other.take(some_rows(len(other), most=MAX_JUDGED_ROWS))
    means, played = action_means(seen), _played(seen)
    rows = np.arange(len(other))
    columns = np.empty((len(rows), 2 * len(fitted)))
    for j, one in enumerate(fitted):
        own, shared = _deviations(one, other.contexts, means, played)
        columns[:, j] = own[rows, other.actions]
        columns[:, len(fitted) + j] = np.where(played[other.actions], shared, 0.0)
    return columns, other.rewards - means[other.actions], other.weights


def _weigh(columns: FloatArray, targets: FloatArray, repeats: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The weights w and u (k,) for the columns d_j and d̄_j (n, 2k)."""
    k = columns.shape[1] // 2
    signed = np.column_stack([columns, -columns[:, k:]])  # u as the difference of two weights that are not negative
    gram = signed.T @ (repeats[:, None] * signed)
    pull = signed.T @ (repeats * targets)
    weights = np.zeros(3 * k)
    error = max(float(np.average(targets**2, weights=repeats)), MIN_ROW_ERROR)
    usual = np.repeat([USUAL_WEIGHT, USUAL_SHARED_WEIGHT, USUAL_SHARED_WEIGHT], k)
    for _ in range(2):  # the error of a row is that of the means at first, then that of the models
        root = factored(np.linalg.cholesky, gram + np.diag(error / usual**2))
        weights = optimize.nnls(root.T, np.linalg.solve(root, pull))[0]
        error = max(float(np.average((targets - signed @ weights) ** 2, weights=repeats)), MIN_ROW_ERROR)
    return weights[:k], weights[k : 2 * k] - weights[2 * k :]


# A reward model made of two: whichever predicts better what it has not seen.


@dataclass(frozen=True)
class Either:
    """Whichever of two models, fitted to half of the rows, predicts the other half better; of equals the first.

    first, second: the models.
    """

    kind: ClassVar[str] = "either"

    first: RewardModel
    second: RewardModel

    def fit(self, log: Log) -> FittedModel:
        heads = half_of(log)
        if heads.all() or not heads.any():
            return self.first.fit(log)
        halves = log.only(heads), log.only(~heads)
        errors = [
            sum(_error(model.fit(one), other) for one, other in (halves, halves[::-1]))
            for model in (self.first, self.second)
        ]
        return (self.second if errors[1] < errors[0] else self.first).fit(log)

    def to_json(self) -> Json:
        return {"kind": self.kind, "first": self.first.to_json(), "second": self.second.to_json()}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Either:
        given.check_known(("kind", "first", "second"))
        return cls(read(given["first"]), read(given["second"]))


def _error(fitted: FittedModel, log: Log) -> float:
    """The squared error of the predictions of what was played."""
    guesses = fitted.predict(log.contexts)[np.arange(len(log)), log.actions]
    return float((log.weights * (log.rewards - guesses) ** 2).sum())
