"""The design problem handed to an independent convex solver (cvxpy with Clarabel)."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np

from pacbandits.arrays import FloatArray, IntArray


def convex_bracket(
    table: IntArray,
    reference: IntArray,
    *,
    urgency: FloatArray,
    weights: FloatArray,
    noise: FloatArray,
    floor: float = 0.0,
) -> tuple[float, float]:
    """Both ends of `min_p max_π u_π V_π(p; q)` for a table (K, N), straight from the definition.

    The upper end is the objective at the solver's p, the lower end the dual function at the solver's multipliers (where
    there is a floor, the dual value is the solver's own word). On badly scaled instances the solver stops short of its
    target; the two ends then say by how much.
    """
    n, a = noise.shape
    parts = []
    for policy in table:
        part = np.zeros((n, a))
        for c in range(n):
            if policy[c] != reference[c]:
                part[c, policy[c]] = weights[c] * noise[c, policy[c]]
                part[c, reference[c]] = weights[c] * noise[c, reference[c]]
        parts.append(part)
    return convex_ends(np.array(parts) * urgency[:, None, None], floor=floor)


def convex_ends(parts: FloatArray, *, floor: float) -> tuple[float, float]:
    """Both ends of `min_p max_k Σ_{c,a} part_k(c, a)/p(a|c)` for parts (K, N, A)."""
    parts = np.unique(parts[parts.any(axis=(1, 2))], axis=0)
    if len(parts) == 0:
        return 0.0, 0.0
    unit = float(parts.sum(axis=(1, 2)).max())  # so that the optimum is of the order of one
    scaled = parts / unit
    p, t = cp.Variable(parts.shape[1:]), cp.Variable()
    inverse = cp.inv_pos(p)
    rows = [cp.sum(cp.multiply(part, inverse)) <= t for part in scaled]
    problem = cp.Problem(cp.Minimize(t), [*rows, cp.sum(p, axis=1) == 1, p >= max(floor, 1e-9)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver=cp.CLARABEL)
    # Move the solver's p a hair inside the feasible set, so that the upper end is one.
    free = np.maximum(p.value - floor, 0) + 1e-15
    q = floor + free / free.sum(axis=1, keepdims=True) * (1 - parts.shape[2] * floor)
    upper = (scaled / q).sum(axis=(1, 2)).max()
    multipliers = np.maximum([float(row.dual_value) for row in rows], 0)
    mass = np.einsum("k,kca->ca", multipliers / multipliers.sum(), scaled)
    lower = (np.sqrt(mass).sum(axis=1) ** 2).sum() if floor == 0 else float(problem.value)
    return float(lower) * unit, float(upper) * unit
