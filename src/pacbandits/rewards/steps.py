"""Features as steps: where the reward models cut them, and what they share."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields, items, numbers, whole_number
from pacbandits.policies.trees.bins import cut
from pacbandits.records import Contexts, Log

# Where a number is cut, and None after that where some were missing: those are on a step of their own, the last.
NumberCuts = tuple[float | None, ...]
# For each feature where it is cut, or how many labels it has.
Cuts = tuple[NumberCuts | int, ...]

PREDICTION_MARGIN = 0.02  # predictions stay this far inside [0, 1]
MAX_STEPS_OF_ALL_FEATURES = 400
MAX_STEPS_OF_A_FEATURE = 16
MAX_STEPS_OF_LABELS = 128  # of a feature with more, the last ones share a step
MIN_STORED_STRENGTH = 1e-9  # observations, in a file; and at most one over it


def learn_cuts(contexts: Contexts) -> Cuts:
    """Cuts at the quantiles of these contexts: up to 15 a feature, fewer when there are many features."""
    bins = int(np.clip(MAX_STEPS_OF_ALL_FEATURES // max(contexts.n_features, 1), 2, MAX_STEPS_OF_A_FEATURE))
    found: list[NumberCuts | int] = []
    for values, labels in zip(contexts.features.T, contexts.categories, strict=True):
        if labels is not None:
            found.append(len(labels))
        else:
            edges = cut(values, contexts.weights, bins=bins)
            found.append((*edges, None) if np.isnan(values).any() else edges)
    return tuple(found)


def steps_of(cuts: NumberCuts | int) -> int:
    """How many steps a feature has."""
    return cuts if isinstance(cuts, int) else len(cuts) + 1


def with_labels_of(cuts: Cuts, contexts: Contexts) -> Cuts:
    """The cuts, where labels are those of these contexts: a log may come to more than its first round has shown.

    A label that nothing is known of has a step on which nobody stands, and plays no part.
    """
    known = [None if labels is None else min(len(labels), MAX_STEPS_OF_LABELS) for labels in contexts.categories]
    if len(known) != len(cuts):
        return cuts
    pairs = zip(cuts, known, strict=True)
    return tuple(now if isinstance(steps, int) and now is not None else steps for steps, now in pairs)


def codes_of(cuts: Cuts, contexts: Contexts) -> IntArray:
    """Which step (n, d) of each feature a context is on; where it is missing, on the last."""
    known = tuple(steps if isinstance(steps, int) else None for steps in cuts)
    check_features(contexts, known, most=MAX_STEPS_OF_LABELS)
    numbers = [() if isinstance(steps, int) else _edges(steps) for steps in cuts]
    edges = np.array([edge for steps in numbers for edge in steps], dtype=np.float64)
    starts = np.cumsum([0, *(len(steps) for steps in numbers)], dtype=np.int64)
    labelled = np.array([isinstance(steps, int) for steps in cuts], dtype=np.bool_)
    last = np.array([steps_of(steps) - 1 for steps in cuts], dtype=np.int64)
    features = np.ascontiguousarray(contexts.features)
    codes = np.empty((len(contexts), len(cuts)), dtype=np.int64)
    over_cores(lambda a, b: _count_edges(features, edges, starts, labelled, last, codes, a, b), count=len(contexts))
    return codes


def _edges(cuts: NumberCuts) -> tuple[float, ...]:
    return tuple(edge for edge in cuts if edge is not None)


def check_features(contexts: Contexts, known: tuple[int | None, ...], *, most: int | None = None) -> None:
    """Raise unless the contexts have the features of a model: how many labels each has, None for a number.

    most: labels beyond which the model tells no more apart.
    """
    if len(known) != contexts.n_features:
        raise InputError(f"the model is of {len(known)} features, but the contexts have {contexts.n_features}")
    for name, expected, labels in zip(contexts.names, known, contexts.categories, strict=True):
        if expected != (None if labels is None else min(len(labels), most or len(labels))):
            raise InputError(f"feature '{plain(name)}' has other labels than those the model was made for")


@kernel
def _count_edges(
    features: FloatArray,
    edges: FloatArray,
    starts: IntArray,
    labelled: BoolArray,
    last: IntArray,
    codes: IntArray,
    start: int,
    stop: int,
) -> None:
    """A number's code is how many edges lie below it, or the last if it is missing; a label's is itself."""
    for i in range(start, stop):
        for j in range(features.shape[1]):
            value = features[i, j]
            if labelled[j]:
                codes[i, j] = min(int(value), last[j])
            else:
                code = 0
                for e in range(starts[j], starts[j + 1]):
                    code += edges[e] < value
                codes[i, j] = code if value == value else last[j]


def cuts_to_json(cuts: Cuts) -> list[Any]:
    """Cuts as what JSON knows."""
    return [steps if isinstance(steps, int) else list(steps) for steps in cuts]


def cuts_from_json(given: Fields) -> Cuts:
    """The cuts that `cuts_to_json` wrote, no more of them than `learn_cuts` makes."""
    name, found = "the cuts of a feature", list[NumberCuts | int]()
    for one in given.items("cuts"):
        if isinstance(one, int):
            found.append(whole_number(one, name=name, least=1))
            continue
        steps = items(one, name=name, most=MAX_STEPS_OF_A_FEATURE)  # numbers, and null last where some were missing
        missing = bool(steps) and steps[-1] is None
        rising = numbers(steps[:-1] if missing else steps, name=name, longest=MAX_STEPS_OF_A_FEATURE - 1)
        found.append((*rising, None) if missing else rising)
    cuts = tuple(found)
    edges = [_edges(steps) for steps in cuts if not isinstance(steps, int)]
    if any(later <= earlier for rising in edges for earlier, later in pairwise(rising)):
        raise InputError("the cuts of a reward model must rise")
    made = sum(len(rising) for rising in edges)
    if made > max(MAX_STEPS_OF_ALL_FEATURES, len(cuts)):
        raise InputError(f"{made:,} cuts of {len(cuts):,} features are more than a reward model makes")
    return cuts


def strength_from_json(given: Fields) -> float:
    """How many observations a pull is worth."""
    return given.number("strength", least=MIN_STORED_STRENGTH, most=1.0 / MIN_STORED_STRENGTH)


def action_means(log: Log) -> FloatArray:
    """The mean reward of each action (A,), pulled a little toward the mean of all."""
    counts = np.bincount(log.actions, weights=log.weights, minlength=log.n_actions)
    totals = np.bincount(log.actions, weights=log.weights * log.rewards, minlength=log.n_actions)
    overall = (totals.sum() + 0.5) / (counts.sum() + 1.0)
    return (totals + 2.0 * overall) / (counts + 2.0)


def inside(values: FloatArray) -> FloatArray:
    """Predictions in [0, 1], a little away from its ends."""
    return np.clip(values, PREDICTION_MARGIN, 1.0 - PREDICTION_MARGIN)
