"""The paper's estimates of values and gaps: importance weighting, its regularised form, and Catoni's mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, check_shape, floats, read_only
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log

# A log sorted by context and action, so that a policy's rows are found without a search.


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of a log in the order of their cell (c, a).

    contexts: the m distinct contexts.
    n_actions: A.
    starts (m·A + 1,): rows starts[c·A + a] to starts[c·A + a + 1] belong to (c, a).
    rewards (n,): of the rows.
    propensities (n,): of the actions played.
    repeats (n,): the number of interactions that each row stands for.
    """

    contexts: Contexts
    n_actions: int
    starts: IntArray
    rewards: FloatArray
    propensities: FloatArray
    repeats: FloatArray

    @property
    def samples(self) -> int:
        """The number of interactions."""
        return int(self.repeats.sum())

    def check_actions(self, actions: np.ndarray[Any, Any], *, name: str, shape: tuple[int | None, ...]) -> None:
        """Raise unless these are actions of the cells: kernels look them up in `starts` without a further check."""
        if actions.dtype.kind not in "iu":
            raise InputError(f"{name} must be integers, got {actions.dtype}")
        check_shape(actions, name=name, shape=shape)
        if actions.size and (actions.min() < 0 or actions.max() >= self.n_actions):
            bad = actions.min() if actions.min() < 0 else actions.max()
            raise InputError(f"{name} must be between 0 and {self.n_actions - 1}, as in the log; got {bad}")

    @classmethod
    def of(cls, log: Log) -> Cells:
        """Return the cells of a log; contexts are distinguished by id, or by features if there are no ids."""
        first, which = log.contexts.distinct()
        cell = which * log.n_actions + log.actions
        order = np.argsort(cell, kind="stable")
        sizes = np.bincount(cell, minlength=len(first) * log.n_actions)
        return cls(
            contexts=log.contexts.take(first),
            n_actions=log.n_actions,
            starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            rewards=log.rewards[order],
            propensities=log.propensities[order, log.actions[order]],
            repeats=log.repeats[order].astype(np.float64),
        )


# Catoni's mean: as accurate on heavy tails as the sample mean is on normal ones (Catoni 2012).
#
# The estimate θ of the mean of X_1 … X_n solves
#
#     Σ_i ψ(α(X_i − θ)) = 0,     ψ(x) = sign(x) log(1 + |x| + x²/2)
#
# with α from `pacbandits.confidence.catoni_scale`. The left side falls strictly in θ and is smooth but for a kink of
# second order, so Newton steps inside a bracket find the root in a few passes. Here X_i is the importance-weighted
# difference of two policies, `r_i/p_i (1{q(c_i) = a_i} − 1{π(c_i) = a_i})`: zero on every row that neither would play,
# so only the rows of cells on which the two differ are visited.


# Bisection alone would need about 60.
_MAX_NEWTON_PASSES = 200


def catoni_means(values: FloatArray, *, alpha: FloatArray, repeats: FloatArray | None = None) -> FloatArray:
    """Return Catoni's mean (K,) of each row of values (K, n) with α (K,) ≥ 0; `repeats` (n,) counts the columns."""
    values = floats(values, name="values", shape=(None, None))
    counts = np.ones(values.shape[1]) if repeats is None else floats(repeats, name="repeats", shape=(values.shape[1],))
    scales = _scales(alpha, shape=(len(values),))
    out = np.empty(len(values))
    counts = read_only(counts)
    over_cores(lambda a, b: _means(values, counts, scales, out, a, b), count=len(values))
    return out


def catoni_gaps(cells: Cells, actions: np.ndarray[Any, Any], *, reference: IntArray, alpha: FloatArray) -> FloatArray:
    """Return Δ̂(π, q) (K,), positive if q is better (corrections, row 3), for actions (K, m), q's (m,) and α (K,)."""
    cells.check_actions(actions, name="actions", shape=(None, len(cells.contexts)))
    cells.check_actions(reference, name="reference", shape=(len(cells.contexts),))
    scales = _scales(alpha, shape=(len(actions),))
    out = np.empty(len(actions))
    rows, table, other = _WeightedRows.of(cells), read_only(actions), read_only(reference)
    over_cores(lambda a, b: _gaps(rows, table, other, scales, out, a, b), count=len(actions))
    return out


