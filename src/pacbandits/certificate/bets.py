"""How much each expert stakes in each round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError

MIN_BET_FACTOR, MAX_BET_FACTOR = 1e-12, 1e100  # of multipliers and of scales, so that their inverses are numbers
CAP_SHARE = 0.9  # how near λ(1 + M) comes to 1, where a single row could ruin an expert
MAX_STAKE = 0.45  # more would leave no room for a cap


@dataclass(frozen=True)
class Bets:
    """Expert k stakes λ = multiplier_k · scale_l in round l, the scale cut where the boldest would stake too much.

    So the stakes of all experts are in proportion, round by round. Scores are capped at `M = share/λ − 1`.

    multipliers (K,): one an expert, fixed in advance.
    scales (rounds,): fixed before each round.
    share: how near λ(1 + M) comes to 1.
    spared: rounds at the beginning in which nobody stakes anything.
    """

    multipliers: tuple[float, ...]
    scales: tuple[float, ...]
    share: float = CAP_SHARE
    spared: int = 0

    def __post_init__(self) -> None:
        for name, given in (("multipliers", self.multipliers), ("scales", self.scales)):
            if not given or not all(MIN_BET_FACTOR < value < MAX_BET_FACTOR for value in given):
                raise InputError(
                    f"the {name} of bets must lie between {MIN_BET_FACTOR:g} and {MAX_BET_FACTOR:g}, got {given}"
                )
        if not 0 < self.share < 1:
            raise InputError(f"share must lie between 0 and 1, got {self.share}")
        if not 0 <= self.spared < len(self.scales):
            raise InputError(f"{self.spared} of {len(self.scales)} rounds cannot be spared; one must be left to bet in")

    def __len__(self) -> int:
        return len(self.multipliers)

    @property
    def units(self) -> FloatArray:
        """What a multiplier of 1 stakes (rounds,)."""
        units = np.minimum(np.array(self.scales), MAX_STAKE / max(self.multipliers))
        units[: self.spared] = 0.0
        return units

    def stakes(self, expert: int) -> FloatArray:
        """λ (rounds,)."""
        return self.multipliers[expert] * self.units
