"""A problem with linear rewards as its complexity sees it: features, gaps and policies where contexts can occur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats
from pacbandits.complexity.gaps import Truth
from pacbandits.complexity.trivial import require_distinct
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.realizable.coordinates import Coordinates, change_coordinates

# Rewards are linear when least squares misses none by more than this, in the units of the largest (or of 1).
_MAX_RESIDUAL = 1e-9
# Differences of features up to this share of the features are rounding.
ROUNDING_SHARE_OF_DIFFERENCES = 1e-11


@dataclass(frozen=True, eq=False)
class Points:
    """Policies, or single deviations, as points.

    x (K, r): φ_π − φ_{π*}.
    gaps (K,): Δ_π.
    sizes (K,): Σ_c ν_c |x_{c,π(c)}|, what x is made of; it may cancel.
    """

    x: FloatArray
    gaps: FloatArray
    sizes: FloatArray


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem on the n of N contexts that can occur.

    own: coordinates of the features.
    rows (N,): which contexts can occur.
    features (n, A, r): φ, in those coordinates.
    relative (n, A, r): φ(c, a) − φ(c, π*(c)).
    losses (n, A): r(c, π*(c)) − r(c, a).
    parameter (r,): θ*.
    best_actions (N,): π*.
    best_value: V(π*).
    listed: the policies of a listed class.
    every: whether all maps from contexts to actions are policies.
    """

    own: Coordinates
    rows: BoolArray
    features: FloatArray
    relative: FloatArray
    losses: FloatArray
    parameter: FloatArray
    best_actions: IntArray
    best_value: float
    listed: Points | None
    every: bool

    @classmethod
    def of(cls, truth: Truth, features: ArrayLike, policies: PolicyClass | None) -> Instance:
        """For features (N, A, d); policies: a listed class, the trivial one, or None for all linear policies."""
        contexts, rewards = truth.population, truth.mean_rewards
        phi = floats(features, name="features", shape=(*rewards.shape, None))
        own = change_coordinates(phi, contexts.weights)
        parameter = _fit(own, rewards)
        table = _table(truth, policies)
        best = rewards.argmax(axis=1)
        if table is not None:
            best = table[int(np.argmax(sum_scores(table, contexts.weights[:, None] * rewards)))].astype(np.int64)
        value = float(contexts.weights @ rewards[np.arange(len(rewards)), best])
        rows, n = own.rows, len(own.weights)
        moved = phi[rows] @ own.change
        chosen = best[rows]
        relative = np.ascontiguousarray(moved - moved[np.arange(n), chosen][:, None, :])
        largest = np.abs(moved).max(axis=2, initial=0.0)
        relative[np.abs(relative).max(axis=2, initial=0.0) <= ROUNDING_SHARE_OF_DIFFERENCES * largest] = 0.0
        losses = rewards[rows][np.arange(n), chosen][:, None] - rewards[rows]
        listed = None if table is None else _points(table[:, rows], own.weights, relative, losses)
        every = policies is not None and policies.holds_every_map
        return cls(own, rows, moved, relative, losses, parameter, best, value, listed, every)

    def single_deviations(self) -> Points:
        """What deviates from π* in one context alone. Its weight, by which both x and Δ are scaled, is left out."""
        x = self.relative.reshape(self.losses.size, self.own.rank)
        return Points(x, self.losses.reshape(-1), np.abs(x).max(axis=1, initial=0.0))


def _points(actions: np.ndarray[Any, Any], weights: FloatArray, relative: FloatArray, losses: FloatArray) -> Points:
    """Of policies that take these actions (K, n)."""
    table = np.ascontiguousarray(actions)
    rank = relative.shape[2]
    weighted = weights[:, None, None] * relative
    x = np.empty((len(table), rank))
    for j in range(rank):
        x[:, j] = sum_scores(table, np.ascontiguousarray(weighted[:, :, j]))
    gaps = np.maximum(sum_scores(table, weights[:, None] * losses), 0.0)
    sizes = sum_scores(table, weights[:, None] * np.abs(relative).max(axis=2, initial=0.0))
    return Points(x, gaps, sizes)


def _fit(own: Coordinates, rewards: FloatArray) -> FloatArray:
    """θ* in the coordinates `own`, or a sentence. There uniform exploration has the identity for its information."""
    target = rewards[own.rows].reshape(-1)
    mass = np.repeat(own.weights, own.n_actions) / own.n_actions
    parameter = own.points.T @ (mass * target)
    residual = float(np.abs(own.points @ parameter - target).max())
    if residual > _MAX_RESIDUAL * max(1.0, float(np.abs(target).max())):
        raise InputError(
            f"mean rewards are not linear in the features (least squares misses one by {residual:.3g}); "
            "leave out --realizable"
        )
    return parameter


def _table(truth: Truth, policies: PolicyClass | None) -> np.ndarray[Any, Any] | None:
    """The actions (K, N) of a listed class; None for linear policies and for all."""
    if policies is None:
        return None
    contexts, shape = truth.population, truth.mean_rewards.shape
    if policies.n_actions != shape[1]:
        raise InputError(f"the policies have {policies.n_actions} actions, but mean_rewards has {shape[1]} columns")
    if policies.holds_every_map:
        require_distinct(policies, contexts)
        return None
    if not policies.lists_policies:
        raise InputError(
            f"the class {policies.type_name} cannot be listed; the realizable complexity needs a listed class, "
            "the trivial one, or all linear policies"
        )
    return np.asarray(policies.actions(contexts))
