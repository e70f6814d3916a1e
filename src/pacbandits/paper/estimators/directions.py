"""Catoni's mean of what rewards say along given directions, for rewards that are linear in features.

    O_i = A(p)⁻¹ φ(c_i, a_i) r_i,     Cat{⟨x, O_i⟩} estimates ⟨x, θ*⟩

A(p) = E_c Σ_a p(a|c) φφᵀ is that of the design that was played: E O = θ*, and ⟨x, O⟩ has second moment at most
s²‖x‖²_{A⁻¹} where E[r² | c, a] ≤ s² (corrections, row 5).
"""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError
from pacbandits.paper.estimators.catoni import catoni_means

# Values ⟨x, O_i⟩ held at once.
_BLOCK_VALUES = 2**23


def catoni_along(outcomes: FloatArray, directions: FloatArray, *, alpha: FloatArray, repeats: FloatArray) -> FloatArray:
    """Catoni's mean (K,) of ⟨x, O_i⟩ for directions x (K, r), outcomes O_i (n, r) of repeats (n,) each, and α (K,)."""
    outcomes = floats(outcomes, name="outcomes", shape=(None, None))
    directions = floats(directions, name="directions", shape=(None, outcomes.shape[1]))
    counts = floats(repeats, name="repeats", shape=(len(outcomes),))
    scales = floats(alpha, name="alpha", shape=(len(directions),))
    if counts.sum() <= 0:
        raise InputError("there are no outcomes to take a mean of; give a log with an interaction at least")
    # Rewards of zero say the same along every direction: they count as one row.
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
