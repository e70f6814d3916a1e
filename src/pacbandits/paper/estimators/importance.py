"""Importance weighting and its regularised form (implicit exploration), with 1/n in front (corrections, row 1).

    V̂^γ(π)    = (1/n) Σ_i r_i/(p_i + γ) 1{π(c_i) = a_i}
    Δ̂^γ(π, q) = (1/n) Σ_i r_i/(p_i + γ_π) (1{q(c_i) = a_i} − 1{π(c_i) = a_i})

γ = 0 is plain importance weighting: unbiased, with tails as heavy as 1/p. γ > 0 bounds every term by 1/γ at the price
of a bias of at most γV.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats, read_only
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.paper.estimators.cells import Cells
from pacbandits.records import Log


def regularised_scores(log: Log, *, gamma: float = 0.0) -> FloatArray:
    """Scores (n, A), one row of the log each, whose sum over π's actions is V̂^γ(π), for one γ ≥ 0."""
    if not 0 <= gamma < np.inf:
        raise InputError(f"gamma must be 0 or more and finite, got {gamma}")
    rows = np.arange(len(log))
    scores = np.zeros((len(log), log.n_actions))
    played = log.propensities[rows, log.actions]
    scores[rows, log.actions] = log.repeats * log.rewards / (played + gamma) / log.samples
    return scores


def regularised_gaps(
    cells: Cells, actions: np.ndarray[Any, Any], *, reference: IntArray, gamma: FloatArray
) -> FloatArray:
    """Δ̂^γ(π, q) (K,) for a table of actions (K, m) on the cells' contexts, q's actions (m,) and γ_π ≥ 0 (K,).

    γ_π may be infinite, which makes the estimate 0.
    """
    cells.check_actions(actions, name="actions", shape=(None, len(cells.contexts)))
    cells.check_actions(reference, name="reference", shape=(len(cells.contexts),))
    gamma = np.asarray(gamma, dtype=np.float64)
    floats(np.where(np.isinf(gamma), 0.0, gamma), name="gamma", shape=(len(actions),))
    if gamma.size and gamma.min() < 0:
        raise InputError(f"gamma must be 0 or more, got {gamma.min()}")
    out = np.empty(len(actions))
    rows = _Rows(cells.starts, cells.rewards, cells.propensities, cells.repeats, cells.n_actions)
    table, other = read_only(actions), read_only(reference)
    over_cores(lambda a, b: _regularised_gaps(rows, table, other, gamma, out, a, b), count=len(actions))
    return out / cells.samples


class _Rows(NamedTuple):
    """What the kernel reads of `Cells`; its fields are explained there."""

    starts: IntArray
    rewards: FloatArray
    propensities: FloatArray
    repeats: FloatArray
    n_actions: int


@kernel
def _regularised_gaps(
    rows: _Rows,
    actions: np.ndarray[Any, Any],
    reference: IntArray,
    gamma: FloatArray,
    out: FloatArray,
    first: int,
    last: int,
) -> None:
    starts = rows.starts
    for k in range(first, last):
        total = 0.0
        for c in range(actions.shape[1]):
            own, other = actions[k, c], reference[c]
            if own != other:
                base = c * rows.n_actions
                for i in range(starts[base + other], starts[base + other + 1]):
                    total += rows.repeats[i] * rows.rewards[i] / (rows.propensities[i] + gamma[k])
                for i in range(starts[base + own], starts[base + own + 1]):
                    total -= rows.repeats[i] * rows.rewards[i] / (rows.propensities[i] + gamma[k])
        out[k] = total
