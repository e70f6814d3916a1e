"""RAGE for given features, shared part: mean rewards r(c, a) = ⟨φ(c, a), θ*⟩ and a list of policies.

    φ_π = E_c φ(c, π(c)),   A(p) = E_c Σ_a p(a|c) φ(c, a)φ(c, a)ᵀ,   V_{π,π'} = ‖φ_π − φ_π'‖²_{A(p)⁻¹}

One-hot features give the agnostic V of `rage` and `rage-free`. For others two facts of docs/algorithms.md fail;
docs/realizable.md has their replacements:

- √V has a triangle inequality, V has none (corrections, row of Lemma `1.8`);
- Δ(π, π')² ≤ V_{π,π'}, by Cauchy and Schwarz, as θ*ᵀA(p)θ* = E r(c, a)² ≤ 1. A round too short for Catoni's radius,
  n < 4L, is one whose design makes V so small that an estimate of 0 is as accurate as the round needs.

Everything is computed in the span of the features, in coordinates where uniform exploration has A = identity. There
⟨x, θ*⟩ ≤ ‖x‖, so that policies whose φ_π agree to 10⁻¹¹ have the same value and count as one policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats
from pacbandits.confidence import catoni_scale, has_catoni_radius
from pacbandits.errors import InputError
from pacbandits.paper.estimators import catoni_means
from pacbandits.paper.rounds import PaperAlgorithm, listed
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.features import map_for
from pacbandits.realizable.features import information_of, pseudo_inverse, squared_lengths
from pacbandits.realizable.moments import Population, played_coordinates
from pacbandits.realizable.pool_design import ROUNDING_SHARE, PoolOptions, solve_pool
from pacbandits.realizable.sampler import GAIN_POWERS, GainSampler, mix_with_uniform, shares_by_gain
from pacbandits.records import Contexts, Log, Policy, check_contexts
from pacbandits.trials.protocol import Plan, State

# Catoni's mean of rewards along given directions, for rewards that are linear in features.
#
#     O_i = A(p)⁻¹ φ(c_i, a_i) r_i,     Cat{⟨x, O_i⟩} estimates ⟨x, θ*⟩
#
# A(p) = E_c Σ_a p(a|c) φφᵀ is that of the design that was played: E O = θ*, and ⟨x, O⟩ has second moment at most
# s²‖x‖²_{A⁻¹} if E[r² | c, a] ≤ s² (corrections, row 5).


# Values ⟨x, O_i⟩ held in memory at once.
_BLOCK_VALUES = 2**23


def catoni_along(outcomes: FloatArray, directions: FloatArray, *, alpha: FloatArray, repeats: FloatArray) -> FloatArray:
    """Return Catoni's mean (K,) of ⟨x, O_i⟩ for directions x (K, r), outcomes O_i (n, r), repeats (n,) and α (K,)."""
    outcomes = floats(outcomes, name="outcomes", shape=(None, None))
    directions = floats(directions, name="directions", shape=(None, outcomes.shape[1]))
    counts = floats(repeats, name="repeats", shape=(len(outcomes),))
    scales = floats(alpha, name="alpha", shape=(len(directions),))
    if counts.sum() <= 0:
        raise InputError("there are no outcomes to take a mean of; give a log with an interaction at least")
    # Rewards of zero have the same value along every direction: they count as one row.
    telling = outcomes.any(axis=1)
    rows = np.concatenate([outcomes[telling], np.zeros((1, outcomes.shape[1]))])
    counts = np.concatenate([counts[telling], [counts[~telling].sum()]])
    if counts[-1] == 0:
        rows, counts = rows[:-1], counts[:-1]
    out = np.empty(len(directions))
    size = max(1, _BLOCK_VALUES // len(rows))
    for start in range(0, len(directions), size):
        block = slice(start, start + size)
        out[block] = catoni_means(directions[block] @ rows.T, alpha=scales[block], repeats=counts)
    return out


# Mean features that differ by at most this in every coordinate are equal.
_SAME_POINT = 1e-11


@dataclass(frozen=True, eq=False)
class FeatureState(State):
    """The state of RAGE for given features: a list of policies as points.

    listing: Π as a list.
    population: the contexts that can occur, with φ and the points φ_π.
    """

    policy: Policy
    listing: PolicyClass = field(kw_only=True)
    population: Population = field(kw_only=True)

    @property
    def points(self) -> FloatArray:
        """Return φ_π (|Π|, r)."""
        assert self.population.points is not None
        return self.population.points


@dataclass(frozen=True, eq=False)
class FeatureDesign:
    """A design for given directions.

    sampler: its sampler.
    lower: no design has a smaller largest ‖x_k‖²_{A⁻¹}/d_k².
    value: that of this design.
    """

    sampler: GainSampler
    lower: float
    value: float


@dataclass(frozen=True)
class FeatureRage(PaperAlgorithm):
    """The shared part of both algorithms; sample sizes follow from the value that a design attains.

    precision: the relative gap to which designs are solved: 1 %, against 0.1 % for one-hot features.
    """

    precision: float = field(default=0.01, kw_only=True)

    def locate(self, policies: PolicyClass, contexts: Contexts) -> tuple[PolicyClass, Population]:
        """Return the class as a list, and its policies as points."""
        check_contexts(contexts)
        listing = listed(policies, algorithm=self.name)
        possible = contexts.only(contexts.weights > 0)
        features = map_for(possible, n_actions=listing.n_actions, relative=False)
        return listing, Population.of(listing, contexts, features)

    def solve(self, population: Population, directions: FloatArray, accuracies: FloatArray) -> FeatureDesign:
        """Return a design for `min_p max_k ‖x_k‖²_{A(p)⁻¹}/d_k²`; directions x_k (K, r), accuracies d_k (K,)."""
        phi, weights = population.phi, population.contexts.weights
        floor = self.floor / phi.shape[1]
        options = PoolOptions(floor=floor, tolerance=self.precision)
        solved = solve_pool(phi, weights, directions, accuracies, options=options)
        targets = directions / accuracies[:, None]

        def value(table: FloatArray) -> float:
            inverse = pseudo_inverse(information_of(phi, weights, table))
            return float(squared_lengths(targets, inverse).max()) * (1.0 + ROUNDING_SHARE)

        inverse = pseudo_inverse(information_of(phi, weights, solved.propensities))
        own = inverse @ ((targets * solved.multipliers[:, None]).T @ targets) @ inverse
        basis = population.span.basis
        table, power = solved.propensities / solved.propensities.sum(axis=1, keepdims=True), GAIN_POWERS[1]
        if population.contexts.ids is None:
            # Contexts without ids cannot be looked up in a table: they are played by gain, and valued so.
            tables = {power: mix_with_uniform(shares_by_gain(phi, own, power=power)) for power in GAIN_POWERS}
            power = min(GAIN_POWERS, key=lambda one: value(tables[one]))
            table = tables[power]
        sampler = GainSampler(population.contexts, table, population.features, basis @ own @ basis.T, power)
        return FeatureDesign(sampler, solved.lower, value(table))

    def estimate(self, state: FeatureState, plan: Plan, log: Log, *, directions: FloatArray) -> FloatArray:
        """Return Catoni's mean (K,) of ⟨x, O_i⟩ for directions x (K, r); 0 if the round is too short for its radius."""
        population = state.population
        confidence = self.confidence(state.listing, plan.round_number)
        if not has_catoni_radius(log.samples, confidence=confidence, scale=self.scale):
            return np.zeros(len(directions))
        table = plan.sampler.propensities(population.contexts)
        inverse = pseudo_inverse(information_of(population.phi, population.contexts.weights, table))
        played = played_coordinates(log, population.features, population.span)
        return catoni_along(
            (played * log.rewards[:, None]) @ inverse,
            directions,
            alpha=catoni_scale(
                self.rewards.second_moment * squared_lengths(directions, inverse),
                samples=log.samples,
                confidence=confidence,
            ),
            repeats=log.repeats.astype(np.float64),
        )

    def guarantee(self, state: State) -> str:
        """Return the guarantee of the paper's algorithms, with the assumption of linear rewards."""
        words = super().guarantee(state)
        return words.replace("assumes that", "assumes that mean rewards are linear in the given features, that", 1)


def apart(points: FloatArray, *, reference: FloatArray) -> BoolArray:
    """Return which of the points (K, r) differ from the reference (r,), up to rounding."""
    return np.abs(points - reference).max(axis=1, initial=0.0) > _SAME_POINT


def first_of_each(points: FloatArray) -> IntArray:
    """Return the first of each set of equal points (K, r); rarely, due to rounding, more of them."""
    coarse = np.round(points / (10.0 * _SAME_POINT)) + 0.0  # so that −0 is 0
    return np.sort(np.unique(coarse, axis=0, return_index=True)[1])
