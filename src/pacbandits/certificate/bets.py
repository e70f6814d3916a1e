"""How much each expert stakes in each round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError

MIN_BET_FACTOR = 1e-12  # of multipliers and of scales
MAX_NAMING_COUNT = 10**9  # of rounds, and of names
CAP_SHARE = 0.9  # how near λ(1 + M) comes to 1, where a single row could ruin an expert
MAX_STAKE = 0.45  # more would leave no room for a cap


@dataclass(frozen=True)
class Naming:
    """That a policy was named in advance.

    round: the first that tests it, counted from 0.
    number: which of all names it was, counted from 1.
    """

    round: int
    number: int

    def __post_init__(self) -> None:
        if not 1 <= self.round <= MAX_NAMING_COUNT or not 1 <= self.number <= MAX_NAMING_COUNT:
            raise InputError(
                f"policies are named from round 1 on, numbered from 1, and fewer than {MAX_NAMING_COUNT:,}; got round "
                f"{self.round}, number {self.number}"
            )


@dataclass(frozen=True)
class Bets:
    """Expert k stakes λ = multiplier_k · scale_l in round l, and caps scores at `M = share/λ − 1` (never below 0).

    multipliers (K,): one an expert, fixed in advance.
    scales (rounds,): fixed before each round.
    share: how near λ(1 + M) comes to 1.
    naming: of the policy the bets are for, if it was named in advance; experts K to 2K − 1 are then those who stake
        nothing before, and have a head start (`pacbandits.confidence.head_start`).
    spared: rounds at the beginning in which nobody stakes anything.
    """

    multipliers: tuple[float, ...]
    scales: tuple[float, ...]
    share: float = CAP_SHARE
    naming: Naming | None = None
    spared: int = 0

    def __post_init__(self) -> None:
        for name, given in (("multipliers", self.multipliers), ("scales", self.scales)):
            if not given or not all(MIN_BET_FACTOR < value < np.inf for value in given):
                raise InputError(
                    f"the {name} of bets must be positive and finite (above {MIN_BET_FACTOR:g}), got {given}"
                )
        if not 0 < self.share < 1:
            raise InputError(f"share must lie between 0 and 1, got {self.share}")
        if not 0 <= self.spared < len(self.scales):
            raise InputError(f"{self.spared} of {len(self.scales)} rounds cannot be spared; one must be left to bet in")

    def __len__(self) -> int:
        return len(self.multipliers)

    @property
    def experts(self) -> int:
        """K, or 2K for a policy that was named."""
        return len(self) * (1 if self.naming is None else 2)

    def late(self, expert: int) -> bool:
        """Whether this expert waits for the naming."""
        return expert >= len(self)

    def stakes(self, expert: int) -> FloatArray:
        """λ (rounds,)."""
        stakes = self._stakes(expert)
        if self.naming is not None and self.late(expert):
            stakes[: self.naming.round] = 0.0
        stakes[: self.spared] = 0.0
        return stakes

    def caps(self, expert: int) -> FloatArray:
        """M (rounds,)."""
        return np.maximum(self.share / self._stakes(expert) - 1.0, 0.0)

    def _stakes(self, expert: int) -> FloatArray:
        return np.minimum(self.multipliers[expert % len(self)] * np.array(self.scales), MAX_STAKE)
