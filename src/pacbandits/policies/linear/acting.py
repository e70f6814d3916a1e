"""What linear policies do on contexts: φ of the different rows among them, and the action of many policies at once.

Scores are added up as `features.rows` says, one coordinate after the other, also where sums are shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.policies.base import compact
from pacbandits.policies.features import CompactMap, FeatureMap, FeatureRows, SpelledRows
from pacbandits.policies.features.rows import for_kernels
from pacbandits.policies.finite import sum_by_id
from pacbandits.policies.memory import PerContexts
from pacbandits.records import Contexts

_BLOCK_ENTRIES = 2**22  # of φ, spelled out at a time

Table = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """φ of the different rows among contexts.

    features: φ of m rows.
    which (n,): the row that each context is; None: they are the contexts, in order.
    """

    features: FeatureRows
    which: IntArray | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_actions(self) -> int:
        return self.features.n_actions

    @property
    def dimension(self) -> int:
        return self.features.dimension

    def add_up(self, scores: FloatArray) -> FloatArray:
        """Scores (n, A) of the contexts as scores (m, A) of the rows, fit for kernels."""
        if self.which is not None:
            return np.ascontiguousarray(sum_by_id(self.which, scores, n=len(self)))
        # Kernels are compiled once, for arrays that are contiguous and writeable; others are copied.
        return np.require(scores, requirements=("C", "W"))

    def spread_out(self, actions: Table) -> Table:
        """Actions (…, m) of the rows as actions (…, n) of the contexts."""
        return actions if self.which is None else actions[..., self.which]

    def some(self, index: IntArray | slice) -> DistinctRows:
        """The given rows alone."""
        return DistinctRows(self.features.some(index))

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """φ in blocks of rows, each with the number of its first row."""
        step = max(1, _BLOCK_ENTRIES // (self.n_actions * self.dimension))
        for start in range(0, len(self), step):
            yield start, self.features.some(slice(start, start + step)).spelled()


_known: WeakKeyDictionary[FeatureMap, PerContexts[DistinctRows]] = WeakKeyDictionary()


def rows_of(features: FeatureMap, contexts: Contexts) -> DistinctRows:
    """φ of contexts, kept for as long as both are."""
    return _known.setdefault(features, PerContexts()).get(contexts, lambda own: _lay_out(features, own))


def _lay_out(features: FeatureMap, contexts: Contexts) -> DistinctRows:
    if isinstance(features, CompactMap):
        return DistinctRows(*features.lay_out(contexts))
    return DistinctRows(SpelledRows(for_kernels(features(contexts))))


def act(rows: DistinctRows, parameter: IntArray) -> IntArray:
    """The action (m,) of the policy with the given θ (d,) on each row."""
    return rows.features.act(parameter)


def act_all(rows: DistinctRows, parameters: Table) -> Table:
    """The action (K, m) of each of K policies θ (K, d); quickest when neighbours share their first coordinates."""
    out = np.empty((len(parameters), len(rows)), dtype=compact(rows.n_actions))
    thetas = np.ascontiguousarray(parameters, dtype=np.float64)
    for start, phi in rows.blocks():
        turned = np.ascontiguousarray(phi.transpose(2, 1, 0))
        over_cores(lambda a, b, t=turned, s=start: _act_all(t, thetas, out, s, a, b), count=len(thetas))
    return out


@kernel
def _act_all(turned: FloatArray, thetas: FloatArray, out: Table, offset: int, start: int, stop: int) -> None:
    """turned: φ as (d, A, m), so that rows lie side by side; they are written from column `offset` on.

    Sums over the coordinates that a θ shares with the one before it are kept.
    """
    d, n_actions, m = turned.shape
    width = 256
    sums, phi = np.zeros((d + 1, n_actions, width)), np.empty((d, n_actions, width))
    top, best = np.empty(width), np.zeros(width, dtype=np.int64)
    for first in range(0, m, width):
        size = min(width, m - first)
        for j in range(d):  # slices would take seconds to compile
            for a in range(n_actions):
                for i in range(size):
                    phi[j, a, i] = turned[j, a, first + i]
        for k in range(start, stop):
            same = 0
            if k > start:
                while same < d and thetas[k, same] == thetas[k - 1, same]:
                    same += 1
            for j in range(same, d):
                for a in range(n_actions):
                    _add(sums[j, a], phi[j, a], thetas[k, j], sums[j + 1, a], size)
            for i in range(size):
                top[i], best[i] = sums[d, 0, i], 0
            for a in range(1, n_actions):
                _take(sums[d, a], a, top, best, size)
            for i in range(size):
                out[k, offset + first + i] = best[i]


@kernel
def _add(before: FloatArray, phi: FloatArray, theta: float, out: FloatArray, size: int) -> None:
    for i in range(size):
        out[i] = before[i] + phi[i] * theta


@kernel
def _take(scores: FloatArray, action: int, top: FloatArray, best: IntArray, size: int) -> None:
    for i in range(size):
        new = scores[i] > top[i]
        top[i] = scores[i] if new else top[i]
        best[i] = action if new else best[i]
