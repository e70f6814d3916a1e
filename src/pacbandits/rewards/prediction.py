"""Predictions that know the past alone."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.records import Log
from pacbandits.rewards.base import RewardModel, no_idea


def predict_by_round(log: Log, model: RewardModel) -> FloatArray:
    """For every row (n, A) the prediction of the model fitted on the rows of earlier rounds."""
    out = np.empty((len(log), log.n_actions))
    for number in np.unique(log.rounds):
        now, before = log.rounds == number, log.rounds < number
        fitted = model.fit(log.only(before)) if before.any() else no_idea(log.n_actions)
        out[now] = fitted.predict(log.contexts.take(np.flatnonzero(now)))
    return out
