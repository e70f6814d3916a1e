"""Rewards by regression, as realizable baselines need them: predictions, and how sure they are.

Ridge regression `θ̂ = (λI + Σ φφᵀ)⁻¹ Σ φr` on what contexts offer, in this order: joint features φ(c, a) where contexts
carry them; for each action a line in the contexts' features, which are centred, scaled and, where they are labels,
spread out; and where there are no features a mean for every context and action. The width of a prediction is
`√(φᵀ(λI + Σ φφᵀ)⁻¹φ)`, in units of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Policy
from pacbandits.rivals.seen import Seen

DEFAULT_RIDGE = 1.0


class Regression(Protocol):
    """What was fitted."""

    def predict(self, contexts: Contexts) -> FloatArray:
        """Mean rewards (n, A), not cut to any range."""
        ...

    def widths(self, contexts: Contexts) -> FloatArray:
        """√(φᵀΣ⁻¹φ) as (n, A)."""
        ...

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        """Mean rewards (n, A) under one parameter drawn from N(θ̂, scale² Σ⁻¹), the same for all contexts."""
        ...

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        ...


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How contexts become rows of numbers: a 1, numeric features centred and scaled, and one column a label.

    numeric: columns of the features that are numbers.
    centres, scales (len(numeric),): of these.
    labelled: columns of those that are labels, and how many each has.
    """

    numeric: IntArray
    centres: FloatArray
    scales: FloatArray
    labelled: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, contexts: Contexts) -> Coordinates:
        """As these contexts suggest."""
        numeric = np.array([i for i, labels in enumerate(contexts.categories) if labels is None], dtype=np.int64)
        labelled = tuple((i, len(labels)) for i, labels in enumerate(contexts.categories) if labels is not None)
        values, weights = contexts.features[:, numeric], contexts.weights
        known = np.isfinite(values)
        filled, mass = np.where(known, values, 0.0), np.maximum(weights @ known, 1e-12)
        centres = (weights @ filled) / mass
        spread = np.sqrt(np.maximum(weights @ np.where(known, (values - centres) ** 2, 0.0), 0.0) / mass)
        return cls(numeric, centres, np.where(spread > 1e-12, spread, 1.0), labelled)

    def __call__(self, contexts: Contexts) -> FloatArray:
        """Rows (n, d); what is missing counts as the mean."""
        values = (contexts.features[:, self.numeric] - self.centres) / self.scales
        parts = [np.ones((len(contexts), 1)), np.where(np.isfinite(values), values, 0.0)]
        for column, count in self.labelled:
            found = contexts.features[:, column]
            parts.append((found[:, None] == np.arange(count)).astype(np.float64))
        return np.hstack(parts)


@dataclass(frozen=True, eq=False)
class PerAction:
    """A line for every action.

    coordinates: of contexts.
    parameters (A, d): θ̂.
    inverses (A, d, d): Σ⁻¹.
    """

    coordinates: Coordinates
    parameters: FloatArray
    inverses: FloatArray

    @property
    def dimension(self) -> int:
        return self.parameters.size

    def predict(self, contexts: Contexts) -> FloatArray:
        return self.coordinates(contexts) @ self.parameters.T

    def widths(self, contexts: Contexts) -> FloatArray:
        rows = self.coordinates(contexts)
        return np.sqrt(np.maximum(np.stack([((rows @ one) * rows).sum(axis=1) for one in self.inverses], axis=1), 0.0))

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        noise = rng.standard_normal(self.parameters.shape)
        roots = np.linalg.cholesky(self.inverses)
        drawn = self.parameters + scale * (roots @ noise[:, :, None])[:, :, 0]
        return self.coordinates(contexts) @ drawn.T


