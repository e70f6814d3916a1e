"""A registry of reward models by their kind in JSON. No code is ever loaded from a file."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import settle, shown, whole_number
from pacbandits.compiled import MAX_PLAIN_ROWS
from pacbandits.errors import InputError, plain
from pacbandits.records import Contexts, Log
from pacbandits.records.columns import present_numbers
from pacbandits.rewards.additive import Additive, FittedSum
from pacbandits.rewards.base import (
    CellMeans,
    Constant,
    FittedCells,
    FittedModel,
    RewardModel,
    StoredFit,
    StoredModel,
    action_means,
    check_stored,
    inside,
)
from pacbandits.rewards.combined import Either, FittedStack, Stacked
from pacbandits.rewards.neighbours import FittedNeighbours, Neighbours, Space
from pacbandits.rewards.prediction import CachedModel
from pacbandits.rewards.regions import FittedRegions, Regions
from pacbandits.schema import Fields, Json

_SIMPLE: tuple[type[StoredModel], ...] = (CellMeans, Additive, Regions, Neighbours)
_MADE_OF_OTHERS: tuple[type[StoredModel], ...] = (Either, Stacked)
MODELS = {model.kind: model for model in (*_SIMPLE, *_MADE_OF_OTHERS)}


def default_model(contexts: Contexts) -> RewardModel:
    """Return the default model for these contexts: cell means without features, else a sum of three models.

    Those are regions, additive steps and neighbours, weighted by cross-validation (`Stacked`).
    """
    if not contexts.n_features:
        return CellMeans()
    return Stacked((Regions.learn(contexts), Additive.learn(contexts), Neighbours()))


def first_model(log: Log) -> RewardModel:
    """Return the default model for a log's first round: later rounds do not affect how features are cut."""
    first = np.flatnonzero(log.rounds == log.rounds.min())
    return default_model(log.contexts.take(first).with_labels_seen())


def lighter(model: RewardModel) -> RewardModel:
    """Return the model without the parts that are slow to predict, for logs of so many rows that the others suffice."""
    if not isinstance(model, Stacked):
        return model
    quick = tuple(part for part in model.models if not isinstance(part, Neighbours))
    return Stacked(quick) if quick and len(quick) < len(model.models) else model


def model_from_json(value: object) -> RewardModel:
    """Make the model that `to_json` described; a user's own must be passed instead."""
    given = Fields.read(value, of="reward model")
    kind = given.given.get("kind")
    if not isinstance(kind, str) or kind not in MODELS:
        raise InputError(f"a reward model of kind '{plain(kind)}' cannot be made again from a file; pass it")
    return MODELS[kind].from_json(given, read=_part_from_json)


def _part_from_json(value: object) -> RewardModel:
    """Make a component of another model; nesting is refused, as each level multiplies the number of fits."""
    kind = Fields.read(value, of="reward model").given.get("kind")
    if kind in [model.kind for model in _MADE_OF_OTHERS]:
        raise InputError(f"a reward model that is part of another may not be of kind '{plain(kind)}' in JSON")
    return model_from_json(value)


def can_be_made_again(model: RewardModel) -> bool:
    """Whether the model equals the one made from its description in JSON."""
    try:
        made = model_from_json(model.to_json())
    except InputError:
        return False
    return made == model


# Fitted models as JSON, by which an experiment stores the predictions that weight a design.


_SIMPLE_FITS: tuple[type[StoredFit], ...] = (Constant, FittedCells, FittedSum, FittedRegions, FittedNeighbours)
FITS = {fit.kind: fit for fit in (*_SIMPLE_FITS, FittedStack)}


def stored_fit(fitted: FittedModel) -> StoredFit:
    """Return a fitted model in the form that a file can hold, without caches; raise InputError if it has none."""
    fit = check_stored(fitted.fitted if isinstance(fitted, CachedModel) else fitted)
    if type(fit) not in FITS.values():
        raise InputError(f"a reward model of type {type(fit).__name__} cannot be written to a file")
    return fit


def fit_from_json(value: object, *, n_actions: int) -> StoredFit:
    """Make the fitted model that `StoredFit.to_json` described."""

    def part(value: object) -> StoredFit:
        return _read_fit(value, {fit.kind: fit for fit in _SIMPLE_FITS}, n_actions, part)

    return _read_fit(value, FITS, n_actions, part)


