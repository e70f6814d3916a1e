"""Inverse gap weighting: the larger an action's predicted gap, the smaller its probability.

    p(a) = 1 / (K + γ(ŷ_b − ŷ_a))  for every candidate a but the best of them, b, which gets the rest

with K the number of candidates. It goes back to Abe and Long, "Associative reinforcement learning using linear
probabilistic concepts", 1999.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.records import Contexts


class Predictor(Protocol):
    """A model that predicts rewards."""

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return mean rewards (n, A)."""
        ...


def inverse_gaps(predictions: FloatArray, *, gamma: float, candidates: BoolArray | None = None) -> FloatArray:
    """Return propensities (n, A) for predictions (n, A); candidates (n, A): if not all actions, at least one per row.

    >>> import numpy as np
    >>> from pacbandits.rivals.inverse_gaps import inverse_gaps
    >>> inverse_gaps(np.array([[0.5, 0.3, 0.5]]), gamma=10.0)
    array([[0.46666667, 0.2       , 0.33333333]])
    """
    rows, among = np.arange(len(predictions)), predictions
    count: FloatArray | float = float(predictions.shape[1])
    if candidates is not None:
        among = np.where(candidates, predictions, -np.inf)
        count = candidates.sum(axis=1, keepdims=True).astype(np.float64)
    best = np.argmax(among, axis=1)
    gaps = np.maximum(predictions[rows, best][:, None] - predictions, 0.0)
    out = 1.0 / (count + gamma * gaps)
    if candidates is not None:
        out[~candidates] = 0.0
    out[rows, best] = 0.0
    out[rows, best] = 1.0 - out.sum(axis=1)
    return out


def linear_entropy(dimension: int, samples: float) -> float:
    """Return the counterpart of log|F| for linear functions of d parameters after t interactions: d log(1 + t/d).

    It bounds the regret of online ridge regression (Vovk 2001; Azoury and Warmuth 2001) up to constants.
    """
    return dimension * float(np.log1p(samples / dimension))


@dataclass(frozen=True, eq=False)
class InverseGaps:
    """A sampler by inverse gap weighting over a model's predictions.

    model: that predicts.
    gamma: γ.
    n_actions: how many actions there are.
    """

    model: Predictor
    gamma: float
    n_actions: int

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        return inverse_gaps(self.model.predict(contexts), gamma=self.gamma)