def catoni_leads(cells: Cells, actions: np.ndarray[Any, Any], *, alpha: FloatArray) -> FloatArray:
    """Return lead (K, K): estimates of V(π_i) − V(π_j), for actions (K, m) and α (K, K); lead[j, i] = −lead[i, j]."""
    cells.check_actions(actions, name="actions", shape=(None, len(cells.contexts)))
    size = len(actions)
    alpha = _scales(alpha, shape=(size, size))
    out = np.zeros((size, size))
    rows, table = _WeightedRows.of(cells), read_only(actions)
    first, second = np.triu_indices(size, k=1)
    leads, scales = np.empty(len(first)), read_only(np.ascontiguousarray(alpha[first, second]))
    over_cores(
        lambda a, b: _leads(rows, table, first, second, scales, leads, a, b),
        count=len(first),
        chunks_per_core=32,
    )
    out[first, second] = leads
    out[second, first] = -leads
    return out


def _scales(alpha: FloatArray, *, shape: tuple[int, ...]) -> FloatArray:
    scales = floats(alpha, name="alpha", shape=shape)
    if scales.size and scales.min() < 0:
        raise InputError(f"alpha must be 0 or more, got {scales.min()}")
    return scales


class _WeightedRows(NamedTuple):
    """The rows of a log in the order of their cell, as in `Cells`.

    starts (m·A + 1,): where each cell begins.
    values (n,): r/p.
    repeats (n,): the number of interactions that each row stands for.
    n_actions: A.
    """

    starts: IntArray
    values: FloatArray
    repeats: FloatArray
    n_actions: int

    @classmethod
    def of(cls, cells: Cells) -> _WeightedRows:
        return cls(cells.starts, cells.rewards / cells.propensities, cells.repeats, cells.n_actions)


@kernel
def _root(values: FloatArray, counts: FloatArray, size: int, zeros: float, alpha: float) -> float:
    """Return the root of Σ counts ψ(α(values − θ)) + zeros ψ(−αθ), over the first `size` values."""
    low, high = (0.0, 0.0) if zeros > 0 else (np.inf, -np.inf)
    total, mean = zeros, 0.0
    for i in range(size):
        low, high = min(low, values[i]), max(high, values[i])
        total += counts[i]
        mean += counts[i] * values[i]
    if low >= high:
        return low
    theta = mean / total
    if alpha <= 0.0:
        return theta  # the limit of α → 0
    narrow = 1e-13 * (high - low)
    for _ in range(_MAX_NEWTON_PASSES):
        far = abs(alpha * theta)
        more = far + 0.5 * far * far
        value = zeros * (-math.log1p(more) if theta >= 0 else math.log1p(more))
        slope = zeros * (1.0 + far) / (1.0 + more)
        for i in range(size):
            x = alpha * (values[i] - theta)
            far = abs(x)
            more = far + 0.5 * far * far
            value += counts[i] * (math.log1p(more) if x >= 0 else -math.log1p(more))
            slope += counts[i] * (1.0 + far) / (1.0 + more)
        if value > 0:
            low = theta
        else:
            high = theta
        step = value / (alpha * slope)
        new = theta + step
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - theta) <= narrow:
            return new
        theta = new
    return theta


@kernel
def _means(values: FloatArray, counts: FloatArray, alpha: FloatArray, out: FloatArray, first: int, last: int) -> None:
    for k in range(first, last):
        out[k] = _root(values[k], counts, values.shape[1], 0.0, alpha[k])


@kernel
def _difference(
    rows: _WeightedRows,
    better: np.ndarray[Any, Any],
    worse: np.ndarray[Any, Any],
    values: FloatArray,
    counts: FloatArray,
) -> int:
    """Gather the nonzero values of r/p (1{better plays} − 1{worse plays}); return their number."""
    size = 0
    for c in range(better.shape[0]):
        if better[c] != worse[c]:
            cell = c * rows.n_actions + better[c]
            for i in range(rows.starts[cell], rows.starts[cell + 1]):
                if rows.values[i] != 0.0:
                    values[size] = rows.values[i]
                    counts[size] = rows.repeats[i]
                    size += 1
            cell = c * rows.n_actions + worse[c]
            for i in range(rows.starts[cell], rows.starts[cell + 1]):
                if rows.values[i] != 0.0:
                    values[size] = -rows.values[i]
                    counts[size] = rows.repeats[i]
                    size += 1
    return size


