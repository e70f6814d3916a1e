"""Frontiers of trees that are thinned or rounded: outward, and no further than they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies import Trees
from pacbandits.policies.trees.histograms import TreeLimits
from pacbandits.policies.trees.side_fronts import front_beyond_ties, thin
from tests.policies.brute import values
from tests.policies.trees.cases import larger


def test_thinned_frontier_dominates_and_stays_close() -> None:
    contexts, first, _ = larger()
    second = -(first**3)
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    exact = trees.frontier(contexts, first, second)
    assert exact.exact
    limits = TreeLimits(pairs=0, side_points=24)
    thinned = Trees(trees.bins, n_actions=4, limits=limits).frontier(contexts, first, second)
    assert not thinned.exact
    assert_outward(thinned, exact)
    # A side is overstated by at most 2/(cap − 1) of its range, which is at most the sum of its rows' ranges.
    for reported, scores in ((thinned.first, first), (thinned.second, second)):
        error = 2 / 23 * (scores.max(axis=1) - scores.min(axis=1)).sum()
        for i in range(len(thinned)):
            attained = values(thinned.policy(i)(contexts)[None], scores)[0]
            assert reported[i] - error - 1e-9 <= attained <= reported[i] + 1e-9


def test_too_many_survivors_are_rounded_to_intervals() -> None:
    contexts, first, _ = larger()
    second = -(first**3)
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    exact = trees.frontier(contexts, first, second)
    limits = TreeLimits(survivors=50, intervals=64)
    rounded = Trees(trees.bins, n_actions=4, limits=limits).frontier(contexts, first, second)
    assert not rounded.exact
    assert len(rounded) <= 64
    assert_outward(rounded, exact)
    width = (exact.first[0] - exact.first[-1]) / 63
    for i in range(len(rounded)):
        actions = rounded.policy(i)(contexts)[None]
        assert values(actions, second)[0] == pytest.approx(rounded.second[i])
        assert -1e-9 <= rounded.first[i] - values(actions, first)[0] <= width * (1 + 1e-9)


@pytest.mark.parametrize("intervals", [2, 7, 100])
def test_the_number_of_intervals_changes_nothing(intervals: int) -> None:
    contexts, first, second = larger()
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    wanted = trees.frontier(contexts, first, second)
    assert len(wanted) > 2 * intervals or intervals == 100
    got = Trees(trees.bins, n_actions=4, limits=TreeLimits(intervals=intervals)).frontier(contexts, first, second)
    # Of trees that differ by rounding alone another may stand for a point.
    np.testing.assert_allclose(got.first, wanted.first, rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.second, wanted.second, rtol=0, atol=1e-10)


def test_points_apart_by_rounding_are_one() -> None:
    noise = 1e-15
    first, second = np.array([1 + noise, 1.0, 0.5, 0.5 - noise]), np.array([0.0, 2.0, 3.0, 3.0 + noise])
    np.testing.assert_array_equal(front_beyond_ties(first, second, 1e-13, 1e-13), [1, 2])
    np.testing.assert_array_equal(front_beyond_ties(first, second, 0.0, 0.0), [0, 1, 2, 3])


def assert_outward(rounded: object, exact: object) -> None:
    """Every exact point lies below some rounded one, which form a frontier themselves."""
    assert (np.diff(rounded.first) < 0).all()
    assert (np.diff(rounded.second) > 0).all()
    for f, s in zip(exact.first, exact.second, strict=True):
        assert ((rounded.first >= f - 1e-9) & (rounded.second >= s - 1e-9)).any()


@given(st.integers(3, 60), st.integers(3, 20), st.integers(0, 2**32))
def test_thin_keeps_its_promise(n: int, cap: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = np.sort(np.exp(4 * rng.normal(size=n)))[::-1].copy()
    second = np.cumsum(np.exp(4 * rng.normal(size=n)))
    ends = thin(first, second, cap)
    assert len(ends) <= cap
    assert ends[-1] == n
    begin = 0
    for end in ends:
        assert first[begin] - first[end - 1] <= 2 / (cap - 1) * (first[0] - first[-1]) * (1 + 1e-12)
        assert second[end - 1] - second[begin] <= 2 / (cap - 1) * (second[-1] - second[0]) * (1 + 1e-12)
        begin = end
