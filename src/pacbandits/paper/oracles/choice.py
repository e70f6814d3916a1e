"""What a search through oracles hands back."""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.records import Policy


@dataclass(frozen=True, eq=False)
class Choice:
    """A policy that a search found. Bounds rest on the oracle's being exact, and hold to rounding.

    policy: itself.
    value: what it attains.
    bound: what no policy can beat; the value itself where the search is exact.
    calls: the oracle calls it took to know.
    """

    policy: Policy
    value: float
    bound: float
    calls: int
