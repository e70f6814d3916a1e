"""The smallest leaf: trees each leaf of which holds at least a given share of the contexts that were known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.checks import number
from pacbandits.compiled import kernel
from pacbandits.fields import Fields
from pacbandits.policies.trees.bins import Layout
from pacbandits.policies.trees.histograms import Histograms, sum_one
from pacbandits.policies.trees.known import KnownContexts
from pacbandits.policies.trees.sides import bin_moved, next_left, side_totals
from pacbandits.policies.trees.tree import Node

SHARE_ROUNDING = 1e-9  # by which a leaf may seem smaller than it is


@dataclass(frozen=True, eq=False)
class SmallestLeaf:
    """What every leaf of a tree must hold.

    share: of the known contexts, at least.
    known: these contexts, told apart by what trees may ask.
    """

    share: float
    known: KnownContexts

    def __post_init__(self) -> None:
        number(self.share, name="leaf, the share that every leaf must hold,", above=0.0, most=1.0)

    @property
    def least(self) -> float:
        """The share, less rounding."""
        return self.share - SHARE_ROUNDING

    @cached_property
    def roots(self) -> BoolArray:
        """Which splits (S,) leave enough on either side."""
        known, layout = self.known, self.known.bins.layout
        if known.bins.n_splits == 0:
            return np.empty(0, dtype=np.bool_)
        return both_large(sum_one(known.codes, known.weights[:, None], layout.starts), layout, self.least)

    def below(self, j: int) -> BoolArray:
        """Which splits (splits of j, 2, S + 1) may follow on the left and the right of each split of feature j.

        The last of each row says whether the split of feature j may be at all.
        """
        return large_below(self._histograms.of(j), j, self.known.bins.layout, self.least)

    def holds(self, root: Node) -> bool:
        """Whether every leaf of a tree is large enough."""
        known = self.known.contexts

        def fits(node: Node, here: BoolArray) -> bool:
            if isinstance(node, int):
                return float(self.known.weights[here].sum()) >= self.least
            passed = node.test(known)
            return fits(node.then, here & passed) and fits(node.otherwise, here & ~passed)

        return fits(root, np.ones(len(known), dtype=np.bool_))

    def describe(self) -> str:
        """The same in words."""
        return f"each leaf with {100 * self.share:g} % or more of {self.known.n:,} known contexts"

    def to_json(self) -> dict[str, Any]:
        return {"share": self.share, "known": self.known.to_json()}

    @classmethod
    def from_json(cls, given: Fields) -> SmallestLeaf:
        """What `to_json` wrote."""
        given.check_known(("share", "known"))
        return cls(given.number("share"), KnownContexts.from_json(given.fields("known", of="known contexts")))

    @cached_property
    def _histograms(self) -> Histograms:
        return Histograms(self.known.codes, self.known.weights[:, None], self.known.bins.layout)


@kernel
def both_large(sums: FloatArray, layout: Layout, least: float) -> BoolArray:
    """Which splits (S,) leave `least` or more on either side; sums (all bins, 1)."""
    run_bins, run_splits, adding = layout.run_bins, layout.run_splits, layout.adding
    total = side_totals(sums, layout.starts[0], layout.starts[1])[0]
    out = np.empty(run_splits[-1], dtype=np.bool_)
    for r in range(adding.shape[0]):
        left = 0.0
        for t in range(run_splits[r + 1] - run_splits[r]):
            left = sums[run_bins[r] + t, 0] + (left if adding[r] else 0.0)
            out[run_splits[r] + t] = left >= least and total - left >= least
    return out


@kernel
def large_below(block: FloatArray, j: int, layout: Layout, least: float) -> BoolArray:
    """Which splits may follow on either side of each split of feature j (splits of j, 2, S + 1), as `below` has it.

    block (bins of j, all bins, 1): sums by the bins of j and of every feature.
    """
    first, last = layout.split_starts[j], layout.split_starts[j + 1]
    n_splits = layout.run_splits[-1]
    out = np.empty((last - first, 2, n_splits + 1), dtype=np.bool_)
    whole = np.zeros((block.shape[1], block.shape[2]))
    for b in range(block.shape[0]):
        whole += block[b]
    left = np.zeros_like(whole)
    for s in range(last - first):
        moved, adding = bin_moved(layout, j, first + s)
        next_left(left, block, moved, adding)
        right = whole - left
        total_left = side_totals(left, layout.starts[j], layout.starts[j + 1])[0]
        total_right = side_totals(right, layout.starts[j], layout.starts[j + 1])[0]
        large_left, large_right = both_large(left, layout, least), both_large(right, layout, least)
        for t in range(n_splits):  # a slice would take seconds to compile
            out[s, 0, t], out[s, 1, t] = large_left[t], large_right[t]
        out[s, 0, n_splits] = out[s, 1, n_splits] = total_left >= least and total_right >= least
    return out
