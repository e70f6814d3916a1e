"""Predictions that know the past alone."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.records import Contexts, Log
from pacbandits.rewards.base import Fitted, RewardModel, no_idea


def predict_once(fitted: Fitted, contexts: Contexts) -> FloatArray:
    """A model's predictions (n, A), asked for once of contexts that come again."""
    first, which = contexts.distinct()
    return fitted.predict(contexts.take(first))[which] if len(first) < len(contexts) else fitted.predict(contexts)


def predict_by_round(log: Log, model: RewardModel) -> FloatArray:
    """For every row (n, A) the prediction of the model fitted on the rows of earlier rounds."""
    out = np.empty((len(log), log.n_actions))
    for number in np.unique(log.rounds):
        now, before = log.rounds == number, log.rounds < number
        fitted = model.fit(log.only(before)) if before.any() else no_idea(log.n_actions)
        out[now] = predict_once(fitted, log.contexts.take(np.flatnonzero(now)))
    return out
