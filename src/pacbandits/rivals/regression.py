"""Reward regression for realizable baselines: predictions and their uncertainty.

Ridge regression `θ̂ = (λI + Σ φφᵀ)⁻¹ Σ φr` on what contexts offer, in this order: joint features φ(c, a) where contexts
carry them; for each action a line in the contexts' features, which are centred, scaled and, where they are labels,
spread out; and where there are no features a mean for every context and action. The width of a prediction is
`√(φᵀ(λI + Σ φφᵀ)⁻¹φ)`, in units of the noise. The last two kinds are many regressions side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray, special
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Policy
from pacbandits.rivals.balance import mean_reward
from pacbandits.rivals.seen import Seen

DEFAULT_RIDGE = 1.0


class Regression(Protocol):
    """A fitted regression."""

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return mean rewards (n, A), not clipped to any range."""
        ...

    def widths(self, contexts: Contexts) -> FloatArray:
        """Return √(φᵀΣ⁻¹φ) as (n, A)."""
        ...

    def radii(self, contexts: Contexts, *, noise: float, delta: float) -> FloatArray:
        """Return the largest error of a prediction in widths (n, A), at all times, except with probability δ.

        `β = R√(2 log(m √(det Σ/λᵈ)/δ)) + √λ` (Abbasi-Yadkori, Pál and Szepesvári 2011, Theorem 2) for each of m
        regressions side by side, where noise is R²-sub-Gaussian, rewards are linear and no parameter is longer than 1.
        """
        ...

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        """Mean rewards (n, A) under one parameter drawn from N(θ̂, scale² Σ⁻¹), the same for all contexts."""
        ...

    def draws(self, contexts: Contexts, rng: np.random.Generator, *, scale: float, count: int) -> FloatArray:
        """Mean rewards (count, n, A) under so many parameters: the same as if drawn one by one.

        In memory actions are far apart, which makes it quick to compare them.
        """
        ...

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        ...

    @property
    def pieces(self) -> int:
        """The number of separate regressions."""
        ...


@dataclass(frozen=True, eq=False)
class ContextCoordinates:
    """The encoding of contexts as rows of numbers: a 1, numeric features centred and scaled, and one column per label.

    numeric: columns of the features that are numbers.
    centres, scales (len(numeric),): of these.
    labelled: columns of those that are labels, and how many each has.
    """

    numeric: IntArray
    centres: FloatArray
    scales: FloatArray
    labelled: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, contexts: Contexts) -> ContextCoordinates:
        """Return the encoding that these contexts suggest."""
        numeric = np.array([i for i, labels in enumerate(contexts.categories) if labels is None], dtype=np.int64)
        labelled = tuple((i, len(labels)) for i, labels in enumerate(contexts.categories) if labels is not None)
        values, weights = contexts.features[:, numeric], contexts.weights
        known = np.isfinite(values)
        filled, mass = np.where(known, values, 0.0), np.maximum(weights @ known, 1e-12)
        centres = (weights @ filled) / mass
        spread = np.sqrt(np.maximum(weights @ np.where(known, (values - centres) ** 2, 0.0), 0.0) / mass)
        return cls(numeric, centres, np.where(spread > 1e-12, spread, 1.0), labelled)

    def __call__(self, contexts: Contexts) -> FloatArray:
        """Return rows (n, d); a missing value counts as the mean."""
        values = (contexts.features[:, self.numeric] - self.centres) / self.scales
        parts = [np.ones((len(contexts), 1)), np.where(np.isfinite(values), values, 0.0)]
        for column, count in self.labelled:
            found = contexts.features[:, column]
            parts.append((found[:, None] == np.arange(count)).astype(np.float64))
        return np.hstack(parts)


