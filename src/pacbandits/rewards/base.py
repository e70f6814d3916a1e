"""Reward models: predictions of r(c, a) from past rounds, used as control variates for later ones.

A model affects the sample size, never validity: scores are unbiased for any predictions, if the model was fitted on
earlier rounds only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats
from pacbandits.checks import instance
from pacbandits.compiled import kernel, over_cores, plain_if_few
from pacbandits.errors import InputError, plain
from pacbandits.policies.trees.bins import cut
from pacbandits.records import Contexts, Log
from pacbandits.records.log import number_units
from pacbandits.schema import Fields, Json, items, numbers, whole_number


class FittedModel(Protocol):
    """A fitted model."""

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return the predicted mean reward of every action, in [0, 1], as (n, A)."""
        ...


@runtime_checkable
class RewardModel(Protocol):
    """A model that can be fitted to a log."""

    def fit(self, log: Log) -> FittedModel:
        """Return the model fitted to this log."""
        ...

    def to_json(self) -> Json:
        """Serialise the model so that it can be made again, or name a model that must be passed again."""
        ...


def fit_halves(model: RewardModel, log: Log, heads: BoolArray) -> tuple[FittedModel, FittedModel, FittedModel]:
    """Return the model fitted to the rows (n,) marked true, to the others, and to all; both parts must be non-empty.

    A model with its own method `fit_halves(log, heads)` fits all three at little more than the cost of the last.
    """
    if (own := getattr(model, "fit_halves", None)) is not None:
        return own(log, heads)
    return model.fit(log.only(heads)), model.fit(log.only(~heads)), model.fit(log)


class StoredFit(FittedModel, Protocol):
    """A fitted model that a file can hold: an experiment stores it with the design that it weights.

    kind: its name in JSON.
    """

    kind: ClassVar[str]

    def to_json(self) -> Json:
        """Serialise all that predictions depend on."""
        ...

    @classmethod
    def from_json(cls, given: Fields, *, n_actions: int, read: Callable[[object], StoredFit]) -> Self:
        """Make the fitted model that `to_json` described; read: makes its components, if it has any."""
        ...


class StoredModel(RewardModel, Protocol):
    """A reward model that a file can describe.

    kind: its name in JSON.
    """

    kind: ClassVar[str]

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Self:
        """Make the model that `to_json` described; read: makes its component models, if it has any."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same prediction for every context.

    means (A,): one number per action.
    """

    kind: ClassVar[str] = "constant"

    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        return np.tile(self.means, (len(contexts), 1))

    def to_json(self) -> Json:
        return {"kind": self.kind, "means": self.means.tolist()}

    @classmethod
    def from_json(cls, given: Fields, *, n_actions: int, read: Callable[[object], StoredFit]) -> Constant:
        given.check_known(("kind", "means"))
        return cls(table_from_json(given, "means", n_actions))


def table_from_json(given: Fields, name: str, *shape: int | None) -> FloatArray:
    """Read a list of numbers, or of rows of numbers, of this shape; None for any length."""
    found = given.number_rows(name) if len(shape) > 1 else given.numbers(name)
    wide = np.array(found, dtype=np.float64)
    if not len(wide) and len(shape) > 1:
        wide = wide.reshape(0, shape[1] or 0)
    return floats(wide, name=given.name(name), shape=shape).copy()  # kernels are called faster on what may be written


def no_idea(n_actions: int) -> Constant:
    """Return the model before there are data: one half for every action."""
    return Constant(np.full(n_actions, 0.5))


def check_stored(fitted: FittedModel) -> StoredFit:
    """Return a fitted model that a file can hold; raise InputError for any other."""
    if getattr(fitted, "kind", None) is None or not hasattr(fitted, "to_json"):
        raise InputError(f"a reward model of type {type(fitted).__name__} cannot be written to a file")
    return cast(StoredFit, fitted)


def check_model(model: object) -> RewardModel:
    """Return a reward model; raise InputError if this cannot be fitted to a log."""
    return instance(model, RewardModel, name="model", remedy="leave it out for one that suits the contexts")


# Rows of a log on which models are evaluated: deterministic halves and samples.


def scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of numbers without their patterns, deterministic on every machine (splitmix64)."""
    bits = numbers * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)


def coins(n: int) -> BoolArray:
    """Return n pseudo-random bits, the same on every machine, as others must be able to check choices based on them.

    They are the top bits of hashed row numbers, as rows may come in patterns.
    """
    return (scrambled(np.arange(1, n + 1, dtype=np.uint64)) >> np.uint64(63)).astype(np.bool_)


def half_of(log: Log) -> BoolArray:
    """Return a mask (n,) of about half of a log's rows; the rows of a unit are all in or all out."""
    return coins(len(log)) if log.units is None else coins(log.n_units)[number_units(log.units)]


