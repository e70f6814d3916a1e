"""The search over cones against functions whose maximum over unit vectors is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from pacbandits.realizable.cones import bound_directions


@dataclass(eq=False)
class LongestRow:
    """max_k |⟨x_k, u⟩|, which is convex and homogeneous, and at most the length of the longest x."""

    rows: np.ndarray
    level: float
    most_halved: int = 10**6
    asked: list[np.ndarray] = field(default_factory=list)

    def heights(self, vectors):
        self.asked.append(vectors)
        return np.abs(vectors @ self.rows.T).max(axis=1)

    def bounds(self, corners, heights):
        return np.linalg.norm(np.linalg.solve(corners, heights[:, :, None])[:, :, 0], axis=1)

    def enough(self):
        return self.level

    def choose(self, bounds, *, halved):
        return np.arange(len(bounds) if halved < self.most_halved else 0)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_halving_brings_the_bound_down_to_the_maximum_and_never_below(d):
    rows = np.random.default_rng(d).standard_normal((5, d))
    truth = np.linalg.norm(rows, axis=1).max()
    bounds = [bound_directions(LongestRow(rows, 1.02 * truth, most), dimension=d) for most in (0, 10, 10**6)]
    assert bounds[0] >= bounds[1] >= bounds[2] >= truth * (1 - 1e-12)
    assert bounds[2] <= 1.02 * truth
    assert d == 1 or bounds[0] > 1.02 * truth


def test_every_corner_is_a_unit_vector_and_is_asked_for_once():
    problem = LongestRow(np.random.default_rng(0).standard_normal((5, 3)), 1.0, most_halved=50)
    bound_directions(problem, dimension=3)
    first, *later = problem.asked
    assert len(first) == 6
    assert len(later) >= 3
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(problem.asked), axis=1), 1)
    assert [len(one) for one in later[:2]] == [8, 16]  # one new corner for each cone that is halved


def test_cones_below_what_is_enough_are_left_alone():
    problem = LongestRow(np.eye(2), 10.0)
    assert bound_directions(problem, dimension=2) == pytest.approx(np.sqrt(2))
    assert len(problem.asked) == 1
