"""From an argmax over policies to what estimators do: three reductions.

All start from a `LearningTask`: one row a distinct context, with the gain of each action over the worst action there.
Only gains count, so a constant added to a row of scores changes nothing, and neither does a positive factor of all
scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.finite import sum_by_id
from pacbandits.policies.learners.encoding import ColumnMeanings
from pacbandits.policies.learners.estimators import (
    FittedEstimator,
    SameForAll,
    fit_weighted,
    predict_labels,
    predict_numbers,
)
from pacbandits.policies.learners.words import words_of_tree

# A row with less at stake, as a share of the largest stake, is left out: its gains may be rounding.
LEAST_STAKE_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class LearningTask:
    """What is to be learned.

    features (m, d): distinct rows.
    gains (m, A): the row's scores less their least, added up over the contexts of the row, in units of the largest.
    counts (m,): how many contexts the row stands for.
    """

    features: FloatArray
    gains: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, features: FloatArray, which: IntArray, scores: FloatArray) -> LearningTask:
        """From the row (n,) that each context is, and the contexts' scores (n, A); without rows that tell nothing."""
        # Scores are brought into range by a power of two, which rounds nothing.
        _, exponent = np.frexp(np.abs(scores).max())
        sums = sum_by_id(which, np.ldexp(scores, -exponent), n=len(features))
        gains = sums - sums.min(axis=1, keepdims=True)
        stakes = gains.max(axis=1)
        kept = stakes > LEAST_STAKE_SHARE * stakes.max()
        counts = np.bincount(which, minlength=len(features)).astype(np.float64)
        return cls(features[kept], gains[kept] / (stakes.max() or 1.0), counts[kept])

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_actions(self) -> int:
        return self.gains.shape[1]

    def value(self, actions: IntArray) -> float:
        """What actions (m,) gain over the worst."""
        return float(self.gains[np.arange(len(self)), actions].sum())


class Rule(Protocol):
    """Actions from encoded features."""

    def __call__(self, features: FloatArray) -> IntArray:
        """The action (n,) for each row of features (n, d)."""
        ...

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        """What it does, in words. name: of the estimator. columns: what the features are, if that is known."""
        ...


@dataclass(frozen=True, eq=False)
class Largest:
    """The action of the largest prediction, the first of equals.

    fitted (A,): one regressor an action.
    """

    fitted: tuple[FittedEstimator, ...]

    def __call__(self, features: FloatArray) -> IntArray:
        return np.argmax([predict_numbers(own, features) for own in self.fitted], axis=0)

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        return f"the action with the largest of {len(self.fitted)} predictions, one {name} an action"


@dataclass(frozen=True, eq=False)
class Label:
    """The action that one classifier predicts; a small tree is told line by line.

    fitted: the classifier.
    actions (k,): what its labels stand for.
    """

    fitted: FittedEstimator
    actions: IntArray

    def __call__(self, features: FloatArray) -> IntArray:
        return self.actions[predict_labels(self.fitted, features, below=len(self.actions))]

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        words = None if columns is None else words_of_tree(self.fitted, self.actions, columns)
        return f"the action that one {name} predicts" if words is None else words


@dataclass(frozen=True, eq=False)
class Votes:
    """The action that wins most pairs, the first of equals.

    fitted: a classifier for each pair of actions, in the order of `itertools.combinations`; label 1 is the second.
    n_actions: how many actions there are.
    """

    fitted: tuple[FittedEstimator, ...]
    n_actions: int

    def __call__(self, features: FloatArray) -> IntArray:
        wins = np.zeros((len(features), self.n_actions), dtype=np.int64)
        for (first, second), own in zip(combinations(range(self.n_actions), 2), self.fitted, strict=True):
            labels = predict_labels(own, features, below=2)
            wins[:, first] += 1 - labels
            wins[:, second] += labels
        return np.argmax(wins, axis=1)

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        pairs = len(self.fitted)
        return f"the action that wins most of {pairs} pair{'s' if pairs > 1 else ''}, one {name} a pair of actions"


def by_regression(estimator: Any, task: LearningTask) -> list[Rule]:
    """One regressor an action, fitted twice: to what a context gains, and to what it gains for what is at stake there.

        Σ_i w_i (f_a(x_i) − S_{i,a}/w_i)²,     S the gains less their mean in the row

    For any weights w that the actions share, the best f_a is E[S_a|x]/E[w|x], whose argmax over a is that of E[S_a|x].
    w = counts fits the rows as they were given, and finds a linear score if there is one; w = stakes, the largest gain
    of the row, makes nothing of whether a context comes twice or its scores are twice as large.
    """
    centred = task.gains - task.gains.mean(axis=1, keepdims=True)
    rules: list[Rule] = []
    for weights in (task.counts, task.gains.max(axis=1)):
        targets = centred / weights[:, None]
        targets = targets / np.abs(targets).max()
        even = _mean_one(weights, len(task))
        rules.append(Largest(tuple(fit_weighted(estimator, task.features, column, even) for column in targets.T)))
    return rules


def by_classification(estimator: Any, task: LearningTask) -> list[Rule]:
    """One classifier of actions, from an example for each row and action, weighted by the gain of that action.

    The weight of the examples that a classifier gets right is then the gain of the policy, for any number of actions
    [Abe2004]. Of two actions, the better alone has a weight, which is the difference. Of more, most examples contradict
    each other, and classifiers that are not sure of themselves drown in them: so there is a second fit, to the actions
    above the median of their row alone, weighted by how far they are above it.
    """
    weightings = [task.gains]
    if task.n_actions > 2:
        weightings.append(np.maximum(task.gains - np.median(task.gains, axis=1, keepdims=True), 0.0))
    return [_classifier(estimator, task, weights) for weights in weightings if weights.any()]


def _classifier(estimator: Any, task: LearningTask, weights: FloatArray) -> Rule:
    """One classifier, from an example for each positive weight (m, A)."""
    rows, actions = np.nonzero(weights)
    labels, codes = np.unique(actions, return_inverse=True)
    even = _mean_one(weights[rows, actions], len(task))
    return Label(fit_weighted(estimator, task.features[rows], codes.reshape(-1), even), labels)


def by_pairs(estimator: Any, task: LearningTask) -> list[Rule]:
    """A classifier for each pair of actions, which says the better one, weighted by their difference [Lin2014].

    In every row the votes lose at most the weight of the pairs decided wrongly there. (Take a level between the gain of
    the best action and that of the elected one. If every action above it beat every action below, one above would have
    more wins than the elected one, which is below: so at each level there is a wrong pair on either side of it.)
    """
    fitted: list[FittedEstimator] = []
    for first, second in combinations(range(task.n_actions), 2):
        lead = task.gains[:, second] - task.gains[:, first]
        rows = np.flatnonzero(lead)
        if len(rows) == 0:
            fitted.append(SameForAll(0))
            continue
        labels = (lead[rows] > 0).astype(np.int64)
        fitted.append(fit_weighted(estimator, task.features[rows], labels, _mean_one(np.abs(lead[rows]), len(rows))))
    return [Votes(tuple(fitted), task.n_actions)]


REDUCTIONS: dict[str, Callable[[Any, LearningTask], list[Rule]]] = {
    "regression": by_regression,
    "classification": by_classification,
    "pairs": by_pairs,
}
ESTIMATOR_KINDS = {"regression": "regressor", "classification": "classifier", "pairs": "classifier"}


def _mean_one(weights: FloatArray, rows: int) -> FloatArray:
    """Weights that sum to the number of rows, as an estimator's own regularisation is set against those."""
    return weights * (rows / weights.sum())
