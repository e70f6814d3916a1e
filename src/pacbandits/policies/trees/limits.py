"""What the exact search for trees may take, in memory and in time, before it computes anew or rounds outward."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TreeLimits:
    """Limits of the search for trees of depth 2; no limit changes the argmax, and a frontier that is rounded says so.

    kept_bytes: joint sums that take more are made anew for each root feature: twice the additions, hardly any memory.
    pairs: sides of roots are thinned when all roots together would have more pairs of points (a second of work).
    side_points: but no side is thinned to fewer points.
    intervals: into how many intervals the first score is cut: enough that hardly more pairs than the frontier's own
        survive the scan, few enough for the cache.
    survivors: when more pairs survive (scores that mirror each other), the intervals' corners become the frontier.
    """

    kept_bytes: int = 1 << 30
    pairs: int = 100_000_000
    side_points: int = 64
    intervals: int = 1 << 14
    survivors: int = 2_000_000

    def points_of_a_side(self, n_splits: int) -> int:
        """How many points a side of a root keeps at the most, with so many roots."""
        return max(self.side_points, math.isqrt(self.pairs // n_splits))
