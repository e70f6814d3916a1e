"""How much each expert stakes in each round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.errors import FloatArray, InputError

_LEAST = 1e-12
_LARGEST = 0.45  # stake; more would leave no room for a cap


@dataclass(frozen=True)
class Bets:
    """Expert k stakes λ = multiplier_k · scale_l in round l, and caps scores at `M = share/λ − 1` (never below 0).

    multipliers (K,): one an expert, fixed in advance. scales (rounds,): fixed before each round. share: how near
    λ(1 + M) comes to 1, where a single row could ruin an expert.
    """

    multipliers: tuple[float, ...]
    scales: tuple[float, ...]
    share: float = 0.9

    def __post_init__(self) -> None:
        for name, given in (("multipliers", self.multipliers), ("scales", self.scales)):
            if not given or not all(_LEAST < value < np.inf for value in given):
                raise InputError(f"the {name} of bets must be positive and finite (above {_LEAST:g}), got {given}")
        if not 0 < self.share < 1:
            raise InputError(f"share must lie between 0 and 1, got {self.share}")

    def __len__(self) -> int:
        return len(self.multipliers)

    def stakes(self, expert: int) -> FloatArray:
        """λ (rounds,)."""
        return np.minimum(self.multipliers[expert] * np.array(self.scales), _LARGEST)

    def caps(self, expert: int) -> FloatArray:
        """M (rounds,)."""
        return np.maximum(self.share / self.stakes(expert) - 1.0, 0.0)