def _read_fit(
    value: object, known: Mapping[str, type[StoredFit]], n_actions: int, read: Callable[[object], StoredFit]
) -> StoredFit:
    given = Fields.read(value, of="fitted reward model")
    return known[given.one_of("kind", known)].from_json(given, n_actions=n_actions, read=read)


def load_machine_code() -> None:
    """Compile or load what predictions of stored models need, so that no assignment waits for it."""
    people, none, means = Contexts.of(np.zeros((MAX_PLAIN_ROWS + 1, 1))), np.zeros(1), np.zeros(2)
    FittedSum(Additive(((0.5,),)), means, np.zeros((2, 2))).predict(people)
    FittedNeighbours(Space((None,), none, none), means, np.zeros((1, 1)), np.zeros((1, 2))).predict(people)


# A reward model made of the user's own estimator, one copy per action.


# Largest number of interactions of an action that are repeated row by row for an estimator without weights.
MAX_ROWS_WITHOUT_WEIGHTS = 10**7


@dataclass(frozen=True, eq=False)
class PerAction:
    """Any estimator with `fit(X, y)` and `predict(X)`: a copy for each action, fitted to its rows.

    Files name it but cannot make it again: pass the model when reading one.

    estimator: the unfitted estimator to copy.
    least: an action with fewer observations is predicted by its mean.
    """

    kind: ClassVar[str] = "given"

    estimator: Any
    least: int = 20

    def __post_init__(self) -> None:
        lacking = [name for name in ("fit", "predict") if not callable(getattr(self.estimator, name, None))]
        if lacking or isinstance(self.estimator, type):
            raise InputError(f"estimator must be an object with fit and predict, got {shown(self.estimator)}")
        settle(self, least=whole_number(self.least, name="least", least=1))

    def fit(self, log: Log) -> FittedEach:
        fitted: list[Any] = []
        for action in range(log.n_actions):
            mine = np.flatnonzero(log.actions == action)
            if log.weights[mine].sum() < self.least:
                fitted.append(None)
            else:
                own = copy.deepcopy(self.estimator)
                with _saying_what_is_missing(log.contexts, own):
                    _fit_counted(own, log.contexts.features[mine], log.rewards[mine], log.weights[mine])
                fitted.append(own)
        return FittedEach(tuple(fitted), action_means(log))

    def to_json(self) -> Json:
        return {"kind": self.kind, "estimator": type(self.estimator).__name__}


@dataclass(frozen=True, eq=False)
class FittedEach:
    """A fitted estimator for each action.

    fitted: the estimators; None for a rarely played action.
    means (A,): of each action.
    """

    fitted: tuple[Any, ...]
    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        columns: list[FloatArray] = []
        for own, mean in zip(self.fitted, self.means, strict=True):
            with _saying_what_is_missing(contexts, own):
                column = np.full(len(contexts), mean) if own is None else own.predict(contexts.features)
            columns.append(np.asarray(column, dtype=np.float64))
        return inside(np.stack(columns, axis=1))


@contextmanager
def _saying_what_is_missing(contexts: Contexts, estimator: object) -> Generator[None]:
    """Turn an estimator's error on missing values, if there are any, into an InputError that names a feature."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, InputError) or not np.isnan(contexts.features).any():
            raise
        for j in range(contexts.n_features):
            present_numbers(contexts, j, by=type(estimator).__name__)


def _fit_counted(estimator: Any, features: FloatArray, rewards: FloatArray, weights: FloatArray) -> None:
    """Fit to weighted rows: by sample_weight if supported, else by repeating rows; weights up to 1 are ignored then."""
    if weights.min() == weights.max() == 1.0:
        estimator.fit(features, rewards)
    elif "sample_weight" in inspect.signature(estimator.fit).parameters:
        estimator.fit(features, rewards, sample_weight=weights)
    elif weights.max() <= 1.0:
        estimator.fit(features, rewards)
    elif weights.sum() <= MAX_ROWS_WITHOUT_WEIGHTS:
        repeats = weights.astype(np.int64)
        estimator.fit(np.repeat(features, repeats, axis=0), np.repeat(rewards, repeats))
    else:
        raise InputError(
            f"{type(estimator).__name__} takes no sample_weight, and {weights.sum():,.0f} interactions are too many to "
            "fit one by one; give a model that takes weights"
        )
