"""A reward model for contexts of a finite set: the mean of each context and action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.records import Contexts, Log
from pacbandits.rewards.base import Json, RewardModel
from pacbandits.rewards.steps import action_means, inside, strength_from_json


@dataclass(frozen=True)
class CellMeans:
    """For contexts of a finite set: the mean of each (context, action), pulled toward the action's mean.

    strength: how many observations the pull is worth.
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

    ids (k,): of the contexts that were seen, in order.
    table (k, A): their means.
    means (A,): of each action, for contexts that were not.
    """

    ids: IntArray
    table: FloatArray
    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        known = contexts.require_ids(below=np.iinfo(np.int64).max)
        spot = np.minimum(np.searchsorted(self.ids, known), len(self.ids) - 1)
        return np.where((self.ids[spot] == known)[:, None], self.table[spot], self.means)
