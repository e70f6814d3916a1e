"""Designs that are computed on some contexts, and their propensities on all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.features import FeatureMap
from pacbandits.realizable.deviation import largest_deviation
from pacbandits.realizable.features import information_of, pseudo_inverse, squared_lengths
from pacbandits.realizable.moments import Population
from pacbandits.realizable.pool_design import PoolOptions, solve_pool
from pacbandits.records import Contexts

# Propensities on any contexts, for a design that was computed on the features of some.


UNIFORM_SHARE = 0.02
# Exponents of the gain, on contexts outside the design.
GAIN_POWERS = (2.0, 4.0, 8.0, 16.0, 32.0)
DEFAULT_GAIN_POWER = GAIN_POWERS[1]


@dataclass(frozen=True, eq=False)
class GainSampler:
    """Propensities from a table on the contexts of the design, and from gains on all others.

    An optimal design plays actions of largest gain `φᵀ G φ`, G = A⁻¹MA⁻¹ (Kiefer and Wolfowitz 1960), and mixes where
    several are largest; a context outside the design is played with propensities that grow with a power of the gain.

    contexts: of the design.
    table (N, A): propensities on them.
    features: φ, of any contexts.
    gain (d, d): G.
    power: the exponent of the gain.
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
        """Return p(a|c) as (n, A)."""
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
    """Return propensities (n, A) mixed with a share of uniform exploration, so that every direction is seen."""
    mixed = (1.0 - UNIFORM_SHARE) * shares + UNIFORM_SHARE / shares.shape[1]
    return mixed / mixed.sum(axis=1, keepdims=True)


def shares_by_gain(phi: FloatArray, gain: FloatArray, *, power: float) -> FloatArray:
    """Return propensities (n, A) that grow with `(φᵀ G φ)^power`; phi (n, A, d), gain (d, d): G."""
    gains = np.maximum(((phi @ gain) * phi).sum(axis=2), 0.0)
    largest = gains.max(axis=1, keepdims=True)
    shares = np.where(largest > 0, (gains / np.maximum(largest, 1e-300)) ** power, 1.0)
    return shares / shares.sum(axis=1, keepdims=True)


# A design for all contexts, computed on a sample of them if they are many.


SKETCHED_CONTEXTS = 1000
DESIGN_TOLERANCE = 0.05
_SEARCH_STARTS = 32
# Policies whose mean features differ by at most this in every coordinate are equal.
_SAME_POINT = 1e-12


@dataclass(frozen=True, eq=False)
class SketchedDesign:
    """Propensities for all contexts.

    table (N, A): the propensities.
    information (r, r): A(p).
    gain (r, r): A⁻¹MA⁻¹.
    power: the exponent of the gain, see `GainSampler`.
    worst_cost: the largest ‖x_π‖²_{A⁻¹}/d_π² of the policies of the pool.
    pool (m, r): their x_π.
    """

    table: FloatArray
    information: FloatArray
    gain: FloatArray
    power: float
    worst_cost: float
    pool: FloatArray


@dataclass(frozen=True, eq=False)
class Sketch:
    """The contexts of a design: all of them, or a sample.

    population: all contexts.
    phi (n, A, r): φ of the sample.
    weights (n,): ν of the sample.
    """

    population: Population
    phi: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, population: Population) -> Sketch:
        phi, weights = population.phi, population.contexts.weights
        if len(weights) <= SKETCHED_CONTEXTS:
            return cls(population, phi, weights)
        some = np.random.default_rng(0).choice(len(weights), size=SKETCHED_CONTEXTS, p=weights)
        return cls(population, phi[some], np.full(SKETCHED_CONTEXTS, 1.0 / SKETCHED_CONTEXTS))

    @property
    def whole(self) -> bool:
        """Whether it holds all contexts."""
        return len(self.weights) == len(self.population.contexts)

    def search(self, parameter: FloatArray, shape: FloatArray) -> FloatArray:
        """Return x_π of policies that the ellipsoid leaves possible and that differ much from the greedy one."""
        reference = np.argmax(self.phi @ parameter, axis=1)
        return largest_deviation(
            self.phi, self.weights, reference=reference, parameter=parameter, shape=shape, starts=_SEARCH_STARTS
        ).points

    def solve(self, pool: FloatArray, accuracies: FloatArray, *, start: FloatArray | None = None) -> SketchedDesign:
        """Return the best design for the differences x_π of the pool (m, r), with accuracies d_π (m,).

        start (N, A): propensities that the result must not be worse than; used if the sketch holds all contexts.
        """
        apart = np.abs(pool).max(axis=1, initial=0.0) > _SAME_POINT
        if not apart.any():
            return self._nothing_to_tell_apart()
        pool, accuracies = pool[apart], accuracies[apart]
        solved = solve_pool(
            self.phi,
            self.weights,
            pool,
            accuracies,
            start=start if self.whole else None,
            options=PoolOptions(tolerance=DESIGN_TOLERANCE),
        )
        inverse = pseudo_inverse(information_of(self.phi, self.weights, solved.propensities))
        scaled = pool / accuracies[:, None]
        gain = inverse @ ((scaled * solved.multipliers[:, None]).T @ scaled) @ inverse
        whole, nu = self.population.phi, self.population.contexts.weights

        def worst_cost(table: FloatArray) -> float:
            return float(squared_lengths(scaled, pseudo_inverse(information_of(whole, nu, table))).max())

        if self.whole:
            power, table = DEFAULT_GAIN_POWER, mix_with_uniform(solved.propensities)
        else:
            tables = {power: mix_with_uniform(shares_by_gain(whole, gain, power=power)) for power in GAIN_POWERS}
            power = min(GAIN_POWERS, key=lambda one: worst_cost(tables[one]))
            table = tables[power]
        return SketchedDesign(table, information_of(whole, nu, table), gain, power, worst_cost(table), pool)

    def _nothing_to_tell_apart(self) -> SketchedDesign:
        """Return uniform exploration."""
        phi, nu = self.population.phi, self.population.contexts.weights
        table = np.full(phi.shape[:2], 1.0 / phi.shape[1])
        information = information_of(phi, nu, table)
        pool = np.zeros((1, phi.shape[2]))
        return SketchedDesign(table, information, pseudo_inverse(information), GAIN_POWERS[0], 0.0, pool)
