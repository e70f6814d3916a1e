"""A log sorted by context and action, so that a policy's share of it is found without a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, check_shape
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of a log in the order of their cell (c, a).

    contexts: the m distinct contexts.
    n_actions: A.
    starts (m·A + 1,): rows starts[c·A + a] to starts[c·A + a + 1] belong to (c, a).
    rewards (n,): of the rows.
    propensities (n,): of the actions played.
    repeats (n,): how many interactions each row stands for.
    """

    contexts: Contexts
    n_actions: int
    starts: IntArray
    rewards: FloatArray
    propensities: FloatArray
    repeats: FloatArray

    @property
    def samples(self) -> int:
        """How many interactions there were."""
        return int(self.repeats.sum())

    def check_actions(self, actions: np.ndarray[Any, Any], *, name: str, shape: tuple[int | None, ...]) -> None:
        """Raise unless these are actions of the cells: kernels look them up in `starts` without a further check."""
        if actions.dtype.kind not in "iu":
            raise InputError(f"{name} must be integers, got {actions.dtype}")
        check_shape(actions, name=name, shape=shape)
        if actions.size and (actions.min() < 0 or actions.max() >= self.n_actions):
            bad = actions.min() if actions.min() < 0 else actions.max()
            raise InputError(f"{name} must be between 0 and {self.n_actions - 1}, as in the log; got {bad}")

    @classmethod
    def of(cls, log: Log) -> Cells:
        """Sort a log; contexts are told apart by id, or by features where there are no ids."""
        first, which = log.contexts.distinct()
        cell = which * log.n_actions + log.actions
        order = np.argsort(cell, kind="stable")
        sizes = np.bincount(cell, minlength=len(first) * log.n_actions)
        return cls(
            contexts=log.contexts.take(first),
            n_actions=log.n_actions,
            starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            rewards=log.rewards[order],
            propensities=log.propensities[order, log.actions[order]],
            repeats=log.repeats[order].astype(np.float64),
        )
