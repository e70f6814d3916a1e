"""Frontiers of points and of sums of points, against comparing all with all."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies.finite import SORTED_SUMS_PER_INTERVAL, pareto, pareto_of_sums
from tests.policies.brute import maximal

whole = st.integers(-5, 5).map(float)
points = st.lists(st.tuples(whole, whole), min_size=1, max_size=30)


def arrays(pairs: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.array(pairs).T
    return first.copy(), second.copy()


@given(points)
def test_pareto_keeps_what_nothing_dominates(pairs: list[tuple[float, float]]) -> None:
    first, second = arrays(pairs)
    keep = pareto(first, second)
    assert [(first[i], second[i]) for i in keep] == maximal(first, second)
    # Of equal points the first one stands.
    assert all(pairs.index((first[i], second[i])) == i for i in keep)


def front(pairs: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    first, second = arrays(pairs)
    keep = pareto(first, second)
    return first[keep], second[keep]


@given(points, points, st.sampled_from([2, 3, 8, 1000]))
def test_sums_are_dominated_and_exact_ones_attained(
    left: list[tuple[float, float]], right: list[tuple[float, float]], bins: int
) -> None:
    (fa, sa), (fb, sb) = front(left), front(right)
    first, second, pair, exact = pareto_of_sums(fa, sa, fb, sb, bins)
    sums_first, sums_second = (fa[:, None] + fb).ravel(), (sa[:, None] + sb).ravel()
    wanted = maximal(sums_first, sums_second)
    assert len(first) <= bins
    assert (np.diff(first) < 0).all()
    assert (np.diff(second) > 0).all()
    for f, s in wanted:
        assert ((first >= f) & (second >= s)).any()
    # Outward in first alone, by at most one interval of its fourth root; second is attained.
    np.testing.assert_array_equal(second, sums_second[pair])
    reach = sums_first.max() - sums_first.min()
    assert (first >= sums_first[pair]).all()
    if reach > 1e-300:
        roots = [((f - sums_first.min()) / reach) ** 0.25 for f in (first, sums_first[pair])]
        assert (roots[0] - roots[1] <= 1.001 / bins).all()
    if exact:
        assert list(zip(first, second, strict=True)) == wanted
    if len(wanted) <= bins and len(sums_first) <= SORTED_SUMS_PER_INTERVAL * bins:
        assert exact


def test_a_range_too_narrow_to_divide_is_one_interval() -> None:
    tiny = np.array([5e-324, 0.0])
    first, second, pair, exact = pareto_of_sums(tiny, np.array([0.0, 1.0]), tiny, np.array([0.0, 1.0]), 2)
    assert (first.tolist(), second.tolist(), pair.tolist(), exact) == ([1e-323], [2.0], [3], False)
