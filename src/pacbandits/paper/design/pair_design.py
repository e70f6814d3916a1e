"""Designs that tell pairs of policies apart, with no reference: a sparse weighting of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.allocation import allocate, check_floor
from pacbandits.arrays import FloatArray, IntArray, floats, integers, read_only
from pacbandits.checks import settle
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy

# Contexts are processed in blocks, so that their masses stay in cache.
_CONTEXTS_A_BLOCK = 256


@dataclass(frozen=True, eq=False)
class PairDesign:
    """Sample `a` with probability `p(a|c) ∝ √x`, where x is the weight of the pairs that disagree over `a`.

        x_{c,a} = Σ_{(π,π')} κ_{π,π'} · 1{exactly one of π(c), π'(c) is a}

    A context on which every pair agrees is played uniformly.

    support: the policies, at least one.
    pairs (m, 2): rows of the support.
    weights (m,): κ ≥ 0, of any scale.
    floor: the least probability of any action, at most 1/A.
    """

    support: tuple[Policy, ...]
    pairs: IntArray
    weights: FloatArray
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not self.support:
            raise InputError("a pair design has no policies; give at least one, for its number of actions")
        n_actions = self.n_actions
        if any(policy.n_actions != n_actions for policy in self.support):
            raise InputError("the policies of a pair design must all have the same number of actions")
        weights = floats(self.weights, name="pair weights", shape=(None,))
        if weights.size and weights.min() < 0:
            raise InputError(f"pair weights must not be negative, got {weights.min()}")
        pairs = integers(self.pairs, name="pairs", shape=(len(weights), 2), below=len(self.support))
        settle(self, pairs=pairs, weights=weights, floor=check_floor(self.floor, n_actions=n_actions))

    @property
    def n_actions(self) -> int:
        return self.support[0].n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A) on any contexts."""
        actions = np.empty((len(self.support), len(contexts)), dtype=np.min_scalar_type(self.n_actions - 1))
        for row, policy in zip(actions, self.support, strict=True):
            row[:] = policy(contexts)
        mass = pair_mass(actions, pairs=self.pairs, weights=self.weights, n_actions=self.n_actions)
        return allocate(mass, floor=self.floor)[0]


def pair_mass(actions: np.ndarray[Any, Any], *, pairs: IntArray, weights: FloatArray, n_actions: int) -> FloatArray:
    """The masses x (N, A) of weighted pairs (m, 2) of rows of a table of actions (K, N)."""
    mass = np.zeros((actions.shape[1], n_actions))
    table, chosen, kappa = read_only(actions), read_only(pairs), read_only(weights)
    over_cores(lambda a, b: _add_pairs(table, chosen, kappa, mass, a, b), count=len(mass))
    return mass


@kernel
def _add_pairs(
    actions: np.ndarray[Any, Any], pairs: IntArray, weights: FloatArray, mass: FloatArray, start: int, stop: int
) -> None:
    for first in range(start, stop, _CONTEXTS_A_BLOCK):
        last = min(first + _CONTEXTS_A_BLOCK, stop)
        for m in range(pairs.shape[0]):
            w = weights[m]
            if w > 0.0:
                i, j = pairs[m, 0], pairs[m, 1]
                for c in range(first, last):
                    x, y = actions[i, c], actions[j, c]
                    if x != y:
                        mass[c, x] += w
                        mass[c, y] += w