@dataclass(frozen=True, eq=False)
class ActionRegressions:
    """A line for every action.

    coordinates: of contexts.
    parameters (A, d): θ̂.
    inverses (A, d, d): Σ⁻¹.
    ridge: λ.
    """

    coordinates: ContextCoordinates
    parameters: FloatArray
    inverses: FloatArray
    ridge: float

    @property
    def dimension(self) -> int:
        return self.parameters.size

    @property
    def pieces(self) -> int:
        return len(self.parameters)

    def predict(self, contexts: Contexts) -> FloatArray:
        return self.coordinates(contexts) @ self.parameters.T

    def widths(self, contexts: Contexts) -> FloatArray:
        rows = self.coordinates(contexts)
        return np.sqrt(np.maximum(np.stack([((rows @ one) * rows).sum(axis=1) for one in self.inverses], axis=1), 0.0))

    def radii(self, contexts: Contexts, *, noise: float, delta: float) -> FloatArray:
        growth = -np.linalg.slogdet(self.inverses)[1] - self.parameters.shape[1] * np.log(self.ridge)
        radius = _radius(growth, noise=noise, delta=delta / self.pieces, ridge=self.ridge)
        return np.broadcast_to(radius, (len(contexts), self.pieces))

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        return self.draws(contexts, rng, scale=scale, count=1)[0]

    def draws(self, contexts: Contexts, rng: np.random.Generator, *, scale: float, count: int) -> FloatArray:
        noise = rng.standard_normal((count, *self.parameters.shape))
        roots = np.linalg.cholesky(self.inverses)
        drawn = self.parameters + scale * (roots @ noise[:, :, :, None])[:, :, :, 0]
        return np.moveaxis(drawn.swapaxes(0, 1) @ self.coordinates(contexts).T, 0, 2)


@dataclass(frozen=True, eq=False)
class Joint:
    """One parameter for joint features φ(c, a).

    parameter (d,): θ̂.
    inverse (d, d): Σ⁻¹.
    n_actions: how many there are.
    ridge: λ.
    """

    parameter: FloatArray
    inverse: FloatArray
    n_actions: int
    ridge: float

    @property
    def dimension(self) -> int:
        return len(self.parameter)

    @property
    def pieces(self) -> int:
        return 1

    def predict(self, contexts: Contexts) -> FloatArray:
        return self._features(contexts) @ self.parameter

    def widths(self, contexts: Contexts) -> FloatArray:
        features = self._features(contexts)
        return np.sqrt(np.maximum(((features @ self.inverse) * features).sum(axis=2), 0.0))

    def radii(self, contexts: Contexts, *, noise: float, delta: float) -> FloatArray:
        growth = -np.linalg.slogdet(self.inverse)[1] - self.dimension * np.log(self.ridge)
        radius = _radius(growth, noise=noise, delta=delta, ridge=self.ridge)
        return np.broadcast_to(radius, (len(contexts), self.n_actions))

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        return self.draws(contexts, rng, scale=scale, count=1)[0]

    def draws(self, contexts: Contexts, rng: np.random.Generator, *, scale: float, count: int) -> FloatArray:
        root = np.linalg.cholesky(self.inverse)
        drawn = self.parameter + scale * (rng.standard_normal((count, self.dimension)) @ root.T)
        return np.moveaxis(drawn @ self._features(contexts).transpose(1, 2, 0), 0, 2)

    def _features(self, contexts: Contexts) -> FloatArray:
        return contexts.require_phi(n_actions=self.n_actions).array