@dataclass(frozen=True, eq=False)
class Joint:
    """One parameter for joint features φ(c, a).

    parameter (d,): θ̂.
    inverse (d, d): Σ⁻¹.
    n_actions: how many there are.
    """

    parameter: FloatArray
    inverse: FloatArray
    n_actions: int

    @property
    def dimension(self) -> int:
        return len(self.parameter)

    def predict(self, contexts: Contexts) -> FloatArray:
        return self._features(contexts) @ self.parameter

    def widths(self, contexts: Contexts) -> FloatArray:
        features = self._features(contexts)
        return np.sqrt(np.maximum(((features @ self.inverse) * features).sum(axis=2), 0.0))

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        root = np.linalg.cholesky(self.inverse)
        return self._features(contexts) @ (self.parameter + scale * (root @ rng.standard_normal(self.dimension)))

    def _features(self, contexts: Contexts) -> FloatArray:
        return contexts.require_phi(n_actions=self.n_actions).array


@dataclass(frozen=True, eq=False)
class Table:
    """A mean for every context and action; those of contexts that never came are 0.

    ids (n,): of the contexts, rising.
    means (n, A): shrunk towards 0 by the ridge.
    precisions (n, A): λ + plays.
    ridge: λ.
    """

    ids: IntArray
    means: FloatArray
    precisions: FloatArray
    ridge: float

    @property
    def dimension(self) -> int:
        return self.means.size

    def predict(self, contexts: Contexts) -> FloatArray:
        where, known = self._find(contexts)
        return np.where(known[:, None], self.means[where], 0.0)

    def widths(self, contexts: Contexts) -> FloatArray:
        where, known = self._find(contexts)
        return 1.0 / np.sqrt(np.where(known[:, None], self.precisions[where], self.ridge))

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        drawn = self.means + scale * rng.standard_normal(self.means.shape) / np.sqrt(self.precisions)
        where, known = self._find(contexts)
        return np.where(known[:, None], drawn[where], 0.0)

    def _find(self, contexts: Contexts) -> tuple[IntArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        asked = contexts.require_ids(below=2**62)
        where = np.minimum(np.searchsorted(self.ids, asked), len(self.ids) - 1)
        return where, self.ids[where] == asked


def fit_ridge(seen: Seen, *, coordinates: Coordinates, ridge: float = DEFAULT_RIDGE) -> Regression:
    """Ridge regression of what was seen; coordinates: of its contexts' features, fixed beforehand."""
    contexts = seen.contexts
    if contexts.phi is not None:
        features = contexts.require_phi(n_actions=seen.n_actions).array
        flat = features.reshape(-1, features.shape[2])
        gram = (flat * seen.plays.reshape(-1, 1)).T @ flat + ridge * np.eye(flat.shape[1])
        inverse = _inverted(gram)
        return Joint(inverse @ (flat.T @ seen.sums.reshape(-1)), inverse, seen.n_actions)
    if not contexts.n_features and contexts.ids is not None:
        order = np.argsort(contexts.ids, kind="stable")
        precisions = (ridge + seen.plays)[order]
        return Table(contexts.ids[order], seen.sums[order] / precisions, precisions, ridge)
    rows = coordinates(contexts)
    inverses = np.stack(
        [_inverted((rows * weights[:, None]).T @ rows + ridge * np.eye(rows.shape[1])) for weights in seen.plays.T]
    )
    sums = rows.T @ seen.sums
    return PerAction(coordinates, (inverses @ sums.T[:, :, None])[:, :, 0], inverses)


def _inverted(gram: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix, symmetric to the last bit."""
    inverse = np.linalg.inv(gram)
    return (inverse + inverse.T) / 2.0


def best_by_model(policies: PolicyClass, seen: Seen, predictions: FloatArray) -> tuple[Policy, int]:
    """The policy of the class that a model (n, A) of the seen contexts likes best, and the one oracle call it took.

    Contexts count by their weights ν, or by how often they came where these are not known.
    """
    weights = seen.contexts.weights if seen.contexts.weights.sum() > 0 else seen.counts
    return policies.argmax(seen.contexts, weights[:, None] * predictions), 1
