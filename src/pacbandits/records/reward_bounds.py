"""What is assumed of rewards."""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.checks import flag, number, settle
from pacbandits.confidence import check_noise
from pacbandits.errors import InputError


@dataclass(frozen=True)
class RewardBounds:
    """Mean rewards lie in [0, 1], and `E[r² | c, a] ≤ second_moment`.

    second_moment: that bound, 1 or more.
    in_unit: whether every single reward lies in [0, 1], and not only its mean.
    proxy: a number R² for which noise is R²-sub-Gaussian, where one is known; 1/4 for rewards in [0, 1] (Hoeffding's
        lemma).
    """

    second_moment: float = 1.0
    in_unit: bool = True
    proxy: float | None = None

    def __post_init__(self) -> None:
        bound = number(self.second_moment, name="second_moment, the bound on E[r²],", least=1)
        settle(self, second_moment=bound, in_unit=flag(self.in_unit, name="in_unit"))
        if self.in_unit and self.second_moment > 1.0:
            raise InputError(f"rewards in [0, 1] have E[r²] ≤ 1; a bound of {self.second_moment} does not fit")
        if self.proxy is None and self.in_unit:
            settle(self, proxy=0.25)
        if self.proxy is not None:
            settle(self, proxy=check_noise(self.proxy, name="proxy, the sub-Gaussian proxy of the noise,"))

    def describe(self) -> str:
        """The assumption in words."""
        if self.in_unit:
            return "rewards lie in [0, 1]"
        return f"mean rewards lie in [0, 1], and E[r² | c, a] ≤ {self.second_moment:g}"
