"""Policies that are worth a look before any search: those of one coefficient, and those that always take an action."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.linear.acting import DistinctRows
from pacbandits.policies.linear.ascent import Metric
from pacbandits.policies.linear.grid import count_directions, directions, simplest

_MOST_POOL_ACTIONS = 2**23  # policies of one coefficient × rows: beyond, these policies are left out
_MOST_LISTED_PARAMETERS = 4096  # among which to look for those of constant policies


def simple_parameters(rows: DistinctRows, levels: int, metric: Metric) -> IntArray:
    """Zero, single coefficients of either sign, and what comes nearest to always taking an action; simplest first."""
    d = rows.dimension
    found = [np.zeros((1, d), dtype=np.int64), _constants(rows, levels, metric)]
    if 2 * d * len(rows) <= _MOST_POOL_ACTIONS:
        found.append(np.concatenate([np.eye(d, dtype=np.int64), -np.eye(d, dtype=np.int64)]))
    whole = np.unique(np.concatenate(found), axis=0)
    return whole[np.lexsort((*whole.T[::-1], np.abs(whole).sum(axis=1)))]


def _constants(rows: DistinctRows, levels: int, metric: Metric) -> IntArray:
    """Parameters (K, d) that always take an action, as far as the grid has them; of φ given, the nearest found."""
    z = rows.features.action_features
    if z is not None:
        towards = np.eye(z.shape[1]) if metric.right is None else metric.right
        return _constants_of(z, levels, towards=towards, dimension=rows.dimension)
    wanted = np.eye(rows.n_actions) - 1.0 / rows.n_actions
    pulls = [rows.features.pull(np.tile(row, (len(rows), 1))) for row in wanted]
    return np.concatenate([roundings(metric(pull), levels) for pull in pulls])


def _constants_of(z: FloatArray, levels: int, *, towards: FloatArray, dimension: int) -> IntArray:
    """For every action a parameter that takes it by its coefficients of the constant alone, if there is one.

    towards (k, k): the inverse covariance of z, which turns z(a) into the direction where a stands out.
    """
    k = z.shape[1]
    if count_directions(k, levels) <= _MOST_LISTED_PARAMETERS:
        tried = directions(k, levels)
    else:
        own = (z - z.mean(axis=0)) @ towards
        unit = np.eye(k, dtype=np.int64)
        tried = np.concatenate(
            [0 * unit[:1], unit, -unit, [-unit.sum(axis=0)], *(roundings(row, levels) for row in own)]
        )
    taken = np.argmax(tried @ z.T, axis=1)
    out = np.zeros((len(z), dimension), dtype=np.int64)
    for a in np.unique(taken):
        own_tries = tried[taken == a]
        out[a, :k] = own_tries[simplest(own_tries)]
    return out


def roundings(parameter: FloatArray, levels: int) -> IntArray:
    """A parameter (d,) on the grid, at several scales."""
    size = np.abs(parameter).max()
    if not size > 0:
        return np.zeros((1, len(parameter)), dtype=np.int64)
    scaled = np.linspace(0.6, 2.4, 7)[:, None] * levels * parameter / size
    return np.clip(np.rint(scaled), -levels, levels).astype(np.int64)
