"""φ as the contexts carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import settle, whole_number
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.policies.base import check_n_actions
from pacbandits.policies.decisions import Inputs
from pacbandits.policies.features.maps import MAX_STORED_DIMENSION
from pacbandits.policies.features.rows import SpelledRows, for_kernels
from pacbandits.policies.features.words import largest_in_words
from pacbandits.records import Contexts, Phi, check_contexts


@dataclass(frozen=True, eq=False)
class Given:
    """φ as the contexts carry it.

    n_actions: how many actions it must have.
    dimension: how many features.
    """

    n_actions: int
    dimension: int

    kind = "given"

    def __post_init__(self) -> None:
        settle(self, n_actions=check_n_actions(self.n_actions))
        settle(self, dimension=whole_number(self.dimension, name="dimension", least=1))

    @classmethod
    def learn(cls, contexts: Contexts, *, n_actions: int) -> Given:
        """For contexts with φ like these."""
        phi = check_contexts(contexts).require_phi(n_actions=check_n_actions(n_actions))
        if not phi.table[phi.rows].any():
            raise InputError("phi is zero everywhere, so nothing depends on the action; give other features")
        return cls(n_actions, phi.dimension)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"φ{j}" for j in range(self.dimension))

    def on(self, contexts: Contexts) -> SpelledRows:
        return SpelledRows(self(contexts))

    def __call__(self, contexts: Contexts) -> FloatArray:
        return self._phi(contexts).array

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        phi = self._phi(contexts)
        return phi.table[phi.rows, actions]

    def inputs(self) -> Inputs:
        """φ."""
        return Inputs(phi=True)

    def check_effect(self) -> None:
        """Nothing to check: φ comes with the contexts."""

    def lay_out(self, contexts: Contexts) -> tuple[SpelledRows, IntArray | None]:
        phi = self._phi(contexts)
        used, which = np.unique(phi.rows, return_inverse=True)
        own = np.array_equal(which, np.arange(len(contexts)))
        table = phi.table if len(used) == len(phi.table) else phi.table[used]
        return SpelledRows(for_kernels(table)), None if own else which.reshape(-1)

    def describe_columns(self) -> list[str]:
        return [f"φ is what the contexts carry, {self.dimension} features"]

    def describe_scores(self, parameter: Sequence[int]) -> list[str]:
        return [largest_in_words(self.names, parameter)]

    def _phi(self, contexts: Contexts) -> Phi:
        phi = contexts.require_phi(n_actions=self.n_actions)
        if phi.dimension != self.dimension:
            raise InputError(f"phi has {phi.dimension} features, but {self.dimension} are needed")
        return phi

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_actions": self.n_actions, "dimension": self.dimension}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Given:
        given = Fields.read(value, of="feature map")
        given.check_known(("kind", "n_actions", "dimension"))
        dimension = given.whole_number("dimension", least=1, most=MAX_STORED_DIMENSION)
        return cls(given.whole_number("n_actions", least=1), dimension)