@dataclass(frozen=True, eq=False)
class ContextActionMeans:
    """A mean for every context and action; of contexts that are not known it is 0, with the width that λ gives.

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

    @property
    def pieces(self) -> int:
        return self.means.size

    def predict(self, contexts: Contexts) -> FloatArray:
        where, known = self._find(contexts)
        return np.where(known[:, None], self.means[where], 0.0)

    def widths(self, contexts: Contexts) -> FloatArray:
        where, known = self._find(contexts)
        return 1.0 / np.sqrt(np.where(known[:, None], self.precisions[where], self.ridge))

    def radii(self, contexts: Contexts, *, noise: float, delta: float) -> FloatArray:
        where, known = self._find(contexts)
        growth = np.where(known[:, None], np.log(self.precisions / self.ridge)[where], 0.0)
        return _radius(growth, noise=noise, delta=delta / self.pieces, ridge=self.ridge)

    def draw(self, contexts: Contexts, rng: np.random.Generator, *, scale: float) -> FloatArray:
        return self.draws(contexts, rng, scale=scale, count=1)[0]

    def draws(self, contexts: Contexts, rng: np.random.Generator, *, scale: float, count: int) -> FloatArray:
        noise = rng.standard_normal((count, *self.means.T.shape))
        where, known = self._find(contexts)
        out = (self.means.T + scale * noise / np.sqrt(self.precisions.T))[:, :, where].swapaxes(1, 2)
        if not known.all():
            ids = contexts.require_ids(below=2**62)[~known]
            out[:, ~known] = scale / np.sqrt(self.ridge) * _noise_of(ids, keys=noise[:, 0, 0], n_actions=out.shape[2])
        return out

    def _find(self, contexts: Contexts) -> tuple[IntArray, BoolArray]:
        asked = contexts.require_ids(below=2**62)
        where = np.minimum(np.searchsorted(self.ids, asked), len(self.ids) - 1)
        return where, self.ids[where] == asked


def fit_ridge(seen: Seen, *, coordinates: ContextCoordinates, ridge: float = DEFAULT_RIDGE) -> Regression:
    """Return a ridge regression of the observations; coordinates: of its contexts' features, fixed in advance."""
    contexts = seen.contexts
    if contexts.phi is not None:
        features = contexts.require_phi(n_actions=seen.n_actions).array
        flat = features.reshape(-1, features.shape[2])
        gram = (flat * seen.plays.reshape(-1, 1)).T @ flat + ridge * np.eye(flat.shape[1])
        inverse = _inverted(gram)
        return Joint(inverse @ (flat.T @ seen.sums.reshape(-1)), inverse, seen.n_actions, ridge)
    if not contexts.n_features and contexts.ids is not None:
        order = np.argsort(contexts.ids, kind="stable")
        precisions = (ridge + seen.plays)[order]
        return ContextActionMeans(contexts.ids[order], seen.sums[order] / precisions, precisions, ridge)
    rows = coordinates(contexts)
    grams = np.stack([(rows * weights[:, None]).T @ rows for weights in seen.plays.T])
    inverses = _inverted(grams + ridge * np.eye(rows.shape[1]))
    sums = rows.T @ seen.sums
    return ActionRegressions(coordinates, (inverses @ sums.T[:, :, None])[:, :, 0], inverses, ridge)


def _inverted(gram: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix, or of each of a stack of them, symmetric to the last bit."""
    inverse = np.linalg.inv(gram)
    return (inverse + np.swapaxes(inverse, -1, -2)) / 2.0


def _radius(growth: FloatArray, *, noise: float, delta: float, ridge: float) -> FloatArray:
    """`R√(2 log(√(det Σ/λᵈ)/δ)) + √λ`; growth: log(det Σ/λᵈ), which rounding may leave below 0."""
    return np.sqrt(2.0 * noise * (np.maximum(growth, 0.0) / 2.0 - np.log(delta))) + np.sqrt(ridge)


def _noise_of(ids: IntArray, *, keys: FloatArray, n_actions: int) -> FloatArray:
    """Standard normal numbers (len(keys), len(ids), A) that are a function of the key, the id and the action alone.

    A context that nobody foresaw so draws the same whichever others it comes with. The mixing is splitmix64's.
    """
    cells = ids.astype(np.uint64)[:, None] * np.uint64(n_actions) + np.arange(n_actions, dtype=np.uint64)
    mixed = _mixed(_mixed(keys.view(np.uint64))[:, None, None] + cells * np.uint64(0x9E3779B97F4A7C15))
    return special.ndtri(((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53)


def _mixed(bits: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def best_by_regression(policies: PolicyClass, seen: Seen, *, coordinates: ContextCoordinates) -> tuple[Policy, int]:
    """Return the policy with the largest value by ridge regression shrunk to the mean reward, and the oracle calls.

    Towards 0, as what is played has it, actions that were played rarely look worse than they are: that suits regret,
    and not the choice of a policy. Joint features need not have a constant, without which rewards less their mean are
    not linear even where rewards are: there it shrinks towards 0.
    """
    mean = mean_reward(seen) if seen.contexts.phi is None else 0.0
    centred = replace(seen, sums=seen.sums - mean * seen.plays)
    return best_by_model(policies, seen, mean + fit_ridge(centred, coordinates=coordinates).predict(seen.contexts))


def best_by_model(policies: PolicyClass, seen: Seen, predictions: FloatArray) -> tuple[Policy, int]:
    """Return the policy with the largest value by a model (n, A) of the contexts seen, and the oracle calls, 1.

    Contexts count by their weights ν, or by how often they came where these are not known.
    """
    weights = seen.contexts.weights if seen.contexts.weights.sum() > 0 else seen.counts
    return policies.argmax(seen.contexts, weights[:, None] * predictions), 1
