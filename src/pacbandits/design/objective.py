"""The variance functional on a table of policies: masses, propensities, costs and values in one pass.

Legend: K policies, N contexts, A actions; κ weights of policies; q reference; ν context weights; σ² noise variance; s
what a policy varies by whatever is played, zeros unless given.

    V_π(p; q) = Σ_c (ν_c (σ²_{c,π(c)}/p(π(c)|c) + σ²_{c,q(c)}/p(q(c)|c)) + s_{c,π(c)}) 1{π(c) ≠ q(c)}
    x_{c,a}   = σ²_{c,a} Σ_π κ_π 1{exactly one of π(c), q(c) is a}
    G(κ)      = min_p Σ_π κ_π V_π(p; q) = Σ_c ν_c Σ_a x_{c,a}/p(a|c) + Σ_π κ_π Σ_c s_{c,π(c)} 1{π(c) ≠ q(c)}

where the best p is the closed form in `pacbandits.allocation`,

and by the envelope theorem ∂G/∂κ_π = V_π(p(κ); q).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacbandits.allocation import allocate, fill_row
from pacbandits.arrays import FloatArray, IntArray, read_only
from pacbandits.compiled import kernel, over_cores

# Contexts are processed in blocks of this many, so that their masses and costs stay in cache; sums are added up block
# by block, in order, whatever the number of cores.
_CONTEXTS_A_BLOCK = 256


class _ObjectiveParts(NamedTuple):
    """What kernels read of an `Objective`; its fields are explained there."""

    reference: IntArray
    weights: FloatArray
    noise: FloatArray
    floor: float
    spread: FloatArray


@kernel
def _evaluate(
    parts: _ObjectiveParts,
    actions: np.ndarray[Any, Any],
    kappa: FloatArray,
    values: FloatArray,
    totals: FloatArray,
    start: int,
    stop: int,
) -> None:
    """For blocks start … stop−1: values[b, k] = V_π's part, totals[b] = G's part."""
    weights, noise = parts.weights, parts.noise
    n_policies, n_contexts = actions.shape
    n_actions = noise.shape[1]
    mass = np.empty((_CONTEXTS_A_BLOCK, n_actions))
    p = np.empty(n_actions)
    for b in range(start, stop):
        first = b * _CONTEXTS_A_BLOCK
        size = min(_CONTEXTS_A_BLOCK, n_contexts - first)
        mass[:] = 0.0
        for k in range(n_policies):
            w = kappa[k]
            if w > 0.0:
                for i in range(size):
                    mass[i, actions[k, first + i]] += w
        total = 0.0
        for i in range(size):
            c = first + i
            q = parts.reference[c]
            disagree = 0.0
            for a in range(n_actions):
                if a != q:
                    disagree += mass[i, a]
                    total += mass[i, a] * parts.spread[c, a]
                    mass[i, a] *= noise[c, a]
            mass[i, q] = disagree * noise[c, q]
            total += weights[c] * fill_row(mass[i], parts.floor, p)
            fill_costs(p, noise[c], parts.spread[c], weights[c], q, mass[i])
        totals[b] = total
        for k in range(n_policies):
            value = 0.0
            for i in range(size):
                value += mass[i, actions[k, first + i]]
            values[b, k] = value


@kernel
def fill_costs(p: FloatArray, noise: FloatArray, spread: FloatArray, weight: float, q: int, out: FloatArray) -> None:
    """out[a] = ν (σ²_a/p_a + σ²_q/p_q) + s_a for a ≠ q, 0 for q; infinite where an action with noise has p = 0."""
    for a in range(p.shape[0]):
        out[a] = 0.0
    if weight > 0.0:
        at_q = noise[q] / p[q] if p[q] > 0.0 else (np.inf if noise[q] > 0.0 else 0.0)
        for a in range(p.shape[0]):
            if a != q:
                at_a = noise[a] / p[a] if p[a] > 0.0 else (np.inf if noise[a] > 0.0 else 0.0)
                out[a] = weight * (at_a + at_q) + spread[a]


@kernel
def _all_costs(parts: _ObjectiveParts, p: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    for c in range(start, stop):
        fill_costs(p[c], parts.noise[c], parts.spread[c], parts.weights[c], parts.reference[c], out[c])


@kernel
def _add_mass(
    actions: np.ndarray[Any, Any], kappa: FloatArray, reference: IntArray, mass: FloatArray, start: int, stop: int
) -> None:
    for k in range(actions.shape[0]):
        w = kappa[k]
        if w > 0.0:
            for c in range(start, stop):
                mass[c, actions[k, c]] += w
    for c in range(start, stop):
        q = reference[c]
        mass[c, q] = 0.0
        mass[c, q] = mass[c].sum()


@dataclass(frozen=True, eq=False)
class Objective:
    """The data of the design problem that do not change while it is solved.

    reference (N,): q's actions.
    weights (N,): ν.
    noise (N, A): σ², ones for the plain ρ.
    floor: the least probability of every action.
    spread (N, A): s, ν multiplied in; None for none.
    """

    reference: IntArray
    weights: FloatArray
    noise: FloatArray
    floor: float = 0.0
    spread: FloatArray | None = None

    @property
    def n_actions(self) -> int:
        return self.noise.shape[1]

    def evaluate(self, actions: np.ndarray[Any, Any], kappa: FloatArray) -> tuple[float, FloatArray]:
        """G(κ), and V_π(p(κ); q) for every policy of the table: a number and (K,), for actions (K, N), kappa (K,)."""
        n_blocks = -(-actions.shape[1] // _CONTEXTS_A_BLOCK)
        values = np.empty((n_blocks, actions.shape[0]))
        totals = np.empty(n_blocks)
        parts, table = self._parts, read_only(actions)
        over_cores(lambda a, b: _evaluate(parts, table, kappa, values, totals, a, b), count=n_blocks)
        return float(totals.sum()), values.sum(axis=0)

    def propensities(self, actions: np.ndarray[Any, Any], kappa: FloatArray) -> FloatArray:
        """p(κ), the best propensities (N, A) for a weighting of the table's policies."""
        mass = np.zeros_like(self.noise)
        table, reference = read_only(actions), read_only(self.reference)
        over_cores(lambda a, b: _add_mass(table, kappa, reference, mass, a, b), count=len(reference))
        return allocate(mass * self.noise, floor=self.floor)[0]

    def costs(self, propensities: FloatArray) -> FloatArray:
        """Scores (N, A) whose sum over π's actions is V_π(p; q)."""
        out = np.empty_like(self.noise)
        parts = self._parts
        over_cores(lambda a, b: _all_costs(parts, propensities, out, a, b), count=len(self.reference))
        return out

    @property
    def _parts(self) -> _ObjectiveParts:
        spread = np.zeros_like(self.noise) if self.spread is None else self.spread
        # Kernels are compiled once, for arrays that are writeable.
        reference = np.require(self.reference, requirements=("C", "W"))
        weights = np.require(self.weights, requirements=("C", "W"))
        return _ObjectiveParts(reference, weights, self.noise, self.floor, spread)
