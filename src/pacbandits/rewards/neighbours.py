"""A reward model for contexts with features: kernel regression on nearby contexts.

For each action the prediction is the action's mean plus g(x), where g minimises

    Σ_i w_i (r_i − mean − g(x_i))² + strength · ‖g‖²,       g(x) = Σ_l α_l k(x, x_l)

with k the similarity of two contexts, ‖·‖ its norm, and x_l, the anchors, the contexts in which the action was played:
kriging, or kernel ridge regression. Of too many anchors a sample is kept, which does not depend on the order of rows
(`anchor_limit`); rows of other contexts still count. No neighbour is either in or out, so that there are no ties, and
other machines get the same result up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray, linalg
from pacbandits.compiled import Kernel, kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards.base import (
    MIN_STORED_STRENGTH,
    RewardModel,
    StoredFit,
    action_means,
    check_features,
    factored,
    half_of,
    inside,
    scrambled,
    table_from_json,
    with_positive_values,
)
from pacbandits.schema import Fields, Json, items, number, numbers, whole_number, whole_numbers

# The similarity of two contexts: 1 if they are equal, falling with the distance of their features.
#
#     k(x, x') = (exp(−s) + exp(−2s²))/2,     s² = the mean over features of the squared distance
#
# in standard deviations; different labels are as far apart as two draws of a number on average, and so is a missing
# number from a present one. The first part falls sharply, which captures repeated contexts; the second is smooth, and
# generalises to new ones.


MAX_STANDARD_SCORE = 8.0  # standard deviations from the mean, to which numbers are clipped
MIN_DEVIATION_SHARE = 1e-12  # of the mean: a standard deviation below that is rounding
SQUARED_DISTANCE_OF_LABELS = 2.0
MAX_EXPONENT = 64.0  # exp(−64) is negligible


@dataclass(frozen=True, eq=False)
class Space:
    """The feature space of contexts.

    labels (d,): the number of labels of a feature, None for a number.
    centre, scale (d,): the mean and standard deviation of each number; a scale of 0 for one that is ignored.
    """

    labels: tuple[int | None, ...]
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def learn(cls, log: Log) -> Space:
        """Return the space of a log's contexts."""
        labels = tuple(None if one is None else len(one) for one in log.contexts.categories)
        features, weights = log.contexts.features, log.weights / log.weights.sum()
        with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest double have no finite deviation
            if np.isnan(features).any():
                centre, scale = _moments_of_present(features, weights)
            else:
                centre = weights @ features
                scale = np.sqrt(weights @ (features - centre) ** 2)
            counts = np.isfinite(scale) & (scale > MIN_DEVIATION_SHARE * np.abs(centre))
        return cls(labels, np.where(counts, centre, 0.0), np.where(counts, scale, 0.0))

    def points(self, contexts: Contexts) -> FloatArray:
        """Return standard scores (n, d) of numbers, NaN for missing ones, and labels unchanged."""
        check_features(contexts, self.labels)
        with np.errstate(over="ignore"):
            scores = (contexts.features - self.centre) / np.where(self.scale > 0, self.scale, np.inf)
        scores = np.clip(scores, -MAX_STANDARD_SCORE, MAX_STANDARD_SCORE)
        return np.where(self._labelled(), contexts.features, scores)

    def likeness(self, points: FloatArray, others: FloatArray) -> FloatArray:
        """Return k (n, m) of points (n, d) and others (m, d)."""
        out = np.empty((len(points), len(others)))
        across, labelled = np.ascontiguousarray(others.T), self._labelled()
        patchy = np.logical_or(np.isnan(points).any(axis=0), np.isnan(others).any(axis=0))
        if cast(Kernel, _liken).is_quicker_plain(len(points)):
            for point, row in zip(points, out, strict=True):
                _liken_one(point, across, labelled, row)
            return out
        over_cores(lambda a, b: _liken(points, across, labelled, patchy, out, a, b), count=len(points))
        return out

    def _labelled(self) -> BoolArray:
        """Return a mask (d,) of the features with labels."""
        return np.array([one is not None for one in self.labels], dtype=np.bool_)


