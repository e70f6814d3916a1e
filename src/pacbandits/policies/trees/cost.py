"""What a search for trees takes: rows added up by pairs of features, and pairs of splits looked at.

Legend: n rows, d features, B bins and S splits of all features together, A actions.

    argmax      n d²/2 additions to the sums of two features' bins, A scores each (d² when they are made twice),
                S² pairs of a root and a split below it, A actions compared in each
    frontier    the same for 2A scores, and the frontiers of S² pairs of leaves

The speeds below were measured on one core of 2024 (benchmarks/estimates.py measures them again).
"""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.compiled import cores
from pacbandits.policies.base import SearchCost
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.growth import Effort
from pacbandits.policies.trees.limits import TreeLimits

SECONDS_PER_CALL = 2e-3  # of anything, however small
SECONDS_PER_ROW_AND_PAIR = 4e-9  # of features, before the first score is added
SECONDS_PER_ADDITION = 0.6e-9
SECONDS_PER_SPLIT_PAIR = 20e-9
SECONDS_PER_COMPARISON = 8e-9  # of an action, at a pair of splits
SECONDS_PER_FRONTIER_STEP = 80e-9  # of an action, at a pair of splits
SECONDS_PER_PAIR_OF_POINTS = 1e-8  # of the two sides of a root
BYTES_PER_FRONTIER_POINT = 80.0  # twice: in parts, and then as a whole
BYTES_PER_NUMBER = 8.0
SHARED_FRONTIER_BYTES = 2e7


@dataclass(frozen=True)
class TreeSizes:
    """What the work depends on.

    n_features: d.
    n_bins: B.
    most_bins: of one feature.
    n_splits: S.
    n_actions: A.
    kept_bytes: up to which joint sums are kept.
    """

    n_features: int
    n_bins: int
    most_bins: int
    n_splits: int
    n_actions: int
    kept_bytes: int = TreeLimits.kept_bytes

    @classmethod
    def of(cls, bins: Bins, *, n_actions: int, kept_bytes: int = TreeLimits.kept_bytes) -> TreeSizes:
        counts = [feature.n_bins for feature in bins.features]
        return cls(len(counts), sum(counts), max(counts, default=0), bins.n_splits, n_actions, kept_bytes)

    def keeps(self, width: int) -> bool:
        """Whether the joint sums of so many scores are kept, so that each pair of features is added up once."""
        return self.n_bins**2 * width * BYTES_PER_NUMBER <= self.kept_bytes

    def adding(self, n_rows: float, pairs: float, width: int) -> float:
        """Seconds of one core for adding up so many scores of so many rows by pairs of features."""
        return n_rows * pairs * (SECONDS_PER_ROW_AND_PAIR + width * SECONDS_PER_ADDITION)

    def summing(self, n_rows: float, width: int) -> float:
        """The same for all pairs, once or (where sums are not kept) twice."""
        pairs = self.n_features * (self.n_features + 1) / 2 if self.keeps(width) else self.n_features**2
        return self.adding(n_rows, pairs, width)

    @property
    def scanning(self) -> float:
        """Seconds of one core for looking at all pairs of splits."""
        return self.n_splits**2 * (SECONDS_PER_SPLIT_PAIR + self.n_actions * SECONDS_PER_COMPARISON)

    def sums_bytes(self, n_rows: int, width: int) -> float:
        """Scores, codes and the sums that are held at once: all, or those of one feature a core."""
        rows = n_rows * (2 * width * BYTES_PER_NUMBER + self.n_features)
        a_core = (self.most_bins + 3) * self.n_bins * width * BYTES_PER_NUMBER
        kept = self.n_bins**2 * width * BYTES_PER_NUMBER + cores() * 3 * self.n_bins * width * BYTES_PER_NUMBER
        return rows + (kept if self.keeps(width) else cores() * a_core)


