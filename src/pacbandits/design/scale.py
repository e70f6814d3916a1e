"""What a gap is worth: the accuracy `d(Δ)` to which a policy of gap Δ must be resolved.

The ratio form minimises `max_π V_π(p; q) / d(Δ_π)²`. Three forms of d are in use; all rise with Δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import positive, settle
from pacbandits.confidence import check_epsilon


@runtime_checkable
class GapScale(Protocol):
    """An accuracy that grows with the gap."""

    def __call__(self, gaps: FloatArray) -> FloatArray:
        """d(Δ) for gaps of any shape."""
        ...

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        """Where `(c + sΔ)/d(Δ)²` may be largest over Δ ≥ 0, for each line c + sΔ with c, s ≥ 0."""
        ...


@dataclass(frozen=True)
class Clipped:
    """d(Δ) = max(Δ, ε): the form of ρ_{Π,ε} (paper, eq. `rho_star_combinatorial`).

    epsilon: ε.
    """

    epsilon: float

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon))

    def __call__(self, gaps: FloatArray) -> FloatArray:
        return np.maximum(gaps, self.epsilon)

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        # Rising up to ε, falling beyond: (c + sΔ)/Δ² has derivative −(2c + sΔ)/Δ³.
        return np.full_like(intercepts, self.epsilon)


@dataclass(frozen=True)
class Shifted:
    """d(Δ) = ε + aΔ: the form of the algorithms' sample sizes, where gaps are estimates.

    epsilon: ε.
    slope: a.
    """

    epsilon: float
    slope: float

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon), slope=positive(self.slope, name="slope"))

    def __call__(self, gaps: FloatArray) -> FloatArray:
        return self.epsilon + self.slope * np.maximum(gaps, 0.0)

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        # The derivative of (c + sΔ)/(ε + aΔ)² has the sign of sε − 2ac − asΔ.
        with np.errstate(divide="ignore", invalid="ignore"):
            peak = self.epsilon / self.slope - 2.0 * intercepts / slopes
        return np.where(slopes > 0, np.maximum(peak, 0.0), 0.0)


@dataclass(frozen=True)
class Product:
    """d(Δ)² = ε(ε + aΔ): what can be resolved when all policies share one γ.

    The ratio V/(ε(ε + aΔ)) is linear in V over linear in Δ, so its maximum is a vertex of the hull of the points
    (Δ_π, V_π): pricing by argmax alone is exact.

    epsilon: ε.
    slope: a.
    """

    epsilon: float
    slope: float

    def __post_init__(self) -> None:
        Shifted(self.epsilon, self.slope)

    def __call__(self, gaps: FloatArray) -> FloatArray:
        return np.sqrt(self.epsilon * (self.epsilon + self.slope * np.maximum(gaps, 0.0)))

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        # Monotone along every line, and falling along a level one: largest at 0 or where lines cross.
        return np.zeros_like(intercepts)
