"""What was seen of each action about some contexts, the anchors, and the sums that make predictions of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.records import Contexts, Log
from pacbandits.rewards.definite import factored, with_positive_values
from pacbandits.rewards.halves import scrambled
from pacbandits.rewards.likeness import Space
from pacbandits.rewards.steps import action_means, inside

linalg: Any = scipy.linalg  # it ships no complete types

BOTH_HALVES = (0, 1)
ANCHOR_NOISE = 1e-6  # added to a likeness of 1, for anchors that rounding alone tells apart
GRAM_NOISE = 1e-12  # added to a matrix of sums, as a share of its trace, for the same reason


@dataclass(frozen=True, eq=False)
class FittedNeighbours:
    """What was learnt of each action at the contexts that were seen.

    space: where contexts lie.
    means (A,): of each action.
    anchors (m, d): where the contexts lie that were seen.
    coefficients (m, A): what each adds to an action, times its likeness to the context that is asked for.
    """

    space: Space
    means: FloatArray
    anchors: FloatArray
    coefficients: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        alike = self.space.likeness(self.space.points(contexts), self.anchors)
        out = np.tile(self.means, (len(contexts), 1))
        over_cores(lambda a, b: _add_anchors(alike, self.coefficients, out, a, b), count=len(contexts))
        return inside(out)


@kernel
def _add_anchors(alike: FloatArray, coefficients: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    """Add to out (n, A) what anchors add, one after the other; for contexts from start to stop.

    A library's product of matrices may have another last bit for a context that is asked for among others.
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

    alike (n, m): each row's likeness to the anchors.
    weights, residuals (n,): how often the rows occurred, and what they earned above the action's mean.
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
        """The squared error of predictions from these coefficients (m,)."""
        return float(self.weights @ (self.residuals - self.alike @ coefficients) ** 2)


@dataclass(frozen=True, eq=False)
class ActionAnchors:
    """What was seen of one action.

    action: which.
    anchors (m,): the contexts its predictions are anchored at.
    among (m, m): their likeness to each other.
    halves: its rows.
    """

    action: int
    anchors: IntArray
    among: FloatArray
    halves: tuple[Half, Half]

    def coefficients(self, halves: tuple[int, ...], strength: float) -> FloatArray:
        """The α (m,) that minimises Σ w (r − mean − Σ_l α_l k_l)² + strength · αᵀ among α over these halves."""
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
        """What takes the place of `among` (m, m) where that has no norm.

        A number that is missing is as near to all others, which may lie far apart: no space has such a point.
        """
        return with_positive_values(self.among)


def _factor(matrix: FloatArray) -> Any:
    return linalg.cho_factor(matrix, check_finite=False)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What was seen of all actions.

    space: where contexts lie.
    means (A,): of each action.
    points (l, d): where the distinct contexts lie.
    seen: of each action that was played.
    strength: how many observations the pull toward the means is worth.
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
        """With so many anchors an action at most; heads (n,): which rows are the first half."""
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
        """The predictions by these halves of the rows."""
        used = np.unique(np.concatenate([one.anchors for one in self.seen]))
        coefficients = np.zeros((len(used), len(self.means)))
        for one in self.seen:
            coefficients[np.searchsorted(used, one.anchors), one.action] = one.coefficients(halves, self.strength)
        return FittedNeighbours(self.space, self.means, self.points[used], coefficients)

    def best_strength(self, strengths: tuple[float, ...]) -> tuple[float, float]:
        """The one with which the first half foretells the second best, of equals the first; and its squared error."""
        errors = [sum(one.halves[1].error(one.coefficients((0,), s)) for one in self.seen) for s in strengths]
        best = int(np.argmin(errors))
        return strengths[best], errors[best]

    def error_of_means(self) -> float:
        """The squared error of the actions' means in the second half."""
        return sum(float(one.halves[1].weights @ one.halves[1].residuals ** 2) for one in self.seen)


def _distinct(features: FloatArray) -> tuple[IntArray, IntArray]:
    """The first row of each context there is, in the order of scrambled features (l,); and which each row is (n,)."""
    bits = np.ascontiguousarray(features + 0.0).view(np.uint64)  # where −0 is 0
    mixed = np.zeros(len(bits), dtype=np.uint64)
    for j in range(bits.shape[1]):
        mixed = scrambled(mixed ^ bits[:, j])
        mixed ^= mixed >> np.uint64(31)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    return first, which.reshape(-1)
