"""What linear policies do: φ of contexts in the two forms that kernels know, and the kernels.

The score of an action is added up one coordinate after the other, `((φ_1θ_1 + φ_2θ_2) + φ_3θ_3) + …`, wherever it is
computed: so a row's action depends on nothing but the row, actions with equal φ tie to the last bit, and a search that
keeps partial sums sees what the policy does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.policies.base import compact
from pacbandits.policies.features import Crossed, CrossedOn, FeatureMap, Given, GivenOn
from pacbandits.policies.finite import sum_by_id
from pacbandits.records import Contexts

_ENTRIES = 2**22  # of φ spelled out at a time
_LOOK = 1_000  # rows by which to tell whether many are alike

Table = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """φ of m different rows, and which (n,) of them each context is; None: they are the contexts, in order."""

    mapped: CrossedOn | GivenOn
    which: IntArray | None = None

    def __len__(self) -> int:
        return len(self.mapped.x if isinstance(self.mapped, CrossedOn) else self.mapped.phi)

    @property
    def n_actions(self) -> int:
        return self.mapped.z.shape[0] if isinstance(self.mapped, CrossedOn) else self.mapped.phi.shape[1]

    @property
    def dimension(self) -> int:
        if isinstance(self.mapped, CrossedOn):
            return self.mapped.x.shape[1] * self.mapped.z.shape[1]
        return self.mapped.phi.shape[2]

    def add_up(self, scores: FloatArray) -> FloatArray:
        """Scores (n, A) of the contexts as scores (m, A) of the rows, fit for kernels."""
        if self.which is not None:
            return np.ascontiguousarray(sum_by_id(self.which, scores, n=len(self)))
        # Kernels are compiled once, for arrays that are contiguous and writeable; others are copied.
        return np.require(scores, requirements=("C", "W"))

    def spread_out(self, actions: Table) -> Table:
        """Actions (…, m) of the rows as actions (…, n) of the contexts."""
        return actions if self.which is None else actions[..., self.which]

    def some(self, index: IntArray | slice) -> Rows:
        """The given rows alone."""
        mapped = self.mapped
        if isinstance(mapped, CrossedOn):
            return Rows(replace(mapped, x=mapped.x[index]))
        return Rows(GivenOn(mapped.phi[index]))

    def spelled(self) -> FloatArray:
        """φ (m, A, d)."""
        if isinstance(self.mapped, GivenOn):
            return self.mapped.phi
        x, z = self.mapped.x, self.mapped.z
        return (x[:, None, :, None] * z[:, None, :]).reshape(len(x), len(z), -1)

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """φ in blocks of rows, each with the number of its first row."""
        step = max(1, _ENTRIES // (self.n_actions * self.dimension))
        for start in range(0, len(self), step):
            yield start, self.some(slice(start, start + step)).spelled()


_known: WeakKeyDictionary[FeatureMap, WeakKeyDictionary[Contexts, Rows]] = WeakKeyDictionary()


def rows_of(features: FeatureMap, contexts: Contexts) -> Rows:
    """φ of contexts, kept for as long as the contexts are: designs ask about the same ones again and again."""
    known = _known.setdefault(features, WeakKeyDictionary())
    rows = known.get(contexts)
    if rows is None:
        rows = known[contexts] = _lay_out(features, contexts)
    return rows


def _lay_out(features: FeatureMap, contexts: Contexts) -> Rows:
    if isinstance(features, Given):
        return _given(features, contexts)
    if isinstance(features, Crossed):
        x = features.encode(contexts)
        rows, which = _merge(x)
        return Rows(CrossedOn(_for_kernels(x[rows]), _for_kernels(features.table)), which)
    return Rows(GivenOn(_for_kernels(features(contexts))))


def _given(features: Given, contexts: Contexts) -> Rows:
    phi = contexts.require_phi(n_actions=features.n_actions)
    if phi.dimension != features.dimension:
        raise InputError(f"phi has {phi.dimension} features, but {features.dimension} are needed")
    used, which = np.unique(phi.rows, return_inverse=True)
    own = np.array_equal(which, np.arange(len(contexts)))
    table = phi.table if len(used) == len(phi.table) else phi.table[used]
    return Rows(GivenOn(_for_kernels(table)), None if own else which.reshape(-1))


def is_blocks(z: FloatArray) -> bool:
    """Whether features (A, k) of actions give each of them a block of coefficients of its own, or none."""
    return bool(((z == 0) | (z == 1)).all() and (z.sum(axis=0) == 1).all() and (z.sum(axis=1) <= 1).all())


def _merge(x: FloatArray) -> tuple[IntArray | slice, IntArray | None]:
    """The first of each set of equal rows, and which each row is, where there seem to be many."""
    look = x[:: max(1, len(x) // _LOOK)]
    if len(np.unique(look, axis=0)) > len(look) / 2:
        return slice(None), None
    _, first, which = np.unique(x, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _for_kernels(array: FloatArray) -> FloatArray:
    return np.require(array, dtype=np.float64, requirements=("C", "W"))


def act(rows: Rows, parameter: IntArray) -> IntArray:
    """The action (m,) of the policy with the given θ (d,) on each row."""
    out = np.empty(len(rows), dtype=np.int64)
    mapped = rows.mapped
    if isinstance(mapped, CrossedOn):
        terms = _terms(mapped.z, np.asarray(parameter, dtype=np.float64))
        over_cores(lambda a, b: _act_crossed(mapped.x, *terms, len(mapped.z), out, a, b), count=len(rows))
    else:
        theta = np.ascontiguousarray(parameter, dtype=np.float64)
        over_cores(lambda a, b: _act_given(mapped.phi, theta, out, a, b), count=len(rows))
    return out


def _terms(z: FloatArray, theta: FloatArray) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """What is not zero in ⟨x ⊗ z(a), θ⟩, in the order of θ: the column of x, the action a, its z, and θ."""
    used = np.flatnonzero(theta)
    columns, features = np.divmod(used, z.shape[1])
    place, actions = np.nonzero(z.T[features])
    return columns[place], actions, z[actions, features[place]], theta[used[place]]


def act_all(rows: Rows, parameters: Table) -> Table:
    """The action (K, m) of each of K policies θ (K, d); quickest when neighbours share their first coordinates."""
    out = np.empty((len(parameters), len(rows)), dtype=compact(rows.n_actions))
    thetas = np.ascontiguousarray(parameters, dtype=np.float64)
    for start, phi in rows.blocks():
        turned = np.ascontiguousarray(phi.transpose(2, 1, 0))
        over_cores(lambda a, b, t=turned, s=start: _act_all(t, thetas, out, s, a, b), count=len(thetas))
    return out


@kernel
def _act_crossed(
    x: FloatArray,
    columns: IntArray,
    actions: IntArray,
    features: FloatArray,
    thetas: FloatArray,
    n_actions: int,
    out: IntArray,
    start: int,
    stop: int,
) -> None:
    scores = np.empty(n_actions)
    for i in range(start, stop):
        scores[:] = 0.0
        for e in range(columns.shape[0]):
            scores[actions[e]] += (x[i, columns[e]] * features[e]) * thetas[e]
        best = 0
        for a in range(1, n_actions):
            if scores[a] > scores[best]:
                best = a
        out[i] = best


@kernel
def _act_given(phi: FloatArray, theta: FloatArray, out: IntArray, start: int, stop: int) -> None:
    for i in range(start, stop):
        best, top = 0, -np.inf
        for a in range(phi.shape[1]):
            score = 0.0
            for j in range(phi.shape[2]):
                score += phi[i, a, j] * theta[j]
            if score > top:
                best, top = a, score
        out[i] = best


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
        phi[:, :, :size] = turned[:, :, first : first + size]
        for k in range(start, stop):
            same = 0
            if k > start:
                while same < d and thetas[k, same] == thetas[k - 1, same]:
                    same += 1
            for j in range(same, d):
                for a in range(n_actions):
                    _add(sums[j, a], phi[j, a], thetas[k, j], sums[j + 1, a], size)
            top[:size] = sums[d, 0, :size]
            best[:size] = 0
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