def argmax_cost(sizes: TreeSizes, n_rows: int, *, depth: int) -> SearchCost:
    """The exact search for the best tree of depth 0, 1 or 2."""
    seconds = SECONDS_PER_CALL + _shallow(sizes, n_rows, depth) / (cores() if depth == 2 else 1)
    bytes_ = sizes.sums_bytes(n_rows, sizes.n_actions) if depth == 2 else n_rows * sizes.n_actions * BYTES_PER_NUMBER
    return SearchCost(seconds, bytes_)


def frontier_cost(sizes: TreeSizes, n_rows: int, *, depth: int, limits: TreeLimits) -> SearchCost:
    """The frontier of two scores over all trees of depth 0, 1 or 2."""
    width = 2 * sizes.n_actions
    if depth < 2 or sizes.n_splits == 0:
        seconds = sizes.adding(n_rows, sizes.n_features, width) + sizes.n_splits * width * SECONDS_PER_FRONTIER_STEP
        return SearchCost(SECONDS_PER_CALL + seconds, n_rows * 2 * width * BYTES_PER_NUMBER)
    steps = sizes.n_splits**2 * sizes.n_actions * SECONDS_PER_FRONTIER_STEP
    most_points = limits.points_of_a_side(sizes.n_splits)
    points = min(most_points, sizes.n_splits * sizes.n_actions)
    pairing = sizes.n_splits * (points / 4) ** 2 * SECONDS_PER_PAIR_OF_POINTS
    held = 2 * sizes.n_splits * points * BYTES_PER_FRONTIER_POINT + SHARED_FRONTIER_BYTES
    seconds = SECONDS_PER_CALL + (sizes.summing(n_rows, width) + steps + pairing) / cores()
    return SearchCost(seconds, sizes.sums_bytes(n_rows, width) + held)


def deep_cost(sizes: TreeSizes, n_rows: int, *, depth: int, effort: Effort) -> SearchCost:
    """The search for a good tree of depth 3 or more; it follows `DeepSearch.best`."""
    sums = max(1, sizes.n_splits * sizes.n_bins * sizes.n_actions)
    tried = min(effort.roots_tried(depth, sums=sums), sizes.n_splits)
    twice = 1 if sizes.keeps(sizes.n_actions) else 2

    def grow(rows: float, left: int) -> float:
        if left <= 2:
            return _shallow(sizes, rows, left) + SECONDS_PER_CALL
        for_each = sizes.adding(rows, sizes.n_features**2, sizes.n_actions) * twice + SECONDS_PER_CALL
        roots = _shallow(sizes, rows, 2) + min(sizes.n_features, tried) * for_each + 2 * tried * sizes.scanning
        below = 2 * effort.trees_grown(depth, left, sums=sums) * grow(rows / 2, left - 1)
        return _shallow(sizes, rows, 2) + SECONDS_PER_CALL + roots + below

    seconds = grow(n_rows, 2) + grow(n_rows, depth)
    if depth > 3 or tried < sizes.n_splits:
        seconds += 4 * grow(n_rows / 4, depth - 2)
    sides = 2.0 * sizes.n_features * sizes.n_splits * BYTES_PER_NUMBER
    rows_bytes = depth * n_rows * (sizes.n_actions * BYTES_PER_NUMBER + sizes.n_features)
    return SearchCost(seconds / cores(), sizes.sums_bytes(n_rows, sizes.n_actions) + sides + rows_bytes)


def _shallow(sizes: TreeSizes, n_rows: float, depth: int) -> float:
    """Seconds of one core for the best tree of depth 0, 1 or 2."""
    if depth == 0:
        return n_rows * sizes.n_actions * SECONDS_PER_ADDITION
    if depth == 1:
        looking = sizes.n_splits * sizes.n_actions * SECONDS_PER_COMPARISON
        return sizes.adding(n_rows, sizes.n_features, sizes.n_actions) + looking
    return sizes.summing(n_rows, sizes.n_actions) + sizes.scanning
