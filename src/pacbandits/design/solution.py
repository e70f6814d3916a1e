"""What a design solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.design.enumerated import relative_gap
from pacbandits.records import Design


@dataclass(frozen=True, eq=False)
class Solution:
    """A design and a bracket on the optimum: lower ≤ min_p max_π V_π(p; q)/d(Δ_π)² ≤ upper.

    design: it attains `upper`, over the whole class.
    lower: the lower end.
    upper: the upper end.
    tolerance: the relative gap that was asked for.
    iterations: evaluations of the objective on a table of policies.
    oracle_calls: calls to the class.
    note: a word when the requested gap was not reached, or on a special case.
    """

    design: Design
    lower: float
    upper: float
    tolerance: float
    iterations: int
    oracle_calls: int
    note: str = ""

    @property
    def gap(self) -> float:
        """upper/lower − 1."""
        return relative_gap(self.lower, self.upper)

    @property
    def converged(self) -> bool:
        """Whether the requested relative gap was reached."""
        return bool(self.gap <= self.tolerance) or self.lower == np.inf