@kernel
def _gaps(
    rows: _WeightedRows,
    actions: np.ndarray[Any, Any],
    reference: IntArray,
    alpha: FloatArray,
    out: FloatArray,
    first: int,
    last: int,
) -> None:
    values, counts = np.empty(len(rows.values)), np.empty(len(rows.values))
    samples = rows.repeats.sum()
    for k in range(first, last):
        size = _difference(rows, reference, actions[k], values, counts)
        out[k] = _root(values, counts, size, samples - counts[:size].sum(), alpha[k])


@kernel
def _leads(
    rows: _WeightedRows,
    actions: np.ndarray[Any, Any],
    first: IntArray,
    second: IntArray,
    alpha: FloatArray,
    out: FloatArray,
    start: int,
    stop: int,
) -> None:
    values, counts = np.empty(len(rows.values)), np.empty(len(rows.values))
    samples = rows.repeats.sum()
    for k in range(start, stop):
        i, j = first[k], second[k]
        size = _difference(rows, actions[i], actions[j], values, counts)
        out[k] = _root(values, counts, size, samples - counts[:size].sum(), alpha[k])


# Importance weighting and its regularised form (implicit exploration), with 1/n in front (corrections, row 1).
#
#     V̂^γ(π)    = (1/n) Σ_i r_i/(p_i + γ) 1{π(c_i) = a_i}
#     Δ̂^γ(π, q) = (1/n) Σ_i r_i/(p_i + γ_π) (1{q(c_i) = a_i} − 1{π(c_i) = a_i})
#
# γ = 0 is plain importance weighting: unbiased, with tails as heavy as 1/p. γ > 0 bounds every term by 1/γ at the price
# of a bias of at most γV.


def regularised_scores(log: Log, *, gamma: float = 0.0) -> FloatArray:
    """Return scores (n, A), one row per row of the log, whose sum over π's actions is V̂^γ(π), for one γ ≥ 0."""
    if not 0 <= gamma < np.inf:
        raise InputError(f"gamma must be 0 or more and finite, got {gamma}")
    rows = np.arange(len(log))
    scores = np.zeros((len(log), log.n_actions))
    played = log.propensities[rows, log.actions]
    scores[rows, log.actions] = log.repeats * log.rewards / (played + gamma) / log.samples
    return scores


def regularised_gaps(
    cells: Cells, actions: np.ndarray[Any, Any], *, reference: IntArray, gamma: FloatArray
) -> FloatArray:
    """Return Δ̂^γ(π, q) (K,) for actions (K, m) on the cells' contexts, q's actions (m,) and γ_π ≥ 0 (K,).

    γ_π may be infinite, which makes the estimate 0.
    """
    cells.check_actions(actions, name="actions", shape=(None, len(cells.contexts)))
    cells.check_actions(reference, name="reference", shape=(len(cells.contexts),))
    gamma = np.asarray(gamma, dtype=np.float64)
    floats(np.where(np.isinf(gamma), 0.0, gamma), name="gamma", shape=(len(actions),))
    if gamma.size and gamma.min() < 0:
        raise InputError(f"gamma must be 0 or more, got {gamma.min()}")
    out = np.empty(len(actions))
    rows = _Rows(cells.starts, cells.rewards, cells.propensities, cells.repeats, cells.n_actions)
    table, other = read_only(actions), read_only(reference)
    over_cores(lambda a, b: _regularised_gaps(rows, table, other, gamma, out, a, b), count=len(actions))
    return out / cells.samples


class _Rows(NamedTuple):
    """The fields of `Cells` that the kernel reads; explained there."""

    starts: IntArray
    rewards: FloatArray
    propensities: FloatArray
    repeats: FloatArray
    n_actions: int


@kernel
def _regularised_gaps(
    rows: _Rows,
    actions: np.ndarray[Any, Any],
    reference: IntArray,
    gamma: FloatArray,
    out: FloatArray,
    first: int,
    last: int,
) -> None:
    starts = rows.starts
    for k in range(first, last):
        total = 0.0
        for c in range(actions.shape[1]):
            own, other = actions[k, c], reference[c]
            if own != other:
                base = c * rows.n_actions
                for i in range(starts[base + other], starts[base + other + 1]):
                    total += rows.repeats[i] * rows.rewards[i] / (rows.propensities[i] + gamma[k])
                for i in range(starts[base + own], starts[base + own + 1]):
                    total -= rows.repeats[i] * rows.rewards[i] / (rows.propensities[i] + gamma[k])
        out[k] = total
