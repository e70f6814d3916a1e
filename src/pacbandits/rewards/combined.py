"""Reward models made of others: weighted sums, and the better of two by held-out error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, optimize
from pacbandits.checks import settle
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards.base import (
    Constant,
    FittedModel,
    RewardModel,
    StoredFit,
    action_means,
    check_model,
    check_stored,
    factored,
    fit_halves,
    half_of,
    inside,
    some_rows,
    table_from_json,
)
from pacbandits.schema import Fields, Json, flag

# A weighted sum of reward models, weighted by cross-validation.
#
#     f(c, a) = m(a) + Σ_j w_j d_j(c, a) + Σ_j u_j d̄_j(c),     d_j = f_j − m,     d̄_j(c) = mean of d_j(c, a) over a
#
# m are the means of actions and f_j the models. The last part shares information between actions: where exactly one
# action is right, say, a larger reward of one means smaller ones of the others, and u is about −w; where some contexts
# are good for all actions, u is positive.
#
# The weights w ≥ 0 and u are fitted by least squares on each half of the rows, predicted by models of the other half,
# with a ridge penalty toward w = 0 and, stronger, toward u = 0 that is worth the squared error of one row.


MAX_STORED_MODELS = 8
MAX_JUDGED_ROWS = 2000  # of each half: enough to fit a few weights
USUAL_WEIGHT, USUAL_SHARED_WEIGHT = 1.0, 0.5  # prior standard deviations of the weights w and u
MIN_ROW_ERROR = 1e-4  # squared: predictions stay 0.02 away from 0 and 1


@dataclass(frozen=True)
class Stacked:
    """A sum of models, weighted by how well each, fitted to half of the rows, predicts the other half.

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
    """A model in a sum, with its weights.

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
    played (A,): whether each action was played.
    parts: the models, with their weights.
    """

    kind: ClassVar[str] = "stacked"

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

    def to_json(self) -> Json:
        """Serialise the models with their weights; raise InputError if one of them has no JSON form."""
        parts = [
            {"own": part.own, "shared": part.shared, "fitted": check_stored(part.fitted).to_json()}
            for part in self.parts
        ]
        return {"kind": self.kind, "means": self.means.tolist(), "played": self.played.tolist(), "parts": parts}

    @classmethod
    def from_json(cls, given: Fields, *, n_actions: int, read: Callable[[object], StoredFit]) -> FittedStack:
        given.check_known(("kind", "means", "played", "parts"))
        played = given.items("played", least=n_actions, most=n_actions)
        flags = np.array([flag(one, name=given.name("played")) for one in played], dtype=np.bool_)
        if not flags.any():
            raise InputError(f"{given.name('played')} must be true for some action")
        parts = list[WeightedModel]()
        for one in given.items("parts", most=MAX_STORED_MODELS):
            part = Fields.read(one, of="part of a reward model")
            part.check_known(("own", "shared", "fitted"))
            parts.append(WeightedModel(read(part["fitted"]), part.number("own"), part.number("shared")))
        return cls(table_from_json(given, "means", n_actions), flags, tuple(parts))


def _played(log: Log) -> BoolArray:
    """Return which actions were played (A,): the others neither give nor get shared information."""
    return np.bincount(log.actions, minlength=log.n_actions) > 0


def _deviations(
    fitted: FittedModel, contexts: Contexts, means: FloatArray, played: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return d (n, A), and d̄ (n,): its mean over the actions that were played."""
    own, shared = fitted.predict(contexts) - means, np.zeros(len(contexts))
    for action in np.flatnonzero(played):  # one after the other, in the order of the CUDA code: equal to the last bit
        shared += own[:, action]
    return own, shared / played.sum()


def _foretell(fitted: list[FittedModel], seen: Log, other: Log) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return d_j and d̄_j (n, 2k) of other rows by models of the rows seen, r − m (n,), and the rows' weights (n,)."""
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
    """Return the weights w and u (k,) for the columns d_j and d̄_j (n, 2k)."""
    k = columns.shape[1] // 2
    signed = np.column_stack([columns, -columns[:, k:]])  # u as the difference of two non-negative weights
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


# A reward model selected from two by held-out error.


@dataclass(frozen=True)
class Either:
    """The one of two models that, fitted to half of the rows, predicts the other half better; at a tie the first.

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
    """Return the squared error of the predictions for the actions played."""
    guesses = fitted.predict(log.contexts)[np.arange(len(log)), log.actions]
    return float((log.weights * (log.rewards - guesses) ** 2).sum())
