"""Solve for the best parameter of the grid by an integer program, for samples of a few dozen rows.

    max Σ_{i,a} s_ia z_ia   with θ ∈ {−L, …, L}^d and z_ia ∈ {0, 1}, at most one of a row
    z_ia = 1  ⇒  ⟨φ(i, a) − φ(i, b), θ⟩ ≥ 0 for b > a, and > 0 for b < a, as ties go to the lowest action

Scores are shifted so that the minimum of a row is 0: the worst action needs no variable. An action with the same φ as a
lower one is never taken. "> 0" becomes "≥ a margin". Where differences are integer multiples of a number, the margin is
half of that number, and no policy is lost; otherwise it is 1e-5 of the largest possible difference, and policies that
separate two actions by less than that somewhere are not considered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, optimize, sparse
from pacbandits.policies.finite import sum_by_id
from pacbandits.policies.linear.enumeration import primitive
from pacbandits.policies.linear.policy import DistinctRows

_LEAST_MARGIN = 1e-5  # of the largest possible difference
_WHOLE_ROUNDING = 1e-9  # tolerance for an integer multiple


@dataclass(frozen=True, eq=False)
class Solved:
    """The result of the solver.

    parameter (d,): the best found; None if none was found.
    bound: an upper bound on the value of every policy.
    done: whether the search was completed.
    """

    parameter: IntArray | None
    bound: float
    done: bool


def solve(rows: DistinctRows, scores: FloatArray, *, levels: int, seconds: float) -> Solved:
    """Maximise `Σ_i scores[i, π(c_i)]` over the grid, for scores (m, A), in the given time."""
    phi, merged = _merged(rows, scores)
    low = merged.min(axis=1, keepdims=True)
    least, most = float(low.sum()), float(merged.max(axis=1).sum())
    program = _program(phi, merged - low, levels)
    if program is None:
        return Solved(np.zeros(rows.dimension, dtype=np.int64), least, True)
    gains, matrix, lower, upper = program
    scale = float(gains.max())
    d = rows.dimension
    result = optimize.milp(
        c=np.concatenate([np.zeros(d), -gains / scale]),
        constraints=optimize.LinearConstraint(matrix, lower, upper),
        integrality=np.ones(d + len(gains)),
        bounds=optimize.Bounds(
            np.concatenate([np.full(d, -levels), np.zeros(len(gains))]),
            np.concatenate([np.full(d, levels), np.ones(len(gains))]),
        ),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    found = None if result.x is None else primitive(np.rint(result.x[:d]).astype(np.int64))
    bound = result.mip_dual_bound if result.mip_dual_bound is not None else -np.inf
    done = result.status == 0
    return Solved(found, min(least - scale * bound, most) if np.isfinite(bound) else most, done)


def count_binaries(scores: FloatArray) -> int:
    """Return the maximum number of variables z of the program."""
    return int((scores > scores.min(axis=1, keepdims=True)).sum())


def _program(phi: FloatArray, gains: FloatArray, levels: int) -> tuple[FloatArray, Any, FloatArray, FloatArray] | None:
    """Return the gains of the variables z and the constraints on (θ, z): matrix, lower, upper; None without a z."""
    d = phi.shape[2]
    worth: list[float] = []
    lines: list[tuple[FloatArray, int, float]] = []  # difference over its largest value, z, margin
    of_row: list[int] = []
    for i in range(len(phi)):
        for a in np.flatnonzero(gains[i] > 0):
            steps = phi[i, a] - phi[i]
            reach = levels * np.abs(steps).sum(axis=1)
            if (reach[:a] == 0).any():
                continue
            for b in np.flatnonzero(reach > 0):
                margin = _margin(steps[b], reach[b]) if b < a else 0.0
                lines.append((steps[b] / reach[b], len(worth), margin))
            worth.append(float(gains[i, a]))
            of_row.append(i)
    if not worth:
        return None
    k = len(worth)
    theta = np.array([step for step, _, _ in lines]).reshape(len(lines), d)
    z = sparse.csr_matrix(
        ([-(1.0 + margin) for _, _, margin in lines], (np.arange(len(lines)), [own for _, own, _ in lines])),
        shape=(len(lines), k),
    )
    once = sparse.csr_matrix((np.ones(k), (of_row, np.arange(k))), shape=(len(phi), k))
    matrix = sparse.bmat(
        [[sparse.csr_matrix(theta), z], [None, once]] if len(lines) else [[sparse.csr_matrix((len(phi), d)), once]]
    )
    lower = np.concatenate([np.full(len(lines), -1.0), np.zeros(len(phi))])
    upper = np.concatenate([np.full(len(lines), np.inf), np.ones(len(phi))])
    return np.array(worth), matrix, lower, upper


def _merged(rows: DistinctRows, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return φ (r, A, d) and summed scores (r, A) of the rows with distinct φ."""
    phi = rows.features.spelled()
    _, first, which = np.unique(phi.reshape(len(phi), -1), axis=0, return_index=True, return_inverse=True)
    return phi[first], sum_by_id(which.reshape(-1), scores, n=len(first))


def _margin(step: FloatArray, reach: float) -> float:
    """Return the least value of ⟨step, θ⟩/reach that counts as positive."""
    size = np.abs(step)
    unit = size[size > 0].min()
    whole = np.abs(step / unit - np.rint(step / unit)).max() <= _WHOLE_ROUNDING
    return float(unit / reach / 2) if whole and unit / reach / 2 > _LEAST_MARGIN else _LEAST_MARGIN