def _moments_of_present(features: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and standard deviation (d,) of the present numbers (n, d); 0 where there are none."""
    there = ~np.isnan(features)
    shares = there * weights[:, None]
    shares /= np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
    values = np.where(there, features, 0.0)
    centre = (shares * values).sum(axis=0)
    return centre, np.sqrt((shares * (values - centre) ** 2).sum(axis=0))


@kernel
def _decay(x: float) -> float:
    """Return exp(−x) for 0 ≤ x ≤ MAX_EXPONENT, to 3e-14, by sums and products alone, which the compiler vectorises.

    exp(−x) = exp(−x/256)²⁵⁶. The polynomial's error is at most (x/256)⁸/8!, and matters only where x is small.
    """
    t = x * (-1.0 / 256.0)
    power = 1.0 + t * (1.0 + t * (1 / 2 + t * (1 / 6 + t * (1 / 24 + t * (1 / 120 + t * (1 / 720 + t / 5040))))))
    for _ in range(8):
        power *= power
    return power


@kernel
def _liken(
    points: FloatArray,
    across: FloatArray,
    labelled: BoolArray,
    patchy: BoolArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Write k of the points from start to stop; across (d, m): the others, so that the inner loops are long.

    patchy (d,): the features with missing values.
    """
    size, count = across.shape
    share = 1.0 / size
    for i in range(start, stop):
        row = out[i]
        row[:] = 0.0
        for j in range(size):
            value, others = points[i, j], across[j]
            if labelled[j]:
                for k in range(count):
                    row[k] += SQUARED_DISTANCE_OF_LABELS * (value != others[k])
            elif patchy[j]:
                for k in range(count):
                    if math.isnan(value) or math.isnan(others[k]):
                        row[k] += SQUARED_DISTANCE_OF_LABELS * (math.isnan(value) != math.isnan(others[k]))
                    else:
                        row[k] += (value - others[k]) * (value - others[k])
            else:
                for k in range(count):
                    row[k] += (value - others[k]) * (value - others[k])
        for k in range(count):
            square = row[k] * share
            row[k] = 0.5 * _decay(math.sqrt(square)) + 0.5 * _decay(min(2.0 * square, MAX_EXPONENT))


def _liken_one(point: FloatArray, across: FloatArray, labelled: BoolArray, row: FloatArray) -> None:
    """Write k of one point, with the operations of `_liken` in their order but without machine code."""
    row[:] = 0.0
    for value, others, by_label in zip(point.tolist(), across, labelled.tolist(), strict=True):
        if by_label:
            row += SQUARED_DISTANCE_OF_LABELS * (value != others)
        elif math.isnan(value):
            row += SQUARED_DISTANCE_OF_LABELS * ~np.isnan(others)
        else:
            apart = (value - others) * (value - others)
            row += np.where(np.isnan(others), SQUARED_DISTANCE_OF_LABELS, apart)
    row *= 1.0 / len(across)
    sharp, smooth = (_decay_plain(x) for x in (np.sqrt(row), np.minimum(2.0 * row, MAX_EXPONENT)))
    row[:] = 0.5 * sharp + 0.5 * smooth


def _decay_plain(x: FloatArray) -> FloatArray:
    """Return `_decay` of each entry."""
    return cast(FloatArray, cast(Any, _decay).py_func(x))


# The rows of each action around its anchors, and the sums from which predictions are made.


BOTH_HALVES = (0, 1)
ANCHOR_NOISE = 1e-6  # added to a similarity of 1, for anchors that differ by rounding alone
GRAM_NOISE = 1e-12  # added to a matrix of sums, as a share of its trace, for the same reason


@dataclass(frozen=True, eq=False)
class FittedNeighbours:
    """A fitted kernel regression for each action.

    space: the feature space.
    means (A,): of each action.
    anchors (m, d): the points of the anchors.
    coefficients (m, A): the contribution of each anchor to an action, per unit of similarity to the context.
    """

    kind: ClassVar[str] = "neighbours"

    space: Space
    means: FloatArray
    anchors: FloatArray
    coefficients: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        alike = self.space.likeness(self.space.points(contexts), self.anchors)
        out = np.tile(self.means, (len(contexts), 1))
        if cast(Kernel, _add_anchors).is_quicker_plain(len(out)):
            for near, row in zip(alike, out, strict=True):  # one anchor after the other, as the kernel adds them
                row[:] = np.add.accumulate(np.vstack([row, near[:, None] * self.coefficients]))[-1]
            return inside(out)
        over_cores(lambda a, b: _add_anchors(alike, self.coefficients, out, a, b), count=len(contexts))
        return inside(out)

    def to_json(self) -> Json:
        """Serialise the anchors, with null for a missing number, and of the coefficients those that are not 0."""
        labels, means = list(self.space.labels), self.means.tolist()
        space = {"labels": labels, "centre": self.space.centre.tolist(), "scale": self.space.scale.tolist()}
        anchors = [[None if math.isnan(one) else one for one in row] for row in self.anchors.tolist()]
        used = [np.flatnonzero(column) for column in self.coefficients.T]
        values = [column[rows].tolist() for column, rows in zip(self.coefficients.T, used, strict=True)]
        of_actions = {"rows": [rows.tolist() for rows in used], "coefficients": values}
        return {"kind": self.kind, **space, "means": means, "anchors": anchors, **of_actions}

    @classmethod
    def from_json(cls, given: Fields, *, n_actions: int, read: Callable[[object], StoredFit]) -> FittedNeighbours:
        given.check_known(("kind", "labels", "centre", "scale", "means", "anchors", "rows", "coefficients"))
        labels = tuple(
            None if one is None else whole_number(one, name=given.name("labels"), least=1)
            for one in given.items("labels", least=1)
        )
        d = len(labels)
        centre, scale = (table_from_json(given, name, d) for name in ("centre", "scale"))
        rows = [items(row, name="an anchor", least=d, most=d) for row in given.items("anchors")]
        anchors = np.array([[math.nan if x is None else number(x, name="an anchor") for x in row] for row in rows])
        coefficients = np.zeros((len(rows), n_actions))
        used, values = (given.items(name, least=n_actions, most=n_actions) for name in ("rows", "coefficients"))
        for action, (which, some) in enumerate(zip(used, values, strict=True)):
            places = whole_numbers(which, name=given.name("rows"), most=max(len(rows) - 1, 0))
            found = numbers(some, name=given.name("coefficients"), shortest=len(places), longest=len(places))
            coefficients[list(places), action] = found
        space = Space(labels, centre, scale)
        return cls(space, table_from_json(given, "means", n_actions), anchors.reshape(-1, d), coefficients)


@kernel
def _add_anchors(alike: FloatArray, coefficients: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    """Add to out (n, A) the contributions of anchors, one after the other; for contexts from start to stop.

    A library's matrix product may have another last bit for a context, depending on the others.
    """
    count, quads = len(coefficients), len(coefficients) // 4 * 4
    for i in range(start, stop):
        row, near = out[i], alike[i]
        for k in range(0, quads, 4):
            one, two, three, four = near[k], near[k + 1], near[k + 2], near[k + 3]
            for a in range(len(row)):
                so_far = row[a] + one * coefficients[k, a] + two * coefficients[k + 1, a]
                row[a] = so_far + three * coefficients[k + 2, a] + four * coefficients[k + 3, a]
        for k in range(quads, count):
            for a in range(len(row)):
                row[a] += near[k] * coefficients[k, a]


@dataclass(frozen=True, eq=False)
class Half:
    """One half of the rows of an action.

    alike (n, m): each row's similarity to the anchors.
    weights, residuals (n,): the weights of the rows, and their rewards less the action's mean.
    """

    alike: FloatArray
    weights: FloatArray
    residuals: FloatArray

    @cached_property
    def gram(self) -> FloatArray:
        """Σ w k kᵀ (m, m)."""
        scaled = np.sqrt(self.weights)[:, None] * self.alike
        return scaled.T @ scaled

    @property
    def pull(self) -> FloatArray:
        """Σ w (r − mean) k (m,)."""
        return (self.weights * self.residuals) @ self.alike

    def error(self, coefficients: FloatArray) -> float:
        """Return the squared error of predictions from these coefficients (m,)."""
        return float(self.weights @ (self.residuals - self.alike @ coefficients) ** 2)


@dataclass(frozen=True, eq=False)
class ActionAnchors:
    """The rows of one action, and its anchors.

    action: its index.
    anchors (m,): the indices of the anchor contexts.
    among (m, m): their similarities.
    halves: its rows.
    """

    action: int
    anchors: IntArray
    among: FloatArray
    halves: tuple[Half, Half]

    def coefficients(self, halves: tuple[int, ...], strength: float) -> FloatArray:
        """Return the α (m,) that minimises Σ w (r − mean − Σ_l α_l k_l)² + strength · αᵀ among α over these halves."""
        gram = np.sum([self.halves[half].gram for half in halves], axis=0)
        pull = np.sum([self.halves[half].pull for half in halves], axis=0)
        noise = ANCHOR_NOISE * strength + GRAM_NOISE * np.trace(gram)
        matrix = gram + strength * self.among
        matrix.flat[:: len(matrix) + 1] += noise
        try:
            factor = _factor(matrix)
        except np.linalg.LinAlgError:
            matrix = gram + strength * self.penalty
            matrix.flat[:: len(matrix) + 1] += noise
            factor = factored(_factor, matrix)
        return linalg.cho_solve(factor, pull, check_finite=False)

    @cached_property
    def penalty(self) -> FloatArray:
        """The replacement of `among` (m, m) if that is not positive definite.

        A missing number has the same distance to all others, which may be far apart: no metric space has such a point.
        """
        return with_positive_values(self.among)


def _factor(matrix: FloatArray) -> Any:
    return linalg.cho_factor(matrix, check_finite=False)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The rows and anchors of all actions.

    space: the feature space.
    means (A,): of each action.
    points (l, d): of the distinct contexts.
    seen: for each action that was played.
    strength: the weight of the action's mean, in observations.
    complete: whether every context is an anchor of the actions that were played in it.
    """

    space: Space
    means: FloatArray
    points: FloatArray
    seen: tuple[ActionAnchors, ...]
    strength: float
    complete: bool

    @classmethod
    def of(cls, log: Log, heads: BoolArray, *, most: int, strength: float) -> Surroundings:
        """Return them with at most this many anchors per action; heads (n,): the rows of the first half."""
        first, which = _distinct(log.contexts.features)
        space, means = Space.learn(log), action_means(log)
        at = space.points(log.contexts)
        points, complete = at[first], True
        seen: list[ActionAnchors] = []
        for action in np.unique(log.actions):
            rows = np.flatnonzero(log.actions == action)
            there = np.unique(which[rows])
            anchors, complete = there[:most], complete and len(there) <= most
            alike = space.likeness(at[rows], points[anchors])
            weights, residuals = log.weights[rows], log.rewards[rows] - means[action]
            one, two = (Half(alike[h], weights[h], residuals[h]) for h in (heads[rows], ~heads[rows]))
            among = space.likeness(points[anchors], points[anchors])
            seen.append(ActionAnchors(int(action), anchors, among, (one, two)))
        return cls(space, means, points, tuple(seen), strength, complete)

    def fitted(self, halves: tuple[int, ...]) -> FittedNeighbours:
        """Return the model fitted to these halves of the rows."""
        used = np.unique(np.concatenate([one.anchors for one in self.seen]))
        coefficients = np.zeros((len(used), len(self.means)))
        for one in self.seen:
            coefficients[np.searchsorted(used, one.anchors), one.action] = one.coefficients(halves, self.strength)
        return FittedNeighbours(self.space, self.means, self.points[used], coefficients)

    def best_strength(self, strengths: tuple[float, ...]) -> tuple[float, float]:
        """Return the strength with which the first half best predicts the second, and its squared error."""
        errors = [sum(one.halves[1].error(one.coefficients((0,), s)) for one in self.seen) for s in strengths]
        best = int(np.argmin(errors))
        return strengths[best], errors[best]

    def error_of_means(self) -> float:
        """Return the squared error of the actions' means in the second half."""
        return sum(float(one.halves[1].weights @ one.halves[1].residuals ** 2) for one in self.seen)


def _distinct(features: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct context, in hash order (l,), and the number of each row's context (n,)."""
    bits = np.ascontiguousarray(features + 0.0).view(np.uint64)  # turns −0 into 0
    mixed = np.zeros(len(bits), dtype=np.uint64)
    for j in range(bits.shape[1]):
        mixed = scrambled(mixed ^ bits[:, j])
        mixed ^= mixed >> np.uint64(31)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


DEFAULT_STRENGTHS = (20.0, 2.0, 0.2, 0.02)
MAX_STORED_STRENGTHS = 8
MIN_ANCHORS = 50  # of each action, if it was played in that many contexts
FEW_ANCHORS = 100  # of each action, enough to see whether neighbours are predictive
MIN_EXPLAINED_SHARE = 0.1  # of the variance of rewards around their means: with less, few anchors suffice
MAX_SUMMED_PRODUCTS = 2.5e9  # rows × anchors²
MAX_SOLVED_PRODUCTS = 6e8  # actions × anchors³


@dataclass(frozen=True)
class Neighbours:
    """For contexts with features: each action's mean, corrected by nearby observations.

    strengths: the weight of the action's mean, in observations; of several the one with which the first half of the
        rows best predicts the second, at a tie the first.
    """

    kind: ClassVar[str] = "neighbours"

    strengths: tuple[float, ...] = DEFAULT_STRENGTHS

    def fit(self, log: Log) -> FittedNeighbours:
        return self._look(log, half_of(log)).fitted(BOTH_HALVES)

    def fit_halves(self, log: Log, heads: BoolArray) -> tuple[FittedNeighbours, FittedNeighbours, FittedNeighbours]:
        """Return the models fitted to each half of the rows and to all, with the same anchors and strength."""
        seen = self._look(log, heads)
        return seen.fitted((0,)), seen.fitted((1,)), seen.fitted(BOTH_HALVES)

    def to_json(self) -> Json:
        return {"kind": self.kind, "strengths": list(self.strengths)}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Neighbours:
        given.check_known(("kind", "strengths"))
        strengths = given.numbers("strengths", shortest=1, longest=MAX_STORED_STRENGTHS, least=MIN_STORED_STRENGTH)
        if max(strengths) > 1.0 / MIN_STORED_STRENGTH:
            raise InputError(f"{given.name('strengths')} must be at most {1.0 / MIN_STORED_STRENGTH:g}")
        return cls(strengths)

    def _look(self, log: Log, heads: BoolArray) -> Surroundings:
        """Return the neighbourhoods of all actions, with the best of the strengths."""
        limit = anchor_limit(len(log), n_actions=log.n_actions)
        if len(self.strengths) == 1:
            return Surroundings.of(log, heads, most=limit, strength=self.strengths[0])
        few = Surroundings.of(log, heads, most=min(FEW_ANCHORS, limit), strength=self.strengths[0])
        chosen, error = few.best_strength(self.strengths)
        if few.complete or error > (1.0 - MIN_EXPLAINED_SHARE) * few.error_of_means():
            return replace(few, strength=chosen)
        many = Surroundings.of(log, heads, most=limit, strength=chosen)
        return replace(many, strength=many.best_strength(self.strengths)[0])


def anchor_limit(rows: int, *, n_actions: int) -> int:
    """Return the largest number of anchors of an action that takes a fraction of a second.

    They are the first contexts in hash order, which is as good as random and changes little from round to round.
    """
    limit = min((MAX_SUMMED_PRODUCTS / rows) ** (1 / 2), (MAX_SOLVED_PRODUCTS / n_actions) ** (1 / 3))
    return max(int(limit), MIN_ANCHORS)
