"""A reward model made of the user's own estimator, one copy an action."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import settle, shown, whole_number
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.records.missing import present_numbers
from pacbandits.rewards.base import Json
from pacbandits.rewards.steps import action_means, inside

# Interactions of one action that are written out one by one for an estimator that takes no weights.
MAX_ROWS_WITHOUT_WEIGHTS = 10**7


@dataclass(frozen=True, eq=False)
class PerAction:
    """Anything with `fit(X, y)` and `predict(X)`: a copy for each action, fitted to what was seen of it.

    Files name it and cannot make it again: whoever reads one hands the model in.

    estimator: what is copied, not fitted yet.
    least: an action seen less often than this is predicted by its mean.
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

    fitted: the estimators; None for an action seldom seen.
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
    """Turn the error of an estimator that takes no missing values, if there are any, into a sentence that names one."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, InputError) or not np.isnan(contexts.features).any():
            raise
        for j in range(contexts.n_features):
            present_numbers(contexts, j, by=type(estimator).__name__)


def _fit_counted(estimator: Any, features: FloatArray, rewards: FloatArray, weights: FloatArray) -> None:
    """Fit to rows that count so much: by weights if it takes them, else row by row; all visits of units alike then."""
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
