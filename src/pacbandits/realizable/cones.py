"""Branch and bound over directions: cones that cover all directions, halved where their bounds are large.

A convex function on a cone is bounded by its values at the cone's corners, the more tightly the narrower the cone. The
search begins with the 2^d orthants. The caller defines how a cone is bounded, which bound is low enough and which
cones are halved next: `deviation` tries to prove a target, `policy_search` seeks the least bound within an effort.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray


class ConeProblem(Protocol):
    """A function to be bounded over all unit vectors, with its effort."""

    def heights(self, vectors: FloatArray) -> FloatArray:
        """Return what `bounds` needs of each unit vector (m, d) that becomes a corner: (m,). Called once for each."""
        ...

    def bounds(self, corners: FloatArray, heights: FloatArray) -> FloatArray:
        """Return upper bounds (K,) over the unit vectors in cones of corners (K, d, d), given their heights (K, d)."""
        ...

    def enough(self) -> float:
        """Return the bound below which a cone is not halved; it may only rise."""
        ...

    def choose(self, bounds: FloatArray, *, halved: int) -> IntArray:
        """Return which cones to halve next, of those with bounds (K,) above `enough`; none to stop.

        halved: the number of cones halved so far.
        """
        ...


@dataclass(frozen=True, eq=False)
class Cones:
    """K cones of directions of R^d.

    corners (K, d, d): unit vectors.
    heights (K, d): the problem's `heights` at the corners.
    bounds (K,): upper bounds over the unit vectors in each cone.
    """

    corners: FloatArray
    heights: FloatArray
    bounds: FloatArray

    def __len__(self) -> int:
        return len(self.bounds)

    def only(self, which: BoolArray | IntArray) -> Cones:
        return Cones(self.corners[which], self.heights[which], self.bounds[which])

    def followed_by(self, others: Cones) -> Cones:
        return Cones(
            np.concatenate([self.corners, others.corners]),
            np.concatenate([self.heights, others.heights]),
            np.concatenate([self.bounds, others.bounds]),
        )


def bound_directions(problem: ConeProblem, *, dimension: int) -> float:
    """Return an upper bound over all unit vectors of R^d: the largest of the cones', once none is to be halved."""
    cones = _orthants(problem, dimension)
    settled, halved = -np.inf, 0
    while True:
        above = cones.bounds > problem.enough()
        settled = max(settled, float(cones.bounds[~above].max(initial=-np.inf)))
        cones = cones.only(above)
        chosen = problem.choose(cones.bounds, halved=halved) if len(cones) else np.empty(0, dtype=np.int64)
        if len(chosen) == 0:
            return max(settled, float(cones.bounds.max(initial=-np.inf)))
        kept = np.ones(len(cones), dtype=bool)
        kept[chosen] = False
        cones = cones.only(kept).followed_by(_halves(problem, cones.only(chosen)))
        halved += len(chosen)


def _orthants(problem: ConeProblem, d: int) -> Cones:
    vectors = np.concatenate([np.eye(d), -np.eye(d)])
    spanned = np.array([np.arange(d) + signs for signs in itertools.product((0, d), repeat=d)], dtype=np.int64)
    corners, heights = vectors[spanned], problem.heights(vectors)[spanned]
    return Cones(corners, heights, problem.bounds(corners, heights))


def _halves(problem: ConeProblem, cones: Cones) -> Cones:
    """Return both halves of each cone, cut in the middle of its longest edge."""
    d = cones.corners.shape[1]
    cosines = cones.corners @ cones.corners.transpose(0, 2, 1) + 2.0 * np.eye(d)
    first, second = np.divmod(cosines.reshape(len(cones), -1).argmin(axis=1), d)
    rows = np.arange(len(cones))
    middles = cones.corners[rows, first] + cones.corners[rows, second]
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    heights = problem.heights(middles)
    both = cones.followed_by(cones)
    for half, replaced in ((rows, first), (len(cones) + rows, second)):
        both.corners[half, replaced], both.heights[half, replaced] = middles, heights
    # The bound of a cone bounds its halves, too.
    return Cones(both.corners, both.heights, np.minimum(problem.bounds(both.corners, both.heights), both.bounds))
