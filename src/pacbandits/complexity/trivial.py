"""The trivial class at ε = 0, in closed form (up to one scalar root a context).

Single-context deviations decide, because (a₁ + a₂)/(b₁ + b₂)² ≤ max(a₁/b₁², a₂/b₂²). With gaps Δ_a of the actions of
a context and p_* = p(π*(c)|c), minimising t subject to `σ²_a/p_a + σ²_*/p_* ≤ tΔ_a²` and Σp = 1 gives, with
w = 1/(t p_*),

    t = min_w  1/w + Σ_{a ≠ π*(c)} σ²_a / (Δ_a² − σ²_* w)          (convex in w on 0 < w < min_a Δ_a²/σ²_*)

and ρ_{Π,0} = max_c t_c/ν_c. The paper's sums run over all a (corrections, row 16); ours over a ≠ π*(c).
"""

from __future__ import annotations

import numpy as np

from pacbandits.complexity.gaps import Gaps
from pacbandits.design import Solution
from pacbandits.errors import BoolArray, FloatArray, InputError, IntArray
from pacbandits.policies.finite import TablePolicy
from pacbandits.policies.trivial import Trivial
from pacbandits.records import Contexts, Design, Policy

# Beyond this many entries in the table of single-context deviations, the design is not written out.
_LARGEST_TABLE = 20_000_000


def solve_trivial(policies: Trivial, contexts: Contexts, gaps: Gaps, *, noise: FloatArray | None = None) -> Solution:
    """ρ_{Π,0} of the trivial class (ρ_σ with `noise` (N, A)) and its design of single-context deviations."""
    ids = contexts.require_ids(below=policies.n_contexts)
    if len(np.unique(ids)) != len(ids):
        raise InputError("the population lists a context id twice; merge its rows and add up their weights")
    variances = np.ones_like(gaps.scores) if noise is None else noise
    matter: IntArray = np.flatnonzero(contexts.weights > 0)
    others: BoolArray = np.ones(gaps.scores.shape, dtype=bool)
    others[np.arange(len(contexts)), gaps.best_actions] = False
    weights = contexts.weights[matter]
    shape = (len(matter), policies.n_actions - 1)
    deviation = gaps.scores[matter][others[matter]].reshape(shape) / weights[:, None]
    noise_others = variances[matter][others[matter]].reshape(shape)
    noise_best = variances[matter, gaps.best_actions[matter]]
    if policies.n_actions == 1:
        value, propensities = np.zeros(len(matter)), np.ones((len(matter), 0))
    else:
        value, propensities = _hardness(deviation, noise_others, noise_best)
    rho = float((value / weights).max())
    design = Design((), np.empty(0), gaps.best)
    note = ""
    if shape[0] * shape[1] * policies.n_contexts <= _LARGEST_TABLE:
        design = _deviations(policies, gaps, ids, matter, others, propensities, noise_others)
    elif rho > 0:
        note = "the design is not written out: it has one policy for every context and action"
    # Bisection leaves the root to the last digits of a double; the value, at a minimum, is better still.
    return Solution(design, rho * (1 - 1e-12), rho, 2e-12, iterations=0, oracle_calls=0, note=note)


def _hardness(gaps: FloatArray, noise: FloatArray, noise_best: FloatArray) -> tuple[FloatArray, FloatArray]:
    """t (n,) and the propensities of the other actions (n, A − 1), for gaps (n, A − 1) that are positive."""
    squares = gaps**2
    best = noise_best[:, None]
    noisy = noise_best > 0
    tiny = np.finfo(np.float64).tiny
    low: FloatArray = np.zeros(len(gaps))
    high: FloatArray = squares.min(axis=1) / np.where(noisy, noise_best, 1.0)
    for _ in range(200):
        middle: FloatArray = (low + high) / 2
        left = np.maximum(squares - best * middle[:, None], 1e-150)
        falling: BoolArray = (noise * best / left**2).sum(axis=1) * middle**2 < 1.0
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    parts = noise / np.maximum(squares - best * low[:, None], tiny)
    # Without noise on the best action, it needs no probability and w may be as large as we like.
    value = parts.sum(axis=1) + np.where(noisy, 1.0 / np.maximum(low, tiny), 0.0)
    return value, parts / np.maximum(value, tiny)[:, None]


def _deviations(
    policies: Trivial,
    gaps: Gaps,
    ids: IntArray,
    matter: IntArray,
    others: BoolArray,
    propensities: FloatArray,
    noise: FloatArray,
) -> Design:
    """The design as weights on policies that differ from the best on one context: κ = p²/σ², as p ∝ √x."""
    base = gaps.best(Contexts.finite(policies.n_contexts)).copy()
    support: list[Policy] = []
    weights: list[float] = []
    for i, row in enumerate(matter):
        for k, action in enumerate(np.flatnonzero(others[row])):
            if noise[i, k] > 0:
                table = base.copy()
                table[ids[row]] = action
                support.append(TablePolicy(table, n_actions=policies.n_actions, name="trivial"))
                weights.append(propensities[i, k] ** 2 / noise[i, k])
    return Design(tuple(support), np.array(weights), gaps.best)