def some_rows(n: int, *, most: int) -> IntArray:
    """Return all of n rows or, if there are more than `most`, a deterministic pseudo-random sample of that size."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.argsort(scrambled(np.arange(1, n + 1, dtype=np.uint64)), kind="stable")[:most])


# Factors of matrices that are positive definite, up to rounding or degenerate features.


Factor = TypeVar("Factor")

_FIRST_SHARE = 1e-15  # of the trace, first added to the diagonal: about the size of rounding
_MAX_TRIES = 20  # each adds ten times as much: the last far more than the matrix itself


def factored(factor: Callable[[FloatArray], Factor], matrix: FloatArray) -> Factor:
    """Return the factor of a matrix (m, m), with as little added to its diagonal as makes it positive definite.

    factor: computes it, or raises LinAlgError. The added diagonal shrinks the fit toward 0.
    """
    added = 0.0
    for _ in range(_MAX_TRIES):
        try:
            return factor(matrix + added * np.eye(len(matrix)) if added else matrix)
        except np.linalg.LinAlgError:
            added = max(10.0 * added, _FIRST_SHARE * float(np.trace(matrix)), np.finfo(np.float64).tiny)
    return factor(matrix + added * np.eye(len(matrix)))


def with_positive_values(matrix: FloatArray) -> FloatArray:
    """Return the symmetric matrix (m, m) with the absolute values of this one's eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.abs(values)) @ vectors.T, dtype=np.float64)


# Features as steps: cut points of the reward models, and shared functions.


# Cut points of a number, and None last if values were missing: those are on a step of their own, the last.
NumberCuts = tuple[float | None, ...]
# For each feature its cut points, or its number of labels.
Cuts = tuple[NumberCuts | int, ...]

PREDICTION_MARGIN = 0.02  # distance of predictions from 0 and 1
MAX_STEPS_OF_ALL_FEATURES = 400
MAX_STEPS_OF_A_FEATURE = 16
MAX_STEPS_OF_LABELS = 128  # labels beyond that share the last step
MIN_STORED_STRENGTH = 1e-9  # observations, in a file; the maximum is one over it


def learn_cuts(contexts: Contexts) -> Cuts:
    """Return cuts at the quantiles of these contexts: up to 15 per feature, fewer when there are many features."""
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
    """Return the number of steps of a feature."""
    return cuts if isinstance(cuts, int) else len(cuts) + 1


def with_labels_of(cuts: Cuts, contexts: Contexts) -> Cuts:
    """Return the cuts with the labels of these contexts: a log may have more than its first round has shown.

    The step of a label without data is empty and has no effect.
    """
    known = [None if labels is None else min(len(labels), MAX_STEPS_OF_LABELS) for labels in contexts.categories]
    if len(known) != len(cuts):
        return cuts
    pairs = zip(cuts, known, strict=True)
    return tuple(now if isinstance(steps, int) and now is not None else steps for steps, now in pairs)


def codes_of(cuts: Cuts, contexts: Contexts) -> IntArray:
    """Return the step (n, d) of each context in each feature; a missing value is on the last."""
    known, edges, starts, labelled, last = _edge_tables(cuts)
    check_features(contexts, known, most=MAX_STEPS_OF_LABELS)
    features = np.ascontiguousarray(contexts.features)
    codes = np.empty((len(contexts), len(cuts)), dtype=np.int64)
    count = plain_if_few(_count_edges, len(contexts))
    over_cores(lambda a, b: count(features, edges, starts, labelled, last, codes, a, b), count=len(contexts))
    return codes


@lru_cache(maxsize=64)  # a server predicts for one person after the other, by few models
def _edge_tables(cuts: Cuts) -> tuple[tuple[int | None, ...], FloatArray, IntArray, BoolArray, IntArray]:
    """Return the number of labels of each feature, and cuts as `_count_edges` takes them."""
    numbers = [() if isinstance(steps, int) else _edges(steps) for steps in cuts]
    return (
        tuple(steps if isinstance(steps, int) else None for steps in cuts),
        np.array([edge for steps in numbers for edge in steps], dtype=np.float64),
        np.cumsum([0, *(len(steps) for steps in numbers)], dtype=np.int64),
        np.array([isinstance(steps, int) for steps in cuts], dtype=np.bool_),
        np.array([steps_of(steps) - 1 for steps in cuts], dtype=np.int64),
    )


