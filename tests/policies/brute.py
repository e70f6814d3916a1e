"""Every tree of a small class, listed the slow way: nothing here is shared with the search under test."""

from __future__ import annotations

import itertools

import numpy as np

from pacbandits.policies.trees.bins import Bins, NumberBins
from pacbandits.records import Contexts


def sides(bins: Bins, contexts: Contexts) -> list[np.ndarray]:
    """For every test of the class, which contexts (n,) it sends left."""
    out: list[np.ndarray] = []
    for feature in bins.features:
        column = contexts.names.index(feature.name)
        values = contexts.features[:, column]
        if isinstance(feature, NumberBins):
            out.extend(np.array([x <= t for x in values]) for t in feature.thresholds)
        else:
            labels = contexts.categories[column]
            assert labels is not None
            asked = feature.labels if len(feature.labels) > 2 else feature.labels[:-1]
            out.extend(np.array([labels[int(x)] == label for x in values]) for label in asked)
    return out


def all_actions(bins: Bins, contexts: Contexts, *, n_actions: int, depth: int) -> np.ndarray:
    """The action of every tree on every context, one row a different behaviour."""
    return all_behaviours(sides(bins, contexts), len(contexts), n_actions=n_actions, depth=depth)


def all_behaviours(tests: list[np.ndarray], n: int, *, n_actions: int, depth: int) -> np.ndarray:
    """The action of every tree of these tests (n,) on every context, one row a different behaviour."""
    found = {(a,) * n for a in range(n_actions)}
    if depth == 0:
        return np.array(sorted(found))

    def side_behaviours() -> set[tuple[int, ...]]:
        out = {(a,) * n for a in range(n_actions)}
        for test in tests:
            for a, b in itertools.product(range(n_actions), repeat=2):
                out.add(tuple(np.where(test, a, b)))
        return out

    stumps = side_behaviours()
    found |= stumps
    if depth == 2:
        rows = np.array(sorted(stumps))
        for test in tests:
            lefts = np.unique(rows[:, test], axis=0)
            rights = np.unique(rows[:, ~test], axis=0)
            for left, right in itertools.product(lefts, rights):
                whole = np.empty(n, dtype=np.int64)
                whole[test], whole[~test] = left, right
                found.add(tuple(whole))
    return np.array(sorted(found))


def values(actions: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Σ_i scores[i, π(c_i)] for every row of actions."""
    return scores[np.arange(scores.shape[0]), actions].sum(axis=1)


def maximal(first: np.ndarray, second: np.ndarray) -> list[tuple[float, float]]:
    """The points no other point dominates, by falling first, found by comparing all with all."""
    points = set(zip(first.tolist(), second.tolist(), strict=True))
    return sorted(
        (p for p in points if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)), reverse=True
    )
