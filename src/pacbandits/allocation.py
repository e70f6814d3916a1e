"""The closed-form design: the propensities that minimise the variance for a given disagreement mass per action.

    min_p Σ_a x_a / p_a   over p in the simplex with p_a ≥ floor

Without a floor the answer is `p_a ∝ √x_a` with value `(Σ_a √x_a)²` (Lemma `est_design_2` of the paper).
With a floor it is `p_a = max(floor, √x_a / τ)`, τ by water-filling: `p = (1 − κ) p₀ + κ/A`
with p₀ free is the same set as `p ≥ κ/A`, so the floor costs nothing to put inside the optimisation.
"""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import number
from pacbandits.compiled import MAX_PLAIN_ROWS, kernel, over_cores, plain_if_few


def check_floor(floor: object, *, n_actions: int) -> float:
    """Return the minimum probability of every action; raise InputError unless it is from 0 to 1/A."""
    words = f"lie between 0 and 1/{n_actions} (one over the actions)"
    return number(floor, name="floor", least=0, most=1 / n_actions, wanted=words)


@kernel
def fill_row(mass: FloatArray, floor: float, out: FloatArray) -> float:
    """Write the best propensities for one row of masses (A,) into `out` (A,) and return Σ_a x_a / p_a."""
    n = mass.shape[0]
    total = 0.0
    for a in range(n):
        out[a] = np.sqrt(mass[a])
        total += out[a]
    if total <= 0.0:
        for a in range(n):
            out[a] = 1.0 / n
        return 0.0
    scale = total
    if floor > 0.0:
        # Raise to the floor every action below it; the others share the rest of the probability. Each pass can only
        # lower their share, so at most A passes are needed.
        for _ in range(n):
            free = 0.0
            n_free = 0
            for a in range(n):
                if out[a] > floor * scale:
                    free += out[a]
                    n_free += 1
            left = 1.0 - floor * (n - n_free)
            new = free / left if n_free > 0 and left > 0.0 else np.inf
            if not new > scale * (1.0 + 1e-15):
                break
            scale = new
    value = 0.0
    for a in range(n):
        p = out[a] / scale
        out[a] = p if p > floor else floor
        if mass[a] > 0.0:
            value += mass[a] / out[a]
    return value


@kernel
def _fill_rows(mass: FloatArray, floor: float, out: FloatArray, value: FloatArray, start: int, stop: int) -> None:
    for i in range(start, stop):
        value[i] = fill_row(mass[i], floor, out[i])


def load_machine_code() -> None:
    """Compile or load what `allocate` needs, so that no later call waits for it."""
    allocate(np.ones((MAX_PLAIN_ROWS + 1, 2)))


def allocate(mass: FloatArray, *, floor: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return the best propensities (n, A) for masses (n, A), and the value Σ_a x_a / p_a of each row (n,).

    A row of zero mass gets the uniform distribution and the value 0.
    """
    mass = np.ascontiguousarray(mass, dtype=np.float64)
    out = np.empty_like(mass)
    value = np.empty(mass.shape[0])
    if (plain := plain_if_few(fill_row, mass.shape[0])) is not fill_row:
        for i in range(mass.shape[0]):
            value[i] = plain(mass[i], floor, out[i])
        return out, value
    if mass.shape[0] <= MAX_PLAIN_ROWS:  # another thread would take longer to wake up
        _fill_rows(mass, floor, out, value, 0, mass.shape[0])
    else:
        over_cores(lambda a, b: _fill_rows(mass, floor, out, value, a, b), count=mass.shape[0])
    return out, value