def _edges(cuts: NumberCuts) -> tuple[float, ...]:
    return tuple(edge for edge in cuts if edge is not None)


def check_features(contexts: Contexts, known: tuple[int | None, ...], *, most: int | None = None) -> None:
    """Raise unless the contexts have a model's features; known: the number of labels of each, None for a number.

    most: the number of labels that the model distinguishes.
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
    """Write the codes: for a number how many edges lie below it, or the last if missing; for a label its index."""
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
    """Serialise cuts to JSON-compatible values."""
    return [steps if isinstance(steps, int) else list(steps) for steps in cuts]


def cuts_from_json(given: Fields) -> Cuts:
    """Read the cuts that `cuts_to_json` wrote, no more of them than `learn_cuts` makes."""
    name, found = "the cuts of a feature", list[NumberCuts | int]()
    for one in given.items("cuts"):
        if isinstance(one, int):
            found.append(whole_number(one, name=name, least=1))
            continue
        steps = items(one, name=name, most=MAX_STEPS_OF_A_FEATURE)  # numbers, and null last if values were missing
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
    """Read a strength, in observations."""
    return given.number("strength", least=MIN_STORED_STRENGTH, most=1.0 / MIN_STORED_STRENGTH)


def action_means(log: Log) -> FloatArray:
    """Return the mean reward of each action (A,), shrunk a little toward the overall mean."""
    counts = np.bincount(log.actions, weights=log.weights, minlength=log.n_actions)
    totals = np.bincount(log.actions, weights=log.weights * log.rewards, minlength=log.n_actions)
    overall = (totals.sum() + 0.5) / (counts.sum() + 1.0)
    return (totals + 2.0 * overall) / (counts + 2.0)


def inside(values: FloatArray) -> FloatArray:
    """Clip predictions to [0, 1], a margin away from its ends."""
    return np.clip(values, PREDICTION_MARGIN, 1.0 - PREDICTION_MARGIN)


# A reward model for contexts of a finite set: the mean of each context and action.


@dataclass(frozen=True)
class CellMeans:
    """For contexts of a finite set: the mean of each (context, action), shrunk toward the action's mean.

    strength: the weight of the action's mean, in observations.
    """

    kind: ClassVar[str] = "cell-means"

    strength: float = 8.0

    def fit(self, log: Log) -> FittedCells:
        if log.contexts.ids is None:
            raise InputError("a model of cell means needs contexts with ids")
        ids, where = np.unique(log.contexts.ids, return_inverse=True)
        shape = (len(ids), log.n_actions)
        cell = where * log.n_actions + log.actions
        counts = np.bincount(cell, weights=log.weights, minlength=shape[0] * shape[1]).reshape(shape)
        totals = np.bincount(cell, weights=log.weights * log.rewards, minlength=shape[0] * shape[1]).reshape(shape)
        means = action_means(log)
        return FittedCells(ids, inside((totals + self.strength * means) / (counts + self.strength)), inside(means))

    def to_json(self) -> Json:
        return {"kind": self.kind, "strength": self.strength}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> CellMeans:
        given.check_known(("kind", "strength"))
        return cls(strength_from_json(given))


@dataclass(frozen=True, eq=False)
class FittedCells:
    """Fitted cell means.

    ids (k,): of the contexts seen, in order.
    table (k, A): their means.
    means (A,): of each action, for other contexts.
    """

    kind: ClassVar[str] = "cell-means"

    ids: IntArray
    table: FloatArray
    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        known = contexts.require_ids(below=np.iinfo(np.int64).max)
        spot = np.minimum(np.searchsorted(self.ids, known), len(self.ids) - 1)
        return np.where((self.ids[spot] == known)[:, None], self.table[spot], self.means)

    def to_json(self) -> Json:
        cells = {"ids": self.ids.tolist(), "table": self.table.tolist()}
        return {"kind": self.kind, **cells, "means": self.means.tolist()}

    @classmethod
    def from_json(cls, given: Fields, *, n_actions: int, read: Callable[[object], StoredFit]) -> FittedCells:
        given.check_known(("kind", "ids", "table", "means"))
        ids = np.array(given.whole_numbers("ids", shortest=1), dtype=np.int64)
        if (np.diff(ids) <= 0).any():
            raise InputError(f"{given.name('ids')} must rise")
        table = table_from_json(given, "table", len(ids), n_actions)
        return cls(ids, table, table_from_json(given, "means", n_actions))
