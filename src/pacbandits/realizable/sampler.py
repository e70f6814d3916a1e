"""How to play a design that was computed for the features of some contexts, on any contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.features import FeatureMap
from pacbandits.records import Contexts

UNIFORM_SHARE = 0.02
# Of the gain, on contexts that the design has not seen.
GAIN_POWERS = (2.0, 4.0, 8.0, 16.0, 32.0)
DEFAULT_GAIN_POWER = GAIN_POWERS[1]


@dataclass(frozen=True, eq=False)
class GainSampler:
    """Propensities from a table on the contexts of the design, and from what they gain on any others.

    An optimal design plays actions of largest gain `φᵀ G φ`, G = A⁻¹MA⁻¹ (Kiefer and Wolfowitz 1960), and mixes where
    several are largest; a context that it has not seen is played with propensities that grow with a power of the gain.

    contexts: of the design.
    table (N, A): propensities on them.
    features: φ, of any contexts.
    gain (d, d): G.
    power: of the gain.
    """

    contexts: Contexts
    table: FloatArray
    features: FeatureMap
    gain: FloatArray
    power: float = DEFAULT_GAIN_POWER

    @property
    def n_actions(self) -> int:
        return self.table.shape[1]

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A)."""
        if contexts is self.contexts:
            return self.table
        if contexts.ids is None or self.contexts.ids is None:
            return self._by_gain(contexts)
        order = np.argsort(self.contexts.ids)
        known = self.contexts.ids[order]
        spot = np.minimum(np.searchsorted(known, contexts.ids), len(known) - 1)
        out = self.table[order[spot]]
        strange = known[spot] != contexts.ids
        if strange.any():
            out[strange] = self._by_gain(contexts.take(np.flatnonzero(strange)))
        return out

    def _by_gain(self, contexts: Contexts) -> FloatArray:
        return mix_with_uniform(shares_by_gain(self.features(contexts), self.gain, power=self.power))


def mix_with_uniform(shares: FloatArray) -> FloatArray:
    """Propensities (n, A) with a share of uniform exploration, so that every direction is seen."""
    mixed = (1.0 - UNIFORM_SHARE) * shares + UNIFORM_SHARE / shares.shape[1]
    return mixed / mixed.sum(axis=1, keepdims=True)


def shares_by_gain(phi: FloatArray, gain: FloatArray, *, power: float) -> FloatArray:
    """Propensities (n, A) that grow with `(φᵀ G φ)^power`; phi (n, A, d), gain (d, d): G."""
    gains = np.maximum(((phi @ gain) * phi).sum(axis=2), 0.0)
    largest = gains.max(axis=1, keepdims=True)
    shares = np.where(largest > 0, (gains / np.maximum(largest, 1e-300)) ** power, 1.0)
    return shares / shares.sum(axis=1, keepdims=True)
